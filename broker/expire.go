package broker

import (
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/skepmq/skep/broker/lease"
)

// wheelTick is the resolution of deadlines: an expiry surfaces at most that late.
const wheelTick = 10 * time.Millisecond

// wheel holds the deadlines of leases and of hidden messages. An entry says only which
// cursor to look at; the cursor knows what is due, so nothing is ever removed.
type wheel struct {
	turnMu sync.Mutex // one turn at a time, until what it found due is on offer

	mu    sync.Mutex
	wheel *lease.Wheel[lease.Key]
	next  int64 // when the goroutine means to look, 0: when it is woken

	wakeC chan struct{} // capacity 1: a deadline came in before next
}

func (w *wheel) init(nowMs int64) {
	w.wheel = lease.NewWheel[lease.Key](nowMs, wheelTick)
	w.wakeC = make(chan struct{}, 1)
}

func (w *wheel) add(deadlineMs int64, k lease.Key) {
	w.mu.Lock()
	w.wheel.Add(deadlineMs, k)
	wake := w.next == 0 || deadlineMs < w.next
	w.mu.Unlock()
	if wake {
		select {
		case w.wakeC <- struct{}{}:
		default:
		}
	}
}

// advance returns what is due at now, and when to look again; 0: when woken.
func (w *wheel) advance(nowMs int64, due []lease.Key) ([]lease.Key, int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	due = w.wheel.Advance(nowMs, due)
	next, ok := w.wheel.Next()
	if !ok {
		next = 0
	}
	w.next = next
	return due, next
}

// armLocked lets the wheel look at c at deadline, or sooner. p is locked.
func (b *Broker) armLocked(p *partition, c *cursor, deadline int64) {
	if c.timerAt != 0 && c.timerAt <= deadline {
		return
	}
	c.timerAt = deadline
	b.wheel.add(deadline, lease.Key{Partition: p.number, Group: c.group.number})
}

// turnWheel is the goroutine that offers what has expired or become visible.
func (b *Broker) turnWheel() {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	var due []lease.Key
	for {
		var now, next int64
		due, now, next = b.turn(due[:0])
		pause := time.Hour
		if next > 0 {
			pause = max(wheelTick, time.Duration(next-now)*time.Millisecond)
		}
		timer.Reset(pause)
		select {
		case <-timer.C:
		case <-b.wheel.wakeC:
		case <-b.closeC:
			return
		}
	}
}

// turn offers what is due now, and says when to look again; 0: when woken.
func (b *Broker) turn(due []lease.Key) (scratch []lease.Key, now, next int64) {
	b.wheel.turnMu.Lock()
	defer b.wheel.turnMu.Unlock()
	now = b.clock.mono()
	due, next = b.wheel.advance(now, due)
	for _, k := range due {
		b.lookAt(k, now)
	}
	return due, now, next
}

// CatchUp offers whatever is due by Options.Now, and returns when that is done. The
// broker waits for deadlines in real time, so a test that moves the clock by hand has to
// say so.
func (b *Broker) CatchUp() { b.turn(nil) }

// lookAt offers the partition of a due cursor, unless its lease was extended meanwhile.
func (b *Broker) lookAt(k lease.Key, now int64) {
	p := b.partitions.get(k.Partition)
	if p == nil {
		return
	}
	if g := b.dueGroup(p, k.Group, now); g != nil {
		g.ready.offer(p.index)
	}
}

func (b *Broker) dueGroup(p *partition, group uint32, now int64) *group {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := p.cursors; c != nil; c = c.next {
		if c.group.number != group {
			continue
		}
		if c.timerAt > now {
			return nil // an entry for that is in the wheel
		}
		c.timerAt = 0
		if c.live(now) {
			b.armLocked(p, c, c.lease.deadline)
			return nil
		}
		return c.group
	}
	return nil
}

// Extend moves the deadline of every live lease that leaseID holds to seconds from now,
// never back, and returns how many there were and the earliest new deadline. An unknown,
// expired or released lease is none. Nobody waits for the disk: losing an extension in a
// crash means redelivery, no more. But that there is none may rest on what a power cut could
// undo, and is answered when that is on disk.
func (b *Broker) Extend(t Tenant, leaseID string, seconds int64) (renewed int, earliest time.Time, err error) {
	if err := b.journal.Err(); err != nil {
		return 0, time.Time{}, b.storageError(err)
	}
	id, err := uuid.Parse(leaseID)
	if err != nil {
		return 0, time.Time{}, nil
	}
	lasts := min(max(seconds, 1), maxLeaseSeconds) * 1000
	first := int64(0)
	for _, k := range b.leases.Keys(id, nil) {
		p := b.partitions.get(k.Partition)
		if p == nil || !p.queue.belongs(t) {
			continue
		}
		if d := b.extend(p, k.Group, id, lasts); d > 0 {
			renewed++
			if first == 0 || d < first {
				first = d
			}
		}
	}
	if renewed == 0 {
		return 0, time.Time{}, b.rested(nil)
	}
	return renewed, time.UnixMilli(b.clock.wallOf(first)).UTC(), nil
}

func (b *Broker) extend(p *partition, group uint32, id uuid.UUID, lastsMs int64) int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := b.clock.mono() // under the lock: who has seen the lease end is not contradicted
	deadline := now + lastsMs
	for c := p.cursors; c != nil; c = c.next {
		if c.group.number != group || c.lease == nil || c.lease.id != id || !c.live(now) {
			continue
		}
		if deadline > c.lease.deadline {
			c.lease.deadline = deadline
			b.recordCursorLocked(p, c, true)
		}
		return c.lease.deadline
	}
	return 0
}
