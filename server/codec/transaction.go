package codec

import (
	"errors"
	"strconv"
)

// ErrOperationType refuses an operation of a transaction that is neither a push nor an
// acknowledgement. The body itself was valid JSON.
var ErrOperationType = errors.New("segments transaction supports only push and ack operations")

// TransactionPush is one message of a transaction. What PushItem says of its slices
// holds, except that a Payload the body lacks is that of no body: {}.
type TransactionPush struct {
	PushItem
	TraceID [16]byte // zero: absent, or not a UUID
}

// Transaction decodes the body of a transaction. The zero value is ready, and reusing
// one costs no allocation once it has seen bodies of that size. Not safe for concurrent
// use.
type Transaction struct {
	// Order says of each operation, in the order of the body, whether it is the next of
	// Pushes or of Acks. An operation with several items counts once for each.
	Order  []OperationType
	Pushes []TransactionPush
	Acks   []Ack
	Leases [][]byte // requiredLeases without the blank ones

	scan        scanner
	seen        bool // the body has an array of operations
	unknownType bool // some operation is of no type there is
}

// OperationType tells the operations of a transaction apart.
type OperationType uint8

// The types of operations.
const (
	OperationPush OperationType = iota
	OperationAck
)

// Reset forgets the last body, so that a pooled Transaction keeps none alive.
func (t *Transaction) Reset() {
	t.drop()
	clear(t.Leases)
	if t.Leases = t.Leases[:0]; cap(t.Leases) > maxKeptItems {
		t.Leases = nil
	}
	t.seen = false
	t.scan.reset(nil)
}

// drop forgets the operations.
func (t *Transaction) drop() {
	clear(t.Pushes)
	clear(t.Acks)
	t.Pushes, t.Acks, t.Order, t.unknownType = t.Pushes[:0], t.Acks[:0], t.Order[:0], false
	if cap(t.Pushes) > maxKeptItems {
		t.Pushes = nil
	}
	if cap(t.Acks) > maxKeptItems {
		t.Acks = nil
	}
	if cap(t.Order) > 2*maxKeptItems {
		t.Order = nil
	}
}

// Decode reads body. The whole of it is validated in the same pass; of duplicate keys
// the last one counts. The slices hold until the next Decode or Reset, or until the body
// changes. After an error, an *Error or ErrOperationType, the fields mean nothing.
func (t *Transaction) Decode(body []byte) error {
	t.Reset()
	s := &t.scan
	s.reset(body)
	var ofLeases *Error // complaint about the leases, apart from that about the operations
	at, more := s.begin()
	for more {
		var name []byte
		if name, at = s.name(at); at < 0 {
			break
		}
		switch string(name) {
		case "operations":
			at = t.operations(at)
		case "requiredLeases":
			ofOperations := s.complaint
			at = t.leases(at)
			ofLeases, s.complaint = s.complaint, ofOperations
		default:
			at = s.skip(at, 1)
		}
		at, more = s.next(at, '}')
	}
	if !t.seen {
		s.complain("operations is missing")
	}
	if s.complaint == nil {
		s.complaint = ofLeases
	}
	err := s.finish(at)
	if s.err == nil && t.unknownType {
		return ErrOperationType
	}
	return err
}

// leases reads the value of the member requiredLeases at at.
func (t *Transaction) leases(at int) int {
	s := &t.scan
	s.complaint, t.Leases = nil, t.Leases[:0]
	if s.peek(at) != '[' {
		if s.peek(at) != 'n' {
			s.complain("requiredLeases is not an array")
		}
		return s.skip(at, 1)
	}
	at, more := s.enter(at)
	for more {
		f := s.field(at, 2)
		if at = f.to; at < 0 {
			return -1
		}
		lease, ok := s.optional(f)
		switch {
		case !ok:
			s.complaint = nil
			s.complain("requiredLeases has an element that is not a string")
		case len(t.Leases) == MaxItems:
			s.complain("requiredLeases has more than 200000 elements")
		case len(lease) > 0:
			t.Leases = append(t.Leases, lease)
		}
		at, more = s.next(at, ']')
	}
	return at
}

// operations reads the value of the member operations at at. It starts from nothing: an
// earlier one and the complaint about it are void.
func (t *Transaction) operations(at int) int {
	s := &t.scan
	t.drop()
	t.seen, s.complaint = true, nil
	if s.peek(at) != '[' {
		s.complain("operations is not an array")
		return s.skip(at, 1)
	}
	at, more := s.enter(at)
	for n := 0; more; n++ {
		at = t.operation(at, n)
		at, more = s.next(at, ']')
	}
	return at
}

// operationNames are the members of an operation but its items: those of ackNames, in
// their places, then what only a push has, and the type.
var operationNames = [...]string{
	"transactionId", "partitionId", groupField: "consumerGroup", "leaseId", "status", "error",
	"queue", "partition", "payload", "data", "traceId", "type",
}

// messageNames are the members of a message to push, messagePlaces where operationNames
// has them.
var (
	messageNames  = [...]string{"queue", "partition", "transactionId", "payload", "data", "traceId"}
	messagePlaces = [len(messageNames)]int{6, 7, 0, 8, 9, 10}
)

const typePlace = len(operationNames) - 1

// place is where a message stands in the body, for complaints.
type place struct{ operation, item int } // item is -1 if the operation is the message

func (p place) array() (array string, index int) {
	if p.item < 0 {
		return "operations", p.operation
	}
	return "operations[" + strconv.Itoa(p.operation) + "].items", p.item
}

// operation reads operation n, at at. Its items may stand before its type, so they are
// read on trial: what they add and complain of counts in a push alone.
func (t *Transaction) operation(at, n int) int {
	s := &t.scan
	if s.peek(at) != '{' {
		s.complainAt("operations", n, " is not an object")
		return s.skip(at, 2)
	}
	var (
		fields   [len(operationNames)]field
		first    = len(t.Pushes)
		hasItems bool
		ofItems  *Error
	)
	at, more := s.enter(at)
	for more {
		var name []byte
		if name, at = s.name(at); at < 0 {
			return -1
		}
		if string(name) == "items" {
			t.Pushes = t.Pushes[:first]
			hasItems = s.peek(at) == '['
			at, ofItems = t.items(at, n)
		} else if i := indexOf(operationNames[:], name); i >= 0 {
			fields[i] = s.field(at, 3)
			at = fields[i].to
		} else {
			at = s.skip(at, 3)
		}
		at, more = s.next(at, '}')
	}
	if at >= 0 {
		t.add(&fields, n, first, hasItems, ofItems)
	}
	return at
}

// items reads the value of the member items of operation n, and returns the complaint
// about it apart from earlier ones.
func (t *Transaction) items(at, n int) (behind int, complaint *Error) {
	s := &t.scan
	if s.peek(at) != '[' {
		return s.skip(at, 3), nil
	}
	before := s.complaint
	s.complaint = nil
	at, more := s.enter(at)
	for item := 0; more; item++ {
		at = t.item(at, place{n, item})
		at, more = s.next(at, ']')
	}
	complaint, s.complaint = s.complaint, before
	return at, complaint
}

func (t *Transaction) item(at int, where place) int {
	s := &t.scan
	if s.peek(at) != '{' {
		array, i := where.array()
		s.complainAt(array, i, " is not an object")
		return s.skip(at, 4)
	}
	var fields [len(messageNames)]field
	at, more := s.enter(at)
	if at = s.members(at, more, 5, messageNames[:], fields[:]); at >= 0 {
		t.addPush(&fields, where)
	}
	return at
}

// add makes an operation of what was read: fields, and the messages from first on.
func (t *Transaction) add(fields *[len(operationNames)]field, n, first int, hasItems bool, ofItems *Error) {
	s := &t.scan
	kind := ""
	if s.isString(fields[typePlace]) {
		kind = string(s.text(fields[typePlace]))
	}
	switch {
	case kind == "push" && hasItems:
		if s.complaint == nil {
			s.complaint = ofItems
		}
	case kind == "push":
		var of [len(messageNames)]field
		for i, at := range messagePlaces {
			of[i] = fields[at]
		}
		t.addPush(&of, place{n, -1})
	case kind == "ack":
		t.Pushes = t.Pushes[:first]
		t.addAck((*[len(ackNames)]field)(fields[:len(ackNames)]), n)
	default:
		t.Pushes, t.unknownType = t.Pushes[:first], true
	}
	for range t.Pushes[first:] {
		t.Order = append(t.Order, OperationPush)
	}
}

// noPayload is the payload of a message that has none.
var noPayload = []byte("{}")

// addPush adds a message, or complains. After a complaint nothing more is added.
func (t *Transaction) addPush(f *[len(messageNames)]field, where place) {
	s := &t.scan
	if s.complaint != nil || t.full() {
		return
	}
	p := TransactionPush{PushItem: PushItem{HasPartition: !s.absent(f[1]), Payload: noPayload}}
	for i, to := range [...]*[]byte{&p.Queue, &p.Partition, &p.TransactionID} {
		var ok bool
		if *to, ok = s.optional(f[i]); !ok {
			array, at := where.array()
			s.complainAt(array, at, "."+messageNames[i]+" is not a string")
			return
		}
	}
	if len(p.TransactionID) > MaxTransactionID {
		s.complain("transactionId exceeds 65535 bytes")
		return
	}
	if len(p.TransactionID) == 0 {
		p.TransactionID = nil
	}
	if payload, data := f[3], f[4]; payload.to > 0 {
		p.Payload = s.raw(payload)
	} else if data.to > 0 {
		p.Payload = s.raw(data)
	}
	if s.isString(f[5]) {
		p.TraceID, _ = ParseUUID(s.text(f[5]))
	}
	t.Pushes = append(t.Pushes, p)
}

// addAck adds an acknowledgement, or complains.
func (t *Transaction) addAck(f *[len(ackNames)]field, n int) {
	s := &t.scan
	if s.complaint != nil || t.full() {
		return
	}
	ack, mistyped := s.ack(f)
	if mistyped != "" {
		s.complainAt("operations", n, "."+mistyped+" is not a string")
		return
	}
	t.Acks = append(t.Acks, ack)
	t.Order = append(t.Order, OperationAck)
}

// full complains of more operations than a request may have.
func (t *Transaction) full() bool {
	if len(t.Pushes)+len(t.Acks) < MaxItems {
		return false
	}
	t.scan.complain("operations has more than 200000 elements")
	return true
}
