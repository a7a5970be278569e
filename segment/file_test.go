package segment

import (
	"bytes"
	"errors"
	"io/fs"
	"testing"

	"github.com/skepmq/skep/segment/vfs/faultfs"
)

const testPath = "/1.seg"

// sizedBatch returns a batch of a message with n bytes that do not pack.
func sizedBatch(offset int64, n int) []byte {
	b := AppendBatch(nil, &Header{Count: 1}, AppendMessage(nil, &Message{Payload: incompressible(n)}))
	Seal(b, 1, offset, 0, testBaseID)
	return b
}

func create(t *testing.T, fsys *faultfs.FS) *Writer {
	t.Helper()
	w, err := Create(fsys, testPath, FileHeader{ID: 1})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// appendSizes appends batches of these payload lengths and returns them.
func appendSizes(t *testing.T, w *Writer, offset int64, sizes ...int) (batches [][]byte) {
	t.Helper()
	for _, n := range sizes {
		b := sizedBatch(offset, n)
		want := w.Len()
		if at, err := w.Append(b); err != nil || at != want {
			t.Fatalf("append: got %d, %v want %d", at, err, want)
		}
		batches = append(batches, b)
		offset++
	}
	return batches
}

func scanAll(t *testing.T, fsys *faultfs.FS, length int64) (batches [][]byte) {
	t.Helper()
	r, err := OpenReader(fsys, testPath)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	at := int64(FileHeaderLen)
	end, err := r.Scan(at, length, func(position int64, h *Header, batch []byte) error {
		if position != at || h.Len() != len(batch) {
			t.Fatalf("got %d bytes at %d, want %d at %d", len(batch), position, h.Len(), at)
		}
		at += int64(len(batch))
		batches = append(batches, bytes.Clone(batch))
		return nil
	})
	if err != nil || end != length {
		t.Fatalf("scan: got %d, %v want %d", end, err, length)
	}
	return batches
}

func wantBatches(t *testing.T, got, want [][]byte) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("got %d batches want %d", len(got), len(want))
	}
	for i := range want {
		if !bytes.Equal(got[i], want[i]) {
			t.Fatalf("batch %d differs", i)
		}
	}
}

func TestWriteAndScan(t *testing.T) {
	for name, sizes := range map[string][]int{
		"none":            {},
		"small":           {1, 2, 3, 400},
		"fill the buffer": {100 << 10, 100 << 10, 100 << 10, 5},
		"past the buffer": {5, 300 << 10, 5, 2 << 20, 5},
	} {
		t.Run(name, func(t *testing.T) {
			fsys := faultfs.New()
			w := create(t, fsys)
			want := appendSizes(t, w, 0, sizes...)
			if err := errors.Join(w.Sync(), w.Close()); err != nil {
				t.Fatal(err)
			}
			wantBatches(t, scanAll(t, fsys, w.Len()), want)
			if size, _ := fsys.Size(testPath); size != w.Len() {
				t.Errorf("got a file of %d bytes, want %d", size, w.Len())
			}
			if n := fsys.Handles(); n != 0 {
				t.Errorf("%d handles left open", n)
			}
		})
	}
}

// Reopened at a length, a file goes on from there whatever lay behind.
func TestOpenWriterCuts(t *testing.T) {
	fsys := faultfs.New()
	w := create(t, fsys)
	want := appendSizes(t, w, 0, 10, 20)
	length := w.Len()
	appendSizes(t, w, 2, 3000, 10)
	if err := errors.Join(w.Sync(), w.Close()); err != nil {
		t.Fatal(err)
	}
	w, err := OpenWriter(fsys, testPath, length)
	if err != nil {
		t.Fatal(err)
	}
	if size, _ := fsys.Size(testPath); size != length {
		t.Errorf("got %d bytes after opening, want %d", size, length)
	}
	want = append(want, appendSizes(t, w, 2, 30)...)
	if err := errors.Join(w.Sync(), w.Close()); err != nil {
		t.Fatal(err)
	}
	wantBatches(t, scanAll(t, fsys, w.Len()), want)
}

func TestOpenErrors(t *testing.T) {
	fsys := faultfs.New()
	if _, err := OpenWriter(fsys, testPath, 100); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("writer, no file: got %v", err)
	}
	if _, err := OpenReader(fsys, testPath); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("reader, no file: got %v", err)
	}
	w := create(t, fsys)
	if err := errors.Join(w.Sync(), w.Close()); err != nil {
		t.Fatal(err)
	}
	var corrupt *CorruptError
	for _, length := range []int64{0, FileHeaderLen + 1} {
		if _, err := OpenWriter(fsys, testPath, length); !errors.As(err, &corrupt) || !errors.Is(err, ErrShort) {
			t.Errorf("writer at %d of %d: got %v", length, FileHeaderLen, err)
		}
	}
	f, err := fsys.OpenReadWrite(testPath)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt([]byte{0xff}, 12); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenReader(fsys, testPath); !errors.As(err, &corrupt) || corrupt.Path != testPath || corrupt.Position != 0 {
		t.Errorf("reader, damaged header: got %v", err)
	}
	if err := f.Truncate(5); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenReader(fsys, testPath); !errors.Is(err, ErrShort) {
		t.Errorf("reader, short header: got %v", err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if n := fsys.Handles(); n != 0 {
		t.Errorf("%d handles left open", n)
	}
}

// After a failure a writer never touches the file again.
func TestWriterSticky(t *testing.T) {
	for name, tc := range map[string]struct {
		failing func(*Writer) error
	}{
		"large write": {func(w *Writer) error { _, err := w.Append(make([]byte, writeBufferLen)); return err }},
		"flush":       {func(w *Writer) error { return w.Flush() }},
		"sync":        {func(w *Writer) error { return w.Sync() }},
	} {
		t.Run(name, func(t *testing.T) {
			fsys := faultfs.New()
			w := create(t, fsys)
			fsys.FailAt(fsys.Calls(), faultfs.Fault{Err: faultfs.ENOSPC})
			first := tc.failing(w)
			if !errors.Is(first, faultfs.ENOSPC) {
				t.Fatalf("got %v want ENOSPC", first)
			}
			calls := fsys.Calls()
			if _, err := w.Append([]byte("x")); err != first {
				t.Errorf("append: got %v want %v", err, first)
			}
			if err := w.Sync(); err != first {
				t.Errorf("sync: got %v want %v", err, first)
			}
			if fsys.Calls() != calls {
				t.Error("the file was touched after a failure")
			}
			if err := w.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestScanStops(t *testing.T) {
	fsys := faultfs.New()
	w := create(t, fsys)
	good := appendSizes(t, w, 0, 10, 20)
	damaged := w.Len()
	bad := sizedBatch(2, 30)
	bad[HeaderLen+5] ^= 1
	if _, err := w.Append(bad); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(w.Sync(), w.Close()); err != nil {
		t.Fatal(err)
	}
	r, err := OpenReader(fsys, testPath)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	count := 0
	counting := func(int64, *Header, []byte) error { count++; return nil }

	var corrupt *CorruptError
	at, err := r.Scan(FileHeaderLen, w.Len(), counting)
	if at != damaged || !errors.As(err, &corrupt) || corrupt.Position != damaged || count != len(good) {
		t.Errorf("damage: got %d batches, %d, %v want %d, %d", count, at, err, len(good), damaged)
	}
	// The end of the range cuts a batch: in its header, or in its body.
	for _, end := range []int64{damaged + 10, damaged + HeaderLen + 10} {
		if at, err := r.Scan(FileHeaderLen, end, counting); at != damaged || !errors.Is(err, ErrShort) {
			t.Errorf("end %d: got %d, %v want %d, ErrShort", end, at, err, damaged)
		}
	}
	stop := errors.New("stop")
	at, err = r.Scan(FileHeaderLen, w.Len(), func(int64, *Header, []byte) error { return stop })
	if at != FileHeaderLen || err != stop {
		t.Errorf("stopped: got %d, %v", at, err)
	}
}
