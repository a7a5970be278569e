package index

import (
	"encoding/binary"
	"fmt"

	"github.com/skepmq/skep/segment"
)

const (
	// EntryLen is the length of an entry in bytes.
	EntryLen = 64
	// TrailerLen is the length of a trailer in bytes.
	TrailerLen = 24

	kindEntry   = 2 // of the kinds of records in a segment; see segment.KindBatch
	kindTrailer = 3
)

// Pointer says where an entry lies. The zero Pointer means none.
type Pointer struct {
	Segment  uint32 // id, from 1
	Position uint32 // in bytes
}

// IsZero reports whether p points nowhere.
func (p Pointer) IsZero() bool { return p == Pointer{} }

// Entry describes an extent: consecutive batches of one partition that lie one
// behind the other in the segment that holds the entry, and before the entry.
//
//	0     4        8       10     11     12         16          24           32
//	+-----+--------+-------+------+------+----------+-----------+------------+
//	| crc | length | magic | kind | zero | position | partition | baseOffset |
//	+-----+--------+-------+------+------+----------+-----------+------------+
//	32      36            40             44     48        56              64
//	+-------+-------------+--------------+------+---------+---------------+
//	| count | prevSegment | prevPosition | zero | firstMs | lastMs        |
//	+-------+-------------+--------------+------+---------+---------------+
//
//	crc           uint32  CRC-32C of every byte after this field
//	length        uint32  bytes of all batches, headers included
//	magic         uint16  segment.Magic
//	kind          uint8   2
//	position      uint32  of the first batch, in bytes
//	partition     uint64  at least 1
//	baseOffset    int64   of the first message
//	count         uint32  messages, without gaps
//	prevSegment   uint32  of the partition's entry before this; 0: there is none
//	prevPosition  uint32
//	firstMs       int64   timestamp of the first batch, Unix milliseconds
//	lastMs        int64   timestamp of the last batch
//
// Integers are little-endian. testdata/run.golden pins the bytes.
type Entry struct {
	Partition        uint64
	Prev             Pointer
	BaseOffset       int64
	FirstTimestampMs int64
	LastTimestampMs  int64
	Count            uint32
	Position         uint32
	Length           uint32
}

// EndOffset is one past the offset of the last message.
func (e *Entry) EndOffset() int64 { return e.BaseOffset + int64(e.Count) }

// EndPosition is one past the last byte of the last batch.
func (e *Entry) EndPosition() int64 { return int64(e.Position) + int64(e.Length) }

// AppendEntry appends e to dst and returns the longer slice.
func AppendEntry(dst []byte, e *Entry) []byte {
	le, start := binary.LittleEndian, len(dst)
	dst = le.AppendUint32(dst, 0)
	dst = le.AppendUint32(dst, e.Length)
	dst = le.AppendUint16(dst, segment.Magic)
	dst = append(dst, kindEntry, 0)
	dst = le.AppendUint32(dst, e.Position)
	dst = le.AppendUint64(dst, e.Partition)
	dst = le.AppendUint64(dst, uint64(e.BaseOffset))
	dst = le.AppendUint32(dst, e.Count)
	dst = le.AppendUint32(dst, e.Prev.Segment)
	dst = le.AppendUint32(dst, e.Prev.Position)
	dst = le.AppendUint32(dst, 0)
	dst = le.AppendUint64(dst, uint64(e.FirstTimestampMs))
	dst = le.AppendUint64(dst, uint64(e.LastTimestampMs))
	le.PutUint32(dst[start:], segment.Checksum(dst[start+4:]))
	return dst
}

// DecodeEntry reads the entry at the front of b. Errors: segment.ErrShort,
// segment.ErrCorrupt.
func DecodeEntry(b []byte) (Entry, error) {
	if len(b) < EntryLen {
		return Entry{}, segment.ErrShort
	}
	if err := checkRecord(b[:EntryLen], kindEntry); err != nil {
		return Entry{}, err
	}
	le := binary.LittleEndian
	e := Entry{
		Length:           le.Uint32(b[4:]),
		Position:         le.Uint32(b[12:]),
		Partition:        le.Uint64(b[16:]),
		BaseOffset:       int64(le.Uint64(b[24:])),
		Count:            le.Uint32(b[32:]),
		Prev:             Pointer{Segment: le.Uint32(b[36:]), Position: le.Uint32(b[40:])},
		FirstTimestampMs: int64(le.Uint64(b[48:])),
		LastTimestampMs:  int64(le.Uint64(b[56:])),
	}
	switch {
	case le.Uint32(b[44:]) != 0, e.Partition == 0, e.Count == 0, e.Length < segment.HeaderLen,
		e.Position < segment.FileHeaderLen,
		e.BaseOffset < 0 || e.BaseOffset > segment.MaxOffset || e.EndOffset()-1 > segment.MaxOffset,
		e.Prev.Segment == 0 && e.Prev.Position != 0:
		return Entry{}, fmt.Errorf("%w: impossible index entry %+v", segment.ErrCorrupt, e)
	}
	return e, nil
}

// checkRecord checks what entries and trailers have in common.
func checkRecord(b []byte, kind byte) error {
	le := binary.LittleEndian
	if want, got := le.Uint32(b), segment.Checksum(b[4:]); got != want {
		return fmt.Errorf("%w: index crc %08x, want %08x", segment.ErrCorrupt, got, want)
	}
	if magic := le.Uint16(b[8:]); magic != segment.Magic || b[10] != kind || b[11] != 0 {
		return fmt.Errorf("%w: magic %04x, kind %d, want %d", segment.ErrCorrupt, magic, b[10], kind)
	}
	return nil
}

// Trailer ends a run.
//
//	0     4          8       10     11     12      16         20     24
//	+-----+----------+-------+------+------+-------+----------+------+
//	| crc | indexCRC | magic | kind | zero | count | runStart | zero |
//	+-----+----------+-------+------+------+-------+----------+------+
//
//	crc       uint32  CRC-32C of every byte after this field
//	indexCRC  uint32  CRC-32C of all entries of the run
//	magic     uint16  segment.Magic
//	kind      uint8   3
//	count     uint32  entries, at least 1; they lie right before the trailer
//	runStart  uint32  position of the run's first batch
//
// Integers are little-endian. testdata/run.golden pins the bytes.
type Trailer struct {
	IndexCRC uint32
	Count    uint32
	RunStart uint32
}

// AppendTrailer appends t to dst and returns the longer slice.
func AppendTrailer(dst []byte, t Trailer) []byte {
	le, start := binary.LittleEndian, len(dst)
	dst = le.AppendUint32(dst, 0)
	dst = le.AppendUint32(dst, t.IndexCRC)
	dst = le.AppendUint16(dst, segment.Magic)
	dst = append(dst, kindTrailer, 0)
	dst = le.AppendUint32(dst, t.Count)
	dst = le.AppendUint32(dst, t.RunStart)
	dst = le.AppendUint32(dst, 0)
	le.PutUint32(dst[start:], segment.Checksum(dst[start+4:]))
	return dst
}

// DecodeTrailer reads the trailer at the front of b. Errors: segment.ErrShort,
// segment.ErrCorrupt.
func DecodeTrailer(b []byte) (Trailer, error) {
	if len(b) < TrailerLen {
		return Trailer{}, segment.ErrShort
	}
	if err := checkRecord(b[:TrailerLen], kindTrailer); err != nil {
		return Trailer{}, err
	}
	le := binary.LittleEndian
	t := Trailer{IndexCRC: le.Uint32(b[4:]), Count: le.Uint32(b[12:]), RunStart: le.Uint32(b[16:])}
	if t.Count == 0 || t.RunStart < segment.FileHeaderLen || le.Uint32(b[20:]) != 0 {
		return Trailer{}, fmt.Errorf("%w: impossible trailer %+v", segment.ErrCorrupt, t)
	}
	return t, nil
}
