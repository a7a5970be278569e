package partition

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/skepmq/skep/index"
	"github.com/skepmq/skep/segment"
	"github.com/skepmq/skep/segment/vfs"
)

// Readers, each with what was published when it started, beside File and Drop.
func TestConcurrent(t *testing.T) {
	w := newWorld(t)
	var (
		mu      sync.Mutex // guards w.parts and what is in it, and dropped
		dropped bool       // queue 2
		stop    atomic.Bool
		wg      sync.WaitGroup
	)
	snapshot := func(partition uint64) lane {
		mu.Lock()
		defer mu.Unlock()
		if l := w.parts[partition]; l != nil {
			return *l
		}
		return lane{}
	}
	wasDropped := func() bool {
		mu.Lock()
		defer mu.Unlock()
		return dropped
	}
	for i := range uint64(4) {
		wg.Go(func() {
			rng := newRand(i)
			for !stop.Load() {
				partition := 100 + rng.Uint64N(2)*100 + rng.Uint64N(6)
				l := snapshot(partition)
				if l.filed == 0 {
					continue
				}
				from := rng.Int64N(l.end())
				got, err := w.read(l.newest, partition, from, 1000)
				want := slices.Clone(l.batches[:l.filed])
				for len(want) > 0 {
					if h := header(want[0]); h.EndOffset() > from {
						break
					}
					want = want[1:]
				}
				if err != nil {
					t.Errorf("partition %d: %v", partition, err)
					return
				}
				if !slices.EqualFunc(got, want, bytes.Equal) && !(l.queue == 2 && wasDropped()) {
					t.Errorf("partition %d from %d: got %d batches want %d", partition, from, len(got), len(want))
					return
				}
				if _, _, err := w.store.OffsetAt(l.newest, partition, 1000+rng.Int64N(100)); err != nil {
					t.Errorf("partition %d: %v", partition, err)
					return
				}
			}
		})
	}
	rng := newRand(77)
	for i := range 60 {
		mu.Lock()
		w.pushSome(rng)
		if dropped {
			for partition, l := range w.parts {
				if l.queue == 2 {
					delete(w.parts, partition)
				}
			}
		}
		tails := w.tails()
		mu.Unlock()
		filed, infos, err := w.store.File(tails)
		if err != nil {
			t.Fatal(err)
		}
		mu.Lock()
		w.record(filed, infos)
		dropped = dropped || i == 40
		mu.Unlock()
		if i == 40 {
			if err := w.store.Drop(2); err != nil {
				t.Fatal(err)
			}
		}
	}
	stop.Store(true)
	wg.Wait()
	if err := w.store.Close(); err != nil {
		t.Fatal(err)
	}
	if n := w.fs.Handles(); n != 0 {
		t.Errorf("%d handles left open", n)
	}
}

func TestDrop(t *testing.T) {
	w := newWorld(t)
	w.push(100, 1, 10)
	w.push(200, 1, 10)
	for range 6 {
		w.push(201, 1, 300)
	}
	w.file()
	w.check(newRand(1)) // opens and caches
	if err := w.store.Drop(2); err != nil {
		t.Fatal(err)
	}
	names, err := w.fs.List(testDir)
	if want := []string{"00000001.seg"}; err != nil || !slices.Equal(names, want) {
		t.Errorf("got files %v, %v want %v", names, err, want)
	}
	if got := w.store.Stats().Segments; got != 1 {
		t.Errorf("got %d segments want 1", got)
	}
	if n := w.fs.Handles(); n != 1 {
		t.Errorf("got %d handles want 1", n)
	}
	w.store.cache = newCache(w.o.CacheBytes)
	for _, partition := range []uint64{200, 201} {
		if got, err := w.read(w.parts[partition].newest, partition, 0, 10); len(got) != 0 || err != nil {
			t.Errorf("partition %d: got %d batches, %v", partition, len(got), err)
		}
		delete(w.parts, partition)
	}
	w.check(newRand(1))
	if err := w.store.Drop(2); err != nil { // nothing left to drop
		t.Error(err)
	}
}

// A chain that leads into a segment that is no longer there ends before it.
func TestChainIntoDropped(t *testing.T) {
	w := newWorld(t)
	w.push(100, 1, 10)
	w.file()
	w.parts[100].queue = 2 // as if the older segment had been dropped alone
	w.push(100, 1, 10)
	w.push(100, 1, 10)
	w.file()
	if err := w.store.Drop(1); err != nil {
		t.Fatal(err)
	}
	l := w.parts[100]
	for range 2 { // without and with a cached chain
		w.wantRead(l, 100, 0, l.batches[1:])
		if offset, ok, err := w.store.OffsetAt(l.newest, 100, 0); offset != 1 || !ok || err != nil {
			t.Errorf("got %d, %v, %v want 1", offset, ok, err)
		}
	}
}

// hookFS calls before each file is opened for writing.
type hookFS struct {
	vfs.FS
	before func(name string)
}

func (h hookFS) Create(name string) (vfs.File, error) {
	h.before(name)
	return h.FS.Create(name)
}

func (h hookFS) OpenReadWrite(name string) (vfs.File, error) {
	h.before(name)
	return h.FS.OpenReadWrite(name)
}

// A queue dropped while its tails are being filed takes what was written with it;
// the other queues' tails are filed.
func TestDropDuringFile(t *testing.T) {
	for name, existing := range map[string]bool{"new segment": false, "segment that grows": true} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			var once sync.Once
			hooked := false
			w.o.FS = hookFS{w.fs, func(string) {
				if hooked {
					once.Do(func() {
						if err := w.store.Drop(2); err != nil {
							t.Error(err)
						}
					})
				}
			}}
			w.reopen()
			if existing {
				w.push(200, 1, 10)
				w.file()
			}
			w.push(100, 1, 10)
			w.push(200, 1, 10)
			hooked = true
			filed, infos, err := w.store.File(w.tails())
			if err != nil || len(filed) != 2 {
				t.Fatalf("got %d filed, %v", len(filed), err)
			}
			if len(infos) != 1 || infos[0].Queue != 1 {
				t.Errorf("got %v want the segment of queue 1", infos)
			}
			names, err := w.fs.List(testDir)
			if want := []string{segment.FileName(infos[0].ID)}; err != nil || !slices.Equal(names, want) {
				t.Errorf("got files %v, %v want %v", names, err, want)
			}
			w.record(filed, infos)
			l := w.parts[200]
			if got, err := w.read(l.newest, 200, 0, 10); len(got) != 0 || err != nil {
				t.Errorf("dropped: got %d batches, %v", len(got), err)
			}
			delete(w.parts, 200)
			w.check(newRand(1))
		})
	}
}

// A queue dropped while a reader opens its segment leaves no file open.
func TestDropDuringOpen(t *testing.T) {
	for name, early := range map[string]bool{"before": true, "after": false} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.push(100, 1, 10)
			w.file()
			drop := func() {
				if err := w.store.Drop(1); err != nil {
					t.Error(err)
				}
			}
			w.o.FS = dropFS{w.fs, drop, early}
			w.reopen()
			if _, err := w.read(w.parts[100].newest, 100, 0, 10); err != nil {
				t.Errorf("got %v", err)
			}
			if n := w.fs.Handles(); n != 0 {
				t.Errorf("%d handles left open", n)
			}
		})
	}
}

// dropFS calls drop when a file is opened for reading: before, or right after.
type dropFS struct {
	vfs.FS
	drop  func()
	early bool
}

func (d dropFS) Open(name string) (vfs.File, error) {
	if d.early {
		d.drop()
	}
	f, err := d.FS.Open(name)
	if !d.early {
		d.drop()
	}
	return f, err
}

// A file outlives what closes it while someone reads.
func TestFilesInUse(t *testing.T) {
	for name, end := range map[string]func(w *world, f *files){
		"forgotten":  func(_ *world, f *files) { f.forget(1) },
		"closed":     func(w *world, f *files) { _ = f.close() },
		"pushed out": func(w *world, f *files) { w.acquireRelease(f, 2, 3, 4) },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			for q := range uint64(4) {
				w.push(100+100*q, 1, 10)
			}
			w.file()
			if err := w.store.Close(); err != nil {
				t.Fatal(err)
			}
			f := newFiles(w.fs, testDir, 3)
			file, err := f.acquire(1)
			if err != nil {
				t.Fatal(err)
			}
			end(w, f)
			if err := file.ReadAt(make([]byte, segment.FileHeaderLen), 0); err != nil {
				t.Errorf("read: %v", err)
			}
			before := f.open()
			f.release(file)
			if got := f.open(); got != before-1 || w.fs.Handles() != got {
				t.Errorf("got %d open, %d handles after the last reader, want %d", got, w.fs.Handles(), before-1)
			}
		})
	}
}

func (w *world) acquireRelease(f *files, ids ...uint32) {
	for _, id := range ids {
		file, err := f.acquire(id)
		if err != nil {
			w.t.Fatal(err)
		}
		f.release(file)
	}
}

// Under a wrong name a segment is not read.
func TestSwappedFiles(t *testing.T) {
	w := newWorld(t)
	w.push(100, 1, 10)
	w.push(200, 1, 10)
	w.file()
	path := func(id uint32) string { return filepath.Join(testDir, segment.FileName(id)) }
	if err := w.fs.Rename(path(1), path(2)); err != nil {
		t.Fatal(err)
	}
	_, err := w.read(w.parts[200].newest, 200, 0, 1)
	if want := fmt.Sprintf("%s at 0: %v", path(2), segment.ErrCorrupt); err == nil || err.Error() != want {
		t.Errorf("got %v want %s", err, want)
	}
	if _, err := w.read(w.parts[100].newest, 100, 0, 1); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v want not exist", err)
	}
}

func TestCache(t *testing.T) {
	const size = 1000
	c := newCache(5 * (size + itemOverhead))
	at := func(i int) index.Pointer { return index.Pointer{Segment: 1, Position: uint32(i)} }
	for i := range 5 {
		c.putExtent(at(i), make([]byte, size))
	}
	c.extent(at(0))
	c.putExtent(at(5), make([]byte, size))
	for i, want := range []bool{true, false, true, true, true, true} {
		if got := c.extent(at(i)) != nil; got != want {
			t.Errorf("item %d: got %v want %v", i, got, want)
		}
	}
	c.putExtent(at(0), make([]byte, 2*size)) // more than a quarter: gone, not stale
	if c.extent(at(0)) != nil {
		t.Error("a large item was kept")
	}
	c.putExtent(at(2), make([]byte, 10))
	if got, want := c.size(), int64(3*(size+itemOverhead)+10+itemOverhead); got != want {
		t.Errorf("got %d bytes want %d", got, want)
	}
}
