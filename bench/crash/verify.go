package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"time"
)

// errViolation ends a run; the checker knows why.
var errViolation = errors.New("the broker broke a promise")

// verify compares everything when all is consumed, kills the broker once more, and sees
// that nothing comes back.
func (e *epoch) verify(ctx context.Context, boss *worker) error {
	c := e.run.check
	steps := []func(context.Context, *worker) error{
		e.emptyQueues, e.takeRest, e.checkLists, e.consumeLate, e.checkTotals, e.moves.read, e.finishSolos,
		func(ctx context.Context, _ *worker) error { return e.run.restart(ctx) },
		e.checkQueues, e.emptyQueues, e.takeRest, e.checkLists, e.checkTotals, e.moves.read, e.moves.consume, e.finishSolos, e.deleteQueues,
	}
	for _, step := range steps {
		if err := step(ctx, boss); err != nil {
			return err
		}
		if c.failed() {
			return errViolation
		}
	}
	c.forget()
	return nil
}

// longestLease is when every lease has ended that was granted or extended before.
const longestLease = 5 * time.Second

// emptyQueues pops until nothing comes, in each group. Pushes without an answer may have
// stored something that nobody has waited for, acks without one may not have happened.
func (e *epoch) emptyQueues(ctx context.Context, boss *worker) error {
	for _, q := range []*queue{e.main, e.auto} {
		for _, g := range q.groups {
			if err := e.emptyGroup(ctx, boss, q, g); err != nil {
				return err
			}
		}
	}
	if !e.run.check.checkDrained() {
		return errViolation
	}
	e.run.check.checkWhole()
	return nil
}

func (e *epoch) emptyGroup(ctx context.Context, boss *worker, q *queue, group string) error {
	c := &consumer{worker: boss, queue: q, group: group, tidy: func() bool { return true }}
	for {
		p := &pop{queue: q, group: group, batch: 1000, leaseSeconds: 2}
		if e.run.check.uncertain(q, group) {
			p.wait = longestLease
		}
		parts, err := boss.pop(ctx, p)
		if err != nil {
			return err
		}
		if len(parts) == 0 {
			e.run.check.emptied(q, group, p.end)
			return nil
		}
		if err := c.settle(ctx, parts, verdictAll); err != nil {
			return err
		}
	}
}

// takeRest takes what the autoAck group has not taken.
func (e *epoch) takeRest(ctx context.Context, boss *worker) error {
	t := &taker{worker: boss, queue: e.auto, group: takers}
	for {
		n, err := t.take(ctx, 500)
		if err != nil {
			return err
		}
		if n == 0 {
			break
		}
	}
	e.run.check.checkTaken(e.auto)
	return nil
}

// consumeLate lets the late groups read to the end.
func (e *epoch) consumeLate(ctx context.Context, boss *worker) error {
	for _, g := range e.late {
		for {
			// It waits in case that the pop that subscribed has leased something.
			p := &pop{queue: e.main, group: g.name, batch: 1000, autoAck: true, late: true}
			if e.run.now() < g.done+2*time.Second {
				p.wait = 1500 * time.Millisecond
			}
			parts, err := boss.pop(ctx, p)
			if err != nil {
				return err
			}
			if len(parts) == 0 {
				break
			}
			for _, part := range parts {
				g.got[part.stream] = append(g.got[part.stream], part.messages...)
			}
		}
		e.run.check.checkLate(g)
	}
	return nil
}

// checkLists compares the dead letters of each group.
func (e *epoch) checkLists(ctx context.Context, boss *worker) error {
	for _, g := range e.main.groups {
		letters, err := boss.deadLetters(ctx, e.main.name, g)
		if err != nil {
			return err
		}
		e.run.check.checkDeadLetters(e.main, g, letters)
	}
	return nil
}

// deadLetters reads the list page by page.
func (w *worker) deadLetters(ctx context.Context, queue, group string) (all []deadLetter, err error) {
	const page = 100
	for {
		var answer struct {
			Messages []deadLetter `json:"messages"`
		}
		path := fmt.Sprintf("/api/v1/dlq?queue=%s&consumerGroup=%s&limit=%d&offset=%d", url.QueryEscape(queue), url.QueryEscape(group), page, len(all))
		if err := w.call(ctx, http.MethodGet, path, nil, into(&answer)); err != nil {
			return nil, err
		}
		all = append(all, answer.Messages...)
		if len(answer.Messages) < page {
			return all, nil
		}
	}
}

var errTotals = errors.New("the totals are wrong")

// checkTotals compares what the broker says it holds with what it delivered.
func (e *epoch) checkTotals(ctx context.Context, boss *worker) error {
	for _, q := range []*queue{e.main, e.auto} {
		want := e.run.check.storedIn(q)
		err := boss.call(ctx, http.MethodGet, queuePath(q.name), nil, func(status int, answer []byte) error {
			var got struct {
				Totals struct{ Total, Pending, Processing int }
			}
			if want == 0 && status == http.StatusNotFound {
				return nil
			}
			if err := into(&got)(status, answer); err != nil {
				return err
			}
			if t := got.Totals; t.Total != want || t.Pending != 0 || t.Processing != 0 {
				return fmt.Errorf("%w: got %+v, want total %d and nothing pending", errTotals, t, want)
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

var errUnknownQueue = errors.New("a queue that nobody has made, or that was deleted")

// checkQueues sees that deleted queues, those of earlier epochs too, stay deleted.
func (e *epoch) checkQueues(ctx context.Context, boss *worker) error {
	return boss.call(ctx, http.MethodGet, "/api/v1/resources/queues", nil, func(status int, answer []byte) error {
		var got struct {
			Queues []struct{ Name string }
		}
		if err := into(&got)(status, answer); err != nil {
			return err
		}
		for _, q := range got.Queues {
			if !slices.Contains(e.queues(), q.Name) {
				return fmt.Errorf("%w: %q", errUnknownQueue, q.Name)
			}
		}
		return nil
	})
}

func (e *epoch) finishSolos(ctx context.Context, boss *worker) error {
	for _, s := range e.solos {
		if err := s.finish(ctx, boss); err != nil {
			return err
		}
	}
	return nil
}

// queues are the names of those that the epoch has at its end.
func (e *epoch) queues() []string {
	names := []string{e.main.name, e.auto.name}
	if e.moves != nil {
		names = append(names, e.moves.queues...)
	}
	for _, s := range e.solos {
		names = append(names, s.diary.queue)
	}
	return names
}

// deleteQueues ends the epoch on the broker's side.
func (e *epoch) deleteQueues(ctx context.Context, boss *worker) error {
	for _, name := range e.queues() {
		if err := boss.delete(ctx, name); err != nil {
			return err
		}
	}
	return nil
}
