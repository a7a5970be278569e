package partition

import (
	"errors"
	"path/filepath"
	"testing"

	"github.com/skepmq/skep/index"
	"github.com/skepmq/skep/segment"
)

// craft writes a segment of two batches of partition 100 and the entries that change
// makes of theirs, with valid checksums, and returns a pointer to the newest.
func craft(w *world, change func(entries []index.Entry, at []index.Pointer)) index.Pointer {
	w.t.Helper()
	path := filepath.Join(testDir, segment.FileName(1))
	sw, err := segment.Create(w.fs, path, segment.FileHeader{ID: 1, Queue: 1, ExtentBytes: 1})
	if err != nil {
		w.t.Fatal(err)
	}
	p := index.Packer{ExtentBytes: 1}
	for offset := int64(1); offset <= 2; offset++ { // not from 0, so that a read walks to the end
		b := newBatch(100, offset, 1, 1, 10)
		position, err := sw.Append(b)
		if err != nil {
			w.t.Fatal(err)
		}
		h := header(b)
		p.Add(&h, uint32(position))
	}
	end := uint32(sw.Len())
	at := []index.Pointer{{Segment: 1, Position: end}, {Segment: 1, Position: end + index.EntryLen}}
	p.Entries[1].Prev = at[0]
	change(p.Entries, at)
	if err := errors.Join(index.Write(sw, p.Entries, segment.FileHeaderLen), sw.Sync(), sw.Close()); err != nil {
		w.t.Fatal(err)
	}
	w.catalog[1] = SegmentInfo{ID: 1, Queue: 1, Length: sw.Len()}
	w.open()
	return at[1]
}

// Entries that are whole but cannot be true are damage: a read ends, with an error.
func TestCraftedEntries(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(entries []index.Entry, at []index.Pointer)
		ok     bool
	}{
		"as written":            {func([]index.Entry, []index.Pointer) {}, true},
		"points to itself":      {func(e []index.Entry, at []index.Pointer) { e[1].Prev = at[1] }, false},
		"in a circle":           {func(e []index.Entry, at []index.Pointer) { e[0].Prev = at[1] }, false},
		"points into a batch":   {func(e []index.Entry, at []index.Pointer) { e[1].Prev.Position = 40 }, false},
		"points past the end":   {func(e []index.Entry, at []index.Pointer) { e[1].Prev.Position = 1 << 30 }, false},
		"another partition":     {func(e []index.Entry, at []index.Pointer) { e[0].Partition = 101 }, false},
		"extent behind its end": {func(e []index.Entry, at []index.Pointer) { e[1].Length += 1000 }, false},
		"extent too long":       {func(e []index.Entry, at []index.Pointer) { e[1].Length++ }, false},
		"extent of another":     {func(e []index.Entry, at []index.Pointer) { e[1].Position = e[0].Position }, false},
		"starts too early": {func(e []index.Entry, at []index.Pointer) {
			e[1].BaseOffset, e[1].Count, e[1].Prev = 1, 2, index.Pointer{}
		}, false},
		"more messages": {func(e []index.Entry, at []index.Pointer) { e[1].Count++ }, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			newest := craft(w, tc.change)
			got, err := w.read(newest, 100, 0, 10)
			if tc.ok {
				if len(got) != 2 || err != nil {
					t.Errorf("got %d batches, %v want 2", len(got), err)
				}
				return
			}
			var corrupt *segment.CorruptError
			if !errors.As(err, &corrupt) || corrupt.Path == "" {
				t.Errorf("got %d batches, %v want a CorruptError", len(got), err)
			}
		})
	}
}

// A pointer of one partition does not open another.
func TestReadOtherPartition(t *testing.T) {
	w := newWorld(t)
	w.push(100, 1, 10)
	w.push(101, 1, 10)
	w.file()
	var corrupt *segment.CorruptError
	if got, err := w.read(w.parts[100].newest, 101, 0, 10); len(got) != 0 || !errors.As(err, &corrupt) {
		t.Errorf("got %d batches, %v want a CorruptError", len(got), err)
	}
}

// A batch that an entry gives to another partition is not handed out.
func TestReadOthersBatch(t *testing.T) {
	w := newWorld(t)
	newest := craft(w, func(e []index.Entry, _ []index.Pointer) { e[0].Partition, e[1].Partition = 101, 101 })
	var corrupt *segment.CorruptError
	if got, err := w.read(newest, 101, 0, 10); len(got) != 0 || !errors.As(err, &corrupt) || corrupt.Position != segment.FileHeaderLen {
		t.Errorf("got %d batches, %v want a CorruptError", len(got), err)
	}
}

// Open leaves every file at its recorded length, sealed or not.
func TestOpenTrims(t *testing.T) {
	w := newWorld(t)
	w.push(100, 1, 10)
	w.push(200, 5, 300)
	w.file()
	w.push(100, 1, 10)
	w.push(200, 1, 1400)
	if _, _, err := w.store.File(w.tails()); err != nil { // and it is not recorded
		t.Fatal(err)
	}
	w.reopen()
	for id, info := range w.catalog {
		if size, err := w.fs.Size(filepath.Join(testDir, segment.FileName(id))); err != nil || size != info.Length {
			t.Errorf("segment %d: got %d bytes, %v want %d", id, size, err, info.Length)
		}
	}
	w.goOn(newRand(1))
}
