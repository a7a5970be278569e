package trace

import (
	"encoding/binary"
	"errors"
	"hash/crc32"

	"github.com/cespare/xxhash/v2"
	"github.com/google/uuid"
)

// Trace is one note about a message. Append borrows its slices; those of a trace that was
// read are its own.
type Trace struct {
	ID            uuid.UUID
	Tenant        uuid.UUID
	PartitionID   uuid.UUID
	CreatedMs     int64
	TransactionID []byte
	Group         []byte
	Event         []byte
	Names         [][]byte // no two alike
	Data          []byte   // one JSON value
}

// A frame is
//
//	crc     uint32  CRC-32C of what follows
//	length  uint32  of the body
//	body    version 1, created as int64 in Unix milliseconds, id, tenant and partition with
//	        16 bytes each; transaction id, group and event; the number of names and the
//	        names; the rest is the data. Texts stand behind their length, which is a varint
//	        like the number.
//
// Integers are little-endian. testdata/trace.golden pins the bytes.
const (
	frameHeader = 8
	version     = 1
	fixedBody   = 1 + 8 + 3*16
	// maxBody bounds what a damaged length can ask for.
	maxBody = 4 << 20
)

// ErrTooLarge refuses a trace of more than 4 MiB.
var ErrTooLarge = errors.New("trace: too large")

var (
	errShort   = errors.New("trace: a frame ends early")
	errCorrupt = errors.New("trace: corrupt frame")
	castagnoli = crc32.MakeTable(crc32.Castagnoli)
)

// AppendTrace appends t as a frame.
func AppendTrace(dst []byte, t *Trace) []byte {
	start := len(dst)
	dst = append(dst, 0, 0, 0, 0, 0, 0, 0, 0, version)
	dst = binary.LittleEndian.AppendUint64(dst, uint64(t.CreatedMs))
	dst = append(dst, t.ID[:]...)
	dst = append(dst, t.Tenant[:]...)
	dst = append(dst, t.PartitionID[:]...)
	for _, text := range [...][]byte{t.TransactionID, t.Group, t.Event} {
		dst = appendText(dst, text)
	}
	dst = binary.AppendUvarint(dst, uint64(len(t.Names)))
	for _, name := range t.Names {
		dst = appendText(dst, name)
	}
	dst = append(dst, t.Data...)
	binary.LittleEndian.PutUint32(dst[start+4:], uint32(len(dst)-start-frameHeader))
	binary.LittleEndian.PutUint32(dst[start:], crc32.Checksum(dst[start+4:], castagnoli))
	return dst
}

func appendText(dst, text []byte) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(text))), text...)
}

// DecodeTrace reads the frame at the front of b, and its length. The trace shares the memory
// of b.
func DecodeTrace(b []byte) (t Trace, n int, err error) {
	if len(b) < frameHeader {
		return t, 0, errShort
	}
	length := binary.LittleEndian.Uint32(b[4:])
	if length < fixedBody || length > maxBody {
		return t, 0, errCorrupt
	}
	if n = frameHeader + int(length); len(b) < n {
		return t, 0, errShort
	}
	if crc32.Checksum(b[4:n], castagnoli) != binary.LittleEndian.Uint32(b) || b[frameHeader] != version {
		return t, 0, errCorrupt
	}
	body := b[frameHeader+1 : n : n]
	t.CreatedMs = int64(binary.LittleEndian.Uint64(body))
	copy(t.ID[:], body[8:])
	copy(t.Tenant[:], body[24:])
	copy(t.PartitionID[:], body[40:])
	var ok bool
	rest := body[56:]
	for _, text := range [...]*[]byte{&t.TransactionID, &t.Group, &t.Event} {
		if *text, rest, ok = cutText(rest); !ok {
			return Trace{}, 0, errCorrupt
		}
	}
	count, size := binary.Uvarint(rest)
	if size <= 0 || count > uint64(len(rest)) { // a name takes a byte at the least
		return Trace{}, 0, errCorrupt
	}
	rest = rest[size:]
	for range count {
		var name []byte
		if name, rest, ok = cutText(rest); !ok {
			return Trace{}, 0, errCorrupt
		}
		t.Names = append(t.Names, name)
	}
	t.Data = rest
	return t, n, nil
}

func cutText(b []byte) (text, rest []byte, ok bool) {
	length, size := binary.Uvarint(b)
	if size <= 0 || length > uint64(len(b)-size) {
		return nil, nil, false
	}
	end := size + int(length)
	return b[size:end:end], b[end:], true
}

// addressHash finds the traces of a message.
func addressHash(tenant, partition uuid.UUID, transactionID []byte) uint64 {
	var d xxhash.Digest
	d.Reset()
	_, _ = d.Write(tenant[:]) // none of them fails
	_, _ = d.Write(partition[:])
	_, _ = d.Write(transactionID)
	return d.Sum64()
}

// nameHash orders the names of all tenants.
func nameHash(tenant uuid.UUID, name string) uint64 {
	var d xxhash.Digest
	d.Reset()
	_, _ = d.Write(tenant[:])
	_, _ = d.WriteString(name)
	return d.Sum64()
}
