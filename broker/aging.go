package broker

import (
	"sync"
	"sync/atomic"

	"github.com/skepmq/skep/broker/lease"
)

// windows are the age rules of a queue, in milliseconds. 0: the rule is off. A window is
// how long a message is kept at least.
type windows struct {
	retention int64 // drops messages, consumed or not
	completed int64 // drops what every group is done with
	eviction  int64 // as retention, and has a switch of its own
}

func (o *QueueOptions) windows() (w windows) {
	if o.RetentionEnabled {
		w.retention, w.completed = windowMs(o.RetentionSeconds), windowMs(o.CompletedRetentionSeconds)
	}
	w.eviction = windowMs(o.MaxWaitTimeSeconds)
	return w
}

// delaysMs are delayedProcessing and windowBuffer in milliseconds, 0 for none.
func (o *QueueOptions) delaysMs() (delay, quiet int64) {
	return windowMs(o.DelayedProcessing), windowMs(o.WindowBuffer)
}

// windowMs converts an option that is stored as given: of any size, and below zero too.
func windowMs(seconds int64) int64 { return min(max(seconds, 0), maxLeaseSeconds) * 1000 }

// age returns the window that no message outlives, and the rule it belongs to.
func (w windows) age() (ms int64, rule dropRule) {
	if w.eviction > 0 && (w.retention == 0 || w.eviction < w.retention) {
		return w.eviction, dropEviction
	}
	return w.retention, dropRetention
}

// shortest returns the age at which a message is first looked at, 0: never.
func (w windows) shortest() int64 {
	age, _ := w.age()
	if w.completed > 0 && (age == 0 || w.completed < age) {
		return w.completed
	}
	return age
}

// aging knows when which partition of a queue has something that a rule may drop. A
// partition that holds messages is in due once while any rule is active: it gets there
// with its first message, and again whenever it was looked at. So nothing is ever looked
// at that is not due.
type aging struct {
	// active says that due is kept, at windowMs past a first message. Stored before the
	// partitions are walked, and read under a partition's lock: one of the two sees
	// the other.
	active   atomic.Bool
	windowMs atomic.Int64
	// loose says that segments may have become dead: a start has moved since they were
	// last looked at, or something keeps them from being dropped that time will mend.
	loose atomic.Bool

	windows windows // that due was kept for, the retainer's

	mu  sync.Mutex
	due lease.Heap[agingPartition]
}

// dueEntry is when to look at a partition.
type dueEntry struct {
	dueMs   int64 // by clock.stamp
	p       *partition
	pauseMs int64  // how long the latest look in vain was put off
	seq     uint32 // p.dueSeq then; another by now: another entry has taken its place
}

// agingPartition is a dueEntry in the heap, without its time.
type agingPartition struct {
	p       *partition
	pauseMs int64
	seq     uint32
}

// note puts p, which has just got its first message, into the heap. p is locked.
func (a *aging) note(p *partition) {
	if p.hidden || p.aging || !a.active.Load() {
		return
	}
	p.aging = true
	a.add(dueEntry{dueMs: p.startMs + a.windowMs.Load() + 1, p: p, seq: p.dueSeq})
}

// release makes p due, which was put off because a group held it, if no group holds its
// first message any more. p is locked; a change of a cursor has just come to disk.
func (a *aging) release(p *partition) {
	if !p.held {
		return
	}
	if s := p.slowestLocked(*p.queue.groupList.Load()); !s.any || s.committed < p.start {
		return
	}
	p.held = false
	p.dueSeq++
	a.add(dueEntry{p: p, seq: p.dueSeq})
}

func (a *aging) add(e dueEntry) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.due.Push(lease.Entry[agingPartition]{At: e.dueMs, Value: agingPartition{e.p, e.pauseMs, e.seq}})
}

// take appends up to n entries that are due to list.
func (a *aging) take(nowMs int64, n int, list []dueEntry) []dueEntry {
	a.mu.Lock()
	defer a.mu.Unlock()
	for len(a.due) > 0 && a.due[0].At <= nowMs && len(list) < n {
		e := a.due.Pop()
		list = append(list, dueEntry{e.At, e.Value.p, e.Value.pauseMs, e.Value.seq})
	}
	return list
}

// lookAgain makes every partition in the heap due: the rules have changed.
func (a *aging) lookAgain() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for i := range a.due {
		a.due[i].At, a.due[i].Value.pauseMs = 0, 0
	}
}
