package client

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"time"
)

// decodeBatch reads the answer of a pop. It is written by hand because it runs once
// a message: encoding/json would read every payload twice and copy it, and allocate
// the names that all messages of a partition share once for each of them.
//
// Payloads are not checked again, only delimited: the broker stored valid JSON. Data
// aliases body.
func decodeBatch(body []byte, b *Batch) error {
	s := scanner{b: body}
	s.object(func(key []byte) {
		switch string(key) {
		case "messages":
			s.array(func() { s.message(b) })
		case "leaseId":
			b.LeaseID = s.text(b.LeaseID)
		case "consumerGroup":
			b.Group = s.text(b.Group)
		case "partitionsClaimed":
			b.Partitions = s.int()
		case "conflation":
			b.Conflated = s.flag()
		case "conflationConflict":
			b.conflict = s.flag()
		default:
			s.skip()
		}
	})
	if s.space(); s.err == nil && s.i != len(body) {
		s.fail("text behind the object")
	}
	return s.err
}

// message appends one message to b. Values equal to those of the message before it
// share its strings.
func (s *scanner) message(b *Batch) {
	last := &Message{LeaseID: b.LeaseID, Group: b.Group}
	if n := len(b.Messages); n > 0 {
		last = &b.Messages[n-1]
	}
	m := Message{Queue: b.Queue}
	s.object(func(key []byte) {
		switch string(key) {
		case "id":
			m.ID = s.text("")
		case "transactionId":
			m.TransactionID = s.text(m.ID) // minted: the message id itself
		case "data":
			m.Data = s.raw()
		case "createdAt":
			m.CreatedAt = s.time()
		case "partition":
			m.Partition = s.text(last.Partition)
		case "partitionId":
			m.PartitionID = s.text(last.PartitionID)
		case "leaseId":
			m.LeaseID = s.text(last.LeaseID)
		case "consumerGroup":
			m.Group = s.text(last.Group)
		case "producerSub":
			m.ProducerSub = s.text(last.ProducerSub)
		case "traceId":
			m.TraceID = s.text("")
		case "deliveryAttempt":
			m.Attempt = s.int()
		default:
			s.skip()
		}
	})
	if s.err == nil {
		b.Messages = append(b.Messages, m)
	}
}

// scanner walks JSON text. After the first error it stands still and every method
// returns at once, so callers look at err only at the end.
type scanner struct {
	b       []byte
	i       int
	err     error
	stamp   []byte // the text of the last timestamp
	stamped time.Time
}

func (s *scanner) fail(why string) {
	if s.err == nil {
		s.err = fmt.Errorf("%w: %s at byte %d", ErrProtocol, why, s.i)
	}
}

// space moves to the next byte that is not white space.
func (s *scanner) space() {
	for s.i < len(s.b) {
		switch s.b[s.i] {
		case ' ', '\t', '\r', '\n':
			s.i++
		default:
			return
		}
	}
}

// take moves past c if it is next.
func (s *scanner) take(c byte) bool {
	s.space()
	if s.err != nil || s.i >= len(s.b) || s.b[s.i] != c {
		return false
	}
	s.i++
	return true
}

func (s *scanner) want(c byte) {
	if !s.take(c) {
		s.fail("want " + strconv.QuoteRune(rune(c)))
	}
}

// object calls member for each member with its unquoted key. member must consume the
// value.
func (s *scanner) object(member func(key []byte)) {
	s.want('{')
	if s.take('}') {
		return
	}
	for s.err == nil {
		key := s.quoted()
		s.want(':')
		if s.err != nil {
			return
		}
		member(key[1 : len(key)-1])
		if s.take('}') {
			return
		}
		s.want(',')
	}
}

// array calls element for each element. element must consume it.
func (s *scanner) array(element func()) {
	s.want('[')
	if s.take(']') {
		return
	}
	for s.err == nil {
		element()
		if s.take(']') {
			return
		}
		s.want(',')
	}
}

// quoted consumes a string and returns it with its quotes and escapes.
func (s *scanner) quoted() []byte {
	s.want('"')
	start := s.i - 1
	for s.err == nil {
		n := bytes.IndexByte(s.b[s.i:], '"')
		if n < 0 {
			s.fail("string without end")
			break
		}
		s.i += n + 1
		if !s.escaped(start + 1) {
			return s.b[start:s.i:s.i]
		}
	}
	return nil
}

// escaped reports whether the quote just passed belongs to the string: an odd number
// of backslashes stands before it. from is where the string begins.
func (s *scanner) escaped(from int) bool {
	n := 0
	for i := s.i - 2; i >= from && s.b[i] == '\\'; i-- {
		n++
	}
	return n%2 == 1
}

// text consumes a string or null, which reads as empty. If the string equals same,
// same is returned and nothing is allocated.
func (s *scanner) text(same string) string {
	raw := s.raw()
	if s.err != nil || string(raw) == "null" {
		return ""
	}
	if raw[0] != '"' {
		s.fail("want a string")
		return ""
	}
	plain := raw[1 : len(raw)-1]
	if bytes.IndexByte(plain, '\\') < 0 {
		if string(plain) == same {
			return same
		}
		return string(plain)
	}
	var v string
	if err := json.Unmarshal(raw, &v); err != nil {
		s.fail(err.Error())
	}
	return v
}

// time consumes a timestamp. The messages of one append share theirs.
func (s *scanner) time() time.Time {
	raw := s.raw()
	if s.err != nil || bytes.Equal(raw, s.stamp) {
		return s.stamped
	}
	var t time.Time
	if err := t.UnmarshalJSON(raw); err != nil {
		s.fail(err.Error())
	}
	s.stamp, s.stamped = raw, t
	return t
}

// int consumes an integer.
func (s *scanner) int() int {
	raw := s.raw()
	if s.err != nil {
		return 0
	}
	n, err := strconv.Atoi(string(raw))
	if err != nil {
		s.fail("want an integer")
	}
	return n
}

// flag consumes true or false.
func (s *scanner) flag() bool {
	raw := s.raw()
	if text := string(raw); s.err == nil && text != "true" && text != "false" {
		s.fail("want true or false")
	}
	return string(raw) == "true"
}

func (s *scanner) skip() { s.raw() }

// raw consumes one value and returns its text.
func (s *scanner) raw() []byte {
	s.space()
	start := s.i
	if s.err != nil || start >= len(s.b) {
		s.fail("value missing")
		return nil
	}
	switch s.b[start] {
	case '"':
		return s.quoted()
	case '{', '[':
		s.nested()
	default:
		s.scalar()
	}
	if s.err != nil {
		return nil
	}
	return s.b[start:s.i:s.i]
}

// nested moves past an object or array by counting brackets outside of strings.
func (s *scanner) nested() {
	for depth := 0; s.i < len(s.b); {
		switch s.b[s.i] {
		case '"':
			if s.quoted(); s.err != nil {
				return
			}
			continue
		case '{', '[':
			depth++
		case '}', ']':
			depth--
		}
		s.i++
		if depth == 0 {
			return
		}
	}
	s.fail("value without end")
}

// scalar moves past a number or a literal.
func (s *scanner) scalar() {
	start := s.i
	for s.i < len(s.b) {
		switch s.b[s.i] {
		case ',', ':', '}', ']', '"', ' ', '\t', '\r', '\n':
			if s.i == start {
				s.fail("value missing")
			}
			return
		}
		s.i++
	}
}
