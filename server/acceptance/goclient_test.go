package acceptance

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/skepmq/skep/client"
)

// goClient is the Go client of w.
func (w *world) goClient() *client.Client {
	w.t.Helper()
	c, err := client.New("http://skep", client.WithHTTPClient(w.client))
	if err != nil {
		w.t.Fatal(err)
	}
	return c
}

// The Go client sees what it asked for, and refuses to go on without.
func TestM283GoClient(t *testing.T) {
	w := open(t)
	c, ctx := w.goClient(), t.Context()
	prices := c.Queue("prices")
	latest := prices.Group("display").Conflation()
	if b, err := latest.Pop(ctx); err != nil || !b.Conflated || len(b.Messages) != 0 {
		t.Fatalf("first pop: %+v, %v", b, err)
	}
	for p := range 3 {
		w.queued(numbered("prices", fmt.Sprint(p), "v", p+2)...)
	}
	b, err := latest.Batch(2).Pop(ctx)
	if err != nil || len(b.Messages) != 2 || b.Partitions != 2 {
		t.Fatalf("second pop: %+v, %v", b, err)
	}
	results, err := c.AckBatch(ctx, b.Messages, client.Completed)
	if err != nil {
		t.Fatal(err)
	}
	for i, r := range results {
		if want := fmt.Sprint("v", r.Conflated); b.Messages[i].TransactionID != want || !r.LeaseReleased {
			t.Errorf("ack of %s: %+v", b.Messages[i].TransactionID, r)
		}
	}
	// A consumer handles the third, and goes on with what comes.
	seen := make(chan string, 1)
	ctx, stop := context.WithTimeout(ctx, 20*time.Second)
	done := make(chan error, 1)
	go func() {
		done <- latest.Limit(2).Wait(10*time.Second).Consume(ctx, func(_ context.Context, msgs []client.Message) error {
			seen <- msgs[0].TransactionID
			return nil
		})
	}()
	if got := <-seen; got != "v3" {
		t.Errorf("consumed %s", got)
	}
	w.queued(msg("prices", "0", "last"))
	if got := <-seen; got != "last" {
		t.Errorf("consumed %s", got)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
	stop()

	plain := prices.Group("archive")
	if b, err := plain.Pop(t.Context()); err != nil || b.Conflated || len(b.Messages) < 2 {
		t.Errorf("plain pop: %+v, %v", b, err)
	}
	if _, err := plain.Conflation().Pop(t.Context()); !errors.Is(err, client.ErrConflation) {
		t.Errorf("conflation of a plain group: %v", err)
	}
	if _, err := prices.Conflation().Pop(t.Context()); err == nil || errors.Is(err, client.ErrConflation) {
		t.Errorf("conflation without a group: %v", err)
	}
}
