package broker

import (
	"cmp"
	"slices"
)

// GroupInfo describes a consumer group of one queue.
type GroupInfo struct {
	Name    string
	Queue   string
	Cursors int // partitions in which the group has a place

	PartitionsWithLag int
	Lag               int64 // messages stored and not acknowledged
	LagSeconds        int64 // age of the oldest one
	Consumed          bool  // an acknowledgement has passed a message
	EvictedUnread     int64 // messages that age rules have dropped since Open before they were acknowledged

	Registered bool // the rest says how
	Mode       string
	InstantMs  int64
	CreatedMs  int64
	Conflation bool
}

// modeNames are the subscription modes as clients spell them.
var modeNames = [...]string{modeAll: "all", modeNew: "new", modeTimestamp: "timestamp"}

// Groups describes the groups of the tenant's queues, sorted by group and queue. It walks
// over their partitions and locks each for a moment.
func (b *Broker) Groups(t Tenant) ([]GroupInfo, error) { return b.groupsOf(b.tenantQueues(t)), nil }

// AllGroups is Groups for all tenants at once.
func (b *Broker) AllGroups() ([]GroupInfo, error) {
	return b.groupsOf(slices.DeleteFunc(b.allQueues(), (*queue).isSpool)), nil
}

func (b *Broker) groupsOf(queues []*queue) (infos []GroupInfo) {
	for _, q := range queues {
		for _, g := range *q.groupList.Load() {
			if info := b.groupInfo(g); info.Cursors > 0 || info.Registered {
				infos = append(infos, info)
			}
		}
	}
	slices.SortFunc(infos, func(x, y GroupInfo) int {
		return cmp.Or(cmp.Compare(x.Name, y.Name), cmp.Compare(x.Queue, y.Queue))
	})
	return infos
}

func (b *Broker) groupInfo(g *group) GroupInfo {
	sub := g.sub.Load()
	info := GroupInfo{
		Name: g.name, Queue: g.queue.name, Registered: sub.registered, Conflation: sub.conflation, Consumed: sub.consumed,
		EvictedUnread: g.evicted.Load(),
	}
	if sub.registered {
		info.Mode, info.InstantMs, info.CreatedMs = modeNames[sub.mode], sub.instantMs, g.createdMs
	}
	for _, p := range g.queue.snapshot() {
		s, ok := b.stand(p, g)
		if !ok {
			continue
		}
		info.Cursors++
		info.Lag += s.Lag
		info.LagSeconds = max(info.LagSeconds, s.LagSeconds)
		info.Consumed = info.Consumed || s.Consumed > 0
		if s.Lag > 0 {
			info.PartitionsWithLag++
		}
	}
	return info
}

// GroupQueue is a group's part in one queue.
type GroupQueue struct {
	Queue         string
	Conflation    bool
	EvictedUnread int64            // as in GroupInfo
	Partitions    []GroupPartition // by name, as far as they were asked for
	Count         int              // of partitions in which the group has a place
}

// Group describes a group in each of the tenant's queues where it has a cursor, by name
// of the queue. Of each it tells about limit partitions from offset on, in order of their
// names.
func (b *Broker) Group(t Tenant, name string, offset, limit int) ([]GroupQueue, error) {
	var found []GroupQueue
	for _, q := range b.tenantQueues(t) {
		g := q.group(name)
		if g == nil {
			continue
		}
		if gq := b.groupQueue(g, offset, limit); gq.Count > 0 {
			found = append(found, gq)
		}
	}
	slices.SortFunc(found, func(x, y GroupQueue) int { return cmp.Compare(x.Queue, y.Queue) })
	return found, nil
}

func (b *Broker) groupQueue(g *group, offset, limit int) GroupQueue {
	var touched []*partition
	for _, p := range g.queue.snapshot() {
		p.mu.Lock()
		_, implied := g.implied(p.number)
		has := p.announced && (implied || p.cursorLocked(g) != nil)
		p.mu.Unlock()
		if has {
			touched = append(touched, p)
		}
	}
	slices.SortFunc(touched, func(x, y *partition) int { return cmp.Compare(x.name, y.name) })
	gq := GroupQueue{
		Queue: g.queue.name, Conflation: g.sub.Load().conflation, EvictedUnread: g.evicted.Load(), Count: len(touched),
	}
	touched = touched[min(max(offset, 0), len(touched)):]
	for _, p := range touched[:min(max(limit, 0), len(touched))] {
		if s, ok := b.stand(p, g); ok {
			gq.Partitions = append(gq.Partitions, s)
		}
	}
	return gq
}

// LaggingPartition is a partition in which a group is behind.
type LaggingPartition struct {
	Group string
	Queue string
	GroupPartition
}

// Lagging returns where groups of the tenant have messages older than minSeconds left,
// worst first, at most limit of them.
func (b *Broker) Lagging(t Tenant, minSeconds int64, limit int) ([]LaggingPartition, error) {
	var rows []LaggingPartition
	for _, q := range b.tenantQueues(t) {
		for _, g := range *q.groupList.Load() {
			for _, p := range q.snapshot() {
				s, ok := b.stand(p, g)
				if !ok || s.Lag == 0 || s.LagSeconds <= minSeconds {
					continue
				}
				// Rows that will not be shown are not kept for long.
				if rows = append(rows, LaggingPartition{g.name, q.name, s}); len(rows) >= 2*limit+1024 {
					rows = worstFirst(rows, limit)
				}
			}
		}
	}
	return worstFirst(rows, limit), nil
}

// worstFirst sorts rows and keeps limit of them.
func worstFirst(rows []LaggingPartition, limit int) []LaggingPartition {
	slices.SortFunc(rows, func(x, y LaggingPartition) int {
		return cmp.Or(cmp.Compare(x.OldestMs, y.OldestMs), cmp.Compare(x.Group, y.Group),
			cmp.Compare(x.Queue, y.Queue), cmp.Compare(x.Partition, y.Partition))
	})
	return rows[:min(max(limit, 0), len(rows))]
}

// Depth returns the partitions of a queue with what a group has left in each, sorted by
// name, and whether the group conflates. A group without a cursor owes everything kept.
func (b *Broker) Depth(t Tenant, queueName, name string) (partitions []PartitionInfo, conflation bool, err error) {
	q := b.queue(t, queueName)
	if q == nil {
		return nil, false, ErrQueueNotFound
	}
	g := q.group(name)
	var groups []*group
	if g != nil {
		groups, conflation = append(groups, g), g.sub.Load().conflation
	}
	now := b.clock.mono()
	b.walk(q, groups, func(p *partition) {
		info := PartitionInfo{ID: partitionID(b.directory, p.number), Name: p.name, CreatedAtMs: p.createdMs, Total: p.hwm - p.start}
		info.Pending = info.Total
		if g != nil {
			if floor, c, ok := p.standingLocked(g); ok {
				lag, leased := p.owedLocked(floor, c, now)
				info.Pending, info.Processing = lag-leased, leased
			}
		}
		partitions = append(partitions, info)
	})
	slices.SortFunc(partitions, func(x, y PartitionInfo) int { return cmp.Compare(x.Name, y.Name) })
	return partitions, conflation, nil
}
