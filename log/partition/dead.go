package partition

import (
	"cmp"
	"slices"

	"github.com/skepmq/skep/index"
	"github.com/skepmq/skep/segment"
)

// Aged is a segment and how old what it holds is.
type Aged struct {
	SegmentInfo
	NewestMs int64 // append time of its newest message, 0: not known until Extents has seen it
}

// Aged returns every segment, those of a queue together and by id, without reading any.
func (s *Store) Aged() []Aged {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := make([]Aged, 0, len(s.segments))
	for id, info := range s.segments {
		list = append(list, Aged{info, s.newest[id]})
	}
	slices.SortFunc(list, func(a, b Aged) int {
		return cmp.Or(cmp.Compare(a.Queue, b.Queue), cmp.Compare(a.ID, b.ID))
	})
	return list
}

// Extents calls fn with the extents of a segment, those filed last first, until fn returns
// false. It returns how much of the segment it speaks for: File may have added to it since.
// A segment that is not there has none. It reads the index alone, and no lock is held
// while fn runs. Errors: *segment.CorruptError, ErrClosed and those of the file system.
func (s *Store) Extents(id uint32, fn func(e *index.Located) (more bool)) (length int64, err error) {
	info, ok := s.segment(id)
	if !ok {
		return 0, nil
	}
	file, err := s.acquire(id)
	if file == nil || err != nil {
		return 0, err
	}
	defer s.files.release(file)
	for end := info.Length; end > segment.FileHeaderLen; {
		entries, start, err := index.ReadIndex(file.Reader, end)
		if err != nil {
			return 0, err
		}
		if end == info.Length {
			s.noteNewest(id, entries)
		}
		for i := range entries {
			if !fn(&entries[i]) {
				return info.Length, nil
			}
		}
		end = start
	}
	return info.Length, nil
}

// noteNewest learns the age of a segment from its last run: a run is never older than the
// one before it.
func (s *Store) noteNewest(id uint32, entries []index.Located) {
	newest := int64(0)
	for i := range entries {
		newest = max(newest, entries[i].LastTimestampMs)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.segments[id]; ok {
		s.newest[id] = max(s.newest[id], newest)
	}
}

func (s *Store) segment(id uint32) (SegmentInfo, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	info, ok := s.segments[id]
	return info, ok
}

// Retire seals a segment that has the given length, so that nothing is added to it any
// more, and reports whether it could: not while a File runs, which may have plans for it,
// nor when it has grown. The caller need not record that; it goes on to Remove.
func (s *Store) Retire(id uint32, length int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	info, ok := s.segments[id]
	if !ok || s.filing || info.Length != length {
		return false
	}
	info.Sealed = true
	s.segments[id] = info
	if s.active[info.owner()] == id {
		delete(s.active, info.owner())
	}
	return true
}

// Remove forgets retired segments and unlinks them. The caller has recorded before that
// they are dropped, and that no partition starts in them. Readers in flight finish; a
// later Read finds nothing there. On an error files may be left, which the next Open
// removes.
func (s *Store) Remove(ids []uint32) error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return ErrClosed
	}
	gone := make([]uint32, 0, len(ids))
	for _, id := range ids {
		info, ok := s.segments[id]
		if !ok {
			continue // it went with its queue
		}
		if !info.Sealed {
			panic("BUG: partition: Remove of a segment that was not retired")
		}
		gone = append(gone, id)
		s.forgetLocked(id)
	}
	s.mu.Unlock()
	return s.unlink(gone)
}

// Bytes returns the stored bytes of a partition's batches that hold offsets from from to
// to, as far as newest knows. What that costs depends on how many they are, once the chain
// of the partition is cached. Errors as for Read.
func (s *Store) Bytes(newest index.Pointer, partition uint64, from, to int64) (total int64, err error) {
walk:
	for !newest.IsZero() && from < to {
		chain, last, err := s.chain(newest, partition, target{offset: from})
		if err != nil {
			return 0, err
		}
		for i := index.FindOffset(chain, from); i < len(chain); i++ {
			if chain[i].BaseOffset >= to {
				return total, nil
			}
			n, err := s.extentBytes(&chain[i], from, to)
			if s.startsOver(err, partition) {
				from = max(from, chain[i].BaseOffset)
				continue walk
			}
			if err != nil {
				return 0, err
			}
			total += n
		}
		if last || len(chain) == 0 {
			return total, nil
		}
		from = chain[len(chain)-1].EndOffset()
	}
	return total, nil
}

// extentBytes counts the bytes of the batches of an extent that hold offsets from from to
// to. Only where one of them lies inside the extent it has to be read.
func (s *Store) extentBytes(e *index.Located, from, to int64) (n int64, err error) {
	if e.BaseOffset >= from && e.EndOffset() <= to {
		return int64(e.Length), nil
	}
	_, err = s.readExtent(e, from, func(batch []byte) bool {
		h, headerErr := segment.DecodeHeader(batch) // readExtent has done so as well
		if headerErr == nil && h.BaseOffset < to {
			n += int64(len(batch))
		}
		return true
	})
	return n, err
}

// newestMs is the append time of the newest message that a job files.
func (j *job) newestMs() (ms int64) {
	for i := range j.packer.Entries {
		ms = max(ms, j.packer.Entries[i].LastTimestampMs)
	}
	return ms
}
