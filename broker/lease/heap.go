package lease

// Heap is a binary min-heap of entries by their instants. container/heap would box every
// entry. The wheel keeps in one what it cannot place: entries that are due already, drained
// by the next Advance, and, while the clock is behind the latest time seen, the deadlines in
// between. Retention has one for each queue with rules. The zero Heap is empty.
type Heap[V any] []Entry[V]

// Entry is a value and the instant that it is due.
type Entry[V any] struct {
	At    int64
	Value V
}

// spareEntries is how many an empty heap may keep room for. What a burst, or a million
// partitions, needed beyond that goes back to the garbage collector.
const spareEntries = chunkLen * spareChunks

// Push adds e.
func (h *Heap[V]) Push(e Entry[V]) {
	*h = append(*h, e)
	s := *h
	for i := len(s) - 1; i > 0; {
		parent := (i - 1) / 2
		if s[parent].At <= s[i].At {
			return
		}
		s[parent], s[i] = s[i], s[parent]
		i = parent
	}
}

// Pop removes an entry of the smallest instant, the one at index 0. The heap must not be
// empty.
func (h *Heap[V]) Pop() Entry[V] {
	s := *h
	top, last := s[0], len(s)-1
	s[0] = s[last]
	s[last] = Entry[V]{} // values may hold pointers
	s = s[:last]
	*h = s
	if last == 0 && cap(s) > spareEntries {
		*h = nil
	}
	for i := 0; ; {
		child := 2*i + 1
		if child >= len(s) {
			return top
		}
		if child+1 < len(s) && s[child+1].At < s[child].At {
			child++
		}
		if s[i].At <= s[child].At {
			return top
		}
		s[i], s[child] = s[child], s[i]
		i = child
	}
}
