//go:build !race

package lease

import (
	"runtime"
	"testing"
)

func TestWheelAllocs(t *testing.T) {
	w := NewWheel[benchKey](0, tick)
	for i := range 10_000 {
		w.Add(int64(i), benchKey{partition: uint64(i)})
	}
	fired := make([]benchKey, 0, 10_000)
	var now int64
	turn := func() {
		now += 10
		fired = w.Advance(now, fired[:0])
		for _, k := range fired {
			w.Add(now+10_000, k)
		}
	}
	for range 2000 { // two turns of the leases: chunks and heap have their size
		turn()
	}
	if got := testing.AllocsPerRun(2000, turn); got != 0 {
		t.Errorf("a tick allocates %v times, want 0", got)
	}
}

// TestWheelMemory holds a million leases that end within a minute to the size of
// their entries and a fifth.
func TestWheelMemory(t *testing.T) {
	const n, entrySize = 1_000_000, 24
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	w := NewWheel[benchKey](0, tick)
	for i := range n {
		w.Add(int64(i%60_000), benchKey{partition: uint64(i)})
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	if got := int(after.HeapAlloc - before.HeapAlloc); got > n*entrySize*6/5 {
		t.Errorf("%d entries take %d bytes, want at most %d", n, got, n*entrySize*6/5)
	}
	runtime.KeepAlive(w)
}

func TestTableAllocs(t *testing.T) {
	var table Table
	for n := range uint64(10_000) {
		table.Add(testID(n), Key{n, 1})
	}
	keys := make([]Key, 0, 1)
	got := testing.AllocsPerRun(1000, func() {
		id := testID(77)
		keys = table.Keys(id, keys[:0])
		table.Remove(id, Key{77, 1})
		table.Add(id, Key{77, 1})
	})
	if got != 0 {
		t.Errorf("a lease of one key allocates %v times, want 0", got)
	}
}
