package dedup

import (
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/skepmq/skep/segment/vfs"
	"github.com/skepmq/skep/segment/vfs/faultfs"
)

var seedFlag = flag.Uint64("seed", 0, "seed of the random histories; 0: another each time")

// newRand returns a source whose seed is printed when the test fails.
func newRand(t testing.TB) *rand.Rand {
	seed := *seedFlag
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("run again with -seed=%d", seed)
		}
	})
	return rand.New(rand.NewPCG(seed, 0))
}

const testDir = "data/dedup"

// smallCache makes buckets of a few hundred entries, so that everything happens.
const smallCache = 160 << 10

func openTest(t testing.TB, fs vfs.FS, cacheBytes int64) *Index {
	t.Helper()
	x, recovery, err := Open(Options{FS: fs, Dir: testDir, CacheBytes: cacheBytes})
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	for _, d := range recovery.Damaged {
		t.Errorf("damaged: %v", d)
	}
	return x
}

func (x *Index) mustLookup(t testing.TB, hash uint64) []int64 {
	t.Helper()
	got, err := x.Lookup(hash, nil)
	if err != nil {
		t.Fatalf("lookup %016x: %v", hash, err)
	}
	slices.Sort(got)
	return got
}

func mustDo(t testing.TB, what string, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

func TestHash(t *testing.T) {
	x := openTest(t, faultfs.New(), 0)
	defer x.Close()
	long := make([]byte, 300)
	seen := map[uint64]string{}
	for _, partition := range []uint64{0, 1, 1 << 40} {
		for _, id := range [][]byte{nil, []byte("a"), []byte("b"), []byte("order-1"), long, long[:299]} {
			what := fmt.Sprintf("%d %q", partition, id)
			h := x.Hash(partition, id)
			if other, ok := seen[h]; ok {
				t.Errorf("%s and %s share a hash", what, other)
			}
			if seen[h] = what; x.Hash(partition, id) != h {
				t.Errorf("%s hashes differently the second time", what)
			}
		}
	}
}

func TestHashSurvivesReopen(t *testing.T) {
	fs := faultfs.New()
	x := openTest(t, fs, 0)
	want := x.Hash(7, []byte("id"))
	mustDo(t, "close", x.Close())
	fs = fs.CrashStrict()
	x = openTest(t, fs, 0)
	defer x.Close()
	if got := x.Hash(7, []byte("id")); got != want {
		t.Errorf("got %016x after reopening, want %016x", got, want)
	}
	y := openTest(t, faultfs.New(), 0)
	defer y.Close()
	if y.Hash(7, []byte("id")) == want {
		t.Error("two stores hash alike")
	}
}

func TestAddLookup(t *testing.T) {
	x := openTest(t, faultfs.New(), 0)
	defer x.Close()
	const h = 0xABCDEF
	if got := x.mustLookup(t, h); len(got) != 0 {
		t.Fatalf("empty index: got %v", got)
	}
	x.Add(h, 0, 0)
	x.Add(h, 5, 1000)
	x.Add(h, 5, 2000) // again
	x.Add(h, MaxOffset, 3000)
	x.Add(h, MaxOffset+1, 3000)
	x.Add(h, -1, 3000)
	x.Add(h+1, 9, 3000)
	if got, want := x.mustLookup(t, h), []int64{0, 5, MaxOffset}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	got, err := x.Lookup(h+1, []int64{77, 9})
	if want := []int64{77, 9, 9}; err != nil || !slices.Equal(got, want) {
		t.Errorf("appending got %v, %v, want %v", got, err, want)
	}
}

func TestLookupSince(t *testing.T) {
	const now = 1_700_000_000_000
	tests := []struct {
		name    string
		sinceMs int64
		want    []int64
	}{
		{"all", now - 50_000, []int64{1, 2, 3}},
		{"at its time", now - 20_000, []int64{2, 3}},
		{"after its time", now - 20_000 + timeUnitMs, []int64{3}},
		{"newest", now, []int64{3}},
		{"none", now + timeUnitMs, nil},
	}
	for _, cache := range []int64{0, 1} { // in memory and spilled
		x := openTest(t, faultfs.New(), cache)
		x.Add(1, 1, now-50_000)
		x.Add(1, 2, now-20_000)
		x.Add(1, 3, now)
		if cache == 1 {
			x.roll(x.activeBucket())
			mustDo(t, "save", x.Save(nil))
			if x.Stats().SpilledBuckets != 1 {
				t.Fatal("nothing spilled")
			}
		}
		for _, tt := range tests {
			got, err := x.LookupSince(1, tt.sinceMs, nil)
			if slices.Sort(got); err != nil || !slices.Equal(got, tt.want) {
				t.Errorf("cache %d, %s: got %v, %v, want %v", cache, tt.name, got, err, tt.want)
			}
		}
		mustDo(t, "close", x.Close())
	}
}

// TestMetaTime checks that an entry's time survives its 24 bits, rounded up.
func TestMetaTime(t *testing.T) {
	for _, newest := range []int64{0, 63, 64, 1_700_000_000_000, 1_700_000_000_063} {
		for _, age := range []int64{0, 1, 63, 64, 3_600_000, 12 * 24 * 3_600_000} {
			at := newest - age
			got := metaTime(packMeta(42, at), newest)
			if got < at || got >= at+timeUnitMs {
				t.Errorf("newest %d, age %d: got %d, want %d to %d", newest, age, got, at, at+timeUnitMs-1)
			}
		}
	}
}

func TestExpire(t *testing.T) {
	fs := faultfs.New()
	x := openTest(t, fs, 0)
	defer x.Close()
	entries := []Entry{{1, 10, 1000}, {2, 20, 2000}}
	for _, e := range entries {
		x.Add(e.Hash, e.Offset, e.TimestampMs)
	}
	mustDo(t, "save", x.Save(entries))
	mustDo(t, "expire", x.Expire(2000))
	for _, e := range entries { // one bucket, and its newest entry is wanted
		if got := x.mustLookup(t, e.Hash); !slices.Equal(got, []int64{e.Offset}) {
			t.Errorf("hash %d: got %v before the bucket is too old", e.Hash, got)
		}
	}
	mustDo(t, "expire", x.Expire(2001))
	for _, e := range entries {
		if got := x.mustLookup(t, e.Hash); len(got) != 0 {
			t.Errorf("hash %d: got %v after expiry", e.Hash, got)
		}
	}
	if st := x.Stats(); st.Entries != 0 || st.DiskBytes != 0 {
		t.Errorf("after expiry: %+v", st)
	}
	if names, _ := fs.List(testDir); !slices.Equal(names, []string{seedName}) {
		t.Errorf("after expiry: files %v", names)
	}
	x.Add(3, 30, 3000)
	mustDo(t, "save", x.Save([]Entry{{3, 30, 3000}}))
	if got := x.mustLookup(t, 3); !slices.Equal(got, []int64{30}) {
		t.Errorf("after expiry and again: got %v", got)
	}
}

// TestFewBuckets pushes a window's worth of time, sparsely, and expects about the
// number of buckets the window is cut into, not one for each default span.
func TestFewBuckets(t *testing.T) {
	x := openTest(t, faultfs.New(), 0)
	defer x.Close()
	day := (24 * time.Hour).Milliseconds()
	window := 7 * day
	for now := 10 * day; now < 30*day; now += day / 48 {
		x.Add(uint64(now)<<32, now, now)
		mustDo(t, "expire", x.Expire(now-window))
	}
	if st := x.Stats(); st.Buckets > 2*windowBuckets {
		t.Errorf("%d buckets, want at most %d", st.Buckets, 2*windowBuckets)
	}
}

func TestClosed(t *testing.T) {
	fs := faultfs.New()
	x := openTest(t, fs, 0)
	x.Add(1, 1, 1)
	mustDo(t, "save", x.Save([]Entry{{1, 1, 1}}))
	mustDo(t, "close", x.Close())
	mustDo(t, "close again", x.Close())
	for what, err := range map[string]error{
		"save": x.Save(nil), "expire": x.Expire(0), "discard": x.DiscardDamaged(),
	} {
		if !errors.Is(err, ErrClosed) {
			t.Errorf("%s after close: got %v, want ErrClosed", what, err)
		}
	}
	if n := fs.Handles(); n != 0 {
		t.Errorf("%d files left open", n)
	}
}

// TestOperatingSystem runs through everything once on real files.
func TestOperatingSystem(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "dedup")
	for round := range 3 {
		x, recovery, err := Open(Options{Dir: dir, CacheBytes: smallCache})
		if err != nil || len(recovery.Damaged) != 0 {
			t.Fatalf("open: %v, %v", err, recovery)
		}
		batch := make([]Entry, 4000)
		for i := range batch {
			n := round*len(batch) + i
			id := fmt.Appendf(nil, "id-%d", n)
			batch[i] = Entry{x.Hash(3, id), int64(n), int64(n)}
			x.Add(batch[i].Hash, batch[i].Offset, batch[i].TimestampMs)
		}
		mustDo(t, "save", x.Save(batch))
		for n := range (round + 1) * len(batch) {
			if got := x.mustLookup(t, x.Hash(3, fmt.Appendf(nil, "id-%d", n))); !slices.Equal(got, []int64{int64(n)}) {
				t.Fatalf("round %d, id-%d: got %v", round, n, got)
			}
		}
		mustDo(t, "close", x.Close())
	}
}

// TestConcurrent pushes, looks up, saves and expires at the same time. What has been
// added and is inside the window must be found by everyone at once.
func TestConcurrent(t *testing.T) {
	x := openTest(t, faultfs.New(), smallCache)
	defer x.Close()
	const pushers, each, window = 4, 6000, 1 << 40
	var clock atomic.Int64
	var pushing, wg sync.WaitGroup
	saveC := make(chan Entry, 256)
	for p := range uint64(pushers) {
		pushing.Go(func() {
			var found []int64
			for n := range int64(each) {
				h := mix(p<<32 | uint64(n))
				var err error
				if found, err = x.Lookup(h, found[:0]); err != nil || len(found) != 0 {
					t.Errorf("fresh id: got %v, %v", found, err)
				}
				e := Entry{h, n, clock.Add(1)}
				x.Add(e.Hash, e.Offset, e.TimestampMs)
				saveC <- e
				for _, back := range []int64{0, min(n, 1), n / 2, n} {
					h := mix(p<<32 | uint64(n-back))
					if found, err = x.Lookup(h, found[:0]); err != nil || !slices.Equal(found, []int64{n - back}) {
						t.Errorf("%d back of %d: got %v, %v", back, n, found, err)
						return
					}
				}
			}
		})
	}
	wg.Go(func() {
		var batch []Entry
		for e := range saveC {
			if batch = append(batch, e); len(batch) == 700 {
				if err := errors.Join(x.Save(batch), x.Expire(clock.Load()-window)); err != nil {
					t.Errorf("save: %v", err)
				}
				batch = batch[:0]
			}
			_ = x.Stats()
		}
	})
	pushing.Wait()
	close(saveC)
	wg.Wait()
	if st := x.Stats(); st.SpilledBuckets == 0 || st.Entries != pushers*each {
		t.Errorf("got %+v, want %d entries, some spilled", st, pushers*each)
	}
}

func mix(n uint64) uint64 {
	n = (n ^ n>>31) * 0x7FB5D329728EA185
	n = (n ^ n>>27) * 0x81DADEF4BC2DD44D
	return n ^ n>>33
}
