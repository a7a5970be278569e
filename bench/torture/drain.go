package main

import (
	"bytes"
	"context"
	"net/http"
	"time"
)

// drainPatience is how long leases from before may hold back what a drain wants.
const drainPatience = 15 * time.Second

// maxDamaged is more than the partitions of any queue.
const maxDamaged = 1000

// drainOptions say what a drain may meet.
type drainOptions struct {
	// whole says which lanes must be delivered completely; nil: all.
	whole func(*lane) bool
	// damaged permits the answer that says so.
	damaged bool
}

// drain gives a group everything it has not done, and checks that it is everything,
// once, in order, and byte for byte what was pushed. A group that lease holders have
// served before may have to wait for their leases.
func (t *tally) drain(ctx context.Context, a *api, group string, o drainOptions) error {
	t.begin(group)
	limit := time.Now().Add(drainPatience)
	for {
		for _, q := range t.queues() {
			if err := t.drainQueue(ctx, a, q, group, o); err != nil {
				return err
			}
		}
		n, example := t.missing(group, o.whole)
		if n == 0 {
			t.drained(group)
			return t.err()
		}
		if time.Now().After(limit) || ctx.Err() != nil {
			return violated("lost", "%d stored messages do not come, one is %s", n, example)
		}
		sleep(ctx, 50*time.Millisecond)
	}
}

// drainQueue pops a queue until there is nothing.
func (t *tally) drainQueue(ctx context.Context, a *api, queue, group string, o drainOptions) error {
	for damaged := 0; ; {
		status, answer, err := a.call(ctx, http.MethodGet, popPath(queue, group, "batch=1000&partitions=64&autoAck=true"), nil)
		if err != nil {
			return err
		}
		if o.damaged && status == http.StatusInternalServerError && bytes.Contains(answer, []byte("partition_damaged")) {
			if damaged++; damaged > maxDamaged {
				return violated("damage", "queue %q: damage hides everything else", queue)
			}
			continue // it is out of service now, the next pop goes on with others
		}
		if o.damaged && status == http.StatusNotFound {
			return nil
		}
		messages, err := decodePop(status, answer)
		if err != nil || len(messages) == 0 {
			return err
		}
		for i := range messages {
			if err := t.deliverNext(group, queue, &messages[i]); err != nil {
				return err
			}
		}
	}
}

// drainAll drains a new group, which gets everything, and the workers' group.
func (t *tally) drainAll(ctx context.Context, a *api, group string) error {
	if err := t.drain(ctx, a, group, drainOptions{}); err != nil {
		return err
	}
	return t.drain(ctx, a, worker, drainOptions{})
}
