package broker

import (
	"errors"
	"math"
	"slices"

	"github.com/skepmq/skep/segment"
)

// cut is where a partition is to start.
type cut struct {
	offset  int64
	startMs int64 // append time there, or of the last message where nothing is left
	bytes   int64 // filed from there on
	rule    dropRule
}

// agingState is what the rules look at, taken under the partition's lock.
type agingState struct {
	view
	end, lastMs, filedBytes int64
	slowest                 slowest
}

func (p *partition) agingState(w windows) agingState {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.agingStateLocked(w)
}

func (p *partition) agingStateLocked(w windows) agingState {
	s := agingState{view: p.viewLocked(), end: p.end, lastMs: p.lastMs, filedBytes: p.filedBytes}
	if w.completed > 0 {
		s.slowest = p.slowestLocked(*p.queue.groupList.Load())
	}
	return s
}

// slowest is how far the groups of a queue have come in a partition.
type slowest struct {
	any       bool    // there is a group that has a place here
	committed int64   // of the slowest, those in instants left out
	instants  []int64 // where groups start that have not been here
}

// slowestLocked finds the slowest group. One that has registered, and the queue mode once
// it has consumed, have a place in every partition, whether they were there or not.
func (p *partition) slowestLocked(groups []*group) slowest {
	s := slowest{committed: math.MaxInt64}
	for _, g := range groups {
		if c := p.cursorLocked(g); c != nil {
			s.any, s.committed = true, min(s.committed, c.committed)
			continue
		}
		at, ok := g.implied(p.number)
		if !ok {
			continue
		}
		s.any = true
		switch {
		case at.mode == modeAll:
			s.committed = min(s.committed, p.start-1)
		case at.instantMs <= p.lastMs:
			s.instants = append(s.instants, at.instantMs)
		}
	}
	return s
}

// allows reports whether a cut that was decided for an earlier state is right for s: the
// bytes it counted are where they were, nothing has come behind it where it was to leave
// nothing, and no group has gone back or come into being that it would rob.
func (s *agingState) allows(earlier *agingState, c cut) bool {
	if s.start != earlier.start || s.newest != earlier.newest || c.offset == earlier.end && s.end != earlier.end {
		return false
	}
	now, was := &s.slowest, &earlier.slowest
	return c.rule != dropCompleted || now.committed >= was.committed && slices.Equal(now.instants, was.instants)
}

// decideCut returns where the partition should start by now. Where nothing is due that is
// where it starts. No lock is held; a partition that is dropped whole is not read.
func (b *Broker) decideCut(s *agingState, w windows, nowMs int64) (c cut, err error) {
	c.offset = s.start
	if s.start >= s.hwm {
		return c, nil
	}
	age, rule := w.age()
	if age > 0 {
		c.rule = rule
		if c.offset, err = b.firstSince(s, b.clock.since(nowMs, age)); err != nil {
			return c, err
		}
	}
	if w.completed > 0 && (age == 0 || w.completed < age) {
		offset, err := b.completedUntil(s, b.clock.since(nowMs, w.completed))
		if err != nil {
			return c, err
		}
		if offset > c.offset {
			c.offset, c.rule = offset, dropCompleted
		}
	}
	if c.offset == s.start {
		return c, nil
	}
	return b.describeCut(s, c)
}

// describeCut finds out what is left.
func (b *Broker) describeCut(s *agingState, c cut) (cut, error) {
	if c.offset == s.end {
		c.startMs = s.lastMs
		return c, nil
	}
	var err error
	if c.startMs, err = b.timeAt(s, c.offset); err != nil {
		return c, err
	}
	if c.offset < s.filedEnd {
		var gone int64
		gone, err = b.store.Bytes(s.newest, s.number, s.start, c.offset)
		c.bytes = max(s.filedBytes-gone, 0)
	}
	return c, err
}

// firstSince returns the offset of the first message on disk appended at an instant or
// later. Messages of one push share their time, so none of its batches is left alone.
func (b *Broker) firstSince(s *agingState, instantMs int64) (int64, error) {
	switch {
	case s.startMs >= instantMs:
		return s.start, nil
	case s.lastMs < instantMs && s.hwm == s.end:
		return s.end, nil
	}
	committed, err := b.offsetAt(s.view, s.hwm, instantMs)
	if err != nil {
		return 0, err
	}
	if s.filedEnd > s.start && s.filedMs >= instantMs && committed >= s.filedEnd {
		return 0, errMissingBatch // segments hold younger ones: nothing may be dropped on a wrong index
	}
	return min(max(committed+1, s.start), s.hwm), nil
}

// completedUntil is firstSince, but never past the slowest group: it stops at the push
// that the group is in. Without a group nothing is completed.
func (b *Broker) completedUntil(s *agingState, instantMs int64) (int64, error) {
	if !s.slowest.any || s.slowest.committed < s.start {
		return s.start, nil
	}
	limit := s.hwm
	if s.slowest.committed < s.hwm {
		limit = s.slowest.committed + 1
	}
	for _, at := range s.slowest.instants {
		committed, err := b.offsetAt(s.view, s.hwm, at)
		if err != nil {
			return 0, err
		}
		limit = min(limit, committed+1)
	}
	offset, err := b.firstSince(s, instantMs)
	if err != nil || offset <= limit {
		return offset, err
	}
	if limit <= s.start {
		return s.start, nil
	}
	ms, err := b.timeAt(s, limit)
	if err != nil {
		return 0, err
	}
	return b.firstSince(s, ms)
}

// timeAt returns the append time of the message at offset, or of the first one after it.
func (b *Broker) timeAt(s *agingState, offset int64) (ms int64, err error) {
	found := false
	err = b.batches(s.view, offset, func(h *segment.Header, _ []byte) bool {
		ms, found = h.TimestampMs, true
		return false
	})
	if err == nil && !found {
		return 0, errMissingBatch
	}
	return ms, err
}

// errMissingBatch says that the index has nothing where a partition has messages.
var errMissingBatch = errors.New("broker: no batch at an offset that is kept")
