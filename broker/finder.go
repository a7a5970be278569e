package broker

import (
	"errors"

	"github.com/google/uuid"

	"github.com/skepmq/skep/segment"
)

// finder reads single messages of one view. It keeps the latest batch decoded, with the
// place of every message in it: whoever pushes thousands of messages again has each of
// them compared with the stored one.
type finder struct {
	b *Broker
	v view
	// limit is one past the last offset to be found: the high watermark, or the end
	// for those who hold the partition's lock.
	limit int64

	h         segment.Header // of the latest batch; Count is 0 before the first
	raw       []byte
	positions []int // of the messages in raw
	loaded    int64 // bytes of all batches so far, decoded
}

// at reads the message at offset. ok is false if it is not there: removed, or never
// written.
func (f *finder) at(offset int64) (m Message, ok bool, err error) {
	if offset < f.v.start || offset >= f.limit {
		return m, false, nil
	}
	if offset < f.h.BaseOffset || offset >= f.h.EndOffset() {
		if err := f.load(offset); err != nil {
			return m, false, err
		}
	}
	if offset < f.h.BaseOffset || offset >= f.h.EndOffset() || f.h.Lost() {
		return m, false, nil
	}
	stored, _, err := segment.NextMessage(f.raw[f.positions[offset-f.h.BaseOffset]:])
	if err != nil {
		return m, false, err
	}
	return newMessage(&f.h, offset, &stored), true, nil
}

// load decodes the batch that holds offset, or the first one after it.
func (f *finder) load(offset int64) error {
	f.h, f.raw, f.positions = segment.Header{}, nil, f.positions[:0]
	var loadErr error
	err := f.b.batches(f.v, offset, func(h *segment.Header, batch []byte) bool {
		f.h = *h
		if h.Lost() {
			return false
		}
		if f.raw, loadErr = segment.Body(h, batch, nil); loadErr != nil {
			return false
		}
		f.loaded += int64(len(f.raw))
		rest := f.raw
		for range h.Count {
			f.positions = append(f.positions, len(f.raw)-len(rest))
			if _, rest, loadErr = segment.NextMessage(rest); loadErr != nil {
				return false
			}
		}
		return false
	})
	return errors.Join(err, loadErr)
}

// newMessage describes a stored message to the outside.
func newMessage(h *segment.Header, offset int64, m *segment.Message) Message {
	return Message{
		ID:            idOf(h.BaseID, offset, m),
		TransactionID: m.TransactionID, Payload: m.Payload, Encrypted: m.Encrypted, ProducerSub: m.ProducerSub,
		TraceID: m.TraceID, CreatedAtMs: h.TimestampMs, Offset: offset,
	}
}

// idOf returns the id of a stored message: its own, or that which its place gives it.
func idOf(baseID [16]byte, offset int64, m *segment.Message) uuid.UUID {
	if m.ID != ([16]byte{}) {
		return m.ID
	}
	return segment.MessageID(baseID, offset)
}
