package vfs

import (
	"errors"
	"io"
)

// ErrLocked says that another process holds the directory lock.
var ErrLocked = errors.New("vfs: locked by another process")

// FS is the file system below every file Skep writes. Names are paths as package
// path/filepath forms them. Methods are safe for concurrent use and their errors
// answer errors.Is(err, fs.ErrNotExist) and the like as those of package os do.
type FS interface {
	// Open opens a file for reading.
	Open(name string) (File, error)
	// Create creates a file for reading and writing; an existing one is truncated.
	Create(name string) (File, error)
	// OpenReadWrite opens an existing file for reading and writing, as it is.
	OpenReadWrite(name string) (File, error)
	// Remove removes a file or an empty directory.
	Remove(name string) error
	// RemoveAll removes a file or a directory with all it holds, in no order one may
	// rely on: a crash in the middle leaves any part of it. A missing name is no error.
	RemoveAll(name string) error
	// Rename replaces what bears the new name, in one step for every observer.
	Rename(from, to string) error
	// MkdirAll creates a directory and its missing parents. Their names are not
	// durable before SyncDir of each parent; MakeDir does both.
	MkdirAll(name string) error
	// List returns the names in a directory, sorted.
	List(dir string) ([]string, error)
	// Size returns the length of a file in bytes.
	Size(name string) (int64, error)
	// SyncDir makes the names in a directory durable: what was created in it,
	// renamed into it or removed from it.
	SyncDir(dir string) error
	// Lock takes an exclusive lock on a file, creating it, until the returned
	// Closer is closed or the process ends. ErrLocked if another holds it.
	Lock(name string) (io.Closer, error)
	// Free returns the bytes an unprivileged process may still write below a
	// directory and the size of that file system. Where hardly a file can be made any
	// more, free is 0: there are bytes, but nothing to put them in.
	Free(dir string) (free, total int64, err error)
}

// File is an open file. ReadAt is safe for concurrent use; writing has one owner.
type File interface {
	io.ReaderAt
	// WriteAt writes at a position in bytes; past the end it leaves a hole.
	io.WriterAt
	// Sync makes the bytes written so far durable, and the length with them
	// (fdatasync), whichever handle of the file wrote them. After an error nothing is
	// known about what reached the disk, and a later success proves nothing.
	Sync() error
	// Truncate cuts the file to a size in bytes, or extends it with a hole.
	Truncate(size int64) error
	// Size returns the length of the file in bytes.
	Size() (int64, error)
	io.Closer
}
