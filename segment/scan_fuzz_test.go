package segment

import (
	"bytes"
	"errors"
	"testing"

	"github.com/skepmq/skep/segment/vfs/faultfs"
)

// FuzzScan walks a file of any bytes behind a header: batches and then damage, never
// more than the file has.
func FuzzScan(f *testing.F) {
	one := testBatch(testMessages...)
	two := AppendBatch(nil, &Header{Count: 1, BaseOffset: 7}, AppendMessage(nil, &Message{Payload: make([]byte, compressMin)}))
	f.Add(one)
	f.Add(bytes.Join([][]byte{one, two, one[:20]}, nil))
	f.Add(append(bytes.Clone(one), make([]byte, 100)...))
	f.Fuzz(func(t *testing.T, b []byte) {
		fsys := faultfs.New()
		header := FileHeader{ID: 1, Queue: 1, ExtentBytes: 1 << 16}
		w, err := Create(fsys, "/s", header)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Append(b); err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(w.Sync(), w.Close()); err != nil {
			t.Fatal(err)
		}
		all := append(AppendFileHeader(nil, header), b...)
		r, err := OpenReader(fsys, "/s")
		if err != nil {
			t.Fatal(err)
		}
		next := int64(FileHeaderLen)
		end, err := r.Scan(FileHeaderLen, int64(len(all)), func(position int64, h *Header, batch []byte) error {
			if position != next || len(batch) != h.Len() || !bytes.Equal(batch, all[position:position+int64(len(batch))]) {
				t.Fatalf("batch of %d bytes at %d, want it at %d", len(batch), position, next)
			}
			next += int64(len(batch))
			raw, err := Body(h, batch, nil)
			for err == nil && len(raw) > 0 {
				_, raw, err = NextMessage(raw)
			}
			return nil
		})
		var corrupt *CorruptError
		if end != next || (err == nil) != (end == int64(len(all))) || err != nil && (!errors.As(err, &corrupt) || corrupt.Position != end) {
			t.Fatalf("ended at %d of %d, after %d: %v", end, len(all), next, err)
		}
	})
}
