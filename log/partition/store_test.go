package partition

import (
	"bytes"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/skepmq/skep/index"
	"github.com/skepmq/skep/segment"
	"github.com/skepmq/skep/segment/vfs"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func TestRandom(t *testing.T) {
	for seed := range uint64(12) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			rng := newRand(seed)
			w := newWorld(t)
			w.o.CacheBytes = []int64{1, 5_000, 1 << 20}[seed%3]
			w.reopen()
			for range 25 {
				w.pushSome(rng)
				w.file()
				w.check(rng)
				if rng.IntN(5) == 0 {
					w.o.ExtentBytes = 300 + rng.IntN(500)
					w.reopen()
				}
			}
			w.checkFiles()
			if err := w.store.Close(); err != nil {
				t.Fatal(err)
			}
			if n := w.fs.Handles(); n != 0 {
				t.Errorf("%d handles left open", n)
			}
		})
	}
}

// checkFiles holds the directory against the catalogue, and the index of every
// segment against what its batches say.
func (w *world) checkFiles() {
	w.t.Helper()
	names, err := w.fs.List(testDir)
	if err != nil || len(names) != len(w.catalog) {
		w.t.Fatalf("got %d files, %v want %d", len(names), err, len(w.catalog))
	}
	var written, rebuilt []index.Located
	for id, info := range w.catalog {
		r, err := segment.OpenReader(w.fs, filepath.Join(testDir, segment.FileName(id)))
		if err != nil {
			w.t.Fatal(err)
		}
		entries, err := index.Rebuild(r, info.Length)
		if err != nil {
			w.t.Fatal(err)
		}
		rebuilt = append(rebuilt, entries...)
		for end := info.Length; end > segment.FileHeaderLen; {
			if entries, end, err = index.ReadIndex(r, end); err != nil {
				w.t.Fatal(err)
			}
			written = append(written, entries...)
		}
		if err := r.Close(); err != nil {
			w.t.Fatal(err)
		}
	}
	index.Link(rebuilt)
	prevs := map[index.Pointer]index.Pointer{}
	for _, e := range written {
		prevs[e.At] = e.Prev
	}
	index.Link(written) // sorts; what it sets must be what was there
	for _, e := range written {
		if prevs[e.At] != e.Prev {
			w.t.Fatalf("entry at %v: got prev %v want %v", e.At, prevs[e.At], e.Prev)
		}
	}
	if !slices.Equal(rebuilt, written) {
		w.t.Fatalf("rebuilt entries differ from those written: %d and %d", len(rebuilt), len(written))
	}
}

// Where tails go, as the catalogue sees it.
func TestPlacement(t *testing.T) {
	type push struct {
		partition uint64
		batches   int
		bytes     int
	}
	for name, tc := range map[string]struct {
		files [][]push
		want  []string // queue/partition of each segment by id, ! if sealed
	}{
		"small ones share":         {[][]push{{{100, 1, 10}, {101, 1, 10}, {102, 2, 10}}}, []string{"1/0"}},
		"queues do not":            {[][]push{{{100, 1, 10}, {200, 1, 10}}}, []string{"1/0", "2/0"}},
		"a large one has its own":  {[][]push{{{100, 1, 10}, {101, 5, 300}}}, []string{"1/0", "1/101"}},
		"appended across files":    {[][]push{{{100, 1, 10}}, {{101, 1, 10}}, {{100, 1, 10}}}, []string{"1/0"}},
		"own ones too":             {[][]push{{{100, 5, 300}}, {{100, 1, 1450}}}, []string{"1/100"}},
		"sealed when full":         {[][]push{{{100, 4, 300}, {101, 4, 300}, {102, 4, 300}}}, []string{"1/0!", "1/0"}},
		"sealed by a later file":   {[][]push{{{100, 4, 300}, {101, 4, 300}}, {{102, 4, 300}}}, []string{"1/0!", "1/0"}},
		"large ones are split":     {[][]push{{{100, 20, 300}}}, []string{"1/100!", "1/100!", "1/100"}},
		"one beyond a segment":     {[][]push{{{100, 1, 5000}}}, []string{"1/100!"}},
		"small after large shares": {[][]push{{{100, 5, 300}}, {{100, 1, 10}}}, []string{"1/100", "1/0"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			for _, pushes := range tc.files {
				for _, p := range pushes {
					for range p.batches {
						w.push(p.partition, 1, p.bytes)
					}
				}
				w.file()
			}
			var got []string
			for id := uint32(1); int(id) <= len(w.catalog); id++ {
				info := w.catalog[id]
				text := fmt.Sprintf("%d/%d", info.Queue, info.Partition)
				if info.Sealed {
					text += "!"
				}
				got = append(got, text)
			}
			if !slices.Equal(got, tc.want) {
				t.Errorf("got %v want %v", got, tc.want)
			}
			w.check(newRand(1))
			w.reopen()
			w.push(100, 1, 10)
			w.file()
			w.check(newRand(2))
		})
	}
}

// The bytes of a whole segment, two runs of it.
func TestSegmentGolden(t *testing.T) {
	w := newWorld(t)
	w.push(101, 1, 10)
	w.push(100, 2, 10)
	w.push(100, 1, 10)
	w.file()
	w.push(100, 1, 10)
	w.file()
	f, err := w.fs.Open(filepath.Join(testDir, "00000001.seg"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	b := make([]byte, w.catalog[1].Length)
	if _, err := f.ReadAt(b, 0); err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	for ; len(b) > 0; b = b[min(16, len(b)):] {
		fmt.Fprintln(&text, hex.EncodeToString(b[:min(16, len(b))]))
	}
	const path = "testdata/segment.golden"
	if *update {
		if err := os.WriteFile(path, []byte(text.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if want, err := os.ReadFile(path); err != nil || text.String() != string(want) {
		t.Errorf("%v: got\n%swant\n%s", err, text.String(), want)
	}
}

func TestFileRefuses(t *testing.T) {
	good := newBatch(100, 5, 1, 1, 10)
	flipped := bytes.Clone(good)
	flipped[70] ^= 1
	for name, tails := range map[string][]Tail{
		"partition 0":       {{Queue: 1, Batches: [][]byte{newBatch(0, 0, 1, 1, 10)}}},
		"no batches":        {{Queue: 1, Partition: 100}},
		"another partition": {{Queue: 1, Partition: 101, Batches: [][]byte{good}}},
		"damaged":           {{Queue: 1, Partition: 100, Batches: [][]byte{flipped}}},
		"cut":               {{Queue: 1, Partition: 100, Batches: [][]byte{good[:70]}}},
		"too long":          {{Queue: 1, Partition: 100, Batches: [][]byte{append(bytes.Clone(good), 0)}}},
		"descending":        {{Queue: 1, Partition: 100, Batches: [][]byte{good, newBatch(100, 5, 1, 1, 10)}}},
		"twice": {
			{Queue: 1, Partition: 100, Batches: [][]byte{good}},
			{Queue: 1, Partition: 100, Batches: [][]byte{newBatch(100, 6, 1, 1, 10)}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			calls := w.fs.Calls()
			if _, _, err := w.store.File(tails); !errors.Is(err, ErrTail) {
				t.Errorf("got %v want ErrTail", err)
			}
			if w.fs.Calls() != calls {
				t.Error("something was written")
			}
			w.push(100, 1, 10)
			w.file()
			w.check(newRand(1))
		})
	}
}

func TestFileNothing(t *testing.T) {
	w := newWorld(t)
	if filed, infos, err := w.store.File(nil); len(filed) != 0 || len(infos) != 0 || err != nil {
		t.Errorf("got %v, %v, %v", filed, infos, err)
	}
}

// Offsets may have gaps, and a read goes on behind one.
func TestGap(t *testing.T) {
	w := newWorld(t)
	l := w.lane(100)
	l.batches = [][]byte{newBatch(100, 3, 1, 2, 10), newBatch(100, 9, 1, 1, 10)}
	w.file()
	for from, want := range map[int64]int{0: 0, 4: 0, 5: 1, 9: 1, 10: 2} {
		w.wantRead(l, 100, from, l.batches[want:])
	}
}

// A caller that still holds an older pointer does not see what was filed since, with
// or without a cached chain, and does not disturb those who do.
func TestOlderPointer(t *testing.T) {
	w := newWorld(t)
	var pointers []index.Pointer
	l := w.lane(100)
	for range 6 {
		w.push(100, 1, 10)
		w.push(100, 1, 600)
		w.file()
		pointers = append(pointers, l.newest)
	}
	for _, i := range []int{5, 2, 4, 0, 5, 1} {
		for from := range int64(2*i + 3) {
			got, err := w.read(pointers[i], 100, from, 100)
			if want := l.batches[min(int(from), 2*i+2) : 2*i+2]; err != nil || !slices.EqualFunc(got, want, bytes.Equal) {
				t.Fatalf("pointer %d from %d: got %d batches, %v want %d", i, from, len(got), err, len(want))
			}
		}
	}
}

// fn decides how much is read.
func TestReadStops(t *testing.T) {
	w := newWorld(t)
	for range 20 {
		w.push(100, 1, 100)
	}
	w.file()
	l := w.lane(100)
	for limit := 1; limit <= 20; limit++ {
		got, err := w.read(l.newest, 100, 3, limit)
		if want := l.batches[3:min(20, 3+limit)]; err != nil || !slices.EqualFunc(got, want, bytes.Equal) {
			t.Fatalf("limit %d: got %d batches, %v want %d", limit, len(got), err, len(want))
		}
	}
}

func TestReadNothing(t *testing.T) {
	w := newWorld(t)
	for _, p := range []index.Pointer{{}, {Segment: 77, Position: 100}} {
		if got, err := w.read(p, 100, 0, 10); len(got) != 0 || err != nil {
			t.Errorf("%v: got %d batches, %v", p, len(got), err)
		}
		if _, ok, err := w.store.OffsetAt(p, 100, 0); ok || err != nil {
			t.Errorf("%v: got a time, %v", p, err)
		}
	}
}

// A chain too long to keep is read in stretches, from anywhere.
func TestLongChain(t *testing.T) {
	w := newWorld(t)
	w.o.CacheBytes = 4 * (itemOverhead + chainBytes(20))
	w.o.SegmentBytes = 1 << 20
	w.reopen()
	for i := range 300 {
		w.push(100, 1+i%2, 400)
		if i%7 == 0 {
			w.file()
		}
	}
	w.file()
	rng := newRand(3)
	for range 30 {
		w.check(rng)
	}
	if got := w.store.Stats().CacheBytes; got > w.o.CacheBytes {
		t.Errorf("got %d bytes cached, want at most %d", got, w.o.CacheBytes)
	}
}

func TestOpenRefuses(t *testing.T) {
	build := func(t *testing.T) *world {
		w := newWorld(t)
		w.push(100, 1, 10)
		w.push(200, 1, 10)
		w.file()
		if err := w.store.Close(); err != nil {
			t.Fatal(err)
		}
		return w
	}
	path := filepath.Join(testDir, "00000002.seg")
	t.Run("missing", func(t *testing.T) {
		w := build(t)
		if err := w.fs.Remove(path); err != nil {
			t.Fatal(err)
		}
		delete(w.catalog, 1) // and its file must stay
		_, err := Open(w.o, []SegmentInfo{w.catalog[2]})
		if !errors.Is(err, ErrMissing) || !strings.Contains(err.Error(), path) {
			t.Errorf("got %v want ErrMissing of %s", err, path)
		}
		if _, err := w.fs.Size(filepath.Join(testDir, "00000001.seg")); err != nil {
			t.Errorf("another segment was removed: %v", err)
		}
	})
	for name, spoil := range map[string]func(w *world){
		"shorter": func(w *world) {
			info := w.catalog[2]
			info.Length++
			w.catalog[2] = info
		},
		"one missing of two": func(w *world) {
			if err := w.fs.Remove(path); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := build(t)
			spoil(w)
			w.open()
			if !w.store.segments[2].Sealed {
				t.Error("the damaged segment may still be written to")
			}
			w.wantRead(w.lane(100), 100, 0, w.lane(100).batches)
			if name == "shorter" {
				return // all that was filed is before the missing byte
			}
			var corrupt *segment.CorruptError
			if _, err := w.read(w.lane(200).newest, 200, 0, 10); !errors.As(err, &corrupt) || corrupt.Path != path {
				t.Errorf("read of the damaged segment: %v", err)
			}
			w.push(100, 1, 10)
			w.file()
			w.wantRead(w.lane(100), 100, 0, w.lane(100).batches)
		})
	}
	t.Run("others are left alone", func(t *testing.T) {
		w := build(t)
		other := filepath.Join(testDir, "notes.txt")
		f, err := w.fs.Create(other)
		if err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
		delete(w.catalog, 2)
		w.open()
		if _, err := w.fs.Size(other); err != nil {
			t.Error(err)
		}
		if _, err := w.fs.Size(path); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("unknown segment: got %v", err)
		}
	})
}

// New ids are never below what the caller or the list has seen, nor do they wrap.
func TestIDs(t *testing.T) {
	w := newWorld(t)
	w.o.FirstID = 40
	w.reopen()
	w.push(100, 1, 10)
	w.file()
	w.o.FirstID = 0
	w.reopen()
	w.push(200, 1, 10)
	w.file()
	if _, ok := w.catalog[40]; !ok || w.catalog[41].Queue != 2 {
		t.Errorf("got %v want segments 40 and 41", w.catalog)
	}
	w.o.FirstID = 1<<32 - 1
	w.reopen()
	w.push(300, 1, 10)
	w.file()
	w.push(400, 1, 10)
	if _, _, err := w.store.File(w.tails()); !errors.Is(err, ErrFull) {
		t.Errorf("got %v want ErrFull", err)
	}
}

// At most MaxOpenFiles stay open.
func TestOpenFiles(t *testing.T) {
	w := newWorld(t)
	for q := range uint64(10) {
		w.push(100+q*100, 1, 10)
	}
	w.file()
	w.check(newRand(1))
	if got := w.store.Stats().OpenFiles; got != 3 || w.fs.Handles() != 3 {
		t.Errorf("got %d open files and %d handles, want 3", got, w.fs.Handles())
	}
}

func TestStats(t *testing.T) {
	w := newWorld(t)
	w.push(100, 1, 10)
	w.push(200, 1, 10)
	w.file()
	w.push(200, 1, 10)
	w.file()
	got := w.store.Stats()
	want := w.catalog[1].Length + w.catalog[2].Length
	if got.Segments != 2 || got.Bytes != want || got.BytesWritten != want {
		t.Errorf("got %+v want 2 segments, %d bytes", got, want)
	}
}

func TestClosed(t *testing.T) {
	w := newWorld(t)
	w.push(100, 1, 10)
	w.file()
	if err := w.store.Close(); err != nil {
		t.Fatal(err)
	}
	_, _, fileErr := w.store.File(nil)
	_, readErr := w.read(w.lane(100).newest, 100, 0, 1)
	_, _, timeErr := w.store.OffsetAt(w.lane(100).newest, 100, 0)
	for name, err := range map[string]error{
		"file": fileErr, "read": readErr, "time": timeErr, "drop": w.store.Drop(1), "close": w.store.Close(),
	} {
		if !errors.Is(err, ErrClosed) {
			t.Errorf("%s: got %v want ErrClosed", name, err)
		}
	}
}

// The same on a real file system.
func TestOS(t *testing.T) {
	w := newWorld(t)
	w.o.FS, w.o.Dir = vfs.OS, filepath.Join(t.TempDir(), "a", "segments")
	w.open()
	rng := newRand(5)
	for range 10 {
		w.pushSome(rng)
		w.file()
		w.check(rng)
		w.reopen()
	}
	if err := w.store.Close(); err != nil {
		t.Fatal(err)
	}
}
