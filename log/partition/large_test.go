package partition

import (
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/skepmq/skep/segment/vfs"
)

// gateFS holds up long reads until gate is closed, and counts those under way.
type gateFS struct {
	vfs.FS
	gate chan struct{}
	busy atomic.Int64
}

type gateFile struct {
	vfs.File
	fs *gateFS
}

func (g *gateFS) Open(name string) (vfs.File, error) {
	f, err := g.FS.Open(name)
	return gateFile{f, g}, err
}

func (f gateFile) ReadAt(b []byte, off int64) (int, error) {
	if len(b) > largeExtent {
		f.fs.busy.Add(1)
		<-f.fs.gate
		f.fs.busy.Add(-1)
	}
	return f.File.ReadAt(b, off)
}

// However many ask for a large batch, few read it at a time, and all get it.
func TestLargeReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.push(101, 1, 2*largeExtent)
		w.file()
		if err := w.store.Close(); err != nil {
			t.Fatal(err)
		}
		fsys := &gateFS{FS: w.fs, gate: make(chan struct{})}
		o := w.o
		o.FS = fsys
		s, err := Open(o, slices.Collect(maps.Values(w.catalog)))
		if err != nil {
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		var got atomic.Int64
		for range 10 {
			wg.Go(func() {
				err := s.Read(w.lane(101).newest, 101, 0, func([]byte) bool { got.Add(1); return true })
				if err != nil {
					t.Error(err)
				}
			})
		}
		synctest.Wait()
		if n := fsys.busy.Load(); n != largeReads {
			t.Errorf("%d read at a time", n)
		}
		close(fsys.gate)
		wg.Wait()
		if got.Load() != 10 {
			t.Errorf("%d of 10 got it", got.Load())
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	})
}
