package codec

import "bytes"

// Limits of the names of a trace.
const (
	MaxTraceNames = 64
	MaxTraceName  = 511 // bytes
)

// Trace is what a consumer notes about a message. It borrows from the body. What is no string
// where one belongs counts as absent.
type Trace struct {
	TransactionID []byte
	PartitionID   []byte
	Group         []byte // nil: absent, or ""
	Event         []byte // nil: absent
	Data          []byte // one JSON value, byte for byte as it was sent; nil: absent
	// Names are without repeats and without "". Of too many of them there is one more than
	// MaxTraceNames.
	Names [][]byte
}

// DecodeTrace reads the body of a trace. Errors are of type *Error.
func DecodeTrace(body []byte) (t Trace, err error) {
	var (
		s      scanner
		names  = [...]string{"transactionId", "partitionId", "consumerGroup", "eventType", "data", "traceNames"}
		fields [len(names)]field
	)
	s.reset(body)
	at, more := s.begin()
	at = s.members(at, more, 1, names[:], fields[:])
	if err := s.finish(at); err != nil {
		return t, err
	}
	for i, to := range [...]*[]byte{&t.TransactionID, &t.PartitionID, &t.Group, &t.Event} {
		if s.isString(fields[i]) {
			*to = s.text(fields[i])
		}
	}
	if f := fields[4]; f.to > 0 {
		t.Data = s.raw(f)
	}
	switch f := fields[5]; {
	case s.isString(f):
		t.addName(s.text(f))
	case f.to > 0 && s.body[f.from] == '[':
		for at, more := s.enter(f.from); more && len(t.Names) <= MaxTraceNames; {
			name := s.field(at, 2)
			if s.isString(name) {
				t.addName(s.text(name))
			}
			at, more = s.next(name.to, ']')
		}
	}
	return t, nil
}

func (t *Trace) addName(name []byte) {
	for _, known := range t.Names {
		if bytes.Equal(known, name) {
			return
		}
	}
	if len(name) > 0 {
		t.Names = append(t.Names, name)
	}
}

// DecodeNotify reads the queue out of a notification. It is a copy, "" for none. Errors are of
// type *Error.
func DecodeNotify(body []byte) (queue string, err error) {
	var (
		s      scanner
		fields [1]field
	)
	s.reset(body)
	at, more := s.begin()
	at = s.members(at, more, 1, []string{"queue"}, fields[:])
	if err := s.finish(at); err != nil {
		return "", err
	}
	if s.isString(fields[0]) {
		queue = string(s.text(fields[0]))
	}
	return queue, nil
}
