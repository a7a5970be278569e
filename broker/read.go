package broker

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/maphash"
	"iter"
	"sort"

	"github.com/google/uuid"

	"github.com/skepmq/skep/segment"
)

// errStop ends a walk over batches early; it never leaves this file.
var errStop = errors.New("stop")

// batches calls fn with the batches of v that hold from or come after it, in order, until
// fn returns false. What fn gets stays valid. Errors: *segment.CorruptError and those of
// the disk.
func (b *Broker) batches(v view, from int64, fn func(h *segment.Header, batch []byte) bool) error {
	if from < v.filedEnd {
		var fnErr error
		err := b.store.Read(v.newest, v.number, from, func(batch []byte) bool {
			h, err := segment.DecodeHeader(batch)
			if err != nil {
				fnErr = err
				return false
			}
			if h.BaseOffset >= v.filedEnd || !fn(&h, batch) {
				fnErr = errStop
				return false
			}
			return true
		})
		if err = errors.Join(err, fnErr); err != nil {
			return stopIsNil(err)
		}
	}
	for _, batch := range v.tail[tailIndex(v.tail, from):] {
		h, err := segment.DecodeHeader(batch)
		if err != nil {
			return err
		}
		if !fn(&h, batch) {
			return nil
		}
	}
	return nil
}

func stopIsNil(err error) error {
	if errors.Is(err, errStop) {
		return nil
	}
	return err
}

// tailIndex returns the index of the first batch that holds offset or comes after it.
func tailIndex(tail [][]byte, offset int64) int {
	return sort.Search(len(tail), func(i int) bool {
		h, err := segment.DecodeHeader(tail[i])
		return err != nil || h.EndOffset() > offset
	})
}

// messageAt reads one message, see finder.
func (b *Broker) messageAt(v view, offset, limit int64) (m Message, ok bool, err error) {
	f := finder{b: b, v: v, limit: limit}
	return f.at(offset)
}

// offsetAt returns the committed offset of a cursor that starts at an instant: one less
// than the base of the first batch appended at or after it, or the last offset.
func (b *Broker) offsetAt(v view, end, instantMs int64) (committed int64, err error) {
	if v.filedEnd > v.start && v.filedMs >= instantMs {
		offset, ok, err := b.store.OffsetAt(v.newest, v.number, instantMs)
		if err != nil {
			return 0, err
		}
		if ok {
			return max(offset, v.start) - 1, nil
		}
	}
	if i := tailTime(v.tail, instantMs); i < len(v.tail) {
		h, err := segment.DecodeHeader(v.tail[i])
		return max(h.BaseOffset, v.start) - 1, err
	}
	return end - 1, nil
}

// tailTime returns the index of the first batch appended at or after an instant.
func tailTime(tail [][]byte, instantMs int64) int {
	return sort.Search(len(tail), func(i int) bool {
		h, err := segment.DecodeHeader(tail[i])
		return err != nil || h.TimestampMs >= instantMs
	})
}

// Span is consecutive messages of one batch.
type Span struct {
	baseID      [16]byte
	timestampMs int64
	first       int64  // offset of the first message
	count       int    // messages
	raw         []byte // encoded messages, from the first on
	bytes       int64  // they take in an answer
}

// newSpan returns the messages of a batch from offset on, at most n.
func newSpan(h *segment.Header, batch []byte, offset int64, n int) (Span, error) {
	raw, err := segment.Body(h, batch, nil)
	if err != nil {
		return Span{}, err
	}
	for o := h.BaseOffset; o < offset; o++ {
		if _, raw, err = segment.NextMessage(raw); err != nil {
			return Span{}, err
		}
	}
	offset = max(offset, h.BaseOffset)
	return Span{
		baseID: h.BaseID, timestampMs: h.TimestampMs, first: offset,
		count: min(n, int(h.EndOffset()-offset)), raw: raw,
	}, nil
}

// messages yields the messages of s. The body was verified, so a message that does not
// decode is a bug of the encoder.
func (s *Span) messages() iter.Seq[Message] {
	return func(yield func(Message) bool) {
		raw := s.raw
		for i := range s.count {
			m, rest, err := segment.NextMessage(raw)
			if err != nil {
				panic("BUG: broker: verified batch does not decode: " + err.Error())
			}
			raw = rest
			ok := yield(Message{
				ID:            idOf(s.baseID, s.first+int64(i), &m),
				TransactionID: m.TransactionID, Payload: m.Payload, Encrypted: m.Encrypted, ProducerSub: m.ProducerSub,
				TraceID: m.TraceID, CreatedAtMs: s.timestampMs, Offset: s.first + int64(i),
			})
			if !ok {
				return
			}
		}
	}
}

// Messages yields the messages of the part in order of their offsets.
func (p *PopPart) Messages() iter.Seq[Message] {
	return func(yield func(Message) bool) {
		for i := range p.Spans {
			for m := range p.Spans[i].messages() {
				if !yield(m) {
					return
				}
			}
		}
	}
}

// Count returns the number of messages of the part.
func (p *PopPart) Count() (n int) {
	for i := range p.Spans {
		n += p.Spans[i].count
	}
	return n
}

// idSeed makes the hashes of delivered transaction ids unguessable, so that equal hashes
// mean equal ids: nobody can look for two that collide.
var idSeed = maphash.MakeSeed()

func hashID(id []byte) uint64 { return maphash.Bytes(idSeed, id) }

func hashIDString(id string) uint64 { return maphash.String(idSeed, id) }

// deliveredHash hashes the transaction id that the outside knows m by.
func (m *Message) deliveredHash() uint64 {
	if m.TransactionID != nil {
		return hashID(m.TransactionID)
	}
	var text [36]byte
	return hashID(appendUUID(text[:0], m.ID))
}

const uuidTextLen = 36

// mintedFor returns the offset that a message id was minted for, see segment.MessageID.
func mintedFor(id uuid.UUID) int64 {
	return int64(id[11])<<32 | int64(binary.BigEndian.Uint32(id[12:]))
}

// hasID reports whether the outside knows m by that transaction id.
func (m *Message) hasID(key []byte) bool {
	if m.TransactionID != nil {
		return bytes.Equal(m.TransactionID, key)
	}
	var text [uuidTextLen]byte
	return bytes.Equal(appendUUID(text[:0], m.ID), key)
}

const hexDigits = "0123456789abcdef"

// appendUUID appends the canonical text of id.
func appendUUID(dst []byte, id uuid.UUID) []byte {
	for i, v := range id {
		if i == 4 || i == 6 || i == 8 || i == 10 {
			dst = append(dst, '-')
		}
		dst = append(dst, hexDigits[v>>4], hexDigits[v&15])
	}
	return dst
}
