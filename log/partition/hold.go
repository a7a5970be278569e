package partition

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/skepmq/skep/segment"
	"github.com/skepmq/skep/segment/vfs"
)

// Held keeps the files of all segments that there were at one moment, so that they can be
// copied while the store goes on. A segment that is dropped or replaced meanwhile leaves
// the store as ever, and its file is unlinked when it is released. If the process ends
// before, the next Open removes it.
type Held struct {
	Segments []SegmentInfo // by id, as they were; what follows their Length is not theirs

	s    *Store
	gone map[uint32]bool // by segment held, whether it has left the store; under Store.mu
}

// Hold holds the segments that there are. A store is held once at a time.
func (s *Store) Hold() (*Held, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return nil, ErrClosed
	case s.held != nil:
		panic("BUG: partition: Hold of a store that is held")
	}
	h := &Held{Segments: s.listLocked(), s: s, gone: make(map[uint32]bool, len(s.segments))}
	for id := range s.segments {
		h.gone[id] = false
	}
	s.held = h
	return h, nil
}

// keepHeld takes out of ids those whose files have to stay for now.
func (s *Store) keepHeld(ids []uint32) []uint32 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.held == nil {
		return ids
	}
	var free []uint32
	for _, id := range ids {
		if _, ok := s.held.gone[id]; ok {
			s.held.gone[id] = true
		} else {
			free = append(free, id)
		}
	}
	return free
}

// Check tells whether the file of a segment has all that it should have. Errors:
// *segment.CorruptError, and those of the file system.
func (h *Held) Check(info *SegmentInfo) error {
	path := h.Path(info.ID)
	size, err := h.s.o.FS.Size(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return &segment.CorruptError{Path: path, Err: ErrMissing}
	case err != nil:
		return fmt.Errorf("size of segment: %w", err)
	case size < info.Length:
		return &segment.CorruptError{Path: path, Position: size, Err: segment.ErrShort}
	}
	return nil
}

// Path returns where a segment lies.
func (h *Held) Path(id uint32) string { return h.s.path(id) }

// Open opens the file of a segment that was not released.
func (h *Held) Open(id uint32) (vfs.File, error) { return h.s.o.FS.Open(h.Path(id)) }

// Dropped returns how many files are there for nothing but the holding.
func (h *Held) Dropped() (n int) {
	h.s.mu.Lock()
	defer h.s.mu.Unlock()
	for _, gone := range h.gone {
		if gone {
			n++
		}
	}
	return n
}

// Release lets the file of a segment go. To do it twice does no harm.
func (h *Held) Release(id uint32) {
	s := h.s
	s.mu.Lock()
	gone := h.gone[id] && !s.closed // what a closed store leaves, the next Open removes
	delete(h.gone, id)
	s.mu.Unlock()
	if !gone {
		return
	}
	// A power cut may bring it back, and Open removes it then.
	if err := s.o.FS.Remove(s.path(id)); err != nil {
		s.o.Logger.Warn().Err(err).Str("path", s.path(id)).Msg("dropped segment left")
	}
}

// Close releases what is held still. To do it twice does no harm.
func (h *Held) Close() {
	for i := range h.Segments {
		h.Release(h.Segments[i].ID)
	}
	h.s.mu.Lock()
	defer h.s.mu.Unlock()
	if h.s.held == h {
		h.s.held = nil
	}
}
