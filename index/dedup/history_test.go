package dedup

import (
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/skepmq/skep/segment/vfs/faultfs"
)

// history drives an index as the broker does and knows what it must answer. An entry
// is in one of two states: unsaved, then the journal still has it and adds it again
// after a restart, or saved.
type history struct {
	t       *testing.T
	rng     *rand.Rand
	fs      *faultfs.FS
	x       *Index
	known   map[uint64][]Entry // what must be found, by hash
	hashes  []uint64           // everything ever added, by offset
	unsaved []Entry
	saved   []Entry // the latest, some of which a replay may add again
	nowMs   int64
	before  int64 // of the latest Expire
}

func newHistory(t *testing.T, rng *rand.Rand) *history {
	h := &history{t: t, rng: rng, fs: faultfs.New(), known: map[uint64][]Entry{}, nowMs: 1_700_000_000_000}
	h.x = openTest(t, h.fs, smallCache)
	return h
}

func (h *history) add(n int) {
	for range n {
		h.nowMs += h.rng.Int64N(20)
		if h.rng.IntN(5000) == 0 {
			h.nowMs -= h.rng.Int64N(60_000) // a clock is set
		}
		hash := mix(h.rng.Uint64N(50_000)) // so some are repeated
		if h.rng.IntN(10) == 0 {
			hash &= 3 // and some collide a lot
		}
		e := Entry{hash, int64(len(h.hashes)), h.nowMs}
		h.hashes = append(h.hashes, hash)
		h.known[hash] = append(h.known[hash], e)
		h.unsaved = append(h.unsaved, e)
		h.x.Add(e.Hash, e.Offset, e.TimestampMs)
	}
}

// save files all but the last few entries, as a checkpoint does.
func (h *history) save() error {
	n := len(h.unsaved) - min(len(h.unsaved), h.rng.IntN(300))
	if err := h.x.Save(h.unsaved[:n]); err != nil {
		return err
	}
	h.saved = append(h.saved[len(h.saved)/2:], h.unsaved[:n]...)
	h.unsaved = slices.Clone(h.unsaved[n:])
	return nil
}

func (h *history) expire() error {
	h.before = max(h.before, h.nowMs-h.rng.Int64N(300_000))
	return h.x.Expire(h.before)
}

// reopen starts again on what is on disk and replays the journal, which may also
// hold entries that have been saved.
func (h *history) reopen() {
	h.x = openTest(h.t, h.fs, smallCache)
	replay := slices.Concat(h.saved[h.rng.IntN(len(h.saved)+1):], h.unsaved)
	for _, e := range replay {
		h.x.Add(e.Hash, e.Offset, e.TimestampMs)
	}
	if h.rng.IntN(2) == 0 {
		h.unsaved = replay
	}
}

// check asks for everything: what is inside the window must be there, once, and
// nothing that was never added. Older entries may be gone, and back after a crash.
func (h *history) check() {
	h.t.Helper()
	for hash, entries := range h.known {
		got := h.x.mustLookup(h.t, hash)
		for i, offset := range got {
			if i > 0 && got[i-1] == offset {
				h.t.Fatalf("hash %016x: offset %d twice", hash, offset)
			}
			if h.hashes[offset] != hash {
				h.t.Fatalf("hash %016x: offset %d was never added", hash, offset)
			}
		}
		entries = slices.DeleteFunc(entries, func(e Entry) bool { return e.TimestampMs < h.before })
		for _, e := range entries {
			if _, ok := slices.BinarySearch(got, e.Offset); !ok {
				h.t.Fatalf("hash %016x: offset %d of %d ms in the window is missing from %v",
					hash, e.Offset, e.TimestampMs-h.before, got)
			}
		}
		h.known[hash] = entries
	}
}

func TestHistories(t *testing.T) {
	for range 4 {
		rng := newRand(t)
		h := newHistory(t, rng)
		var most Stats
		for range 40 {
			switch rng.IntN(10) {
			case 0:
				mustDo(t, "expire", h.expire())
			case 1:
				mustDo(t, "close", h.x.Close())
				if rng.IntN(2) == 0 {
					h.fs = h.fs.Crash(rng)
				}
				h.reopen()
			case 2, 3, 4:
				mustDo(t, "save", h.save())
			default:
				h.add(rng.IntN(1500))
			}
			most.SpilledBuckets = max(most.SpilledBuckets, h.x.Stats().SpilledBuckets)
			if rng.IntN(4) == 0 {
				h.check()
			}
		}
		mustDo(t, "save", h.save())
		if st := h.x.Stats(); st.MemoryBytes > smallCache+8*st.Entries/entriesPerPage+pageLen {
			t.Errorf("%d bytes in memory, want at most %d and the fences", st.MemoryBytes, smallCache)
		}
		h.check()
		mustDo(t, "close", h.x.Close())
		if n := h.fs.Handles(); n != 0 {
			t.Errorf("%d files left open", n)
		}
		if most.SpilledBuckets == 0 {
			t.Error("the history spilled nothing")
		}
	}
}

// TestEveryFault runs one history again and again, with each call to the file system
// failing in turn and then the power: what Save has returned for must be there.
func TestEveryFault(t *testing.T) {
	seed := newRand(t).Uint64()
	step := 1
	if testing.Short() {
		step = 7
	}
	for n := 0; ; n += step {
		rng := rand.New(rand.NewPCG(seed, 0))
		h := newHistory(t, rng)
		start := h.fs.Calls()
		h.fs.FailAt(start+n, faultfs.Fault{Sticky: n%2 == 0})
		for round := range 8 {
			h.add(300)
			err := h.save()
			if err != nil && !errors.Is(err, ErrFailed) {
				t.Fatalf("fault %d: save: %v", n, err)
			}
			if round%4 == 3 {
				_ = h.expire() // deletes what it can
			}
		}
		met := h.fs.Calls() > start+n
		h.check() // a fault costs nothing in memory
		_ = h.x.Close()
		h.fs = h.fs.Crash(rng)
		h.reopen()
		h.check()
		h.add(100)
		mustDo(t, "save after recovery", h.save())
		h.check()
		mustDo(t, "close", h.x.Close())
		if !met {
			return
		}
	}
}
