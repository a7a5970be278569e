package broker

import (
	"cmp"
	"container/heap"
	"errors"

	"github.com/google/uuid"

	"github.com/skepmq/skep/log/journal"
	"github.com/skepmq/skep/log/record"
)

// letterWalk goes through the dead letters of one queue, newest first. It looks at those
// that were there when it began, and does so in steps: a million of them must not keep
// acknowledgements that file new ones waiting.
type letterWalk struct {
	q     *queue
	match letterMatch
	rest  []*deadLetter // those not looked at yet, oldest first
}

// letterMatch selects dead letters; zero fields match all.
type letterMatch struct {
	partition uint64
	group     string
	fromMs    int64 // of the failure, inclusive
	toMs      int64 // inclusive; 0: no bound
}

// walkStep is how many dead letters are looked at under one locking.
const walkStep = 2048

func newLetterWalk(q *queue, match letterMatch) *letterWalk {
	q.dead.mu.Lock()
	defer q.dead.mu.Unlock()
	return &letterWalk{q, match, q.dead.list}
}

// take returns the next matching dead letters, up to n; none are left when it returns
// none.
func (w *letterWalk) take(n int) (found []*deadLetter) {
	for len(w.rest) > 0 && len(found) < n {
		found = w.step(found, n)
	}
	return found
}

func (w *letterWalk) step(found []*deadLetter, n int) []*deadLetter {
	w.q.dead.mu.Lock()
	defer w.q.dead.mu.Unlock()
	for range walkStep {
		last := len(w.rest) - 1
		if last < 0 || len(found) == n {
			break
		}
		l := w.rest[last]
		w.rest = w.rest[:last]
		if l.FailedMs < w.match.fromMs {
			w.rest = nil // and so did all before it
			break
		}
		if l.usable() && w.match.matches(l) {
			found = append(found, l)
		}
	}
	return found
}

func (m *letterMatch) matches(l *deadLetter) bool {
	return (m.partition == 0 || l.Partition == m.partition) && (m.group == "" || l.GroupName == m.group) &&
		(m.toMs == 0 || l.FailedMs <= m.toMs)
}

// letterMerge merges the dead letters of several queues, newest first. It holds a few of
// each queue at a time.
type letterMerge struct {
	heads []mergeHead
}

type mergeHead struct {
	walk *letterWalk
	next []*deadLetter // never empty
}

// mergeAhead is how many dead letters of a queue are taken at a time.
const mergeAhead = 64

func (m *letterMerge) Len() int      { return len(m.heads) }
func (m *letterMerge) Swap(i, j int) { m.heads[i], m.heads[j] = m.heads[j], m.heads[i] }
func (m *letterMerge) Push(x any)    { m.heads = append(m.heads, x.(mergeHead)) }

// Less orders by the time of failure and, so that pages fit together, by queue.
func (m *letterMerge) Less(i, j int) bool {
	x, y := m.heads[i].next[0], m.heads[j].next[0]
	return cmp.Or(cmp.Compare(y.FailedMs, x.FailedMs), cmp.Compare(x.Queue, y.Queue)) < 0
}

func (m *letterMerge) Pop() any {
	last := len(m.heads) - 1
	h := m.heads[last]
	m.heads = m.heads[:last]
	return h
}

func (m *letterMerge) add(w *letterWalk) {
	if next := w.take(mergeAhead); len(next) > 0 {
		m.heads = append(m.heads, mergeHead{w, next})
	}
}

// next returns the newest dead letter that is left, and its queue; nil for none.
func (m *letterMerge) next() (*queue, *deadLetter) {
	if len(m.heads) == 0 {
		return nil, nil
	}
	h := &m.heads[0]
	q, l := h.walk.q, h.next[0]
	if h.next = h.next[1:]; len(h.next) == 0 {
		h.next = h.walk.take(mergeAhead)
	}
	if len(h.next) == 0 {
		heap.Pop(m)
	} else {
		heap.Fix(m, 0)
	}
	return q, l
}

// mergeDeadLetters merges those of queues that match, in one partition of each if
// partition names one.
func mergeDeadLetters(queues []*queue, partition string, match letterMatch) *letterMerge {
	m := &letterMerge{}
	for _, q := range queues {
		if partition != "" {
			p := q.partition(partition)
			if p == nil {
				continue
			}
			match.partition = p.number
		}
		m.add(newLetterWalk(q, match))
	}
	heap.Init(m)
	return m
}

// maxDeadLetterPage bounds a page of dead letters; so does Options.MaxAnswerBytes.
const maxDeadLetterPage = 1000

// DeadLetters returns the dead letters that match f, newest first, with payloads. A page
// has 1,000 at the most, and fewer when their payloads exceed Options.MaxAnswerBytes. One
// whose payload is damaged is listed without it.
// What it passes over costs a look at memory; only payloads of the page are read.
func (b *Broker) DeadLetters(t Tenant, f DeadLetterFilter) ([]DeadLetter, error) {
	match := letterMatch{group: f.Group, fromMs: f.FromMs, toMs: f.ToMs}
	merge := mergeDeadLetters(b.deadLetterQueues(t, f.Queue), f.Partition, match)
	for range f.Offset {
		if _, l := merge.next(); l == nil {
			return nil, nil
		}
	}
	var page []DeadLetter
	for bytes := int64(0); len(page) < min(f.Limit, maxDeadLetterPage); {
		q, d := merge.next()
		if d == nil {
			break
		}
		l := b.describe(q, &d.DeadLetter)
		ok, err := b.loadPayload(&l)
		switch {
		case errors.Is(err, ErrPartitionDamaged):
			l.Damaged = true
		case err != nil:
			return nil, err
		case !ok:
			continue // deleted with its queue, just now
		}
		if bytes += l.size(); bytes > b.o.MaxAnswerBytes && len(page) > 0 {
			break
		}
		page = append(page, l)
	}
	return page, nil
}

func (b *Broker) deadLetterQueues(t Tenant, name string) (queues []*queue) {
	if name != "" {
		if q := b.queue(t, name); q != nil {
			queues = append(queues, q)
		}
		return queues
	}
	for _, q := range b.allQueues() {
		if q.belongs(t) {
			queues = append(queues, q)
		}
	}
	return queues
}

func (b *Broker) describe(q *queue, d *record.DeadLetter) DeadLetter {
	l := DeadLetter{
		ID: d.ID, TransactionID: d.TransactionID, MessageID: d.MessageID,
		PartitionID: partitionID(b.directory, d.Partition), Queue: q.name, Group: d.GroupName,
		Error: d.Error, RetryCount: int64(d.Retries), CreatedAtMs: d.CreatedMs, FailedAtMs: d.FailedMs,
		queue: q, offset: d.Offset,
	}
	if p := b.partitions.get(d.Partition); p != nil {
		l.Partition = p.name
	}
	return l
}

// size is about what the dead letter takes in an answer.
func (l *DeadLetter) size() int64 {
	return messageOverhead + int64(len(l.Payload)+len(l.TransactionID)+len(l.Error)+len(l.Queue)+len(l.Partition)+len(l.Group))
}

// loadPayload reads the payload of l. ok is false if it is gone, with its queue. Errors:
// ErrPartitionDamaged, those of the disk.
func (b *Broker) loadPayload(l *DeadLetter) (ok bool, err error) {
	h := l.queue.hiddenPartition()
	h.mu.Lock()
	v := h.viewLocked()
	h.mu.Unlock()
	m, ok, err := b.messageAt(v, l.offset, v.hwm)
	if err != nil {
		h.mu.Lock()
		defer h.mu.Unlock()
		return false, b.damageLocked(h, err)
	}
	l.Payload, l.Encrypted, l.ProducerSub, l.TraceID = m.Payload, m.Encrypted, m.ProducerSub, m.TraceID
	return ok, nil
}

// DeleteDeadLetter removes the dead letters of one message, of every group, and returns
// how many there were, once that is on disk.
func (b *Broker) DeleteDeadLetter(t Tenant, partitionID uuid.UUID, transactionID string) (int, error) {
	q, found := b.deadLettersAt(t, partitionID, transactionID)
	if len(found) == 0 {
		return 0, b.rested(nil)
	}
	return b.removeDeadLetters(q, found)
}

// purgeStep is how many removals of a purge are one entry of the journal.
const purgeStep = 4096

// PurgeDeadLetters removes the dead letters of a queue, or of one group of it, and
// returns how many there were, once that is on disk. It is not atomic: after a crash some
// may be gone.
func (b *Broker) PurgeDeadLetters(t Tenant, queueName, group string) (removed int, err error) {
	q := b.queue(t, queueName)
	if q == nil {
		return 0, b.rested(nil)
	}
	walk := newLetterWalk(q, letterMatch{group: group})
	for {
		letters := walk.take(purgeStep)
		if len(letters) == 0 {
			return removed, b.rested(nil) // others may have removed the rest
		}
		n, err := b.removeDeadLetters(q, letters)
		if removed += n; err != nil {
			return removed, err
		}
	}
}

// removeDeadLetters removes those of letters that nobody else has taken meanwhile. They
// leave memory before their record is written: a catalogue that is rewritten in between
// must not have them, since it may outlive the journal's record of the removal. Who looks
// what payloads are needed sees none of both or both, so that what memory says is not
// needed is not needed by what the journal says either; see needs.
func (b *Broker) removeDeadLetters(q *queue, letters []*deadLetter) (int, error) {
	var ticket journal.Ticket
	removed := q.dead.removeUsable(q.number, letters, func(frames []byte) {
		b.changed.record(frames)
		_, ticket = b.journal.Append(frames, false)
	})
	if removed == 0 {
		return 0, b.rested(nil)
	}
	if err := ticket.Wait(); err != nil {
		return 0, b.storageError(err)
	}
	b.trimHidden(q)
	return removed, nil
}

// deadLettersAt returns the dead letters of a message's address, newest first, and their
// queue. It waits for replays that are on their way: whether one of them is left is not
// decided yet.
func (b *Broker) deadLettersAt(t Tenant, id uuid.UUID, transactionID string) (*queue, []*deadLetter) {
	p := b.partitionByID(t, id)
	if p == nil {
		return nil, nil
	}
	for {
		found, movingC := p.queue.dead.lookup(p.number, transactionID)
		if movingC == nil {
			return p.queue, found
		}
		<-movingC
	}
}

// PartitionName tells which partition of which queue has an id, if the tenant has one.
func (b *Broker) PartitionName(t Tenant, id uuid.UUID) (queue, partition string, ok bool) {
	p := b.partitionByID(t, id)
	if p == nil {
		return "", "", false
	}
	return p.queue.name, p.name, true
}

// partitionByID returns the tenant's partition with that id, nil if there is none.
func (b *Broker) partitionByID(t Tenant, id uuid.UUID) *partition {
	number, ok := partitionNumber(b.directory, id)
	p := b.partitions.get(number)
	if !ok || p == nil || p.hidden || !p.queue.belongs(t) || p.queue.deleted.Load() {
		return nil
	}
	return p
}
