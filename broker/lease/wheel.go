package lease

import (
	"math"
	"math/bits"
	"time"
)

const (
	digitBits = 6
	slots     = 1 << digitBits
	// levels covers every tick an int64 can hold, so there is no horizon and no
	// overflow list. The upper levels are an empty array each, and cost nothing else.
	levels = (63 + digitBits - 1) / digitBits

	// chunkLen makes a chunk of the broker's entries (24 bytes each) fill the
	// allocator's size class of 2048 bytes.
	chunkLen = 84
	// spareChunks may lie unused beside as many as are in use. What a burst needed
	// beyond that goes back to the garbage collector.
	spareChunks = 128
)

// Wheel is a hierarchical timing wheel: a set of deadlines, each with a key, that
// tells which have passed. Adding is O(1) and advancing is amortised O(1) an entry,
// whatever the distance between deadlines and however far the clock jumps.
//
// An entry cannot be removed. Its owner forgets it, and ignores the key when it
// fires; a deadline that moves later is added again when the old one fires.
//
// An entry never fires before its deadline and at most one tick after it, by the
// time the owner passes to Advance. That time may step back: entries then wait for
// it to come again, and deadlines added meanwhile are kept by the clock as it is.
//
// A Wheel is not safe for concurrent use: a deadline and the lease it belongs to
// change under one lock, and that is the owner's.
type Wheel[K any] struct {
	tickMs int64
	now    int64 // in ticks; the latest time seen, never moves back
	len    int

	levels [levels]level[K]
	late   Heap[K] // entries for a tick that is not after now

	free     *chunk[K]
	freeLen  int
	inUseLen int
}

// level holds the entries whose tick differs from now first in one digit, counted
// in base 64 from the least significant. All of them agree with now above that
// digit and are larger in it, so every entry of a level is due before every entry
// of the next, and the first occupied slot of the lowest occupied level is next.
type level[K any] struct {
	occupied uint64 // bit s: slots[s] is not empty
	slots    [slots]*chunk[K]
}

// chunk is a piece of a slot. Chunks of one size, passed from slot to slot, keep a
// wheel of a million entries as large as the entries: slices that grow by doubling
// would stand half empty and keep the size of the largest burst.
type chunk[K any] struct {
	next    *chunk[K]
	len     int
	entries [chunkLen]Entry[K] // At is the first tick at which the deadline has passed
}

// NewWheel returns an empty wheel that starts at nowMs, in Unix milliseconds, and
// resolves time in ticks. A tick below a millisecond acts as one millisecond.
func NewWheel[K any](nowMs int64, tick time.Duration) *Wheel[K] {
	w := &Wheel[K]{tickMs: max(1, tick.Milliseconds())}
	w.now = w.passed(nowMs)
	return w
}

// passed returns the ticks that have begun by ms: rounded down, so nothing is early.
func (w *Wheel[K]) passed(ms int64) int64 {
	return max(0, ms) / w.tickMs
}

// due returns the first tick that begins at or after ms.
func (w *Wheel[K]) due(ms int64) int64 {
	tick := w.passed(ms)
	if ms > 0 && ms%w.tickMs != 0 {
		tick++
	}
	return tick
}

// Len returns the number of entries that have not fired.
func (w *Wheel[K]) Len() int {
	return w.len
}

// Add puts k on the wheel for deadlineMs, in Unix milliseconds. A deadline that has
// passed fires at the next Advance.
func (w *Wheel[K]) Add(deadlineMs int64, k K) {
	w.len++
	w.place(Entry[K]{At: w.due(deadlineMs), Value: k})
}

func (w *Wheel[K]) place(e Entry[K]) {
	if e.At <= w.now {
		// Due at once, unless the clock has stepped back: Add does not know, so the
		// entry waits for an Advance that has reached its tick.
		w.late.Push(e)
		return
	}
	i := (bits.Len64(uint64(e.At^w.now)) - 1) / digitBits
	l, s := &w.levels[i], e.At>>(i*digitBits)&(slots-1)
	c := l.slots[s]
	if c == nil || c.len == chunkLen {
		c = w.newChunk(c)
		l.slots[s] = c
		l.occupied |= 1 << s
	}
	c.entries[c.len] = e
	c.len++
}

// Advance moves the time to nowMs, in Unix milliseconds, appends to dst the keys
// whose deadline has passed and returns the longer slice. Keys of an earlier tick
// come first; within a tick the order is not defined. A nowMs before that of an
// earlier call fires nothing that is not due by it.
func (w *Wheel[K]) Advance(nowMs int64, dst []K) []K {
	fired, target := len(dst), w.passed(nowMs)
	for len(w.late) > 0 && w.late[0].At <= target {
		dst = append(dst, w.late.Pop().Value)
	}
	for {
		i, at, ok := w.nextSlot()
		if !ok || at > target {
			break
		}
		// Every entry is at or after the beginning of the next slot, so now may jump
		// there; entries elsewhere still differ from it first in the same digit.
		w.now = at
		dst = w.empty(i, at, dst)
	}
	w.now = max(w.now, target)
	w.len -= len(dst) - fired
	return dst
}

// empty takes the entries of the slot of level i that begins at the tick at, which
// is now: due ones are appended to dst, the others go to a lower level.
func (w *Wheel[K]) empty(i int, at int64, dst []K) []K {
	l, s := &w.levels[i], at>>(i*digitBits)&(slots-1)
	c := l.slots[s]
	l.slots[s] = nil
	l.occupied &^= 1 << s
	for c != nil {
		for _, e := range c.entries[:c.len] {
			if e.At == at {
				dst = append(dst, e.Value)
			} else {
				w.place(e)
			}
		}
		next := c.next
		w.freeChunk(c)
		c = next
	}
	return dst
}

// Next returns a time in Unix milliseconds before which Advance returns nothing, so
// the owner can sleep until then; it may be earlier than the next deadline, never
// later by a tick or more. It reports false for an empty wheel.
func (w *Wheel[K]) Next() (deadlineMs int64, ok bool) {
	_, at, ok := w.nextSlot()
	if len(w.late) > 0 && (!ok || w.late[0].At < at) {
		at, ok = w.late[0].At, true
	}
	if !ok {
		return 0, false
	}
	if at > math.MaxInt64/w.tickMs {
		return math.MaxInt64, true
	}
	return at * w.tickMs, true
}

// nextSlot returns the level of the next occupied slot and the tick it begins at.
func (w *Wheel[K]) nextSlot() (i int, at int64, ok bool) {
	for i := range w.levels {
		occupied := w.levels[i].occupied
		if occupied == 0 {
			continue
		}
		s := int64(bits.TrailingZeros64(occupied))
		above := w.now >> (i * digitBits) >> digitBits << digitBits // now without the digits up to i
		return i, (above | s) << (i * digitBits), true
	}
	return 0, 0, false
}

func (w *Wheel[K]) newChunk(next *chunk[K]) *chunk[K] {
	w.inUseLen++
	c := w.free
	if c == nil {
		return &chunk[K]{next: next}
	}
	w.free = c.next
	w.freeLen--
	c.next, c.len = next, 0
	return c
}

func (w *Wheel[K]) freeChunk(c *chunk[K]) {
	w.inUseLen--
	clear(c.entries[:c.len]) // keys may hold pointers
	c.next = w.free
	w.free = c
	w.freeLen++
	for w.freeLen > w.inUseLen+spareChunks {
		w.free = w.free.next
		w.freeLen--
	}
}
