package main

import (
	"context"
	"net/http"
	"time"
)

// consumer consumes a queue for a group with leases, and often badly, until its context
// ends.
type consumer struct {
	*worker
	queue *queue
	group string
	tidy  func() bool // the drain has begun: no more mischief
}

// run returns when ctx ends.
func (c *consumer) run(ctx context.Context) {
	defer c.hangUp()
	for c.once(ctx) == nil {
	}
}

func (c *consumer) once(ctx context.Context) error {
	p := c.choose()
	if !c.tidy() && c.chance(2) {
		return c.abandonPoll(ctx, p)
	}
	parts, err := c.pop(ctx, p)
	if err != nil {
		return err
	}
	if len(parts) == 0 {
		if p.wait > 0 {
			return ctx.Err()
		}
		return c.pause(ctx, 4*time.Millisecond)
	}
	if c.tidy() {
		return c.settle(ctx, parts, verdictAll)
	}
	return c.misuse(ctx, p, parts)
}

// choose makes a pop.
func (c *consumer) choose() *pop {
	p := &pop{
		queue: c.queue, group: c.group, batch: 1 + c.rng.IntN(100), partitions: 1 + c.rng.IntN(4), leaseSeconds: 1 + c.rng.IntN(2),
	}
	if c.chance(50) {
		p.wait = 200 * time.Millisecond
	}
	if c.chance(15) && !c.tidy() {
		p.partition, p.partitions = lane(c.rng.IntN(partitions)), 1
	}
	return p
}

// abandonPoll hangs up on a poll while it waits.
func (c *consumer) abandonPoll(ctx context.Context, p *pop) error {
	cn, err := c.connect(ctx)
	if err != nil {
		return err
	}
	p.wait = 200 * time.Millisecond
	c.begin(&p.request, cn)
	c.check.startPop(p)
	stop := time.AfterFunc(time.Duration(c.rng.IntN(30))*time.Millisecond, func() { _ = cn.Close() })
	_, _, _ = cn.do(http.MethodGet, p.path(), nil, p.wait)
	stop.Stop()
	p.end = c.now()
	c.check.losePop(p) // even if an answer came: this consumer dies with its messages
	c.hangUp()
	return nil
}

// misuse does with what was delivered one of the things that consumers do.
func (c *consumer) misuse(ctx context.Context, p *pop, parts []*part) error {
	if err := c.pause(ctx, time.Duration(c.rng.IntN(4))*time.Millisecond); err != nil {
		return err
	}
	switch n := c.rng.IntN(100); {
	case n < 60:
		return c.settle(ctx, parts, verdictAll)
	case n < 75:
		return c.bitByBit(ctx, parts)
	case n < 83:
		return c.settle(ctx, parts, verdictRetry)
	case n < 86:
		return c.settle(ctx, parts, verdictFail)
	case n < 87:
		return c.settle(ctx, parts, verdictBury)
	case n < 93:
		if err := c.extend(ctx, p, 1+c.rng.IntN(2)); err != nil {
			return err
		}
		return c.settle(ctx, parts, verdictAll)
	case n < 95:
		return c.tooLate(ctx, p, parts)
	default:
		return nil // it dies, and the lease with time
	}
}

// tooLate acknowledges when the lease has ended.
func (c *consumer) tooLate(ctx context.Context, p *pop, parts []*part) error {
	if err := c.pause(ctx, time.Duration(p.leaseSeconds)*time.Second+4*margin); err != nil {
		return err
	}
	return c.settle(ctx, parts, verdictAll)
}

// verdict says what becomes of one message chosen from each partition; the others are
// completed.
type verdict string

const (
	verdictAll   verdict = completed
	verdictRetry verdict = retry
	verdictFail  verdict = failed
	verdictBury  verdict = dlq
)

// settle acknowledges everything in one request. Poison fails, whatever the verdict. If
// there is no answer, it may ask again: the lease may have survived.
func (c *consumer) settle(ctx context.Context, parts []*part, v verdict) error {
	var items []ackItem
	for _, part := range parts {
		items = append(items, c.judge(part, v)...)
	}
	ok, err := c.ack(ctx, c.group, items)
	for err == nil && !ok && c.chance(60) {
		ok, err = c.ack(ctx, c.group, items)
	}
	return err
}

// judge makes the acks of one partition. Behind a message that is not completed they
// may go on, to no effect.
func (c *consumer) judge(part *part, v verdict) []ackItem {
	chosen := -1
	if v != verdictAll {
		chosen = c.rng.IntN(len(part.messages))
	}
	goOn := c.chance(50)
	var items []ackItem
	for i, m := range part.messages {
		status := completed
		switch {
		case m.poison:
			status = failed
		case i == chosen:
			status = string(v)
		}
		items = append(items, ackItem{m, part.lease, status})
		if status != completed && !goOn {
			break
		}
	}
	return items
}

// bitByBit completes a few messages one at a time, and sometimes the rest.
func (c *consumer) bitByBit(ctx context.Context, parts []*part) error {
	for _, part := range parts {
		for range 1 + c.rng.IntN(2) {
			i := c.rng.IntN(len(part.messages))
			if poisonBefore(part.messages[:i+1]) {
				break
			}
			// What lies below is completed with it.
			if _, err := c.ack(ctx, c.group, []ackItem{{part.messages[i], part.lease, completed}}); err != nil {
				return err
			}
		}
	}
	if c.chance(50) {
		return c.settle(ctx, parts, verdictAll)
	}
	return nil
}

func poisonBefore(messages []*message) bool {
	for _, m := range messages {
		if m.poison {
			return true
		}
	}
	return false
}

// taker consumes a queue under autoAck.
type taker struct {
	*worker
	queue *queue
	group string
}

// run returns when ctx ends.
func (t *taker) run(ctx context.Context) {
	defer t.hangUp()
	for {
		n, err := t.take(ctx, 1+t.rng.IntN(10))
		if err != nil || n == 0 && t.pause(ctx, 5*time.Millisecond) != nil {
			return
		}
	}
}

// take takes one batch.
func (t *taker) take(ctx context.Context, batch int) (n int, err error) {
	parts, err := t.pop(ctx, &pop{queue: t.queue, group: t.group, batch: batch, partitions: 1 + t.rng.IntN(2), leaseSeconds: 1, autoAck: true})
	return len(parts), err
}
