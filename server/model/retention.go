package model

import "fmt"

// Retain drops what the rules of every queue let go by now, as a broker does that opens
// its directory, before it serves. It reports whether there was anything. Batches of the
// same time may be one by then, and stay together: Dropped tells.
func (m *Model) Retain() (dropped bool) {
	for _, p := range m.partitions() {
		start := m.cut(p, p.wholeTimes)
		dropped = dropped || start > p.start
		p.drop(start)
	}
	return dropped
}

func (p *partition) drop(start int64) {
	for _, msg := range p.messages[p.start:start] {
		// The broker tells by the message that it has minted an id.
		msg.outlived = msg.outlived || msg.key == msg.id
	}
	p.start = start
}

// mayDrop reports whether a cycle of the retainer may drop anything of q.
func (m *Model) mayDrop(q *queue) bool {
	for _, p := range q.partitions {
		if m.cut(p, p.wholeBatches) > p.start {
			return true
		}
	}
	return false
}

// Dropped takes over where a partition starts after a cycle of the retainer. That need not
// look at every partition at once, but drops whole batches, and nothing that the rules keep.
func (m *Model) Dropped(queue, partition string, start int64) error {
	p := m.partitionNamed(queue, partition)
	if p == nil {
		return fmt.Errorf("partition %q of %s was never made", partition, queue)
	}
	if most := m.cut(p, p.wholeBatches); start < p.start || start > most || p.wholeBatches(start) != start {
		return fmt.Errorf("%s starts at %d, may at whole batches from %d to %d", p, start, p.start, most)
	}
	p.drop(start)
	return nil
}

// cut returns where a partition should start by now: whole batches go from the front, as
// far as the rule that reaches furthest says.
func (m *Model) cut(p *partition, whole func(int64) int64) int64 {
	o, start := &p.queue.options, p.start
	if o.RetentionEnabled && o.RetentionSeconds > 0 {
		start = max(start, p.firstSince(m.nowMs-o.RetentionSeconds*1000))
	}
	if o.MaxWaitTimeSeconds > 0 {
		start = max(start, p.firstSince(m.nowMs-o.MaxWaitTimeSeconds*1000))
	}
	if o.RetentionEnabled && o.CompletedRetentionSeconds > 0 {
		start = max(start, whole(min(p.firstSince(m.nowMs-o.CompletedRetentionSeconds*1000), p.slowest()+1)))
	}
	return start
}

// firstSince returns the offset of the first message that is not older.
func (p *partition) firstSince(ms int64) int64 {
	for _, msg := range p.retained() {
		if msg.createdMs >= ms {
			return msg.offset
		}
	}
	return p.end()
}

// slowest is the lowest cursor of any group that surely has one; -1 without. The queue mode
// has one everywhere once it has touched any partition.
func (p *partition) slowest() int64 {
	lowest, found := p.end(), false
	for _, g := range p.queue.groups() {
		if c := p.at(g); c != nil && (!c.unsure || p.queue.met(g)) {
			lowest, found = min(lowest, c.committed), true
		}
	}
	if !found {
		return -1
	}
	return lowest
}

// wholeBatches moves an offset back to where a batch begins.
func (p *partition) wholeBatches(offset int64) int64 {
	offset = max(offset, p.start)
	for offset > p.start && offset < p.end() && p.messages[offset-1].batch == p.messages[offset].batch {
		offset--
	}
	return offset
}

// wholeTimes moves an offset back to where messages of another time end.
func (p *partition) wholeTimes(offset int64) int64 {
	offset = max(offset, p.start)
	for offset > p.start && offset < p.end() && p.messages[offset-1].createdMs == p.messages[offset].createdMs {
		offset--
	}
	return offset
}

// seal is what a pop does to the cursor of a partition that retention has emptied: it
// moves to the end, and its batch, which is gone, has ended. A pop of the whole queue may
// not have come to the partition.
func (m *Model) seal(p *partition, c *cursor, pinned bool) {
	switch {
	case p.start < p.end() || c.committed >= p.end()-1 || c.live(m.nowMs):
	case pinned:
		c.committed, c.lease = p.end()-1, nil
	default:
		c.seal = p.end()
	}
}

// maybeSealed reports whether a pop has moved the cursor, if it has come to the partition.
func (c *cursor) maybeSealed() bool { return c.seal > c.committed+1 }
