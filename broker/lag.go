package broker

import (
	"github.com/google/uuid"
	"github.com/rs/zerolog"

	"github.com/skepmq/skep/segment"
)

// implied returns where g stands in a partition in which it has no cursor; ok is false
// where it is nowhere. Queue mode has no registration: it begins with the oldest message
// wherever it comes.
func (g *group) implied(number uint64) (at place, ok bool) {
	at, ok = g.sub.Load().start(number)
	if !ok && g.name == QueueMode {
		return place{}, g.announced.Load()
	}
	return at, ok
}

// knownSeedLocked returns the committed offset of a cursor that starts at a place. known
// is false if only the index of the segments can tell.
func (p *partition) knownSeedLocked(at place) (committed int64, known bool) {
	switch {
	case at.mode == modeAll, p.start < p.end && at.instantMs <= p.startMs:
		return p.start - 1, true
	case p.start == p.end, p.lastMs < at.instantMs:
		return p.end - 1, true
	case p.filedEnd > p.start && p.filedMs >= at.instantMs:
		return 0, false
	}
	i := tailTime(p.tail, at.instantMs)
	if i == len(p.tail) {
		return p.end - 1, true
	}
	h, err := segment.DecodeHeader(p.tail[i])
	return max(h.BaseOffset, p.start) - 1, err == nil
}

// lockPlaced locks p with the place of each of groups there known from memory. Where only
// the index knows it, a cursor remembers it from then on: not stored, since it follows
// from the subscription, and so the next look costs nothing. A place that cannot be read
// stays unknown.
func (b *Broker) lockPlaced(p *partition, groups []*group) {
	p.mu.Lock()
	if err := b.placeGroupsLocked(p, groups); err != nil && !p.damaged {
		b.outlived(zerolog.ErrorLevel, err).Str("queue", p.queue.name).Str("partition", p.name).Msg("place of a group not found")
	}
}

// placeGroupsLocked is lockPlaced with p locked before; seedLocked says what that means.
func (b *Broker) placeGroupsLocked(p *partition, groups []*group) error {
	for {
		g, at := p.unplacedLocked(groups)
		if g == nil {
			return nil
		}
		committed, err := b.seedLocked(p, at)
		if err != nil {
			return err
		}
		if p.cursorLocked(g) == nil && !g.deleted.Load() && !p.goneLocked() {
			p.addCursorLocked(g, committed)
		}
	}
}

// unplacedLocked returns the first of groups whose place in p memory does not know.
func (p *partition) unplacedLocked(groups []*group) (*group, place) {
	if p.damaged || p.goneLocked() {
		return nil, place{}
	}
	for _, g := range groups {
		if g.deleted.Load() || p.cursorLocked(g) != nil {
			continue
		}
		if at, ok := g.implied(p.number); ok {
			if _, known := p.knownSeedLocked(at); !known {
				return g, at
			}
		}
	}
	return nil, place{}
}

// standingLocked returns the last offset of p that g is done with, start-1 at least; what
// is behind it the group owes. c is nil where the cursor is implied, ok false where there
// is none.
func (p *partition) standingLocked(g *group) (floor int64, c *cursor, ok bool) {
	if c = p.cursorLocked(g); c != nil {
		return max(c.committed, p.start-1), c, true
	}
	at, ok := g.implied(p.number)
	if !ok {
		return p.start - 1, nil, false
	}
	committed, known := p.knownSeedLocked(at)
	if !known {
		committed = p.start - 1 // it could not be read; rather too much
	}
	return max(committed, p.start-1), nil, true
}

// owedLocked returns the messages that a group which is done up to floor has left, and
// how many of them are leased.
func (p *partition) owedLocked(floor int64, c *cursor, now int64) (lag, leased int64) {
	lag = max(p.hwm-1-floor, 0)
	if c != nil && c.live(now) {
		leased = c.lease.end - floor // what a conflating lease passes over included
	}
	return lag, min(max(leased, 0), lag)
}

// GroupPartition is where a group stands in one partition.
type GroupPartition struct {
	Partition      string
	PartitionID    uuid.UUID
	LeaseID        uuid.UUID // of the live lease; zero: none
	Lag            int64     // messages stored and not acknowledged, leased ones included
	OldestMs       int64     // when the oldest of them was stored, less at most a second; 0: none
	LagSeconds     int64     // age of the oldest one
	Consumed       int64     // messages that acknowledgements have passed
	LastConsumedMs int64     // when the latest of them did, 0: never
}

// stand describes where g stands in p. ok is false where it has no cursor.
func (b *Broker) stand(p *partition, g *group) (s GroupPartition, ok bool) {
	now := b.clock.mono()
	b.lockPlaced(p, []*group{g})
	floor, c, ok := p.standingLocked(g)
	if !ok || !p.announced || p.goneLocked() || g.deleted.Load() {
		p.mu.Unlock()
		return s, false
	}
	s = GroupPartition{Partition: p.name, PartitionID: partitionID(b.directory, p.number)}
	s.Lag, _ = p.owedLocked(floor, c, now)
	if c != nil {
		s.Consumed, s.LastConsumedMs = c.consumed, c.consumedMs
		if c.live(now) {
			s.LeaseID = c.lease.id
		}
	}
	known := true
	if s.Lag > 0 {
		s.OldestMs, known = p.storedLocked(c, floor+1)
	}
	v := p.viewLocked()
	p.mu.Unlock()
	if !known {
		s.OldestMs = b.storedAt(p, v, c, floor+1)
	}
	if s.OldestMs > 0 {
		s.LagSeconds = max(b.clock.stamp()-s.OldestMs, 0) / 1000
	}
	return s, true
}

// storedLocked returns when the message at offset was stored. known is false if only the
// index can tell. c is the cursor before it, which may remember.
func (p *partition) storedLocked(c *cursor, offset int64) (ms int64, known bool) {
	switch {
	case offset <= p.start:
		return p.startMs, true
	case offset >= p.filedEnd:
		if i := tailIndex(p.tail, offset); i < len(p.tail) {
			h, err := segment.DecodeHeader(p.tail[i])
			return h.TimestampMs, err == nil
		}
		return p.lastMs, true
	case c != nil && c.nextMs != 0 && c.nextAt == offset:
		return c.nextMs, true
	}
	return 0, false
}

// storedAt asks the index when the message at offset was stored, and lets c remember it.
func (b *Broker) storedAt(p *partition, v view, c *cursor, offset int64) (ms int64) {
	ms, ok, err := b.store.TimeAt(v.newest, p.number, offset)
	p.mu.Lock()
	defer p.mu.Unlock()
	if err != nil || !ok {
		return p.startMs // the oldest it can be
	}
	ms = max(ms, p.startMs)
	if c != nil {
		c.nextAt, c.nextMs = offset, ms
	}
	return ms
}
