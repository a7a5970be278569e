package record

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// Kind says what a frame holds.
type Kind uint8

// The kinds. Numbers are part of the format.
const (
	KindBatch             Kind = 1  // a batch of messages, as package segment encodes it
	KindCursor            Kind = 2  // Cursor
	KindQueue             Kind = 3  // Queue
	KindQueueDeleted      Kind = 4  // QueueDeleted
	KindPartition         Kind = 5  // Partition
	KindGroup             Kind = 6  // Group
	KindDeadLetter        Kind = 7  // DeadLetter
	KindDeadLetterRemoved Kind = 8  // DeadLetterRemoved
	KindFiled             Kind = 9  // Filed; in the catalogue only
	KindSegment           Kind = 10 // Segment; in the catalogue only
	KindMeta              Kind = 11 // Meta; in the catalogue only
	KindGroupDeleted      Kind = 12 // GroupDeleted
	KindPartitionDeleted  Kind = 13 // PartitionDeleted
	KindSwitches          Kind = 14 // Switches
	KindSegmentDropped    Kind = 15 // SegmentDropped; in the catalogue only
	KindCut               Kind = 16 // Cut; in the journal only, Filed says it in the catalogue
	KindRewritten         Kind = 17 // Rewritten; in the catalogue only, in place of Segment
)

// FrameHeaderLen is the length of a frame's kind and length fields.
const FrameHeaderLen = 5

var (
	// ErrShort says that a frame or a body ends past the buffer. Entries are whole
	// by their checksum, so it means a bug or a foreign file, never a torn tail.
	ErrShort = errors.New("record: ends past the buffer")
	// ErrCorrupt says that a body is there but cannot be what was encoded.
	ErrCorrupt = errors.New("record: corrupt body")
)

// BeginFrame appends the header of a frame whose body the caller appends next, and
// EndFrame completes it.
//
//	0      1        5
//	+------+--------+-- ... --+
//	| kind | length | body    |
//	+------+--------+-- ... --+
func BeginFrame(dst []byte, k Kind) []byte {
	return append(dst, byte(k), 0, 0, 0, 0)
}

// EndFrame sets the length of the frame that BeginFrame began at dst[start].
func EndFrame(dst []byte, start int) []byte {
	binary.LittleEndian.PutUint32(dst[start+1:], uint32(len(dst)-start-FrameHeaderLen))
	return dst
}

// NextFrame splits the first frame off b. body aliases b.
func NextFrame(b []byte) (k Kind, body, rest []byte, err error) {
	if len(b) < FrameHeaderLen {
		return 0, nil, nil, fmt.Errorf("%w: frame header in %d bytes", ErrShort, len(b))
	}
	n := int(binary.LittleEndian.Uint32(b[1:]))
	if n > len(b)-FrameHeaderLen {
		return 0, nil, nil, fmt.Errorf("%w: frame of %d bytes in %d", ErrShort, n, len(b)-FrameHeaderLen)
	}
	end := FrameHeaderLen + n
	return Kind(b[0]), b[FrameHeaderLen:end:end], b[end:], nil
}

// fields reads a body front to back; the first missing byte sets err, and every later
// read gives zero, so a decoder checks once at its end.
type fields struct {
	b   []byte
	err error
}

func (f *fields) take(n int) []byte {
	if f.err != nil || n > len(f.b) {
		if f.err == nil {
			f.err = fmt.Errorf("%w: %d bytes wanted, %d left", ErrShort, n, len(f.b))
		}
		return nil
	}
	v := f.b[:n]
	f.b = f.b[n:]
	return v
}

func (f *fields) u8() byte {
	if v := f.take(1); v != nil {
		return v[0]
	}
	return 0
}

func (f *fields) u32() uint32 {
	if v := f.take(4); v != nil {
		return binary.LittleEndian.Uint32(v)
	}
	return 0
}

func (f *fields) u64() uint64 {
	if v := f.take(8); v != nil {
		return binary.LittleEndian.Uint64(v)
	}
	return 0
}

func (f *fields) i64() int64 { return int64(f.u64()) }

func (f *fields) id() (id [16]byte) {
	copy(id[:], f.take(16))
	return id
}

func (f *fields) str() string {
	if f.err != nil {
		return ""
	}
	n, w := binary.Uvarint(f.b)
	if w <= 0 || n > uint64(len(f.b)-w) {
		f.err = fmt.Errorf("%w: string length", ErrShort)
		return ""
	}
	f.b = f.b[w:]
	return string(f.take(int(n)))
}

func (f *fields) end(what string) error {
	if f.err != nil {
		return fmt.Errorf("%s: %w", what, f.err)
	}
	if len(f.b) != 0 {
		return fmt.Errorf("%s: %w: %d bytes behind the last field", what, ErrCorrupt, len(f.b))
	}
	return nil
}

func appendString(dst []byte, s string) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(s)))
	return append(dst, s...)
}

func appendU32(dst []byte, v uint32) []byte { return binary.LittleEndian.AppendUint32(dst, v) }
func appendU64(dst []byte, v uint64) []byte { return binary.LittleEndian.AppendUint64(dst, v) }
func appendI64(dst []byte, v int64) []byte  { return appendU64(dst, uint64(v)) }
