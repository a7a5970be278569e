package client

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"unicode/utf8"

	"github.com/google/uuid"
)

// The verdicts on a pushed item.
const (
	Queued    = "queued"    // stored
	Duplicate = "duplicate" // its transaction id was already stored in that partition
	Buffered  = "buffered"  // accepted, to be stored when maintenance ends
	NotStored = "failed"    // neither stored nor buffered
)

// Item is one message to push.
type Item struct {
	// Payload is the message. A json.RawMessage or []byte is sent verbatim and must
	// be one JSON value; anything else is marshalled.
	Payload any
	// TransactionID makes the message unique in its partition. One is minted if it
	// is empty, which makes the retries of this push safe (on a queue whose dedup window is not 0), but not a second push.
	TransactionID string
	// Partition overrides the partition of the Queue when it is not empty.
	Partition string
}

// PushResult is the verdict on one item, in the item's place.
type PushResult struct {
	MessageID     string `json:"message_id"` // of a duplicate: the original's
	TransactionID string `json:"transaction_id"`
	Queue         string `json:"queueName"`
	Status        string `json:"status"`
	Error         string `json:"error"`
}

// Push appends items, in order within each partition, and returns when all of them
// are durable. If the broker stored only some, it returns the results and a
// *RefusedError. After any other error items may have been stored; pushing the same
// transaction ids again is safe within the queue's deduplication window.
func (q Queue) Push(ctx context.Context, items ...Item) ([]PushResult, error) {
	if len(items) == 0 {
		return nil, nil
	}
	body, err := q.appendPush(nil, items)
	if err != nil {
		return nil, err
	}
	answer, err := q.c.do(ctx, request{method: "POST", path: "/api/v1/push", body: body, timeout: q.c.timeout})
	if err != nil {
		return nil, err
	}
	results := make([]PushResult, 0, len(items))
	if err := decode(answer, &results); err != nil {
		return nil, err
	}
	if len(results) != len(items) {
		return nil, fmt.Errorf("%w: %d verdicts on %d items", ErrProtocol, len(results), len(items))
	}
	return results, pushVerdict(results)
}

func pushVerdict(results []PushResult) error {
	refused := RefusedError{Op: "push", Total: len(results)}
	for i := range results {
		switch results[i].Status {
		case Queued, Duplicate, Buffered:
			continue
		}
		if refused.Refused++; refused.Refused == 1 {
			refused.First = results[i].Status + ": " + results[i].Error
		}
	}
	if refused.Refused == 0 {
		return nil
	}
	return &refused
}

// appendPush encodes the request. Payloads given as JSON are copied, not re-encoded.
func (q Queue) appendPush(dst []byte, items []Item) ([]byte, error) {
	if !utf8.ValidString(q.name) {
		return nil, fmt.Errorf("%w: queue %q", ErrName, q.name)
	}
	dst = append(grow(dst, items), `{"items":[`...)
	for i := range items {
		it := &items[i]
		if i > 0 {
			dst = append(dst, ',')
		}
		var err error
		if dst, err = q.appendItem(dst, it); err != nil {
			return nil, fmt.Errorf("item %d: %w", i, err)
		}
	}
	return append(dst, `]}`...), nil
}

// grow makes room for items whose payloads are already JSON.
func grow(dst []byte, items []Item) []byte {
	n := 32
	for i := range items {
		n += 128
		switch p := items[i].Payload.(type) {
		case json.RawMessage:
			n += len(p)
		case []byte:
			n += len(p)
		}
	}
	return append(make([]byte, 0, len(dst)+n), dst...)
}

func (q Queue) appendItem(dst []byte, it *Item) ([]byte, error) {
	partition, named := q.partition, q.pinned
	if it.Partition != "" {
		partition, named = it.Partition, true
	}
	if !utf8.ValidString(partition) {
		return nil, fmt.Errorf("%w: partition %q", ErrName, partition)
	}
	if !utf8.ValidString(it.TransactionID) {
		return nil, fmt.Errorf("%w: transaction id %q", ErrName, it.TransactionID)
	}
	dst = appendString(append(dst, `{"queue":`...), q.name)
	if named {
		dst = appendString(append(dst, `,"partition":`...), partition)
	}
	dst = append(dst, `,"transactionId":`...)
	if it.TransactionID != "" {
		dst = appendString(dst, it.TransactionID)
	} else {
		id, err := uuid.NewV7()
		if err != nil {
			return nil, fmt.Errorf("mint transaction id: %w", err)
		}
		text, _ := id.MarshalText() // never fails
		dst = append(append(append(dst, '"'), text...), '"')
	}
	dst, err := appendPayload(append(dst, `,"payload":`...), it.Payload)
	if err != nil {
		return nil, err
	}
	return append(dst, '}'), nil
}

func appendPayload(dst []byte, payload any) ([]byte, error) {
	var raw []byte
	switch p := payload.(type) {
	case json.RawMessage:
		raw = p
	case []byte:
		raw = p
	default:
		return appendJSON(dst, payload)
	}
	// Checked although the broker checks again: text that closes the item early
	// would otherwise be read as another item.
	if !json.Valid(raw) {
		return nil, fmt.Errorf("%w: %q", ErrPayload, clip(string(raw), 80))
	}
	return append(dst, raw...), nil
}

// appendJSON marshals v as it is written: without turning <, > and & into escapes.
func appendJSON(dst []byte, v any) ([]byte, error) {
	w := bytes.NewBuffer(dst)
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrPayload, err)
	}
	return w.Bytes()[:w.Len()-1], nil // Encode ends with a line feed
}

// appendString quotes s. Names are nearly always plain, and then only copied.
func appendString(dst []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c >= utf8.RuneSelf || c == '"' || c == '\\' {
			out, _ := appendJSON(dst, s) // a string always encodes
			return out
		}
	}
	return append(append(append(dst, '"'), s...), '"')
}
