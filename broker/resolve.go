package broker

import (
	"cmp"
	"encoding/binary"
	"errors"
	"math"
	"slices"

	"github.com/google/uuid"

	"github.com/skepmq/skep/segment"
)

// resolveLocked finds the offset of each acknowledged transaction id. The ids of a leased
// batch are in memory and answer most. What they do not know is looked up without the
// lock: then need is not nil.
func (a *acknowledge) resolveLocked() (need func() error) {
	c, o := a.c, a.p.queue.options.Load()
	a.state = cursorState{
		committed: c.committed, leased: c.lease != nil, retries: int64(c.retries), retryLimit: o.RetryLimit,
		deadLetter: o.DeadLetterQueue || o.DLQAfterMaxRetries,
	}
	if c.lease != nil {
		a.state.end = c.lease.end
		a.state.conflates, a.state.skipped = a.g.sub.Load().conflated(c)
		if c.lease.ids == nil {
			return a.readLease()
		}
	}
	if a.knownAt != c.version {
		a.known = nil
	}
	a.resolved = a.resolved[:0]
	delivered := newLookup(c.lease, len(a.items))
	slow := false
	for n, i := range a.items {
		r := resolved{status: a.acks[i].Status, offset: -1}
		if c.lease != nil {
			r.offset, r.below = delivered.find(a.acks[i].TransactionID, c.committed)
			r.delivered = r.offset >= 0 || r.below
		}
		if r.offset < 0 && !r.below {
			if a.known == nil {
				slow = true
			} else {
				a.matchKnown(n, &r)
			}
		}
		a.resolved = append(a.resolved, r)
	}
	if slow {
		a.knownAt = c.version
		return a.lookUp(a.p.viewLocked())
	}
	a.state.exact = a.coversLease()
	return nil
}

// lookup finds transaction ids among those of a leased batch. For a few acks it walks
// the batch; for many it sorts it once, so that acking 10,000 messages in one call is
// not a hundred million comparisons under the partition's lock.
type lookup struct {
	l      *leased
	sorted []hashedOffset // by hash, then offset; nil: walk
}

type hashedOffset struct {
	hash   uint64
	offset int64
}

// walkLimit is the number of comparisons from which sorting is cheaper.
const walkLimit = 1 << 13

func newLookup(l *leased, acks int) lookup {
	if l == nil || acks*len(l.ids) < walkLimit {
		return lookup{l: l}
	}
	sorted := make([]hashedOffset, len(l.ids))
	for i, h := range l.ids {
		sorted[i] = hashedOffset{h, l.from + int64(i)}
	}
	slices.SortFunc(sorted, func(a, b hashedOffset) int {
		return cmp.Or(cmp.Compare(a.hash, b.hash), cmp.Compare(a.offset, b.offset))
	})
	return lookup{l, sorted}
}

// find returns the smallest offset of the batch with that transaction id above
// committed, -1 for none, and whether one lies at or below.
func (u *lookup) find(id string, committed int64) (offset int64, below bool) {
	h := hashIDString(id)
	if u.sorted == nil {
		for i, v := range u.l.ids {
			if o := u.l.from + int64(i); v == h && o > committed {
				return o, below
			} else if v == h {
				below = true
			}
		}
		return -1, below
	}
	i, _ := slices.BinarySearchFunc(u.sorted, h, func(e hashedOffset, h uint64) int { return cmp.Compare(e.hash, h) })
	for ; i < len(u.sorted) && u.sorted[i].hash == h; i++ {
		if u.sorted[i].offset > committed {
			return u.sorted[i].offset, below
		}
		below = true
	}
	return -1, below
}

// coversLease reports whether the acks are all completed, under the live lease, and of
// exactly the ids that were delivered. Then the batch is done even where one id stands
// in it twice, which resolves to the first only.
func (a *acknowledge) coversLease() bool {
	l := a.c.lease
	if l == nil || a.leaseID == "" {
		return false
	}
	for n := range a.items {
		r := &a.resolved[n]
		if r.status != AckCompleted || !r.delivered || r.offset == l.end {
			return false // or the cursor gets there anyway
		}
	}
	acked := make([]uint64, 0, len(a.items))
	for _, i := range a.items {
		acked = append(acked, hashIDString(a.acks[i].TransactionID))
	}
	slices.Sort(acked)
	for _, h := range l.ids {
		if _, ok := slices.BinarySearch(acked, h); !ok {
			return false
		}
	}
	return true
}

// readLease reads the ids of a batch that was leased before a restart.
func (a *acknowledge) readLease() func() error {
	l, v := a.c.lease, a.p.viewLocked()
	return func() error {
		ids := make([]uint64, 0, l.end-l.from+1)
		var walkErr error
		err := a.b.batches(v, l.from, func(h *segment.Header, batch []byte) bool {
			if h.BaseOffset > l.end {
				return false
			}
			if h.Lost() {
				return true // as if removed by retention
			}
			s, err := newSpan(h, batch, l.from, int(l.end-max(h.BaseOffset, l.from)+1))
			if err != nil {
				walkErr = err
				return false
			}
			for int64(len(ids)) < s.first-l.from {
				ids = append(ids, 0) // removed by retention: resolves to nothing
			}
			for m := range s.messages() {
				ids = append(ids, m.deliveredHash())
			}
			return true
		})
		if err := errors.Join(err, walkErr); err != nil {
			return err
		}
		a.p.mu.Lock()
		defer a.p.mu.Unlock()
		l.ids = ids
		return nil
	}
}

// lookUp searches the ack index for what the leased batch does not know.
func (a *acknowledge) lookUp(v view) func() error {
	since := a.b.clock.since(a.b.clock.stamp(), a.p.queue.ackWindow().Milliseconds())
	return func() error {
		known := make([][]int64, len(a.items))
		f := &finder{b: a.b, v: v, limit: v.hwm}
		for n, i := range a.items {
			if a.resolved[n].offset >= 0 || a.resolved[n].below {
				continue
			}
			offsets, err := f.offsetsOf(a.acks[i].TransactionID, since)
			if err != nil {
				return err
			}
			known[n] = offsets
		}
		a.known = known
		return nil
	}
}

// matchKnown resolves item n among the offsets found by lookUp. Under a leased batch
// only what lies in its span counts above the cursor. Messages that were handed out the
// lease has told; what is left of the span is what a conflating group passes over.
func (a *acknowledge) matchKnown(n int, r *resolved) {
	best := int64(math.MaxInt64)
	for _, o := range a.known[n] {
		if o <= a.state.committed {
			r.below = true
		} else if !a.state.leased || o <= a.state.end {
			best = min(best, o)
		}
	}
	if best != math.MaxInt64 {
		r.offset = best
	}
}

// offsetsOf returns the offsets of the messages with that transaction id that were
// appended at or after since.
func (f *finder) offsetsOf(id string, since int64) (found []int64, err error) {
	if id == "" {
		return nil, nil
	}
	o, ok, err := f.mintedOffset(id, since)
	if err != nil {
		return nil, err
	}
	if ok {
		found = append(found, o) // and perhaps it was pushed again, with deduplication off
	}
	o, ok, err = f.announcedOffset(id, since)
	if err != nil {
		return nil, err
	}
	if ok {
		found = append(found, o)
	}
	candidates, err := f.b.ids.LookupSince(f.b.ids.Hash(f.v.number, []byte(id)), since, nil)
	if err != nil {
		return nil, err
	}
	for _, o := range candidates {
		if o < f.v.start {
			found = append(found, o) // removed by retention, still in the index
			continue
		}
		m, ok, err := f.at(o)
		if err != nil {
			return nil, err
		}
		if ok && m.CreatedAtMs >= since && string(m.TransactionID) == id {
			found = append(found, o)
		}
	}
	if o, ok := f.droppedOffset(id, since); ok && len(found) == 0 {
		found = append(found, o)
	}
	return found, nil
}

// droppedOffset reads the offset out of a transaction id that the broker seems to have
// minted for a message it has dropped meanwhile. That cannot be compared with the message
// any more, but an ack of it moves the cursor over nothing that is still there.
func (f *finder) droppedOffset(text string, since int64) (offset int64, ok bool) {
	id, err := uuid.Parse(text)
	if err != nil || len(text) != 36 || id.Version() != 7 {
		return 0, false
	}
	offset = offsetOfID(id)
	ms := msOfID(id)
	// What lies before the start is older than what lies there.
	return offset, offset < f.v.start && ms >= since && ms <= f.v.startMs
}

// msOfID returns when a UUIDv7 was minted.
func msOfID(id uuid.UUID) int64 { return int64(binary.BigEndian.Uint64(id[:8]) >> 16) }

func offsetOfID(id uuid.UUID) int64 {
	return int64(id[11])<<32 | int64(binary.BigEndian.Uint32(id[12:])) // see segment.MessageID
}

// mintedOffset reads the offset out of a transaction id that the broker minted, and
// checks that the message there has it.
func (f *finder) mintedOffset(text string, since int64) (offset int64, ok bool, err error) {
	id, err := uuid.Parse(text)
	if err != nil || len(text) != 36 {
		return 0, false, nil
	}
	offset = offsetOfID(id)
	m, ok, err := f.at(offset)
	if err != nil || !ok || m.TransactionID != nil || m.ID != id || m.CreatedAtMs < since {
		return 0, false, err
	}
	return offset, true, nil
}
