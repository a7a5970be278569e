package broker

import (
	"github.com/rs/zerolog"

	"github.com/skepmq/skep/index"
	partlog "github.com/skepmq/skep/log/partition"
)

// A segment is dead when no partition starts in it or before it: every extent lies below
// its partition's start, or the partition is gone. Dead segments go in this order:
//
//  1. The retainer finds one dead by the starts in memory, seals it, so that nothing is
//     added, and lists it among the changes.
//  2. A checkpoint writes the starts that have moved, and behind them, in the same commit
//     of the catalogue, that the segment is dropped.
//  3. When that is on disk, the file is unlinked.
//
// A crash before the commit leaves a segment that is found dead again. A crash behind it
// leaves a file that the catalogue does not know, which Open removes. Starts are listed
// before the segments that they free, and a checkpoint takes both at one moment, so the
// catalogue never has the second without the first.

// watched is what the retainer remembers of a segment that it has looked into.
type watched struct {
	leaving bool // it was listed to be dropped, or to be replaced
	// The extent that holds the segment: while it is alive there is nothing to look at.
	partition uint64
	end       int64
	// After that, not before this time: in a segment with extents of very many
	// partitions they may end one by one.
	againMs, pauseMs int64
	thin             thin
}

// reapSegments lists what is dead in queues where that may have changed, rewrites what is
// mostly dead, and reports whether there is anything for a checkpoint to do.
func (b *Broker) reapSegments() bool {
	loose := b.looseQueues()
	if len(loose) == 0 {
		return false
	}
	now := b.clock.stamp()
	look := counting{b: b, left: countLimit}
	var dead []uint32
	var bytes int64
	next := map[uint32]*watched{}
	for _, s := range b.store.Aged() {
		w := b.watched[s.ID]
		if q := loose[s.Queue]; q != nil && !b.closing() {
			if w == nil {
				w = &watched{}
			}
			if b.dead(q, &s, w, now) {
				w.leaving = true
				dead = append(dead, s.ID)
				bytes += s.Length
			} else if !w.leaving && w.partition != 0 {
				look.at(q, &s, w, now)
			}
		}
		if w != nil && *w != (watched{}) {
			next[s.ID] = w
		}
	}
	b.watched = next // without those that are gone
	rewritten := b.rewriteSegments(look.found)
	if len(dead) == 0 {
		return rewritten
	}
	b.changed.dropSegments(dead)
	b.dropped.segments.Add(int64(len(dead)))
	b.dropped.bytes.Add(bytes)
	b.log.Info().Int("segments", len(dead)).Int64("bytes", bytes).Msg("segments are dropped")
	return true
}

// looseQueues returns the queues whose segments may have become dead, by number.
func (b *Broker) looseQueues() map[uint32]*queue {
	var loose map[uint32]*queue
	for _, q := range b.allQueues() {
		if q.aging.loose.Swap(false) {
			if loose == nil {
				loose = map[uint32]*queue{}
			}
			loose[q.number] = q
		}
	}
	return loose
}

// dead reports whether a segment can go, and has sealed it then. If not, either what holds
// it will say so by moving a start, or the queue stays loose.
func (b *Broker) dead(q *queue, s *partlog.Aged, w *watched, nowMs int64) bool {
	switch {
	case w.leaving || w.partition != 0 && b.holds(w.partition, w.end):
		return false
	case s.NewestMs > 0 && s.NewestMs >= b.furthest(q, s, nowMs), w.againMs > nowMs:
		q.aging.loose.Store(true)
		return false
	}
	w.partition = 0
	length, err := b.store.Extents(s.ID, func(e *index.Located) bool {
		if b.holds(e.Partition, e.EndOffset()) {
			w.partition, w.end = e.Partition, e.EndOffset()
		}
		return w.partition == 0
	})
	w.pauseMs = min(max(2*w.pauseMs, b.o.RetentionInterval.Milliseconds(), 1), maxPauseMs)
	w.againMs = nowMs + w.pauseMs
	if err != nil {
		b.outlived(zerolog.WarnLevel, err).Str("queue", q.name).Uint32("segment", s.ID).Msg("index of a segment cannot be read, its space stays taken")
		w.pauseMs, w.againMs = maxPauseMs, nowMs+maxPauseMs
		q.aging.loose.Store(true)
		return false
	}
	if w.partition != 0 {
		return false
	}
	if !b.store.Retire(s.ID, length) {
		w.pauseMs, w.againMs = 0, 0 // a checkpoint runs: as soon as it has ended
		q.aging.loose.Store(true)
		return false
	}
	return true
}

// furthest returns the instant before which the rules leave nothing: what is newer need
// not be looked into. Segments with dead letters know no age, and without rules nothing
// is known.
func (b *Broker) furthest(q *queue, s *partlog.Aged, nowMs int64) int64 {
	shortest := q.aging.windows.shortest()
	if p := b.partitions.get(s.Partition); shortest == 0 || p != nil && p.hidden {
		return nowMs + 1
	}
	return nowMs - shortest
}

// holds reports whether a partition needs messages below end.
func (b *Broker) holds(partition uint64, end int64) bool {
	p := b.partitions.get(partition)
	if p == nil {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.start < end
}
