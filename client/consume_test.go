package client

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

var errBoom = errors.New("boom")

// ids joins the transaction ids of msgs.
func ids(msgs []Message) string {
	s := make([]string, len(msgs))
	for i := range msgs {
		s[i] = msgs[i].TransactionID
	}
	return strings.Join(s, " ")
}

// TestConsume runs a consumer to the end of a queue or its limit. The bubble fails the
// test if a goroutine is left.
func TestConsume(t *testing.T) {
	for _, tt := range []struct {
		name      string
		parts     []int // messages of the partitions a, b …
		queue     func(Queue) Queue
		fail      map[string]error // first delivery of that message
		handled   string           // what the handler saw, a call in brackets
		acks      string
		committed []int
	}{
		{"batch", []int{3}, nil, nil, "[a0 a1 a2]", "completed a0; completed a1; completed a2", []int{3}},
		{"batches", []int{3}, func(q Queue) Queue { return q.Batch(2) }, nil, "[a0 a1] [a2]", "completed a0; completed a1; completed a2", []int{3}},
		{"failed batch", []int{2}, nil, map[string]error{"a0": errBoom}, "[a0 a1] [a0 a1]",
			"failed a0 boom; failed a1 boom; completed a0; completed a1", []int{2}},
		{"empty text", []int{1}, nil, map[string]error{"a0": errors.New("")}, "[a0] [a0]", "failed a0 handler failed; completed a0", []int{1}},
		{"panic", []int{1}, nil, map[string]error{"a0": nil}, "[a0] [a0]", "failed a0 panic: a0; completed a0", []int{1}},
		{"each", []int{2}, Queue.Each, nil, "[a0] [a1]", "completed a0; completed a1", []int{2}},
		{"each abandons the partition", []int{3, 2}, func(q Queue) Queue { return q.Each().Partitions(2) }, map[string]error{"a1": errBoom},
			"[a0] [a1] [b0] [b1] [a1] [a2]", "completed a0; failed a1 boom; completed b0; completed b1; completed a1; completed a2", []int{3, 2}},
		{"limit", []int{9}, func(q Queue) Queue { return q.Limit(5).Batch(2) }, nil, "[a0 a1] [a2 a3] [a4]",
			"completed a0; completed a1; completed a2; completed a3; completed a4", []int{5}},
		{"limit counts what was handled", []int{3}, func(q Queue) Queue { return q.Limit(3).Each() }, map[string]error{"a0": errBoom},
			"[a0] [a0] [a1]", "failed a0 boom; completed a0; completed a1", []int{2}},
		{"autoAck", []int{3}, func(q Queue) Queue { return q.AutoAck().Each() }, map[string]error{"a1": errBoom}, "[a0] [a1] [a2]", "", []int{3}},
		{"nothing", nil, nil, nil, "", "", nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := newMemBroker(time.Minute)
				for i, n := range tt.parts {
					m.push(string(rune('a'+i)), n)
				}
				q := m.client(t).Queue("q").Group("g").UntilEmpty()
				if tt.queue != nil {
					q = tt.queue(q)
				}
				var calls []string
				seen := map[string]bool{}
				err := q.Consume(t.Context(), func(_ context.Context, msgs []Message) error {
					calls = append(calls, "["+ids(msgs)+"]")
					for _, msg := range msgs {
						err, fails := tt.fail[msg.TransactionID]
						if !fails || seen[msg.TransactionID] {
							continue
						}
						seen[msg.TransactionID] = true
						if err == nil {
							panic(msg.TransactionID)
						}
						return err
					}
					return nil
				})
				if err != nil {
					t.Error(err)
				}
				if got := strings.Join(calls, " "); got != tt.handled {
					t.Errorf("handled  %s\nwant %s", got, tt.handled)
				}
				if got := m.acked(); got != tt.acks {
					t.Errorf("acked  %s\nwant %s", got, tt.acks)
				}
				for i, want := range tt.committed {
					if got := m.committed(string(rune('a' + i))); got != want {
						t.Errorf("partition %c: committed %d want %d", 'a'+i, got, want)
					}
				}
			})
		})
	}
}

// TestConsumeRenews lets handlers run past several lease lengths. Whether the length
// is given, asked for or unknown, nobody else gets the messages.
func TestConsumeRenews(t *testing.T) {
	for _, tt := range []struct {
		name    string
		lease   time.Duration
		seconds int
		work    time.Duration
		extends []time.Duration // after the start
	}{
		{"given", time.Minute, 10, 12 * time.Second, []time.Duration{5 * time.Second, 10 * time.Second}},
		{"at most 20 s", time.Hour, 600, 45 * time.Second, []time.Duration{20 * time.Second, 40 * time.Second}},
		{"learned", 5 * time.Second, 0, 7 * time.Second, []time.Duration{500 * time.Millisecond, 3 * time.Second, 5500 * time.Millisecond}},
		{"fast handlers cost nothing", 5 * time.Second, 0, 400 * time.Millisecond, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := newMemBroker(tt.lease).push("a", 1)
				c := m.client(t)
				start := time.Now()
				err := c.Queue("q").Group("g").LeaseSeconds(tt.seconds).Limit(1).Consume(t.Context(), func(ctx context.Context, _ []Message) error {
					if err := sleep(ctx, tt.work); err != nil {
						return err
					}
					if b, err := c.Queue("q").Pop(ctx); err != nil || len(b.Messages) > 0 {
						t.Errorf("somebody else got %v, %v", b, err)
					}
					return nil
				})
				if err != nil {
					t.Error(err)
				}
				if got := m.acked(); got != "completed a0" || m.committed("a") != 1 {
					t.Errorf("acked %q, committed %d", got, m.committed("a"))
				}
				var got []time.Duration
				for _, at := range m.extends {
					got = append(got, at.Sub(start))
				}
				if fmt.Sprint(got) != fmt.Sprint(tt.extends) {
					t.Errorf("extended after %v want %v", got, tt.extends)
				}
			})
		})
	}
}

func TestLeaseLength(t *testing.T) {
	const id = "0198f2c1-9a7b-7d20-8e31-4c5d6e7f8a90"
	granted, ok := mintedAt(id)
	if !ok {
		t.Fatal("no time in a UUIDv7")
	}
	for _, tt := range []struct {
		name     string
		id       string
		expires  time.Duration // after the id was minted
		received time.Duration // by our clock, after the id was minted
		want     time.Duration
	}{
		{"both agree", id, 5 * time.Second, 10 * time.Millisecond, 5 * time.Second},
		{"minted before a long poll parked", id, 25 * time.Second, 20 * time.Second, 5 * time.Second},
		{"our clock is ahead", id, 5 * time.Second, time.Hour, 5 * time.Second},
		{"our clock is behind", id, 5 * time.Second, -time.Hour, 5 * time.Second},
		{"an id that tells nothing", "lease-7", 30 * time.Second, time.Second, 29 * time.Second},
		{"neither tells", "lease-7", 30 * time.Second, time.Hour, defaultLease},
	} {
		if got := leaseLength(granted.Add(tt.expires), tt.id, granted.Add(tt.received)); got != tt.want {
			t.Errorf("%s: got %v want %v", tt.name, got, tt.want)
		}
	}
}

// TestConsumeLeaseLost takes the lease away under a handler.
func TestConsumeLeaseLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemBroker(time.Minute).push("a", 2).push("b", 1)
		handled := ""
		err := m.client(t).Queue("q").Group("g").LeaseSeconds(10).Limit(4).Partitions(2).Each().Consume(t.Context(), func(ctx context.Context, msgs []Message) error {
			if handled += ids(msgs) + " "; handled != "a0 " {
				return nil
			}
			m.mu.Lock()
			m.parts["a"].leaseID, m.parts["b"].leaseID = "", ""
			m.mu.Unlock()
			<-ctx.Done()
			if cause := context.Cause(ctx); !errors.Is(cause, ErrLeaseLost) {
				t.Errorf("got cause %v want ErrLeaseLost", cause)
			}
			return context.Cause(ctx)
		})
		if err != nil {
			t.Error(err)
		}
		// The late nack is sent and refused; the rest of the batch is not touched.
		if got, want := m.acked(), "failed a0 client: lease lost; completed a0; completed a1; completed b0"; got != want || handled != "a0 a0 a1 b0 " {
			t.Errorf("handled %q\nacked %s\nwant  %s", handled, got, want)
		}
	})
}

// TestConsumeStops ends the context at different moments.
func TestConsumeStops(t *testing.T) {
	t.Run("polling", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			m := newMemBroker(time.Minute)
			ctx, cancel := context.WithCancel(t.Context())
			start := time.Now()
			time.AfterFunc(time.Hour, cancel)
			err := m.client(t).Queue("q").Concurrency(3).Consume(ctx, func(context.Context, []Message) error { return nil })
			if !errors.Is(err, context.Canceled) || time.Since(start) != time.Hour {
				t.Errorf("got %v after %v", err, time.Since(start))
			}
			if got := m.popQuery[0].Get("timeout"); got != "30000" {
				t.Errorf("polled for %s ms want 30000", got)
			}
		})
	})
	for _, tt := range []struct {
		name   string
		each   bool
		result func(context.Context) error
		acks   string
	}{
		{"finishing", false, func(context.Context) error { return nil }, "completed a0; completed a1; completed a2"},
		{"interrupted", false, func(ctx context.Context) error { return ctx.Err() }, "retry a0; retry a1; retry a2"},
		{"failing", false, func(context.Context) error { return errBoom }, "failed a0 boom; failed a1 boom; failed a2 boom"},
		{"one finishes, the rest is given back", true, func(context.Context) error { return nil }, "completed a0; retry a1"},
		{"one interrupted, nothing more to give back", true, func(ctx context.Context) error { return ctx.Err() }, "retry a0"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := newMemBroker(5*time.Second).push("a", 3)
				ctx, cancel := context.WithCancel(t.Context())
				q := m.client(t).Queue("q").Group("g")
				if tt.each {
					q = q.Each()
				}
				calls := 0
				err := q.Consume(ctx, func(ctx context.Context, _ []Message) error {
					calls++
					cancel()
					<-ctx.Done()
					time.Sleep(20 * time.Second) // the lease is renewed to the end
					return tt.result(ctx)
				})
				if !errors.Is(err, context.Canceled) || calls != 1 {
					t.Errorf("got %v after %d calls", err, calls)
				}
				if got := m.acked(); got != tt.acks {
					t.Errorf("acked %s want %s", got, tt.acks)
				}
				if id := m.parts["a"].leaseID; id != "" {
					t.Errorf("lease %s left behind", id)
				}
			})
		})
	}
}

// TestConsumeStopsBeforeHandling ends the context between a pop and its handler. What
// is leased is given back, a message for each partition; what was acknowledged as it was
// handed out has to be handled.
func TestConsumeStopsBeforeHandling(t *testing.T) {
	for _, tt := range []struct {
		name    string
		queue   func(Queue) Queue
		handled int
		acks    string
	}{
		{"batch", func(q Queue) Queue { return q }, 0, "retry a0; retry b0"},
		{"each", Queue.Each, 0, "retry a0; retry b0"},
		{"batch, autoAck", Queue.AutoAck, 1, ""},
		{"each, autoAck", func(q Queue) Queue { return q.Each().AutoAck() }, 3, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := newMemBroker(time.Minute).push("a", 2).push("b", 1)
				q := tt.queue(m.client(t).Queue("q").Group("g").Batch(9).Partitions(2))
				b, err := q.Pop(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				ctx, cancel := context.WithCancel(t.Context())
				cancel()
				handled := 0
				newConsumer(q, func(context.Context, []Message) error { handled++; return nil }).batch(ctx, b)
				if got := m.acked(); got != tt.acks || handled != tt.handled {
					t.Errorf("handled %d, acked %q want %d, %q", handled, got, tt.handled, tt.acks)
				}
			})
		})
	}
}

// TestConsumeOutage expects that 5xx and refused acks are survived and a 4xx ends it.
func TestConsumeOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemBroker(time.Second).push("a", 1)
		m.failPops = 20
		m.refuseAck = true
		var reported []error
		err := m.client(t).Queue("q").Group("g").LeaseSeconds(2).Limit(2).OnError(func(err error) { reported = append(reported, err) }).
			Consume(t.Context(), func(context.Context, []Message) error { return nil })
		if err != nil {
			t.Error(err)
		}
		var status *Error
		var refused *RefusedError
		if len(reported) != 5 || !errors.As(reported[0], &status) || !errors.As(reported[4], &refused) {
			t.Errorf("reported %v", reported)
		}
	})
	for _, status := range []int{400, 401, 403, 404} {
		f := newFake(t, answer(status, `{"error":"no"}`))
		err := f.Queue("q").Concurrency(4).Consume(t.Context(), func(context.Context, []Message) error { return nil })
		var e *Error
		if !errors.As(err, &e) || e.Status != status {
			t.Errorf("got %v want status %d", err, status)
		}
	}
}

// TestConsumePauses expects no storm of polls at a broker that does not wait.
func TestConsumePauses(t *testing.T) {
	f := newFake(t, answer(204, ""))
	ctx, cancel := context.WithCancel(t.Context())
	f.sleep = func(_ context.Context, d time.Duration) error {
		if d != emptyPause {
			t.Errorf("paused %v want %v", d, emptyPause)
		}
		cancel()
		return ctx.Err()
	}
	if err := f.Queue("q").Consume(ctx, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

// TestConsumeShares runs workers side by side: each partition is handled in order, by
// one worker at a time, and the limit holds over all of them.
func TestConsumeShares(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const partitions, messages, limit = 5, 40, 150
		m := newMemBroker(time.Minute)
		for p := range partitions {
			m.push(string(rune('a'+p)), messages)
		}
		var mu sync.Mutex
		next := map[string]int{}
		busy, most, total := 0, 0, 0
		err := m.client(t).Queue("q").Group("g").Concurrency(4).Batch(7).Limit(limit).Consume(t.Context(), func(_ context.Context, msgs []Message) error {
			mu.Lock()
			if busy++; busy > most {
				most = busy
			}
			for _, msg := range msgs {
				if want := msg.Partition + fmt.Sprint(next[msg.Partition]); msg.TransactionID != want {
					t.Errorf("got %s want %s", msg.TransactionID, want)
				}
				next[msg.Partition]++
				total++
			}
			mu.Unlock()
			time.Sleep(time.Second) // of the bubble: the others start meanwhile
			mu.Lock()
			busy--
			mu.Unlock()
			return nil
		})
		if err != nil || total != limit {
			t.Errorf("got %d messages, %v want %d", total, err, limit)
		}
		if most != 4 {
			t.Errorf("at most %d handlers at once want 4", most)
		}
	})
}

// TestBudgetWaits expects a worker without a share to wait for what another returns,
// and to end when that is used up.
func TestBudgetWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBudget(10)
		if got := b.reserve(t.Context(), 100); got != 10 {
			t.Fatalf("got %d want 10", got)
		}
		second := make(chan int, 2)
		go func() {
			n := b.reserve(t.Context(), 100)
			second <- n
			b.settle(n, n)
			second <- b.reserve(t.Context(), 1)
		}()
		synctest.Wait()
		b.settle(10, 4)
		if got := <-second; got != 6 {
			t.Errorf("got %d want the 6 returned", got)
		}
		if got := <-second; got != 0 || !b.spent() {
			t.Errorf("got %d more, spent %v", got, b.spent())
		}
		ctx, cancel := context.WithCancel(t.Context())
		b = newBudget(1)
		b.reserve(ctx, 1)
		time.AfterFunc(time.Second, cancel)
		if got := b.reserve(ctx, 1); got != 0 {
			t.Errorf("got %d after the context ended", got)
		}
	})
}

// TestPanicReport expects the stack in what OnError gets, and not in the nack.
func TestPanicReport(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemBroker(time.Minute).push("a", 1)
		var p *PanicError
		err := m.client(t).Queue("q").Group("g").Limit(1).
			OnError(func(err error) { errors.As(err, &p) }).
			Consume(t.Context(), func(context.Context, []Message) error { panic(errBoom) })
		if err != nil {
			t.Error(err)
		}
		if p == nil || p.Value != errBoom || !strings.Contains(string(p.Stack), "consume_test.go") {
			t.Errorf("got %+v", p)
		}
		if got := m.acked(); got != "failed a0 panic: boom" {
			t.Errorf("acked %s", got)
		}
	})
}
