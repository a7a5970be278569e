package partition

import (
	"cmp"
	"slices"

	"github.com/skepmq/skep/index"
)

// Needs says what a Rewrite is to keep.
type Needs interface {
	// Keep returns which of a partition's extents, in the order of their offsets, are still
	// needed. It may use their slice. Unless the partition has holes they are the last of
	// them, and none that was not needed before.
	Keep(partition uint64, extents []index.Located) []index.Located
	// Holes reports that what lies before an extent that is not needed may be. All of such
	// a partition lies in segments of its own.
	Holes(partition uint64) bool
}

// Needed returns how many bytes of a segment a Rewrite would copy, with their entries in the
// index, or something above limit; how much of the segment it speaks for; and how many
// extents it has looked at. Errors as for Extents.
func (s *Store) Needed(id uint32, needs Needs, limit int64) (bytes, length int64, looked int, err error) {
	info, _ := s.segment(id)
	if needs.Holes(info.Partition) {
		var all []index.Located
		if all, length, err = s.allOf(id); err != nil {
			return 0, 0, len(all), err
		}
		looked = len(all)
		for _, e := range keptWithHoles(all, needs) {
			bytes += int64(e.Length) + index.EntryLen
		}
		return bytes, length, looked, nil
	}
	var one [1]index.Located
	length, err = s.Extents(id, func(e *index.Located) bool {
		looked++
		one[0] = *e
		if len(needs.Keep(e.Partition, one[:])) > 0 {
			bytes += int64(e.Length) + index.EntryLen
		}
		return bytes <= limit
	})
	return bytes, length, looked, err
}

// keptOf returns the extents that are kept of segments of one owner, by partition and
// offset, and whose segments they are. There are none if the queue was dropped.
func (s *Store) keptOf(ids []uint32, needs Needs) (extents []index.Located, key owner, err error) {
	for i, id := range ids {
		info, ok := s.segment(id)
		switch {
		case !ok:
			return nil, key, nil
		case !info.Sealed:
			panic("BUG: partition: Rewrite of a segment that was not retired")
		case i > 0 && info.owner() != key:
			panic("BUG: partition: Rewrite of segments of several owners")
		}
		key = info.owner()
		var some []index.Located
		if needs.Holes(key.partition) {
			some, _, err = s.allOf(id)
		} else {
			some, err = s.neededOf(id, needs)
		}
		if err != nil {
			return nil, key, err
		}
		extents = append(extents, some...)
	}
	sortExtents(extents)
	if needs.Holes(key.partition) {
		return keptWithHoles(extents, needs), key, nil
	}
	// Once more, and now all of a partition at one moment: what is kept must not have
	// holes, and starts may have moved between one look and the next.
	kept := extents[:0]
	for len(extents) > 0 {
		n := 1
		for n < len(extents) && extents[n].Partition == extents[0].Partition {
			n++
		}
		kept = append(kept, needs.Keep(extents[0].Partition, extents[:n])...)
		extents = extents[n:]
	}
	return kept, key, nil
}

func sortExtents(extents []index.Located) {
	slices.SortFunc(extents, func(a, b index.Located) int {
		return cmp.Or(cmp.Compare(a.Partition, b.Partition), cmp.Compare(a.BaseOffset, b.BaseOffset))
	})
}

// neededOf asks for each extent as it comes, so that it holds none that is not needed.
func (s *Store) neededOf(id uint32, needs Needs) (needed []index.Located, err error) {
	var one [1]index.Located
	_, err = s.Extents(id, func(e *index.Located) bool {
		one[0] = *e
		needed = append(needed, needs.Keep(e.Partition, one[:])...)
		return true
	})
	return needed, err
}

// allOf returns all extents of a segment, sorted.
func (s *Store) allOf(id uint32) (all []index.Located, length int64, err error) {
	length, err = s.Extents(id, func(e *index.Located) bool {
		all = append(all, *e)
		return true
	})
	sortExtents(all)
	return all, length, err
}

// follows reports that b is the extent right before e in the chain of their partition.
func follows(e, b *index.Located) bool {
	return e.Partition == b.Partition && (e.Prev == b.At || e.BaseOffset == b.EndOffset())
}

// keptWithHoles returns which extents of one partition are kept, where what lies before one
// that is not needed may be. In each unbroken part of the chain the first and the last stay
// in any case: the last is what entries elsewhere point to, and the first points to what
// lies elsewhere. So what is kept still leads from one end of the part to the other.
func keptWithHoles(extents []index.Located, needs Needs) (kept []index.Located) {
	for len(extents) > 0 {
		n := 1
		for n < len(extents) && follows(&extents[n], &extents[n-1]) {
			n++
		}
		from := len(kept)
		kept = append(kept, extents[0])
		if n > 2 {
			kept = append(kept, needs.Keep(extents[0].Partition, slices.Clone(extents[1:n-1]))...)
		}
		if n > 1 {
			kept = append(kept, extents[n-1])
		}
		for i := from + 1; i < len(kept); i++ {
			kept[i].Prev = kept[i-1].At
		}
		extents = extents[n:]
	}
	return kept
}
