package broker

import (
	"slices"
	"sync/atomic"

	"github.com/google/uuid"
)

// Counter says what is counted. The values are on disk, in the history of the server: new
// ones go to the end.
type Counter int

// What is counted. The requests of a queue are those that had to do with it.
const (
	PushRequests   Counter = iota
	PushedMessages         // stored in a queue, those out of the spool included
	PopRequests            // answered, with messages or empty
	PoppedMessages         // delivered, each time
	EmptyPops              // answered empty
	AckRequests            // acknowledging requests, transactions left out
	AckedMessages          // acknowledged as completed
	FailedAcks             // given back or set aside, and acknowledgements that were refused
	Transactions           // committed
	DeadLettered           // messages set aside
	Conflated              // messages passed undelivered, by groups that conflate
	LagMs                  // ages of the delivered messages, added up
	PartitionsCreated
	PartitionsRemoved
	DroppedByAge      // messages dropped by retentionSeconds
	DroppedCompleted  // by completedRetentionSeconds
	DroppedByEviction // by maxWaitTimeSeconds
	EvictedUnread     // messages that age rules have taken from a group, each group's
	Counters          // how many there are
)

// Traffic is a value of each counter.
type Traffic [Counters]int64

// Minus returns what has come since earlier.
func (t *Traffic) Minus(earlier *Traffic) (d Traffic) {
	for i := range t {
		d[i] = t[i] - earlier[i]
	}
	return d
}

// Add adds other to t.
func (t *Traffic) Add(other *Traffic) {
	for i := range t {
		t[i] += other[i]
	}
}

// traffic counts on the way of requests: atomics, and no lock.
type traffic struct {
	counters [Counters]atomic.Int64
	maxLagMs atomic.Int64 // of a delivered message, since it was last taken
	parked   atomic.Int64
}

func (t *traffic) load() (all Traffic) {
	for i := range all {
		all[i] = t.counters[i].Load()
	}
	return all
}

// count counts something of a queue, for the queue and for the broker.
func (b *Broker) count(q *queue, c Counter, n int64) {
	if n != 0 {
		b.traffic.counters[c].Add(n)
		q.traffic.counters[c].Add(n)
	}
}

// touched holds the queues that a request has had to do with: it counts once for each.
type touched struct {
	few  [4]*queue
	n    int
	more map[*queue]struct{}
}

// first reports whether q has not been touched before, and remembers it.
func (t *touched) first(q *queue) bool {
	if slices.Contains(t.few[:t.n], q) {
		return false
	}
	if t.n < len(t.few) {
		t.few[t.n] = q
		t.n++
		return true
	}
	if _, ok := t.more[q]; ok {
		return false
	}
	if t.more == nil {
		t.more = map[*queue]struct{}{}
	}
	t.more[q] = struct{}{}
	return true
}

// countPush counts a request for the broker and each queue that it stored something in; its
// messages are counted as they are appended.
func (b *Broker) countPush(batches []pushBatch) {
	b.traffic.counters[PushRequests].Add(1)
	var queues touched
	for i := range batches {
		if p := batches[i].p; p != nil && queues.first(p.queue) {
			p.queue.traffic.counters[PushRequests].Add(1)
		}
	}
}

// count counts an answered pop.
func (p *popper) count(res *PopResult) {
	b := p.b
	b.traffic.counters[PopRequests].Add(1)
	if len(res.Parts) == 0 {
		b.traffic.counters[EmptyPops].Add(1)
		if p.queue != nil {
			p.queue.traffic.counters[PopRequests].Add(1)
			p.queue.traffic.counters[EmptyPops].Add(1)
		}
		return
	}
	now := b.clock.stamp()
	var queues touched
	for i := range res.Parts {
		part := &res.Parts[i]
		if queues.first(part.of) {
			part.of.traffic.counters[PopRequests].Add(1)
		}
		var messages, lag, longest int64
		for j := range part.Spans {
			s := &part.Spans[j]
			age := max(now-s.timestampMs, 0)
			messages += int64(s.count)
			lag += age * int64(s.count)
			longest = max(longest, age)
		}
		b.count(part.of, PoppedMessages, messages)
		b.count(part.of, LagMs, lag)
		raise(&part.of.traffic.maxLagMs, longest)
	}
}

// park counts the pop among those that wait for its queue, until the returned call. One
// that waits for labels, or for a queue that does not exist, is none of a queue's.
func (p *popper) park() (leave func()) {
	q := p.queue
	if q == nil {
		return func() {}
	}
	q.traffic.parked.Add(1)
	return func() { q.traffic.parked.Add(-1) }
}

// countAcks counts the verdicts on the acks of one partition.
func (b *Broker) countAcks(q *queue, items []int32, acks []Ack, results []AckResult) {
	var done, letters, conflated int64
	for _, i := range items {
		if results[i].Success && acks[i].Status == AckCompleted {
			done++
		}
		if results[i].DeadLetter {
			letters++
		}
		conflated += results[i].Conflated
	}
	b.count(q, AckedMessages, done)
	b.count(q, FailedAcks, int64(len(items))-done)
	b.count(q, DeadLettered, letters)
	b.count(q, Conflated, conflated)
}

// count counts a committed transaction, once for each of its queues.
func (tx *transaction) count(x *Transaction, r *TransactionResult) {
	tx.b.traffic.counters[Transactions].Add(1)
	var queues touched
	touch := func(q *queue) {
		if queues.first(q) {
			q.traffic.counters[Transactions].Add(1)
		}
	}
	for i := range tx.lanes {
		lane := &tx.lanes[i]
		touch(lane.p.queue)
		for _, part := range lane.parts {
			tx.b.count(lane.p.queue, PushedMessages, int64(part.count))
		}
	}
	for _, a := range tx.acks {
		touch(a.p.queue)
		tx.b.countAcks(a.p.queue, a.items, x.Acks, r.Acked)
	}
}

// QueueTraffic is what went through a queue since Open, and what there is now.
type QueueTraffic struct {
	ID              uuid.UUID
	Tenant          Tenant
	Name            string
	Namespace, Task string
	Partitions      int
	DeadLetters     int64
	Parked          int64 // pops that wait for this queue
	Damaged         int   // partitions out of service
	Traffic         Traffic
	MaxLagMs        int64 // the longest that a message had waited for its delivery
}

// Traffic returns what went through every queue, hidden ones left out, without a look at a
// partition. With roll MaxLagMs begins anew.
func (b *Broker) Traffic(roll bool) (all []QueueTraffic) {
	for _, q := range b.allQueues() {
		if q.isSpool() {
			continue
		}
		o := q.options.Load()
		t := QueueTraffic{
			ID: q.id, Tenant: q.tenant, Name: q.name, Namespace: o.Namespace, Task: o.Task, Partitions: q.named(),
			DeadLetters: q.dead.count(), Parked: q.traffic.parked.Load(), Damaged: b.damages.in(q), Traffic: q.traffic.load(),
		}
		if roll {
			t.MaxLagMs = q.traffic.maxLagMs.Swap(0)
		} else {
			t.MaxLagMs = q.traffic.maxLagMs.Load()
		}
		all = append(all, t)
	}
	return all
}
