package partition

import (
	"cmp"
	"slices"
)

// Segments returns every segment as a catalogue should know it, by id.
func (s *Store) Segments() []SegmentInfo {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.listLocked()
}

func (s *Store) listLocked() []SegmentInfo {
	list := make([]SegmentInfo, 0, len(s.segments))
	for _, info := range s.segments {
		list = append(list, info)
	}
	slices.SortFunc(list, func(a, b SegmentInfo) int { return cmp.Compare(a.ID, b.ID) })
	return list
}

// QueueSegments returns how many segments hold messages of a queue.
func (s *Store) QueueSegments(queue uint32) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, info := range s.segments {
		if info.Queue == queue {
			n++
		}
	}
	return n
}
