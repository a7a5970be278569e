package acceptance

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/skepmq/skep/client"
)

// Transactions over two queues in both directions, pushes and autoAck pops beside them,
// checkpoints, and a queue that is deleted again and again: whoever finds a message of a
// transaction in one queue finds it in the other.
func TestM440ReadersSeeAllOrNothing(t *testing.T) {
	for _, name := range []string{"in memory", "filed"} {
		t.Run(name, func(t *testing.T) {
			w := open(t, func(w *world) {
				if name == "filed" {
					eagerCheckpoints(w)
				}
			})
			w.queued(msg("a", "p", "first"), msg("b", "p", "first"))
			var done atomic.Bool
			var beside sync.WaitGroup
			for i, q := range []string{"a", "b"} {
				beside.Go(func() {
					for n := 0; !done.Load(); n++ {
						w.queued(msg(q, "p", fmt.Sprintf("plain %s%d", q, n)))
					}
				})
				beside.Go(func() { w.watchBoth(q, []string{"b", "a"}[i], &done) })
			}
			beside.Go(func() {
				for !done.Load() {
					w.deleteQueue("gone")
				}
			})
			together(4, func(i int) {
				for n := range 20 {
					id := fmt.Sprintf("%d.%d", i, n)
					ops := []any{pushing(msg("a", "p", id)), pushing(msg("gone", id, id)), pushing(msg("b", "p", id))}
					if i%2 == 1 {
						slices.Reverse(ops)
					}
					w.committed(bundled(ops...))
				}
			})
			done.Store(true)
			beside.Wait()
		})
	}
}

// watchBoth takes what is new from two queues in turn, by queue and not by partition: a
// partition that has something must also be among the candidates.
func (w *world) watchBoth(first, second string, done *atomic.Bool) {
	take := func(queue string) []string {
		return w.pop(queue, "batch=10000", "autoAck=true", "consumerGroup="+first+second).ids()
	}
	seen := map[string]bool{}
	for !done.Load() {
		found := take(first)
		for _, id := range take(second) {
			seen[id] = true
		}
		for _, id := range found {
			if id[0] >= '0' && id[0] <= '9' && !seen[id] {
				w.t.Errorf("%s is in %s and not in %s", id, first, second)
				done.Store(true)
			}
		}
	}
}

// Of transactions for the same message exactly one commits.
func TestM443OneOfMany(t *testing.T) {
	w := open(t)
	w.queued(msg("in", "", "m0"))
	m := w.pop("in").Messages[0]
	var committed atomic.Int64
	together(8, func(i int) {
		b := bundled(acking("", m.as("completed").leaseless()), pushing(msg("out", fmt.Sprint(i), "o")), pushing(msg("once", "", "for-m0"))).holding(m.LeaseID)
		a := w.call("POST", "/api/v1/transaction", b.body())
		if decode[bundleAnswer](t, a.body).Success {
			committed.Add(1)
		}
	})
	if n := committed.Load(); n != 1 {
		t.Errorf("%d have committed", n)
	}
	w.want(w.pop("once"), "for-m0")
	w.want(w.pop("out", "partitions=9"), "o")
}

// ferry is a lane of which each transaction takes a message and puts it into two queues.
type ferry struct {
	lane           string
	answered, sent int
}

// M-901: a killed process leaves no half of a transaction.
func TestM901Kill(t *testing.T) {
	t.Parallel()
	w := &world{t: t, dir: t.TempDir(), clock: &clock{}}
	w.start()
	ferries := make([]*ferry, 3)
	for i := range ferries {
		ferries[i] = &ferry{lane: fmt.Sprint(i)}
		w.queued(numbered("in", ferries[i].lane, "", 2000)...)
	}
	w.stop()
	for round := range 3 {
		child := w.startChild()
		var (
			crossing sync.WaitGroup
			count    atomic.Int64
			enough   = make(chan struct{})
		)
		for _, f := range ferries {
			crossing.Go(func() { w.cross(f, &count, enough) })
		}
		<-enough
		w.kill(child, &crossing)
		w.start()
		w.clock.advance(2 * time.Second) // the leases of the killed are over
		for _, f := range ferries {
			w.checkFerry(f, fmt.Sprint("look", round))
		}
		w.stop()
		w.clock.ahead.Store(0)
	}
}

// cross runs transactions until the broker is gone.
func (w *world) cross(f *ferry, count *atomic.Int64, enough chan struct{}) {
	for {
		a, err := w.try("GET", "/api/v1/pop/queue/in/partition/"+f.lane+"?batch=1&leaseSeconds=1&wait=true&timeout=20000", "", nil)
		if err != nil || a.status != http.StatusOK {
			return
		}
		m := decode[popAnswer](w.t, a.body).Messages[0]
		status := "completed"
		if f.sent%5 == 4 {
			status = "dlq"
		}
		b := bundled(acking("", m.as(status)), pushing(msg("x", f.lane, m.TransactionID)), pushing(msg("y", f.lane, m.TransactionID)))
		f.sent = f.answered + 1
		if a, err = w.try("POST", "/api/v1/transaction", b.body(), nil); err != nil || a.status != http.StatusOK {
			return
		}
		if !decode[bundleAnswer](w.t, a.body).Success {
			continue // a second was too short on a busy machine
		}
		f.answered++
		if count.Add(1) == 60 {
			close(enough)
		}
	}
}

// checkFerry compares what lies where, and takes over what was not answered.
func (w *world) checkFerry(f *ferry, group string) {
	w.t.Helper()
	x := w.popFrom("x", f.lane, "batch=100000", "autoAck=true", "consumerGroup="+group).ids()
	y := w.popFrom("y", f.lane, "batch=100000", "autoAck=true", "consumerGroup="+group).ids()
	if !slices.Equal(x, y) || len(x) < f.answered || len(x) > f.sent {
		w.t.Fatalf("lane %s: %d in x, %d in y, %d answered and %d sent", f.lane, len(x), len(y), f.answered, f.sent)
	}
	for i, id := range x {
		if id != fmt.Sprint(i) {
			w.t.Fatalf("lane %s: message %d is %s", f.lane, i, id)
		}
	}
	p := w.want(w.popFrom("in", f.lane, "batch=1", "leaseSeconds=1"), fmt.Sprint(len(x)))
	w.ok(true, w.ack("", p.Messages[0].as("retry")))
	for _, d := range w.deadLetters("queue=in", "limit=1000", "partition="+f.lane) {
		if !slices.Contains(x, d.TransactionID) || string(d.Data) != quote(d.TransactionID) {
			w.t.Errorf("lane %s: dead letter %s with %s", f.lane, d.TransactionID, d.Data)
		}
	}
	f.answered, f.sent = len(x), len(x)
}

// M-449 with the Go client: it loses the answer, sends the same again, and learns from
// the duplicate that it has committed.
func TestM449ClientRepeats(t *testing.T) {
	w := open(t)
	w.queued(msg("in", "p", "m0"), msg("in", "p", "m1"))
	lossy := &losing{RoundTripper: w.client.Transport}
	c, err := client.New("http://skep", client.WithHTTPClient(&http.Client{Transport: lossy}))
	if err != nil {
		t.Fatal(err)
	}
	popped, err := c.Queue("in").Group("g").Pop(t.Context())
	if err != nil || len(popped.Messages) != 2 {
		t.Fatalf("%+v, %v", popped, err)
	}
	tx := c.Transaction().Ack(popped.Messages...)
	tx.Queue("out").Partition("p").Push(client.Item{Payload: 1}, client.Item{Payload: 2})
	lossy.lose.Store(1)
	if r, err := tx.Commit(t.Context()); err != nil || !r.Repeated {
		t.Errorf("got %+v, %v", r, err)
	}
	if p := w.popFrom("out", "p"); p == nil || len(p.Messages) != 2 {
		t.Errorf("popped %v", p.ids())
	}
	w.nothing(w.popFrom("in", "p", "consumerGroup=g"))
	// A lost lease is a rollback with its reason.
	w.queued(msg("in", "p", "m2"))
	popped, err = c.Queue("in").Group("g").Pop(t.Context())
	if err != nil || len(popped.Messages) != 1 {
		t.Fatalf("%+v, %v", popped, err)
	}
	w.lapse()
	_, err = c.Transaction().Ack(popped.Messages...).Queue("out").Push(client.Item{Payload: 3}).Commit(t.Context())
	var back *client.RollbackError
	if !errors.As(err, &back) || back.Reason != client.RolledBackAck || back.Message != lostLease {
		t.Errorf("got %v", err)
	}
}

// losing loses the answers to transactions.
type losing struct {
	http.RoundTripper
	lose atomic.Int64
}

func (l *losing) RoundTrip(r *http.Request) (*http.Response, error) {
	res, err := l.RoundTripper.RoundTrip(r)
	if err == nil && r.URL.Path == "/api/v1/transaction" && l.lose.Add(-1) >= 0 {
		return nil, errors.Join(errors.New("lost"), res.Body.Close())
	}
	return res, err
}
