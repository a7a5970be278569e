package dedup

import (
	"bytes"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/skepmq/skep/segment/vfs"
	"github.com/skepmq/skep/segment/vfs/faultfs"
)

var update = flag.Bool("update", false, "write the golden files")

const goldenSeed = 0x0123456789ABCDEF

var goldenEntries = []Entry{
	{0x1111111111111111, 0, 1_700_000_000_000},
	{0x2222222222222222, 77, 1_700_000_000_001},
	{0xFFFFFFFFFFFFFFFF, MaxOffset, 1_699_999_000_000},
}

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		mustDo(t, "write golden", os.WriteFile(path, got, 0o644))
	}
	want, err := os.ReadFile(path)
	mustDo(t, "read golden", err)
	if !bytes.Equal(got, want) {
		t.Errorf("%s: got\n%x\nwant\n%x", name, got, want)
	}
}

func goldenSorted(t *testing.T) []byte {
	t.Helper()
	fs := faultfs.New()
	w, err := newSortedWriter(fs, "x", goldenSeed, 3, 5, int64(len(goldenEntries)))
	mustDo(t, "create", err)
	for _, e := range goldenEntries {
		w.add(slot{e.Hash, packMeta(e.Offset, e.TimestampMs)})
	}
	f, err := w.finish(goldenEntries[1].TimestampMs)
	mustDo(t, "finish", err)
	mustDo(t, "release", f.release())
	return readFile(t, fs, "x")
}

func TestGolden(t *testing.T) {
	golden(t, "seed.golden", appendSeed(nil, goldenSeed))
	golden(t, "block.golden", appendBlock(nil, goldenSeed, 9, 2, goldenEntries))
	golden(t, "sorted.golden", goldenSorted(t))
}

func readFile(t testing.TB, fs vfs.FS, path string) []byte {
	t.Helper()
	f, err := fs.Open(path)
	mustDo(t, "open", err)
	defer f.Close()
	size, err := f.Size()
	mustDo(t, "size", err)
	b := make([]byte, size)
	if n, err := f.ReadAt(b, 0); n < len(b) {
		t.Fatalf("read %s: %v", path, err)
	}
	return b
}

func writeFile(t testing.TB, fs vfs.FS, path string, b []byte) {
	t.Helper()
	f, err := fs.Create(path)
	mustDo(t, "create", err)
	_, err = f.WriteAt(b, 0)
	mustDo(t, "write", errors.Join(err, f.Sync(), f.Close(), fs.SyncDir(filepath.Dir(path))))
}

func FuzzDecodeBlock(f *testing.F) {
	f.Add(appendBlock(nil, goldenSeed, 9, 2, goldenEntries))
	f.Fuzz(func(t *testing.T, b []byte) {
		block, err := decodeBlock(b, goldenSeed)
		if err != nil {
			return
		}
		if block.count() == 0 || block.len() > len(b) {
			t.Fatalf("%d entries in %d of %d bytes", block.count(), block.len(), len(b))
		}
		for i := range block.count() {
			if s := block.slot(i); !bytes.Equal(appendSlot(nil, s), block.entries[i*entryLen:][:entryLen]) {
				t.Fatalf("slot %d does not encode to its bytes", i)
			}
		}
	})
}

func FuzzDecodeSortedHeader(f *testing.F) {
	h := sortedHeader{seed: 1, first: 2, last: 3, entries: 300, pages: 2, blocks: 6}
	f.Add(h.encode())
	f.Fuzz(func(t *testing.T, b []byte) {
		if h, err := decodeSortedHeader(b); err == nil && !bytes.Equal(h.encode(), b[:pageLen]) {
			t.Fatal("header does not encode to its bytes")
		}
	})
}

func FuzzDecodePage(f *testing.F) {
	p := beginPage(make([]byte, 0, pageLen), 4)
	f.Add(endPage(appendSlot(p, slot{1, 1 << timeBits})), uint64(1))
	f.Fuzz(func(t *testing.T, b []byte, hash uint64) {
		p, err := decodePage(b, 4)
		if err != nil {
			return
		}
		if p.len() == 0 || p.len() > entriesPerPage {
			t.Fatalf("%d entries", p.len())
		}
		p.find(hash, 0, &candidates{})
	})
}

// TestAppendFileCuts opens every prefix of an append file: each holds exactly the
// blocks that are whole, and takes more.
func TestAppendFileCuts(t *testing.T) {
	whole, ends := appendFileBytes(t)
	for n := range len(whole) + 1 {
		fs := seededFS(t)
		writeFile(t, fs, logPath(1), whole[:n])
		x := openTest(t, fs, 0)
		want := 0
		for want < len(ends) && ends[want] <= n {
			want++
		}
		checkBlocks(t, x, want)
		x.Add(99, 99, 99)
		mustDo(t, "save", x.Save([]Entry{{99, 99, 99}}))
		mustDo(t, "close", x.Close())
		x = openTest(t, fs, 0)
		checkBlocks(t, x, want)
		if got := x.mustLookup(t, 99); !slices.Equal(got, []int64{99}) {
			t.Fatalf("cut at %d: the entry saved after it: got %v", n, got)
		}
		mustDo(t, "close", x.Close())
	}
}

// TestAppendFileFlips flips each bit of an append file. The last block is a torn
// tail then, what comes before is damage; nothing is invented.
func TestAppendFileFlips(t *testing.T) {
	whole, ends := appendFileBytes(t)
	for n := range len(whole) * 8 {
		fs := seededFS(t)
		flipped := slices.Clone(whole)
		flipped[n/8] ^= 1 << (n % 8)
		writeFile(t, fs, logPath(1), flipped)
		x, recovery, err := Open(Options{FS: fs, Dir: testDir})
		mustDo(t, "open", err)
		if n/8 >= ends[len(ends)-2] {
			if len(recovery.Damaged) != 0 {
				t.Fatalf("bit %d of the last block: reported as damage", n)
			}
			checkBlocks(t, x, len(ends)-1)
		} else {
			at := int64(0)
			for _, end := range ends {
				if end <= n/8 {
					at = int64(end)
				}
			}
			if len(recovery.Damaged) != 1 || recovery.Damaged[0].Position != at {
				t.Fatalf("bit %d: got %v, want damage at %d", n, recovery.Damaged, at)
			}
			checkBlocks(t, x, 0)
		}
		mustDo(t, "close", x.Close())
	}
}

// appendFileBytes returns an append file of three saves of one block, in which block
// n holds the entry with hash and offset n+1, and where each ends.
func appendFileBytes(t *testing.T) (whole []byte, ends []int) {
	t.Helper()
	for n := range int64(3) {
		whole = appendBlock(whole, goldenSeed, uint64(n+1), 0, []Entry{{uint64(n + 1), n + 1, 1000}})
		ends = append(ends, len(whole))
	}
	return whole, ends
}

func checkBlocks(t *testing.T, x *Index, want int) {
	t.Helper()
	for n := range int64(3) {
		got := x.mustLookup(t, uint64(n+1))
		if found := slices.Equal(got, []int64{n + 1}); found != (int(n) < want) || len(got) > 1 {
			t.Fatalf("block %d: got %v, want the first %d blocks", n, got, want)
		}
	}
}

func logPath(bucket uint64) string {
	return (&Index{options: Options{Dir: testDir}}).path(bucket, logSuffix)
}

// seededFS returns a directory with the seed of the golden files and nothing else.
func seededFS(t testing.TB) *faultfs.FS {
	t.Helper()
	fs := faultfs.New()
	mustDo(t, "mkdir", vfs.MakeDir(fs, testDir))
	writeFile(t, fs, filepath.Join(testDir, seedName), appendSeed(nil, goldenSeed))
	return fs
}
