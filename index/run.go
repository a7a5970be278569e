package index

import (
	"hash/crc32"

	"github.com/skepmq/skep/segment"
)

// Located is an entry and where it lies. Its batches lie in the same segment.
type Located struct {
	Entry
	At Pointer
}

// Packer forms the extents of one run. The zero Packer closes each extent after
// one batch.
type Packer struct {
	ExtentBytes uint32  // an extent is closed rather than grown beyond this
	Entries     []Entry // so far, without Prev
}

// Add takes the next batch of the run, which lies at position. A batch longer than
// ExtentBytes gets an extent alone. Rebuild forms extents with the same code: what
// is decided here must follow from batches, their positions and ExtentBytes alone.
func (p *Packer) Add(h *segment.Header, position uint32) {
	length := uint32(h.Len())
	if n := len(p.Entries); n > 0 {
		last := &p.Entries[n-1]
		if last.Partition == h.Partition && last.EndOffset() == h.BaseOffset &&
			last.EndPosition() == int64(position) && uint64(last.Length)+uint64(length) <= uint64(p.ExtentBytes) {
			last.Count += h.Count
			last.Length += length
			last.LastTimestampMs = h.TimestampMs
			return
		}
	}
	p.Entries = append(p.Entries, Entry{
		Partition:        h.Partition,
		BaseOffset:       h.BaseOffset,
		FirstTimestampMs: h.TimestampMs,
		LastTimestampMs:  h.TimestampMs,
		Count:            h.Count,
		Position:         position,
		Length:           length,
	})
}

// Len is the length in bytes of the index of a run with this many entries.
func Len(entries int) int64 { return int64(entries)*EntryLen + TrailerLen }

// Appender is what a segment is written with: a *segment.Writer, or one around it.
type Appender interface {
	Append(b []byte) (position int64, err error)
}

// Write appends the index of the run whose batches w holds from runStart on: the
// entries, in the order of their batches, and a trailer.
func Write(w Appender, entries []Entry, runStart uint32) error {
	var scratch [EntryLen]byte
	t := Trailer{Count: uint32(len(entries)), RunStart: runStart}
	for i := range entries {
		b := AppendEntry(scratch[:0], &entries[i])
		t.IndexCRC = crc32.Update(t.IndexCRC, castagnoli, b)
		if _, err := w.Append(b); err != nil {
			return err
		}
	}
	_, err := w.Append(AppendTrailer(scratch[:0], t))
	return err
}

// Append appends to dst what Write writes.
func Append(dst []byte, entries []Entry, runStart uint32) []byte {
	start := len(dst)
	for i := range entries {
		dst = AppendEntry(dst, &entries[i])
	}
	return AppendTrailer(dst, Trailer{
		IndexCRC: segment.Checksum(dst[start:]), Count: uint32(len(entries)), RunStart: runStart,
	})
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// ReadIndex reads the index of the run that ends at position end of a segment, and
// where that run starts: there the run before it ends, or, at
// segment.FileHeaderLen, there is none. Errors: *segment.CorruptError.
func ReadIndex(r *segment.Reader, end int64) (entries []Located, runStart int64, err error) {
	at := end - TrailerLen
	t, err := readTrailer(r, at)
	if err != nil {
		return nil, 0, err
	}
	start := at - int64(t.Count)*EntryLen
	if start <= int64(t.RunStart) {
		return nil, 0, r.Corrupt(at, segment.ErrCorrupt)
	}
	b := make([]byte, at-start)
	if err := r.ReadAt(b, start); err != nil {
		return nil, 0, err
	}
	if segment.Checksum(b) != t.IndexCRC {
		return nil, 0, r.Corrupt(start, segment.ErrCorrupt)
	}
	entries = make([]Located, t.Count)
	for i := range entries {
		position := start + int64(i)*EntryLen
		e, err := DecodeEntry(b[i*EntryLen:])
		if err != nil {
			return nil, 0, r.Corrupt(position, err)
		}
		entries[i] = Located{Entry: e, At: Pointer{Segment: r.Header().ID, Position: uint32(position)}}
	}
	return entries, int64(t.RunStart), nil
}

func readTrailer(r *segment.Reader, position int64) (Trailer, error) {
	if position < segment.FileHeaderLen {
		return Trailer{}, r.Corrupt(position, segment.ErrShort)
	}
	var b [TrailerLen]byte
	if err := r.ReadAt(b[:], position); err != nil {
		return Trailer{}, err
	}
	t, err := DecodeTrailer(b[:])
	if err != nil {
		return Trailer{}, r.Corrupt(position, err)
	}
	return t, nil
}
