package main

import (
	"bytes"
)

// place is a group's place in a stream.
type place struct {
	stream *stream
	group  string

	// The cursor, as a position, is at least lo. It is at most hi(), see there. steps
	// are the latest moves of lo.
	lo    int
	steps []step
	seen  int // highest position delivered to this group, -1 for none
	// The retry counter is between these, not counting what ops may have done.
	retriesLo, retriesHi int
	ops                  []*ackOp // acks without an answer yet, or ever
	lease                *lease   // the latest
	counted              int      // serial of the latest lease whose ack has changed the counter
	dead                 map[int]certainty
}

// step says that the cursor was at least lo from a moment on.
type step struct {
	at moment
	lo int
}

// certainty says whether a message was dead-lettered.
type certainty uint8

const (
	perhaps certainty = iota + 1
	certain
)

func newPlace(s *stream, group string) *place {
	return &place{stream: s, group: group, lo: -1, seen: -1, dead: map[int]certainty{}}
}

// advance notes that the cursor is at least at lo, at the latest since at.
func (p *place) advance(lo int, at moment) {
	if lo <= p.lo {
		return
	}
	p.lo = lo
	if len(p.steps) == keptSteps {
		p.steps = append(p.steps[:0], p.steps[keptSteps/2:]...)
	}
	p.steps = append(p.steps, step{at, lo})
}

// loAt is what lo certainly was at a moment.
func (p *place) loAt(at moment) int {
	for i := len(p.steps) - 1; i >= 0; i-- {
		if p.steps[i].at < at {
			return p.steps[i].lo
		}
	}
	return -1
}

// hi is the highest position the cursor can have.
func (p *place) hi() int { return p.hiWithout(nil) }

func (p *place) hiWithout(op *ackOp) int {
	hi := p.lo
	for _, o := range p.ops {
		if o != op {
			hi = max(hi, o.mostCommitted())
		}
	}
	return hi
}

// startPop is called before p is sent.
func (c *checker) startPop(p *pop) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if p.autoAck {
		c.pops = append(c.pops, p)
	}
}

// losePop says that p got no answer; it may have leased something, or taken it.
func (c *checker) losePop(p *pop) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.losePopLocked(p)
}

func (c *checker) losePopLocked(p *pop) {
	p.outcome = unknown
	if p.autoAck && !p.late {
		c.lostTakes[p.queue] += p.batch
	}
}

// endPop takes the messages of an answer, none for an empty one. It returns what was
// delivered of each partition, or nil if it does not count.
func (c *checker) endPop(p *pop, messages []delivered) []*part {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.counts(&p.request) {
		c.losePopLocked(p)
		return nil
	}
	if len(messages) == 0 {
		return nil
	}
	if !p.autoAck {
		c.pops = append(c.pops, p)
	}
	if len(messages) > p.batch {
		c.violate("pop answer", nil, "%d messages for batch=%d", len(messages), p.batch)
	}
	for from := 0; from < len(messages); {
		to := from + 1
		for to < len(messages) && messages[to].PartitionID == messages[from].PartitionID {
			to++
		}
		part := c.takePart(p, messages[from:to])
		if part == nil {
			return nil
		}
		p.parts = append(p.parts, part)
		from = to
	}
	c.checkParts(p)
	return p.parts
}

func (c *checker) checkParts(p *pop) {
	seen := map[*stream]bool{}
	for _, part := range p.parts {
		if seen[part.stream] {
			c.violate("pop answer", part.messages[0], "partition %q twice in one answer", part.stream.partition)
		}
		seen[part.stream] = true
	}
	if p.partitions > 0 && len(p.parts) > p.partitions {
		c.violate("pop answer", nil, "%d partitions for partitions=%d", len(p.parts), p.partitions)
	}
}

// takePart checks the messages of one partition and takes them over.
func (c *checker) takePart(p *pop, messages []delivered) *part {
	part := &part{messages: make([]*message, len(messages))}
	for i := range messages {
		m := c.recognize(p, &messages[i])
		if m == nil {
			return nil
		}
		part.messages[i] = m
	}
	part.stream = part.messages[0].stream
	for _, m := range part.messages {
		if m.stream != part.stream {
			c.violate("misplaced", m, "delivered with partition id %s, among messages of partition %q", messages[0].PartitionID, part.stream.partition)
			return nil
		}
	}
	c.totals.deliveries += len(messages)
	if p.late {
		return part
	}
	if p.autoAck {
		return c.takeAway(part)
	}
	pl := part.stream.places[p.group]
	if !c.checkSpan(p, pl, part) {
		return nil
	}
	part.lease = c.grant(p, pl, part, &messages[0])
	observe(p, pl, part.messages[0].position)
	return part
}

// recognize finds out which message d is, and checks that it is delivered as it was sent.
func (c *checker) recognize(p *pop, d *delivered) *message {
	n, ok := payloadNumber(d.Data)
	var m *message
	if ok {
		m = c.find(n)
	}
	if m == nil || !m.isSent() {
		c.violate("phantom", m, "%s delivered to %q of queue %q: number %d was never sent, or belongs to a deleted queue; transaction id %q, data %.100q",
			d.ID, p.group, p.queue.name, n, d.TransactionID, d.Data)
		return nil
	}
	s := m.stream
	switch {
	case s.queue != p.queue:
		c.violate("misplaced", m, "delivered by queue %q, generation %d", p.queue.name, p.queue.generation)
	case s.partition != d.Partition || p.partition != "" && p.partition != d.Partition:
		c.violate("misplaced", m, "delivered in partition %q, pinned %q", d.Partition, p.partition)
	case s.id != "" && s.id != d.PartitionID:
		c.violate("partition id", m, "partition id %s, was %s", d.PartitionID, s.id)
	case m.txn != "" && m.txn != d.TransactionID:
		c.violate("ids changed", m, "delivered with transaction id %q, was %q", d.TransactionID, m.txn)
	case m.id != "" && m.id != d.ID:
		c.violate("ids changed", m, "delivered with id %s, was %s", d.ID, m.id)
	case d.Group != p.group || (d.LeaseID == "") != p.autoAck:
		c.violate("pop answer", m, "delivered to group %q with lease %q", d.Group, d.LeaseID)
	case !c.sameData(m, d.Data):
		c.violate("payload changed", m, "%d bytes delivered: %.100q", len(d.Data), d.Data)
	default:
		s.id, m.id = d.PartitionID, d.ID
		if m.txn == "" {
			m.txn = d.TransactionID // one chosen by its producer is read without the lock
		}
		return m
	}
	return nil
}

func (c *checker) sameData(m *message, data []byte) bool {
	c.scratch = c.payloads.append(c.scratch[:0], m.number)
	return bytes.Equal(c.scratch, data)
}

// takeAway notes an autoAck delivery, which happens once at most.
func (c *checker) takeAway(part *part) *part {
	for _, m := range part.messages {
		if m.taken {
			c.violate("delivered twice", m, "delivered under autoAck before")
			return nil
		}
		m.taken = true
	}
	return part
}

// checkSpan checks that what was delivered begins right behind the cursor and has no
// gap. Messages that are new get their positions.
func (c *checker) checkSpan(p *pop, pl *place, part *part) bool {
	s, first := part.stream, part.messages[0]
	lo, hi := pl.loAt(p.sent), pl.hi()
	start := first.position
	if start < 0 {
		start = len(s.log)
	}
	if start <= lo {
		c.violate("redelivered after ack", first, "group %q: delivered at position %d again; the cursor was at %d before the pop was sent", pl.group, start, lo)
		return false
	}
	if start > hi+1 {
		c.violate("skipped", s.log[hi+1], "group %q: a delivery begins at position %d (message %d), but the cursor is at %d at most", pl.group, start, first.number, hi)
		return false
	}
	for i, m := range part.messages {
		if m.position < 0 && start+i == len(s.log) {
			c.appendToLog(m, p.end)
			continue
		}
		if m.position != start+i {
			c.violate("order", m, "group %q: position %d, delivered where position %d is due", pl.group, m.position, start+i)
			return false
		}
		if m.position <= pl.seen {
			c.totals.redeliveries++
		}
	}
	pl.seen = max(pl.seen, start+len(part.messages)-1)
	return true
}
