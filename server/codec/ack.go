package codec

// Ack is one acknowledgement as it was sent. nil is absent or null, and an explicit ""
// is not nil. The slices are parts of the body, or of scratch memory of the AckBatch.
type Ack struct {
	TransactionID []byte
	PartitionID   []byte
	ConsumerGroup []byte // of a single acknowledgement; in a batch it stands at the top
	LeaseID       []byte
	Status        []byte
	Error         []byte
	HasStatus     bool // Status is a string, if only ""
}

// AckBatch decodes the bodies of both ack routes. The zero value is ready, and reusing
// one costs no allocation once it has seen bodies of that size. Not safe for
// concurrent use.
type AckBatch struct {
	ConsumerGroup []byte // nil: absent or null
	Items         []Ack

	scan scanner
	seen bool // the body has an array of acknowledgments
}

// Reset forgets the last body, so that a pooled AckBatch keeps none alive.
func (a *AckBatch) Reset() {
	clear(a.Items)
	if a.Items = a.Items[:0]; cap(a.Items) > maxKeptItems {
		a.Items = nil
	}
	a.ConsumerGroup, a.seen = nil, false
	a.scan.reset(nil)
}

// DecodeAck reads the body of a single acknowledgement. Its slices hold until the body
// changes. It allocates only to resolve escapes. Errors are of type *Error.
func DecodeAck(body []byte) (Ack, error) {
	var s scanner
	s.reset(body)
	var fields [len(ackNames)]field
	at, more := s.begin()
	at = s.members(at, more, 1, ackNames[:], fields[:])
	if err := s.finish(at); err != nil {
		return Ack{}, err
	}
	ack, mistyped := s.ack(&fields)
	if mistyped != "" {
		return Ack{}, &Error{Text: mistyped + " is not a string", Offset: -1}
	}
	return ack, nil
}

// Decode reads the body of a batch: consumerGroup at the top and an array of
// acknowledgments, in which a consumerGroup is ignored. The slices hold until the next
// Decode or Reset, or until the body changes. After an error, which is an *Error, the
// fields mean nothing.
func (a *AckBatch) Decode(body []byte) error {
	a.Reset()
	s := &a.scan
	s.reset(body)
	var group field
	at, more := s.begin()
	for more {
		var name []byte
		if name, at = s.name(at); at < 0 {
			break
		}
		switch string(name) {
		case "consumerGroup":
			group = s.field(at, 1)
			at = group.to
		case "acknowledgments":
			at = a.items(at)
		default:
			at = s.skip(at, 1)
		}
		at, more = s.next(at, '}')
	}
	if at < 0 {
		return s.finish(at)
	}
	if !a.seen {
		s.complain("acknowledgments is missing")
	}
	var ok bool
	if a.ConsumerGroup, ok = s.optional(group); !ok {
		s.complain("consumerGroup is not a string")
	}
	return s.finish(at)
}

// items reads the value of the member acknowledgments at at. It starts from nothing:
// an earlier one and the complaint about it are void.
func (a *AckBatch) items(at int) int {
	s := &a.scan
	a.Items, a.seen, s.complaint = a.Items[:0], true, nil
	if s.peek(at) != '[' {
		s.complain("acknowledgments is not an array")
		return s.skip(at, 1)
	}
	at, more := s.enter(at)
	for more {
		at = a.item(at)
		at, more = s.next(at, ']')
	}
	return at
}

// item reads the element of acknowledgments at at.
func (a *AckBatch) item(at int) int {
	s := &a.scan
	if s.peek(at) != '{' {
		s.complainAt("acknowledgments", len(a.Items), " is not an object")
		return s.skip(at, 2)
	}
	var fields [len(ackNames)]field
	if len(a.Items) == MaxItems {
		s.complain("acknowledgments has more than 200000 elements")
		return s.skip(at, 2)
	}
	at, more := s.enter(at)
	at = s.members(at, more, 3, ackNames[:], fields[:])
	if at < 0 || s.complaint != nil {
		return at
	}
	fields[groupField] = field{} // counts at the top alone
	ack, mistyped := s.ack(&fields)
	if mistyped != "" {
		s.complainAt("acknowledgments", len(a.Items), "."+mistyped+" is not a string")
		return at
	}
	a.Items = append(a.Items, ack)
	return at
}

// groupField is the place of the group in ackNames.
const groupField = 2

// ackNames are the members of one acknowledgement.
var ackNames = [...]string{"transactionId", "partitionId", groupField: "consumerGroup", "leaseId", "status", "error"}

// ack resolves the members of one acknowledgement, in the order of ackNames. mistyped
// names the first that is neither a string nor null nor absent.
func (s *scanner) ack(fields *[len(ackNames)]field) (ack Ack, mistyped string) {
	var text [len(ackNames)][]byte
	for i, f := range fields {
		var ok bool
		if text[i], ok = s.optional(f); !ok {
			return Ack{}, ackNames[i]
		}
	}
	return Ack{
		TransactionID: text[0],
		PartitionID:   text[1],
		ConsumerGroup: text[groupField],
		LeaseID:       text[3],
		Status:        text[4],
		Error:         text[5],
		HasStatus:     text[4] != nil,
	}, ""
}
