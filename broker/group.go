package broker

import (
	"math/bits"
	"sync"
	"sync/atomic"

	"github.com/skepmq/skep/log/record"
)

// subscription modes; the numbers are in group records.
const (
	modeAll       uint8 = 0 // from the oldest retained message
	modeNew       uint8 = 1 // from the first message after the registration
	modeTimestamp uint8 = 2 // from the first batch at or after an instant
	// modeNowhere is no subscription mode. The group's cursors were deleted and its
	// registration kept: until its next contact it has no place.
	modeNowhere uint8 = 3
)

// group is a consumer group of one queue: its subscription, the partitions that may have
// something for it, and the requests that wait for them.
type group struct {
	queue     *queue
	number    uint32
	name      string
	createdMs int64

	// sub is the subscription, replaced whole. A group without a registration has
	// been met by pinned pops only; it starts at the oldest message.
	sub       atomic.Pointer[subscription]
	announced atomic.Bool // its record is in the journal
	// deleted is set under the queue's lock when the record of the deletion is in the
	// journal, and looked at under the lock of whichever partition is to be worked on:
	// whoever has deleted the group walks over them all afterwards.
	deleted atomic.Bool
	// placing says that a seek's record is on its way. What is popped waits for it.
	placing atomic.Bool
	// durable says that a registration is on disk. Until then every pop waits for that
	// before it tells anybody what the group's policy is.
	durable atomic.Bool
	// evicted counts messages that age rules have dropped before the group had done them,
	// since Open.
	evicted atomic.Int64

	ready ready
}

// subscription says where a group starts in partitions in which it has no cursor.
type subscription struct {
	registered bool
	conflation bool
	place
	// In partitions numbered below placedBelow a seek has placed the group.
	placedBelow uint64
	placed      place
	// consumed says that the group had acknowledged something before that.
	consumed bool
}

// place is a place in every partition at once.
type place struct {
	mode      uint8
	instantMs int64
}

// start returns where the group starts in a partition. ok is false where it is nowhere
// yet: it has no registration, and no seek has placed it there.
func (s *subscription) start(partition uint64) (at place, ok bool) {
	if partition < s.placedBelow {
		return s.placed, s.placed.mode != modeNowhere
	}
	return s.place, s.registered
}

// dormant reports whether the registration awaits the group's next contact.
func (s *subscription) dormant() bool { return s.placed.mode == modeNowhere }

// settled reports whether the group needs no registering.
func (s *subscription) settled() bool { return s.registered && !s.dormant() }

func newGroup(q *queue, number uint32, name string, createdMs int64) *group {
	g := &group{queue: q, number: number, name: name, createdMs: createdMs}
	g.sub.Store(&subscription{})
	return g
}

func (g *group) appendRecord(dst []byte) []byte {
	s := g.sub.Load()
	return record.AppendGroup(dst, &record.Group{
		Number: g.number, Queue: g.queue.number, Registered: s.registered, Conflation: s.conflation,
		Mode: s.mode, InstantMs: s.instantMs,
		PlacedBelow: s.placedBelow, PlacedMode: s.placed.mode, PlacedMs: s.placed.instantMs,
		CreatedMs: g.createdMs, Name: g.name, Consumed: s.consumed,
	})
}

// ready is the FIFO of partitions that may have something to deliver to the group and
// no live lease. It may hold a partition that turns out to have nothing; it never lacks
// one that has something, unless a pop is looking at it, its cursor is busy, or the
// wheel will offer it.
//
// Partitions from scan on have not been looked at since the group or the process
// started: they are all candidates, without an entry each. So a group on a queue of a
// million partitions costs nothing until it pops, and a restart rebuilds nothing.
type ready struct {
	mu      sync.Mutex
	ring    []uint32 // partition indexes; head and count say which part is in use
	head    int
	count   int
	queued  []uint64 // bit set: the index is in the ring
	scan    uint32   // every index from here on is a candidate
	scanned bool     // the latest candidate came from there
	// waiters wait for any partition, oldest first; pinned ones for one partition.
	waiters crowd
	pinned  map[uint32]*waiterList
}

// offer says that the partition at index may have something to deliver, and wakes one
// waiting request for it.
func (r *ready) offer(index uint32) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if index < r.scan {
		r.pushLocked(index)
	}
	if len(r.pinned) > 0 {
		if l := r.pinned[index]; l != nil && l.wakeFirst() {
			return
		}
	}
	r.waiters.wakeFirst()
}

// take returns the next candidate among the first partitions of the queue.
func (r *ready) take(partitions uint32) (index uint32, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	// In turns while both have some: partitions that keep getting work must not starve
	// those that nobody has looked at yet.
	r.scanned = !r.scanned && r.scan < partitions
	if r.count > 0 && !r.scanned {
		index = r.ring[r.head]
		r.head = (r.head + 1) & (len(r.ring) - 1)
		r.count--
		r.queued[index/64] &^= 1 << (index % 64)
		return index, true
	}
	if r.scan < partitions {
		r.scan++
		return r.scan - 1, true
	}
	return 0, false
}

// emptyLocked reports that no candidate is left among the first partitions.
func (r *ready) emptyLocked(partitions uint32) bool {
	return r.count == 0 && r.scan >= partitions
}

// passOn wakes another waiting request if candidates are left: a woken request that
// took nothing, or not all, hands the wake-up on.
func (r *ready) passOn(partitions uint32) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.emptyLocked(partitions) {
		r.waiters.wakeFirst()
	}
}

// wait lets w wait for any partition.
func (r *ready) wait(w *waiter) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.waiters.eager.add(w, &r.mu)
}

// waitPinned lets w wait for one partition, until leftPinned.
func (r *ready) waitPinned(w *waiter, index uint32) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.pinned == nil {
		r.pinned = map[uint32]*waiterList{}
	}
	l := r.pinned[index]
	if l == nil {
		l = &waiterList{}
		r.pinned[index] = l
	}
	l.add(w, &r.mu)
}

func (r *ready) leftPinned(index uint32) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if l := r.pinned[index]; l != nil && l.first == nil {
		delete(r.pinned, index)
	}
}

func (r *ready) pushLocked(index uint32) {
	word, bit := int(index/64), uint64(1)<<(index%64)
	for len(r.queued) <= word {
		r.queued = append(r.queued, 0)
	}
	if r.queued[word]&bit != 0 {
		return
	}
	r.queued[word] |= bit
	if r.count == len(r.ring) {
		r.growLocked()
	}
	r.ring[(r.head+r.count)&(len(r.ring)-1)] = index
	r.count++
}

func (r *ready) growLocked() {
	size := max(16, 1<<bits.Len(uint(len(r.ring))))
	ring := make([]uint32, size)
	for i := range r.count {
		ring[i] = r.ring[(r.head+i)&(len(r.ring)-1)]
	}
	r.ring, r.head = ring, 0
}

// lookAgain makes every partition a candidate.
func (r *ready) lookAgain() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.scan = 0
	r.waiters.wakeFirst()
	for _, l := range r.pinned {
		for l.wakeFirst() {
		}
	}
}

// wakeAll wakes every waiting request, for changes that concern all: a deleted queue,
// a switch.
func (r *ready) wakeAll() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.waiters.wakeAll()
	for _, l := range r.pinned {
		for l.wakeFirst() {
		}
	}
}
