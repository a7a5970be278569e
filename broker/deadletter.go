package broker

import (
	"cmp"
	"maps"
	"slices"
	"sync"

	"github.com/google/uuid"

	"github.com/skepmq/skep/log/record"
	"github.com/skepmq/skep/segment"
)

// deadLetters are the dead letters of one queue, without their payloads.
type deadLetters struct {
	mu   sync.Mutex
	list []*deadLetter // oldest first; removed ones stay until they are half of it
	byID map[uuid.UUID]*deadLetter
	by   map[uint64]int64 // how many, by partition
}

type deadLetter struct {
	record.DeadLetter
	visible bool // on disk
	moving  bool // a replay is on its way
	removed bool
}

func (ds *deadLetters) add(d *record.DeadLetter, visible bool) {
	ds.mu.Lock()
	defer ds.mu.Unlock()
	if ds.byID == nil {
		ds.byID, ds.by = map[uuid.UUID]*deadLetter{}, map[uint64]int64{}
	}
	if ds.byID[d.ID] != nil {
		return // replayed over its home
	}
	l := &deadLetter{DeadLetter: *d, visible: visible}
	ds.byID[d.ID] = l
	ds.by[d.Partition]++
	ds.list = append(ds.list, l)
}

// publish makes everything filed so far visible that the hidden partition's high
// watermark covers.
func (ds *deadLetters) publish(hwm int64) {
	ds.mu.Lock()
	defer ds.mu.Unlock()
	for i := len(ds.list) - 1; i >= 0 && !ds.list[i].visible; i-- {
		ds.list[i].visible = ds.list[i].Offset < hwm
	}
}

func (ds *deadLetters) remove(id uuid.UUID) {
	ds.mu.Lock()
	defer ds.mu.Unlock()
	ds.removeLocked(id)
}

func (ds *deadLetters) removeLocked(id uuid.UUID) {
	l := ds.byID[id]
	if l == nil {
		return
	}
	delete(ds.byID, id)
	if ds.by[l.Partition]--; ds.by[l.Partition] == 0 {
		delete(ds.by, l.Partition)
	}
	l.removed = true
	if len(ds.list) > 2*len(ds.byID)+16 {
		ds.list = slices.DeleteFunc(ds.list, func(x *deadLetter) bool { return x.removed })
	}
}

// count returns how many there are.
func (ds *deadLetters) count() int64 {
	ds.mu.Lock()
	defer ds.mu.Unlock()
	return int64(len(ds.byID))
}

// counts returns how many there are by partition; nil: none.
func (ds *deadLetters) counts() map[uint64]int64 {
	ds.mu.Lock()
	defer ds.mu.Unlock()
	return maps.Clone(ds.by)
}

// newest returns the visible ones that match, newest first.
func (ds *deadLetters) newest(match func(*record.DeadLetter) bool) (found []record.DeadLetter) {
	ds.mu.Lock()
	defer ds.mu.Unlock()
	for _, l := range slices.Backward(ds.list) {
		if l.visible && !l.moving && !l.removed && match(&l.DeadLetter) {
			found = append(found, l.DeadLetter)
		}
	}
	return found
}

// emit appends the record of each to buf, handing full buffers on.
func (ds *deadLetters) emit(buf []byte, emit func([]byte) ([]byte, error)) ([]byte, error) {
	ds.mu.Lock()
	list := slices.DeleteFunc(slices.Clone(ds.list), func(x *deadLetter) bool { return x.removed })
	ds.mu.Unlock()
	for _, l := range list {
		var err error
		if buf, err = emit(record.AppendDeadLetter(buf, &l.DeadLetter)); err != nil {
			return buf, err
		}
	}
	return buf, nil
}

func (q *queue) hiddenPartition() *partition {
	q.mu.RLock()
	defer q.mu.RUnlock()
	return q.hidden
}

// transactionID is the id that the outside knows m by.
func (m *Message) transactionID() string {
	if m.TransactionID != nil {
		return string(m.TransactionID)
	}
	return m.ID.String()
}

// deadLetterFrames encodes the payload's batch and the dead letter's record, and says
// where the batch begins. The hidden partition is locked.
func (b *Broker) deadLetterFrames(h *partition, d *record.DeadLetter, m *Message, now int64) (frames []byte, batchAt int) {
	if !h.announced {
		frames = h.appendRecord(frames)
	}
	start := len(frames)
	frames = record.BeginFrame(frames, record.KindBatch)
	batchAt = len(frames)
	raw := segment.AppendMessage(nil, &segment.Message{
		TransactionID: []byte(d.TransactionID), Payload: m.Payload, ProducerSub: m.ProducerSub,
	})
	frames = segment.AppendBatch(frames, &segment.Header{Count: 1}, raw)
	stamp := max(now, h.lastMs)
	segment.Seal(frames[batchAt:], h.number, h.end, stamp, b.newBatchID(stamp, h.end))
	frames = record.EndFrame(frames, start)
	letter := record.AppendDeadLetter(nil, d)
	b.changed.record(letter)
	return append(frames, letter...), batchAt
}

// batchLen returns the length of the batch at the front of b, which was just encoded.
func batchLen(b []byte) int {
	h, err := segment.DecodeHeader(b)
	if err != nil {
		panic("BUG: broker: encoded batch does not decode: " + err.Error())
	}
	return h.Len()
}

// maxDeadLetterPage bounds a page of dead letters; so does Options.MaxAnswerBytes.
const maxDeadLetterPage = 1000

// DeadLetters returns the dead letters that match f, newest first, with payloads. A page
// has 1,000 at the most, and fewer when their payloads exceed Options.MaxAnswerBytes.
func (b *Broker) DeadLetters(t Tenant, f DeadLetterFilter) ([]DeadLetter, error) {
	var page []DeadLetter
	for _, q := range b.deadLetterQueues(t, f.Queue) {
		for _, d := range q.dead.newest(func(d *record.DeadLetter) bool { return b.matches(d, f) }) {
			page = append(page, b.describe(q, &d))
		}
	}
	slices.SortStableFunc(page, func(x, y DeadLetter) int {
		return int(min(max(y.FailedAtMs-x.FailedAtMs, -1), 1))
	})
	page = page[min(max(f.Offset, 0), len(page)):]
	page = page[:min(max(f.Limit, 0), maxDeadLetterPage, len(page))]
	loaded, bytes := page[:0], int64(0)
	for _, l := range page {
		ok, err := b.loadPayload(&l)
		if err != nil {
			return nil, err
		}
		if !ok {
			continue // deleted with its queue, just now
		}
		if bytes += l.size(); bytes > b.o.MaxAnswerBytes && len(loaded) > 0 {
			break
		}
		loaded = append(loaded, l)
	}
	return loaded, nil
}

func (b *Broker) deadLetterQueues(t Tenant, name string) (queues []*queue) {
	if name != "" {
		if q := b.queue(t, name); q != nil {
			queues = append(queues, q)
		}
		return queues
	}
	for _, q := range b.allQueues() {
		if q.tenant == t {
			queues = append(queues, q)
		}
	}
	return queues
}

func (b *Broker) matches(d *record.DeadLetter, f DeadLetterFilter) bool {
	if f.Group != "" && d.GroupName != f.Group {
		return false
	}
	if f.Partition != "" {
		if p := b.partitions.get(d.Partition); p == nil || p.name != f.Partition {
			return false
		}
	}
	return d.FailedMs >= f.FromMs && (f.ToMs == 0 || d.FailedMs <= f.ToMs)
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

// loadPayload reads the payload of l. ok is false if it is gone, with its queue.
func (b *Broker) loadPayload(l *DeadLetter) (ok bool, err error) {
	h := l.queue.hiddenPartition()
	h.mu.Lock()
	v := h.viewLocked()
	h.mu.Unlock()
	m, ok, err := b.messageAt(v, l.offset, v.hwm)
	l.Payload, l.ProducerSub = m.Payload, m.ProducerSub
	return ok, err
}

// DeleteDeadLetter removes the dead letters of one message, of every group, and returns
// how many there were, once that is on disk.
func (b *Broker) DeleteDeadLetter(t Tenant, partitionID uuid.UUID, transactionID string) (int, error) {
	q, match := b.deadLetterAddress(t, partitionID, transactionID)
	if q == nil {
		return 0, nil
	}
	return b.removeDeadLetters(q, q.dead.newest(match))
}

// PurgeDeadLetters removes the dead letters of a queue, or of one group of it.
func (b *Broker) PurgeDeadLetters(t Tenant, queueName, group string) (int, error) {
	q := b.queue(t, queueName)
	if q == nil {
		return 0, nil
	}
	return b.removeDeadLetters(q, q.dead.newest(func(d *record.DeadLetter) bool {
		return group == "" || d.GroupName == group
	}))
}

func (b *Broker) removeDeadLetters(q *queue, gone []record.DeadLetter) (int, error) {
	if len(gone) == 0 {
		return 0, nil
	}
	var frames []byte
	for i := range gone {
		frames = record.AppendDeadLetterRemoved(frames, q.number, gone[i].ID)
	}
	b.changed.record(frames)
	_, ticket := b.journal.Append(frames, false)
	for i := range gone {
		q.dead.remove(gone[i].ID)
	}
	if err := ticket.Wait(); err != nil {
		return 0, b.storageError(err)
	}
	b.trimHidden(q)
	return len(gone), nil
}

// deadLetterAddress returns the queue of a partition and what selects the dead letters
// of one of its messages.
func (b *Broker) deadLetterAddress(t Tenant, id uuid.UUID, transactionID string) (*queue, func(*record.DeadLetter) bool) {
	number, ok := partitionNumber(b.directory, id)
	p := b.partitions.get(number)
	if !ok || p == nil || p.queue.tenant != t {
		return nil, nil
	}
	return p.queue, func(d *record.DeadLetter) bool {
		return d.Partition == number && d.TransactionID == transactionID
	}
}

// ReplayDeadLetterAt moves the newest dead letter of a message back to its partition.
func (b *Broker) ReplayDeadLetterAt(t Tenant, partitionID uuid.UUID, transactionID string) (ReplayResult, error) {
	q, match := b.deadLetterAddress(t, partitionID, transactionID)
	if q == nil {
		return ReplayResult{}, ErrDeadLetterNotFound
	}
	found := q.dead.newest(match)
	if len(found) == 0 {
		return ReplayResult{}, ErrDeadLetterNotFound
	}
	return b.replay(t, q, found[0].ID, nil, nil)
}

// ReplayDeadLetter moves a dead letter to a queue and partition, nil for its own. The
// message gets the transaction id "dlq:" and the dead letter's id, so that a repeat
// cannot store it twice; message and removal are one entry of the journal.
func (b *Broker) ReplayDeadLetter(t Tenant, id uuid.UUID, queueName, partitionName *string) (ReplayResult, error) {
	for _, q := range b.deadLetterQueues(t, "") {
		if q.dead.has(id) {
			return b.replay(t, q, id, queueName, partitionName)
		}
	}
	return ReplayResult{}, ErrDeadLetterNotFound
}

func (ds *deadLetters) has(id uuid.UUID) bool {
	ds.mu.Lock()
	defer ds.mu.Unlock()
	l := ds.byID[id]
	return l != nil && l.visible
}

// reserve lets one replay have the dead letter.
func (ds *deadLetters) reserve(id uuid.UUID, moving bool) (record.DeadLetter, bool) {
	ds.mu.Lock()
	defer ds.mu.Unlock()
	l := ds.byID[id]
	if l == nil || !l.visible || l.moving == moving {
		return record.DeadLetter{}, false
	}
	l.moving = moving
	return l.DeadLetter, true
}

func (b *Broker) replay(t Tenant, from *queue, id uuid.UUID, queueName, partitionName *string) (ReplayResult, error) {
	if !b.hasSpace() {
		return ReplayResult{}, ErrStorageFull
	}
	d, ok := from.dead.reserve(id, true)
	if !ok {
		return ReplayResult{}, ErrDeadLetterNotFound
	}
	letter := b.describe(from, &d)
	if ok, err := b.loadPayload(&letter); !ok || err != nil {
		from.dead.reserve(id, false)
		return ReplayResult{}, cmp.Or(err, ErrDeadLetterNotFound)
	}
	r := ReplayResult{DeadLetter: letter, Queue: letter.Queue, Partition: letter.Partition, TransactionID: "dlq:" + letter.ID.String()}
	if queueName != nil {
		r.Queue = *queueName
	}
	if partitionName != nil {
		r.Partition = *partitionName
	}
	removal := record.AppendDeadLetterRemoved(nil, from.number, id)
	err := b.move(t, &r, removal, func() { from.dead.remove(id) })
	if err != nil || !r.Removed {
		from.dead.reserve(id, false)
	} else {
		b.trimHidden(from)
	}
	return r, err
}

// move appends the message and the removal as one entry.
func (b *Broker) move(t Tenant, r *ReplayResult, removal []byte, removed func()) error {
	s := pushPool.Get().(*pushState)
	defer s.release()
	s.items = []PushItem{{
		Queue: []byte(r.Queue), Partition: []byte(r.Partition),
		TransactionID: []byte(r.TransactionID), Payload: r.DeadLetter.Payload,
	}}
	s.sub = r.DeadLetter.ProducerSub
	s.results = make([]PushResult, 1)
	s.suffix = removal
	s.group()
	batch := &s.batches[0]
	if err := b.pushBatch(t, s, batch); err != nil {
		return err
	}
	r.Push = s.results[0]
	if r.Removed = r.Push.Status == Queued; r.Removed {
		removed()
	}
	if err := s.last.Wait(); err != nil {
		return b.storageError(err)
	}
	if batch.p != nil {
		b.publish(batch.p, batch.end)
	}
	return nil
}
