package broker

import (
	"errors"

	"github.com/google/uuid"

	"github.com/skepmq/skep/broker/lease"
	"github.com/skepmq/skep/log/journal"
	"github.com/skepmq/skep/segment"
)

// claim is one pop's attempt on one (partition, group). The partition's lock is held
// twice and briefly: first to see what there is and to keep others off (claiming), then,
// after the messages were read without it, to take the lease.
type claim struct {
	p      *partition
	g      *group
	c      *cursor
	leases uuid.UUID
	auto   bool
	lease  int64   // seconds
	batch  int     // messages still wanted
	budget int64   // bytes of the answer still free; the first message is taken whatever its size
	first  bool    // nothing was taken yet by this pop
	pinned bool    // create the cursor also when there is nothing to deliver
	pop    *popper // counts the answer
	sub    subscription

	version uint32
	options *QueueOptions
	view    view
	from    int64

	overhead int64 // bytes a message takes in an answer beside its own fields
	bytes    int64 // left of budget
	full     bool  // the next message did not fit
	spans    []Span
	ids      []uint64
	next     int64 // one past the last message read
	skipped  int64 // messages before from that the lease covers and nobody gets
	hidden   int64 // when the next message becomes visible, by clock.stamp; 0: not hidden
	ticket   journal.Ticket
	moved    bool // the cursor was created or moved: wait for ticket before answering
}

var (
	// errRetry says that the cursor or what it looks at changed while messages were read.
	errRetry = errors.New("cursor changed")
	// errGroupGone says that the group was deleted, or a seek has put another in its
	// place. Whoever gets it looks for the group by its name again.
	errGroupGone = errors.New("group deleted")
)

// run tries to claim. part is empty if there was nothing to take.
func (cl *claim) run(b *Broker) (part PopPart, err error) {
	for {
		part, err = cl.attempt(b)
		if !errors.Is(err, errRetry) {
			return part, err
		}
	}
}

func (cl *claim) attempt(b *Broker) (part PopPart, err error) {
	ok, err := cl.begin(b)
	if !ok || err != nil {
		return part, err
	}
	if cl.sub.conflation {
		return cl.finish(b, cl.readNewest(b))
	}
	return cl.finish(b, cl.read(b))
}

// begin looks at the cursor and reserves it. ok is false if there is nothing to do.
func (cl *claim) begin(b *Broker) (ok bool, err error) {
	p := cl.p
	p.mu.Lock()
	defer p.mu.Unlock()
	committed, err := cl.seedLocked(b)
	switch {
	case p.goneLocked():
		return false, nil
	case cl.g.deleted.Load():
		return false, errGroupGone
	case p.damaged && cl.pinned:
		return false, ErrPartitionDamaged
	case p.damaged:
		return false, nil
	case err != nil:
		cl.g.ready.offer(p.index) // the disk may do better next time
		return false, err
	}
	if cl.c = p.cursorLocked(cl.g); cl.c == nil {
		if committed+1 >= p.hwm && !cl.pinned {
			return false, nil // nothing to deliver, and the seed stays implied
		}
		cl.c = p.addCursorLocked(cl.g, committed)
		if cl.pinned {
			cl.ticket, cl.moved = b.recordCursorLocked(p, cl.c, journal.OpPop, false), true
		}
	}
	if cl.pinned && !cl.moved && !cl.c.stored {
		cl.ticket, cl.moved = b.journal.Join(), true // another's request has made it
	}
	if cl.c.busy(b.clock.mono()) {
		return false, nil
	}
	if b.sealEmptyLocked(p, cl.c) || cl.c.committed+1 >= p.hwm {
		return false, nil
	}
	cl.c.claiming = true
	cl.version, cl.options = cl.c.version, p.queue.options.Load()
	cl.view = p.viewLocked()
	cl.from, cl.skipped = max(cl.c.committed+1, p.start), 0
	return true, nil
}

// sealEmptyLocked moves the cursor to the end of a partition that retention has emptied,
// so that nothing seems to be pending there.
func (b *Broker) sealEmptyLocked(p *partition, c *cursor) bool {
	if p.start < p.end || c.committed >= p.end-1 {
		return false
	}
	b.passLocked(p, c, p.end-1)
	return true
}

// passLocked moves a cursor without a live lease over messages that nobody can get any
// more, and nobody waits for its record: they are passed again. A batch of theirs ends
// with it, or acks would be told from what was handed out then.
func (b *Broker) passLocked(p *partition, c *cursor, committed int64) {
	b.dropLeaseLocked(p, c)
	c.committed = committed
	c.version++
	b.recordCursorLocked(p, c, journal.OpPop, true)
}

// seedLocked returns where the group starts if it has no cursor in the partition, see
// Broker.seedLocked.
func (cl *claim) seedLocked(b *Broker) (committed int64, err error) {
	p := cl.p
	if p.goneLocked() || p.damaged || p.cursorLocked(cl.g) != nil {
		return 0, nil
	}
	from, _ := cl.sub.start(p.number)
	return b.seedLocked(p, from)
}

// seedLocked returns where a group without a cursor starts in p. Where memory does not
// tell, it gives up the lock while it reads the index: all else about p may be different
// then. An error of the index takes p out of service.
func (b *Broker) seedLocked(p *partition, at place) (committed int64, err error) {
	if committed, known := p.knownSeedLocked(at); known {
		return committed, nil
	}
	v, end := p.viewLocked(), p.end
	p.mu.Unlock()
	committed, err = b.offsetAt(v, end, at.instantMs)
	p.mu.Lock()
	if err != nil {
		return 0, b.damageLocked(p, err)
	}
	return max(committed, p.start-1), nil
}

// reset makes the claim as if nothing was read.
func (cl *claim) reset() {
	cl.spans, cl.ids, cl.next, cl.hidden = nil, nil, cl.from, 0
	cl.bytes, cl.full = cl.budget, false
}

// read collects visible messages from cl.from on. No lock is held.
func (cl *claim) read(b *Broker) error {
	cl.reset()
	delay, quiet := cl.options.delaysMs()
	now := b.clock.stamp()
	var walkErr error
	err := b.batches(cl.view, cl.from, func(h *segment.Header, batch []byte) bool {
		if h.BaseOffset >= cl.view.hwm {
			return false
		}
		if len(cl.spans) == 0 && quiet > 0 && cl.view.hwm-max(cl.from, h.BaseOffset) < windowBufferCount {
			if opens := h.TimestampMs + quiet; opens > now {
				cl.hidden = max(opens, h.TimestampMs+delay)
				return false
			}
		}
		if delay > 0 && h.TimestampMs > now-delay {
			if len(cl.spans) == 0 {
				cl.hidden = h.TimestampMs + delay
			}
			return false
		}
		if h.Lost() {
			return cl.passLost(h)
		}
		var more bool
		more, walkErr = cl.add(h, batch)
		return more
	})
	return errors.Join(err, walkErr)
}

// passLost goes on behind messages that a repair has marked as lost, unless there are some
// before: offsets under a lease have no gaps.
func (cl *claim) passLost(h *segment.Header) (more bool) {
	if len(cl.spans) > 0 {
		return false
	}
	cl.from = min(h.EndOffset(), cl.view.hwm)
	cl.next = cl.from
	return true
}

// windowBufferCount is how many waiting messages open a partition that windowBuffer holds.
const windowBufferCount = 100

// add takes messages of one batch within the limits and reports whether more may follow.
func (cl *claim) add(h *segment.Header, batch []byte) (more bool, err error) {
	limit := min(cl.batch-int(cl.taken()), int(cl.view.hwm-max(h.BaseOffset, cl.from)))
	if !cl.pop.take(cl.unpacked(h), cl.begins()) {
		return false, cl.noRoom()
	}
	s, err := newSpan(h, batch, cl.from, limit)
	if err != nil {
		return false, err
	}
	if len(cl.spans) == 0 && s.first > cl.from {
		cl.from, cl.next = s.first, s.first // retention removed what was before
	}
	count := 0
	for m := range s.messages() {
		size := cl.overhead + int64(len(m.Payload)+len(m.TransactionID)+len(m.ProducerSub))
		if cl.bytes < size && (count > 0 || !cl.begins()) {
			cl.full = true
			break
		}
		cl.bytes -= size
		s.bytes += size
		count++
		if !cl.auto {
			cl.ids = append(cl.ids, m.deliveredHash())
		}
	}
	if !cl.pop.take(s.bytes, cl.begins()) {
		cl.ids = cl.ids[:len(cl.ids)-cl.hashed(count)]
		return false, cl.noRoom()
	}
	s.count = count
	if count > 0 {
		cl.spans = append(cl.spans, s)
		cl.next = s.first + int64(count)
	}
	return !cl.full && int(cl.taken()) < cl.batch && cl.next < cl.view.hwm, nil
}

// hashed returns how many ids were noted of count messages.
func (cl *claim) hashed(count int) int {
	if cl.auto {
		return 0
	}
	return count
}

func (cl *claim) taken() int64 { return cl.next - cl.from }

// finish takes the lease, or commits under autoAck.
func (cl *claim) finish(b *Broker, readErr error) (part PopPart, err error) {
	p, c := cl.p, cl.c
	p.mu.Lock()
	defer p.mu.Unlock()
	c.claiming = false
	if p.goneLocked() {
		return part, nil
	}
	if cl.g.deleted.Load() {
		return part, errGroupGone
	}
	if readErr != nil {
		err := b.damageLocked(p, readErr)
		if !p.damaged {
			cl.g.ready.offer(p.index) // the disk may do better next time
		}
		return part, err
	}
	if c.version != cl.version || p.queue.options.Load() != cl.options || p.start > cl.from {
		return part, errRetry // retention may have taken away a part of what was to be read
	}
	if len(cl.spans) == 0 {
		if cl.hidden > 0 {
			now := b.clock.stamp()
			b.armLocked(p, c, b.clock.mono()+max(cl.hidden-now, 0))
		}
		if cl.from == cl.view.hwm && c.committed < cl.from-1 {
			b.passLocked(p, c, cl.from-1) // nothing follows, so what is lost is pending no longer
		}
		if cl.full || p.hwm > cl.view.hwm {
			cl.g.ready.offer(p.index)
		}
		return part, nil
	}
	attempt := 1 // a batch that is acknowledged as it is handed out is so once
	if cl.auto {
		cl.takeLocked(b)
	} else {
		cl.leaseLocked(b)
		attempt = int(c.attempt)
	}
	return PopPart{
		Queue: p.queue.name, Partition: p.name, PartitionID: partitionID(b.directory, p.number),
		Spans: cl.spans, Attempt: attempt, of: p.queue,
	}, nil
}

// leaseLocked hands the messages out until the lease ends. Nobody waits for its record:
// losing it in a crash means redelivery, no more.
func (cl *claim) leaseLocked(b *Broker) {
	c := cl.c
	if c.lease != nil {
		b.leases.Remove(c.lease.id, lease.Key{Partition: cl.p.number, Group: c.group.number})
	}
	if start := cl.from - cl.skipped; c.attemptStart == start {
		c.attempt++
	} else {
		c.attemptStart, c.attempt = start, 1
	}
	deadline := b.clock.mono() + cl.lease*1000
	c.lease = &leased{id: cl.leases, deadline: deadline, from: cl.from, end: cl.next - 1, ids: cl.ids}
	c.version++
	b.leases.Add(cl.leases, lease.Key{Partition: cl.p.number, Group: c.group.number})
	b.recordCursorLocked(cl.p, c, journal.OpPop, true)
	b.armLocked(cl.p, c, deadline)
}

// takeLocked commits the messages at once. The caller waits for the record before it
// answers, and until then nothing else is handed out here.
func (cl *claim) takeLocked(b *Broker) {
	c := cl.c
	b.dropLeaseLocked(cl.p, c)
	c.commit(cl.p, cl.next-1, b.clock.stamp())
	c.version++
	c.inflight++
	cl.ticket, cl.moved = b.recordCursorLocked(cl.p, c, journal.OpPop, false), true
}

// dropLeaseLocked forgets the lease of c.
func (b *Broker) dropLeaseLocked(p *partition, c *cursor) {
	if c.lease == nil {
		return
	}
	b.leases.Remove(c.lease.id, lease.Key{Partition: p.number, Group: c.group.number})
	c.lease = nil
}

// recordCursorLocked hands the cursor's state to the journal, behind the records of what
// it belongs to, for op. lazy: nobody will wait.
func (b *Broker) recordCursorLocked(p *partition, c *cursor, op journal.Op, lazy bool) journal.Ticket {
	if !c.group.announced.Load() {
		b.announceGroup(c.group)
	}
	var buf [512]byte
	frames := buf[:0]
	if !p.announced {
		b.changed.partition(p)
		frames = p.appendRecord(frames)
	}
	b.changed.cursor(p, c)
	_, ticket := b.journal.AppendFor(op, c.appendRecord(frames, p, b.clock), lazy)
	p.announced = true
	return ticket
}

// settle ends the wait for a record of c and offers what is left.
func (b *Broker) settle(p *partition, c *cursor) {
	p.mu.Lock()
	offer, g := b.settleLocked(p, c), c.group // a transaction writes the cursor whole
	p.mu.Unlock()
	if offer {
		g.ready.offer(p.index)
	}
}

// settleLocked is settle without the offer, which it says whether to make.
func (b *Broker) settleLocked(p *partition, c *cursor) (offer bool) {
	c.inflight--
	p.queue.aging.release(p)
	return c.inflight == 0 && !p.goneLocked() && c.committed+1 < p.hwm && !c.live(b.clock.mono())
}
