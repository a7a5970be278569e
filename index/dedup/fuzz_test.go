package dedup

import (
	"bytes"
	"testing"
)

// FuzzOpen opens an index whose append file is any bytes: what is no block is torn or
// damaged, and the index takes more, which the next open finds.
func FuzzOpen(f *testing.F) {
	one := appendBlock(nil, goldenSeed, 1, 0, []Entry{{1, 2, 1000}, {3, 4, 1001}})
	two := appendBlock(nil, goldenSeed, 2, 0, []Entry{{5, 6, 1002}})
	f.Add(one)
	f.Add(bytes.Join([][]byte{one, two, make([]byte, 64)}, nil))
	f.Add(bytes.Join([][]byte{one[:40], two}, nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		fs := seededFS(t)
		writeFile(t, fs, logPath(1), b)
		x, recovery, err := Open(Options{FS: fs, Dir: testDir})
		mustDo(t, "open", err)
		x.Add(100, 200, 2000)
		mustDo(t, "save", x.Save([]Entry{{100, 200, 2000}}))
		if len(recovery.Damaged) > 0 {
			mustDo(t, "discard", x.DiscardDamaged())
		}
		mustDo(t, "close", x.Close())
		x, recovery, err = Open(Options{FS: fs, Dir: testDir})
		mustDo(t, "open again", err)
		if len(recovery.Damaged) > 0 {
			t.Fatalf("damaged after the rebuild: %v", recovery.Damaged)
		}
		mustDo(t, "close again", x.Close())
	})
}

// FuzzSortedFile opens an index with a sorted file of any bytes.
func FuzzSortedFile(f *testing.F) {
	f.Add(make([]byte, 100))
	f.Add(bytes.Repeat([]byte{0xff}, 9000))
	f.Fuzz(func(t *testing.T, b []byte) {
		fs := seededFS(t)
		writeFile(t, fs, sortedPath(1), b)
		x, _, err := Open(Options{FS: fs, Dir: testDir})
		mustDo(t, "open", err)
		x.Add(100, 200, 2000)
		mustDo(t, "save", x.Save([]Entry{{100, 200, 2000}}))
		mustDo(t, "close", x.Close())
	})
}
