package broker

import (
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"github.com/skepmq/skep/log/record"
)

// dropRule says why messages were dropped.
type dropRule int

// The rules.
const (
	dropRetention dropRule = iota
	dropCompleted
	dropEviction
)

// dropCounters are what the messages of each rule are counted as.
var dropCounters = [...]Counter{dropRetention: DroppedByAge, dropCompleted: DroppedCompleted, dropEviction: DroppedByEviction}

// dropped counts what has left the disk since Open.
type dropped struct {
	segments atomic.Int64
	bytes    atomic.Int64 // of the segments
}

const (
	// lookBatch is how many partitions are taken out of a heap at a time.
	lookBatch = 1024
	// maxPauseMs bounds how long a partition that a slow group holds is left alone.
	maxPauseMs = 5 * 60_000
	// spacing and maxSpacingMs say how often a partition that keeps getting messages
	// is cut: every hundredth of the window, and every minute at least. Each cut costs
	// a reading of the index and a record, and a window is a lower bound anyway.
	spacing      = 100
	maxSpacingMs = 60_000
)

// retainer is the goroutine that drops what the rules say, segments that nothing starts
// in any more, and partitions that nobody uses.
func (b *Broker) retainer() {
	tick := time.NewTicker(b.o.RetentionInterval)
	defer tick.Stop()
	for {
		select {
		case <-b.closeC:
			return
		case <-tick.C:
			b.Retain()
		}
	}
}

// Retain lets the rules apply now. The retainer waits in real time, so a test that moves the
// clock by hand has to say so.
func (b *Broker) Retain() {
	if b.retain() {
		b.poke()
	}
}

// retain is one cycle. It reports whether there are segments that a checkpoint is to drop
// or to replace.
func (b *Broker) retain() (dead bool) {
	b.retainMu.Lock()
	defer b.retainMu.Unlock()
	b.applyRules()
	dead = b.reapSegments()
	b.cleanPartitions()
	return dead
}

// applyRules moves the starts of all partitions that are due.
func (b *Broker) applyRules() {
	var messages, partitions int64
	for _, q := range b.allQueues() {
		m, p := b.applyQueue(q)
		messages += m
		partitions += p
	}
	if messages > 0 {
		b.log.Info().Int64("messages", messages).Int64("partitions", partitions).Msg("retention has dropped messages")
	}
}

func (b *Broker) applyQueue(q *queue) (messages, partitions int64) {
	q.followRules()
	if !q.aging.active.Load() {
		return 0, 0
	}
	var list []dueEntry
	var states []agingState
	for !b.closing() && !q.deleted.Load() {
		now := b.clock.stamp()
		list = q.aging.take(now, lookBatch, list[:0])
		if len(list) == 0 {
			break
		}
		states = states[:0]
		for i := range list {
			states = append(states, list[i].p.agingState(q.aging.windows))
		}
		if b.journal.Join().Wait() != nil {
			break // a journal that has failed ends the process
		}
		for i := range list {
			if n := b.look(list[i], &states[i], now); n > 0 {
				messages += n
				partitions++
			}
		}
		if len(list) < lookBatch {
			break
		}
	}
	return messages, partitions
}

func (b *Broker) closing() bool {
	select {
	case <-b.closeC:
		return true
	default:
		return false
	}
}

// followRules begins to keep the heap by the rules in force, if they have changed. Then,
// once, every partition is looked at.
func (q *queue) followRules() {
	a := &q.aging
	w := q.options.Load().windows()
	if a.windows == w {
		return
	}
	a.windows = w
	a.windowMs.Store(w.shortest())
	a.active.Store(w.shortest() > 0)
	a.lookAgain()
	if w.shortest() == 0 {
		q.stopAging()
		return
	}
	for _, p := range q.snapshot() {
		p.mu.Lock()
		if p.start < p.end {
			a.note(p)
		}
		p.mu.Unlock()
	}
}

// stopAging empties the heap of a queue without rules.
func (q *queue) stopAging() {
	q.aging.mu.Lock()
	all := q.aging.due
	q.aging.due = nil
	q.aging.mu.Unlock()
	for _, e := range all {
		p := e.Value.p
		p.mu.Lock()
		p.aging, p.held = false, false
		p.mu.Unlock()
	}
}

// look applies the rules to a partition that is due, says when to look next, and returns
// how many messages it has dropped. s is the state of the partition, and what that rests
// on is on disk: what is dropped because it was acknowledged, or because of an option,
// must not outlive the acknowledgement or the option.
func (b *Broker) look(e dueEntry, s *agingState, nowMs int64) (messages int64) {
	p, w := e.p, e.p.queue.aging.windows
	for {
		c, err := b.decideCut(s, w, nowMs)
		if err != nil {
			b.outlived(zerolog.WarnLevel, err).Str("queue", p.queue.name).Str("partition", p.name).Msg("retention cannot read a partition")
			e.pauseMs = maxPauseMs // it is not going to be better soon
			c.offset = s.start
		}
		if messages, ok := b.applyCut(e, s, c, w, nowMs); ok {
			return messages
		}
		if *s = p.agingState(w); b.journal.Join().Wait() != nil {
			return 0
		}
	}
}

// applyCut moves the start of a partition to where it was decided, unless the decision no
// longer holds, and puts the partition back into the heap.
func (b *Broker) applyCut(e dueEntry, s *agingState, c cut, w windows, nowMs int64) (messages int64, ok bool) {
	p := e.p
	groups := *p.queue.groupList.Load()
	if c.offset > s.start && c.rule != dropCompleted {
		b.lockPlaced(p, groups)
	} else {
		p.mu.Lock()
	}
	defer p.mu.Unlock()
	if e.seq != p.dueSeq {
		return 0, true // a later entry looks
	}
	if !p.goneLocked() && c.offset > p.start {
		now := p.agingStateLocked(w)
		if !now.allows(s, c) {
			return 0, false
		}
		messages = c.offset - p.start
		if c.rule != dropCompleted {
			b.noteUnreadLocked(p, groups, c.offset)
		}
		b.cutLocked(p, c)
		b.count(p.queue, dropCounters[c.rule], messages)
	}
	if p.goneLocked() || p.start == p.end {
		p.aging = false // its next message puts it back
		return messages, true
	}
	p.queue.aging.add(b.nextLookLocked(e, w, nowMs, messages > 0))
	return messages, true
}

// nextLookLocked says when to look at the partition of e again: when its first message is
// due. If that should have gone by now, somebody holds it: a group, or the disk. Then less
// and less often, so that an abandoned group costs next to nothing; the acknowledgement that
// lets go of it makes it due.
func (b *Broker) nextLookLocked(e dueEntry, w windows, nowMs int64, moved bool) dueEntry {
	startMs, pauseMs := b.clock.dated(e.p.startMs), e.pauseMs
	e.p.held = false
	e.dueMs, e.pauseMs = startMs+w.shortest()+1, 0
	if moved {
		e.dueMs = max(e.dueMs, nowMs+min(w.shortest()/spacing, maxSpacingMs))
	}
	if e.dueMs > nowMs {
		return e
	}
	e.pauseMs = min(max(2*pauseMs, b.o.RetentionInterval.Milliseconds(), 1), maxPauseMs)
	e.dueMs = nowMs + e.pauseMs
	e.p.held = w.completed > 0
	if age, _ := w.age(); age > 0 && startMs+age >= nowMs {
		e.dueMs = min(e.dueMs, startMs+age+1)
	}
	return e
}

// noteUnreadLocked counts what each group loses that has not acknowledged it, with the places
// of all of them known.
func (b *Broker) noteUnreadLocked(p *partition, groups []*group, start int64) {
	for _, g := range groups {
		if floor, _, ok := p.standingLocked(g); ok && floor+1 < start && !g.deleted.Load() {
			g.evicted.Add(start - floor - 1)
			b.count(p.queue, EvictedUnread, start-floor-1)
		}
	}
}

// cutLocked moves the start of p. Nobody waits for its record: should a crash lose it, the
// rules apply again before the broker serves. It is marked, so that the next checkpoint
// has it in the catalogue, and segments can go.
func (b *Broker) cutLocked(p *partition, c cut) {
	p.start, p.startMs, p.filedBytes = c.offset, c.startMs, c.bytes
	if c.offset >= p.filedEnd {
		b.mendLocked(p) // what was damaged lay in a segment
	}
	b.changed.partition(p)
	b.journal.Append(record.AppendCut(nil, &record.Cut{Partition: p.number, Start: c.offset, StartMs: c.startMs}), true)
	p.queue.aging.loose.Store(true)
}
