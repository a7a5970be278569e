package model

import (
	"fmt"
	"slices"
)

// Seek moves a group in one partition of a queue, or with "*" in all of them, to the end
// or to an instant. It returns how many partitions there are.
func (m *Model) Seek(group, queue, partition string, toEnd bool, instantMs int64) (n int) {
	q := m.queue(queue)
	if q == nil {
		return 0
	}
	switch {
	case partition != "*" || len(q.partitions) == 0:
	case toEnd || instantMs > q.newest():
		m.afterAll(q)
	default:
		q.floorMs = max(q.floorMs, instantMs)
	}
	for _, p := range sorted(q.partitions) {
		if partition != "*" && p.name != partition {
			continue
		}
		q.polled = q.polled || group == QueueMode
		c := p.at(group)
		if c == nil {
			c = &cursor{}
		}
		p.keep(group, c)
		c.lease, c.retries, c.attempt, c.seal = nil, 0, 0, 0
		if c.committed = p.end() - 1; !toEnd {
			c.committed = p.seed(modeTimestamp, instantMs)
		}
		n++
	}
	if s, ok := q.registered[group]; ok && partition == "*" && n > 0 {
		s.dormant = false // this is a contact
		q.registered[group] = s
	}
	return n
}

// DeleteGroup forgets a group in one queue, or with "" in all. keep leaves its
// subscription, which decides again at its next contact. It returns the smallest and
// largest number of cursors there may have been.
func (m *Model) DeleteGroup(group, queue string, keep bool) (least, most int) {
	for _, q := range sorted(m.queues) {
		if queue != "" && q.name != queue {
			continue
		}
		for _, p := range sorted(q.partitions) {
			if c := p.at(group); c != nil {
				most++
				if !c.unsure {
					least++
				}
			}
			delete(p.cursors, group)
		}
		if s, ok := q.registered[group]; ok && keep {
			s.dormant = true
			q.registered[group] = s
		} else {
			delete(q.registered, group)
		}
		if group == QueueMode {
			q.polled = false
		}
	}
	return least, most
}

// MoveSubscription makes an instant the place where a group begins in partitions to come,
// in every queue where it is registered, and returns how many these are.
func (m *Model) MoveSubscription(group string, instantMs int64) (queues int) {
	for _, q := range sorted(m.queues) {
		s, ok := q.registered[group]
		if !ok {
			continue
		}
		for _, p := range sorted(q.partitions) {
			if c := p.at(group); c != nil {
				p.keep(group, c) // it stays where it is
			}
		}
		s.mode, s.instantMs = modeTimestamp, instantMs
		q.registered[group] = s
		queues++
	}
	return queues
}

// GroupRow is what the list of groups says about one of them in one queue.
type GroupRow struct {
	Name       string
	Queue      string
	Cursors    int
	WithLag    int
	Lag        int64
	MaxTimeLag int64 // seconds
	Mode       string
	Conflation bool
}

// CompareGroups compares the list of groups. Rows of queue mode are left out where it has
// only looked at a partition, and rows without a cursor may be missing.
func (m *Model) CompareGroups(got []GroupRow) error {
	for _, q := range sorted(m.queues) {
		for _, group := range q.groups() {
			want, unsure := m.groupRow(q, group)
			i := slices.IndexFunc(got, func(r GroupRow) bool { return r.Queue == q.name && r.Name == group })
			switch {
			case unsure, i < 0 && want.Cursors == 0:
				continue
			case i < 0:
				return fmt.Errorf("no row for %+v", want)
			}
			row := got[i]
			if row.MaxTimeLag-want.MaxTimeLag <= 1 { // the index knows seconds
				want.MaxTimeLag = max(want.MaxTimeLag, row.MaxTimeLag)
			}
			if row != want {
				return fmt.Errorf("got %+v, want %+v", row, want)
			}
		}
	}
	for _, row := range got {
		if q := m.queue(row.Queue); q == nil || !slices.Contains(q.groups(), row.Name) {
			return fmt.Errorf("row %+v of a group that is none", row)
		}
	}
	return nil
}

// groups returns the names of all that have or may have a place in q.
func (q *queue) groups() (names []string) {
	for g := range q.registered {
		names = append(names, g)
	}
	for _, p := range q.partitions {
		for g := range p.cursors {
			names = append(names, g)
		}
	}
	if q.polled {
		names = append(names, QueueMode)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func (m *Model) groupRow(q *queue, group string) (row GroupRow, unsure bool) {
	row = GroupRow{Name: group, Queue: q.name}
	if s, ok := q.registered[group]; ok {
		row.Mode, row.Conflation = s.mode.String(), s.conflation
	}
	unsure = group == QueueMode && q.polled && len(q.partitions) == 0
	for _, p := range q.partitions {
		c := p.at(group)
		if c == nil {
			continue
		}
		unsure = unsure || c.unsure
		row.Cursors++
		if lag := c.lag(p); lag > 0 {
			row.WithLag++
			row.Lag += lag
			first := p.messages[max(c.committed+1, p.start)]
			row.MaxTimeLag = max(row.MaxTimeLag, (m.nowMs-first.createdMs)/1000)
		}
	}
	return row, unsure
}

// GroupPlace is where a group stands in one partition.
type GroupPlace struct {
	Lag    int64
	Leased int64  // messages under a live lease
	Holder string // the lease, "" without a live one
}

// Place returns where a group stands in a partition. A group that has no place there
// owes everything.
func (m *Model) Place(group, queue, partition string) (at GroupPlace, ok bool) {
	p := m.queue(queue).partitions[partition]
	if p == nil {
		return at, false
	}
	at.Lag = p.end() - p.start
	c := p.at(group)
	if c == nil {
		return at, false
	}
	at.Lag = c.lag(p)
	if c.live(m.nowMs) {
		at.Holder = c.lease.id
		at.Leased = min(max(0, c.lease.end-max(c.committed, p.start-1, c.lease.from-1)), at.Lag)
	}
	return at, !c.unsure
}
