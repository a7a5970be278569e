package record

import (
	"encoding/json"
	"fmt"
)

// Cursor is the whole state of one consumer group in one partition.
//
//	0           8       12     20          28
//	+-----------+-------+------+-----------+-----------+
//	| partition | group | attempt, retries | committed | ...
//	+-----------+-------+------+-----------+-----------+
//	  attemptStart i64, leaseID [16], leaseFrom i64, leaseEnd i64, expiry i64,
//	  consumed u64, consumedMs i64
//
// A zero leaseID means no leased batch; the lease fields are zero then.
type Cursor struct {
	Partition    uint64
	Group        uint32
	Attempt      uint32 // deliveries of the batch that starts at AttemptStart
	Retries      uint32 // explicit failures counted against the retry limit
	Committed    int64  // last acknowledged offset, -1 for none
	AttemptStart int64  // first offset of the latest leased batch, -1 for none
	LeaseID      [16]byte
	LeaseFrom    int64 // first offset handed out under the lease
	LeaseEnd     int64 // last offset handed out under the lease
	ExpiryMs     int64 // Unix milliseconds by the wall clock
	Consumed     int64 // messages that acknowledgements have passed
	ConsumedMs   int64 // when the latest of them did, 0 for never
}

// AppendCursor appends c as a frame.
func AppendCursor(dst []byte, c *Cursor) []byte {
	start := len(dst)
	dst = BeginFrame(dst, KindCursor)
	dst = appendU64(dst, c.Partition)
	dst = appendU32(dst, c.Group)
	dst = appendU32(dst, c.Attempt)
	dst = appendU32(dst, c.Retries)
	dst = appendI64(dst, c.Committed)
	dst = appendI64(dst, c.AttemptStart)
	dst = append(dst, c.LeaseID[:]...)
	dst = appendI64(dst, c.LeaseFrom)
	dst = appendI64(dst, c.LeaseEnd)
	dst = appendI64(dst, c.ExpiryMs)
	dst = appendI64(dst, c.Consumed)
	dst = appendI64(dst, c.ConsumedMs)
	return EndFrame(dst, start)
}

// DecodeCursor decodes the body of a KindCursor frame.
func DecodeCursor(body []byte) (Cursor, error) {
	f := fields{b: body}
	c := Cursor{
		Partition: f.u64(), Group: f.u32(), Attempt: f.u32(), Retries: f.u32(),
		Committed: f.i64(), AttemptStart: f.i64(),
		LeaseID: f.id(), LeaseFrom: f.i64(), LeaseEnd: f.i64(), ExpiryMs: f.i64(),
		Consumed: f.i64(), ConsumedMs: f.i64(),
	}
	return c, f.end("cursor")
}

// Queue is a queue and its configuration. Options is the JSON of the broker's options
// struct: it changes rarely, and a field added later must not need a new kind.
type Queue struct {
	Number    uint32
	Tenant    [16]byte
	ID        [16]byte
	CreatedMs int64
	Name      string
	Options   json.RawMessage
}

// AppendQueue appends q as a frame: number u32, tenant, id, created i64, name, options.
func AppendQueue(dst []byte, q *Queue) []byte {
	start := len(dst)
	dst = BeginFrame(dst, KindQueue)
	dst = appendU32(dst, q.Number)
	dst = append(dst, q.Tenant[:]...)
	dst = append(dst, q.ID[:]...)
	dst = appendI64(dst, q.CreatedMs)
	dst = appendString(dst, q.Name)
	dst = appendString(dst, string(q.Options))
	return EndFrame(dst, start)
}

// DecodeQueue decodes the body of a KindQueue frame.
func DecodeQueue(body []byte) (Queue, error) {
	f := fields{b: body}
	q := Queue{Number: f.u32(), Tenant: f.id(), ID: f.id(), CreatedMs: f.i64(), Name: f.str()}
	q.Options = json.RawMessage(f.str())
	return q, f.end("queue")
}

// AppendQueueDeleted appends a frame: number u32. Everything of the queue goes.
func AppendQueueDeleted(dst []byte, number uint32) []byte {
	start := len(dst)
	dst = appendU32(BeginFrame(dst, KindQueueDeleted), number)
	return EndFrame(dst, start)
}

// DecodeQueueDeleted decodes the body of a KindQueueDeleted frame.
func DecodeQueueDeleted(body []byte) (number uint32, err error) {
	f := fields{b: body}
	number = f.u32()
	return number, f.end("queue deleted")
}

// Partition is a partition of a queue. A hidden one holds dead letters and is no
// partition to the outside.
type Partition struct {
	Number    uint64
	Queue     uint32
	Hidden    bool
	CreatedMs int64
	Name      string
}

// AppendPartition appends p as a frame: number u64, queue u32, hidden u8, created i64, name.
func AppendPartition(dst []byte, p *Partition) []byte {
	start := len(dst)
	dst = BeginFrame(dst, KindPartition)
	dst = appendU64(dst, p.Number)
	dst = appendU32(dst, p.Queue)
	dst = append(dst, flagByte(p.Hidden))
	dst = appendI64(dst, p.CreatedMs)
	dst = appendString(dst, p.Name)
	return EndFrame(dst, start)
}

// DecodePartition decodes the body of a KindPartition frame.
func DecodePartition(body []byte) (Partition, error) {
	f := fields{b: body}
	p := Partition{Number: f.u64(), Queue: f.u32(), Hidden: f.u8() != 0, CreatedMs: f.i64(), Name: f.str()}
	return p, f.end("partition")
}

// AppendPartitionDeleted appends a frame: number u64. Its cursors go with it.
func AppendPartitionDeleted(dst []byte, number uint64) []byte {
	start := len(dst)
	dst = appendU64(BeginFrame(dst, KindPartitionDeleted), number)
	return EndFrame(dst, start)
}

// DecodePartitionDeleted decodes the body of a KindPartitionDeleted frame.
func DecodePartitionDeleted(body []byte) (number uint64, err error) {
	f := fields{b: body}
	number = f.u64()
	return number, f.end("partition deleted")
}

// Switches are the states of the broker that an operator turns on and off.
type Switches struct {
	PushMaintenance bool // pushes go to the spool
	PopMaintenance  bool // pops are answered empty
}

// AppendSwitches appends s as a frame: two bytes, in the order of the struct.
func AppendSwitches(dst []byte, s *Switches) []byte {
	start := len(dst)
	dst = append(BeginFrame(dst, KindSwitches), flagByte(s.PushMaintenance), flagByte(s.PopMaintenance))
	return EndFrame(dst, start)
}

// DecodeSwitches decodes the body of a KindSwitches frame.
func DecodeSwitches(body []byte) (Switches, error) {
	f := fields{b: body}
	s := Switches{PushMaintenance: f.u8() != 0, PopMaintenance: f.u8() != 0}
	return s, f.end("switches")
}

// Group is a consumer group of a queue: its subscription if it has registered, and where
// a seek has placed it. A number is never used again, so a seek of the whole queue is a
// new group of the same name, and the cursors of the old one mean nothing any more.
type Group struct {
	Number     uint32
	Queue      uint32
	Registered bool
	Conflation bool
	Mode       uint8 // as package broker numbers them
	InstantMs  int64 // where the group starts in a partition it has not touched
	// In partitions numbered below PlacedBelow the group starts here instead.
	PlacedBelow uint64
	PlacedMode  uint8
	PlacedMs    int64
	CreatedMs   int64
	Name        string
	// Consumed says that the group had acknowledged something before a seek has made it
	// start over.
	Consumed bool
}

// Bits of what stands in a group's frame for Registered.
const (
	groupRegistered = 1 << iota
	groupConsumed
)

// AppendGroup appends g as a frame, the fields in the order of the struct. Consumed is a
// bit in the byte of Registered.
func AppendGroup(dst []byte, g *Group) []byte {
	start := len(dst)
	dst = BeginFrame(dst, KindGroup)
	dst = appendU32(dst, g.Number)
	dst = appendU32(dst, g.Queue)
	dst = append(dst, flagByte(g.Registered)*groupRegistered|flagByte(g.Consumed)*groupConsumed, flagByte(g.Conflation), g.Mode)
	dst = appendI64(dst, g.InstantMs)
	dst = appendU64(dst, g.PlacedBelow)
	dst = append(dst, g.PlacedMode)
	dst = appendI64(dst, g.PlacedMs)
	dst = appendI64(dst, g.CreatedMs)
	dst = appendString(dst, g.Name)
	return EndFrame(dst, start)
}

// DecodeGroup decodes the body of a KindGroup frame.
func DecodeGroup(body []byte) (Group, error) {
	f := fields{b: body}
	number, queue, flags := f.u32(), f.u32(), f.u8()
	g := Group{
		Number: number, Queue: queue, Registered: flags&groupRegistered != 0, Consumed: flags&groupConsumed != 0, Conflation: f.u8() != 0, Mode: f.u8(),
		InstantMs: f.i64(), PlacedBelow: f.u64(), PlacedMode: f.u8(), PlacedMs: f.i64(),
		CreatedMs: f.i64(), Name: f.str(),
	}
	return g, f.end("group")
}

// AppendGroupDeleted appends a frame: number u32. The group's cursors go with it.
func AppendGroupDeleted(dst []byte, number uint32) []byte {
	start := len(dst)
	dst = appendU32(BeginFrame(dst, KindGroupDeleted), number)
	return EndFrame(dst, start)
}

// DecodeGroupDeleted decodes the body of a KindGroupDeleted frame.
func DecodeGroupDeleted(body []byte) (number uint32, err error) {
	f := fields{b: body}
	number = f.u32()
	return number, f.end("group deleted")
}

// DeadLetter is what the broker keeps in memory of a dead letter. The payload is a
// message of the queue's hidden partition, at Offset.
type DeadLetter struct {
	ID            [16]byte
	Queue         uint32
	Partition     uint64
	Group         uint32
	Retries       uint32
	Offset        int64
	MessageID     [16]byte
	CreatedMs     int64 // append time of the message
	FailedMs      int64
	TransactionID string
	Error         string
	GroupName     string // the group may be gone when the dead letter is looked at
}

// AppendDeadLetter appends d as a frame, the fields in the order of the struct.
func AppendDeadLetter(dst []byte, d *DeadLetter) []byte {
	start := len(dst)
	dst = BeginFrame(dst, KindDeadLetter)
	dst = append(dst, d.ID[:]...)
	dst = appendU32(dst, d.Queue)
	dst = appendU64(dst, d.Partition)
	dst = appendU32(dst, d.Group)
	dst = appendU32(dst, d.Retries)
	dst = appendI64(dst, d.Offset)
	dst = append(dst, d.MessageID[:]...)
	dst = appendI64(dst, d.CreatedMs)
	dst = appendI64(dst, d.FailedMs)
	dst = appendString(dst, d.TransactionID)
	dst = appendString(dst, d.Error)
	dst = appendString(dst, d.GroupName)
	return EndFrame(dst, start)
}

// DecodeDeadLetter decodes the body of a KindDeadLetter frame.
func DecodeDeadLetter(body []byte) (DeadLetter, error) {
	f := fields{b: body}
	d := DeadLetter{
		ID: f.id(), Queue: f.u32(), Partition: f.u64(), Group: f.u32(), Retries: f.u32(),
		Offset: f.i64(), MessageID: f.id(), CreatedMs: f.i64(), FailedMs: f.i64(),
		TransactionID: f.str(), Error: f.str(), GroupName: f.str(),
	}
	return d, f.end("dead letter")
}

// AppendDeadLetterRemoved appends a frame: queue u32, id.
func AppendDeadLetterRemoved(dst []byte, queue uint32, id [16]byte) []byte {
	start := len(dst)
	dst = appendU32(BeginFrame(dst, KindDeadLetterRemoved), queue)
	dst = append(dst, id[:]...)
	return EndFrame(dst, start)
}

// DecodeDeadLetterRemoved decodes the body of a KindDeadLetterRemoved frame.
func DecodeDeadLetterRemoved(body []byte) (queue uint32, id [16]byte, err error) {
	f := fields{b: body}
	queue, id = f.u32(), f.id()
	return queue, id, f.end("dead letter removed")
}

// Filed says how far segments hold a partition.
type Filed struct {
	Partition       uint64
	Start           int64 // first kept offset
	End             int64 // one past the last offset that segments hold
	StartMs         int64 // append time of Start
	LastTimestampMs int64
	Bytes           int64  // stored bytes of Start to End
	Segment         uint32 // newest extent: its segment, 0 for none
	Position        uint32 // and the place of its index entry there
}

// AppendFiled appends d as a frame, the fields in the order of the struct.
func AppendFiled(dst []byte, d *Filed) []byte {
	start := len(dst)
	dst = BeginFrame(dst, KindFiled)
	dst = appendU64(dst, d.Partition)
	dst = appendI64(dst, d.Start)
	dst = appendI64(dst, d.End)
	dst = appendI64(dst, d.StartMs)
	dst = appendI64(dst, d.LastTimestampMs)
	dst = appendI64(dst, d.Bytes)
	dst = appendU32(dst, d.Segment)
	dst = appendU32(dst, d.Position)
	return EndFrame(dst, start)
}

// DecodeFiled decodes the body of a KindFiled frame.
func DecodeFiled(body []byte) (Filed, error) {
	f := fields{b: body}
	d := Filed{
		Partition: f.u64(), Start: f.i64(), End: f.i64(),
		StartMs: f.i64(), LastTimestampMs: f.i64(),
		Bytes: f.i64(), Segment: f.u32(), Position: f.u32(),
	}
	return d, f.end("filed")
}

// Segment is a segment file and how much of it counts.
type Segment struct {
	ID        uint32
	Queue     uint32
	Partition uint64 // 0: shared by the partitions of the queue
	Length    int64
	Sealed    bool
}

// AppendSegment appends s as a frame, the fields in the order of the struct.
func AppendSegment(dst []byte, s *Segment) []byte {
	start := len(dst)
	dst = BeginFrame(dst, KindSegment)
	dst = appendU32(dst, s.ID)
	dst = appendU32(dst, s.Queue)
	dst = appendU64(dst, s.Partition)
	dst = appendI64(dst, s.Length)
	dst = append(dst, flagByte(s.Sealed))
	return EndFrame(dst, start)
}

// DecodeSegment decodes the body of a KindSegment frame.
func DecodeSegment(body []byte) (Segment, error) {
	f := fields{b: body}
	s := Segment{ID: f.u32(), Queue: f.u32(), Partition: f.u64(), Length: f.i64(), Sealed: f.u8() != 0}
	return s, f.end("segment")
}

// Meta identifies a data directory and holds its counters, so that a number is never
// given out twice, also when what bore it is gone.
type Meta struct {
	Directory     uint64 // random, chosen when the directory was made
	NextQueue     uint32
	NextGroup     uint32
	NextPartition uint64
	NextSegment   uint32
	Generation    uint64 // journal generations up to this one are filed
}

// AppendMeta appends m as a frame, the fields in the order of the struct.
func AppendMeta(dst []byte, m *Meta) []byte {
	start := len(dst)
	dst = BeginFrame(dst, KindMeta)
	dst = appendU64(dst, m.Directory)
	dst = appendU32(dst, m.NextQueue)
	dst = appendU32(dst, m.NextGroup)
	dst = appendU64(dst, m.NextPartition)
	dst = appendU32(dst, m.NextSegment)
	dst = appendU64(dst, m.Generation)
	return EndFrame(dst, start)
}

// DecodeMeta decodes the body of a KindMeta frame.
func DecodeMeta(body []byte) (Meta, error) {
	f := fields{b: body}
	m := Meta{
		Directory: f.u64(), NextQueue: f.u32(), NextGroup: f.u32(),
		NextPartition: f.u64(), NextSegment: f.u32(), Generation: f.u64(),
	}
	if err := f.end("meta"); err != nil {
		return m, err
	}
	if m.Directory == 0 {
		return m, fmt.Errorf("meta: %w: no directory id", ErrCorrupt)
	}
	return m, nil
}

func flagByte(v bool) byte {
	if v {
		return 1
	}
	return 0
}
