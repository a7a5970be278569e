//go:build !race

package partition

import (
	"runtime"
	"testing"
)

// File allocates by the slice, not by the tail, and a Store keeps nothing of either.
func TestFileAllocs(t *testing.T) {
	const partitions = 20_000
	s, tails := openBench(t), smallTails(partitions, 10)
	if got := testing.AllocsPerRun(5, func() { file(t, s, tails) }); got > 300 {
		t.Errorf("got %v allocations for %d tails", got, partitions)
	}
	heap := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.GC() // the pools
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := heap()
	for range 5 {
		file(t, s, tails)
	}
	if got := int64(heap()) - int64(before); got > partitions {
		t.Errorf("the heap grew by %d bytes", got)
	}
	runtime.KeepAlive(tails)
	runtime.KeepAlive(s)
}

// A read of what is cached allocates for its walk alone.
func TestReadAllocs(t *testing.T) {
	s, tails := openBench(t), smallTails(10, 10)
	file(t, s, tails)
	count := 0
	fn := func([]byte) bool { count++; return true }
	if got := testing.AllocsPerRun(100, func() {
		if err := s.Read(tails[3].Prev, tails[3].Partition, 0, fn); err != nil {
			t.Fatal(err)
		}
	}); got > 1 || count == 0 {
		t.Errorf("got %v allocations, %d batches", got, count)
	}
}
