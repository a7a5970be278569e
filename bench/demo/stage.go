package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/skepmq/skep/client"
)

// stage is everything that takes part in the story.
type stage struct {
	*story
	broker  *broker
	client  *client.Client
	queue   client.Queue
	events  []event
	audit   *ledger
	billing *ledger
}

// run plays the story and returns what went wrong.
func (s *stage) run(ctx context.Context) error {
	if err := s.broker.start(ctx); err != nil {
		return err
	}
	s.tell("broker ready at %s, data in %s", s.broker.address, s.broker.dir)
	if _, err := s.queue.Configure(ctx, client.Options{LeaseTime: new(leaseSeconds)}); err != nil {
		return err
	}
	if err := s.play(ctx); err != nil {
		return fmt.Errorf("%w; the broker's last words:\n%s", err, s.broker.log)
	}
	return s.judge(ctx)
}

// play runs the producer, both groups and both kills side by side until both groups
// have seen every event. The first error ends all of them.
func (s *stage) play(ctx context.Context) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var wg sync.WaitGroup
	actor := func(act func(context.Context) error) {
		wg.Go(func() {
			if err := act(ctx); err != nil && ctx.Err() == nil {
				stop(err)
			}
		})
	}
	half := make(chan struct{})
	actor(func(ctx context.Context) error { return s.produce(ctx, half) })
	actor(func(ctx context.Context) error { return s.crash(ctx, half) })
	actor(func(ctx context.Context) error { return audit(ctx, s.queue, s.client, s.audit) })
	actor(s.bill)
	actor(func(ctx context.Context) error {
		for _, l := range []*ledger{s.audit, s.billing} {
			select {
			case <-l.after(len(s.events)):
			case <-ctx.Done():
				return nil
			}
			seen, again := l.counts()
			s.tell("group %s has seen all %d events, %d of them more than once", l.group, seen, again)
		}
		// Everything is delivered; the last acks may still be under way.
		if err := s.drained(ctx); err != nil {
			return err
		}
		stop(errDone)
		return nil
	})
	wg.Wait()
	switch err := context.Cause(ctx); {
	case errors.Is(err, errDone):
		return nil
	case errors.Is(err, context.DeadlineExceeded):
		a, _ := s.audit.counts()
		b, _ := s.billing.counts()
		return fmt.Errorf("not finished in time: audit has seen %d and billing %d of %d events", a, b, len(s.events))
	default:
		return err
	}
}

var errDone = errors.New("done")

// produce pushes all events in order and closes half in the middle.
func (s *stage) produce(ctx context.Context, half chan<- struct{}) error {
	items := make([]client.Item, 0, pushBatch)
	duplicates := 0
	for i := 0; i < len(s.events); i += pushBatch {
		items = items[:0]
		for _, e := range s.events[i:min(i+pushBatch, len(s.events))] {
			items = append(items, client.Item{Payload: e.payload, Partition: e.partition, TransactionID: e.id})
		}
		if i <= len(s.events)/2 && len(s.events)/2 < i+pushBatch {
			close(half)
		}
		results, err := s.queue.Push(ctx, items...)
		if err != nil {
			return fmt.Errorf("push: %w", err)
		}
		for _, r := range results {
			if r.Status == client.Duplicate {
				duplicates++ // stored before the crash, answered after it
			}
		}
	}
	s.tell("all %d events pushed; %d were pushed twice because of the crash and stored once", len(s.events), duplicates)
	return nil
}

// crash kills the broker while a push is under way, and starts it again.
func (s *stage) crash(ctx context.Context, half <-chan struct{}) error {
	select {
	case <-half:
	case <-ctx.Done():
		return nil
	}
	s.broker.kill()
	s.tell("half of the events pushed: broker killed with SIGKILL")
	begun := time.Now()
	if err := s.broker.start(ctx); err != nil {
		return err
	}
	s.tell("broker started again, ready after %d ms", time.Since(begun).Milliseconds())
	return nil
}

// bill runs the billing group as a process, which is killed after a third of the events
// and replaced.
func (s *stage) bill(ctx context.Context) error {
	var readers sync.WaitGroup
	defer readers.Wait()
	p, err := startConsumer(s.broker, queueName, s.billing, &readers)
	if err != nil {
		return err
	}
	third := len(s.events) / 3
	select {
	case <-s.billing.after(third):
		s.tell("group billing has seen %d events: its process killed with SIGKILL, another one started", third)
	case <-ctx.Done():
	case err := <-p.done:
		return s.ended(p, err)
	}
	if err := p.kill(); err != nil || ctx.Err() != nil {
		return err
	}
	if p, err = startConsumer(s.broker, queueName, s.billing, &readers); err != nil {
		return err
	}
	select {
	case <-ctx.Done():
		return p.kill()
	case err := <-p.done:
		return s.ended(p, err)
	}
}

// ended is a consumer that went by itself.
func (s *stage) ended(p *consumeProcess, err error) error {
	killProcess(p.cmd)
	return errors.Join(err, fmt.Errorf("the billing process ended by itself; its last words:\n%s", p.log))
}

// drained waits until no group holds a lease or has messages left.
func (s *stage) drained(ctx context.Context) error {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		info, err := s.queue.Info(ctx)
		if err != nil {
			return err
		}
		if info.Totals.Pending == 0 && info.Totals.Processing == 0 {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// judge asks both groups for more, and reports every violation.
func (s *stage) judge(ctx context.Context) error {
	var violations []string
	for _, l := range []*ledger{s.audit, s.billing} {
		n, err := leftover(ctx, s.queue, l.group)
		if err != nil {
			return err
		}
		if n > 0 {
			violations = append(violations, fmt.Sprintf("%s: %d messages came again after everything was acknowledged", l.group, n))
		}
		violations = append(violations, l.verdict()...)
	}
	for _, v := range violations {
		s.tell("VIOLATION %s", v)
	}
	if len(violations) > 0 {
		return fmt.Errorf("%d violations", len(violations))
	}
	s.tell("both groups: every event, unchanged, each partition in order, nothing left. All is well.")
	return nil
}
