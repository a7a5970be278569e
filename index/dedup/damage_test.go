package dedup

import (
	"errors"
	"path/filepath"
	"slices"
	"testing"

	"github.com/skepmq/skep/segment/vfs/faultfs"
)

// TestTornOrDamaged puts invalid bytes into append files and expects the verdict.
func TestTornOrDamaged(t *testing.T) {
	block := func(save uint64, part uint32) []byte {
		return appendBlock(nil, goldenSeed, save, part, []Entry{{save, int64(part), 1000}})
	}
	bad := func(save uint64, part uint32) []byte {
		b := block(save, part)
		b[len(b)-1] ^= 1
		return b
	}
	foreign := appendBlock(nil, goldenSeed+1, 1, 0, []Entry{{1, 1, 1000}})
	zeros := make([]byte, 500)
	tests := []struct {
		name    string
		files   [][][]byte // blocks by file
		damaged []int64    // positions
	}{
		{"zeros behind", [][][]byte{{block(1, 0), zeros}}, nil},
		{"nothing but zeros", [][][]byte{{zeros}}, nil},
		{"last block", [][][]byte{{block(1, 0), bad(2, 0)}}, nil},
		{"last block, then zeros", [][][]byte{{block(1, 0), bad(2, 0), zeros}}, nil},
		{"first of a save whose rest is there", [][][]byte{{block(1, 0), bad(2, 0), block(2, 1)}}, nil},
		{"middle of the last save", [][][]byte{{block(1, 0), block(2, 0), bad(2, 1), block(2, 2)}}, nil},
		{"before another save", [][][]byte{{block(1, 0), bad(2, 0), block(3, 0)}}, []int64{64}},
		{"two bad saves, then the rest of another", [][][]byte{{block(1, 0), bad(2, 0), bad(3, 0), block(3, 1)}}, []int64{64}},
		{"first block of all", [][][]byte{{bad(1, 0), block(2, 0)}}, []int64{0}},
		{"tail of a file that is not the last", [][][]byte{{block(1, 0), bad(2, 0)}, {block(3, 0)}}, []int64{64}},
		{"zeros in a file that is not the last", [][][]byte{{block(1, 0), zeros}, {}}, []int64{64}},
		{"another seed", [][][]byte{{foreign}}, []int64{0}},
		{"another seed behind", [][][]byte{{block(1, 0), bad(2, 0), foreign}}, []int64{64}},
		{"two files", [][][]byte{{bad(1, 0), block(2, 0)}, {bad(3, 0), block(4, 0)}, {block(5, 0)}}, []int64{0, 0}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			fs := seededFS(t)
			for i, blocks := range tt.files {
				writeFile(t, fs, logPath(uint64(i+1)), slices.Concat(blocks...))
			}
			for range 2 { // a cut, or a file set aside, changes no later verdict
				x, recovery, err := Open(Options{FS: fs, Dir: testDir})
				mustDo(t, "open", err)
				var got []int64
				for _, d := range recovery.Damaged {
					got = append(got, d.Position)
				}
				if len(got) != len(tt.damaged) {
					t.Errorf("got damage at %v, want at %v", got, tt.damaged)
				}
				mustDo(t, "close", x.Close())
			}
		})
	}
}

// TestDamageIsRemembered follows a damaged file from the open that finds it to the
// end of the rebuild: it is reported by every open before that, and by none after.
func TestDamageIsRemembered(t *testing.T) {
	fs := seededFS(t)
	whole, _ := appendFileBytes(t)
	whole[0] ^= 1
	writeFile(t, fs, logPath(1), whole)
	for round := range 3 {
		x, recovery, err := Open(Options{FS: fs, Dir: testDir})
		mustDo(t, "open", err)
		if len(recovery.Damaged) != 1 {
			t.Fatalf("open %d: got %v, want one damaged file", round, recovery.Damaged)
		}
		if x.Stats().DiskBytes != int64(len(whole)) {
			t.Errorf("open %d: the damaged file is not counted", round)
		}
		if round == 2 { // the rebuild; before, it did not get that far
			x.Add(1, 1, 1000)
			mustDo(t, "save", x.Save([]Entry{{1, 1, 1000}}))
			mustDo(t, "discard", x.DiscardDamaged())
		}
		mustDo(t, "close", x.Close())
		fs = fs.CrashStrict()
	}
	// Its removal is not synced, so only the process ends here.
	x, _, err := Open(Options{FS: fs, Dir: testDir})
	mustDo(t, "open", err)
	mustDo(t, "discard", x.DiscardDamaged())
	mustDo(t, "close", x.Close())
	x = openTest(t, fs, 0)
	defer x.Close()
	if got := x.mustLookup(t, 1); !slices.Equal(got, []int64{1}) {
		t.Errorf("after the rebuild: got %v", got)
	}
}

func TestSeedLostOrDamaged(t *testing.T) {
	for _, lost := range []bool{false, true} {
		fs := seededFS(t)
		whole, _ := appendFileBytes(t)
		writeFile(t, fs, logPath(1), whole)
		seed, want := filepath.Join(testDir, seedName), 1
		if lost {
			mustDo(t, "remove", fs.Remove(seed))
		} else {
			writeFile(t, fs, seed, make([]byte, seedLen))
			want++
		}
		x, recovery, err := Open(Options{FS: fs, Dir: testDir})
		mustDo(t, "open", err)
		if len(recovery.Damaged) != want || x.Stats().Entries != 0 {
			t.Errorf("lost %v: got %v and %d entries, want %d damaged files and none", lost, recovery.Damaged, x.Stats().Entries, want)
		}
		mustDo(t, "discard", x.DiscardDamaged())
		mustDo(t, "close", x.Close())
		mustDo(t, "close", openTest(t, fs, 0).Close())
	}
}

// spilledFS returns a directory with entries 1 to n in one sorted file.
func spilledFS(t *testing.T, n int) *faultfs.FS {
	t.Helper()
	fs := seededFS(t)
	x := openTest(t, fs, 1<<30)
	var batch []Entry
	for i := 1; i <= n; i++ {
		e := Entry{mix(uint64(i)), int64(i), 1000}
		x.Add(e.Hash, e.Offset, e.TimestampMs)
		batch = append(batch, e)
	}
	mustDo(t, "save", x.Save(batch))
	x.roll(x.activeBucket())
	x.options.CacheBytes = 1
	mustDo(t, "spill", x.Save(nil))
	if st := x.Stats(); st.SpilledBuckets != 1 || st.Entries != int64(n) {
		t.Fatalf("got %+v, want %d entries in one spilled bucket", st, n)
	}
	mustDo(t, "close", x.Close())
	want := []string{filepath.Base(sortedPath(1)), seedName}
	if names, _ := fs.List(testDir); !slices.Equal(names, want) {
		t.Fatalf("files %v after a spill, want %v", names, want)
	}
	return fs
}

// TestSortedFileFlips flips bits of a sorted file. Whatever is read at open is
// reported by it; a page answers lookups with an error, and is reported by the next
// open. No lookup misses an entry in silence.
func TestSortedFileFlips(t *testing.T) {
	const entries = 600
	clean := readFile(t, spilledFS(t, entries), sortedPath(1))
	for at := 0; at < len(clean); at += 37 {
		fs := seededFS(t)
		flipped := slices.Clone(clean)
		flipped[at] ^= 0x10
		writeFile(t, fs, sortedPath(1), flipped)
		x, recovery, err := Open(Options{FS: fs, Dir: testDir})
		mustDo(t, "open", err)
		inPage := at >= pageLen && at < 4*pageLen
		if damaged := len(recovery.Damaged) == 1; damaged == inPage {
			t.Fatalf("byte %d: damage reported by open: %v", at, damaged)
		}
		if inPage {
			checkDamagedPage(t, x, entries, int64(at/pageLen*pageLen))
			mustDo(t, "save", x.Save(nil))
			mustDo(t, "close", x.Close())
			x, recovery, err = Open(Options{FS: fs, Dir: testDir})
			if err != nil || len(recovery.Damaged) != 1 {
				t.Fatalf("byte %d: next open: %v, %v", at, recovery.Damaged, err)
			}
		}
		mustDo(t, "close", x.Close())
	}
}

func checkDamagedPage(t *testing.T, x *Index, entries int, position int64) {
	t.Helper()
	failed := 0
	for i := 1; i <= entries; i++ {
		got, err := x.Lookup(mix(uint64(i)), nil)
		var corrupt *CorruptError
		switch {
		case errors.As(err, &corrupt) && corrupt.Position == position:
			failed++
		case err != nil || !slices.Equal(got, []int64{int64(i)}):
			t.Fatalf("entry %d: got %v, %v", i, got, err)
		}
	}
	if failed == 0 || failed > entriesPerPage+1 { // the hash the next page begins with may also be here
		t.Fatalf("%d lookups failed for one damaged page", failed)
	}
}

func sortedPath(bucket uint64) string {
	return (&Index{options: Options{Dir: testDir}}).path(bucket, sortedSuffix)
}

// TestSpillFailureKeepsEntries lets every file of a spill fail: memory is exceeded,
// nothing is lost, and the next Save catches up.
func TestSpillFailureKeepsEntries(t *testing.T) {
	for n := 0; ; n++ {
		fs := faultfs.New()
		x := openTest(t, fs, 1<<30)
		for i := range int64(1000) {
			x.Add(mix(uint64(i)), i, 1000)
		}
		x.roll(x.activeBucket())
		x.options.CacheBytes = 1
		before := fs.Calls()
		fs.FailAt(before+n, faultfs.Fault{Err: faultfs.ENOSPC})
		mustDo(t, "save", x.Save(nil))
		met := fs.Calls() > before+n
		for range 2 {
			for i := range int64(1000) {
				if got := x.mustLookup(t, mix(uint64(i))); !slices.Equal(got, []int64{i}) {
					t.Fatalf("fault %d: entry %d: got %v", n, i, got)
				}
			}
			mustDo(t, "save", x.Save(nil))
			if got := x.Stats().SpilledBuckets; got != 1 {
				t.Fatalf("fault %d: %d spilled buckets after another save", n, got)
			}
		}
		mustDo(t, "close", x.Close())
		if !met {
			return
		}
	}
}

func TestSaveFailureIsFinal(t *testing.T) {
	fs := faultfs.New()
	x := openTest(t, fs, 0)
	defer x.Close()
	x.Add(1, 1, 1)
	fs.FailAt(fs.Calls()+2, faultfs.Fault{}) // create, write, sync
	for range 2 {
		if err := x.Save([]Entry{{1, 1, 1}}); !errors.Is(err, ErrFailed) || !errors.Is(err, faultfs.EIO) {
			t.Errorf("got %v, want ErrFailed and EIO", err)
		}
	}
	if got := x.mustLookup(t, 1); !slices.Equal(got, []int64{1}) {
		t.Errorf("lookup after the failure: got %v", got)
	}
}

// TestCutIsSynced checks that a torn tail does not come back after a power cut: its
// file need not be the newest any more, and it would pass for damage.
func TestCutIsSynced(t *testing.T) {
	fs := seededFS(t)
	whole, ends := appendFileBytes(t)
	writeFile(t, fs, logPath(1), whole[:len(whole)-1])
	mustDo(t, "close", openTest(t, fs, 0).Close())
	if got := len(readFile(t, fs.CrashStrict(), logPath(1))); got != ends[1] {
		t.Errorf("after a cut and a crash: %d bytes, want %d", got, ends[1])
	}
}

// TestOpenSyncsNames takes over from a process that was killed between creating an
// append file and syncing its name. Save must not rely on the name.
func TestOpenSyncsNames(t *testing.T) {
	fs := seededFS(t)
	f, err := fs.Create(logPath(1))
	mustDo(t, "create", errors.Join(err, f.Close()))
	x := openTest(t, fs, 0)
	x.Add(1, 1, 1)
	mustDo(t, "save", x.Save([]Entry{{1, 1, 1}}))
	mustDo(t, "close", x.Close())
	x = openTest(t, fs.CrashStrict(), 0)
	defer x.Close()
	if got := x.mustLookup(t, 1); !slices.Equal(got, []int64{1}) {
		t.Errorf("after a power cut: got %v, want what Save returned for", got)
	}
}
