package partition

import (
	"slices"

	"github.com/skepmq/skep/index"
	"github.com/skepmq/skep/segment"
)

// ReadBackward calls fn with the batches of a partition that newest knows of and that
// begin before offset before, the last one first, until fn returns false. Otherwise it is
// as Read. Entries point backwards, so a walk that ends soon reads little of the chain.
func (s *Store) ReadBackward(newest index.Pointer, partition uint64, before int64, fn func(batch []byte) (more bool)) error {
	for !newest.IsZero() {
		rest, err := s.readBackward(newest, partition, before, fn)
		if !s.startsOver(err, partition) {
			return err
		}
		before = rest
	}
	return nil
}

// readBackward returns the offset before which nothing has been read.
func (s *Store) readBackward(newest index.Pointer, partition uint64, before int64, fn func(batch []byte) bool) (rest int64, err error) {
	chain, _, err := s.chain(newest, partition, target{offset: before - 1})
	if err != nil {
		return before, err
	}
	i := index.FindOffset(chain, before-1)
	if i == len(chain) || chain[i].BaseOffset >= before {
		i--
	}
	if i < 0 {
		return before, nil
	}
	for ; i > 0; i-- {
		if more, err := s.readExtentBackward(&chain[i], before, fn); err != nil || !more {
			return before, err
		}
		before = min(before, chain[i].BaseOffset)
	}
	return s.walkBackward(chain[0], before, fn)
}

// walkBackward reads e and what comes before it, entry by entry. It keeps none: a chain
// that is not cached is not worth caching for a look at its end.
func (s *Store) walkBackward(e index.Located, before int64, fn func(batch []byte) bool) (rest int64, err error) {
	w := walker{s: s, partition: e.Partition}
	for {
		more, err := s.readExtentBackward(&e, before, fn)
		if err != nil || !more || e.Prev.IsZero() {
			return before, err
		}
		before = min(before, e.BaseOffset)
		w.found = append(w.found[:0], e)
		var ok bool
		if e, ok, err = w.next(e.Prev); err != nil || !ok {
			return before, err
		}
	}
}

// readExtentBackward calls fn with the batches of an extent that begin before an offset,
// the last one first.
func (s *Store) readExtentBackward(e *index.Located, before int64, fn func(batch []byte) bool) (more bool, err error) {
	b, err := s.admitted(e)
	if err != nil {
		return false, err
	}
	var batches [][]byte
	for len(b) > 0 {
		h, err := segment.DecodeHeader(b)
		if err != nil {
			return false, err
		}
		if h.BaseOffset >= before {
			break
		}
		n := h.Len()
		batches = append(batches, b[:n:n])
		b = b[n:]
	}
	for _, batch := range slices.Backward(batches) {
		if !fn(batch) {
			return false, nil
		}
	}
	return true, nil
}
