package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/skepmq/skep/client"
)

// readDeliveries enters the lines of `skep consume --format json` in l. A line without
// its line feed was cut off by a kill: nobody could use it, so it counts as not written.
func readDeliveries(r io.Reader, l *ledger) error {
	in := bufio.NewReaderSize(r, 64<<10)
	for {
		text, err := in.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read the consumer's output: %w", err)
		}
		var m struct {
			TransactionID string
			Partition     string
			Data          json.RawMessage
		}
		if err := json.Unmarshal(text, &m); err != nil {
			return fmt.Errorf("a line of the consumer is not JSON: %w", err)
		}
		l.deliver(m.TransactionID, m.Partition, m.Data)
	}
}

// audit consumes queue through the client until ctx ends. It polls and acknowledges by
// itself instead of with Consume, because it wants to know for certain which acks were
// answered.
func audit(ctx context.Context, q client.Queue, c *client.Client, l *ledger) error {
	q = q.Group(l.group).Batch(20).Partitions(4).Wait(time.Second)
	for ctx.Err() == nil {
		b, err := q.Pop(ctx)
		if err != nil {
			// The broker is down for a moment, or went down with our answer. What it had
			// leased to us comes again.
			if err := pauseUnlessPermanent(ctx, err); err != nil {
				return err
			}
			continue
		}
		for i := range b.Messages {
			m := &b.Messages[i]
			l.deliver(m.TransactionID, m.Partition, m.Data)
		}
		results, err := c.AckBatch(ctx, b.Messages, client.Completed)
		for i := range results {
			if results[i].Success {
				l.ack(b.Messages[i].TransactionID)
			}
		}
		var refused *client.RefusedError
		if err != nil && !errors.As(err, &refused) {
			if err := pauseUnlessPermanent(ctx, err); err != nil {
				return err
			}
		}
	}
	return nil
}

// pauseUnlessPermanent waits a moment after an error that the broker's restart explains,
// and returns any other.
func pauseUnlessPermanent(ctx context.Context, err error) error {
	var answer *client.Error
	if errors.As(err, &answer) && answer.Status < 500 {
		return err
	}
	t := time.NewTimer(50 * time.Millisecond)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
	return nil
}

// leftover pops once more for group, and returns how many messages still came.
func leftover(ctx context.Context, q client.Queue, group string) (int, error) {
	b, err := q.Group(group).Batch(1000).Partitions(1000).Wait(time.Second).Pop(ctx)
	if err != nil {
		return 0, err
	}
	return len(b.Messages), nil
}
