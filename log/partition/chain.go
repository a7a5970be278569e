package partition

import (
	"math"
	"slices"

	"github.com/skepmq/skep/index"
	"github.com/skepmq/skep/segment"
)

// behindLen is how many bytes before an entry are read with it once the entries are
// found to lie side by side, as those of a segment of its own do.
const behindLen = 16 << 10

// target is what a chain is loaded for: the extent with an offset, or the first one
// with a batch at or after a time.
type target struct {
	offset      int64
	timestampMs int64
	byTime      bool
}

// reached reports whether nothing older than e is asked for.
func (t target) reached(e *index.Located) bool {
	if t.byTime {
		return e.FirstTimestampMs < t.timestampMs
	}
	return e.BaseOffset <= t.offset
}

// find returns the target's place in a chain.
func (t target) find(chain []index.Located) int {
	if t.byTime {
		return index.FindTime(chain, t.timestampMs)
	}
	return index.FindOffset(chain, t.offset)
}

// chain returns a stretch of the chain that ends with the entry at newest, in the
// order of offsets. It starts at the target or before, or where the chain does. last
// is false if the stretch ends before newest, because all of it is too much to keep:
// then it holds the target, and who needs more loads the chain again for what
// follows. The slice is shared.
func (s *Store) chain(newest index.Pointer, partition uint64, t target) (chain []index.Located, last bool, err error) {
	for {
		chain, last, err = s.loadChain(newest, partition, t)
		if !s.startsOver(err, partition) {
			return chain, last, err
		}
	}
}

func (s *Store) loadChain(newest index.Pointer, partition uint64, t target) (chain []index.Located, last bool, err error) {
	w := walker{s: s, partition: partition, target: t, limit: s.chainLimit()}
	cached, last, err := w.upTo(s.cache.chain(partition), newest)
	if err != nil {
		return nil, false, err
	}
	if w.covers(cached, last) {
		return cached, last, nil
	}
	if err := w.walk(newest, cached); err != nil || len(w.found) == 0 {
		return nil, true, err
	}
	chain = make([]index.Located, len(w.found)) // what append has left over would count
	copy(chain, w.found)
	slices.Reverse(chain)
	s.cache.putChain(partition, chain)
	return chain, !w.cut, nil
}

// chainLimit is how many entries of a chain are kept at most: what the cache takes.
func (s *Store) chainLimit() int {
	return max(16, int((s.o.CacheBytes/4-itemOverhead)/chainBytes(1)))
}

// walker follows a chain from entry to entry.
type walker struct {
	s         *Store
	partition uint64
	target    target
	limit     int // of found

	found []index.Located // newest first
	cut   bool            // found does not start with the newest any more

	block   []byte // what was read last, from position at of a segment
	at      index.Pointer
	scratch [index.EntryLen]byte
}

// upTo returns the part of a cached stretch that belongs to the chain of newest: a
// caller may still hold an older pointer than the one it was loaded for, and must
// not see further. last says that it ends with newest.
func (w *walker) upTo(cached []index.Located, newest index.Pointer) (part []index.Located, last bool, err error) {
	n := len(cached)
	if n == 0 || cached[n-1].At == newest {
		return cached, n > 0, nil
	}
	e, ok, err := w.read(newest, math.MaxInt64)
	if err != nil || !ok {
		return nil, false, err
	}
	i := index.FindOffset(cached, e.BaseOffset)
	switch {
	case i == n: // all older than newest
		return cached, false, nil
	case cached[i].At == e.At:
		return cached[:i+1], true, nil
	}
	return nil, false, nil // newest lies before the stretch, or was moved since
}

// covers reports whether a stretch has the target, or shows that the chain has not.
// last says that the stretch ends where the chain does.
func (w *walker) covers(cached []index.Located, last bool) bool {
	if len(cached) == 0 || !last && w.target.find(cached) == len(cached) {
		return false
	}
	first := &cached[0]
	if w.target.reached(first) || first.Prev.IsZero() {
		return true
	}
	known, err := w.s.known(first.Prev.Segment)
	_, _, moved := w.s.movedTo(first.Prev.Segment)
	return !known && !moved && err == nil
}

// walk collects entries from newest down to the target, or to the end of the chain,
// which is also where a segment was dropped. It reads none that cached holds.
func (w *walker) walk(newest index.Pointer, cached []index.Located) error {
	done := false
	for p := newest; !p.IsZero(); {
		joined := len(cached) > 0 && cached[len(cached)-1].At == p
		var e index.Located
		if !joined {
			if done {
				break
			}
			var ok bool
			var err error
			if e, ok, err = w.next(p); err != nil {
				return err
			}
			if !ok {
				break
			}
			joined = len(cached) > 0 && cached[len(cached)-1].At == e.At // p was moved
		}
		if joined {
			done = w.addCached(cached, done)
			p, cached = cached[0].Prev, nil
			continue
		}
		w.add(e)
		done = w.target.reached(&e)
		p = e.Prev
	}
	if over := len(w.found) - w.limit; over > 0 {
		w.found, w.cut = w.found[over:], true
	}
	return nil
}

// addCached adds a cached stretch: all of it down to the target, and of the rest as
// much as there is room for. done says that the target was reached, before and after.
func (w *walker) addCached(cached []index.Located, done bool) bool {
	for i := len(cached) - 1; i >= 0; i-- {
		if done && len(w.found) >= w.limit {
			break
		}
		w.add(cached[i])
		done = done || w.target.reached(&cached[i])
	}
	return done
}

// add takes one more entry. Of those above the limit the newest go: the target is
// at the other end.
func (w *walker) add(e index.Located) {
	if len(w.found) >= 2*w.limit {
		w.found = w.found[:copy(w.found, w.found[w.limit:])]
		w.cut = true
	}
	w.found = append(w.found, e)
}

// next reads the entry at p, the one before those found. ok is false if its segment
// was dropped. Errors: errMoved and those of read.
func (w *walker) next(p index.Pointer) (e index.Located, ok bool, err error) {
	if len(w.found) == 0 {
		return w.read(p, math.MaxInt64)
	}
	after := &w.found[len(w.found)-1]
	e, ok, err = w.read(p, after.BaseOffset)
	if err != nil || !ok {
		return e, ok, err
	}
	// Offsets fall with every step, so that a walk ends whatever the bytes say.
	if e.EndOffset() > after.BaseOffset {
		if known, err := w.s.known(after.At.Segment); !known && err == nil {
			return index.Located{}, false, errMoved // both, and where they are now they are one
		}
		return index.Located{}, false, w.corrupt(p)
	}
	return e, true, nil
}

func (w *walker) corrupt(p index.Pointer) error {
	return &segment.CorruptError{Path: w.s.path(p.Segment), Position: int64(p.Position), Err: segment.ErrCorrupt}
}

// read reads the entry at p, which begins before an offset, and checks that it is one of
// the partition.
func (w *walker) read(p index.Pointer, before int64) (e index.Located, ok bool, err error) {
	b, err := w.bytes(p)
	if err != nil {
		return index.Located{}, false, err
	}
	if b == nil {
		return w.s.movedEntry(p.Segment, before, w.partition)
	}
	e.At = p
	if e.Entry, err = index.DecodeEntry(b); err != nil {
		return index.Located{}, false, &segment.CorruptError{
			Path: w.s.path(p.Segment), Position: int64(p.Position), Err: err,
		}
	}
	if e.Partition != w.partition || e.EndPosition() > int64(p.Position) {
		return index.Located{}, false, w.corrupt(p)
	}
	return e, true, nil
}

// bytes returns the bytes of the entry at p, nil if its segment is gone.
func (w *walker) bytes(p index.Pointer) ([]byte, error) {
	if i := int64(p.Position) - int64(w.at.Position); p.Segment == w.at.Segment && i >= 0 &&
		i+index.EntryLen <= int64(len(w.block)) {
		return w.block[i:], nil
	}
	file, err := w.s.acquire(p.Segment)
	if file == nil || err != nil {
		return nil, err
	}
	defer w.s.files.release(file)
	b, start := w.scratch[:], int64(p.Position)
	if n := len(w.found); n > 0 && w.found[n-1].At == (index.Pointer{Segment: p.Segment, Position: p.Position + index.EntryLen}) {
		start = max(segment.FileHeaderLen, start+index.EntryLen-behindLen)
		b = make([]byte, int64(p.Position)+index.EntryLen-start)
	}
	if err := file.ReadAt(b, start); err != nil {
		return nil, err
	}
	w.block, w.at = b, index.Pointer{Segment: p.Segment, Position: uint32(start)}
	return b[int64(p.Position)-start:], nil
}
