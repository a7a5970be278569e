package dedup

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// TestTableModel compares a table with a map of lists, with hashes that share homes
// at the end of the table, where probing goes round.
func TestTableModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var table table
		model := map[uint64][]int64{}
		full := false
		const maxSlots = 64
		hashes := rapid.OneOf(rapid.Uint64Range(0, 3), rapid.Map(rapid.Uint64Range(0, 40), func(n uint64) uint64 {
			return 1<<(64-shardBits) - 1 - n
		}), rapid.Map(rapid.Uint64(), func(n uint64) uint64 { return n >> shardBits }))
		for range rapid.IntRange(0, 80).Draw(t, "n") {
			h, offset := hashes.Draw(t, "hash"), rapid.Int64Range(0, 2).Draw(t, "offset")
			known := slices.Contains(model[h], offset)
			if table.insert(h, packMeta(offset, 0), 0, maxSlots) {
				if full && !known {
					t.Fatal("a full table took an entry")
				}
				if !known {
					model[h] = append(model[h], offset)
				}
			} else {
				if known || table.len != maxSlots*3/4 {
					t.Fatalf("refused with %d entries, known %v", table.len, known)
				}
				full = true
			}
		}
		n := 0
		for h, want := range model {
			n += len(want)
			c := candidates{sinceMs: -1}
			if table.find(h, &c); !slices.Equal(slices.Sorted(slices.Values(c.offsets)), slices.Sorted(slices.Values(want))) {
				t.Fatalf("hash %x: got %v, want %v", h, c.offsets, want)
			}
		}
		if got := len(table.appendSlots(nil)); got != n || table.len != n {
			t.Fatalf("%d slots and len %d, want %d", got, table.len, n)
		}
	})
}

// TestFilter measures what passes: every hash that is in, about one of a hundred others.
func TestFilter(t *testing.T) {
	const n = 100_000
	f := newFilter(n)
	for i := range uint64(n) {
		f.add(mix(i))
	}
	passed := 0
	for i := range uint64(n) {
		if !f.mayContain(mix(i)) || f.glance(mix(i)) != 1 {
			t.Fatalf("hash %d is in and does not pass", i)
		}
		if f.mayContain(mix(n + i)) {
			passed++
		}
	}
	if passed > n*15/1000 {
		t.Errorf("%d of %d absent hashes pass, want at most 1.5%%", passed, n)
	}
	if f.memory() > n*filterBitsPerEntry/8+filterBlockLen {
		t.Errorf("%d bytes for %d entries", f.memory(), n)
	}
}
