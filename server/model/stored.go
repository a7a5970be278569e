package model

import (
	"cmp"
	"fmt"
	"slices"
)

// Stored is a message as the list of them shows it.
type Stored struct {
	ID          string
	Key         string
	Partition   string
	Payload     string
	TraceID     string
	CreatedMs   int64
	Offset      int64
	Status      string
	QueueStatus string
	DoneBy      int
	Groups      int
	Leased      bool
}

// placed is a group's place in a partition.
type placed struct {
	group string
	c     *cursor
}

// standing returns the groups that have a place in p, queue mode first. sure is false if
// queue mode may or may not have one.
func (p *partition) standing() (all []placed, sure bool) {
	sure = true
	for _, g := range p.queue.groups() {
		if c := p.at(g); c != nil {
			sure = sure && !c.unsure
			all = append(all, placed{g, c})
		}
	}
	if i := slices.IndexFunc(all, func(at placed) bool { return at.group == QueueMode }); i > 0 {
		all[0], all[i] = all[i], all[0]
	}
	return all, sure
}

func (c *cursor) covers(offset, nowMs int64) bool {
	return c.live(nowMs) && offset >= max(c.lease.first(), c.committed+1) && offset <= c.lease.end
}

// describe says what has become of a message.
func (m *Model) describe(p *partition, msg *message, all []placed) Stored {
	s := Stored{
		ID: msg.id, Key: msg.key, Partition: p.name, Payload: msg.payload, TraceID: msg.traceID,
		CreatedMs: msg.createdMs, Offset: msg.offset, QueueStatus: "pending",
	}
	dead := slices.ContainsFunc(p.queue.letters, func(l *letter) bool { return l.partition == p && l.messageID == msg.id })
	byQueue := len(all) > 0 && all[0].group == QueueMode
	for i, at := range all {
		done := msg.offset <= at.c.committed
		s.Leased = s.Leased || at.c.covers(msg.offset, m.nowMs)
		if i > 0 || !byQueue {
			s.Groups++
			if done {
				s.DoneBy++
			}
			continue
		}
		switch {
		case done:
			s.QueueStatus = "completed"
		case at.c.covers(msg.offset, m.nowMs):
			s.QueueStatus = "processing"
		}
	}
	if dead {
		s.QueueStatus = "dead_letter"
	}
	switch s.Status = s.QueueStatus; {
	case byQueue || len(all) == 0:
	case s.DoneBy == s.Groups:
		s.Status = "completed"
	default:
		s.Status = "pending"
	}
	return s
}

// CompareStored compares the list of all messages of a queue that have a status, "" for
// any. Where queue mode may or may not have a place, what has become of messages is not
// compared.
func (m *Model) CompareStored(queue, status string, got []Stored) error {
	if !slices.IsSortedFunc(got, func(a, b Stored) int { return cmp.Compare(b.CreatedMs, a.CreatedMs) }) {
		return fmt.Errorf("messages of %s are not newest first", queue)
	}
	byPartition := map[string][]Stored{}
	for _, s := range got {
		byPartition[s.Partition] = append(byPartition[s.Partition], s)
	}
	var partitions []*partition
	if q := m.queue(queue); q != nil {
		partitions = sorted(q.partitions)
	}
	for _, p := range partitions {
		if err := m.compareStored(p, status, byPartition[p.name]); err != nil {
			return fmt.Errorf("%s: %w", p, err)
		}
		delete(byPartition, p.name)
	}
	if len(byPartition) > 0 {
		return fmt.Errorf("messages of partitions that are none: %v", byPartition)
	}
	return nil
}

func (m *Model) compareStored(p *partition, status string, got []Stored) error {
	all, sure := p.standing()
	if !sure && status != "" {
		return nil
	}
	var want []Stored
	for _, msg := range slices.Backward(p.retained()) {
		s := m.describe(p, msg, all)
		if status == "" || status == s.Status && status != "dead_letter" || status == s.QueueStatus && status == "dead_letter" {
			want = append(want, s)
		}
	}
	if len(got) != len(want) {
		return fmt.Errorf("%d messages %q, want %d", len(got), status, len(want))
	}
	for i, w := range want {
		if !sure {
			w.Status, w.QueueStatus, w.DoneBy, w.Groups, w.Leased = got[i].Status, got[i].QueueStatus, got[i].DoneBy, got[i].Groups, got[i].Leased
		}
		if got[i] != w {
			return fmt.Errorf("got %+v, want %+v", got[i], w)
		}
	}
	return nil
}
