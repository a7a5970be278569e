package dedup

import (
	"slices"
	"testing"

	"github.com/skepmq/skep/segment/vfs/faultfs"
)

// openSpilling opens an index of large buckets that spills each as soon as it is sealed.
func openSpilling(t *testing.T, fs *faultfs.FS) *Index {
	t.Helper()
	x := openTest(t, fs, 1<<30)
	x.options.CacheBytes = 1
	return x
}

// spillBuckets spills n buckets of 300 entries, one second apart. Entry i has the
// hash mix(i), but every tenth shares the hash 5.
func spillBuckets(t *testing.T, x *Index, from, n int) {
	t.Helper()
	for b := from; b < from+n; b++ {
		for i := b * 300; i < (b+1)*300; i++ {
			x.Add(mergeHash(i), int64(i), int64(b)*1000)
		}
		x.roll(x.activeBucket())
		mustDo(t, "save", x.Save(nil))
	}
}

func mergeHash(i int) uint64 {
	if i%10 == 0 {
		return 5
	}
	return mix(uint64(i))
}

func checkMerged(t *testing.T, x *Index, entries int) {
	t.Helper()
	var shared []int64
	for i := range entries {
		if i%10 == 0 {
			shared = append(shared, int64(i))
		} else if got := x.mustLookup(t, mergeHash(i)); !slices.Equal(got, []int64{int64(i)}) {
			t.Fatalf("entry %d: got %v", i, got)
		}
	}
	if got := x.mustLookup(t, 5); !slices.Equal(got, shared) { // spans pages
		t.Fatalf("shared hash: got %d offsets, want %d", len(got), len(shared))
	}
}

func TestMerge(t *testing.T) {
	fs := faultfs.New()
	x := openSpilling(t, fs)
	spillBuckets(t, x, 0, 37)
	if got := x.Stats().SpilledBuckets; got != 4 { // 16 + 16 + 4 + 1
		t.Errorf("%d files of 37 spilled buckets, want 4", got)
	}
	checkMerged(t, x, 37*300)
	mustDo(t, "close", x.Close())
	if n := fs.Handles(); n != 0 {
		t.Errorf("%d files left open", n)
	}
	fs = fs.CrashStrict() // files that a merge had replaced may be back
	x = openSpilling(t, fs)
	defer x.Close()
	if st := x.Stats(); st.SpilledBuckets != 4 || st.Entries != 37*300 {
		t.Errorf("after a crash: %+v", st)
	}
	checkMerged(t, x, 37*300)
}

// TestMergeKeepsToTheWindow checks that files are not merged over more time than a
// bucket may cover: expiry would have to wait for the newest of them.
func TestMergeKeepsToTheWindow(t *testing.T) {
	x := openSpilling(t, faultfs.New())
	defer x.Close()
	x.spanMs.Store(3999)
	spillBuckets(t, x, 0, 16)
	if got := x.Stats().SpilledBuckets; got != 4 {
		t.Errorf("%d files, want 4 of four buckets", got)
	}
	mustDo(t, "expire", x.Expire(4000))
	if got := x.mustLookup(t, mergeHash(1199)); len(got) != 0 {
		t.Errorf("the first four buckets are still there: %v", got)
	}
	if got := x.mustLookup(t, mergeHash(1201)); len(got) != 1 {
		t.Errorf("the fifth bucket is gone")
	}
}

// TestReaderOutlivesMerge holds a file as a lookup does while it is merged away.
func TestReaderOutlivesMerge(t *testing.T) {
	x := openSpilling(t, faultfs.New())
	defer x.Close()
	spillBuckets(t, x, 0, 3)
	f := x.layout.Load().spilled[0]
	if !f.acquire() {
		t.Fatal("not acquired")
	}
	spillBuckets(t, x, 3, 1)
	if got := x.Stats().SpilledBuckets; got != 1 {
		t.Fatalf("%d files, want 1", got)
	}
	c := candidates{}
	if err := f.find(mergeHash(7), &c); err != nil || !slices.Equal(c.offsets, []int64{7}) {
		t.Errorf("reading on: got %v, %v", c.offsets, err)
	}
	mustDo(t, "release", f.release())
	if f.acquire() {
		t.Error("acquired after the last release")
	}
	checkMerged(t, x, 4*300)
}
