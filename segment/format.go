package segment

import (
	"encoding/binary"
	"hash/crc32"
)

const (
	// HeaderLen is the length of a batch header in bytes.
	HeaderLen = 64
	// MaxBodyLen bounds the body of a batch in bytes, stored and unpacked. It is
	// also the most that damaged bytes can ask a reader to allocate.
	MaxBodyLen = 1 << 30
	// MaxOffset is the largest offset: message ids have 40 bits for it.
	MaxOffset = 1<<40 - 1

	// Magic stands at byte 8 of every record of a segment, "SK" as bytes, and the
	// record's kind at byte 10.
	Magic = 0x4b53
	// KindBatch marks a batch. A changed format takes a new kind; kinds are never
	// reused. Those of the index are in package index.
	KindBatch = 1
)

// Codec says how the body of a batch is stored.
type Codec uint8

// The codecs. Their numbers are on disk.
const (
	CodecRaw  Codec = 0
	CodecS2   Codec = 1
	CodecZstd Codec = 2 // read, not yet written: for batches merged later
	CodecLost Codec = 3 // see AppendLost
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Checksum is the CRC-32C that guards every record of a segment.
func Checksum(b []byte) uint32 { return crc32.Checksum(b, castagnoli) }

// Header describes a batch: the messages of one append to one partition.
//
//	0           4         8       10     11      12        16       20
//	+-----------+---------+-------+------+-------+---------+--------+-------+
//	| headerCRC | bodyCRC | magic | kind | codec | bodyLen | rawLen | count |
//	+-----------+---------+-------+------+-------+---------+--------+-------+
//	24          32           40            48                               64
//	+-----------+------------+-------------+--------------------------------+
//	| partition | baseOffset | timestampMs | baseID                         |
//	+-----------+------------+-------------+--------------------------------+
//	| body: bodyLen bytes ...
//
//	headerCRC    uint32  CRC-32C of bytes 4 to 63
//	bodyCRC      uint32  CRC-32C of the body as stored
//	magic        uint16  Magic
//	kind         uint8   KindBatch
//	codec        uint8   0 raw, 1 s2, 2 zstd, 3 lost: the body is zeros, and rawLen 0
//	bodyLen      uint32  bytes stored, at most MaxBodyLen; less than rawLen if packed
//	rawLen       uint32  bytes unpacked, at most MaxBodyLen
//	count        uint32  messages, at least 1; message i has offset baseOffset+i
//	partition    uint64  0 until sealed
//	baseOffset   int64   of the first message; the last one's is at most MaxOffset
//	timestampMs  int64   when it was appended, Unix milliseconds; never decreases
//	                     within a partition
//	baseID       [16]    message i has the id MessageID(baseID, baseOffset+i)
//
// Integers are little-endian. testdata/batch.golden pins the bytes.
type Header struct {
	BodyCRC     uint32
	Codec       Codec
	BodyLen     uint32
	RawLen      uint32
	Count       uint32
	Partition   uint64
	BaseOffset  int64
	TimestampMs int64
	BaseID      [16]byte
}

// Len is the length of the whole batch in bytes, header included.
func (h *Header) Len() int { return HeaderLen + int(h.BodyLen) }

// EndOffset is one past the offset of the last message.
func (h *Header) EndOffset() int64 { return h.BaseOffset + int64(h.Count) }

// MessageID returns the id of the message at offset in a batch with this base id:
// its low 40 bits, the last five bytes, are the offset, so ids sort by offset.
func MessageID(baseID [16]byte, offset int64) [16]byte {
	baseID[11] = byte(offset >> 32)
	binary.BigEndian.PutUint32(baseID[12:], uint32(offset))
	return baseID
}

// AppendBatch appends the batch of raw, h.Count messages encoded by AppendMessage,
// to dst and returns the longer slice. It sets the lengths, codec and body checksum
// in h; the fields that Seal sets may be left zero. raw is not kept. It does not
// allocate once dst has room. A batch of no messages, or with more than MaxBodyLen
// bytes, is a bug of the caller: requests are bounded far below.
func AppendBatch(dst []byte, h *Header, raw []byte) []byte {
	if h.Count == 0 || len(raw) > MaxBodyLen {
		panic("BUG: segment: batch without messages or beyond MaxBodyLen")
	}
	start := len(dst)
	var blank [HeaderLen]byte
	dst = append(dst, blank[:]...)
	h.Codec = CodecRaw
	if len(raw) >= compressMin {
		dst, h.Codec = appendPacked(dst, raw)
	}
	if h.Codec == CodecRaw {
		dst = append(dst, raw...)
	}
	body := dst[start+HeaderLen:]
	h.BodyLen, h.RawLen, h.BodyCRC = uint32(len(body)), uint32(len(raw)), Checksum(body)
	putHeader(dst[start:], h)
	return dst
}

func putHeader(b []byte, h *Header) {
	le := binary.LittleEndian
	le.PutUint32(b[4:], h.BodyCRC)
	le.PutUint16(b[8:], Magic)
	b[10], b[11] = KindBatch, byte(h.Codec)
	le.PutUint32(b[12:], h.BodyLen)
	le.PutUint32(b[16:], h.RawLen)
	le.PutUint32(b[20:], h.Count)
	Seal(b, h.Partition, h.BaseOffset, h.TimestampMs, h.BaseID)
}

// AppendLost appends a batch that says that h.Count messages are lost: it stands where
// damaged ones did, so that everything around them stays where it is. It takes length
// bytes, of which the first HeaderLen say all. The fields of h that Seal sets must be set.
func AppendLost(dst []byte, h *Header, length int) []byte {
	if h.Count == 0 || length < HeaderLen || length-HeaderLen > MaxBodyLen {
		panic("BUG: segment: no room to say what is lost")
	}
	start := len(dst)
	dst = append(dst, make([]byte, length)...)
	h.Codec, h.BodyLen, h.RawLen, h.BodyCRC = CodecLost, uint32(length-HeaderLen), 0, Checksum(dst[start+HeaderLen:])
	putHeader(dst[start:], h)
	return dst
}

// Lost reports that a repair has marked the messages of the batch as lost.
func (h *Header) Lost() bool { return h.Codec == CodecLost }

// Seal writes into an encoded batch what is only known under the partition's lock,
// and its header checksum anew. It reads and writes the 64 bytes of the header and
// nothing else. The caller keeps baseOffset and count within MaxOffset.
func Seal(b []byte, partition uint64, baseOffset, timestampMs int64, baseID [16]byte) {
	le := binary.LittleEndian
	_ = b[HeaderLen-1]
	le.PutUint64(b[24:], partition)
	le.PutUint64(b[32:], uint64(baseOffset))
	le.PutUint64(b[40:], uint64(timestampMs))
	copy(b[48:HeaderLen], baseID[:])
	le.PutUint32(b, Checksum(b[4:HeaderLen]))
}

// DecodeHeader reads the header at the front of b and checks it: checksum, kind,
// and that lengths and offsets are such as AppendBatch and Seal write. The body is
// not looked at. Errors: ErrShort, ErrCorrupt.
func DecodeHeader(b []byte) (Header, error) {
	if len(b) < HeaderLen {
		return Header{}, ErrShort
	}
	le := binary.LittleEndian
	if want, got := le.Uint32(b), Checksum(b[4:HeaderLen]); got != want {
		return Header{}, corruptf("header crc %08x, want %08x", got, want)
	}
	if magic := le.Uint16(b[8:]); magic != Magic || b[10] != KindBatch {
		return Header{}, corruptf("magic %04x, kind %d", magic, b[10])
	}
	h := Header{
		BodyCRC:     le.Uint32(b[4:]),
		Codec:       Codec(b[11]),
		BodyLen:     le.Uint32(b[12:]),
		RawLen:      le.Uint32(b[16:]),
		Count:       le.Uint32(b[20:]),
		Partition:   le.Uint64(b[24:]),
		BaseOffset:  int64(le.Uint64(b[32:])),
		TimestampMs: int64(le.Uint64(b[40:])),
		BaseID:      [16]byte(b[48:HeaderLen]),
	}
	return h, h.check()
}

// check reports a header that no writer makes, whatever its checksum says.
func (h *Header) check() error {
	packed := h.Codec != CodecRaw
	switch {
	case h.Codec > CodecLost:
		return corruptf("codec %d", h.Codec)
	case h.Lost():
		if h.RawLen != 0 || h.BodyLen > MaxBodyLen || h.Count == 0 {
			return corruptf("%d lost messages, %d bytes of them", h.Count, h.RawLen)
		}
	case h.RawLen > MaxBodyLen || packed && h.BodyLen >= h.RawLen || !packed && h.BodyLen != h.RawLen:
		return corruptf("body of %d bytes for %d", h.BodyLen, h.RawLen)
	case h.Count == 0 || uint64(h.Count)*minMessageLen > uint64(h.RawLen):
		return corruptf("%d messages in %d bytes", h.Count, h.RawLen)
	}
	switch {
	case h.BaseOffset < 0 || h.BaseOffset > MaxOffset || h.EndOffset()-1 > MaxOffset:
		return corruptf("offset %d, %d messages", h.BaseOffset, h.Count)
	}
	return nil
}

// Verify reads the header at the front of b and checks it and the body behind it.
// b may be longer than the batch. Errors: ErrShort, ErrCorrupt.
func Verify(b []byte) (Header, error) {
	h, err := DecodeHeader(b)
	if err != nil {
		return Header{}, err
	}
	if len(b) < h.Len() {
		return Header{}, ErrShort
	}
	if got := Checksum(b[HeaderLen:h.Len()]); got != h.BodyCRC {
		return Header{}, corruptf("body crc %08x, want %08x", got, h.BodyCRC)
	}
	return h, nil
}
