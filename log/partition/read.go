package partition

import (
	"errors"

	"github.com/skepmq/skep/index"
	"github.com/skepmq/skep/segment"
)

// Read calls fn with the batches of a partition in the order of their offsets, from
// the one that holds offset from, or else the first one after it, to the last one
// that newest knows of, until fn returns false. Each is whole and verified; its bytes
// stay valid and must not be changed. The zero Pointer, and one into a dropped
// segment, have no batches. fn runs without a lock. Errors: *segment.CorruptError,
// ErrClosed and those of the file system.
func (s *Store) Read(newest index.Pointer, partition uint64, from int64, fn func(batch []byte) (more bool)) error {
walk:
	for !newest.IsZero() {
		chain, last, err := s.chain(newest, partition, target{offset: from})
		if err != nil {
			return err
		}
		for i := index.FindOffset(chain, from); i < len(chain); i++ {
			more, err := s.readExtent(&chain[i], from, fn)
			if s.startsOver(err, partition) {
				from = max(from, chain[i].BaseOffset)
				continue walk
			}
			if err != nil || !more {
				return err
			}
		}
		if last || len(chain) == 0 {
			return nil
		}
		from = chain[len(chain)-1].EndOffset()
	}
	return nil
}

// readExtent calls fn with the batches of an extent, from offset from on.
func (s *Store) readExtent(e *index.Located, from int64, fn func(batch []byte) bool) (more bool, err error) {
	b, err := s.admitted(e)
	if err != nil {
		return false, err
	}
	for len(b) > 0 {
		h, err := segment.DecodeHeader(b)
		if err != nil {
			return false, err
		}
		n := h.Len()
		if h.EndOffset() > from && !fn(b[:n:n]) {
			return false, nil
		}
		b = b[n:]
	}
	return true, nil
}

// OffsetAt returns the base offset of the first batch appended at timestampMs or
// later that newest knows of. ok is false if there is none. Errors as for Read.
func (s *Store) OffsetAt(newest index.Pointer, partition uint64, timestampMs int64) (offset int64, ok bool, err error) {
	if newest.IsZero() {
		return 0, false, nil
	}
	for {
		offset, ok, err = s.offsetAt(newest, partition, timestampMs)
		if !s.startsOver(err, partition) {
			return offset, ok, err
		}
	}
}

func (s *Store) offsetAt(newest index.Pointer, partition uint64, timestampMs int64) (offset int64, ok bool, err error) {
	chain, _, err := s.chain(newest, partition, target{timestampMs: timestampMs, byTime: true})
	if err != nil {
		return 0, false, err
	}
	for i := index.FindTime(chain, timestampMs); i < len(chain) && !ok; i++ {
		if chain[i].FirstTimestampMs >= timestampMs {
			return chain[i].BaseOffset, true, nil // its batches need not be read
		}
		_, err := s.readExtent(&chain[i], 0, func(batch []byte) bool {
			h, headerErr := segment.DecodeHeader(batch)
			if headerErr == nil && h.TimestampMs >= timestampMs {
				offset, ok = h.BaseOffset, true
			}
			return !ok
		})
		if err != nil {
			return 0, false, err
		}
	}
	return offset, ok, nil
}

// startsOver reports that a read met an extent that was moved, and sees to it that the next
// chain is not the one that had it.
func (s *Store) startsOver(err error, partition uint64) bool {
	if !errors.Is(err, errMoved) {
		return false
	}
	s.cache.dropChain(partition)
	return true
}

// extent returns the verified bytes of an extent, nil if its segment was dropped. Errors:
// errMoved and those of Read.
func (s *Store) extent(e *index.Located) ([]byte, error) {
	if b := s.cache.extent(e.At); b != nil {
		return b, nil
	}
	file, err := s.acquire(e.At.Segment)
	if err != nil {
		return nil, err
	}
	if file == nil {
		if _, _, moved := s.movedTo(e.At.Segment); moved {
			return nil, errMoved
		}
		return nil, nil
	}
	defer s.files.release(file)
	b, err := readVerified(file, e)
	if err == nil {
		s.cache.putExtent(e.At, b)
	}
	return b, err
}

// readVerified reads the bytes of an extent and verifies them.
func readVerified(file *openFile, e *index.Located) ([]byte, error) {
	b := make([]byte, e.Length)
	if err := file.ReadAt(b, int64(e.Position)); err != nil {
		return nil, err
	}
	if at, err := verifyExtent(e, b); err != nil {
		return nil, file.Corrupt(int64(e.Position)+int64(at), err)
	}
	return b, nil
}

// verifyExtent checks that b is what its entry says, batch by batch. On an error at
// is the place in b.
func verifyExtent(e *index.Located, b []byte) (at int, err error) {
	next := e.BaseOffset
	for at < len(b) {
		h, err := segment.Verify(b[at:])
		if err != nil {
			return at, err
		}
		if h.Partition != e.Partition || h.BaseOffset != next {
			return at, segment.ErrCorrupt
		}
		next = h.EndOffset()
		at += h.Len()
	}
	if next != e.EndOffset() {
		return 0, segment.ErrCorrupt
	}
	return at, nil
}
