package model

import (
	"fmt"

	"github.com/cespare/xxhash/v2"
)

// Item is one message of a push.
type Item struct {
	Queue     string
	Partition string
	Key       string // transactionId; "" asks for a minted one
	Payload   string
	TraceID   string // of a transaction's push
}

// PushResult is the broker's answer on one Item.
type PushResult struct {
	MessageID string
	Key       string
	Queue     string
	Status    string // queued, duplicate, or buffered
	Offset    int64  // NoOffset from a broker that does not tell
}

// NoOffset stands for an offset that an answer does not tell.
const NoOffset = -1

const nilUUID = "00000000-0000-0000-0000-000000000000"

// Push stores items and compares the answer. The broker chooses the message ids.
func (m *Model) Push(items []Item, got []PushResult) error {
	if len(got) != len(items) {
		return fmt.Errorf("%d results for %d items", len(got), len(items))
	}
	if m.PushMaintenance {
		return m.buffer(items, got)
	}
	m.batches++
	leaders := map[[3]string]string{} // message ids of this call, by queue, partition and key
	for i := range items {
		if err := m.pushItem(&items[i], &got[i], leaders); err != nil {
			return fmt.Errorf("item %d: %w", i, err)
		}
	}
	return nil
}

func (m *Model) pushItem(it *Item, got *PushResult, leaders map[[3]string]string) error {
	p := m.ensurePartition(m.ensureQueue(it.Queue, implied), it.Partition)
	want := PushResult{MessageID: got.MessageID, Key: it.Key, Queue: it.Queue, Status: "queued", Offset: got.Offset}
	if got.Offset != NoOffset {
		want.Offset = p.end()
	}
	if it.Key == "" {
		want.Key = got.MessageID
	}
	address := [3]string{it.Queue, it.Partition, it.Key}
	original := ""
	if leader, ok := leaders[address]; ok && it.Key != "" {
		original = leader
	} else if it.Key != "" {
		original = m.original(p, it.Key, got)
	}
	if original != "" {
		want.Status, want.MessageID = "duplicate", original
		if o := got.Offset; o >= 0 && o < p.end() && p.messages[o].key == it.Key {
			want.Offset = o // which of several is told by the id
		}
	}
	if *got != want {
		return fmt.Errorf("got %+v, want %+v", *got, want)
	}
	leaders[address] = want.MessageID
	if original != "" {
		return nil
	}
	return m.append(p, it, want.MessageID, want.Key)
}

// original returns the message id of the earliest message with the key inside the dedup
// window, or "". Where the broker may have forgotten a key, its answer says whether it
// has. A message that retention has removed has no id any more.
func (m *Model) original(p *partition, key string, got *PushResult) string {
	window := p.queue.options.DedupWindowSeconds * 1000
	if window == 0 {
		return ""
	}
	for _, msg := range p.messages {
		since := m.nowMs - window
		if msg.key != key || msg.createdMs < since-p.grainMs(msg) {
			continue
		}
		id, forgettable := msg.id, msg.outlived || msg.createdMs < since
		if msg.offset < p.start {
			id = nilUUID
		}
		if !forgettable || got.Status == "duplicate" && (got.MessageID == id || got.MessageID == nilUUID) {
			return id
		}
	}
	return ""
}

// grainMs is how much too old the key of a message may be and still be found. Where the
// message is removed there is nothing but the index to ask, which keeps time in such units.
func (p *partition) grainMs(msg *message) int64 {
	if msg.offset < p.start {
		return 64
	}
	return 0
}

func (m *Model) append(p *partition, it *Item, id, key string) error {
	if _, other := m.messageByID(id); other != nil {
		return fmt.Errorf("message id %s is that of another message, %q", id, other.key)
	}
	m.store(p, it, id, key)
	return nil
}

func (m *Model) store(p *partition, it *Item, id, key string) {
	msg := &message{
		offset: p.end(), id: id, key: key, payload: it.Payload, traceID: it.TraceID, createdMs: m.stamp(p), batch: m.batches,
	}
	p.messages = append(p.messages, msg)
	p.sum = p.sum*31 + xxhash.Sum64String(id)
}

// stamp is the time of a message that is stored now: not before those in front of it, and
// not before an instant at which a group of the queue begins.
func (m *Model) stamp(p *partition) int64 {
	ms := max(m.nowMs, p.queue.floorMs)
	if n := len(p.messages); n > 0 {
		ms = max(ms, p.messages[n-1].createdMs)
	}
	return ms
}

// afterAll returns an instant behind every message of a queue so far. Those to come are
// not before it.
func (m *Model) afterAll(q *queue) int64 {
	q.floorMs = max(q.floorMs, m.nowMs, q.newest()+1)
	return q.floorMs
}

func (q *queue) newest() (ms int64) {
	for _, p := range q.partitions {
		if n := len(p.messages); n > 0 {
			ms = max(ms, p.messages[n-1].createdMs)
		}
	}
	return ms
}
