package partition

import (
	"errors"
	"maps"
	"slices"
	"testing"

	"github.com/skepmq/skep/segment"
)

// wantHeld asserts that the files of a hold say what they said when it began.
func (w *world) wantHeld(h *Held, was map[uint32]string) {
	w.t.Helper()
	for i := range h.Segments {
		info := &h.Segments[i]
		if err := h.Check(info); err != nil {
			w.t.Fatal(err)
		}
		if got := w.content(h, info); got != was[info.ID] {
			w.t.Fatalf("segment %d has changed", info.ID)
		}
	}
}

func (w *world) content(h *Held, info *SegmentInfo) string {
	w.t.Helper()
	f, err := h.Open(info.ID)
	if err != nil {
		w.t.Fatal(err)
	}
	b := make([]byte, info.Length)
	if _, err := f.ReadAt(b, 0); err != nil {
		w.t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		w.t.Fatal(err)
	}
	return string(b)
}

func (w *world) there(id uint32) bool {
	_, err := w.fs.Size(w.store.path(id))
	return err == nil
}

// What is held stays as it was while its segments grow, are dropped, are replaced, and go with
// their queue. Readers of the store do not find it any more, and when it is released it goes.
func TestHold(t *testing.T) {
	needs := newRewriter(t, 7)
	w := needs.world
	for range 4 {
		w.pushSome(needs.rng)
		w.file()
	}
	h, err := w.store.Hold()
	if err != nil {
		t.Fatal(err)
	}
	was := map[uint32]string{}
	for i := range h.Segments {
		was[h.Segments[i].ID] = w.content(h, &h.Segments[i])
	}
	for range 3 {
		w.pushSome(needs.rng)
		w.file()
	}
	w.wantHeld(h, was)
	aged := w.store.Aged()
	dropped, young := aged[0], aged[len(aged)-1]
	if _, ok := was[young.ID]; ok {
		t.Fatal("all segments are held")
	}
	w.dropHeld(dropped)
	r, err := w.store.Rewrite([]uint32{w.retired(aged[1])}, needs, pace)
	if err != nil || r == nil {
		t.Fatal(r, err)
	}
	if err := w.store.Replace(r); err != nil {
		t.Fatal(err)
	}
	if err := w.store.Drop(young.Queue); err != nil {
		t.Fatal(err)
	}
	w.wantHeld(h, was)
	if w.there(young.ID) {
		t.Error("a younger segment stays")
	}
	if n := h.Dropped(); n < 2 {
		t.Errorf("%d dropped", n)
	}
	if file, err := w.store.acquire(dropped.ID); file != nil || err != nil {
		t.Errorf("the store still has a dropped segment: %v", err)
	}
	h.Release(dropped.ID)
	h.Release(dropped.ID)
	if w.there(dropped.ID) {
		t.Error("a released segment stays")
	}
	h.Close()
	h.Close()
	live := map[uint32]bool{}
	for _, s := range w.store.Segments() {
		live[s.ID] = true
	}
	for id := range was {
		if w.there(id) != live[id] {
			t.Errorf("segment %d: file there: %t, in the store: %t", id, w.there(id), live[id])
		}
	}
	again, err := w.store.Hold()
	if err != nil {
		t.Fatal(err)
	}
	h.Close()
	h.Release(again.Segments[0].ID)
	if len(again.gone) != len(live) {
		t.Error("an earlier hold has released a later one")
	}
	again.Close()
}

// retired seals a segment and returns its id.
func (w *world) retired(s Aged) uint32 {
	w.t.Helper()
	if !w.store.Retire(s.ID, s.Length) {
		w.t.Fatal("not retired")
	}
	return s.ID
}

// dropHeld drops a segment whose file stays.
func (w *world) dropHeld(s Aged) {
	w.t.Helper()
	if err := w.store.Remove([]uint32{w.retired(s)}); err != nil {
		w.t.Fatal(err)
	}
	delete(w.catalog, s.ID)
}

// A process that ends while segments are held leaves files that the next Open removes; so does
// a store that is closed before.
func TestHoldEnds(t *testing.T) {
	w := newWorld(t)
	w.push(100, 3, 400)
	w.push(200, 3, 400)
	w.file()
	h, err := w.store.Hold()
	if err != nil {
		t.Fatal(err)
	}
	first := w.store.Aged()[0]
	w.dropHeld(first)
	if err := w.store.Close(); err != nil {
		t.Fatal(err)
	}
	h.Close()
	if !w.there(first.ID) {
		t.Error("removed from a directory that may be another's by now")
	}
	if _, err := w.store.Hold(); !errors.Is(err, ErrClosed) {
		t.Errorf("hold of a closed store: %v", err)
	}
	w.open()
	if w.there(first.ID) {
		t.Error("left over")
	}
}

// A file that is not there, or too short, is told before it is copied.
func TestHoldDamaged(t *testing.T) {
	w := newWorld(t)
	w.push(100, 3, 400)
	w.push(200, 3, 400)
	w.file()
	h, err := w.store.Hold()
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	missing, short := &h.Segments[0], &h.Segments[1]
	f, err := w.fs.OpenReadWrite(h.Path(short.ID))
	if err == nil {
		err = errors.Join(f.Truncate(short.Length-1), f.Close(), w.fs.Remove(h.Path(missing.ID)))
	}
	if err != nil {
		t.Fatal(err)
	}
	var corrupt *segment.CorruptError
	if err := h.Check(missing); !errors.As(err, &corrupt) || !errors.Is(err, ErrMissing) || corrupt.Path != h.Path(missing.ID) {
		t.Errorf("missing: %v", err)
	}
	if err := h.Check(short); !errors.As(err, &corrupt) || !errors.Is(err, segment.ErrShort) || corrupt.Position != short.Length-1 {
		t.Errorf("short: %v", err)
	}
	if len(w.catalog) != 2 || !slices.Equal(slices.Sorted(maps.Keys(w.catalog)), []uint32{missing.ID, short.ID}) {
		t.Errorf("held %+v", h.Segments)
	}
}
