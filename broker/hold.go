package broker

import (
	"time"

	"github.com/skepmq/skep/segment"
)

// A queue with minPopWaitTime would rather deliver much at a time than little at once. A
// long poll that finds less than its batch is held before it claims anything, until there
// is enough or the oldest message has waited that long. Nothing is leased meanwhile, so
// whoever does not want to wait takes the messages, and a client that leaves has taken
// nothing.

// crowd is the requests that wait for any partition. Some are patient: they would be held
// over little. One of them at a time is the holder. While there is one the others need
// not be woken over the same messages: each would count them and go on waiting.
type crowd struct {
	eager, patient waiterList
	holder         *waiter
	turn           bool // the patient ones are asked first next time
}

// wakeFirst wakes whoever is to look at work that has come, and reports whether there was
// anybody. A holder counts again, and somebody who takes what there is looks as well.
func (c *crowd) wakeFirst() bool {
	if c.holder != nil {
		held := c.holder.wake()
		return c.eager.wakeFirst() || held
	}
	first, second := &c.eager, &c.patient
	if c.turn {
		first, second = second, first
	}
	c.turn = !c.turn
	return first.wakeFirst() || second.wakeFirst()
}

func (c *crowd) wakeAll() {
	if c.holder != nil {
		c.holder.wake()
	}
	for c.eager.wakeFirst() {
	}
	for c.patient.wakeFirst() {
	}
}

// waitPatiently lets w wait for any partition, until letGo. As the holder it is woken by
// whatever comes; if there is one already, after that. The wake-up that brought a holder
// here goes to somebody who takes what there is, if there is one.
func (r *ready) waitPatiently(w *waiter, hold bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !hold || r.waiters.holder != nil {
		r.waiters.patient.add(w, &r.mu)
		return
	}
	r.waiters.holder = w
	r.waiters.eager.wakeFirst()
}

func (r *ready) letGo(w *waiter) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.waiters.holder == w {
		r.waiters.holder = nil
	}
}

// maxCounted is how many candidates are looked at to learn how much is ready. With more
// of them nobody is held.
const maxCounted = 64

// candidates appends every candidate among the first partitions of the queue, as take
// would return them, or says that there are more than dst has room for.
func (r *ready) candidates(dst []uint32, partitions uint32) (list []uint32, all bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if int64(r.count)+max(int64(partitions)-int64(r.scan), 0) > int64(cap(dst)) {
		return dst, false
	}
	for i := range r.count {
		dst = append(dst, r.ring[(r.head+i)&(len(r.ring)-1)])
	}
	for index := r.scan; index < partitions; index++ {
		dst = append(dst, index)
	}
	return dst, true
}

// holdFor returns for how long the pop should wait for more messages before it takes
// what there is; 0: for no time. It is asked before every attempt, and in all a request
// is held for no longer than one message.
func (p *popper) holdFor(g *group) time.Duration {
	hold := g.queue.options.Load().MinPopWaitTime
	p.patient = hold > 0 && p.req.Wait > 0 && p.req.Batch > 1 && !p.impatient
	if !p.patient {
		return 0
	}
	enough, now := int64(p.req.Batch), p.b.clock.stamp()
	conflating := g.sub.Load().conflation
	if conflating {
		enough = min(enough, maxConflated)
	}
	count, oldestMs := p.b.countReady(g, enough, conflating, now)
	if count == 0 || count >= enough {
		return 0
	}
	until := oldestMs + hold
	if p.heldUntil > 0 {
		until = min(until, p.heldUntil)
	} else if until > now {
		p.heldUntil = until
	}
	return time.Duration(max(until-now, 0)) * time.Millisecond
}

// countReady counts the messages that g could have, up to enough, and tells since when
// the first of them waits. It reads memory only: where that does not tell, it counts more
// rather than less, and takes messages in segments for as young as the newest of them.
func (b *Broker) countReady(g *group, enough int64, conflating bool, now int64) (count, oldestMs int64) {
	var room [maxCounted]uint32
	list, all := g.ready.candidates(room[:0], g.queue.count.Load())
	if !all {
		return enough, 0
	}
	for _, index := range list {
		n, sinceMs := b.readyIn(g.queue.partitionAt(index), g, now)
		if n == 0 {
			continue
		}
		if conflating {
			n = 1
		}
		if count == 0 || sinceMs < oldestMs {
			oldestMs = sinceMs
		}
		if count += n; count >= enough {
			break
		}
	}
	return count, oldestMs
}

// readyIn counts what a partition has for g, and tells since when the first message waits.
// One that still is hidden hides all behind it.
func (b *Broker) readyIn(p *partition, g *group, now int64) (count, sinceMs int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.goneLocked() {
		return 0, 0 // and the tail is gone as well
	}
	from := p.start
	if c := p.cursorLocked(g); c != nil {
		if c.busy(b.clock.mono()) {
			return 0, 0
		}
		from = max(c.committed+1, p.start)
	} else if at, _ := g.sub.Load().start(p.number); at.instantMs > p.lastMs {
		return 0, 0
	}
	if from >= p.hwm || p.damaged {
		return 0, 0
	}
	sinceMs = p.filedMs
	if from >= p.filedEnd {
		h, err := segment.DecodeHeader(p.tail[tailIndex(p.tail, from)])
		if err != nil {
			return 0, 0 // the claim will say so
		}
		sinceMs = h.TimestampMs
	}
	if delay, quiet := p.queue.options.Load().delaysMs(); sinceMs+max(delay, quiet) > now {
		return 0, 0
	}
	return p.hwm - from, sinceMs
}
