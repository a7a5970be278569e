package broker

import (
	"cmp"
	"slices"
)

// Queues describes the tenant's queues, newest first. It walks their partitions in
// memory and reads no disk.
func (b *Broker) Queues(t Tenant) ([]QueueInfo, error) {
	var infos []QueueInfo
	for _, q := range b.allQueues() {
		if q.belongs(t) {
			info, _ := b.inspect(q, false)
			infos = append(infos, info)
		}
	}
	slices.SortFunc(infos, func(x, y QueueInfo) int {
		return cmp.Or(cmp.Compare(y.CreatedAtMs, x.CreatedAtMs), cmp.Compare(x.Name, y.Name))
	})
	return infos, nil
}

// Queue describes one queue and its partitions, sorted by name.
func (b *Broker) Queue(t Tenant, name string) (QueueInfo, []PartitionInfo, error) {
	q := b.queue(t, name)
	if q == nil {
		return QueueInfo{}, nil, ErrQueueNotFound
	}
	info, partitions := b.inspect(q, true)
	slices.SortFunc(partitions, func(x, y PartitionInfo) int { return cmp.Compare(x.Name, y.Name) })
	return info, partitions, nil
}

func (b *Broker) inspect(q *queue, detail bool) (info QueueInfo, partitions []PartitionInfo) {
	info = q.identity()
	info.DeadLetters, info.Damaged = q.dead.count(), b.damages.in(q)
	letters := q.dead.counts()
	for _, n := range letters {
		if n > 0 {
			info.DeadLetterPartitions++
		}
	}
	info.Segments = b.store.QueueSegments(q.number)
	now := b.clock.mono()
	groups := *q.groupList.Load()
	placed := make([]bool, len(groups))
	if detail {
		partitions = make([]PartitionInfo, 0, q.count.Load()) // growing into it would take twice of that
	}
	b.walk(q, groups, func(p *partition) {
		pi, leases := p.inspectLocked(groups, placed, now)
		info.RetainedBytes += p.filedBytes + p.tailBytesLocked()
		info.Partitions++
		info.Total += pi.Total
		info.Pending += pi.Pending
		info.Processing += pi.Processing
		info.Consumed += pi.Consumed
		info.Leases.Add(&leases)
		if detail {
			pi.ID = partitionID(b.directory, p.number)
			pi.DeadLetters = letters[p.number]
			if p.damaged {
				pi.Damage = b.damages.of(p)
			}
			partitions = append(partitions, pi)
		}
	})
	for i, g := range groups {
		if !g.deleted.Load() && (placed[i] || g.sub.Load().registered) {
			info.Groups++
		}
	}
	return info, partitions
}

// walk calls fn with each partition of q, locked, and with the place of each of groups there
// known. One whose first push is on the way, or has failed, is left out.
func (b *Broker) walk(q *queue, groups []*group, fn func(*partition)) {
	for _, p := range q.snapshot() {
		b.lockPlaced(p, groups)
		if p.announced {
			fn(p)
		}
		p.mu.Unlock()
	}
}

// inspectLocked counts what the slowest group still has to do. Total is pending plus
// processing plus what every group has completed. It marks the groups that have a place.
func (p *partition) inspectLocked(groups []*group, placed []bool, now int64) (PartitionInfo, LeaseCounts) {
	var leases LeaseCounts
	pi := PartitionInfo{Name: p.name, CreatedAtMs: p.createdMs, Total: p.hwm - p.start, Start: p.start, End: p.hwm}
	if pi.Total > 0 {
		pi.OldestMs, pi.NewestMs = p.startMs, p.lastMs
	}
	worst, leased := int64(-1), int64(0)
	for i, g := range groups {
		if floor, c, ok := p.standingLocked(g); ok {
			placed[i] = true
			lag, out := p.owedLocked(floor, c, now)
			worst = max(worst, lag)
			leased += out
			pi.noteCursor(c)
			leases.noteCursor(c, now)
		}
	}
	if worst < 0 {
		worst = pi.Total
	}
	pi.Processing = min(leased, worst)
	pi.Pending = worst - pi.Processing
	return pi, leases
}

// noteCursor adds the live lease of a cursor of the partition; nil: nothing yet.
func (l *LeaseCounts) noteCursor(c *cursor, now int64) {
	if c != nil && c.live(now) {
		l.Leases, l.Partitions = l.Leases+1, 1
		l.Messages += c.lease.end - c.lease.from + 1
		l.Acked += max(c.committed-c.lease.from+1, 0)
	}
}

// noteCursor adds what a cursor has done; nil: nothing yet.
func (pi *PartitionInfo) noteCursor(c *cursor) {
	if c == nil {
		return
	}
	pi.Consumed += c.consumed
	pi.LastActivityMs = max(pi.LastActivityMs, c.consumedMs)
	if c.lease != nil {
		pi.LastActivityMs = max(pi.LastActivityMs, msOfID(c.lease.id))
	}
}
