package segment

import (
	"errors"
	"fmt"
	"io"

	"github.com/skepmq/skep/segment/vfs"
)

// Reader reads one segment file. Its methods are safe for concurrent use, but for
// Close, which comes last.
type Reader struct {
	file   vfs.File
	path   string
	header FileHeader
}

// OpenReader opens the segment file path and checks its header. Errors:
// *CorruptError, and those of the file system.
func OpenReader(fsys vfs.FS, path string) (*Reader, error) {
	file, err := fsys.Open(path)
	if err != nil {
		return nil, fmt.Errorf("open segment: %w", err)
	}
	h, err := readFileHeader(file, path)
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return &Reader{file: file, path: path, header: h}, nil
}

// OpenReaderUnchecked opens the segment file path without reading its header, and takes h
// for it: for those who look at damage.
func OpenReaderUnchecked(fsys vfs.FS, path string, h FileHeader) (*Reader, error) {
	file, err := fsys.Open(path)
	if err != nil {
		return nil, fmt.Errorf("open segment: %w", err)
	}
	return &Reader{file: file, path: path, header: h}, nil
}

func readFileHeader(file vfs.File, path string) (FileHeader, error) {
	var b [FileHeaderLen]byte
	if err := readFull(file, path, b[:], 0); err != nil {
		return FileHeader{}, err
	}
	h, err := DecodeFileHeader(b[:])
	if err != nil {
		return FileHeader{}, &CorruptError{Path: path, Err: err}
	}
	return h, nil
}

func readFull(file vfs.File, path string, b []byte, position int64) error {
	n, err := file.ReadAt(b, position)
	switch {
	case n == len(b):
		return nil
	case errors.Is(err, io.EOF):
		return &CorruptError{Path: path, Position: position, Err: ErrShort}
	}
	return fmt.Errorf("read %s at %d: %w", path, position, err)
}

// Header returns the file header.
func (r *Reader) Header() FileHeader { return r.header }

// Path returns the path the file was opened by.
func (r *Reader) Path() string { return r.path }

// ReadAt fills b with the bytes from position on. A file that ends before b is full
// gives a *CorruptError with ErrShort: callers ask for what was written.
func (r *Reader) ReadAt(b []byte, position int64) error {
	return readFull(r.file, r.path, b, position)
}

// Corrupt returns err as damage found in this file at position.
func (r *Reader) Corrupt(position int64, err error) error {
	return &CorruptError{Path: r.path, Position: position, Err: err}
}

// Close closes the file.
func (r *Reader) Close() error { return r.file.Close() }
