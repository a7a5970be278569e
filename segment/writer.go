package segment

import (
	"errors"
	"fmt"
	"sync"

	"github.com/skepmq/skep/segment/vfs"
)

// writeBufferLen is how much a Writer gathers before it writes. A run of a hundred
// thousand small batches is then some hundred calls.
const writeBufferLen = 256 << 10

var writeBuffers = sync.Pool{New: func() any {
	b := make([]byte, 0, writeBufferLen)
	return &b
}}

// Writer extends one segment file. It has one owner and is not safe for concurrent
// use. After the first error every call returns that error: what the file holds
// behind the last successful Sync is then unknown, and the caller decides what to
// do with the file.
type Writer struct {
	file   vfs.File
	path   string
	length int64   // of the file once buffer is written
	buffer *[]byte // appended and not yet written; nil when empty
	err    error
}

// Create makes the segment file path, which replaces an older one, and starts it
// with h. The file's name is not durable until its directory is synced.
func Create(fsys vfs.FS, path string, h FileHeader) (*Writer, error) {
	file, err := fsys.Create(path)
	if err != nil {
		return nil, fmt.Errorf("create segment: %w", err)
	}
	w := &Writer{file: file, path: path}
	if _, err := w.Append(AppendFileHeader(nil, h)); err != nil {
		return nil, errors.Join(err, w.Close())
	}
	return w, nil
}

// OpenWriter opens an existing segment file to extend it from length, up to which
// it is known to be valid. What lies behind is cut. What lies before is not looked
// at. Errors: *CorruptError when the file is shorter.
func OpenWriter(fsys vfs.FS, path string, length int64) (*Writer, error) {
	file, err := fsys.OpenReadWrite(path)
	if err != nil {
		return nil, fmt.Errorf("open segment: %w", err)
	}
	if err := cut(file, path, length); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return &Writer{file: file, path: path, length: length}, nil
}

func cut(file vfs.File, path string, length int64) error {
	size, err := file.Size()
	switch {
	case err != nil:
		return fmt.Errorf("size of %s: %w", path, err)
	case size < length || length < FileHeaderLen:
		return &CorruptError{Path: path, Position: size, Err: ErrShort}
	case size == length:
		return nil
	}
	if err := file.Truncate(length); err != nil {
		return fmt.Errorf("truncate %s: %w", path, err)
	}
	return nil
}

// Len is the length of the file in bytes with everything appended so far.
func (w *Writer) Len() int64 { return w.length }

// Append adds b and returns the position of its first byte. It copies b.
func (w *Writer) Append(b []byte) (position int64, err error) {
	if w.err != nil {
		return 0, w.err
	}
	if w.buffer != nil && len(*w.buffer)+len(b) > writeBufferLen {
		if err := w.Flush(); err != nil {
			return 0, err
		}
	}
	position = w.length
	if len(b) >= writeBufferLen {
		if err := w.write(b, position); err != nil {
			return 0, err
		}
	} else {
		if w.buffer == nil {
			w.buffer = writeBuffers.Get().(*[]byte)
		}
		*w.buffer = append(*w.buffer, b...)
	}
	w.length += int64(len(b))
	return position, nil
}

// Flush hands what was appended to the kernel.
func (w *Writer) Flush() error {
	if w.err != nil || w.buffer == nil {
		return w.err
	}
	err := w.write(*w.buffer, w.length-int64(len(*w.buffer)))
	w.release()
	return err
}

func (w *Writer) write(b []byte, position int64) error {
	if _, err := w.file.WriteAt(b, position); err != nil {
		w.err = fmt.Errorf("write %s: %w", w.path, err)
	}
	return w.err
}

func (w *Writer) release() {
	if w.buffer != nil {
		*w.buffer = (*w.buffer)[:0]
		writeBuffers.Put(w.buffer)
		w.buffer = nil
	}
}

// Sync makes everything appended so far durable.
func (w *Writer) Sync() error {
	if err := w.Flush(); err != nil {
		return err
	}
	if err := w.file.Sync(); err != nil {
		w.err = fmt.Errorf("sync %s: %w", w.path, err)
	}
	return w.err
}

// Close closes the file. What was appended since the last Sync is dropped, or was
// written in part.
func (w *Writer) Close() error {
	w.release()
	if err := w.file.Close(); err != nil {
		return fmt.Errorf("close %s: %w", w.path, err)
	}
	return nil
}
