package broker

import (
	"cmp"
	"errors"
	"math"
	"slices"

	"github.com/google/uuid"

	"github.com/skepmq/skep/segment"
)

// ErrMessageNotFound names a message that does not exist, or not any more, or that was not
// found within the bounds of Broker.Message.
var ErrMessageNotFound = errors.New("broker: message not found")

// MessageDetail is one message with everything that is known of it.
type MessageDetail struct {
	StoredMessage
	Error       string // of its newest dead letter, "": it has none
	Dead        bool   // it has a dead letter
	RetryCount  int64  // of its newest dead letter
	Consumers   []MessageConsumer
	Consumption Consumption // of its partition
	Options     QueueOptions
}

// MessageConsumer is what one group has to do with a message.
type MessageConsumer struct {
	Group   string
	Done    bool
	LeaseMs int64 // when its lease that covers the message ends, wall clock; 0: none does
}

// How far Message looks for a transaction id that the index has forgotten.
const (
	scanBatches = 5000
	scanBytes   = 64 << 20
)

// Message describes the message of a partition with a transaction id, of several the one
// appended last. Of a message that retention has removed it knows what a dead letter has
// kept. An id that is no longer indexed is searched for in the last 5,000 batches or 64 MiB
// from there on backwards. Errors: ErrMessageNotFound.
func (b *Broker) Message(t Tenant, partitionID uuid.UUID, transactionID string) (MessageDetail, error) {
	p := b.partitionByID(t, partitionID)
	if p == nil {
		return MessageDetail{}, ErrMessageNotFound
	}
	s := b.newShelf(p)
	m, offset, ok, err := s.finder.newest(transactionID)
	if err != nil {
		p.mu.Lock()
		defer p.mu.Unlock()
		return MessageDetail{}, b.damageLocked(p, err)
	}
	letters := p.queue.dead.addressed(p.number, transactionID)
	if !ok {
		return b.buriedMessage(s, p, letters)
	}
	if i := slices.IndexFunc(letters, func(l *deadLetter) bool { return l.MessageID == m.ID }); i >= 0 {
		return b.detail(s, p, m, offset, letters[i]), nil
	}
	return b.detail(s, p, m, offset, nil), nil
}

// buriedMessage describes a message that only dead letters know.
func (b *Broker) buriedMessage(s *shelf, p *partition, letters []*deadLetter) (MessageDetail, error) {
	if len(letters) == 0 {
		return MessageDetail{}, ErrMessageNotFound
	}
	newest := letters[0]
	l := b.describe(p.queue, &newest.DeadLetter)
	ok, err := b.loadPayload(&l)
	if !ok || err != nil {
		return MessageDetail{}, cmp.Or(err, ErrMessageNotFound)
	}
	m := Message{
		ID: l.MessageID, TransactionID: []byte(l.TransactionID), Payload: l.Payload, Encrypted: l.Encrypted,
		ProducerSub: l.ProducerSub, TraceID: l.TraceID, CreatedAtMs: l.CreatedAtMs,
	}
	// It lay before the start, whatever its id says.
	offset := min(offsetOf(l.MessageID), s.finder.v.start-1)
	return b.detail(s, p, m, offset, newest), nil
}

// detail describes m; letter is its newest dead letter, nil for none.
func (b *Broker) detail(s *shelf, p *partition, m Message, offset int64, letter *deadLetter) MessageDetail {
	q, o := p.queue, p.queue.options.Load()
	d := MessageDetail{
		StoredMessage: StoredMessage{
			Message: m, Available: true, Queue: q.name, Namespace: o.Namespace, Task: o.Task,
			Partition: p.name, PartitionID: partitionID(b.directory, p.number), Offset: offset,
		},
		Dead: letter != nil, Consumption: s.standing.consumption(), Options: *o,
	}
	if letter != nil {
		d.Error, d.RetryCount = letter.Error, int64(letter.Retries)
	}
	d.describe(&s.standing, letter != nil)
	for i := range s.standing.groups {
		g := &s.standing.groups[i]
		c := MessageConsumer{Group: g.name, Done: g.done(offset, m.CreatedAtMs)}
		if g.leased(offset) {
			c.LeaseMs = g.expiryMs
		}
		d.Consumers = append(d.Consumers, c)
	}
	slices.SortFunc(d.Consumers, func(x, y MessageConsumer) int { return cmp.Compare(x.Group, y.Group) })
	return d
}

// newest returns the last message with that transaction id, and its offset.
func (f *finder) newest(id string) (m Message, offset int64, ok bool, err error) {
	if id == "" {
		return m, 0, false, nil
	}
	offset, ok, err = f.newestIndexed(id)
	if !ok && err == nil {
		offset, ok, err = f.scanOlder(id)
	}
	if !ok || err != nil {
		return m, 0, false, err
	}
	m, ok, err = f.at(offset)
	return m, offset, ok, err
}

// scanOlder searches what may have left the index. That is what is older than the shortest
// window: the queue's own may have been shorter when the ids expired.
func (f *finder) scanOlder(id string) (offset int64, ok bool, err error) {
	since := f.b.clock.stamp() - minAckWindow.Milliseconds()
	last, err := f.b.offsetAt(f.v, f.limit, since)
	if err != nil {
		return 0, false, err
	}
	return f.scan([]byte(id), last+1)
}

// newestIndexed looks among minted ids, which tell their offset, and in the index.
func (f *finder) newestIndexed(id string) (offset int64, ok bool, err error) {
	if offset, ok, err = f.mintedOffset(id, math.MinInt64); !ok && err == nil {
		offset, ok, err = f.announcedOffset(id, math.MinInt64)
	}
	if err != nil {
		return 0, false, err
	}
	candidates, err := f.b.ids.Lookup(f.b.ids.Hash(f.v.number, []byte(id)), nil)
	if err != nil {
		return 0, false, err
	}
	for _, o := range candidates {
		if ok && o <= offset {
			continue
		}
		m, there, err := f.at(o)
		if err != nil {
			return 0, false, err
		}
		if there && string(m.TransactionID) == id {
			offset, ok = o, true
		}
	}
	return offset, ok, nil
}

// scan looks through the messages before an offset, backwards, for as long as it may.
func (f *finder) scan(id []byte, before int64) (offset int64, ok bool, err error) {
	batches, left := scanBatches, int64(scanBytes)
	var scratch []byte
	var scanErr error
	err = f.b.batchesBackward(f.v, before, func(h *segment.Header, batch []byte) bool {
		if h.Lost() {
			batches--
			return batches > 0
		}
		var raw []byte
		if raw, scanErr = segment.Body(h, batch, scratch[:0]); scanErr != nil {
			return false
		}
		if h.Codec != segment.CodecRaw {
			scratch = raw // not a part of the batch
		}
		at, found, bodyErr := lastWith(id, raw, h)
		if scanErr = bodyErr; scanErr != nil {
			return false
		}
		if found && at >= f.v.start {
			offset, ok = at, true
		}
		batches--
		left -= int64(len(raw))
		return !ok && batches > 0 && left > 0
	})
	return offset, ok, errors.Join(err, scanErr)
}

// lastWith returns the offset of the last message of a batch with that transaction id.
func lastWith(id, raw []byte, h *segment.Header) (offset int64, ok bool, err error) {
	for o := h.BaseOffset; o < h.EndOffset(); o++ {
		m, rest, err := segment.NextMessage(raw)
		if err != nil {
			return 0, false, err
		}
		if string(m.TransactionID) == string(id) {
			offset, ok = o, true
		}
		raw = rest
	}
	return offset, ok, nil
}
