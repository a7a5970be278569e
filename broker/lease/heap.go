package lease

// heap is a binary min-heap of entries by tick. The wheel keeps in it what it cannot
// place: entries that are due already, drained by the next Advance, and, while the
// clock is behind the latest time seen, the deadlines in between. container/heap
// would box every entry.
type heap[K any] []entry[K]

func (h *heap[K]) push(e entry[K]) {
	*h = append(*h, e)
	s := *h
	for i := len(s) - 1; i > 0; {
		parent := (i - 1) / 2
		if s[parent].tick <= s[i].tick {
			return
		}
		s[parent], s[i] = s[i], s[parent]
		i = parent
	}
}

// pop removes an entry of the smallest tick. The heap must not be empty.
func (h *heap[K]) pop() entry[K] {
	s := *h
	top, last := s[0], len(s)-1
	s[0] = s[last]
	s[last] = entry[K]{} // keys may hold pointers
	s = s[:last]
	*h = s
	if last == 0 {
		h.shrink()
	}
	for i := 0; ; {
		child := 2*i + 1
		if child >= len(s) {
			return top
		}
		if child+1 < len(s) && s[child+1].tick < s[child].tick {
			child++
		}
		if s[i].tick <= s[child].tick {
			return top
		}
		s[i], s[child] = s[child], s[i]
		i = child
	}
}

// shrink gives back what a burst of late entries needed.
func (h *heap[K]) shrink() {
	if cap(*h) > chunkLen*spareChunks {
		*h = nil
	}
}
