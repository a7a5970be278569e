package lease

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// Entries come out in the order of their instants, whatever order they went in, and an
// empty heap keeps no more room than a burst may have again.
func TestHeap(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	var h Heap[int]
	var want []int64
	for range 20 {
		for range rng.IntN(2000) {
			at := rng.Int64N(500)
			h.Push(Entry[int]{at, int(at)})
			want = append(want, at)
		}
		slices.Sort(want)
		for range rng.IntN(len(want) + 1) {
			if e := h.Pop(); e.At != want[0] || e.Value != int(e.At) {
				t.Fatalf("got %+v, want %d", e, want[0])
			}
			want = want[1:]
		}
		if len(h) != len(want) {
			t.Fatalf("%d entries, want %d", len(h), len(want))
		}
	}
	for n := range spareEntries + 1 {
		h.Push(Entry[int]{int64(n), n})
	}
	for len(h) > 0 {
		h.Pop()
	}
	if h != nil {
		t.Errorf("room for %d entries is kept", cap(h))
	}
}

// BenchmarkHeap takes the first entry out and puts it back for later.
func BenchmarkHeap(b *testing.B) {
	for _, size := range []struct {
		name string
		n    int
	}{{"entries=1k", 1_000}, {"entries=1M", 1_000_000}} {
		b.Run(size.name, func(b *testing.B) {
			rng := rand.New(rand.NewPCG(1, 2))
			var h Heap[benchKey]
			for range size.n {
				h.Push(Entry[benchKey]{At: rng.Int64N(60_000)})
			}
			b.ReportAllocs()
			for b.Loop() {
				e := h.Pop()
				e.At += 60_000
				h.Push(e)
			}
		})
	}
}
