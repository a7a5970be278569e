package broker

import (
	"time"

	"github.com/skepmq/skep/log/journal"
)

// Phase is how long a part of Open took.
type Phase struct {
	Name string
	Took time.Duration
}

// Stats are numbers for operators. What counts counts since Open.
type Stats struct {
	Queues     int
	Partitions int
	Parked     int
	Leases     int

	DamagedPartitions int   // out of service; see Broker.DamagedPartitions
	DeadLetters       int64 // that there are

	Traffic Traffic // of all queues, deleted ones included

	PinnedPops, OtherPops int64 // of one partition, and of any
	HeldPops              int64 // those that were held for more messages
	HeldTime              time.Duration

	// Segments that have left the disk, with their bytes.
	DroppedSegments, DroppedSegmentBytes int64
	// Segments that were mostly dead and have been replaced, the bytes that replace them,
	// and those that the disk got back.
	RewrittenSegments, RewrittenBytes, ReclaimedBytes int64

	// UndecryptedPayloads were read encrypted: their key is not here.
	UndecryptedPayloads int64

	Segments      int
	SegmentBytes  int64
	SegmentWrites int64 // bytes that checkpoints and rewrites have written
	OpenSegments  int   // files, for reading

	Journal journal.Stats
	// IDBytes are in memory and IDDiskBytes on disk, of the index of transaction ids.
	IDBytes, IDDiskBytes int64

	DiskFree, DiskTotal int64 // at the latest look; 0: unknown
	DiskFull            bool  // pushes are refused
	MemoryHigh          bool  // what would make a queue, a partition or a group is refused

	Recovery []Phase // the parts of Open, and "total"

	Limits Limits
}

// Limits are the bounds in force, of what Stats tells about.
type Limits struct {
	UnfiledBytes, IDBytes, HeapBytes int64 // HeapBytes 0: none
	Parked                           int
}

// Stats returns the counters. It walks over queues and segments, over no partition.
func (b *Broker) Stats() Stats {
	b.mu.RLock()
	queues, partitions := len(b.queues), b.partitions.count()
	if q := b.queues[spoolKey]; q != nil {
		queues, partitions = queues-1, partitions-int(q.count.Load())
	}
	b.mu.RUnlock()
	d, r, ids, segments := &b.dropped, &b.rewritten, b.ids.Stats(), b.store.Stats()
	s := Stats{
		Queues: queues, Partitions: partitions, Parked: b.Parked(), Leases: b.leases.Len(),
		DamagedPartitions: b.DamagedPartitions(),
		Traffic:           b.traffic.load(),
		PinnedPops:        b.pops.pinned.Load(), OtherPops: b.pops.others.Load(), HeldPops: b.pops.held.Load(), HeldTime: time.Duration(b.pops.heldUs.Load()) * time.Microsecond,
		DroppedSegments: d.segments.Load(), DroppedSegmentBytes: d.bytes.Load(),
		RewrittenSegments: r.segments.Load(), RewrittenBytes: r.copied.Load(), ReclaimedBytes: r.freed.Load(),
		UndecryptedPayloads: b.undecrypted.Load(),
		Segments:            segments.Segments, SegmentBytes: segments.Bytes, SegmentWrites: segments.BytesWritten, OpenSegments: segments.OpenFiles,
		Journal: b.journal.Stats(),
		IDBytes: ids.MemoryBytes, IDDiskBytes: ids.DiskBytes,
		DiskFree: b.space.free.Load(), DiskTotal: b.space.total.Load(), DiskFull: b.space.full.Load(),
		MemoryHigh: b.memory.high.Load(),
		Recovery:   b.recovered,
		Limits: Limits{
			UnfiledBytes: b.o.MaxUnfiledBytes, IDBytes: b.o.DedupCacheBytes, HeapBytes: b.o.MaxHeapBytes, Parked: b.o.MaxParked,
		},
	}
	s.Traffic[StorageErrors] += ids.Failures
	for _, q := range b.unsortedQueues() {
		s.DeadLetters += q.dead.count()
	}
	return s
}
