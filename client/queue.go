package client

import (
	"context"
	"net/url"
	"strconv"
	"time"
)

// Queue describes a request to one queue. Every method returns a changed copy, so a
// Queue may be kept and varied, and is safe for concurrent use.
type Queue struct {
	c         *Client
	name      string
	partition string
	pinned    bool
	group     string

	batch        int
	wait         time.Duration
	partitions   int
	leaseSeconds int
	autoAck      bool
	conflation   bool
	mode         string
	from         string

	concurrency int
	limit       int
	each        bool
	untilEmpty  bool
	onError     func(error)
}

// Queue starts the description of a request to the named queue.
func (c *Client) Queue(name string) Queue { return Queue{c: c, name: name} }

// Partition pins the request to one partition. A push without it goes to the
// partition Default, a pop without it to whatever partition is ready.
func (q Queue) Partition(name string) Queue {
	q.partition, q.pinned = name, true
	return q
}

// Group consumes as the named consumer group. Without it, or with an empty name, all
// such consumers share the cursor of the queue mode.
func (q Queue) Group(name string) Queue { q.group = name; return q }

// Batch bounds the messages of one pop, over all its partitions. The broker's
// default is 200.
func (q Queue) Batch(n int) Queue { q.batch = n; return q }

// Wait lets a pop wait up to d for a message; 0 asks once.
func (q Queue) Wait(d time.Duration) Queue { q.wait = d; return q }

// Partitions lets one pop take messages from up to n partitions. The default is 1.
func (q Queue) Partitions(n int) Queue { q.partitions = n; return q }

// LeaseSeconds replaces the queue's lease time for what this pop leases.
func (q Queue) LeaseSeconds(n int) Queue { q.leaseSeconds = n; return q }

// AutoAck acknowledges messages as they are handed out. There is no lease, and what
// is lost on the way or in the handler is lost.
func (q Queue) AutoAck() Queue { q.autoAck = true; return q }

// Conflation asks for last-value delivery: of each partition the newest message alone,
// which when completed completes those before it. A pop then takes as many partitions as
// its batch, at most 64, unless Partitions says otherwise. It needs a Group, which keeps
// the policy of its first pop by queue for good: where that was another one, or where
// the broker is too old to know, Pop and Consume return ErrConflation.
func (q Queue) Conflation() Queue { q.conflation = true; return q }

// SubscriptionMode is where a group that the queue does not know yet begins: "all"
// or "new".
func (q Queue) SubscriptionMode(mode string) Queue { q.mode = mode; return q }

// SubscriptionFrom lets a new group begin at an instant, ISO 8601 or "now".
func (q Queue) SubscriptionFrom(instant string) Queue { q.from = instant; return q }

// Concurrency is how many workers Consume runs, 1 by default.
func (q Queue) Concurrency(n int) Queue { q.concurrency = n; return q }

// Limit ends Consume after n messages have been handed to the handler, whatever
// became of them; 0 means never.
func (q Queue) Limit(n int) Queue { q.limit = n; return q }

// Each makes Consume hand over one message at a time and acknowledge it alone. After
// a failure it abandons the rest of that partition, which comes again in order.
func (q Queue) Each() Queue { q.each = true; return q }

// UntilEmpty ends Consume when a poll brings nothing. A message that another consumer
// holds, or that is still hidden, counts as nothing.
func (q Queue) UntilEmpty() Queue { q.untilEmpty = true; return q }

// OnError lets Consume report what it otherwise only acts on: a handler's error or
// panic, a refused ack, a poll that did not succeed. f is called from the workers.
func (q Queue) OnError(f func(error)) Queue { q.onError = f; return q }

// popPath is the path and query of a pop.
func (q Queue) popPath() string {
	path := "/api/v1/pop/queue/" + segment(q.name)
	if q.pinned {
		path += "/partition/" + segment(q.partition)
	}
	b := append([]byte(path), "?wait="...)
	b = strconv.AppendBool(b, q.wait > 0)
	if q.wait > 0 {
		b = appendInt(b, "timeout", int(max(q.wait.Milliseconds(), 1)))
	}
	b = appendInt(b, "batch", q.batch)
	if !q.pinned && (q.partitions > 1 || q.conflation) {
		b = appendInt(b, "partitions", q.partitions)
	}
	b = appendInt(b, "leaseSeconds", q.leaseSeconds)
	if q.autoAck {
		b = append(b, "&autoAck=true"...)
	}
	if q.conflation {
		b = append(b, "&conflation=true"...)
	}
	b = appendText(b, "consumerGroup", q.group)
	b = appendText(b, "subscriptionMode", q.mode)
	b = appendText(b, "subscriptionFrom", q.from)
	return string(b)
}

// appendInt adds a parameter that is absent at zero.
func appendInt(b []byte, key string, n int) []byte {
	if n <= 0 {
		return b
	}
	b = append(append(append(b, '&'), key...), '=')
	return strconv.AppendInt(b, int64(n), 10)
}

// appendText adds a parameter that is absent when empty.
func appendText(b []byte, key, v string) []byte {
	if v == "" {
		return b
	}
	b = append(append(append(b, '&'), key...), '=')
	return append(b, url.QueryEscape(v)...)
}

// popGrace is what a pop may take beyond its waiting time. The broker's answer to a
// poll that brought nothing has to arrive before we give the connection up.
const popGrace = 10 * time.Second

// Pop leases messages, or takes them with AutoAck. It returns an empty batch and no
// error when there is nothing to deliver. An error after the request may have reached
// the broker is returned at once and not retried: messages may be leased that nobody
// has seen, and come again when the lease expires.
func (q Queue) Pop(ctx context.Context) (*Batch, error) {
	body, err := q.c.do(ctx, request{
		method: "GET", path: q.popPath(), timeout: q.wait + popGrace, once: true,
	})
	if err != nil {
		return nil, err
	}
	b := &Batch{Queue: q.name}
	if len(body) > 0 {
		if err := decodeBatch(body, b); err != nil {
			return nil, err
		}
	}
	if q.conflation && (!b.Conflated || b.conflict) {
		return nil, ErrConflation
	}
	return b, nil
}
