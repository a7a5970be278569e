package lease

import (
	"cmp"
	"encoding/binary"
	"maps"
	"slices"
	"sync"
	"testing"

	"pgregory.net/rapid"
)

func testID(n uint64) (id [16]byte) {
	binary.LittleEndian.PutUint64(id[8:], n)
	return id
}

func compareKeys(a, b Key) int {
	return cmp.Or(cmp.Compare(a.Partition, b.Partition), cmp.Compare(a.Group, b.Group))
}

// TestTableModel compares the table with a map of sets.
func TestTableModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var table Table
		model := map[[16]byte]map[Key]bool{}
		ids := rapid.Map(rapid.Uint64Range(0, 5), testID)
		keys := rapid.Custom(func(t *rapid.T) Key {
			return Key{rapid.Uint64Range(0, 3).Draw(t, "partition"), rapid.Uint32Range(0, 1).Draw(t, "group")}
		})
		t.Repeat(map[string]func(*rapid.T){
			"add": func(t *rapid.T) {
				id, k := ids.Draw(t, "id"), keys.Draw(t, "key")
				table.Add(id, k)
				if model[id] == nil {
					model[id] = map[Key]bool{}
				}
				model[id][k] = true
			},
			"remove": func(t *rapid.T) {
				id, k := ids.Draw(t, "id"), keys.Draw(t, "key")
				table.Remove(id, k)
				if delete(model[id], k); len(model[id]) == 0 {
					delete(model, id)
				}
			},
			"": func(t *rapid.T) {
				if table.Len() != len(model) {
					t.Fatalf("Len got %d, want %d", table.Len(), len(model))
				}
				for n := range uint64(6) {
					id := testID(n)
					got := table.Keys(id, nil)
					slices.SortFunc(got, compareKeys)
					want := slices.SortedFunc(maps.Keys(model[id]), compareKeys)
					if !slices.Equal(got, want) {
						t.Fatalf("keys of %d: got %v, want %v", n, got, want)
					}
				}
			},
		})
	})
}

func TestTableForgets(t *testing.T) {
	var table Table
	for n := range uint64(100) {
		table.Add(testID(n), Key{n, 1})
		table.Add(testID(n), Key{n, 2})
	}
	for n := range uint64(100) {
		table.Remove(testID(n), Key{n, 1})
		table.Remove(testID(n), Key{n, 2})
	}
	for i := range table.shards {
		if s := &table.shards[i]; len(s.first)+len(s.more) != 0 {
			t.Fatalf("shard %d still holds %d ids and %d sets", i, len(s.first), len(s.more))
		}
	}
}

func TestTableConcurrent(t *testing.T) {
	var table Table
	var wg sync.WaitGroup
	for g := range uint32(4) {
		wg.Go(func() {
			var keys []Key
			for n := range uint64(500) {
				id := testID(n % 50) // all goroutines share the ids
				table.Add(id, Key{n, g})
				if keys = table.Keys(id, keys[:0]); !slices.Contains(keys, Key{n, g}) {
					t.Errorf("group %d: key %d is missing from %v", g, n, keys)
				}
				table.Remove(id, Key{n, g})
			}
		})
	}
	wg.Wait()
	if n := table.Len(); n != 0 {
		t.Errorf("Len got %d, want 0", n)
	}
}

func BenchmarkTable(b *testing.B) {
	var table Table
	for n := range uint64(100_000) {
		table.Add(testID(n), Key{n, 1})
	}
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		keys := make([]Key, 0, 4)
		for n := uint64(1 << 20); pb.Next(); n++ {
			id := testID(n)
			table.Add(id, Key{n, 1})
			keys = table.Keys(id, keys[:0])
			table.Remove(id, Key{n, 1})
		}
	})
}
