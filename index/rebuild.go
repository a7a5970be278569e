package index

import (
	"cmp"
	"errors"
	"slices"

	"github.com/skepmq/skep/segment"
)

// Rebuild makes the entries of the segment r, up to length, from its batches, each
// of which it verifies. The index in the file is stepped over: it may be damaged,
// as long as something of it still shows that it is one. Entries come in the order
// they lie, with their old places and without Prev; see Link. Errors:
// *segment.CorruptError at the first thing that is neither batch nor index.
func Rebuild(r *segment.Reader, length int64) ([]Located, error) {
	var all []Located
	for at := int64(segment.FileHeaderLen); at < length; {
		entries, end, err := RebuildRun(r, at, length)
		if err != nil {
			return nil, err
		}
		all = append(all, entries...)
		at = end
	}
	return all, nil
}

// RebuildRun is Rebuild for the run at start alone, and returns where it ends.
func RebuildRun(r *segment.Reader, start, length int64) ([]Located, int64, error) {
	p := Packer{ExtentBytes: r.Header().ExtentBytes}
	index, err := r.Scan(start, length, func(position int64, h *segment.Header, _ []byte) error {
		p.Add(h, uint32(position))
		return nil
	})
	end := index + Len(len(p.Entries))
	// Batches up to the very end are a run whose index is missing.
	if err == nil {
		err = r.Corrupt(index, segment.ErrShort)
	}
	var corrupt *segment.CorruptError
	if !errors.As(err, &corrupt) || len(p.Entries) == 0 || end > length || !isIndex(r, index, end, uint32(start)) {
		return nil, 0, err
	}
	entries := make([]Located, len(p.Entries))
	for i, e := range p.Entries {
		position := uint32(index) + uint32(i)*EntryLen
		entries[i] = Located{Entry: e, At: Pointer{Segment: r.Header().ID, Position: position}}
	}
	return entries, end, nil
}

// isIndex reports whether the bytes from start to end are the index of the run at
// runStart. Either end of it is proof enough: a batch whose header is damaged is
// neither an entry nor followed, at just that distance, by this run's trailer.
func isIndex(r *segment.Reader, start, end int64, runStart uint32) bool {
	if t, err := readTrailer(r, end-TrailerLen); err == nil && t.RunStart == runStart && Len(int(t.Count)) == end-start {
		return true
	}
	var b [EntryLen]byte
	if r.ReadAt(b[:], start) != nil {
		return false
	}
	e, err := DecodeEntry(b[:])
	return err == nil && e.Position == runStart
}

// Link sorts entries by partition and offset and points each to the one before it.
// It takes those of all segments of a queue at once, for a partition's chain goes
// from segment to segment and back.
func Link(entries []Located) {
	slices.SortFunc(entries, func(a, b Located) int {
		return cmp.Or(cmp.Compare(a.Partition, b.Partition), cmp.Compare(a.BaseOffset, b.BaseOffset))
	})
	for i := range entries {
		entries[i].Prev = Pointer{}
		if i > 0 && entries[i-1].Partition == entries[i].Partition {
			entries[i].Prev = entries[i-1].At
		}
	}
}
