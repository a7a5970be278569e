package broker

import (
	"errors"

	"github.com/skepmq/skep/log/journal"
)

// SeekTarget is where a seek moves a group to: behind everything stored so far, or to the
// first batch stored at TimestampMs or later. Where nothing is that recent it is the end;
// what is older than everything retained is the beginning.
type SeekTarget struct {
	ToEnd       bool
	TimestampMs int64
}

// Seek moves a group in all partitions of a queue and returns, when that is on disk, how
// many there are. Leases of the group end, retry counters go back to 0, and pops that wait
// look again. A group that does not exist is made, without a registration.
//
// Errors: ErrQueueNotFound, also for a queue without partitions; ErrStorageFailed,
// ErrClosed.
func (b *Broker) Seek(t Tenant, name, queueName string, to SeekTarget) (partitions int, err error) {
	q := b.queue(t, queueName)
	if q == nil {
		return 0, b.rested(ErrQueueNotFound)
	}
	if err := b.mayMake(func() bool { return q.group(name) != nil }); err != nil {
		return 0, err
	}
	partitions, consumed := q.survey(q.group(name))
	if partitions == 0 {
		return 0, b.rested(ErrQueueNotFound)
	}
	r := b.replaceGroup(q, name, func(old *group) *subscription {
		sub := subscription{}
		if old != nil {
			sub = *old.sub.Load()
		}
		sub.placed, sub.placedBelow = b.placeLocked(q, to), b.nextPartition.Load()
		sub.consumed = sub.consumed || consumed
		return &sub
	})
	if r.next == nil {
		return 0, b.rested(ErrQueueNotFound) // deleted in between
	}
	r.sweep(b)
	if err := r.wait(b); err != nil {
		return 0, b.storageError(err)
	}
	return partitions, nil
}

// survey counts the partitions of q, and tells whether g, if there is one, has ever
// acknowledged something in them.
func (q *queue) survey(g *group) (partitions int, consumed bool) {
	for _, p := range q.snapshot() {
		p.mu.Lock()
		if p.announced {
			partitions++
		}
		if c := p.cursorLocked(g); c != nil && c.consumed > 0 {
			consumed = true
		}
		p.mu.Unlock()
	}
	return partitions, consumed
}

// placeLocked returns the target as a place in every partition of q there is. q is locked.
func (b *Broker) placeLocked(q *queue, to SeekTarget) place {
	if to.ToEnd || to.TimestampMs > q.newestMs.Load() {
		// What comes later is behind the end, whatever its time and that of the target.
		return place{modeNew, b.afterAllLocked(q)}
	}
	raise(&q.floorMs, to.TimestampMs)
	return place{modeTimestamp, to.TimestampMs}
}

// SeekPartition is Seek for one partition.
//
// Errors: ErrPartitionNotFound, also for a queue that does not exist; ErrStorageFailed,
// ErrClosed, ErrPartitionDamaged, and those of reading the index.
func (b *Broker) SeekPartition(t Tenant, name, queueName, partitionName string, to SeekTarget) error {
	for {
		q := b.queue(t, queueName)
		if q == nil {
			return b.rested(ErrPartitionNotFound)
		}
		p := q.partition(partitionName)
		if p == nil {
			return b.rested(ErrPartitionNotFound)
		}
		if err := b.mayMake(func() bool { return q.group(name) != nil }); err != nil {
			return err
		}
		s := seeking{b: b, p: p, to: to}
		switch err := s.run(name); {
		case errors.Is(err, errGroupGone):
		case errors.Is(err, ErrPartitionNotFound):
			return b.rested(err)
		default:
			return err
		}
	}
}

// seeking is the seek of one group in one partition.
type seeking struct {
	b  *Broker
	p  *partition
	g  *group
	c  *cursor
	to SeekTarget
}

func (s *seeking) run(group string) error {
	committed, err := s.find()
	if err != nil {
		return err
	}
	s.g = s.b.ensureGroup(s.p.queue, group)
	ticket, err := s.move(committed)
	if err != nil {
		return err
	}
	err = ticket.Wait()
	s.b.settle(s.p, s.c) // offers the partition to those who wait
	if err != nil {
		return s.b.storageError(err)
	}
	return nil
}

// find returns the committed offset that the target means.
func (s *seeking) find() (committed int64, err error) {
	p := s.p
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case !p.announced || p.goneLocked():
		return 0, ErrPartitionNotFound
	case s.to.ToEnd:
		return p.end - 1, nil
	}
	return s.b.seedLocked(p, place{modeTimestamp, s.to.TimestampMs})
}

// move sets the cursor and hands its record to the journal. Nothing is handed out until
// that is on disk.
func (s *seeking) move(committed int64) (t journal.Ticket, err error) {
	b, p := s.b, s.p
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.goneLocked() {
		return t, ErrPartitionNotFound
	}
	if s.g.deleted.Load() {
		return t, errGroupGone
	}
	committed = max(committed, p.start-1)
	c := p.cursorLocked(s.g)
	if c == nil {
		c = p.addCursorLocked(s.g, committed)
	}
	b.dropLeaseLocked(p, c)
	c.committed = committed
	c.retries, c.attempt, c.attemptStart = 0, 0, -1
	c.version++
	c.inflight++
	s.c = c
	return b.recordCursorLocked(p, c, journal.OpOther, false), nil
}

// MoveSubscription makes an instant the place where a group begins in partitions that
// come into being from now on, in every queue where it is registered, and returns, when
// that is on disk, how many queues these are. In partitions that exist it stays where it
// is. Errors: ErrStorageFailed, ErrClosed, and those of reading the index.
func (b *Broker) MoveSubscription(t Tenant, name string, instantMs int64) (queues int, err error) {
	var last journal.Ticket
	for _, q := range b.tenantQueues(t) {
		ticket, moved, err := b.moveSubscription(q, name, instantMs)
		if err != nil {
			return 0, err
		}
		if moved {
			queues++
			last = ticket
		}
	}
	if queues == 0 {
		return 0, b.rested(nil)
	}
	if err := last.Wait(); err != nil {
		return 0, b.storageError(err)
	}
	return queues, nil
}

func (b *Broker) moveSubscription(q *queue, name string, instantMs int64) (t journal.Ticket, moved bool, err error) {
	for {
		g := q.group(name)
		if g == nil || !g.sub.Load().registered {
			return t, false, nil
		}
		old := g.sub.Load()
		if !old.holdsPlaced() {
			if err := b.holdCursors(q, g, old.placedBelow); err != nil {
				return t, false, err
			}
		}
		if t, moved = b.restartSubscription(g, old, instantMs); moved || q.deleted.Load() {
			return t, moved, nil
		}
		// The group was replaced, or its subscription changed, in between.
	}
}

// holdsPlaced reports whether the partitions that exist can be kept where they are by
// placing them: a subscription has room for one such place.
func (s *subscription) holdsPlaced() bool {
	return s.dormant() || s.placedBelow == 0 || s.placed == s.place
}

// restartSubscription replaces the subscription old of g. It keeps the group in its place
// in every partition that exists; those from old.placedBelow on have stored cursors if
// there is no room for their place.
func (b *Broker) restartSubscription(g *group, old *subscription, instantMs int64) (t journal.Ticket, ok bool) {
	q := g.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	if g.sub.Load() != old || g.deleted.Load() || q.deleted.Load() {
		return t, false
	}
	sub := *old
	if old.holdsPlaced() && !old.dormant() {
		sub.placed, sub.placedBelow = old.place, b.nextPartition.Load()
	}
	// A timestamp whatever it was before: the mode all has no instant, and one of new
	// must not lie ahead.
	sub.place = place{modeTimestamp, instantMs}
	g.sub.Store(&sub)
	return b.announceGroupLocked(g), true
}

// holdCursors stores the cursors of g in the partitions numbered from on, so that they do
// not follow from the subscription any more. The records come before the subscription's.
// In a damaged partition it is the oldest message. Errors: those of reading the index.
func (b *Broker) holdCursors(q *queue, g *group, from uint64) error {
	for _, p := range q.snapshot() {
		if p.number < from {
			continue
		}
		if err := b.holdCursor(p, g); err != nil {
			return err
		}
	}
	return nil
}

func (b *Broker) holdCursor(p *partition, g *group) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := b.placeGroupsLocked(p, []*group{g}); err != nil && !p.damaged {
		return err
	}
	if floor, c, ok := p.standingLocked(g); ok && p.announced && !g.deleted.Load() {
		if c == nil {
			c = p.addCursorLocked(g, floor)
		}
		b.recordCursorLocked(p, c, journal.OpOther, true)
	}
	return nil
}
