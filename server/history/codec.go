package history

import (
	"encoding/binary"
	"errors"
	"hash/crc32"

	"github.com/google/uuid"

	"github.com/skepmq/skep/broker"
)

// Process is the state of the process at the end of a minute.
type Process struct {
	RSS, Virtual         int64 // bytes
	UserNs, SystemNs     int64 // of processor time in the minute
	UptimeMs             int64
	SchedLagUs           int64 // mean wait for a processor
	SyncUs               int64 // of the journal: what 99 of 100 do not exceed
	StoreBytes, Segments int64
}

// Queue is a minute of a queue with traffic, or with pops that wait.
type Queue struct {
	ID         uuid.UUID
	Name       string
	Namespace  string
	Task       string
	Partitions int64
	Parked     int64
	MaxLagMs   int64
	Traffic    broker.Traffic // of the minute
}

// Minute is what one frame holds.
type Minute struct {
	StartMs, LengthMs int64
	Totals            broker.Traffic // since the directory was made
	Traffic           broker.Traffic // of the minute, of all queues
	Process           Process
	Queues            []Queue
}

// A frame is
//
//	crc     uint32  CRC-32C of what follows
//	length  uint32  of the body
//	body    version 1, then zigzag varints in the order of the fields of Minute. Counters,
//	        and the values of Process, stand behind their number: later versions have more.
//	        Texts stand behind their length in bytes, ids are 16 bytes.
//
// Integers are little-endian. testdata pins the bytes.
const (
	frameHeader = 8
	frameStart  = frameHeader + 1 // where StartMs stands
	version     = 1
	maxFrame    = 1 << 30
)

var (
	errShort   = errors.New("history: a frame ends early")
	errCorrupt = errors.New("history: corrupt frame")
	castagnoli = crc32.MakeTable(crc32.Castagnoli)
)

func (p *Process) values() [9]*int64 {
	return [...]*int64{
		&p.RSS, &p.Virtual, &p.UserNs, &p.SystemNs, &p.UptimeMs, &p.SchedLagUs, &p.SyncUs,
		&p.StoreBytes, &p.Segments,
	}
}

// AppendMinute appends m as a frame.
func AppendMinute(dst []byte, m *Minute) []byte {
	start := len(dst)
	dst = append(dst, 0, 0, 0, 0, 0, 0, 0, 0, version)
	dst = binary.AppendVarint(dst, m.StartMs)
	dst = binary.AppendVarint(dst, m.LengthMs)
	dst = appendTraffic(dst, &m.Totals)
	dst = appendTraffic(dst, &m.Traffic)
	values := m.Process.values()
	dst = binary.AppendVarint(dst, int64(len(values)))
	for _, v := range values {
		dst = binary.AppendVarint(dst, *v)
	}
	dst = binary.AppendVarint(dst, int64(len(m.Queues)))
	for i := range m.Queues {
		q := &m.Queues[i]
		dst = append(dst, q.ID[:]...)
		for _, text := range [...]string{q.Name, q.Namespace, q.Task} {
			dst = binary.AppendVarint(dst, int64(len(text)))
			dst = append(dst, text...)
		}
		for _, v := range [...]int64{q.Partitions, q.Parked, q.MaxLagMs} {
			dst = binary.AppendVarint(dst, v)
		}
		dst = appendTraffic(dst, &q.Traffic)
	}
	binary.LittleEndian.PutUint32(dst[start+4:], uint32(len(dst)-start-frameHeader))
	binary.LittleEndian.PutUint32(dst[start:], crc32.Checksum(dst[start+4:], castagnoli))
	return dst
}

func appendTraffic(dst []byte, t *broker.Traffic) []byte {
	dst = binary.AppendVarint(dst, int64(len(t)))
	for _, v := range t {
		dst = binary.AppendVarint(dst, v)
	}
	return dst
}

// DecodeMinute reads the frame at the front of b, and its length. A counter that this version
// does not know is passed over.
func DecodeMinute(b []byte) (m Minute, n int, err error) {
	var d decoder
	if n, err = d.minute(b, &m); err != nil {
		return Minute{}, 0, err
	}
	return m, n, nil
}

// minute reads a frame into m, of which it uses the room for queues again.
func (d *decoder) minute(b []byte, m *Minute) (n int, err error) {
	*m = Minute{Queues: m.Queues[:0]}
	if len(b) < frameHeader {
		return 0, errShort
	}
	length := binary.LittleEndian.Uint32(b[4:])
	if length > maxFrame {
		return 0, errCorrupt
	}
	if n = frameHeader + int(length); len(b) < n {
		return 0, errShort
	}
	if crc32.Checksum(b[4:n], castagnoli) != binary.LittleEndian.Uint32(b) {
		return 0, errCorrupt
	}
	d.b, d.bad = b[frameHeader:n], false
	if d.bytes(1); d.bad || b[frameHeader] != version {
		return 0, errCorrupt
	}
	m.StartMs, m.LengthMs = d.varint(), d.varint()
	d.traffic(&m.Totals)
	d.traffic(&m.Traffic)
	values := m.Process.values()
	for i := range d.count(1) {
		if v := d.varint(); i < len(values) {
			*values[i] = v
		}
	}
	for range d.count(16) {
		var was Queue // in this place, in the minute before
		if n := len(m.Queues); n < cap(m.Queues) {
			was = m.Queues[:n+1][n]
		}
		m.Queues = append(m.Queues, Queue{})
		q := &m.Queues[len(m.Queues)-1]
		copy(q.ID[:], d.bytes(16))
		q.Name, q.Namespace, q.Task = d.text(was.Name), d.text(was.Namespace), d.text(was.Task)
		q.Partitions, q.Parked, q.MaxLagMs = d.varint(), d.varint(), d.varint()
		d.traffic(&q.Traffic)
	}
	if d.bad || len(d.b) > 0 {
		return 0, errCorrupt
	}
	return n, nil
}

// decoder reads until something is wrong, and then only zeros.
type decoder struct {
	b   []byte
	bad bool
}

func (d *decoder) varint() int64 {
	if len(d.b) > 0 && d.b[0] < 0x80 { // most are
		v := int64(d.b[0]>>1) ^ -int64(d.b[0]&1)
		d.b = d.b[1:]
		return v
	}
	v, n := binary.Varint(d.b)
	if n <= 0 {
		d.b, d.bad = nil, true
		return 0
	}
	d.b = d.b[n:]
	return v
}

// count reads how many elements follow, of at least size bytes each.
func (d *decoder) count(size int) int {
	n := d.varint()
	if n < 0 || n > int64(len(d.b)/size) {
		d.b, d.bad = nil, true
		return 0
	}
	return int(n)
}

func (d *decoder) bytes(n int) []byte {
	if n > len(d.b) {
		d.b, d.bad = nil, true
		return nil
	}
	taken := d.b[:n]
	d.b = d.b[n:]
	return taken
}

// text reads a text. It is last, if that is equal: minutes name the same queues over and over.
func (d *decoder) text(last string) string {
	b := d.bytes(d.count(1))
	if string(b) == last {
		return last
	}
	return string(b)
}

func (d *decoder) traffic(t *broker.Traffic) {
	for i := range d.count(1) {
		if v := d.varint(); i < len(t) {
			t[i] = v
		}
	}
}
