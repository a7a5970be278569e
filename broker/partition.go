package broker

import (
	"encoding/binary"
	"sync"

	"github.com/google/uuid"

	"github.com/skepmq/skep/index"
	"github.com/skepmq/skep/log/record"
)

// partition is one ordered lane of a queue. There may be millions, so its size counts.
type partition struct {
	queue     *queue
	name      string
	number    uint64
	createdMs int64
	index     uint32 // among the queue's partitions
	dueSeq    uint32 // of the entry in the queue's heap that counts
	hidden    bool   // holds dead letters

	mu      sync.Mutex
	cursors *cursor // a list: few groups touch one partition

	// Offsets: start is the first kept, filedEnd one past the last in segments, hwm
	// one past the last on disk, which is all that consumers see, end the next to be
	// given out. start and filedEnd are at most hwm, and hwm is at most end; start is
	// above filedEnd where retention has dropped what no checkpoint has filed yet.
	start, filedEnd, hwm, end int64

	startMs, filedMs, lastMs int64 // append times of start, of filedEnd-1, of end-1

	unpublished *share // of transactions that are not visible yet, oldest first

	tail       [][]byte // encoded batches from filedEnd to end
	newest     index.Pointer
	filedBytes int64 // of the batches from start to filedEnd

	announced bool // its record is in the journal
	dirty     bool // in the checkpoint's list
	damaged   bool // a batch failed its checksum: out of service
	aging     bool // in the queue's heap of what the rules will look at
	held      bool // and put off there, since a group has not done the first message
	removed   bool // the record of its removal is in the journal; see cleanup.go
}

// partitionID forms the id the outside knows a partition by: a UUID of version 8, the
// data directory in its upper half and the number in its lower.
func partitionID(directory, number uint64) (id uuid.UUID) {
	binary.BigEndian.PutUint64(id[:], directory)
	binary.BigEndian.PutUint64(id[8:], number)
	id[6] = id[6]&0x0f | 0x80
	id[8] = id[8]&0x3f | 0x80
	return id
}

// partitionNumber takes the number out of an id, or says that the id is none of ours.
func partitionNumber(directory uint64, id uuid.UUID) (uint64, bool) {
	lower := id
	lower[8] &= 0x3f
	number := binary.BigEndian.Uint64(lower[8:])
	return number, partitionID(directory, number) == id
}

func (p *partition) appendRecord(dst []byte) []byte {
	return record.AppendPartition(dst, &record.Partition{
		Number: p.number, Queue: p.queue.number, Hidden: p.hidden, CreatedMs: p.createdMs, Name: p.name,
	})
}

func (p *partition) appendFiledLocked(dst []byte) []byte {
	return record.AppendFiled(dst, &record.Filed{
		Partition: p.number, Start: min(p.start, p.filedEnd), End: p.filedEnd, StartMs: p.startMs, LastTimestampMs: p.filedMs,
		Bytes: p.filedBytes, Segment: p.newest.Segment, Position: p.newest.Position,
	})
}

// appendChange appends the partition's record, and where it starts: that may have moved. It
// leaves the start to others if a tail of the partition is being filed.
func (p *partition) appendChange(dst []byte, isFiled bool) []byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.goneLocked() {
		return dst
	}
	dst = p.appendRecord(dst)
	if p.filedEnd > 0 && !isFiled {
		dst = p.appendFiledLocked(dst)
	}
	return dst
}

// goneLocked reports that nothing may be added to p any more: its queue was deleted, or it
// was removed itself.
func (p *partition) goneLocked() bool { return p.removed || p.queue.deleted.Load() }

func (p *partition) cursorLocked(g *group) *cursor {
	for c := p.cursors; c != nil; c = c.next {
		if c.group == g {
			return c
		}
	}
	return nil
}

func (p *partition) addCursorLocked(g *group, committed int64) *cursor {
	c := &cursor{group: g, committed: committed, attemptStart: -1, next: p.cursors}
	p.cursors = c
	return c
}

// tailBytesLocked returns the bytes that no segment holds yet and no rule has dropped.
func (p *partition) tailBytesLocked() int64 { return p.keptBytesLocked(len(p.tail)) }

// keptBytesLocked returns the bytes of the first batches of the tail that are not below
// the start.
func (p *partition) keptBytesLocked(batches int) (n int64) {
	first := 0
	if p.start > p.filedEnd {
		first = min(tailIndex(p.tail, p.start), batches)
	}
	for _, b := range p.tail[first:batches] {
		n += int64(len(b))
	}
	return n
}

// view is what a reader needs of a partition, taken under its lock and good without it:
// tails only grow, and filing replaces the slice instead of moving batches in it.
type view struct {
	number               uint64
	start, filedEnd, hwm int64
	startMs, filedMs     int64
	newest               index.Pointer
	tail                 [][]byte
}

func (p *partition) viewLocked() view {
	return view{p.number, p.start, p.filedEnd, p.hwm, p.startMs, p.filedMs, p.newest, p.tail}
}

const tableChunk = 4096

// partitionTable finds partitions by number. Numbers are dense and never reused; those of
// partitions that are gone take no memory where all their neighbours are gone too.
type partitionTable struct {
	mu     sync.RWMutex
	chunks []partitionChunk
	total  int
}

type partitionChunk struct {
	list []*partition // by number; nil: none is left
	used int
}

func (t *partitionTable) get(number uint64) *partition {
	t.mu.RLock()
	defer t.mu.RUnlock()
	chunk := number / tableChunk
	if chunk >= uint64(len(t.chunks)) || t.chunks[chunk].list == nil {
		return nil
	}
	return t.chunks[chunk].list[number%tableChunk]
}

// set puts p, or nil to forget a partition, at number.
func (t *partitionTable) set(number uint64, p *partition) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for uint64(len(t.chunks)) <= number/tableChunk {
		t.chunks = append(t.chunks, partitionChunk{})
	}
	c := &t.chunks[number/tableChunk]
	if c.list == nil {
		c.list = make([]*partition, tableChunk)
	}
	at := &c.list[number%tableChunk]
	switch {
	case *at == nil && p != nil:
		c.used++
		t.total++
	case *at != nil && p == nil:
		c.used--
		t.total--
	}
	*at = p
	if c.used == 0 {
		c.list = nil
	}
}

// count returns how many partitions there are, hidden ones included.
func (t *partitionTable) count() int {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.total
}
