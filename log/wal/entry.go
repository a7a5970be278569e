package wal

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math/bits"
)

const (
	// Headroom is how many bytes AppendFramed needs free in front of the data.
	Headroom = 32
	// MaxData is the longest data of one entry, in bytes.
	MaxData = 1 << 30

	magic       = "SKW"
	magicOffset = 4
)

// Kinds of entries. A changed format takes a new kind; kinds are never reused.
const (
	kindHeader = 1 // the first entry of every log: data is the log id, 8 bytes
	kindData   = 2
	kindMark   = 3 // ends the snapshot part of a home; no data
)

var (
	// ErrCorrupt says that bytes are not as they were written. Whether that means
	// loss is for Open to decide; what it returns is a *CorruptError.
	ErrCorrupt = errors.New("wal: corrupt entry")
	// ErrForeign says that the log bears another log id than was asked for.
	ErrForeign = errors.New("wal: the log has another id")
	// ErrSize refuses data longer than MaxData, or a buffer shorter than Headroom.
	// Nothing was written.
	ErrSize = errors.New("wal: length of entry out of range")
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// entry is one entry of a log. On disk tidwall's framing stands in front of it.
//
//	        0      4       7      8     16        24       28     32
//	+-------+------+-------+------+-----+---------+--------+------+-- ... --+
//	| frame | crc  | magic | kind | seq | durable | length | sum  | data    |
//	+-------+------+-------+------+-----+---------+--------+------+-- ... --+
//
//	frame    uvarint  32 + length, in its shortest form
//	crc      uint32   CRC-32C of the log id (8 bytes, absent for a header) and bytes 4 to 32
//	magic    "SKW"    so a run of zeros is never an entry
//	seq      uint64   0 for the header, then without gaps
//	durable  uint64   the last seq known to be synced when this was written
//	length   uint32   bytes of data
//	sum      uint32   CRC-32C of data
//
// Integers are little-endian. The log id in crc keeps an entry of another log, or one
// that an older file left in a reused block, from ever being valid here. The header of an
// entry is checked by itself, so that it can vouch for what lies before it even if its
// own data is torn. testdata/log.golden pins the bytes.
type entry struct {
	kind    byte
	seq     uint64
	durable uint64
	data    []byte // borrowed
}

// seedOf returns the state of the checksum after the log id.
func seedOf(logID uint64) uint32 {
	return crc32.Checksum(binary.LittleEndian.AppendUint64(nil, logID), castagnoli)
}

// frame fills the first Headroom bytes of buf, behind which e.data already stands.
func frame(buf []byte, seed uint32, kind byte, seq, durable uint64) {
	data := buf[Headroom:]
	copy(buf[magicOffset:], magic)
	buf[7] = kind
	binary.LittleEndian.PutUint64(buf[8:], seq)
	binary.LittleEndian.PutUint64(buf[16:], durable)
	binary.LittleEndian.PutUint32(buf[24:], uint32(len(data)))
	binary.LittleEndian.PutUint32(buf[28:], crc32.Checksum(data, castagnoli))
	binary.LittleEndian.PutUint32(buf, headerCRC(buf, seed))
}

func headerCRC(b []byte, seed uint32) uint32 {
	if b[7] == kindHeader {
		seed = 0 // readable without the id, so that a foreign log is not taken for a torn one
	}
	return crc32.Update(seed, castagnoli, b[magicOffset:Headroom])
}

// validHeader tells whether an entry's header stands at the front of b.
func validHeader(b []byte, seed uint32) bool {
	return len(b) >= Headroom && string(b[magicOffset:7]) == magic &&
		b[7] >= kindHeader && b[7] <= kindMark &&
		binary.LittleEndian.Uint32(b) == headerCRC(b, seed)
}

// decodeEntry reads the framed entry at the front of b and its length n in bytes. The
// data is borrowed from b. Every error wraps ErrCorrupt.
func decodeEntry(b []byte, seed uint32) (e entry, n int, err error) {
	size, lead := binary.Uvarint(b)
	if lead <= 0 || lead != frameLen(size) || size < Headroom || size > Headroom+MaxData {
		return entry{}, 0, fmt.Errorf("%w: no frame", ErrCorrupt)
	}
	if uint64(len(b)-lead) < size {
		return entry{}, 0, fmt.Errorf("%w: %d bytes where %d belong", ErrCorrupt, len(b)-lead, size)
	}
	n = lead + int(size)
	b = b[lead:n]
	if !validHeader(b, seed) {
		return entry{}, 0, fmt.Errorf("%w: checksum of the header", ErrCorrupt)
	}
	data := b[Headroom:]
	if length := binary.LittleEndian.Uint32(b[24:]); uint64(length) != uint64(len(data)) {
		return entry{}, 0, fmt.Errorf("%w: length %d in a frame for %d", ErrCorrupt, length, len(data))
	}
	if want, got := binary.LittleEndian.Uint32(b[28:]), crc32.Checksum(data, castagnoli); got != want {
		return entry{}, 0, fmt.Errorf("%w: checksum of the data is %08x, want %08x", ErrCorrupt, got, want)
	}
	return entry{
		kind:    b[7],
		seq:     binary.LittleEndian.Uint64(b[8:]),
		durable: binary.LittleEndian.Uint64(b[16:]),
		data:    data,
	}, n, nil
}

// frameLen returns how many bytes the uvarint of size takes.
func frameLen(size uint64) int { return (bits.Len64(size|1) + 6) / 7 }
