package broker

import (
	"io"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/rs/zerolog"

	"github.com/skepmq/skep/broker/lease"
	"github.com/skepmq/skep/index/dedup"
	"github.com/skepmq/skep/log/catalog"
	"github.com/skepmq/skep/log/journal"
	"github.com/skepmq/skep/log/offsets"
	partlog "github.com/skepmq/skep/log/partition"
	"github.com/skepmq/skep/segment/vfs"
)

// Defaults of Options, for those who have to name them.
const (
	DefaultSegmentBytes    int64 = 64 << 20
	DefaultCheckpointBytes int64 = 32 << 20
	DefaultMaxUnfiledBytes int64 = 512 << 20
	DefaultDedupCacheBytes int64 = 512 << 20
	DefaultDiskHighPercent       = 85
	DefaultMaxParked             = 100_000

	DefaultRetentionInterval = 5 * time.Second
	DefaultCleanupAge        = 30 * 24 * time.Hour
)

// Options configure a Broker. The zero value of every field but Dir is usable.
type Options struct {
	FS     vfs.FS // nil: the operating system's
	Dir    string // the data directory, made if missing
	Logger zerolog.Logger
	Now    func() time.Time // what deadlines in process go by; nil: time.Now
	Wall   func() time.Time // what messages are dated by, and may be set; nil: Now
	Random func() uint64    // what ids are made of; nil: the runtime's ChaCha8, seeded from the system
	Gather func()           // before requests share a commit; see journal.Options

	Sync            journal.SyncMode
	SyncInterval    time.Duration // of journal.SyncInterval
	SegmentBytes    int64         // at which a segment is sealed; 0: 64 MiB
	CheckpointBytes int64         // of journal that start a checkpoint; 0: 32 MiB
	CheckpointEvery time.Duration // at the latest, when anything is unfiled; 0: 60 s
	MaxUnfiledBytes int64         // at which pushes wait for a checkpoint; 0: 512 MiB
	DedupCacheBytes int64         // of transaction ids in memory; 0: 512 MiB
	DiskHighPercent int           // of the disk in use, at which pushes are refused; 0: 85

	RetentionInterval time.Duration // between two looks at what may be dropped; 0: 5 s
	// CleanupAge is how long nobody must have used an empty partition before it is
	// removed; 0: 30 days, below 0: never.
	CleanupAge time.Duration

	// MaxHeapBytes is how much may be live in memory, of the whole process, before new
	// queues, partitions and groups are refused; 0: no bound.
	MaxHeapBytes int64

	MaxParked      int   // long polls at a time; 0: 100,000
	MaxAnswerBytes int64 // bytes of the messages of one pop; 0: 8 MiB
}

func (o *Options) setDefaults() {
	if o.FS == nil {
		o.FS = vfs.OS
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Random == nil {
		o.Random = rand.Uint64
	}
	setDefault(&o.SegmentBytes, DefaultSegmentBytes)
	setDefault(&o.CheckpointBytes, DefaultCheckpointBytes)
	setDefault(&o.CheckpointEvery, 60*time.Second)
	setDefault(&o.MaxUnfiledBytes, DefaultMaxUnfiledBytes)
	setDefault(&o.DedupCacheBytes, DefaultDedupCacheBytes)
	setDefault(&o.DiskHighPercent, DefaultDiskHighPercent)
	setDefault(&o.RetentionInterval, DefaultRetentionInterval)
	if o.CleanupAge == 0 {
		o.CleanupAge = DefaultCleanupAge
	}
	setDefault(&o.MaxParked, DefaultMaxParked)
	setDefault(&o.MaxAnswerBytes, 8<<20)
}

func setDefault[T int | int64 | time.Duration](v *T, to T) {
	if *v <= 0 {
		*v = to
	}
}

// Broker is an open data directory. Its methods are safe for concurrent use.
type Broker struct {
	o         Options
	log       zerolog.Logger
	clock     *clock
	lock      io.Closer // of the data directory
	directory uint64    // id of the data directory

	journal *journal.Journal
	store   *partlog.Store
	catalog *catalog.Catalog
	offsets *offsets.Log
	ids     *dedup.Index

	mu            sync.RWMutex
	queues        map[queueKey]*queue
	byNumber      map[uint32]*queue
	groups        map[uint32]*group // by number
	nextQueue     uint32
	nextGroup     uint32
	nextPartition atomic.Uint64

	configureMu sync.Mutex // one change of options at a time

	partitions partitionTable
	changed    changes // since the latest checkpoint

	checkpointMu sync.Mutex // one checkpoint at a time, and what only it uses
	filed        uint64     // generation that the homes are filed up to; the checkpoint's
	// nextSegment is above every segment id ever used; the checkpoint's.
	nextSegment uint32
	// grown are segments that the catalogue does not know as they are; the checkpoint's.
	grown map[uint32]partlog.SegmentInfo

	snapshotting atomic.Bool // there is a Snapshot that is not closed

	// retainMu lets one cycle of the retainer run at a time, and guards what only that
	// uses. It is held while a removal goes to disk, and while segments are rewritten, which
	// takes seconds; nothing else takes it.
	retainMu sync.Mutex
	watched  map[uint32]*watched
	cleanup  cleanup

	traffic   traffic // since Open
	recovered []Phase // how long each part of Open took
	dropped   dropped
	rewritten rewritten

	leases *lease.Table
	wheel  wheel

	damages damages

	created   watch // requests that wait for a queue to come into being
	parking   parking
	discovery atomic.Uint32 // turns the order of queues from one discovery pop to the next
	batchSeq  atomic.Uint64 // makes message ids unique
	space     space
	memory    memory

	maintenance maintenance

	checkpointC chan struct{} // capacity 1: enough journal for a checkpoint
	stopC       chan struct{} // closed by StopWaiting
	closeC      chan struct{} // closed by Close
	stopOnce    sync.Once
	closeOnce   sync.Once
	wg          sync.WaitGroup
}

// newBatchID forms the id that the messages of a batch derive theirs from: a UUIDv7
// whose low 40 bits are the offset of the message. The 34 bits above are a counter of
// this broker, begun at random, so two ids differ whatever the partition.
func (b *Broker) newBatchID(ms, offset int64) (id uuid.UUID) {
	seq := b.batchSeq.Add(1)
	hi := uint64(ms)<<16 | 0x7000 | seq>>22&0xfff
	lo := uint64(0b10)<<62 | seq&(1<<22-1)<<40 | uint64(offset)&(1<<40-1)
	putUint64s(&id, hi, lo)
	return id
}

// newID mints a UUIDv7 with 74 random bits, for leases, queues and dead letters.
func (b *Broker) newID(ms int64) (id uuid.UUID) {
	hi := uint64(ms)<<16 | 0x7000 | b.o.Random()&0xfff
	lo := uint64(0b10)<<62 | b.o.Random()>>2
	putUint64s(&id, hi, lo)
	return id
}

func putUint64s(id *uuid.UUID, hi, lo uint64) {
	for i := range 8 {
		id[i] = byte(hi >> (56 - 8*i))
		id[8+i] = byte(lo >> (56 - 8*i))
	}
}

// Failed is closed when a write or sync has failed: the process should answer what is
// open and exit, since only a restart recovers.
func (b *Broker) Failed() <-chan struct{} { return b.journal.Failed() }

// Ready returns nil when the broker serves and takes writes that do not grow storage.
func (b *Broker) Ready() error {
	select {
	case <-b.stopC:
		return ErrClosed
	default:
	}
	if b.journal.Err() != nil {
		return ErrStorageFailed
	}
	return nil
}

// rested returns err when everything that has been decided so far is on disk. That
// something is not there may rest on a change that a power cut could undo, and whoever hears
// of it acts on it.
func (b *Broker) rested(err error) error {
	if failed := b.journal.Join().Wait(); failed != nil {
		return b.storageError(failed)
	}
	return err
}

// StopWaiting answers every parked pop empty; later ones do not park.
func (b *Broker) StopWaiting() {
	b.stopOnce.Do(func() { close(b.stopC) })
}

// Close stops the goroutines, makes everything durable and releases the directory. The
// caller has stopped sending requests.
func (b *Broker) Close() error {
	b.StopWaiting()
	var err error
	b.closeOnce.Do(func() {
		close(b.closeC)
		b.wg.Wait()
		if n := b.buffered(); n > 0 {
			b.log.Info().Int64("buffered", n).Msg("messages remain in the spool")
		}
		err = b.closeFiles()
	})
	return err
}

// queue returns the queue of that name, or nil.
func (b *Broker) queue(t Tenant, name string) *queue {
	b.mu.RLock()
	defer b.mu.RUnlock()
	return b.queues[queueKey{t, name}]
}

// queueBytes is queue for a borrowed name; the conversion does not allocate.
func (b *Broker) queueBytes(t Tenant, name []byte) *queue {
	b.mu.RLock()
	defer b.mu.RUnlock()
	return b.queues[queueKey{t, string(name)}]
}

// ensureQueue returns the queue of that name; a new one has the options that init gives.
func (b *Broker) ensureQueue(t Tenant, name string, init func(string) QueueOptions) (q *queue, created bool) {
	if q := b.queue(t, name); q != nil {
		return q, false
	}
	now := b.clock.stamp()
	b.mu.Lock()
	defer b.mu.Unlock()
	if q := b.queues[queueKey{t, name}]; q != nil {
		return q, false
	}
	q = newQueue(b.nextQueue, t, b.newID(now), name, now, init(name))
	b.nextQueue++
	b.queues[queueKey{t, name}] = q
	b.byNumber[q.number] = q
	return q, true
}

// ensurePartition returns the partition of that name in q, made in memory if it is new:
// its record goes into the journal with its first batch.
func (b *Broker) ensurePartition(q *queue, name []byte) *partition {
	if p := q.partitionBytes(name); p != nil {
		return p
	}
	now := b.clock.stamp()
	q.mu.Lock()
	defer q.mu.Unlock()
	if p := q.byName[string(name)]; p != nil {
		return p
	}
	p := &partition{queue: q, name: string(name), number: b.nextPartition.Add(1) - 1, createdMs: now}
	if q.deleted.Load() {
		return p // nobody will find it, and its caller finds the queue deleted
	}
	q.addPartitionLocked(p)
	b.partitions.set(p.number, p)
	b.count(q, PartitionsCreated, 1)
	return p
}

// ensureHidden returns the partition that holds the payloads of q's dead letters.
func (b *Broker) ensureHidden(q *queue) *partition {
	now := b.clock.stamp()
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.hidden == nil {
		p := &partition{queue: q, number: b.nextPartition.Add(1) - 1, createdMs: now, hidden: true}
		q.addPartitionLocked(p) // of a deleted queue too: who has its letters finds it
		if !q.deleted.Load() {
			b.partitions.set(p.number, p)
		}
	}
	return q.hidden
}

// ensureGroup returns the group of that name in q, made in memory if it is new.
func (b *Broker) ensureGroup(q *queue, name string) *group {
	if g := q.group(name); g != nil {
		return g
	}
	now := b.clock.stamp()
	b.mu.Lock()
	defer b.mu.Unlock()
	q.mu.Lock()
	defer q.mu.Unlock()
	if g := q.groups[name]; g != nil {
		return g
	}
	g := newGroup(q, b.nextGroup, name, now)
	b.nextGroup++
	if q.deleted.Load() {
		return g
	}
	b.groups[g.number] = g
	q.addGroupLocked(g)
	return g
}
