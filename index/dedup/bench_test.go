package dedup

import (
	"fmt"
	"testing"

	"github.com/rs/zerolog"
)

// fill indexes n entries over an hour, saving if save is set.
func fill(b *testing.B, x *Index, n int, save bool) {
	b.Helper()
	batch := make([]Entry, 0, 100_000)
	for i := range n {
		e := Entry{mix(uint64(i)), int64(i), int64(i) * 3_600_000 / int64(n)}
		x.Add(e.Hash, e.Offset, e.TimestampMs)
		if batch = append(batch, e); len(batch) == cap(batch) || i == n-1 {
			if !save {
				batch = batch[:0]
			}
			if err := x.Save(batch); err != nil {
				b.Fatal(err)
			}
			batch = batch[:0]
		}
	}
}

func openBench(b *testing.B, dir string, cacheBytes int64) *Index {
	b.Helper()
	x, _, err := Open(Options{Dir: dir, CacheBytes: cacheBytes, Logger: zerolog.Nop()})
	if err != nil {
		b.Fatal(err)
	}
	return x
}

// BenchmarkPush is what a push of one message costs here: Lookup of an id that is in
// no bucket, then Add.
func BenchmarkPush(b *testing.B) {
	for _, tt := range []struct {
		entries int
		cache   int64
	}{{100_000, 512 << 20}, {10_000_000, 512 << 20}, {10_000_000, 64 << 20}} {
		b.Run(fmt.Sprintf("entries=%dk/cache=%dM", tt.entries/1000, tt.cache>>20), func(b *testing.B) {
			x := openBench(b, b.TempDir(), tt.cache)
			defer x.Close()
			fill(b, x, tt.entries, false)
			var found []int64
			n := uint64(1) << 39
			b.ReportAllocs()
			for b.Loop() {
				n++
				h := mix(n)
				found, _ = x.Lookup(h, found[:0])
				x.Add(h, int64(n), 3_600_000)
			}
			st := x.Stats()
			b.ReportMetric(float64(st.Buckets), "buckets")
			b.ReportMetric(float64(st.SpilledBuckets), "spilled")
		})
	}
}

// BenchmarkLookup finds ids that are there.
func BenchmarkLookup(b *testing.B) {
	for _, cache := range []int64{512 << 20, 32 << 20} {
		b.Run(fmt.Sprintf("entries=10M/cache=%dM", cache>>20), func(b *testing.B) {
			x := openBench(b, b.TempDir(), cache)
			defer x.Close()
			const entries = 10_000_000
			fill(b, x, entries, false)
			var found []int64
			n := uint64(0)
			b.ReportAllocs()
			for b.Loop() {
				n++
				var err error
				if found, err = x.Lookup(mix(mix(n)%entries), found[:0]); err != nil || len(found) == 0 {
					b.Fatal(found, err)
				}
			}
		})
	}
}

func BenchmarkHash(b *testing.B) {
	x := openBench(b, b.TempDir(), 0)
	defer x.Close()
	id := []byte("0198c4a2-7e5b-7c3d-9f10-2b6a4d8e1f00")
	b.ReportAllocs()
	for b.Loop() {
		_ = x.Hash(7, id)
	}
}

// BenchmarkOpen loads ten million entries.
func BenchmarkOpen(b *testing.B) {
	for _, cache := range []int64{512 << 20, 64 << 20} {
		b.Run(fmt.Sprintf("entries=10M/cache=%dM", cache>>20), func(b *testing.B) {
			dir := b.TempDir()
			x := openBench(b, dir, cache)
			fill(b, x, 10_000_000, true)
			if err := x.Close(); err != nil {
				b.Fatal(err)
			}
			for b.Loop() {
				if err := openBench(b, dir, cache).Close(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkSave(b *testing.B) {
	x := openBench(b, b.TempDir(), 0)
	defer x.Close()
	batch := make([]Entry, 100_000)
	n := uint64(0)
	b.SetBytes(int64(len(batch)) * entryLen)
	for b.Loop() {
		for i := range batch {
			n++
			batch[i] = Entry{mix(n), int64(n), 1000}
			x.Add(batch[i].Hash, batch[i].Offset, 1000)
		}
		if err := x.Save(batch); err != nil {
			b.Fatal(err)
		}
	}
}
