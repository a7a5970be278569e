package broker

import (
	"github.com/google/uuid"

	"github.com/skepmq/skep/log/record"
)

// cursor is one group's place in one partition. The partition's lock guards it.
type cursor struct {
	next         *cursor
	group        *group
	lease        *leased // nil: no batch is handed out
	committed    int64   // last acknowledged offset, -1 for none
	attemptStart int64   // first offset of the latest leased batch, -1 after it completed
	timerAt      int64   // earliest deadline in the wheel, 0 for none
	consumed     int64   // messages that acknowledgements have passed
	consumedMs   int64   // when the latest of them did, 0 for never
	attempt      uint32
	retries      uint32
	// version counts changes by others than the claim in progress, which starts over
	// when it finds another version than it left.
	version uint32
	// nextMs is when the message at offset nextAt was stored, kept for whoever asks how
	// long the group has been behind. 0: unknown.
	nextAt, nextMs int64
	// inflight counts decided changes whose record is not on disk yet. Nothing is
	// handed out meanwhile: it would act on what a power cut could undo.
	inflight uint32
	claiming bool // a pop reads messages for this cursor outside the lock
	dirty    bool // in the checkpoint's list
	// stored says that the group's place here is on disk. Until then a pinned pop, which
	// promises that, waits for it.
	stored bool
}

// leased is the batch that is handed out, or was and has expired unclaimed.
type leased struct {
	id       uuid.UUID
	deadline int64 // by clock.mono
	from     int64 // first offset handed out
	end      int64 // last offset handed out
	// ids are hashes of the transaction ids from from to end, in order; nil after a
	// restart, until the first ack reads them again.
	ids []uint64
}

// live reports whether the cursor's lease excludes others at now.
func (c *cursor) live(now int64) bool {
	return c.lease != nil && c.lease.deadline > now
}

// busy reports whether a pop must pass this cursor by. Whoever makes it not busy
// offers the partition again.
func (c *cursor) busy(now int64) bool {
	return c.claiming || c.inflight > 0 || c.live(now)
}

// commit moves the cursor to an acknowledged offset of p.
func (c *cursor) commit(p *partition, committed, nowMs int64) {
	if committed <= c.committed {
		return
	}
	c.consumed += max(committed-max(c.committed, p.start-1), 0) // what retention has dropped was passed by nobody
	c.committed, c.consumedMs = committed, nowMs
}

// apply makes a decision about p the state of c. Nothing is handed out until the record
// of it is on disk, see settle. A released lease is for the caller to take out of the
// table.
func (c *cursor) apply(p *partition, d *decision, nowMs int64) {
	c.version++
	c.inflight++
	c.commit(p, d.committed, nowMs)
	c.retries = uint32(d.retries)
	if d.released {
		c.lease = nil
	}
	if d.completed {
		c.attemptStart, c.attempt = -1, 0
	}
}

func (c *cursor) appendRecord(dst []byte, p *partition, clk *clock) []byte {
	r := c.record(p, clk)
	return record.AppendCursor(dst, &r)
}

func (c *cursor) record(p *partition, clk *clock) record.Cursor {
	r := record.Cursor{
		Partition: p.number, Group: c.group.number, Attempt: c.attempt, Retries: c.retries,
		Committed: c.committed, AttemptStart: c.attemptStart, Consumed: c.consumed, ConsumedMs: c.consumedMs,
	}
	if l := c.lease; l != nil {
		r.LeaseID, r.LeaseFrom, r.LeaseEnd, r.ExpiryMs = l.id, l.from, l.end, clk.wallOf(l.deadline)
	}
	return r
}

// restore sets the cursor to a recorded state.
func (c *cursor) restore(r *record.Cursor, clk *clock) {
	c.stored = true
	c.committed, c.attempt, c.retries, c.attemptStart = r.Committed, r.Attempt, r.Retries, r.AttemptStart
	c.consumed, c.consumedMs = r.Consumed, r.ConsumedMs
	c.lease = nil
	if r.LeaseID != (uuid.UUID{}) {
		deadline := clk.monoOf(r.ExpiryMs)
		// However far the clock was set back while the broker was down, a lease does not
		// outlast the time it was granted for, which is since its id was minted.
		if length := r.ExpiryMs - msOfID(r.LeaseID); length >= 0 {
			deadline = min(deadline, clk.mono()+length)
		}
		c.lease = &leased{id: r.LeaseID, deadline: deadline, from: r.LeaseFrom, end: r.LeaseEnd}
	}
}
