package dedup

import (
	"errors"
	"fmt"
)

var (
	// ErrFailed follows a failed write or sync of Save: what it wrote may or may not
	// be on disk, and Save refuses until the index is opened again. Add and Lookup
	// go on.
	ErrFailed = errors.New("dedup: a write or sync has failed")
	// ErrClosed answers calls after Close.
	ErrClosed = errors.New("dedup: closed")
)

// CorruptError says that bytes of a file are not as they were written. The entries
// of that file must be indexed again from the messages.
type CorruptError struct {
	Path     string
	Position int64 // of the block, page or section
	Err      error
}

func (e *CorruptError) Error() string {
	return fmt.Sprintf("%s at %d: %v", e.Path, e.Position, e.Err)
}

func (e *CorruptError) Unwrap() error {
	return e.Err
}
