package broker

import (
	"maps"
	"slices"
	"sync"

	"github.com/google/uuid"

	"github.com/skepmq/skep/log/record"
	"github.com/skepmq/skep/segment"
)

// deadLetters are the dead letters of one queue, without their payloads.
type deadLetters struct {
	mu sync.Mutex
	// list is in the order of filing, so of FailedMs. Removed ones stay until they are
	// half of it; then the list is replaced, not changed: see letterWalk.
	list  []*deadLetter
	first int // all before it in list are removed
	byID  map[uuid.UUID]*deadLetter
	by    map[uint64]int64       // how many, by partition
	at    map[uint64]*deadLetter // the newest of each address, by its hash
}

// deadLetter is one of them. Its record never changes; the deadLetters' lock guards the
// rest.
type deadLetter struct {
	record.DeadLetter
	older   *deadLetter // the one before it whose address has the same hash
	visible bool        // on disk
	removed bool
	// movingC is not nil while a replay is on its way, and closed when that has ended:
	// its outcome is on disk.
	movingC chan struct{}
}

// usable reports that neither a replay nor a removal has taken the dead letter.
func (l *deadLetter) usable() bool { return l.visible && l.movingC == nil && !l.removed }

// addressHash hashes the address of a message. Other addresses may have the same.
func addressHash(partition uint64, transactionID string) uint64 {
	return hashIDString(transactionID) ^ partition*0x9e3779b97f4a7c15
}

func (ds *deadLetters) add(d *record.DeadLetter, visible bool) {
	ds.mu.Lock()
	defer ds.mu.Unlock()
	if ds.byID == nil {
		ds.byID, ds.by, ds.at = map[uuid.UUID]*deadLetter{}, map[uint64]int64{}, map[uint64]*deadLetter{}
	}
	if ds.byID[d.ID] != nil {
		return // replayed over its home
	}
	h := addressHash(d.Partition, d.TransactionID)
	l := &deadLetter{DeadLetter: *d, visible: visible, older: ds.at[h]}
	ds.at[h] = l
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
	if l := ds.byID[id]; l != nil {
		ds.removeLocked(l)
	}
}

// removeUsable removes those of letters that nobody else has taken, and returns how many
// these are. store is called with their records, if there are any, before anybody can miss
// them: whoever does waits for all that is decided, and so for these.
func (ds *deadLetters) removeUsable(queue uint32, letters []*deadLetter, store func(frames []byte)) (removed int) {
	ds.mu.Lock()
	defer ds.mu.Unlock()
	var frames []byte
	for _, l := range letters {
		if l.usable() {
			ds.removeLocked(l)
			frames = record.AppendDeadLetterRemoved(frames, queue, l.ID)
			removed++
		}
	}
	if removed > 0 {
		store(frames)
	}
	return removed
}

func (ds *deadLetters) removeLocked(l *deadLetter) {
	delete(ds.byID, l.ID)
	if ds.by[l.Partition]--; ds.by[l.Partition] == 0 {
		delete(ds.by, l.Partition)
	}
	ds.unlinkLocked(l)
	l.removed = true
	if len(ds.list) > 2*len(ds.byID)+16 {
		kept := make([]*deadLetter, 0, len(ds.byID)+16)
		for _, x := range ds.list {
			if !x.removed {
				kept = append(kept, x)
			}
		}
		ds.list, ds.first = kept, 0
	}
}

// unlinkLocked takes l out of the chain of its address.
func (ds *deadLetters) unlinkLocked(l *deadLetter) {
	h := addressHash(l.Partition, l.TransactionID)
	if ds.at[h] != l {
		x := ds.at[h]
		for x.older != l {
			x = x.older
		}
		x.older = l.older
		return
	}
	if l.older == nil {
		delete(ds.at, h)
		return
	}
	ds.at[h] = l.older
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

// of reports whether a partition has any.
func (ds *deadLetters) of(partition uint64) bool {
	ds.mu.Lock()
	defer ds.mu.Unlock()
	return ds.by[partition] > 0
}

// addressed returns the usable ones of a message's address, newest first.
func (ds *deadLetters) addressed(partition uint64, transactionID string) (found []*deadLetter) {
	found, _ = ds.lookup(partition, transactionID)
	return found
}

// lookup is addressed, and tells when a replay of one that is not usable for it will have
// ended; movingC is nil if there is none.
func (ds *deadLetters) lookup(partition uint64, transactionID string) (found []*deadLetter, movingC <-chan struct{}) {
	ds.mu.Lock()
	defer ds.mu.Unlock()
	for l := ds.at[addressHash(partition, transactionID)]; l != nil; l = l.older {
		switch {
		case l.Partition != partition || l.TransactionID != transactionID:
		case l.usable():
			found = append(found, l)
		case l.movingC != nil:
			movingC = l.movingC
		}
	}
	return found, movingC
}

// ofMessage returns the newest usable one of a message, nil for none.
func (ds *deadLetters) ofMessage(partition uint64, m *Message) *deadLetter {
	for _, l := range ds.addressed(partition, m.transactionID()) {
		if l.MessageID == m.ID {
			return l
		}
	}
	return nil
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

// appendDeadLetter appends the payload's batch, at d.Offset of the hidden partition h,
// and the dead letter's record, and says where the frame of the batch is. h is locked.
func (b *Broker) appendDeadLetter(dst []byte, h *partition, d *record.DeadLetter, m *Message, stamp int64) ([]byte, part) {
	start := len(dst)
	dst = record.BeginFrame(dst, record.KindBatch)
	raw := segment.AppendMessage(nil, &segment.Message{
		TransactionID: []byte(d.TransactionID), Payload: m.Payload, Encrypted: m.Encrypted,
		ProducerSub: m.ProducerSub, TraceID: m.TraceID,
	})
	dst = segment.AppendBatch(dst, &segment.Header{Count: 1}, raw)
	segment.Seal(dst[start+record.FrameHeaderLen:], h.number, d.Offset, stamp, b.newBatchID(stamp, d.Offset))
	dst = record.EndFrame(dst, start)
	payload := part{start, len(dst), 1}
	dst = record.AppendDeadLetter(dst, d)
	b.changed.record(dst[payload.end:])
	return dst, payload
}

// ReplayDeadLetterAt moves the newest dead letter of a message back to its partition.
func (b *Broker) ReplayDeadLetterAt(t Tenant, partitionID uuid.UUID, transactionID string) (ReplayResult, error) {
	q, found := b.deadLettersAt(t, partitionID, transactionID)
	if len(found) == 0 {
		return ReplayResult{}, b.rested(ErrDeadLetterNotFound)
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
	return ReplayResult{}, b.rested(ErrDeadLetterNotFound)
}

func (ds *deadLetters) has(id uuid.UUID) bool {
	ds.mu.Lock()
	defer ds.mu.Unlock()
	l := ds.byID[id]
	return l != nil && l.visible
}

// reserve lets one replay have the dead letter, and waits for another that has it. It
// returns nil if there is no such dead letter, any more.
func (ds *deadLetters) reserve(id uuid.UUID) *deadLetter {
	for {
		l, movingC := ds.tryReserve(id)
		if movingC == nil {
			return l
		}
		<-movingC
	}
}

func (ds *deadLetters) tryReserve(id uuid.UUID) (l *deadLetter, movingC <-chan struct{}) {
	ds.mu.Lock()
	defer ds.mu.Unlock()
	l = ds.byID[id]
	switch {
	case l == nil || !l.visible:
		return nil, nil
	case l.movingC != nil:
		return nil, l.movingC
	}
	l.movingC = make(chan struct{})
	return l, nil
}

// release ends a replay that has reserved l.
func (ds *deadLetters) release(l *deadLetter) {
	ds.mu.Lock()
	defer ds.mu.Unlock()
	close(l.movingC)
	l.movingC = nil
}

func (b *Broker) replay(t Tenant, from *queue, id uuid.UUID, queueName, partitionName *string) (ReplayResult, error) {
	if b.maintenance.push.Load() {
		return ReplayResult{}, ErrMaintenance
	}
	if !b.hasSpace() {
		return ReplayResult{}, b.refused(ErrStorageFull)
	}
	if err := b.journal.Admit(); err != nil {
		return ReplayResult{}, b.storageError(err)
	}
	l := from.dead.reserve(id)
	if l == nil {
		return ReplayResult{}, b.rested(ErrDeadLetterNotFound)
	}
	defer from.dead.release(l)
	letter := b.describe(from, &l.DeadLetter)
	if ok, err := b.loadPayload(&letter); err != nil {
		return ReplayResult{}, err
	} else if !ok {
		return ReplayResult{}, b.rested(ErrDeadLetterNotFound)
	}
	b.decrypt(&letter)
	r := ReplayResult{DeadLetter: letter, Queue: letter.Queue, Partition: letter.Partition, TransactionID: "dlq:" + letter.ID.String()}
	if queueName != nil {
		r.Queue = *queueName
	}
	if partitionName != nil {
		r.Partition = *partitionName
	}
	err := b.move(t, &r, record.AppendDeadLetterRemoved(nil, from.number, id), func() { from.dead.remove(id) })
	if err == nil && r.Removed {
		b.trimHidden(from)
	}
	return r, err
}

// move appends the message and the removal as one entry. removed is called when both are
// on their way to disk, under the partition's lock: a checkpoint that files the message
// must not find the dead letter in memory any more.
func (b *Broker) move(t Tenant, r *ReplayResult, removal []byte, removed func()) error {
	s := pushPool.Get().(*pushState)
	defer s.release()
	s.items = []PushItem{{
		Queue: []byte(r.Queue), Partition: []byte(r.Partition),
		TransactionID: []byte(r.TransactionID), Payload: r.DeadLetter.Payload, TraceID: r.DeadLetter.TraceID,
		encrypted: r.DeadLetter.Encrypted,
	}}
	if err := b.mayStore(t, s.items); err != nil {
		return err
	}
	s.sub = r.DeadLetter.ProducerSub
	s.results = make([]PushResult, 1)
	s.suffix, s.stored = removal, removed
	s.group()
	batch := &s.batches[0]
	if err := b.pushBatch(t, s, batch); err != nil {
		return err
	}
	r.Push = s.results[0]
	r.Removed = r.Push.Status == Queued
	if err := s.last.Wait(); err != nil {
		return b.storageError(err)
	}
	if batch.p != nil {
		b.publish(batch.p, batch.end)
	}
	return nil
}
