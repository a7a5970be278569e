package segment

import "encoding/binary"

const (
	hasTransactionID = 1 << 0
	hasProducerSub   = 1 << 1
	hasTraceID       = 1 << 2
	hasID            = 1 << 3
	isEncrypted      = 1 << 4
	knownFlags       = hasTransactionID | hasProducerSub | hasTraceID | hasID | isEncrypted

	minMessageLen = 2 // flags and the length of an empty payload
)

// Message is one message of a batch body.
//
//	+-------+---+---------------+---+-------------+---------+----+---+---------+
//	| flags | n | transactionID | n | producerSub | traceID | ID | n | payload |
//	+-------+---+---------------+---+-------------+---------+----+---+---------+
//
//	flags    uint8    1 has a transactionID, 2 a producerSub, 4 a traceID, 8 an ID;
//	                  what it has not takes no bytes. 16 the payload is encrypted
//	n        uvarint  bytes that follow, in as few bytes as hold it
//	traceID  [16]     not all zero
//	ID       [16]     not all zero
//
// There is one encoding of a message. testdata/batch.golden pins the bytes.
type Message struct {
	TransactionID []byte // nil: minted by the broker, the text of the message id
	Payload       []byte
	ProducerSub   []byte   // nil: none
	TraceID       [16]byte // zero: none
	ID            [16]byte // zero: as MessageID derives it from batch and offset
	Encrypted     bool     // Payload is the envelope that the broker has made of what was pushed
}

// AppendMessage appends m to dst, the body of a batch, and returns the longer
// slice. It allocates only if dst lacks room.
func AppendMessage(dst []byte, m *Message) []byte {
	at := len(dst)
	dst = append(dst, 0)
	if m.TransactionID != nil {
		dst[at] |= hasTransactionID
		dst = appendBytes(dst, m.TransactionID)
	}
	if m.ProducerSub != nil {
		dst[at] |= hasProducerSub
		dst = appendBytes(dst, m.ProducerSub)
	}
	if m.TraceID != ([16]byte{}) {
		dst[at] |= hasTraceID
		dst = append(dst, m.TraceID[:]...)
	}
	if m.ID != ([16]byte{}) {
		dst[at] |= hasID
		dst = append(dst, m.ID[:]...)
	}
	if m.Encrypted {
		dst[at] |= isEncrypted
	}
	return appendBytes(dst, m.Payload)
}

func appendBytes(dst, b []byte) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(b)))
	return append(dst, b...)
}

// NextMessage reads the message at the front of raw, the body of a batch, and
// returns what follows it. The slices of the message are parts of raw. Errors:
// ErrShort, which behind a verified batch means that its count is wrong, and
// ErrCorrupt.
func NextMessage(raw []byte) (m Message, rest []byte, err error) {
	if len(raw) == 0 {
		return Message{}, nil, ErrShort
	}
	flags := raw[0]
	if flags&^byte(knownFlags) != 0 {
		return Message{}, nil, corruptf("message flags %02x", flags)
	}
	rest = raw[1:]
	if flags&hasTransactionID != 0 {
		if m.TransactionID, rest, err = nextBytes(rest); err != nil {
			return Message{}, nil, err
		}
	}
	if flags&hasProducerSub != 0 {
		if m.ProducerSub, rest, err = nextBytes(rest); err != nil {
			return Message{}, nil, err
		}
	}
	if flags&hasTraceID != 0 {
		if m.TraceID, rest, err = nextID(rest); err != nil {
			return Message{}, nil, err
		}
	}
	if flags&hasID != 0 {
		if m.ID, rest, err = nextID(rest); err != nil {
			return Message{}, nil, err
		}
	}
	m.Encrypted = flags&isEncrypted != 0
	if m.Payload, rest, err = nextBytes(rest); err != nil {
		return Message{}, nil, err
	}
	return m, rest, nil
}

func nextID(b []byte) (id [16]byte, rest []byte, err error) {
	if len(b) < len(id) {
		return id, nil, ErrShort
	}
	copy(id[:], b)
	if id == ([16]byte{}) {
		return id, nil, corruptf("id of zeros")
	}
	return id, b[len(id):], nil
}

// nextBytes reads a length and that many bytes. The capacity of what it returns
// ends with it: an append to a payload must not run into the next message.
func nextBytes(b []byte) (field, rest []byte, err error) {
	n, width := binary.Uvarint(b)
	switch {
	case width == 0:
		return nil, nil, ErrShort
	case width < 0 || width > 1 && b[width-1] == 0:
		return nil, nil, corruptf("length of %d bytes", width)
	case n > uint64(len(b)-width):
		return nil, nil, ErrShort
	}
	end := width + int(n)
	return b[width:end:end], b[end:], nil
}
