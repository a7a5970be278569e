package broker

import (
	"slices"

	"github.com/google/uuid"

	"github.com/skepmq/skep/broker/lease"
	"github.com/skepmq/skep/log/journal"
	"github.com/skepmq/skep/log/record"
)

// sealed is what a lane was given under the locks.
type sealed struct {
	base, stamp int64
	id          uuid.UUID
}

// move is a cursor that a transaction moves or whose lease it ends.
type move struct {
	a    *acknowledge
	next cursor // what it becomes
}

// grave is the hidden partition of a queue that gets dead letters.
type grave struct {
	h       *partition
	stamp   int64
	end     int64 // one past the last dead letter given a place
	letters []*record.DeadLetter
	parts   []part // of the entry
}

// commitLocked writes what was decided as one entry of the journal, and makes it the
// state of the broker, not yet visible. The entry is whole on disk or absent, so is all
// that the transaction does.
func (tx *transaction) commitLocked() {
	b := tx.b
	for _, a := range tx.acks {
		if !a.decision.changes(a.c) {
			continue
		}
		tx.moves = append(tx.moves, move{a: a})
		if !a.c.group.announced.Load() {
			b.announceGroup(a.c.group)
		}
	}
	if len(tx.lanes) == 0 && len(tx.moves) == 0 {
		tx.ticket = b.journal.Join() // what it rests on must be on disk
		return
	}
	tx.lockGraves()
	defer tx.unlockGraves()
	head := tx.markLocked()
	stored, ticket := b.journal.AppendFor(journal.OpTransaction, tx.entryLocked(head), false)
	tx.ticket = ticket
	if stored == nil {
		return // nothing has changed, and the ticket says why
	}
	tx.storeLocked(stored, len(head))
	tx.bundle = tx.bundleLocked()
	tx.bundle.enlistLocked()
}

// lockGraves locks the hidden partitions of the queues that get dead letters.
func (tx *transaction) lockGraves() {
	tx.graveOf = map[*queue]*grave{}
	for i := range tx.moves {
		a := tx.moves[i].a
		if q := a.p.queue; a.decision.file && tx.graveOf[q] == nil {
			tx.graveOf[q] = &grave{h: tx.b.ensureHidden(q)}
			tx.graves = append(tx.graves, tx.graveOf[q])
		}
	}
	slices.SortFunc(tx.graves, func(x, y *grave) int { return x.h.before(y.h) })
	for _, g := range tx.graves {
		g.h.mu.Lock()
		g.end, g.stamp = g.h.end, max(tx.b.clock.stamp(), g.h.lastMs)
	}
}

func (tx *transaction) unlockGraves() {
	for _, g := range tx.graves {
		g.h.mu.Unlock()
	}
}

// markLocked lists what is about to change for the next checkpoint, and returns the
// records of partitions that have none yet. The hidden ones are listed before their dead
// letters: whoever takes those then has their payloads.
func (tx *transaction) markLocked() (head []byte) {
	announce := func(p *partition) {
		if p.announced {
			return
		}
		tx.b.changed.partition(p)
		head = p.appendRecord(head)
		p.announced = true // if the append fails, so has the journal, for good
	}
	for i := range tx.lanes {
		tx.b.changed.partition(tx.lanes[i].p)
		announce(tx.lanes[i].p)
	}
	for i := range tx.moves {
		a := tx.moves[i].a
		announce(a.p)
		tx.b.changed.cursor(a.p, a.c)
	}
	for _, g := range tx.graves {
		tx.b.changed.partition(g.h)
		announce(g.h)
	}
	return head
}

// entryLocked builds the entry: head, the batches, then cursors and dead letters.
func (tx *transaction) entryLocked(head []byte) []byte {
	b, s := tx.b, tx.s
	now := b.clock.stamp()
	for i := range tx.lanes {
		l := &tx.lanes[i]
		l.base, l.stamp = l.p.end, max(now, l.p.lastMs, l.q.floorMs.Load())
		l.id = b.newBatchID(l.stamp, l.base)
		sealParts(s.frame, l.parts, l.p, l.stamp, l.id)
	}
	entry := s.frame
	if len(head) > 0 {
		entry = append(head, s.frame...)
	}
	for i := range tx.moves {
		m := &tx.moves[i]
		m.next = *m.a.c
		m.next.apply(m.a.p, &m.a.decision, now)
		entry = m.next.appendRecord(entry, m.a.p, b.clock)
		if m.a.decision.file {
			entry = tx.buryLocked(m.a, entry)
		}
	}
	return entry
}

// buryLocked appends the dead letter of a at the next place of its grave.
func (tx *transaction) buryLocked(a *acknowledge, entry []byte) []byte {
	g := tx.graveOf[a.p.queue]
	d := tx.b.newDeadLetter(a.p, a.c, a.poison, a.errorText(a.decision.poison), a.state.retries, g.stamp)
	d.Offset = g.end
	entry, payload := tx.b.appendDeadLetter(entry, g.h, d, a.poison, g.stamp)
	g.end++
	g.letters = append(g.letters, d)
	g.parts = append(g.parts, payload)
	return entry
}

// storeLocked makes the entry that is on its way the state of the broker. Batches stand
// behind head bytes of it.
func (tx *transaction) storeLocked(stored []byte, head int) {
	b := tx.b
	for i := range tx.lanes {
		l := &tx.lanes[i]
		l.p.growPartsLocked(stored[head:], l.parts, l.stamp)
		tx.s.settleStored(b, l.batch, l.p, l.base, l.stamp, l.id)
		tx.s.settleRepeats(l.batch)
	}
	for i := range tx.moves {
		a := tx.moves[i].a
		if a.decision.released {
			b.leases.Remove(a.c.lease.id, lease.Key{Partition: a.p.number, Group: a.c.group.number})
		}
		*a.c = tx.moves[i].next
	}
	for _, g := range tx.graves {
		g.h.growPartsLocked(stored, g.parts, g.stamp)
		for _, d := range g.letters {
			g.h.queue.dead.add(d, false)
		}
	}
}

// bundleLocked lists what becomes visible together.
func (tx *transaction) bundleLocked() *bundle {
	x := &bundle{}
	ends := map[*partition]int64{}
	for i := range tx.moves {
		a := tx.moves[i].a
		x.cursors = append(x.cursors, cursorRef{a.p, a.c})
		ends[a.p] = 0
	}
	for i := range tx.lanes {
		ends[tx.lanes[i].p] = tx.lanes[i].p.end
	}
	for _, p := range tx.partitions {
		if end, ok := ends[p]; ok {
			x.shares = append(x.shares, share{of: x, p: p, end: end})
		}
	}
	for _, g := range tx.graves {
		x.shares = append(x.shares, share{of: x, p: g.h, end: g.end})
	}
	return x
}
