package segment

import (
	"errors"
	"fmt"
)

var (
	// ErrShort says that a record ends past the buffer: more must be read, or, at
	// the end of a file, its writing was cut short.
	ErrShort = errors.New("segment: record ends past the buffer")
	// ErrCorrupt says that a record is all there and is not what was written.
	ErrCorrupt = errors.New("segment: corrupt record")
	// ErrLost says that a repair has marked the messages of a batch as lost: they were
	// damaged, and are passed over.
	ErrLost = errors.New("segment: messages lost")
)

// CorruptError says where damage was found.
type CorruptError struct {
	Path     string
	Position int64 // first byte of the record, in bytes from the start of the file
	Err      error
}

func (e *CorruptError) Error() string {
	return fmt.Sprintf("%s at %d: %v", e.Path, e.Position, e.Err)
}

func (e *CorruptError) Unwrap() error { return e.Err }

func corruptf(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrCorrupt}, args...)...)
}
