package partition

import (
	"path/filepath"
	"slices"
	"testing"

	"github.com/skepmq/skep/index"
	"github.com/skepmq/skep/segment"
)

// extents returns what Extents gives of a segment.
func (w *world) extents(id uint32) (list []index.Entry) {
	w.t.Helper()
	length, err := w.store.Extents(id, func(e *index.Located) bool { list = append(list, e.Entry); return true })
	if err != nil || length != w.catalog[id].Length {
		w.t.Fatalf("segment %d: %d bytes, want %d: %v", id, length, w.catalog[id].Length, err)
	}
	return list
}

// Extents tells of every batch of a segment, and from then on its age is known, as it is
// while the segment was filed by this Store.
func TestExtents(t *testing.T) {
	rng := newRand(3)
	w := newWorld(t)
	for range 12 {
		w.pushSome(rng)
		w.file()
	}
	type span struct {
		partition uint64
		end       int64
	}
	for _, reopened := range []bool{false, true} {
		if reopened {
			w.reopen()
		}
		ends := map[span]bool{}
		for _, s := range w.store.Aged() {
			newest := int64(0)
			for _, e := range w.extents(s.ID) {
				ends[span{e.Partition, e.EndOffset()}] = true
				newest = max(newest, e.LastTimestampMs)
			}
			if reopened != (s.NewestMs == 0) || !reopened && s.NewestMs != newest {
				t.Fatalf("segment %d: newest %d, want %d", s.ID, s.NewestMs, newest)
			}
		}
		for partition, l := range w.parts {
			if l.filed > 0 && !ends[span{partition, l.end()}] {
				t.Fatalf("the end of partition %d is in no segment", partition)
			}
		}
		for _, s := range w.store.Aged() {
			if s.NewestMs == 0 {
				t.Fatalf("the age of segment %d is not known after Extents", s.ID)
			}
		}
	}
	if length, err := w.store.Extents(9999, nil); length != 0 || err != nil {
		t.Fatalf("of no segment: %d, %v", length, err)
	}
}

// Bytes counts the batches between any offsets.
func TestBytes(t *testing.T) {
	rng := newRand(4)
	w := newWorld(t)
	w.o.CacheBytes = 3000 // chains are cut
	w.reopen()
	for range 15 {
		w.pushSome(rng)
		w.file()
	}
	for partition, l := range w.parts {
		for from := range l.end() + 2 {
			to := from + rng.Int64N(l.end()+3-from)
			want := int64(0)
			for _, b := range l.batches[:l.filed] {
				if h := header(b); h.EndOffset() > from && h.BaseOffset < to {
					want += int64(len(b))
				}
			}
			if from == to {
				want = 0
			}
			if got, err := w.store.Bytes(l.newest, partition, from, to); err != nil || got != want {
				t.Fatalf("partition %d from %d to %d: %d bytes, want %d: %v", partition, from, to, got, want, err)
			}
		}
	}
	if n, err := w.store.Bytes(index.Pointer{}, 100, 0, 10); n != 0 || err != nil {
		t.Fatalf("of nothing: %d, %v", n, err)
	}
}

// drop retires and removes a segment.
func (w *world) drop(s Aged) {
	w.t.Helper()
	if w.store.Retire(s.ID, s.Length-1) {
		w.t.Fatal("retired at another length")
	}
	if !w.store.Retire(s.ID, s.Length) {
		w.t.Fatal("not retired")
	}
	if err := w.store.Remove([]uint32{s.ID, 9999}); err != nil {
		w.t.Fatal(err)
	}
	delete(w.catalog, s.ID)
	path := filepath.Join(testDir, segment.FileName(s.ID))
	if _, err := w.fs.Size(path); err == nil {
		w.t.Fatalf("%s is still there", path)
	}
}

// Segments are dropped one by one, the active one included, and what is in the others
// stays; a partition goes on behind what it has lost.
func TestRemove(t *testing.T) {
	w := newWorld(t)
	for i := range 3 {
		w.push(100, 2, 300)
		w.push(101, 1+i, 1000)
		w.push(200, 1, 10)
		w.file()
	}
	for _, s := range w.store.Aged() {
		if s.Queue == 1 {
			w.drop(s)
		}
	}
	for _, partition := range []uint64{100, 101} {
		l := w.parts[partition]
		w.wantRead(l, partition, 0, nil)
		l.batches = append(l.batches, newBatch(partition, l.end(), 9000, 1, 10))
	}
	filed, infos, err := w.store.File(w.tails())
	if err != nil {
		t.Fatal(err)
	}
	w.record(filed, infos)
	for _, reopened := range []bool{false, true} {
		if reopened {
			w.reopen()
		}
		for _, partition := range []uint64{100, 101} {
			l := w.parts[partition]
			w.wantRead(l, partition, 0, l.batches[len(l.batches)-1:])
			w.wantTimeOf(l, partition, 0, header(l.batches[len(l.batches)-1]).BaseOffset)
		}
		w.wantRead(w.parts[200], 200, 0, w.parts[200].batches)
	}
}

func (w *world) wantTimeOf(l *lane, partition uint64, ms, want int64) {
	w.t.Helper()
	if got, ok, err := w.store.OffsetAt(l.newest, partition, ms); err != nil || !ok || got != want {
		w.t.Fatalf("partition %d at %d ms: %d, %v, %v; want %d", partition, ms, got, ok, err, want)
	}
}

// While a File runs nothing is retired: it may be about to add to the segment.
func TestRetireDuringFile(t *testing.T) {
	w := newWorld(t)
	w.push(100, 1, 10)
	w.file()
	s := w.store.Aged()[0]
	if err := w.store.beginFile(); err != nil {
		t.Fatal(err)
	}
	if w.store.Retire(s.ID, s.Length) {
		t.Fatal("retired during a File")
	}
	w.store.endFile()
	if !w.store.Retire(s.ID, s.Length) {
		t.Fatal("not retired")
	}
	w.push(100, 1, 10)
	w.file()
	if len(w.catalog) != 2 {
		t.Fatalf("a retired segment was added to: %v", w.catalog)
	}
}

// A tail that asks for it gets segments of its own, whatever its size.
func TestOwnSegments(t *testing.T) {
	w := newWorld(t)
	for i := range 3 {
		w.push(100, 1, 10)
		w.push(101, 1, 10)
		tails := w.tails()
		slices.SortFunc(tails, func(a, b Tail) int { return int(a.Partition) - int(b.Partition) })
		tails[1].Own = true
		filed, infos, err := w.store.File(tails)
		if err != nil {
			t.Fatal(err)
		}
		w.record(filed, infos)
		if len(w.catalog) != 2 || w.catalog[2].Partition+w.catalog[1].Partition != 101 {
			t.Fatalf("round %d: %v", i, w.catalog)
		}
	}
	w.check(newRand(1))
}
