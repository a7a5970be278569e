package partition

import (
	"bytes"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/skepmq/skep/index"
)

// wantBackward reads a partition backwards from an offset, and stops after limit batches.
func (w *world) wantBackward(partition uint64, before int64, limit int) {
	w.t.Helper()
	l := w.parts[partition]
	var want, got [][]byte
	for _, b := range slices.Backward(l.batches[:l.filed]) {
		if header(b).BaseOffset < before && len(want) < limit {
			want = append(want, b)
		}
	}
	err := w.store.ReadBackward(l.newest, partition, before, func(b []byte) bool {
		got = append(got, b)
		return len(got) < limit
	})
	if err != nil {
		w.t.Fatalf("partition %d before %d: %v", partition, before, err)
	}
	if !slices.EqualFunc(got, want, bytes.Equal) {
		w.t.Fatalf("partition %d before %d: got %d batches want %d", partition, before, len(got), len(want))
	}
}

// TestReadBackward reads random partitions from every kind of place, with a cold cache
// and with a warm one, and with one that is too small for a chain.
func TestReadBackward(t *testing.T) {
	for seed := range uint64(20) {
		w := newWorld(t)
		if seed%2 == 1 {
			w.o.CacheBytes = 2_000
			w.reopen()
		}
		rng := newRand(seed)
		for range 12 {
			w.pushSome(rng)
			w.file()
			if rng.IntN(3) == 0 {
				w.reopen()
			}
			w.checkBackward(rng)
		}
	}
}

func (w *world) checkBackward(rng *rand.Rand) {
	w.t.Helper()
	for _, partition := range slices.Sorted(maps.Keys(w.parts)) {
		end := w.parts[partition].end()
		w.wantBackward(partition, end, 1)
		w.wantBackward(partition, end+5, 1+rng.IntN(20))
		w.wantBackward(partition, rng.Int64N(end+3), 1+rng.IntN(8))
		w.wantBackward(partition, 0, 1)
		w.wantBackward(partition, end, 1<<30)
	}
}

// TestReadBackwardAfterDrop ends where the segments of the queue were dropped.
func TestReadBackwardAfterDrop(t *testing.T) {
	w := newWorld(t)
	w.push(100, 3, 10)
	w.file()
	if err := w.store.Drop(1); err != nil {
		t.Fatal(err)
	}
	for _, newest := range []index.Pointer{{}, w.parts[100].newest} {
		err := w.store.ReadBackward(newest, 100, 3, func([]byte) bool { t.Error("a batch of a dropped segment"); return true })
		if err != nil {
			t.Error(err)
		}
	}
}
