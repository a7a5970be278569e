package partition

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/skepmq/skep/index"
	"github.com/skepmq/skep/segment/vfs"
)

// smallTails returns a tail with one batch of one message for each partition.
func smallTails(partitions, bytes int) []Tail {
	tails := make([]Tail, partitions)
	for i := range tails {
		b := newBatch(uint64(i+1), 0, 1, 1, bytes)
		tails[i] = Tail{Queue: 1, Partition: uint64(i + 1), Batches: [][]byte{b}}
	}
	return tails
}

func openBench(b testing.TB) *Store {
	b.Helper()
	s, err := Open(Options{FS: vfs.OS, Dir: b.TempDir()}, nil)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := s.Close(); err != nil {
			b.Error(err)
		}
	})
	return s
}

// file makes the results of a File the starting point of the next.
func file(b testing.TB, s *Store, tails []Tail) {
	b.Helper()
	filed, _, err := s.File(tails)
	if err != nil {
		b.Fatal(err)
	}
	for i := range filed {
		tails[i].Prev = filed[i].Newest
	}
}

func BenchmarkFile(b *testing.B) {
	for _, partitions := range []int{1, 1000, 100_000, 170_000} {
		b.Run(fmt.Sprintf("size=100/tails=%d/sync=on", partitions), func(b *testing.B) {
			s, tails := openBench(b), smallTails(partitions, 100)
			b.ReportAllocs()
			for b.Loop() {
				file(b, s, tails)
			}
			b.SetBytes(s.Stats().BytesWritten / int64(b.N))
			b.ReportMetric(float64(b.N*partitions)/b.Elapsed().Seconds(), "tails/s")
		})
	}
}

// BenchmarkPlan is File without the disk.
func BenchmarkPlan(b *testing.B) {
	s, tails := openBench(b), smallTails(170_000, 100)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := s.makePlan(tails); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkRead(b *testing.B) {
	const partitions = 100_000
	s, tails := openBench(b), smallTails(partitions, 100)
	file(b, s, tails)
	backlog := Tail{Queue: 2, Partition: partitions + 1}
	for i := range int64(20_000) {
		backlog.Batches = append(backlog.Batches, newBatch(backlog.Partition, i*10, i, 10, 1000))
	}
	long := []Tail{backlog}
	file(b, s, long)

	read := func(b *testing.B, newest index.Pointer, partition uint64, from int64, limit int) {
		n := 0
		err := s.Read(newest, partition, from, func(batch []byte) bool {
			n++
			return n < limit
		})
		if err != nil || n != limit {
			b.Fatalf("got %d batches, %v want %d", n, err, limit)
		}
	}
	b.Run("size=100/batch=1/partition=same", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			read(b, tails[7].Prev, tails[7].Partition, 0, 1)
		}
	})
	b.Run("size=100/batch=1/partition=random", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			t := &tails[rand.IntN(partitions)]
			read(b, t.Prev, t.Partition, 0, 1)
		}
	})
	b.Run("size=1k/batch=10/from=next", func(b *testing.B) {
		b.ReportAllocs()
		b.SetBytes(10 * int64(len(backlog.Batches[0])))
		for from := int64(0); b.Loop(); from = (from + 100) % 199_000 {
			read(b, long[0].Prev, backlog.Partition, from, 10)
		}
	})
	b.Run("size=1k/batch=10/from=random", func(b *testing.B) {
		b.ReportAllocs()
		b.SetBytes(int64(len(backlog.Batches[0])))
		for b.Loop() {
			read(b, long[0].Prev, backlog.Partition, rand.Int64N(200_000), 1)
		}
	})
}

// keepEvery needs one partition of so many.
type keepEvery uint64

func (k keepEvery) Holes(uint64) bool { return false }

func (k keepEvery) Keep(partition uint64, extents []index.Located) []index.Located {
	if partition%uint64(k) != 0 {
		return nil
	}
	return extents
}

// BenchmarkRewrite copies what is needed of one segment of 64 MiB; bytes are those copied.
func BenchmarkRewrite(b *testing.B) {
	for _, c := range []struct{ size, every int }{{100, 4}, {10_000, 4}, {10_000, 100}} {
		b.Run(fmt.Sprintf("size=%d/needed=1in%d/sync=on", c.size, c.every), func(b *testing.B) {
			s := openBench(b)
			file(b, s, smallTails(60<<20/(c.size+150), c.size))
			info := s.Aged()[0]
			s.Retire(info.ID, info.Length)
			copied := int64(0)
			b.ReportAllocs()
			for b.Loop() {
				r, err := s.Rewrite([]uint32{info.ID}, keepEvery(c.every), pace)
				if err != nil {
					b.Fatal(err)
				}
				copied = r.Length
				s.Discard(r)
			}
			b.SetBytes(copied)
		})
	}
}
