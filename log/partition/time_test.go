package partition

import "testing"

// A message's time is told to the second, wherever it lies: before the first offset and
// behind the last, in extents that span little time and in those that span much.
func TestTimeAt(t *testing.T) {
	w := newWorld(t)
	l := w.lane(100)
	ms := int64(1000)
	for n := range 30 {
		l.batches = append(l.batches, newBatch(100, l.end(), ms, 1+n%3, 20))
		ms += []int64{100, 5000, 0, 60_000}[n%4]
		if n%7 == 6 {
			w.file()
		}
	}
	w.file()
	for _, b := range l.batches {
		h := header(b)
		for offset := h.BaseOffset; offset < h.EndOffset(); offset++ {
			got, ok, err := w.store.TimeAt(l.newest, 100, offset)
			if err != nil || !ok || got > h.TimestampMs || got <= h.TimestampMs-exactMs {
				t.Errorf("offset %d: got %d, %v, %v want %d", offset, got, ok, err, h.TimestampMs)
			}
		}
	}
	if _, ok, err := w.store.TimeAt(l.newest, 100, l.end()); ok || err != nil {
		t.Errorf("behind the end: %v, %v", ok, err)
	}
	if _, ok, err := w.store.TimeAt(w.lane(101).newest, 101, 0); ok || err != nil {
		t.Errorf("nothing filed: %v, %v", ok, err)
	}
}
