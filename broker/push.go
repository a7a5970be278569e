package broker

import (
	"bytes"
	"sync"

	"github.com/cespare/xxhash/v2"
	"github.com/google/uuid"
	"github.com/rs/zerolog"

	"github.com/skepmq/skep/broker/envelope"
	"github.com/skepmq/skep/index/dedup"
	"github.com/skepmq/skep/log/journal"
	"github.com/skepmq/skep/log/record"
	"github.com/skepmq/skep/segment"
)

// Push appends items to their partitions and fills results, which has the same length.
// Items of one partition are one batch: all of it commits or none does. It returns when
// everything it stored is on disk. Queues and partitions that do not exist are made.
//
// A batch that cannot be compared with what is stored is Failed, and not stored.
//
// Under push maintenance, and until what it has spooled is drained, items are Buffered:
// on disk, but in no queue yet.
//
// Errors, with nothing answered: ErrStorageFull, ErrMemoryHigh, ErrNoKey, ErrStorageFailed,
// ErrClosed.
func (b *Broker) Push(t Tenant, items []PushItem, sub []byte, results []PushResult) error {
	if len(items) == 0 {
		return nil
	}
	if !b.hasSpace() {
		return b.refused(ErrStorageFull)
	}
	if err := b.journal.Admit(); err != nil {
		return b.storageError(err)
	}
	if err := b.mayMake(func() bool { return b.knowsPartitions(t, items) }); err != nil {
		return err
	}
	if err := b.mayStore(t, items); err != nil {
		return err
	}
	if b.maintenance.diverting.Load() {
		if diverted, err := b.divert(t, items, sub, results); diverted {
			return err
		}
	}
	s := pushPool.Get().(*pushState)
	defer s.release()
	s.items, s.results, s.sub = items, results, sub
	s.group()
	for i := range s.batches {
		if err := b.pushBatch(t, s, &s.batches[i]); err != nil {
			// This batch was not stored; others are none of its concern.
			b.outlived(zerolog.ErrorLevel, err).Msg("push failed")
			s.fail(&s.batches[i])
		}
	}
	// Groups commit in order, so the last one says it for all, also for the original
	// of a duplicate, which must be on disk before the answer names it.
	if err := s.last.Wait(); err != nil {
		return b.storageError(err)
	}
	for i := range s.batches {
		if batch := &s.batches[i]; batch.p != nil {
			b.publish(batch.p, batch.end)
		}
	}
	b.countPush(s.batches)
	return nil
}

// pushState is the scratch of one Push.
type pushState struct {
	items   []PushItem
	results []PushResult
	sub     []byte

	batches []pushBatch
	next    []int32 // next item of the same batch, -1 at its end
	byName  map[uint64]int32
	raw     []byte // messages of the batch at hand
	secret  []byte // the payload at hand, encrypted
	frame   []byte // its frames
	parts   []part // of frame
	prefix  []byte // records that go before it, and then all of the entry
	suffix  []byte // records that go behind it: of a replay
	stored  func() // called once they are appended, under the partition's lock; nil: nothing
	hashes  []uint64
	leaders map[uint64]int32
	found   []int64
	entries []dedup.Entry
	last    journal.Ticket

	drained *drained // where the items come from, if from the spool
}

// pushBatch is the items of one partition.
type pushBatch struct {
	first, last int32
	count       int32
	p           *partition
	end         int64          // one past its last offset
	keys        *envelope.Keys // that its payloads are encrypted with; nil: they are not
}

var pushPool = sync.Pool{New: func() any {
	return &pushState{byName: map[uint64]int32{}, leaders: map[uint64]int32{}}
}}

// keepBytes bounds the scratch that goes back to the pool.
const keepBytes = 1 << 20

func (s *pushState) release() {
	if cap(s.raw)+cap(s.secret)+cap(s.frame)+cap(s.prefix) > keepBytes {
		s.raw, s.secret, s.frame, s.prefix = nil, nil, nil, nil
	}
	if len(s.items) > 10_000 {
		s.next, s.batches, s.hashes, s.entries = nil, nil, nil, nil
		s.byName, s.leaders = map[uint64]int32{}, map[uint64]int32{}
	}
	clear(s.batches)
	s.items, s.results, s.sub, s.suffix, s.stored, s.last = nil, nil, nil, nil, nil, journal.Ticket{}
	s.drained = nil
	pushPool.Put(s)
}

// group sorts the items into batches, each in request order. A run of items of one
// partition, the common case, compares two names an item.
func (s *pushState) group() {
	s.batches = s.batches[:0]
	s.next = s.next[:0]
	clear(s.byName)
	current := int32(-1)
	for i := range s.items {
		s.next = append(s.next, -1)
		if current < 0 || !samePartition(&s.items[i], &s.items[s.batches[current].first]) {
			current = s.batchOf(int32(i))
		}
		batch := &s.batches[current]
		if batch.count > 0 {
			s.next[batch.last] = int32(i)
		}
		batch.last = int32(i)
		batch.count++
	}
}

// batchOf finds or starts the batch of item i.
func (s *pushState) batchOf(i int32) int32 {
	if len(s.batches) == 0 {
		s.batches = append(s.batches, pushBatch{first: i})
		return 0
	}
	if len(s.byName) == 0 {
		s.byName[nameHash(&s.items[s.batches[0].first])] = 0
	}
	h := nameHash(&s.items[i])
	for {
		n, ok := s.byName[h]
		if !ok {
			break
		}
		if samePartition(&s.items[i], &s.items[s.batches[n].first]) {
			return n
		}
		h++ // another partition has this hash: look at the next place
	}
	n := int32(len(s.batches))
	s.batches = append(s.batches, pushBatch{first: i})
	s.byName[h] = n
	return n
}

func samePartition(a, b *PushItem) bool {
	return bytes.Equal(a.Partition, b.Partition) && bytes.Equal(a.Queue, b.Queue)
}

func nameHash(it *PushItem) uint64 {
	return xxhash.Sum64(it.Queue)*0x9e3779b97f4a7c15 ^ xxhash.Sum64(it.Partition)
}

// fail gives every item of a batch the verdict that it is stored nowhere.
func (s *pushState) fail(batch *pushBatch) {
	for i := batch.first; i >= 0; i = s.next[i] {
		s.results[i] = PushResult{Status: Failed, Minted: len(s.items[i].TransactionID) == 0, Offset: -1}
	}
}

// pushBatch stores one batch and leaves its ticket in s.last.
func (b *Broker) pushBatch(t Tenant, s *pushState, batch *pushBatch) error {
	for {
		q, created := b.queueBytes(t, s.items[batch.first].Queue), false
		if q == nil {
			q, created = b.ensureQueue(t, string(s.items[batch.first].Queue), DefaultOptions)
		}
		if !q.announced.Load() {
			b.announceQueue(q)
		}
		p := b.ensurePartition(q, s.items[batch.first].Partition)
		done, err := b.appendBatch(s, batch, q, p)
		if created {
			b.wakeMade(t, q.name)
		}
		if done || err != nil {
			return err
		}
		// The queue was deleted in between, or the partition removed: the push goes to
		// its successor.
		if err := b.awaitRemoval(s, p); err != nil {
			return err
		}
	}
}

// appendBatch encodes a batch and appends it. done is false if the queue or the partition is
// gone.
func (b *Broker) appendBatch(s *pushState, batch *pushBatch, q *queue, p *partition) (done bool, err error) {
	window := windowMs(q.options.Load().DedupWindowSeconds)
	// Repeats within a request were not spooled. What is drained together may be of
	// several, and whether they know of each other is for the window to say.
	s.findLeaders(b, batch, p.number, s.drained == nil || window > 0)
	// Outside the lock, as if nothing was stored before.
	if err := b.encodeFor(s, batch, q); err != nil {
		return false, err
	}
	return b.appendEncoded(s, batch, q, p, window)
}

// appendEncoded decides offsets and duplicates of a batch under the partition's lock and
// hands its record to the journal. done is as in appendBatch.
func (b *Broker) appendEncoded(s *pushState, batch *pushBatch, q *queue, p *partition, window int64) (done bool, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.goneLocked() {
		return false, nil
	}
	if b.keysOf(q) != batch.keys {
		// Configured meanwhile. Whoever has heard of that counts on it from then on.
		if err := b.encodeFor(s, batch, q); err != nil {
			return false, err
		}
	}
	now := b.clock.stamp()
	if window > 0 && s.hasKeys(batch) && !s.drained.unchecked() {
		dup, err := b.findStored(s, batch, p, b.clock.since(now, window))
		if err != nil {
			return false, err
		}
		if dup {
			s.encode(batch)
		}
	}
	if len(s.parts) == 0 {
		s.settleRepeats(batch)
		s.last = b.journal.Join() // the originals must be on disk
		return true, nil
	}
	stamp := max(now, p.lastMs, q.floorMs.Load())
	base := p.end
	id := b.newBatchID(stamp, base)
	if b.appendLocked(s, p, stamp, id) {
		s.settleStored(b, batch, p, base, stamp, id)
		batch.p, batch.end = p, p.end
		b.count(q, PushedMessages, p.end-base)
		if s.stored != nil {
			s.stored()
		}
	}
	s.settleRepeats(batch)
	return true, nil
}

// appendLocked gives the encoded batches in s their offsets and appends them to p, as one
// entry. On failure nothing has changed, and the ticket in s.last says why.
func (b *Broker) appendLocked(s *pushState, p *partition, stamp int64, id uuid.UUID) bool {
	sealParts(s.frame, s.parts, p, stamp, id)
	frames, prefix := s.frame, 0
	if s.drained != nil {
		s.drained.p.mu.Lock()
		defer s.drained.p.mu.Unlock()
	}
	if !p.announced || len(s.suffix) > 0 || s.drained != nil {
		// The same entry creates the partition.
		s.prefix = p.appendRecord(s.prefix[:0])
		prefix = len(s.prefix)
		s.prefix = append(s.prefix, s.frame...)
		s.prefix = append(s.prefix, s.suffix...)
		if s.drained != nil {
			s.prefix = s.drained.advanceLocked(b, s.prefix)
		}
		frames = s.prefix
	}
	// Marked before it is appended: see changes.
	b.changed.partition(p)
	b.changed.record(s.suffix)
	stored, ticket := b.journal.AppendFor(journal.OpPush, frames, false)
	s.last = ticket
	if stored == nil {
		return false
	}
	p.announced = true
	p.growPartsLocked(stored[prefix:], s.parts, stamp)
	return true
}

// sealParts gives encoded batches the next offsets of p, which is locked.
func sealParts(frame []byte, parts []part, p *partition, stamp int64, id uuid.UUID) {
	offset := p.end
	for _, part := range parts {
		segment.Seal(frame[part.start+record.FrameHeaderLen:], p.number, offset, stamp, id)
		offset += int64(part.count)
	}
}

// growPartsLocked adds sealed batches to the tail; their places are those in stored.
func (p *partition) growPartsLocked(stored []byte, parts []part, stamp int64) {
	for _, part := range parts {
		p.growLocked(stored[part.start+record.FrameHeaderLen:part.end:part.end], part.count, stamp)
	}
}

// growLocked adds an encoded batch to the tail.
func (p *partition) growLocked(batch []byte, count int, stamp int64) {
	if p.start == p.end {
		p.startMs = stamp
		p.queue.aging.note(p)
	}
	p.tail = append(p.tail, batch)
	p.end += int64(count)
	p.lastMs = stamp
	p.queue.noteStamp(stamp)
}

// publish makes everything below end visible: it is on disk. A transaction that has
// stored something below end becomes visible first, with all that belongs to it.
func (b *Broker) publish(p *partition, end int64) {
	p.mu.Lock()
	for p.unpublished != nil && p.unpublished.end <= end {
		first := p.unpublished.of
		p.mu.Unlock()
		b.reveal(first)
		p.mu.Lock()
	}
	first := p.hwm == 0
	p.hwm = max(p.hwm, end)
	p.mu.Unlock()
	if p.hidden {
		return
	}
	for _, g := range *p.queue.groupList.Load() {
		g.ready.offer(p.index)
	}
	if first {
		p.queue.awaited.wake(p.name)
	}
	b.checkpointIfDue()
}
