package client

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"time"
)

const (
	// defaultBatch is what a worker asks for when the Queue does not say.
	defaultBatch = 100
	// maxPoll is the longest single long poll of a consumer. Shorter than what
	// proxies usually allow an idle request.
	maxPoll = 30 * time.Second
	// settleTimeout bounds an ack, retries included: its context is not the
	// consumer's, which may have ended.
	settleTimeout = 10 * time.Second
	// emptyPause follows an empty poll that came back at once although it asked to
	// wait, as a broker in maintenance may answer.
	emptyPause = 250 * time.Millisecond
)

// Handler works on messages: one batch, or with Each one message. nil completes
// them. An error fails them, with its text as the reason.
//
// ctx ends when the consumer stops or the lease is lost; context.Cause tells. A
// handler that returns context.Canceled because the consumer stops has not failed:
// its messages are given back uncharged.
type Handler func(ctx context.Context, msgs []Message) error

// Consume hands messages to h until ctx ends, Limit or UntilEmpty is reached, or the
// broker refuses for good. It returns nil for a limit, ctx.Err() or the refusal.
// Network errors and 5xx are waited out. See the package comment for the life of a
// message.
func (q Queue) Consume(ctx context.Context, h Handler) error {
	c := newConsumer(q, h)
	inner, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var wg sync.WaitGroup
	for range c.workers {
		wg.Go(func() {
			if err := c.work(inner); err != nil {
				stop(err) // what one worker is refused, the others are as well
			}
		})
	}
	wg.Wait()
	switch {
	case c.budget.spent():
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	}
	return context.Cause(inner) // nil unless a worker stopped it
}

// consumer is one run of Consume.
type consumer struct {
	c       *Client
	pop     Queue // as polled, but for the batch
	handle  Handler
	workers int
	budget  *budget
	leases  leaseClock
	report  func(error)
}

func newConsumer(q Queue, h Handler) *consumer {
	if q.batch <= 0 {
		q.batch = defaultBatch
	}
	if q.wait <= 0 && !q.untilEmpty {
		q.wait = maxPoll
	}
	q.wait = min(q.wait, maxPoll)
	c := &consumer{
		c: q.c, pop: q, handle: h,
		workers: max(q.concurrency, 1),
		budget:  newBudget(q.limit),
		report:  q.onError,
	}
	c.leases.set(time.Duration(q.leaseSeconds) * time.Second)
	if c.report == nil {
		c.report = func(error) {}
	}
	return c
}

// work is one worker: poll, handle, acknowledge, again.
func (c *consumer) work(ctx context.Context) error {
	failures := 0
	for {
		n := c.budget.reserve(ctx, c.pop.batch)
		if n == 0 {
			return nil
		}
		begun := time.Now()
		b, err := c.pop.Batch(n).Pop(ctx)
		if err != nil {
			c.budget.settle(n, 0)
			if ctx.Err() != nil {
				return nil
			}
			if c.report(err); permanent(err) {
				return err
			}
			failures++
			if c.c.sleep(ctx, c.c.pause(failures)) != nil {
				return nil
			}
			continue
		}
		failures = 0
		got := len(b.Messages)
		c.budget.settle(n-got, 0)
		if got > 0 {
			c.budget.settle(got, c.batch(ctx, b))
			continue
		}
		if c.pop.untilEmpty {
			return nil
		}
		if time.Since(begun) < min(emptyPause, c.pop.wait) && c.c.sleep(ctx, emptyPause) != nil {
			return nil
		}
	}
}

// batch handles b, renewing its lease meanwhile, and returns how many messages the
// handler saw.
func (c *consumer) batch(ctx context.Context, b *Batch) int {
	hctx, lost := context.WithCancelCause(ctx)
	defer lost(nil)
	if b.LeaseID != "" {
		// To the end, acks included: an ack may take several attempts.
		defer c.renew(ctx, b.LeaseID, lost)()
	}
	d := delivery{consumer: c, ctx: hctx, stopping: ctx}
	if c.pop.each {
		return d.each(b.Messages)
	}
	return d.whole(b.Messages)
}

// delivery is one batch in the hands of a worker.
type delivery struct {
	*consumer
	ctx      context.Context // the handler's
	stopping context.Context // the consumer's: ends when it stops
}

// whole hands over the batch at once.
func (d *delivery) whole(msgs []Message) int {
	if d.stopping.Err() != nil && !d.pop.autoAck {
		d.giveBack(msgs)
		return 0
	}
	err := d.call(msgs)
	d.settle(msgs, d.outcome(err))
	return len(msgs)
}

// each hands over one message at a time. After a failure, or an ack that was refused,
// the rest of that partition is abandoned: it comes again, from that message on.
func (d *delivery) each(msgs []Message) (handled int) {
	abandoned := "" // messages of a partition are contiguous
	for i := range msgs {
		if msgs[i].PartitionID == abandoned && !d.pop.autoAck {
			continue
		}
		if d.ctx.Err() != nil && !d.pop.autoAck {
			d.giveBack(remaining(msgs[i:], abandoned))
			return handled
		}
		one := msgs[i : i+1 : i+1]
		err := d.call(one)
		handled++
		if !d.settle(one, d.outcome(err)) || err != nil {
			abandoned = msgs[i].PartitionID
		}
	}
	return handled
}

// remaining leaves out the messages of the abandoned partition.
func remaining(msgs []Message, abandoned string) []Message {
	for len(msgs) > 0 && msgs[0].PartitionID == abandoned {
		msgs = msgs[1:]
	}
	return msgs
}

// call runs the handler. A panic is the message's failure, not the consumer's.
func (d *delivery) call(msgs []Message) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = &PanicError{p, debug.Stack()}
		}
		if err != nil {
			d.report(fmt.Errorf("handler: %w", err))
		}
	}()
	return d.handle(d.ctx, msgs)
}

func (d *delivery) outcome(err error) Outcome {
	switch {
	case err == nil:
		return Completed
	case d.stopping.Err() != nil && errors.Is(err, context.Canceled):
		return Retry
	case err.Error() == "":
		return Failed("handler failed")
	}
	return Failed(err.Error())
}

// settle acknowledges msgs and reports whether the broker agreed. It is detached from
// the consumer's context: work that is done is recorded although the consumer stops.
func (d *delivery) settle(msgs []Message, o Outcome) bool {
	if d.pop.autoAck || len(msgs) == 0 {
		return true
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(d.stopping), settleTimeout)
	defer cancel()
	_, err := d.c.AckBatch(ctx, msgs, o)
	if err != nil {
		d.report(err)
	}
	return err == nil
}

// giveBack returns messages that no handler has seen, so that they need not wait for
// the lease to expire. The first of each partition stands for the rest of it. A lost
// lease has nothing to give back.
func (d *delivery) giveBack(msgs []Message) {
	if errors.Is(context.Cause(d.ctx), ErrLeaseLost) {
		return
	}
	var first []Message
	for i := range msgs {
		if i == 0 || msgs[i].PartitionID != msgs[i-1].PartitionID {
			first = append(first, msgs[i])
		}
	}
	d.settle(first, Retry)
}
