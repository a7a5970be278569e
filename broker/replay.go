package broker

import (
	"encoding/json"
	"fmt"

	"github.com/skepmq/skep/index"
	"github.com/skepmq/skep/index/dedup"
	partlog "github.com/skepmq/skep/log/partition"
	"github.com/skepmq/skep/log/record"
	"github.com/skepmq/skep/segment"
)

// load folds one frame of the catalogue.
func (r *recovery) load(k record.Kind, body []byte) (err error) {
	switch k {
	case record.KindMeta:
		r.meta, err = record.DecodeMeta(body)
		return err
	case record.KindSegment:
		s, err := record.DecodeSegment(body)
		r.segments[s.ID] = partlog.SegmentInfo{
			ID: s.ID, Queue: s.Queue, Partition: s.Partition, Length: s.Length, Sealed: s.Sealed,
		}
		return err
	case record.KindRewritten:
		s, err := record.DecodeRewritten(body)
		for _, id := range s.Replaces {
			delete(r.segments, id)
		}
		r.segments[s.ID] = partlog.SegmentInfo{
			ID: s.ID, Queue: s.Queue, Partition: s.Partition, Length: s.Length, Sealed: true, Replaces: s.Replaces,
		}
		return err
	case record.KindSegmentDropped:
		id, err := record.DecodeSegmentDropped(body)
		delete(r.segments, id)
		return err
	case record.KindFiled:
		f, err := record.DecodeFiled(body)
		if p := r.b.partitions.get(f.Partition); p != nil && err == nil {
			p.start, p.filedEnd, p.hwm, p.end = f.Start, f.End, f.End, f.End
			p.startMs, p.filedMs, p.lastMs = f.StartMs, f.LastTimestampMs, f.LastTimestampMs
			p.filedBytes, p.newest = f.Bytes, index.Pointer{Segment: f.Segment, Position: f.Position}
			p.queue.noteStamp(f.LastTimestampMs)
		}
		return err
	default:
		return r.apply(k, body)
	}
}

// replay applies one entry of the journal. Its frames stay in memory: tails point into it.
func (r *recovery) replay(_ uint64, frames []byte) error {
	for len(frames) > 0 {
		k, body, rest, err := record.NextFrame(frames)
		if err != nil {
			return err
		}
		if err := r.replayFrame(k, body, frames[:len(frames)-len(rest)]); err != nil {
			return err
		}
		frames = rest
	}
	return nil
}

// replayFrame applies one fact and marks what it changed for the next checkpoint.
func (r *recovery) replayFrame(k record.Kind, body, frame []byte) error {
	b := r.b
	switch k {
	case record.KindBatch:
		return r.replayBatch(body)
	case record.KindCut:
		c, err := record.DecodeCut(body)
		if p := b.partitions.get(c.Partition); p != nil && err == nil {
			return r.cut(p, &c)
		}
		return err
	case record.KindCursor:
		c, err := record.DecodeCursor(body)
		if err != nil {
			return err
		}
		if p, cur := r.setCursor(&c); cur != nil {
			b.changed.cursor(p, cur)
		}
		return nil
	case record.KindDeadLetter, record.KindDeadLetterRemoved, record.KindSwitches, record.KindPartitionDeleted:
		b.changed.record(frame)
	case record.KindQueueDeleted:
		if number, err := record.DecodeQueueDeleted(body); err == nil && b.byNumber[number] != nil {
			b.changed.deleteQueue(b.byNumber[number])
		}
	case record.KindGroupDeleted:
		if number, err := record.DecodeGroupDeleted(body); err == nil && b.groups[number] != nil {
			b.changed.deleteGroup(b.groups[number])
		}
	}
	if err := r.apply(k, body); err != nil {
		return err
	}
	r.mark(k, body)
	return nil
}

// mark lists what a replayed frame made or changed.
func (r *recovery) mark(k record.Kind, body []byte) {
	b := r.b
	switch k {
	case record.KindQueue:
		if q, err := record.DecodeQueue(body); err == nil && b.byNumber[q.Number] != nil {
			b.changed.queue(b.byNumber[q.Number])
		}
	case record.KindPartition:
		if d, err := record.DecodePartition(body); err == nil {
			if p := b.partitions.get(d.Number); p != nil {
				b.changed.partition(p)
			}
		}
	case record.KindGroup:
		if g, err := record.DecodeGroup(body); err == nil && b.groups[g.Number] != nil {
			b.changed.group(b.groups[g.Number])
		}
	}
}

// replayBatch puts a batch that no segment holds into its partition's tail.
func (r *recovery) replayBatch(batch []byte) error {
	h, err := segment.Verify(batch)
	if err != nil {
		return fmt.Errorf("replay batch: %w", err)
	}
	p := r.b.partitions.get(h.Partition)
	if p == nil {
		if h.Partition >= r.meta.NextPartition && !r.orphans[h.Partition] {
			return fmt.Errorf("replay batch: %w: no record made partition %d", record.ErrCorrupt, h.Partition)
		}
		if r.stray == "" && !r.orphans[h.Partition] {
			r.stray = fmt.Sprintf("a batch at offset %d of partition %d", h.BaseOffset, h.Partition)
		}
		return nil // of a deleted queue
	}
	if h.EndOffset() <= p.filedEnd {
		return nil
	}
	if h.BaseOffset != p.end {
		// A checkpoint that met the deletion of the queue has left batches out, and
		// dropped them. Or the catalogue has left the partition out, since it was removed,
		// and its record has brought it back. The deletion must follow; see openJournal.
		if _, known := r.gaps[p]; !known {
			r.gaps[p] = h.BaseOffset
		}
		return nil
	}
	r.b.changed.partition(p)
	p.growLocked(batch, int(h.Count), h.TimestampMs)
	p.hwm = p.end
	if p.hidden {
		return nil
	}
	return r.indexIDs(p, &h, batch)
}

func (r *recovery) indexIDs(p *partition, h *segment.Header, batch []byte) (err error) {
	if h.Lost() {
		return nil
	}
	if r.scratch, err = segment.Body(h, batch, r.scratch[:0]); err != nil {
		return fmt.Errorf("replay batch: %w", err)
	}
	raw := r.scratch
	if h.Codec == segment.CodecRaw {
		r.scratch = nil // it is part of the batch
	}
	for offset := h.BaseOffset; offset < h.EndOffset(); offset++ {
		m, rest, err := segment.NextMessage(raw)
		if err != nil {
			return fmt.Errorf("replay batch: %w", err)
		}
		raw = rest
		if key := dedup.Key(&m); key != nil {
			e := dedup.Entry{Hash: r.b.ids.Hash(p.number, key), Offset: offset, TimestampMs: h.TimestampMs}
			r.b.ids.Add(e.Hash, e.Offset, e.TimestampMs)
			r.entries = append(r.entries, e)
		}
	}
	return nil
}

// apply folds a fact that is neither a message nor a cursor into memory. A fact about a
// queue or partition that is not there belongs to a deleted one.
func (r *recovery) apply(k record.Kind, body []byte) error {
	switch k {
	case record.KindQueue:
		d, err := record.DecodeQueue(body)
		if err != nil {
			return err
		}
		return r.setQueue(&d)
	case record.KindQueueDeleted:
		number, err := record.DecodeQueueDeleted(body)
		if err != nil {
			return err
		}
		r.deletedQueues[number] = true
		delete(r.lost, number)
		if q := r.b.byNumber[number]; q != nil {
			r.deleteQueue(q)
		}
		return nil
	case record.KindPartition:
		d, err := record.DecodePartition(body)
		if err == nil {
			r.setPartition(&d)
		}
		return err
	case record.KindPartitionDeleted:
		number, err := record.DecodePartitionDeleted(body)
		r.deletePartition(number)
		return err
	case record.KindGroup:
		d, err := record.DecodeGroup(body)
		r.setGroup(&d)
		return err
	case record.KindGroupDeleted:
		number, err := record.DecodeGroupDeleted(body)
		if err == nil {
			r.deleteGroup(number)
		}
		return err
	case record.KindDeadLetter:
		d, err := record.DecodeDeadLetter(body)
		if q := r.b.byNumber[d.Queue]; q != nil && err == nil {
			q.dead.add(&d, true)
		}
		return err
	case record.KindDeadLetterRemoved:
		number, id, err := record.DecodeDeadLetterRemoved(body)
		if q := r.b.byNumber[number]; q != nil {
			q.dead.remove(id)
		}
		return err
	case record.KindSwitches:
		d, err := record.DecodeSwitches(body)
		if err == nil {
			r.b.maintenance.set(d)
		}
		return err
	default:
		return fmt.Errorf("%w: unknown record kind %d, written by a newer version?", record.ErrCorrupt, k)
	}
}

func (r *recovery) setQueue(d *record.Queue) error {
	b := r.b
	var o QueueOptions
	if err := json.Unmarshal(d.Options, &o); err != nil {
		return fmt.Errorf("options of queue %q: %w", d.Name, err)
	}
	if q := b.byNumber[d.Number]; q != nil {
		q.options.Store(&o)
		return nil
	}
	if (queueKey{d.Tenant, d.Name}) == (queueKey{name: formerSpoolName}) && o == (QueueOptions{}) {
		d.Name = spoolKey.name // the defaults of every other queue are not all zero
	}
	q := newQueue(d.Number, d.Tenant, d.ID, d.Name, d.CreatedMs, o)
	q.announced.Store(true)
	b.byNumber[d.Number] = q
	// While records are replayed a deleted queue may come back for a moment, and its name
	// may be that of its successor by then.
	if key := (queueKey{q.tenant, q.name}); b.queues[key] == nil || b.queues[key].number < q.number {
		b.queues[key] = q
	}
	b.nextQueue = max(b.nextQueue, d.Number+1)
	return nil
}

func (r *recovery) deleteQueue(q *queue) {
	for _, p := range append(q.partitions, q.hidden) {
		if p != nil {
			r.orphans[p.number] = true
			delete(r.gaps, p)
		}
	}
	q.deleted.Store(true)
	r.b.unlistQueueLocked(q)
	r.b.forgetPartitions(q)
}

func (r *recovery) setPartition(d *record.Partition) {
	b := r.b
	raiseTo(&b.nextPartition, d.Number+1)
	q := b.byNumber[d.Queue]
	if q == nil {
		r.orphans[d.Number] = true
		if !r.deletedQueues[d.Queue] {
			r.lost[d.Queue] = d.Name
		}
		return
	}
	if b.partitions.get(d.Number) != nil {
		return
	}
	p := &partition{queue: q, name: d.Name, number: d.Number, createdMs: d.CreatedMs, hidden: d.Hidden, announced: true}
	q.addPartitionLocked(p)
	b.partitions.set(p.number, p)
}

func (r *recovery) setGroup(d *record.Group) {
	b := r.b
	b.nextGroup = max(b.nextGroup, d.Number+1)
	q := b.byNumber[d.Queue]
	if q == nil {
		return
	}
	g := b.groups[d.Number]
	if g == nil {
		g = newGroup(q, d.Number, d.Name, d.CreatedMs)
		g.announced.Store(true)
		b.groups[d.Number] = g
		q.addGroupLocked(g)
	}
	sub := &subscription{
		registered: d.Registered, conflation: d.Conflation, place: place{d.Mode, d.InstantMs},
		placedBelow: d.PlacedBelow, placed: place{d.PlacedMode, d.PlacedMs}, consumed: d.Consumed,
	}
	g.sub.Store(sub)
	if d.PlacedMode != modeNowhere {
		raiseTo(&b.nextPartition, d.PlacedBelow) // what is made from now on has not been placed
	}
	for _, at := range [...]place{sub.place, sub.placed} {
		if at.mode == modeNew {
			raise(&q.floorMs, at.instantMs)
		}
	}
}

// setCursor restores a recorded cursor, unless its partition or group is gone.
func (r *recovery) setCursor(d *record.Cursor) (*partition, *cursor) {
	p, g := r.b.partitions.get(d.Partition), r.b.groups[d.Group]
	if p == nil || g == nil || g.queue != p.queue {
		return nil, nil
	}
	c := p.cursorLocked(g)
	if c == nil {
		c = p.addCursorLocked(g, d.Committed)
	}
	c.restore(d, r.b.clock)
	return p, c
}

// cut moves the start of a partition, unless the catalogue has it there already. What
// that leaves in segments is counted anew: they may hold more by now than when it was cut.
func (r *recovery) cut(p *partition, c *record.Cut) error {
	if c.Start <= p.start || c.Start > p.end {
		return nil
	}
	left := int64(0)
	if c.Start < p.filedEnd {
		gone, err := r.b.store.Bytes(p.newest, p.number, p.start, c.Start)
		if err = r.b.damageLocked(p, err); err != nil && !p.damaged {
			return err
		}
		left = max(p.filedBytes-gone, 0)
	}
	p.start, p.startMs, p.filedBytes = c.Start, c.StartMs, left
	if c.Start >= p.filedEnd {
		r.b.mendLocked(p) // as in cutLocked
	}
	r.b.changed.partition(p)
	p.queue.aging.loose.Store(true)
	return nil
}
