//go:build !race

package dedup

import (
	"testing"

	"github.com/skepmq/skep/segment/vfs/faultfs"
)

func TestAllocs(t *testing.T) {
	x := openSpilling(t, faultfs.New())
	defer x.Close()
	spillBuckets(t, x, 0, 1)
	x.options.CacheBytes = 1 << 30
	spillBuckets(t, x, 1, 1)
	for i := range uint64(10_000) {
		x.Add(mix(1<<40+i), 1, 1000)
	}
	id := []byte("a-transaction-id-of-common-length-0123456789")
	found := make([]int64, 0, 8)
	n := uint64(0)
	tests := []struct {
		name string
		do   func()
	}{
		{"hash", func() { n += x.Hash(n, id) }},
		{"lookup of a fresh id", func() { n++; found, _ = x.Lookup(mix(n<<20), found[:0]) }},
		{"lookup in a spilled bucket", func() { found, _ = x.Lookup(mergeHash(7), found[:0]) }},
		{"lookup in a sealed bucket", func() { found, _ = x.Lookup(mergeHash(307), found[:0]) }},
		{"add", func() { x.Add(mix(1<<40), 1, 1000) }},
	}
	for _, tt := range tests {
		if got := testing.AllocsPerRun(1000, tt.do); got != 0 {
			t.Errorf("%s allocates %v times, want 0", tt.name, got)
		}
	}
}
