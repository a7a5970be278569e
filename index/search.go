package index

import (
	"errors"
	"fmt"

	"github.com/skepmq/skep/segment"
)

// Search finds, in the run that ends at position end, the last entry of a partition that
// begins before an offset. It reads as few entries as a binary search needs and checks
// each, but not the checksum of all. One that is damaged is an error where it may be the
// one, and is passed over otherwise. Errors: *segment.CorruptError.
func Search(r *segment.Reader, end, before int64, partition uint64) (e Located, ok bool, err error) {
	at := end - TrailerLen
	t, err := readTrailer(r, at)
	if err != nil {
		return Located{}, false, err
	}
	start := at - int64(t.Count)*EntryLen
	if start <= int64(t.RunStart) {
		return Located{}, false, r.Corrupt(at, segment.ErrCorrupt)
	}
	damaged := int64(-1) // from here to the first entry that is not before
	for low, high := int64(0), int64(t.Count); low < high; {
		middle := (low + high) / 2
		m, err := readEntry(r, start+middle*EntryLen)
		next := middle + 1
		for ; errors.Is(err, segment.ErrCorrupt) && next < high; next++ {
			m, err = readEntry(r, start+next*EntryLen)
		}
		switch {
		case errors.Is(err, segment.ErrCorrupt):
			damaged, high = middle, middle
		case err != nil:
			return Located{}, false, err
		case m.Partition < partition || m.Partition == partition && m.BaseOffset < before:
			e, low = m, next
		default:
			if high = middle; next > middle+1 {
				damaged = middle
			}
		}
		if low == high && high == damaged {
			return Located{}, false, r.Corrupt(start+damaged*EntryLen, segment.ErrCorrupt)
		}
	}
	return e, e.Partition == partition, nil
}

func readEntry(r *segment.Reader, position int64) (Located, error) {
	var b [EntryLen]byte
	if err := r.ReadAt(b[:], position); err != nil {
		return Located{}, err
	}
	e, err := DecodeEntry(b[:])
	if err == nil && e.EndPosition() > position {
		err = fmt.Errorf("%w: extent behind its entry", segment.ErrCorrupt)
	}
	if err != nil {
		return Located{}, r.Corrupt(position, err)
	}
	return Located{Entry: e, At: Pointer{Segment: r.Header().ID, Position: uint32(position)}}, nil
}
