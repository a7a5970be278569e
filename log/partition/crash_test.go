package partition

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"testing"

	"github.com/skepmq/skep/segment"
	"github.com/skepmq/skep/segment/vfs/faultfs"
)

// cloneOn returns a copy of what the broker remembers, on another file system.
func (w *world) cloneOn(fsys *faultfs.FS) *world {
	c := *w
	c.fs, c.o.FS = fsys, fsys
	c.catalog = maps.Clone(w.catalog)
	c.parts = map[uint64]*lane{}
	for partition, l := range w.parts {
		copied := *l
		c.parts[partition] = &copied
	}
	return &c
}

// goOn reads everything, files what is left and more, and reads everything again.
func (w *world) goOn(rng *rand.Rand) {
	w.t.Helper()
	w.check(rng)
	w.file()
	w.pushSome(rng)
	w.file()
	w.check(rng)
	w.checkFiles()
}

// filedWorld returns a world with some checkpoints behind it, and tails to file.
func filedWorld(t *testing.T, seed uint64) *world {
	rng := newRand(seed)
	w := newWorld(t)
	for range 4 {
		w.pushSome(rng)
		w.file()
	}
	for range 3 {
		w.pushSome(rng)
	}
	return w
}

// Whatever call of a File fails, in whatever way: nothing has changed, the store
// goes on, and so does one opened after a crash.
func TestFileFaults(t *testing.T) {
	for name, fault := range map[string]faultfs.Fault{
		"error":       {},
		"short write": {Err: faultfs.ENOSPC, Short: true},
		"all fail":    {Sticky: true, Short: true},
	} {
		for seed := range uint64(2) {
			t.Run(fmt.Sprintf("%s/%d", name, seed), func(t *testing.T) {
				for n := 0; fileWithFault(t, seed, n, fault); n++ {
				}
			})
		}
	}
}

// fileWithFault runs a File whose n-th call fails. It returns false if there are not
// so many.
func fileWithFault(t *testing.T, seed uint64, n int, fault faultfs.Fault) bool {
	w, rng := filedWorld(t, seed), newRand(seed)
	at := w.fs.Calls() + n
	w.fs.FailAt(at, fault)
	filed, infos, err := w.store.File(w.tails())
	if w.fs.Calls() <= at {
		if err != nil {
			t.Fatal(err)
		}
		w.fs.FailAt(-1, faultfs.Fault{})
		w.crashes(rng)
		w.record(filed, infos)
		w.crashes(rng)
		w.goOn(rng)
		return false
	}
	if err == nil || filed != nil || infos != nil {
		t.Fatalf("call %d failed: got %v, %v, %v", n, filed, infos, err)
	}
	w.crashes(rng)
	w.fs.FailAt(-1, faultfs.Fault{})
	if fault.Sticky { // the files that could not be removed stay until the next Open
		w.check(rng)
		w.reopen()
	}
	w.goOn(rng)
	w.crashes(rng)
	return true
}

// crashes opens what power cuts now would leave, with what the broker has recorded.
func (w *world) crashes(rng *rand.Rand) {
	w.t.Helper()
	for _, disk := range []*faultfs.FS{w.fs.CrashStrict(), w.fs.Crash(rng)} {
		c := w.cloneOn(disk)
		c.open()
		c.goOn(rng)
	}
}

// A crash in the middle of Open loses nothing either.
func TestOpenFaults(t *testing.T) {
	rng := newRand(9)
	for n := 0; ; n++ {
		w := filedWorld(t, 2)
		if _, _, err := w.store.File(w.tails()); err != nil {
			t.Fatal(err)
		}
		c := w.cloneOn(w.fs.Crash(rng)) // the File was not recorded
		c.fs.FailAt(n, faultfs.Fault{Sticky: true})
		infos := []SegmentInfo{}
		for _, info := range c.catalog {
			infos = append(infos, info)
		}
		_, err := Open(c.o, infos)
		if met := c.fs.Calls() > n; met != (err != nil) {
			t.Fatalf("call %d, met %v: got %v", n, met, err)
		} else if !met {
			return
		}
		c.crashes(rng)
	}
}

// A segment whose sync failed is sealed where it was and never written again; one
// whose write failed is.
func TestFailedSync(t *testing.T) {
	for name, tc := range map[string]struct {
		call   int
		sealed bool
	}{"write": {0, false}, "sync": {1, true}} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.push(100, 1, 10)
			w.file()
			before := w.catalog[1]
			w.push(100, 1, 10)
			w.fs.FailAt(w.fs.Calls()+tc.call, faultfs.Fault{})
			if _, _, err := w.store.File(w.tails()); !errors.Is(err, faultfs.EIO) {
				t.Fatalf("got %v want EIO", err)
			}
			w.file()
			got := w.catalog[1]
			if got.Sealed != tc.sealed || tc.sealed != (got.Length == before.Length) || tc.sealed != (len(w.catalog) == 2) {
				t.Errorf("got %v, segment 1 was %+v", w.catalog, before)
			}
			w.push(100, 1, 10)
			w.file()
			w.check(newRand(1))
			if !tc.sealed {
				return
			}
			if size, _ := w.fs.Size(filepath.Join(testDir, "00000001.seg")); size <= before.Length {
				t.Errorf("got %d bytes: the segment was written after its sync failed", size)
			}
		})
	}
}

// An active segment that is damaged or gone is given up: its readers are told, and
// filing goes on elsewhere.
func TestActiveSegmentLost(t *testing.T) {
	path := filepath.Join(testDir, "00000001.seg")
	for name, tc := range map[string]struct {
		damage func(w *world)
		first  bool // the first File succeeds already
	}{
		"header damaged": {func(w *world) { w.reopen(); flipByte(w.t, w.fs, path, 14) }, true},
		"shorter": {func(w *world) {
			f, err := w.fs.OpenReadWrite(path)
			if err != nil {
				w.t.Fatal(err)
			}
			if err := errors.Join(f.Truncate(50), f.Close()); err != nil {
				w.t.Fatal(err)
			}
		}, false},
		"removed": {func(w *world) {
			w.check(newRand(1)) // its file is open
			if err := w.fs.Remove(path); err != nil {
				w.t.Fatal(err)
			}
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.push(100, 1, 10)
			w.file()
			w.push(200, 1, 10)
			w.parts[200].queue = 1
			tc.damage(w)
			filed, infos, err := w.store.File(w.tails())
			if (err == nil) != tc.first {
				t.Fatalf("first: got %v", err)
			}
			if err != nil {
				if filed, infos, err = w.store.File(w.tails()); err != nil {
					t.Fatalf("second: %v", err)
				}
			}
			w.record(filed, infos)
			if !w.catalog[1].Sealed || len(w.catalog) != 2 {
				t.Errorf("got %v", w.catalog)
			}
			w.wantRead(w.parts[200], 200, 0, w.parts[200].batches)
		})
	}
}

func flipByte(t testing.TB, fsys *faultfs.FS, path string, position int64) {
	t.Helper()
	f, err := fsys.OpenReadWrite(path)
	if err != nil {
		t.Fatal(err)
	}
	var b [1]byte
	if _, err := f.ReadAt(b[:], position); err != nil {
		t.Fatal(err)
	}
	b[0] ^= 1 << (position % 8)
	if _, err := f.WriteAt(b[:], position); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

// Whatever byte of a segment goes bad, a read gives what was written or names the
// file and a place before the end of what is damaged; never less, never other bytes.
func TestEveryFlip(t *testing.T) {
	w := newWorld(t)
	for i := range 3 {
		w.push(100, 2, 20)
		w.push(100, 1, 300)
		w.push(101, 1+i, 5)
		w.file()
	}
	path := filepath.Join(testDir, "00000001.seg")
	if len(w.catalog) != 1 {
		t.Fatalf("got %d segments", len(w.catalog))
	}
	damaged := 0
	for at := range w.catalog[1].Length {
		flipByte(t, w.fs, path, at)
		w.reopen()
		for partition, l := range w.parts {
			got, err := w.read(l.newest, partition, 0, 100)
			var corrupt *segment.CorruptError
			switch {
			case err == nil:
				w.wantRead(l, partition, 0, l.batches)
			case !errors.As(err, &corrupt) || corrupt.Path != path || corrupt.Position > at:
				t.Fatalf("byte %d: got %v", at, err)
			default:
				damaged++
				if len(got) == len(l.batches) {
					t.Fatalf("byte %d: everything read, and %v", at, err)
				}
			}
		}
		flipByte(t, w.fs, path, at)
	}
	if want := int(w.catalog[1].Length) - 3*24; damaged < want {
		t.Errorf("got %d bytes noticed, want at least %d: all but the trailers", damaged, want)
	}
}
