package broker

import (
	"github.com/skepmq/skep/log/journal"
	"github.com/skepmq/skep/log/record"
)

// A partition that holds nothing and that nobody has used for long is removed, in three
// steps. Under its lock it is found unused and marked removed, and the record of that goes
// to the journal: from then on nothing is added to it. When the record is on disk, the
// partition is forgotten: its name, its number and its cursors. At last its place among the
// queue's partitions, which indexes in many lists name, goes to a tombstone.
//
// A push that meets a removed partition waits for the record, forgets the partition itself
// if that was not done yet, and makes a new one of that name: another id, offsets from 0.

const (
	cleanupEveryMs = 60_000
	// cleanupSlice is how many partitions are looked at in one go, in turns.
	cleanupSlice = 10_000
)

// cleanup is where the search for unused partitions stands; the retainer's.
type cleanup struct {
	lastMs int64  // of the latest slice, by clock.stamp
	next   uint64 // number of the partition that the next one begins with
}

// cleanPartitions looks at the next slice of partitions, at most once a minute.
func (b *Broker) cleanPartitions() {
	now := b.clock.stamp()
	if b.o.CleanupAge < 0 || now-b.cleanup.lastMs < cleanupEveryMs {
		return
	}
	b.cleanup.lastMs = now
	var slice, removed []*partition
	slice, b.cleanup.next = b.partitions.slice(b.cleanup.next, cleanupSlice)
	var last journal.Ticket
	for _, p := range slice {
		if ticket, ok := b.remove(p, now-b.o.CleanupAge.Milliseconds()); ok {
			removed, last = append(removed, p), ticket
		}
	}
	if len(removed) == 0 || last.Wait() != nil {
		return // a journal that has failed ends the process
	}
	b.buryAll(removed)
	b.log.Info().Int("partitions", len(removed)).Msg("unused partitions removed")
}

// buryAll forgets removed partitions and gives their places to tombstones, at one go for
// each queue: readers walk the list without a lock, so it is copied.
func (b *Broker) buryAll(removed []*partition) {
	byQueue := map[*queue][]*partition{}
	for _, p := range removed {
		b.forgetPartition(p)
		byQueue[p.queue] = append(byQueue[p.queue], p)
	}
	for q, gone := range byQueue {
		q.mu.Lock()
		q.partitions = append([]*partition{}, q.partitions...)
		q.buryLocked(gone...)
		q.mu.Unlock()
		q.aging.loose.Store(true)
	}
}

// buryLocked puts a tombstone in the place of each: a partition without a name that is not
// announced, and to which nothing can be added.
func (q *queue) buryLocked(gone ...*partition) {
	if q.tombstone == nil {
		q.tombstone = &partition{queue: q, removed: true}
	}
	for _, p := range gone {
		q.partitions[p.index] = q.tombstone
	}
}

// remove marks p removed and journals it, if nobody has used it since the instant.
func (b *Broker) remove(p *partition, sinceMs int64) (t journal.Ticket, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !b.unusedLocked(p, sinceMs) {
		return t, false
	}
	frame := record.AppendPartitionDeleted(nil, p.number)
	b.changed.record(frame)
	_, t = b.journal.Append(frame, false)
	p.removed = true
	b.count(p.queue, PartitionsRemoved, 1)
	return t, true
}

// unusedLocked reports whether p holds nothing, dead letters included, and was neither
// pushed to nor consumed from since the instant. A pop that waits for it is no use: it will
// find the successor.
func (b *Broker) unusedLocked(p *partition, sinceMs int64) bool {
	if p.hidden || p.queue.isSpool() || p.damaged || p.goneLocked() || p.start < p.end || len(p.tail) > 0 {
		return false
	}
	if p.createdMs >= sinceMs || p.lastMs >= sinceMs || p.queue.dead.of(p.number) {
		return false
	}
	now := b.clock.mono()
	for c := p.cursors; c != nil; c = c.next {
		if c.busy(now) || c.consumedMs >= sinceMs || c.lease != nil && c.lease.deadline-now+b.clock.stamp() >= sinceMs {
			return false
		}
	}
	return true
}

// forgetPartition takes a removed partition out of all tables but the queue's list, and
// sends those who wait for it to wait for its name. It may be called again.
func (b *Broker) forgetPartition(p *partition) {
	q := p.queue
	q.mu.Lock()
	if q.byName[p.name] == p {
		delete(q.byName, p.name)
	}
	q.mu.Unlock()
	b.partitions.set(p.number, nil)
	p.mu.Lock()
	for c := p.cursors; c != nil; c = c.next {
		b.dropLeaseLocked(p, c)
	}
	p.cursors, p.announced = nil, false
	p.mu.Unlock()
	for _, g := range *q.groupList.Load() {
		g.ready.wakePinned(p.index)
	}
}

// awaitRemoval returns at once unless p was removed. Then it returns when that is on disk
// and p is forgotten, with s.last saying how that went.
func (b *Broker) awaitRemoval(s *pushState, p *partition) error {
	p.mu.Lock()
	removed := p.removed
	p.mu.Unlock()
	if !removed {
		return nil
	}
	s.last = b.journal.Join()
	if err := s.last.Wait(); err != nil {
		return err
	}
	b.forgetPartition(p)
	return nil
}

// wakePinned wakes every request that waits for one partition.
func (r *ready) wakePinned(index uint32) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if l := r.pinned[index]; l != nil {
		for l.wakeFirst() {
		}
	}
}

// slice returns up to n partitions, in the order of their numbers from one on, and the
// number to go on with: 0 after the last.
func (t *partitionTable) slice(from uint64, n int) (list []*partition, next uint64) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	for end := uint64(len(t.chunks)) * tableChunk; from < end; from++ {
		chunk := t.chunks[from/tableChunk].list
		if chunk == nil {
			from += tableChunk - 1 - from%tableChunk
			continue
		}
		if len(list) == n {
			return list, from
		}
		if p := chunk[from%tableChunk]; p != nil {
			list = append(list, p)
		}
	}
	return list, 0
}

// deletePartition applies the record of a removal.
func (r *recovery) deletePartition(number uint64) {
	r.orphans[number] = true
	p := r.b.partitions.get(number)
	if p == nil {
		return
	}
	q := p.queue
	r.b.mendLocked(p) // what was damaged of it had been dropped
	p.removed = true
	delete(r.gaps, p)
	if q.byName[p.name] == p {
		delete(q.byName, p.name)
	}
	q.buryLocked(p)
	q.aging.loose.Store(true)
	r.b.partitions.set(number, nil)
}
