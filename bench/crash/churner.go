package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"
)

// churner makes, configures, uses and deletes one queue over and over. It does one thing
// at a time and insists on an answer, so it knows at any time what the broker must say.
type churner struct {
	*worker
	name       string
	generation int
	alone      *sync.RWMutex // see maintainer: what is spooled would make the queue again
	done       func() bool
}

// options are those that the churner sets and reads again.
type options struct {
	LeaseTime  int `json:"leaseTime"`
	RetryLimit int `json:"retryLimit"`
}

// run returns when the queue is deleted and done, or ctx ends.
func (c *churner) run(ctx context.Context) {
	defer c.hangUp()
	for !c.done() {
		if c.once(ctx) != nil {
			return
		}
	}
}

func (c *churner) once(ctx context.Context) error {
	c.alone.RLock()
	defer c.alone.RUnlock()
	c.generation++
	want := options{LeaseTime: 1 + c.rng.IntN(500), RetryLimit: c.rng.IntN(9)}
	q := c.check.addQueue(c.name, c.generation, want.RetryLimit, "churn")
	if err := c.configure(ctx, c.name, want); err != nil {
		return err
	}
	for range 1 + c.rng.IntN(4) {
		if err := c.use(ctx, q); err != nil {
			return err
		}
		if err := c.verify(ctx, want); err != nil {
			return err
		}
	}
	if err := c.delete(ctx, c.name); err != nil {
		return err
	}
	c.check.deleteQueue(q)
	if c.chance(30) {
		// Long enough for a crash or two, so that a deletion must be remembered
		// that is in the journal no more.
		if err := c.pause(ctx, time.Duration(c.rng.IntN(1000))*time.Millisecond); err != nil {
			return err
		}
	}
	return c.verifyGone(ctx)
}

// use pushes a few messages and consumes some.
func (c *churner) use(ctx context.Context, q *queue) error {
	var items []*message
	for i := range 1 + c.rng.IntN(6) {
		txn := "" // minted, if the name says nothing
		if c.chance(80) {
			txn = fmt.Sprintf("churn-%d", i) // the same in each generation
		}
		items = append(items, c.check.addMessage(q, lane(c.rng.IntN(2)), c.unused(q, txn), false))
	}
	for {
		ok, err := c.push(ctx, items)
		if err != nil {
			return err
		}
		if ok {
			break
		}
		if items = ownOnly(items); len(items) == 0 {
			break
		}
	}
	consume := consumer{worker: c.worker, queue: q, group: "churn", tidy: func() bool { return true }}
	for range c.rng.IntN(3) {
		if err := consume.once(ctx); err != nil {
			return err
		}
	}
	return nil
}

// unused makes txn an id that this generation has not seen. Other generations may have:
// a queue that is made again remembers none.
func (c *churner) unused(q *queue, txn string) string {
	if txn == "" {
		return ""
	}
	c.check.mu.Lock()
	defer c.check.mu.Unlock()
	return fmt.Sprintf("%s-%d", txn, q.stored)
}

// ownOnly returns the messages that can be pushed again.
func ownOnly(items []*message) (own []*message) {
	for _, m := range items {
		if m.own {
			own = append(own, m)
		}
	}
	return own
}

var errOptions = errors.New("the options are not those that were configured")

var errMaintenance = errors.New("the switch is not where it was put")

// verify asks for the options that were configured.
func (c *churner) verify(ctx context.Context, want options) error {
	return c.call(ctx, http.MethodGet, queuePath(c.name), nil, func(status int, answer []byte) error {
		var got struct{ Options options }
		if err := into(&got)(status, answer); err != nil {
			return err
		}
		if got.Options != want {
			return fmt.Errorf("%w: got %+v want %+v", errOptions, got.Options, want)
		}
		return nil
	})
}

func (c *churner) verifyGone(ctx context.Context) error {
	return c.call(ctx, http.MethodGet, queuePath(c.name), nil, func(status int, _ []byte) error {
		if status != http.StatusNotFound {
			return errStatus
		}
		return nil
	})
}

func queuePath(name string) string { return "/api/v1/resources/queues/" + name }

// configure makes a queue, or gives it other options.
func (w *worker) configure(ctx context.Context, name string, o options) error {
	body, err := json.Marshal(struct {
		Queue   string  `json:"queue"`
		Options options `json:"options"`
	}{name, o})
	if err != nil {
		return err
	}
	return w.call(ctx, http.MethodPost, "/api/v1/configure", body, into(&struct{}{}))
}

// delete deletes a queue, whether or not it was there: an attempt without an answer may
// have done it.
func (w *worker) delete(ctx context.Context, name string) error {
	return w.call(ctx, http.MethodDelete, queuePath(name), nil, into(&struct{}{}))
}
