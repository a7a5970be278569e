package index

import (
	"fmt"

	"github.com/skepmq/skep/segment"
)

// Search finds, in the run that ends at position end, the last entry of a partition that
// begins before an offset. It reads as few entries as a binary search needs and checks
// each, but not the checksum of all. Errors: *segment.CorruptError.
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
	for low, high := int64(0), int64(t.Count); low < high; {
		middle := (low + high) / 2
		m, err := readEntry(r, start+middle*EntryLen)
		if err != nil {
			return Located{}, false, err
		}
		if m.Partition > partition || m.Partition == partition && m.BaseOffset >= before {
			high = middle
			continue
		}
		e, low = m, middle+1
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
