package acceptance

import (
	"fmt"
	"io"
	"sync"
	"testing"
	"time"
)

// M-250: the timeout counts only with wait=true, and is never an error.
func TestM250Timeouts(t *testing.T) {
	w := open(t)
	for _, row := range []struct {
		params []string
		least  time.Duration
	}{
		{[]string{"timeout=60000"}, 0},
		{[]string{"wait=false", "timeout=60000"}, 0},
		{[]string{"wait=true", "timeout=0"}, 0},
		{[]string{"wait=true", "timeout=-5"}, 0},
		{[]string{"wait=true", "timeout=150"}, 150 * time.Millisecond},
	} {
		start := time.Now()
		w.nothing(w.pop("q", row.params...))
		w.nothing(w.popFrom("q", "p", row.params...))
		w.nothing(w.discover(append(row.params, "task=t")...))
		if d := time.Since(start); d < 3*row.least || d > 3*row.least+3*time.Second {
			t.Errorf("%v: three pops took %v", row.params, d)
		}
	}
}

func TestM250DefaultTimeout(t *testing.T) {
	w := open(t, func(w *world) { w.server.PopTimeout = 200 * time.Millisecond })
	start := time.Now()
	w.nothing(w.pop("q", "wait=true"))
	if d := time.Since(start); d < 200*time.Millisecond || d > 3*time.Second {
		t.Errorf("answered after %v", d)
	}
}

// Each push wakes as many as it has work for, and nobody is left waiting beside work.
func TestM251EveryWaiterIsServed(t *testing.T) {
	w := open(t)
	const waiters = 50
	got := make([]<-chan *popAnswer, waiters)
	for i := range got {
		switch i % 2 {
		case 0:
			got[i] = later(func() *popAnswer { return w.pop("q", "wait=true", "timeout=30000", "autoAck=true", "batch=1") })
		default:
			got[i] = later(func() *popAnswer {
				return w.popFrom("q", "p", "wait=true", "timeout=30000", "autoAck=true", "batch=1")
			})
		}
	}
	w.parked(waiters)
	w.queued(numbered("q", "p", "m", waiters/2)...)
	together(5, func(i int) { w.queued(numbered("q", "p", fmt.Sprint("n", i, "-"), waiters/10)...) })
	seen := map[string]bool{}
	for _, c := range got {
		if p := <-c; p == nil || seen[p.Messages[0].TransactionID] {
			t.Fatalf("popped %v", p.ids())
		} else {
			seen[p.Messages[0].TransactionID] = true
		}
	}
	w.parked(0)
}

// Long polls on other queues are not woken, and cost nothing.
func TestM253ManyParkedPops(t *testing.T) {
	w := open(t)
	const waiters = 400
	got := make([]<-chan *popAnswer, waiters)
	for i := range got {
		got[i] = later(func() *popAnswer { return w.pop(fmt.Sprint("q", i), "wait=true", "timeout=60000") })
	}
	w.parked(waiters)
	for i := range got {
		w.queued(msg(fmt.Sprint("q", i), "", fmt.Sprint(i)))
		w.want(<-got[i], fmt.Sprint(i))
	}
}

func TestM251DiscoveryIsWokenByAnyMatchingQueue(t *testing.T) {
	w := open(t)
	w.queued(msg("ns.a", "", "0"))
	w.want(w.discover("namespace=ns", "autoAck=true"), "0")
	for _, row := range []struct{ queue, id string }{{"ns.a", "1"}, {"ns.b", "2"}, {"ns.c.d", "3"}} {
		got := later(func() *popAnswer { return w.discover("namespace=ns", "wait=true", "timeout=20000", "autoAck=true") })
		w.parked(1)
		w.queued(msg("other", "", row.id))
		w.queued(msg(row.queue, "", row.id))
		w.want(<-got, row.id)
	}
	got := later(func() *popAnswer { return w.discover("namespace=given", "wait=true", "timeout=20000") })
	w.parked(1)
	w.queued(msg("late", "", "4"))
	w.configureRaw(`{"queue":"late","namespace":"given"}`)
	w.want(<-got, "4")
}

func TestM252LeaseExpiryWakes(t *testing.T) {
	for _, row := range []struct {
		name string
		pop  func(w *world) *popAnswer
	}{
		{"queue", func(w *world) *popAnswer { return w.pop("ns.q", "wait=true", "timeout=20000") }},
		{"pinned", func(w *world) *popAnswer { return w.popFrom("ns.q", "p", "wait=true", "timeout=20000") }},
		{"discovery", func(w *world) *popAnswer { return w.discover("namespace=ns", "wait=true", "timeout=20000") }},
	} {
		t.Run(row.name, func(t *testing.T) {
			w := open(t)
			w.queued(msg("ns.q", "p", "a"))
			w.want(w.pop("ns.q", "leaseSeconds=1"), "a")
			start := time.Now()
			w.want(row.pop(w), "a")
			if d := time.Since(start); d < 800*time.Millisecond || d > 2500*time.Millisecond {
				t.Errorf("redelivered after %v", d)
			}
		})
	}
}

func TestM252ReplayWakes(t *testing.T) {
	w := open(t)
	w.queued(msg("q", "p", "a"))
	w.buried(w.ack("", w.want(w.pop("q"), "a").Messages[0].as("dlq")))
	got := later(func() *popAnswer { return w.pop("q", "wait=true", "timeout=20000") })
	w.parked(1)
	d := w.deadLetters()[0]
	w.retry(d)
	w.want(<-got, "dlq:"+d.ID)
}

// A deleted queue answers the pops that wait for it.
func TestD23DeletionWakes(t *testing.T) {
	w := open(t)
	w.queued(msg("q", "p", "a"))
	w.want(w.pop("q", "autoAck=true"), "a")
	pops := []<-chan *popAnswer{
		later(func() *popAnswer { return w.pop("q", "wait=true", "timeout=60000") }),
		later(func() *popAnswer {
			return w.pop("q", "wait=true", "timeout=60000", "consumerGroup=g", "subscriptionMode=new")
		}),
		later(func() *popAnswer { return w.popFrom("q", "p", "wait=true", "timeout=60000") }),
		later(func() *popAnswer { return w.popFrom("q", "none", "wait=true", "timeout=60000") }),
	}
	w.parked(len(pops))
	w.deleteQueue("q")
	for _, c := range pops {
		w.nothing(<-c)
	}
}

// A client that has gone gets nothing: its message is for the next, at once.
func TestM255DisconnectedPollTakesNothing(t *testing.T) {
	w := open(t, onLoopback)
	for _, path := range []string{"/api/v1/pop/queue/ns.q", "/api/v1/pop/queue/ns.q/partition/p", "/api/v1/pop"} {
		w.queued(msg("ns.q", "p", "first "+path))
		w.ackAll("", w.want(w.pop("ns.q"), "first "+path))
		conn, err := w.running.dial()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := fmt.Fprintf(conn, "GET %s?namespace=ns&wait=true&timeout=60000 HTTP/1.1\r\nHost: x\r\n\r\n", path); err != nil {
			t.Fatal(err)
		}
		w.parked(1)
		if err := conn.Close(); err != nil {
			t.Fatal(err)
		}
		w.queued(msg("ns.q", "p", path))
		w.ackAll("", w.want(w.pop("ns.q", "wait=true", "timeout=20000"), path))
		w.parked(0)
	}
}

// Of several that wait, those who have gone do not swallow the wake-up of the others.
func TestM255WakeUpGoesToTheLiving(t *testing.T) {
	w := open(t, onLoopback)
	for range 5 {
		conn, err := w.running.dial()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(conn, "GET /api/v1/pop/queue/q?wait=true&timeout=60000 HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		if err := conn.Close(); err != nil {
			t.Fatal(err)
		}
	}
	alive := later(func() *popAnswer { return w.pop("q", "wait=true", "timeout=20000") })
	await(t, "the living poll", func() bool { return w.running.broker.Parked() >= 1 })
	w.queued(msg("q", "", "a"))
	w.want(<-alive, "a")
}

// Producers and consumers at full speed: everything arrives, once, in order.
func TestM125ProducersAndConsumers(t *testing.T) {
	w := open(t)
	const producers, perProducer, consumers = 4, 50, 6
	total := producers * perProducer
	var mu sync.Mutex
	var wg sync.WaitGroup
	got := map[string]int{}
	lanes := map[string]int{}
	done, finished := make(chan struct{}), false
	for range consumers {
		wg.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				p := w.pop("q", "wait=true", "timeout=300", "batch=7", "partitions=2")
				if p == nil {
					continue
				}
				mu.Lock()
				for _, m := range p.Messages {
					got[m.TransactionID]++
					if want := fmt.Sprintf("%s-%d", m.Partition, lanes[m.Partition]); m.TransactionID != want {
						t.Errorf("%s, want %s", m.TransactionID, want)
					}
					lanes[m.Partition]++
				}
				if len(got) == total && !finished {
					finished = true
					close(done)
				}
				mu.Unlock()
				w.ackAll("", p)
			}
		})
	}
	together(producers, func(i int) {
		for n := range perProducer {
			w.queued(msg("q", fmt.Sprint(i), fmt.Sprintf("%d-%d", i, n)))
		}
	})
	wg.Wait()
	for id, n := range got {
		if n != 1 {
			t.Errorf("%s delivered %d times", id, n)
		}
	}
}
