package fsck

import (
	"fmt"

	"github.com/skepmq/skep/index"
	"github.com/skepmq/skep/log/record"
	"github.com/skepmq/skep/segment"
)

// state is what the logs say, folded as a broker's start does it.
type state struct {
	meta       record.Meta
	queues     map[uint32]*queue
	partitions map[uint64]*partition
	groups     map[uint32]*group
	segments   map[uint32]record.Segment
	replaces   map[uint32][]uint32 // by rewritten segment: those that are gone for it
	cursors    map[cursorKey]record.Cursor
	gaps       map[uint64]int64 // partitions whose next batch is missing, to be excused by a deletion
	gone       map[uint64]bool  // partitions that were deleted, or their queues
	goneQueues map[uint32]bool
	lostQueues map[uint32]string // a partition of each queue that is unknown, to be excused by its deletion
	stray      string            // a batch of an unknown partition, to be excused by any deletion; "": none
	scratch    []byte
}

type queue struct {
	name       string
	partitions []uint64
	hidden     uint64 // partition of the dead letters' payloads; 0: none
	letters    map[[16]byte]record.DeadLetter
}

type group struct {
	queue uint32
	name  string
}

// partition is a partition and how far segments and journal hold it.
type partition struct {
	record.Partition
	start, filedEnd, end int64
	filedMs, lastMs      int64
	newest               index.Pointer
	filed                record.Filed     // as the catalogue has it
	payloads             map[int64]string // of a hidden one, in the journal: transaction ids by offset
	damaged              bool             // something of it is not as it should be
}

type cursorKey struct {
	partition uint64
	group     uint32
}

func newState() *state {
	return &state{
		queues: map[uint32]*queue{}, partitions: map[uint64]*partition{}, groups: map[uint32]*group{},
		segments: map[uint32]record.Segment{}, replaces: map[uint32][]uint32{}, cursors: map[cursorKey]record.Cursor{},
		gaps: map[uint64]int64{}, gone: map[uint64]bool{}, goneQueues: map[uint32]bool{}, lostQueues: map[uint32]string{},
	}
}

// load folds a frame of the catalogue.
func (s *state) load(k record.Kind, body []byte) (err error) {
	switch k {
	case record.KindMeta:
		s.meta, err = record.DecodeMeta(body)
		return err
	case record.KindSegment:
		d, err := record.DecodeSegment(body)
		s.segments[d.ID] = d
		return err
	case record.KindRewritten:
		d, err := record.DecodeRewritten(body)
		if err == nil {
			s.setRewritten(&d)
		}
		return err
	case record.KindSegmentDropped:
		id, err := record.DecodeSegmentDropped(body)
		s.dropSegment(id)
		return err
	case record.KindFiled:
		d, err := record.DecodeFiled(body)
		if p := s.partitions[d.Partition]; p != nil && err == nil {
			p.start, p.filedEnd, p.end = d.Start, d.End, d.End
			p.filedMs, p.lastMs = d.LastTimestampMs, d.LastTimestampMs
			p.newest, p.filed = index.Pointer{Segment: d.Segment, Position: d.Position}, d
		}
		return err
	}
	return s.apply(k, body)
}

// replay folds an entry of the journal.
func (s *state) replay(frames []byte) error {
	for len(frames) > 0 {
		k, body, rest, err := record.NextFrame(frames)
		if err != nil {
			return err
		}
		switch k {
		case record.KindBatch:
			err = s.replayBatch(body)
		case record.KindCut:
			var c record.Cut
			c, err = record.DecodeCut(body)
			if p := s.partitions[c.Partition]; p != nil && err == nil && c.Start > p.start && c.Start <= p.end {
				p.start = c.Start
			}
		case record.KindCursor:
			var c record.Cursor
			c, err = record.DecodeCursor(body)
			s.setCursor(c)
		default:
			err = s.apply(k, body)
		}
		if err != nil {
			return err
		}
		frames = rest
	}
	return nil
}

func (s *state) replayBatch(batch []byte) error {
	h, err := segment.Verify(batch)
	if err != nil {
		return err
	}
	p := s.partitions[h.Partition]
	switch {
	case p == nil && h.Partition >= s.meta.NextPartition && !s.gone[h.Partition]:
		return fmt.Errorf("%w: batch of partition %d, which no record made", record.ErrCorrupt, h.Partition)
	case p == nil:
		if s.stray == "" && !s.gone[h.Partition] {
			s.stray = fmt.Sprintf("a batch at offset %d of partition %d", h.BaseOffset, h.Partition)
		}
		return nil
	case h.EndOffset() <= p.filedEnd:
		return nil
	case h.BaseOffset != p.end:
		if _, known := s.gaps[p.Number]; !known {
			s.gaps[p.Number] = h.BaseOffset
		}
		return nil
	case h.TimestampMs < p.lastMs:
		return fmt.Errorf("%w: batch of partition %d at %d ms, behind one at %d ms", record.ErrCorrupt, h.Partition, h.TimestampMs, p.lastMs)
	}
	p.end, p.lastMs = h.EndOffset(), h.TimestampMs
	return s.messages(&h, batch, func(offset int64, m *segment.Message) {
		if p.Hidden {
			if p.payloads == nil {
				p.payloads = map[int64]string{}
			}
			p.payloads[offset] = string(m.TransactionID)
		}
	})
}

// messages calls fn with the messages of a verified batch, and checks that they are as
// many as its header says.
func (s *state) messages(h *segment.Header, batch []byte, fn func(offset int64, m *segment.Message)) error {
	if h.Lost() {
		return nil
	}
	raw, err := segment.Body(h, batch, s.scratch[:0])
	if err != nil {
		return err
	}
	if h.Codec != segment.CodecRaw {
		s.scratch = raw
	}
	for offset := h.BaseOffset; offset < h.EndOffset(); offset++ {
		m, rest, err := segment.NextMessage(raw)
		if err != nil {
			return fmt.Errorf("message at offset %d: %w", offset, err)
		}
		fn(offset, &m)
		raw = rest
	}
	if len(raw) > 0 {
		return fmt.Errorf("%w: %d bytes behind the last message", segment.ErrCorrupt, len(raw))
	}
	return nil
}

// apply folds a fact that is neither a message nor a cursor.
func (s *state) apply(k record.Kind, body []byte) error {
	switch k {
	case record.KindQueue:
		d, err := record.DecodeQueue(body)
		if err == nil && s.queues[d.Number] == nil {
			s.queues[d.Number] = &queue{name: d.Name, letters: map[[16]byte]record.DeadLetter{}}
		}
		return err
	case record.KindQueueDeleted:
		number, err := record.DecodeQueueDeleted(body)
		if err == nil {
			s.deleteQueue(number)
		}
		return err
	case record.KindPartition:
		d, err := record.DecodePartition(body)
		if err == nil {
			s.setPartition(d)
		}
		return err
	case record.KindPartitionDeleted:
		number, err := record.DecodePartitionDeleted(body)
		s.deletePartition(number)
		return err
	case record.KindGroup:
		d, err := record.DecodeGroup(body)
		if err == nil && s.queues[d.Queue] != nil {
			s.groups[d.Number] = &group{queue: d.Queue, name: d.Name}
		}
		return err
	case record.KindGroupDeleted:
		number, err := record.DecodeGroupDeleted(body)
		delete(s.groups, number)
		return err
	case record.KindDeadLetter:
		d, err := record.DecodeDeadLetter(body)
		if q := s.queues[d.Queue]; q != nil && err == nil {
			q.letters[d.ID] = d
		}
		return err
	case record.KindDeadLetterRemoved:
		number, id, err := record.DecodeDeadLetterRemoved(body)
		if q := s.queues[number]; q != nil {
			delete(q.letters, id)
		}
		return err
	case record.KindSwitches:
		_, err := record.DecodeSwitches(body)
		return err
	}
	return fmt.Errorf("%w: unknown record kind %d, written by a newer version?", record.ErrCorrupt, k)
}

func (s *state) setRewritten(d *record.Rewritten) {
	for _, id := range d.Replaces {
		s.dropSegment(id)
	}
	s.segments[d.ID] = record.Segment{ID: d.ID, Queue: d.Queue, Partition: d.Partition, Length: d.Length, Sealed: true}
	s.replaces[d.ID] = d.Replaces
}

func (s *state) dropSegment(id uint32) {
	delete(s.segments, id)
	delete(s.replaces, id)
}

func (s *state) deleteQueue(number uint32) {
	s.goneQueues[number] = true
	delete(s.lostQueues, number)
	if q := s.queues[number]; q != nil {
		for _, p := range q.partitions {
			s.deletePartition(p)
		}
		delete(s.queues, number)
	}
}

func (s *state) setPartition(d record.Partition) {
	q := s.queues[d.Queue]
	if q == nil {
		s.gone[d.Number] = true
		if !s.goneQueues[d.Queue] {
			s.lostQueues[d.Queue] = d.Name
		}
		return
	}
	if s.partitions[d.Number] != nil {
		return
	}
	s.partitions[d.Number] = &partition{Partition: d}
	q.partitions = append(q.partitions, d.Number)
	if d.Hidden {
		q.hidden = d.Number
	}
}

func (s *state) deletePartition(number uint64) {
	s.gone[number] = true
	delete(s.gaps, number)
	delete(s.partitions, number)
}

func (s *state) setCursor(c record.Cursor) {
	p, g := s.partitions[c.Partition], s.groups[c.Group]
	if p != nil && g != nil && g.queue == p.Queue {
		s.cursors[cursorKey{c.Partition, c.Group}] = c
	}
}

// live forgets cursors whose partition or group is gone, and groups and segments whose
// queue is.
func (s *state) live() {
	for n, g := range s.groups {
		if s.queues[g.queue] == nil {
			delete(s.groups, n)
		}
	}
	for key := range s.cursors {
		if s.partitions[key.partition] == nil || s.groups[key.group] == nil {
			delete(s.cursors, key)
		}
	}
	for id, d := range s.segments {
		if s.queues[d.Queue] == nil {
			s.dropSegment(id)
		}
	}
}
