package codec

// MaxTransactionID is the longest transaction id of a push, in bytes: its length is
// stored in 16 bits.
const MaxTransactionID = 1<<16 - 1

// maxKeptItems bounds the items that a reused Push or AckBatch keeps room for.
const maxKeptItems = 4096

// MaxItems is how many items a request may have. An item of a few bytes takes hundreds
// once it is decoded, so the size of a body alone does not bound what it costs.
const MaxItems = 200_000

// PushItem is one message of a push. Its slices are parts of the body, or of scratch
// memory of the Push: they hold until its next Decode or Reset, or until the body
// changes.
type PushItem struct {
	Queue         []byte
	Partition     []byte
	TransactionID []byte // nil: absent, null or ""
	Payload       []byte // one JSON value, byte for byte as it was sent
	HasPartition  bool   // false: absent or null. "" is a partition of that name
}

// Push decodes the body of a push. The zero value is ready, and reusing one costs no
// allocation once it has seen bodies of that size: keep them in a sync.Pool. Not safe
// for concurrent use.
type Push struct {
	Items []PushItem

	scan scanner
	seen bool // the body has an array of items
}

// Reset forgets the last body, so that a pooled Push keeps none alive.
func (p *Push) Reset() {
	clear(p.Items)
	if p.Items = p.Items[:0]; cap(p.Items) > maxKeptItems {
		p.Items = nil
	}
	p.seen = false
	p.scan.reset(nil)
}

// Decode reads body into p.Items. The whole body is validated in the same pass, what
// it ignores included; of duplicate keys the last one counts. After an error, which
// is an *Error, Items means nothing.
func (p *Push) Decode(body []byte) error {
	p.Reset()
	s := &p.scan
	s.reset(body)
	at, more := s.begin()
	for more {
		var name []byte
		if name, at = s.name(at); at < 0 {
			break
		}
		if string(name) == "items" {
			at = p.items(at)
		} else {
			at = s.skip(at, 1)
		}
		at, more = s.next(at, '}')
	}
	if !p.seen {
		s.complain("items is missing")
	}
	return s.finish(at)
}

// items reads the value of the member items at at. It starts from nothing: an earlier
// items and the complaint about it are void.
func (p *Push) items(at int) int {
	s := &p.scan
	p.Items, p.seen, s.complaint = p.Items[:0], true, nil
	if s.peek(at) != '[' {
		s.complain("items is not an array")
		return s.skip(at, 1)
	}
	at, more := s.enter(at)
	for more {
		at = p.item(at)
		at, more = s.next(at, ']')
	}
	return at
}

// item reads the element of items at at.
func (p *Push) item(at int) int {
	s := &p.scan
	if s.peek(at) != '{' {
		s.complainAt("items", len(p.Items), " is not an object")
		return s.skip(at, 2)
	}
	if len(p.Items) == MaxItems {
		s.complain("items has more than 200000 elements")
		return s.skip(at, 2)
	}
	var queue, partition, id, payload field
	at, more := s.enter(at)
	for more {
		var name []byte
		if name, at = s.name(at); at < 0 {
			return -1
		}
		switch string(name) {
		case "queue":
			queue = s.field(at, 3)
			at = queue.to
		case "partition":
			partition = s.field(at, 3)
			at = partition.to
		case "transactionId":
			id = s.field(at, 3)
			at = id.to
		case "payload":
			payload = s.field(at, 3)
			at = payload.to
		default:
			at = s.skip(at, 3)
		}
		at, more = s.next(at, '}')
	}
	if at >= 0 && s.complaint == nil {
		p.add(queue, partition, id, payload)
	}
	return at
}

// add appends one item, or complains. After a complaint nothing more is added.
func (p *Push) add(queue, partition, id, payload field) {
	s := &p.scan
	item := PushItem{HasPartition: !s.absent(partition)}
	var ok [2]bool
	item.Partition, ok[0] = s.optional(partition)
	item.TransactionID, ok[1] = s.optional(id)
	switch {
	case queue.to == 0:
		s.complainAt("items", len(p.Items), ".queue is missing")
	case !s.isString(queue):
		s.complainAt("items", len(p.Items), ".queue is not a string")
	case !ok[0]:
		s.complainAt("items", len(p.Items), ".partition is not a string")
	case !ok[1]:
		s.complainAt("items", len(p.Items), ".transactionId is not a string")
	case payload.to == 0:
		s.complainAt("items", len(p.Items), ".payload is missing")
	case len(item.TransactionID) > MaxTransactionID:
		s.complain("transactionId exceeds 65535 bytes")
	default:
		if len(item.TransactionID) == 0 {
			item.TransactionID = nil
		}
		item.Queue, item.Payload = s.text(queue), s.raw(payload)
		p.Items = append(p.Items, item)
	}
}
