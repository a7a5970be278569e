package broker

import (
	"cmp"
	"errors"
	"path/filepath"
	"slices"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"github.com/skepmq/skep/index"
	partlog "github.com/skepmq/skep/log/partition"
	"github.com/skepmq/skep/segment"
)

// A segment is thin when less than half of it is needed, and that does not end by itself: a
// slow group holds one partition of very many, or one dead letter of many is left. What is
// needed of thin segments is written to a new one, in these steps:
//
//  1. The retainer counts what is needed of a segment, twice. Only if most of it is still
//     needed the second time is it worth copying: the rest of a segment that is being
//     consumed will be dead soon, and cost nothing.
//  2. It seals the segments, copies, and lists the new one among the changes, in the way of
//     reap.go.
//  3. A checkpoint writes the starts that have moved, and behind them, in the same commit of
//     the catalogue, one record that says: the new segment is there, and those are gone.
//  4. When that is on disk, readers are sent to the new one and the old files unlinked.
//
// Nothing points anywhere else for it: a pointer into a segment that is gone is answered by
// the segment that has replaced it. A crash before the commit leaves a new file, and behind
// it old ones, that the catalogue does not know; Open removes either.
//
// Nobody waits for any of that. Pushes and pops share the disk with it, so it writes no
// faster than rewriteRate, and what it writes is synced piece by piece.

const (
	// countLimit bounds how many extents are looked at in one cycle to count what is needed:
	// some 0.1 s of work.
	countLimit = 500_000
	// rewriteRate is how many bytes a second are written.
	rewriteRate = 32 << 20
	// minGain is the part of a full segment that must be given back at least, 1 MiB as
	// segments are by default.
	minGain = 64
	// smallParts is how small a rewritten segment is, as part of a full one, that is put
	// together with others like it, and smallCount how many that takes.
	smallParts = 16
	smallCount = 16
)

// rewritten counts, since Open.
type rewritten struct {
	segments atomic.Int64 // that were replaced
	copied   atomic.Int64 // bytes of those that replace them
	freed    atomic.Int64 // bytes given back
}

// thin is what the retainer remembers of what is needed of a segment.
type thin struct {
	bytes   int64 // when it was counted last; 0: not yet, or too many
	length  int64 // of the segment then
	countMs int64 // not to be counted again before
	pauseMs int64
	damaged bool // it is not tried again
}

// counting looks for thin segments in one cycle.
type counting struct {
	b     *Broker
	left  int // extents to look at
	found []candidate
}

// candidate is a segment that is to be rewritten.
type candidate struct {
	partlog.Aged
	q     *queue
	w     *watched
	small bool
	bytes int64 // to copy, at most
}

// at counts what is needed of a segment that something holds.
func (c *counting) at(q *queue, s *partlog.Aged, w *watched, nowMs int64) {
	b, t := c.b, &w.thin
	switch {
	case t.damaged:
		return
	case t.countMs > nowMs:
		q.aging.loose.Store(true)
		return
	case len(s.Replaces) > 0 && s.Length <= b.o.SegmentBytes/smallParts:
		c.found = append(c.found, candidate{*s, q, w, true, s.Length})
		return
	case s.NewestMs >= b.furthest(q, s, nowMs), c.left <= 0:
		q.aging.loose.Store(true)
		return
	}
	limit := min(s.Length/2, s.Length-b.o.SegmentBytes/minGain)
	before := t.bytes
	t.bytes = 0
	bytes, length, looked, err := b.store.Needed(s.ID, newNeeds(b), limit)
	c.left -= looked
	t.pauseMs = min(max(2*t.pauseMs, b.o.RetentionInterval.Milliseconds(), 1), maxPauseMs)
	t.countMs = nowMs + t.pauseMs
	if err != nil || bytes > limit {
		return
	}
	t.bytes, t.length = bytes, length
	if before == 0 || 2*bytes <= before {
		t.pauseMs = 0
		t.countMs = nowMs + b.o.RetentionInterval.Milliseconds()
		q.aging.loose.Store(true)
		return
	}
	c.found = append(c.found, candidate{*s, q, w, false, bytes})
}

// rewriteSegments rewrites what was found, and reports whether it has rewritten anything.
func (b *Broker) rewriteSegments(found []candidate) (done bool) {
	slices.SortStableFunc(found, func(x, y candidate) int {
		return cmp.Or(cmp.Compare(x.Queue, y.Queue), cmp.Compare(x.Partition, y.Partition))
	})
	room := b.o.SegmentBytes // for all: starts move between cycles, not in them
	for i := range found {
		room = max(room, found[i].bytes) // one that is older than the option may need more
	}
	for len(found) > 0 && !b.closing() {
		n := 1
		for n < len(found) && found[n].Queue == found[0].Queue && found[n].Partition == found[0].Partition {
			n++
		}
		if set := chooseSet(found[:n], &room); len(set) > 0 && b.rewrite(set) {
			done = true
		}
		found = found[n:]
	}
	return done
}

// chooseSet returns which of an owner's candidates to put into one segment: those that are
// thin, and the small ones when they are many. What there is no room for waits for another
// cycle.
func chooseSet(found []candidate, room *int64) (set []candidate) {
	small := 0
	for _, c := range found {
		if c.small {
			small++
		}
	}
	for _, c := range found {
		switch {
		case c.small && small < smallCount:
		case c.bytes > *room:
			c.q.aging.loose.Store(true)
		default:
			*room -= c.bytes
			set = append(set, c)
		}
	}
	return set
}

// rewrite writes one segment for a set of them.
func (b *Broker) rewrite(set []candidate) bool {
	var ids []uint32
	var before, needed int64
	for _, c := range set {
		if !c.Sealed && !b.store.Retire(c.ID, c.w.thin.length) {
			c.q.aging.loose.Store(true) // a checkpoint runs, or has added to it
			continue
		}
		ids = append(ids, c.ID)
		before += c.Length
		needed += c.bytes
	}
	if len(ids) == 0 {
		return false
	}
	if !b.roomFor(needed) {
		set[0].q.aging.loose.Store(true)
		return false
	}
	began, left := time.Now(), needed
	r, err := b.store.Rewrite(ids, newNeeds(b), func(bytes int64) error {
		if left -= bytes; !b.roomFor(max(left, 0)) {
			return errNoRoom
		}
		return b.paceRewrite(bytes)
	})
	if errors.Is(err, errNoRoom) {
		set[0].q.aging.loose.Store(true)
		return false
	}
	if err != nil {
		b.noteUnwritten(set, err)
		return false
	}
	if r == nil {
		return false // nothing is needed any more
	}
	for _, c := range set {
		c.w.leaving = c.w.leaving || slices.Contains(ids, c.ID)
	}
	b.changed.replaceSegments(r)
	b.rewritten.segments.Add(int64(len(ids)))
	b.rewritten.copied.Add(r.Length)
	b.rewritten.freed.Add(before - r.Length)
	b.log.Info().Str("queue", set[0].q.name).Int("segments", len(ids)).Int64("bytes", before).Int64("kept_bytes", r.Length).
		Str("took", rounded(time.Since(began))).Msg("segments are rewritten")
	return true
}

// errNoRoom ends a rewrite beside which the disk has become fuller.
var errNoRoom = errors.New("broker: no room for a copy")

// roomFor reports whether the disk has room for so many bytes of a copy. It is not the copy
// that makes the disk full: pushes would be refused for it. Once they are refused it may use
// what is reserved, since it gives more back.
func (b *Broker) roomFor(bytes int64) bool {
	free, total, err := b.o.FS.Free(b.o.Dir)
	if err != nil || total <= 0 {
		return true // as for pushes
	}
	free, unfiled := free-bytes, b.journal.Unfiled()
	if b.space.full.Load() {
		return free-unfiled >= minReserve
	}
	return roomLeft(free, total, unfiled) > 0 && !isHigh(free, total, int64(b.o.DiskHighPercent))
}

// paceRewrite waits for as long as writing bytes may take.
func (b *Broker) paceRewrite(bytes int64) error {
	select {
	case <-b.closeC:
		return ErrClosed
	case <-time.After(time.Duration(bytes) * time.Second / rewriteRate):
		return nil
	}
}

// noteUnwritten leaves alone what could not be rewritten: for good if it is damaged.
func (b *Broker) noteUnwritten(set []candidate, err error) {
	if errors.Is(err, ErrClosed) || set[0].q.deleted.Load() {
		return
	}
	var corrupt *segment.CorruptError
	damaged := errors.As(err, &corrupt)
	for _, c := range set {
		c.w.thin.bytes = 0
		switch {
		case damaged && filepath.Base(corrupt.Path) == segment.FileName(c.ID):
			c.w.thin.damaged = true
		case damaged:
			c.q.aging.loose.Store(true)
		default:
			c.w.thin.countMs = b.clock.stamp() + maxPauseMs
			c.q.aging.loose.Store(true)
		}
	}
	b.outlived(zerolog.WarnLevel, err).Str("queue", set[0].q.name).Msg("segments cannot be rewritten, their space stays taken")
}

// replace puts a rewritten segment, which the catalogue has, in the place of others.
func (b *Broker) replace(r *partlog.Rewritten) {
	if err := b.store.Replace(r); err != nil {
		b.outlived(zerolog.ErrorLevel, err).Msg("rewritten segments remain until the next start")
	}
	gone := make(map[uint32]bool, len(r.Replaces))
	for _, id := range r.Replaces {
		gone[id] = true
	}
	// The old pointers would do, but each use of one costs a search.
	for _, n := range r.Newest {
		p := b.partitions.get(n.Partition)
		if p == nil {
			continue
		}
		p.mu.Lock()
		if gone[p.newest.Segment] {
			p.newest = n.At
		}
		p.mu.Unlock()
	}
}

// needs knows which extents somebody needs: those above the start of their partition, and
// of payloads of dead letters those that have one, as they were when it was first asked.
type needs struct {
	b       *Broker
	letters map[uint64][]int64 // offsets, sorted, by hidden partition
}

func newNeeds(b *Broker) *needs { return &needs{b, map[uint64][]int64{}} }

// Holes is that of partlog.Needs.
func (n *needs) Holes(partition uint64) bool {
	p := n.b.partitions.get(partition)
	return p != nil && p.hidden
}

// Keep is that of partlog.Needs.
func (n *needs) Keep(partition uint64, extents []index.Located) []index.Located {
	p := n.b.partitions.get(partition)
	if p == nil {
		return nil
	}
	p.mu.Lock()
	start := p.start
	if p.hidden && n.letters[partition] == nil {
		n.letters[partition] = p.queue.dead.offsets()
	}
	p.mu.Unlock()
	extents = extents[index.FindOffset(extents, start):]
	if !p.hidden {
		return extents
	}
	offsets := n.letters[partition]
	return slices.DeleteFunc(extents, func(e index.Located) bool {
		i, _ := slices.BinarySearch(offsets, e.BaseOffset)
		return i == len(offsets) || offsets[i] >= e.EndOffset()
	})
}

// offsets returns where the payloads of all dead letters lie, those that are on their way
// included, in order.
func (ds *deadLetters) offsets() []int64 {
	ds.mu.Lock()
	offsets := make([]int64, 0, len(ds.byID))
	for _, l := range ds.list {
		if !l.removed {
			offsets = append(offsets, l.Offset)
		}
	}
	ds.mu.Unlock()
	slices.Sort(offsets)
	return offsets
}
