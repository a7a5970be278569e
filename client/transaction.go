package client

import (
	"context"
	"fmt"
	"slices"
	"unicode/utf8"
)

// Transaction collects pushes and acknowledgements that Commit carries out together, or
// not at all. It is encoded as it is built, transaction ids included, so that Commit may
// be called again after an error: nothing happens twice. Not safe for concurrent use.
//
//	tx := c.Transaction()
//	tx.Ack(m)
//	tx.Queue("invoices").Partition("customer-42").Push(client.Item{Payload: invoice})
//	_, err := tx.Commit(ctx)
type Transaction struct {
	c          *Client
	operations []byte
	count      int  // results to expect
	pushes     int  // of them
	minted     bool // the transaction ids of all pushes were minted here
	leases     []string
	err        error // the first mistake of the caller
}

// Transaction starts an empty transaction.
func (c *Client) Transaction() *Transaction { return &Transaction{c: c, minted: true} }

// Ack completes messages. They may be of any queues, partitions and groups.
func (t *Transaction) Ack(msgs ...Message) *Transaction { return t.AckAs(Completed, msgs...) }

// AckAs acknowledges messages with an outcome. The transaction is rolled back if one of
// them is not under the lease any more that it was popped with.
func (t *Transaction) AckAs(o Outcome, msgs ...Message) *Transaction {
	for i := range msgs {
		m := &msgs[i]
		if !utf8.ValidString(m.Group) {
			t.fail(fmt.Errorf("%w: group %q", ErrName, m.Group))
			return t
		}
		b := appendString(append(t.next(1), `{"type":"ack","transactionId":`...), m.TransactionID)
		b = appendString(append(b, `,"partitionId":`...), m.PartitionID)
		if m.Group != "" {
			b = appendString(append(b, `,"consumerGroup":`...), m.Group)
		}
		b = appendString(append(b, `,"status":`...), o.status)
		if o.reason != "" {
			b = appendString(append(b, `,"error":`...), o.reason)
		}
		t.operations = append(b, '}')
		if m.LeaseID != "" && !slices.Contains(t.leases, m.LeaseID) {
			t.leases = append(t.leases, m.LeaseID)
		}
	}
	return t
}

// TransactionQueue is where the pushes of a Transaction go.
type TransactionQueue struct {
	t *Transaction
	q Queue
}

// Queue names the queue of pushes to follow.
func (t *Transaction) Queue(name string) TransactionQueue {
	return TransactionQueue{t, t.c.Queue(name)}
}

// Partition names the partition of pushes to follow; without it they go to Default.
func (q TransactionQueue) Partition(name string) TransactionQueue {
	return TransactionQueue{q.t, q.q.Partition(name)}
}

// Push adds messages. Unlike those of Queue.Push, a message that is stored already rolls
// the transaction back.
func (q TransactionQueue) Push(items ...Item) *Transaction {
	t := q.t
	if len(items) == 0 {
		return t
	}
	if !utf8.ValidString(q.q.name) {
		t.fail(fmt.Errorf("%w: queue %q", ErrName, q.q.name))
		return t
	}
	b := append(t.next(len(items)), `{"type":"push","items":[`...)
	for i := range items {
		if i > 0 {
			b = append(b, ',')
		}
		var err error
		if b, err = q.q.appendItem(b, &items[i]); err != nil {
			t.fail(fmt.Errorf("item %d: %w", i, err))
			return t
		}
		t.minted = t.minted && items[i].TransactionID == ""
	}
	t.operations = append(b, `]}`...)
	t.pushes += len(items)
	return t
}

// next counts n results and returns the operations so far, ready for another.
func (t *Transaction) next(n int) []byte {
	first := t.count == 0
	t.count += n
	if first {
		return t.operations
	}
	return append(t.operations, ',')
}

func (t *Transaction) fail(err error) {
	if t.err == nil {
		t.err = err
	}
}

// OperationResult is what became of one message of a transaction.
type OperationResult struct {
	Type          string `json:"type"` // "push" or "ack"
	TransactionID string `json:"transactionId"`
	MessageID     string `json:"messageId"`
	Queue         string `json:"queueName"`
	Duplicate     bool   `json:"duplicate"` // it repeats an earlier push of the same transaction
	DeadLettered  bool   `json:"dlq"`
}

// TransactionResult is the outcome of a transaction that has committed.
type TransactionResult struct {
	// Results has one element a pushed and one an acknowledged message, in the order
	// in which they were added; none if Repeated.
	Results []OperationResult
	// Repeated says that an earlier attempt had committed, whose answer was lost.
	Repeated bool
}

// Commit carries everything out and returns when it is durable. A transaction that was
// rolled back is a *RollbackError, and has changed nothing.
//
// Repeats, those of the client after a lost answer included, change nothing either: the
// messages of the first one are stored. That holds within the dedup windows of the queues;
// where one is 0 it is for the acks to tell. Where all transaction ids were minted here, that
// proves that the first one has committed, and Commit succeeds. With ids of the caller it
// is a *RollbackError of reason RolledBackDuplicate, and without pushes one of reason
// RolledBackAck, since the first one has released the leases.
func (t *Transaction) Commit(ctx context.Context) (TransactionResult, error) {
	if t.err != nil || t.count == 0 {
		return TransactionResult{}, t.err
	}
	body, err := t.c.do(ctx, request{method: "POST", path: "/api/v1/transaction", body: t.body(), timeout: t.c.timeout})
	if err != nil {
		return TransactionResult{}, err
	}
	var answer struct {
		Success bool              `json:"success"`
		Reason  string            `json:"reason"`
		Error   string            `json:"error"`
		Results []OperationResult `json:"results"`
	}
	if err := decode(body, &answer); err != nil {
		return TransactionResult{}, err
	}
	switch {
	case answer.Success && len(answer.Results) == t.count:
		return TransactionResult{Results: answer.Results}, nil
	case answer.Success:
		return TransactionResult{}, fmt.Errorf("%w: %d results of %d operations", ErrProtocol, len(answer.Results), t.count)
	case answer.Reason == RolledBackDuplicate && t.pushes > 0 && t.minted:
		return TransactionResult{Repeated: true}, nil
	}
	return TransactionResult{}, &RollbackError{Reason: answer.Reason, Message: answer.Error}
}

func (t *Transaction) body() []byte {
	b := append(make([]byte, 0, len(t.operations)+64), `{"operations":[`...)
	b = append(append(b, t.operations...), ']')
	for i, lease := range t.leases {
		if i == 0 {
			b = append(b, `,"requiredLeases":[`...)
		} else {
			b = append(b, ',')
		}
		b = appendString(b, lease)
	}
	if len(t.leases) > 0 {
		b = append(b, ']')
	}
	return append(b, '}')
}

// The reasons of a RollbackError; newer brokers may have others.
const (
	RolledBackDuplicate = "duplicate"         // a message is stored already
	RolledBackAck       = "ack_rejected"      // a lease is lost, or a message unknown
	RolledBackTooLarge  = "payload_too_large" // for one transaction
)

// RollbackError reports a transaction that has changed nothing.
type RollbackError struct {
	Reason  string // one of the constants above
	Message string // the broker's text
}

func (e *RollbackError) Error() string {
	return fmt.Sprintf("client: transaction rolled back: %s (%s)", e.Message, e.Reason)
}
