package broker

import (
	"cmp"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"time"

	"github.com/rs/zerolog"

	"github.com/skepmq/skep/index/dedup"
	partlog "github.com/skepmq/skep/log/partition"
	"github.com/skepmq/skep/log/record"
)

// checkpointIfDue starts a checkpoint when the journal has grown enough.
func (b *Broker) checkpointIfDue() {
	if b.journal.Current() < b.o.CheckpointBytes {
		return
	}
	select {
	case b.checkpointC <- struct{}{}:
	default:
	}
}

// checkpointer is the goroutine that files what the journal holds.
func (b *Broker) checkpointer() {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	last := time.Now()
	retry := time.Second
	idle := 0
	for {
		select {
		case <-b.closeC:
			return
		case <-b.checkpointC:
		case <-tick.C:
			if b.journal.Unfiled() == 0 {
				if idle++; idle == idleTicks {
					debug.FreeOSMemory()
				}
				continue
			}
			if time.Since(last) < b.o.CheckpointEvery {
				continue
			}
		}
		if err := b.tryCheckpoint(); err != nil {
			b.outlived(zerolog.ErrorLevel, err).Str("retry_in", retry.String()).Msg("checkpoint failed")
			select {
			case <-b.closeC:
				return
			case <-time.After(retry):
			}
			retry = min(2*retry, time.Minute)
			b.poke()
			continue
		}
		last, retry, idle = time.Now(), time.Second, 0
		b.checkpointIfDue()
	}
}

// tryCheckpoint runs a checkpoint and draws the consequences of its failure.
func (b *Broker) tryCheckpoint() error {
	filed, err := b.checkpoint()
	if filed {
		b.journal.Refuse(nil)
	} else {
		b.journal.Refuse(refusalOf(err))
	}
	b.checkpointMu.Lock()
	home := errors.Join(b.catalog.Err(), b.offsets.Err())
	b.checkpointMu.Unlock()
	if errors.Is(err, dedup.ErrFailed) {
		home = errors.Join(home, err)
	}
	if home != nil {
		// A home takes no more writes, so no checkpoint will ever succeed.
		b.journal.Poison(home)
	}
	return err
}

// refusalOf is what pushes get that would have to wait for a checkpoint, while none
// succeeds. Almost always the disk has no room for the segments.
func refusalOf(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w: checkpoint: %w", ErrStorageFull, err)
}

// idleTicks is how many seconds after its latest checkpoint a broker that has nothing
// to file gives freed memory back to the system. It is when a full collection disturbs
// nobody.
const idleTicks = 2

func (b *Broker) poke() {
	select {
	case b.checkpointC <- struct{}{}:
	default:
	}
}

// checkpoint brings the homes up to date with the journal and drops what they then hold.
// Its commit point is one entry of the catalogue; a crash before it leaves the journal,
// and bytes in segments that nothing refers to. filed says that it was reached: an error
// then concerns what was to be cleaned up, and the next checkpoint tries again.
func (b *Broker) checkpoint() (filed bool, err error) {
	b.checkpointMu.Lock()
	defer b.checkpointMu.Unlock()
	b.changed.finalDeletions()
	sealed, err := b.journal.Rotate()
	if err != nil {
		return false, err
	}
	t := b.changed.take()
	captured := b.capture(&t)
	// After the tails: the ids of every batch in them were listed under the lock of
	// its partition, so they are complete now.
	t.entries = b.changed.takeIDs()
	// What was captured may be newer than the sealed generations. It must be on disk
	// in the journal before a home holds it: a transaction filed by half, and then
	// lost by a power cut, would be a half one.
	if err = b.journal.Flush(); err == nil {
		err = b.file(&t, captured, sealed)
	}
	if err != nil {
		b.changed.giveBack(t)
		return false, err
	}
	for _, r := range t.rewritten {
		b.replace(r)
	}
	for _, q := range t.deleted {
		if !q.final {
			b.changed.deleteQueue(q) // the journal may have a record of it behind what is filed
		}
		if err := b.store.Drop(q.number); err != nil {
			b.outlived(zerolog.ErrorLevel, err).Str("queue", q.name).Msg("segments of a deleted queue remain until the next start")
		}
	}
	if err := b.store.Remove(t.segments); err != nil {
		b.outlived(zerolog.ErrorLevel, err).Msg("dropped segments remain until the next start")
	}
	b.expireIDs()
	return true, errors.Join(b.journal.Drop(sealed), b.rewriteHomes())
}

// captured is the state of the changed partitions and cursors at one moment each.
type captured struct {
	tails   []partlog.Tail
	cursors []record.Cursor
}

func (b *Broker) capture(t *taken) captured {
	var c captured
	for _, p := range t.partitions {
		p.mu.Lock()
		p.dirty = false
		if len(p.tail) > 0 && !p.goneLocked() {
			c.tails = append(c.tails, partlog.Tail{
				Queue: p.queue.number, Partition: p.number, Prev: p.newest, Batches: p.tail, Own: p.hidden,
			})
		}
		p.mu.Unlock()
	}
	for _, r := range t.cursors {
		r.p.mu.Lock()
		r.c.dirty = false
		if !r.p.goneLocked() && !r.c.group.deleted.Load() {
			c.cursors = append(c.cursors, r.c.record(r.p, b.clock))
		}
		r.p.mu.Unlock()
	}
	return c
}

// file writes what was captured to the homes, the catalogue last.
func (b *Broker) file(t *taken, c captured, sealed uint64) error {
	batches := make(map[uint64]int, len(c.tails))
	for i := range c.tails {
		batches[c.tails[i].Partition] = len(c.tails[i].Batches)
	}
	filed, segments, err := b.store.File(c.tails)
	if err != nil {
		return fmt.Errorf("file tails: %w", err)
	}
	for _, s := range segments {
		b.grown[s.ID] = s
		b.nextSegment = max(b.nextSegment, s.ID+1)
	}
	for _, r := range t.rewritten {
		b.nextSegment = max(b.nextSegment, r.ID+1)
	}
	if err := b.ids.Save(t.entries); err != nil {
		return fmt.Errorf("save transaction ids: %w", err)
	}
	if err := b.offsets.Commit(c.cursors); err != nil {
		return err
	}
	err = b.catalog.Commit(func(emit func([]byte) ([]byte, error)) error {
		return b.emitChanges(t, filed, batches, sealed, emit)
	})
	if err != nil {
		return err
	}
	clear(b.grown)
	for i := range filed {
		if p := b.partitions.get(filed[i].Partition); p != nil {
			p.file(&filed[i], batches[p.number])
		}
	}
	return nil
}

// file makes filed batches part of what segments hold. The tail is copied, not shifted:
// readers may be walking the old one.
func (p *partition) file(f *partlog.Filed, batches int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.goneLocked() {
		return
	}
	p.filedBytes += p.keptBytesLocked(batches)
	if p.start > p.filedEnd {
		p.queue.aging.loose.Store(true) // some of it went into a segment only to be dropped
	}
	var rest [][]byte
	if batches < len(p.tail) {
		rest = append(rest, p.tail[batches:]...)
	}
	p.tail = rest
	p.filedEnd, p.newest, p.filedMs = f.EndOffset, f.Newest, f.LastTimestampMs
}

// emitChanges emits the records of a checkpoint's changes, the Meta last.
func (b *Broker) emitChanges(t *taken, filed []partlog.Filed, batches map[uint64]int, sealed uint64, emit func([]byte) ([]byte, error)) error {
	var buf []byte
	for q := range t.queues {
		if !q.deleted.Load() {
			buf = q.appendRecord(buf)
		}
	}
	for g := range t.groups {
		if !g.queue.deleted.Load() && !g.deleted.Load() {
			buf = g.appendRecord(buf)
		}
	}
	for _, s := range b.grown {
		buf = appendSegment(buf, &s)
	}
	buf, err := emit(buf)
	for _, p := range t.partitions {
		if err == nil {
			_, isFiled := batches[p.number]
			buf, err = emit(p.appendChange(buf, isFiled))
		}
	}
	for i := range filed {
		if err == nil {
			buf, err = emit(b.appendFiled(buf, &filed[i], batches[filed[i].Partition]))
		}
	}
	if err != nil {
		return err
	}
	buf = append(buf, t.frames...)
	for _, q := range t.deleted {
		buf = record.AppendQueueDeleted(buf, q.number)
	}
	for _, g := range t.deletedGroups {
		buf = g.appendDeletion(buf)
	}
	for _, r := range t.rewritten {
		buf = appendSegment(buf, &r.SegmentInfo)
	}
	for _, id := range t.segments {
		buf = record.AppendSegmentDropped(buf, id)
	}
	// What was deleted since the capture, a queue or a group, was left out above, and its
	// tails and cursors with it. The deletion must be on disk before the Meta declares the journal filed
	// that still has them.
	if err := b.journal.Flush(); err != nil {
		return err
	}
	meta := b.meta(sealed)
	_, err = emit(record.AppendMeta(buf, &meta))
	return err
}

func appendSegment(dst []byte, s *partlog.SegmentInfo) []byte {
	if len(s.Replaces) > 0 {
		return record.AppendRewritten(dst, &record.Rewritten{
			ID: s.ID, Queue: s.Queue, Partition: s.Partition, Length: s.Length, Replaces: s.Replaces,
		})
	}
	return record.AppendSegment(dst, &record.Segment{
		ID: s.ID, Queue: s.Queue, Partition: s.Partition, Length: s.Length, Sealed: s.Sealed,
	})
}

// appendFiled appends how far p is filed with what a File has added, batches of its tail.
func (b *Broker) appendFiled(dst []byte, f *partlog.Filed, batches int) []byte {
	p := b.partitions.get(f.Partition)
	if p == nil {
		return dst
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.goneLocked() {
		return dst
	}
	return record.AppendFiled(dst, &record.Filed{
		Partition: f.Partition, Start: min(p.start, f.EndOffset), End: f.EndOffset, StartMs: p.startMs,
		LastTimestampMs: f.LastTimestampMs, Bytes: p.filedBytes + p.keptBytesLocked(batches),
		Segment: f.Newest.Segment, Position: f.Newest.Position,
	})
}

func (b *Broker) meta(generation uint64) record.Meta {
	b.filed = generation
	b.mu.RLock()
	defer b.mu.RUnlock()
	return record.Meta{
		Directory: b.directory, NextQueue: b.nextQueue, NextGroup: b.nextGroup,
		NextPartition: b.nextPartition.Load(), NextSegment: b.nextSegment, Generation: generation,
	}
}

// minAckWindow is the shortest time that acknowledged transaction ids are resolved.
const minAckWindow = 900 * time.Second

// expireIDs drops the transaction ids that no queue's windows reach.
func (b *Broker) expireIDs() {
	window := minAckWindow
	b.mu.RLock()
	for _, q := range b.queues {
		window = max(window, q.ackWindow())
	}
	b.mu.RUnlock()
	if err := b.ids.Expire(b.clock.since(b.clock.stamp(), window.Milliseconds())); err != nil {
		b.outlived(zerolog.ErrorLevel, err).Msg("expired transaction ids remain")
	}
}

// ackWindow is how long transaction ids of the queue are resolved.
func (q *queue) ackWindow() time.Duration {
	o := q.options.Load()
	seconds := max(o.DedupWindowSeconds, o.CompletedRetentionSeconds)
	return max(minAckWindow, time.Duration(min(seconds, maxLeaseSeconds))*time.Second)
}

// rewriteHomes folds a home whose changes outweigh its snapshot.
func (b *Broker) rewriteHomes() error {
	var err error
	if b.catalog.WantsRewrite() {
		err = b.rewriteCatalog()
	}
	if b.offsets.WantsRewrite() {
		err = errors.Join(err, b.rewriteOffsets())
	}
	return err
}

// rewriteCatalog emits the whole catalogue from memory. What memory has beyond the
// journal's durable end is made durable before the new catalogue counts.
func (b *Broker) rewriteCatalog() error {
	return b.catalog.Rewrite(func(emit func([]byte) ([]byte, error)) error {
		meta := b.meta(b.filed)
		switches := b.maintenance.switches()
		head := b.changed.appendDeletions(record.AppendMeta(nil, &meta))
		buf, err := emit(record.AppendSwitches(head, &switches))
		for _, s := range b.store.Segments() {
			if err != nil {
				return err
			}
			buf, err = emit(appendSegment(buf, &s))
		}
		for _, q := range b.allQueues() {
			if err != nil {
				return err
			}
			buf, err = b.emitQueue(q, buf, emit)
		}
		if err == nil {
			_, err = emit(buf) // the last of them may have nothing but its record
		}
		return errors.Join(err, b.journal.Flush())
	})
}

func (b *Broker) emitQueue(q *queue, buf []byte, emit func([]byte) ([]byte, error)) ([]byte, error) {
	// Looked up first, which waits for a record of the queue that is being written: a
	// checkpoint may have taken the mark already, and will not come back to it.
	groups := q.currentGroups()
	if q.deleted.Load() || !q.announced.Load() {
		return buf, nil
	}
	buf = q.appendRecord(buf)
	for _, g := range groups {
		if g.announced.Load() {
			buf = g.appendRecord(buf)
		}
	}
	buf, err := emit(buf) // there may be nothing that emits it below
	if err != nil {
		return buf, err
	}
	partitions := q.snapshot()
	if q.hiddenPartition() != nil {
		partitions = append(partitions, q.hiddenPartition())
	}
	for _, p := range partitions {
		p.mu.Lock()
		if p.announced && !p.removed {
			buf = p.appendRecord(buf)
			if p.filedEnd > 0 {
				buf = p.appendFiledLocked(buf)
			}
		}
		p.mu.Unlock()
		if buf, err = emit(buf); err != nil {
			return buf, err
		}
	}
	return q.dead.emit(buf, emit)
}

func (b *Broker) rewriteOffsets() error {
	return b.offsets.Rewrite(func(emit func([]record.Cursor) error) error {
		var cursors []record.Cursor
		for _, q := range b.allQueues() {
			for _, p := range q.snapshot() {
				p.mu.Lock()
				for c := p.cursors; c != nil; c = c.next {
					if c.group.announced.Load() && !c.group.deleted.Load() {
						cursors = append(cursors, c.record(p, b.clock))
					}
				}
				p.mu.Unlock()
				if len(cursors) >= 4096 {
					if err := emit(cursors); err != nil {
						return err
					}
					cursors = cursors[:0]
				}
			}
		}
		return errors.Join(emit(cursors), b.journal.Flush())
	})
}

// allQueues returns the queues in the order in which they were made, so that one history
// leaves one disk.
func (b *Broker) allQueues() []*queue {
	queues := b.unsortedQueues()
	slices.SortFunc(queues, func(x, y *queue) int { return cmp.Compare(x.number, y.number) })
	return queues
}

func (b *Broker) unsortedQueues() []*queue {
	b.mu.RLock()
	defer b.mu.RUnlock()
	queues := make([]*queue, 0, len(b.queues))
	for _, q := range b.queues {
		queues = append(queues, q)
	}
	return queues
}
