package segment

import "encoding/binary"

const (
	// FileHeaderLen is the length of a segment's file header in bytes: where the
	// first record starts.
	FileHeaderLen = 32

	fileMagic   = 0x47455353 // "SSEG" as bytes
	fileVersion = 1
)

// FileHeader is the start of a segment file.
//
//	0     4       8         10     12   16      20            24          32
//	+-----+-------+---------+------+----+-------+-------------+-----------+
//	| crc | magic | version | zero | id | queue | extentBytes | partition |
//	+-----+-------+---------+------+----+-------+-------------+-----------+
//
//	crc          uint32  CRC-32C of every byte after this field
//	magic        uint32  fileMagic
//	version      uint16  1
//	zero         uint16  0
//	id           uint32  the segment's, at least 1; the file is named after it
//	queue        uint32  whose partitions it holds
//	extentBytes  uint32  where extents of this file are closed, so that its index
//	                     can be rebuilt as it was, whatever the option is by then
//	partition    uint64  the one it belongs to; 0: shared by those of the queue
//
// Integers are little-endian. testdata/file.golden pins the bytes.
type FileHeader struct {
	ID          uint32
	Queue       uint32
	ExtentBytes uint32
	Partition   uint64
}

// AppendFileHeader appends h to dst and returns the longer slice.
func AppendFileHeader(dst []byte, h FileHeader) []byte {
	le, start := binary.LittleEndian, len(dst)
	dst = le.AppendUint32(dst, 0)
	dst = le.AppendUint32(dst, fileMagic)
	dst = le.AppendUint16(dst, fileVersion)
	dst = le.AppendUint16(dst, 0)
	dst = le.AppendUint32(dst, h.ID)
	dst = le.AppendUint32(dst, h.Queue)
	dst = le.AppendUint32(dst, h.ExtentBytes)
	dst = le.AppendUint64(dst, h.Partition)
	le.PutUint32(dst[start:], Checksum(dst[start+4:]))
	return dst
}

// DecodeFileHeader reads the file header at the front of b. Errors: ErrShort,
// ErrCorrupt.
func DecodeFileHeader(b []byte) (FileHeader, error) {
	if len(b) < FileHeaderLen {
		return FileHeader{}, ErrShort
	}
	le := binary.LittleEndian
	if want, got := le.Uint32(b), Checksum(b[4:FileHeaderLen]); got != want {
		return FileHeader{}, corruptf("file header crc %08x, want %08x", got, want)
	}
	magic, version, zero := le.Uint32(b[4:]), le.Uint16(b[8:]), le.Uint16(b[10:])
	if magic != fileMagic || version != fileVersion || zero != 0 {
		return FileHeader{}, corruptf("file magic %08x, version %d", magic, version)
	}
	h := FileHeader{
		ID:          le.Uint32(b[12:]),
		Queue:       le.Uint32(b[16:]),
		ExtentBytes: le.Uint32(b[20:]),
		Partition:   le.Uint64(b[24:]),
	}
	if h.ID == 0 {
		return FileHeader{}, corruptf("segment id 0")
	}
	return h, nil
}
