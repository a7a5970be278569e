package index

import (
	"errors"
	"testing"

	"github.com/skepmq/skep/segment"
	"github.com/skepmq/skep/segment/vfs/faultfs"
)

// FuzzRun reads the index of a segment of any bytes, and makes it anew: what comes out
// lies within the file, and what does not is damage.
func FuzzRun(f *testing.F) {
	batch := segment.AppendBatch(nil, &segment.Header{Count: 1}, segment.AppendMessage(nil, &segment.Message{Payload: []byte("1")}))
	segment.Seal(batch, 3, 0, 1000, [16]byte{1})
	p := Packer{ExtentBytes: 1 << 16}
	h, err := segment.DecodeHeader(batch)
	if err != nil {
		f.Fatal(err)
	}
	p.Add(&h, segment.FileHeaderLen)
	run := AppendEntry(nil, &p.Entries[0])
	run = AppendTrailer(run, Trailer{Count: 1, RunStart: segment.FileHeaderLen, IndexCRC: segment.Checksum(run)})
	f.Add(append(append([]byte{}, batch...), run...), false)
	f.Add(append(append([]byte{}, batch...), run...), true)
	f.Add(run, false)
	f.Fuzz(func(t *testing.T, b []byte, mend bool) {
		if mend && len(b) >= TrailerLen { // so that the fuzzer gets past the checksum
			b = append([]byte{}, b...)
			putCRC(b[len(b)-TrailerLen:])
		}
		fsys := faultfs.New()
		w, err := segment.Create(fsys, testPath, segment.FileHeader{ID: 1, Queue: 1, ExtentBytes: 1 << 16})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Append(b); err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(w.Sync(), w.Close()); err != nil {
			t.Fatal(err)
		}
		r, err := segment.OpenReader(fsys, testPath)
		if err != nil {
			t.Fatal(err)
		}
		length := int64(segment.FileHeaderLen + len(b))
		entries, start, err := ReadIndex(r, length)
		if err != nil && !isCorrupt(err) {
			t.Fatal(err)
		}
		if err == nil && (len(entries) == 0 || start < segment.FileHeaderLen || start >= length) {
			t.Fatalf("%d entries of a run from %d in %d bytes", len(entries), start, length)
		}
		rebuilt, err := Rebuild(r, length)
		if err != nil && !isCorrupt(err) {
			t.Fatal(err)
		}
		for i := range rebuilt {
			if e := &rebuilt[i]; e.EndPosition() > length || int64(e.At.Position)+EntryLen > length {
				t.Fatalf("entry %+v beyond %d bytes", e, length)
			}
		}
		Link(rebuilt)
	})
}

func isCorrupt(err error) bool {
	var corrupt *segment.CorruptError
	return errors.As(err, &corrupt)
}
