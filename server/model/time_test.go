package model

import (
	"cmp"
	"slices"

	"pgregory.net/rapid"
)

// deadline is an instant to come at which something changes by itself, and the operation
// that finds out whether it has.
type deadline struct {
	atMs int64
	look operation
}

func (x *machine) advance(t *rapid.T) error {
	ms := rapid.SampledFrom([]int64{1, 500, 1000, 2000, 5000, 60_000, 3_600_000}).Draw(t, "ms")
	if due := x.deadlines(); len(due) > 0 && !chance(t, 3, "anywhere") {
		d := rapid.SampledFrom(due).Draw(t, "deadline")
		// The next operation comes a millisecond early, in time, or late.
		ms = d.atMs + rapid.Int64Range(-2, 1).Draw(t, "off") - x.m.nowMs
		x.next = &d.look
	}
	ms = max(ms, 1)
	x.tick(ms)
	x.note("by %dms", ms)
	return nil
}

// deadlines returns those that come first.
func (x *machine) deadlines() (due []deadline) {
	add := func(atMs int64, name string, run func(*machine, *rapid.T) error) {
		if atMs > x.m.nowMs {
			due = append(due, deadline{atMs, operation{name: name, run: run}})
		}
	}
	for _, h := range x.held("", true) {
		add(h.c.lease.expiryMs, "pop at the end of a lease", func(x *machine, t *rapid.T) error { return x.popAgain(t, h.p, h.group) })
		add(h.c.lease.expiryMs, "ack at the end of a lease", func(x *machine, t *rapid.T) error {
			if h.c.lease == nil {
				return nil
			}
			msg := h.p.messages[h.c.lease.end]
			return x.sendAcks(h.group, []Ack{{Key: msg.key, PartitionID: h.p.id, LeaseID: h.c.lease.id, Status: "completed"}}, true)
		})
	}
	for _, p := range x.m.partitions() {
		o, seen := &p.queue.options, map[int64]bool{}
		for _, msg := range p.retained() {
			if seen[msg.createdMs] {
				continue // the messages of one push share their deadlines
			}
			seen[msg.createdMs] = true
			pop := func(x *machine, t *rapid.T) error { return x.popAgain(t, p, pickName(t, groupNames, "group")) }
			add(msg.createdMs+o.DelayedProcessing*1000, "pop after a delay", pop)
			add(msg.createdMs+o.WindowBuffer*1000, "pop after a window", pop)
			add(msg.createdMs+o.DedupWindowSeconds*1000, "push again", func(x *machine, _ *rapid.T) error {
				return x.sendPush([]Item{x.item(p.queue.name, p.name, msg.key)})
			})
			add(msg.createdMs+o.ackWindowMs(), "ack late", func(x *machine, t *rapid.T) error {
				group := pickName(t, groupNames, "group")
				return x.sendAcks(cmp.Or(group, QueueMode), []Ack{{Key: msg.key, PartitionID: cmp.Or(p.id, nilUUID), Status: "completed"}}, true)
			})
		}
	}
	slices.SortStableFunc(due, func(a, b deadline) int { return cmp.Compare(a.atMs, b.atMs) })
	return due[:min(len(due), 30)]
}

// popAgain pops from one partition, or lets the broker choose.
func (x *machine) popAgain(t *rapid.T, p *partition, group string) error {
	if group == QueueMode {
		group = ""
	}
	r := &Pop{Queue: p.queue.name, Group: group, Batch: 200, Partitions: 0, AutoAck: chance(t, 3, "autoAck")}
	if chance(t, 2, "pinned") {
		r.Pinned, r.Partition = true, p.name
	}
	return x.sendPop(r, false)
}

// crowd pushes as many messages as open a partition that windowBuffer holds for a group,
// or one less, and lets the group have a look.
func (x *machine) crowd(t *rapid.T) error {
	q, group := pickName(t, queueNames, "queue"), pickName(t, groupNames, "group")
	name := pickName(t, partitionNames, "partition")
	unseen := 0
	if p := x.m.partitionNamed(q, name); p != nil {
		unseen = int(p.end() - p.start)
		if c := p.at(cmp.Or(group, QueueMode)); c != nil {
			unseen = int(c.lag(p))
		}
	}
	n := 99 + rapid.IntRange(0, 1).Draw(t, "enough") - unseen
	var items []Item
	for range max(n, 1) {
		items = append(items, x.item(q, name, ""))
	}
	x.next = &operation{name: "pop from a crowd", run: func(x *machine, t *rapid.T) error {
		if p := x.m.partitionNamed(q, name); p != nil {
			return x.popAgain(t, p, group)
		}
		return nil // what was pushed is spooled
	}}
	return x.sendPush(items)
}
