package acceptance

import (
	"fmt"
	"io"
	"sync"
	"testing"
	"time"
)

// patient are the parameters of a pop that may be held.
func patient(batch int, more ...string) []string {
	return append([]string{"wait=true", "timeout=30000", fmt.Sprint("batch=", batch)}, more...)
}

// still checks that a pop in the background is not answered.
func (w *world) still(pops ...<-chan *popAnswer) {
	w.t.Helper()
	w.parked(len(pops))
	for _, c := range pops {
		select {
		case p := <-c:
			w.t.Fatalf("answered with %v", p.ids())
		default:
		}
	}
}

// A pop that finds little waits for more, whether it comes before the messages or after.
func TestM256HeldUntilEnough(t *testing.T) {
	for name, group := range map[string]string{"queue mode": "", "group": "g"} {
		for _, first := range []bool{true, false} {
			t.Run(fmt.Sprint(name, first), func(t *testing.T) {
				w := open(t)
				w.configure("q", `{"minPopWaitTime":60000}`)
				if first {
					w.queued(msg("q", "p", "a"))
				}
				got := later(func() *popAnswer { return w.pop("q", patient(4, "consumerGroup="+group)...) })
				w.still(got)
				if !first {
					w.queued(msg("q", "p", "a"))
				}
				w.queued(msg("q", "p", "b"))
				w.queued(msg("q", "p", "c"))
				w.still(got)
				w.queued(msg("q", "p", "d"))
				w.want(<-got, "a", "b", "c", "d")
				w.parked(0)
			})
		}
	}
}

// What is ready in all partitions counts: with a batch of work waiting nobody is held.
func TestM256AllPartitionsCount(t *testing.T) {
	w := open(t)
	w.configure("q", `{"minPopWaitTime":60000}`)
	got := later(func() *popAnswer { return w.pop("q", patient(3, "partitions=2")...) })
	w.still(got)
	w.queued(msg("q", "0", "a"))
	w.queued(msg("q", "1", "b"))
	w.still(got)
	w.queued(msg("q", "2", "c"))
	w.want(<-got, "a", "b")
	w.want(w.pop("q"), "c")
}

// No message waits longer than that, and no pop beyond its timeout, which it does not
// leave empty-handed.
func TestM256Bounds(t *testing.T) {
	for name, row := range map[string]struct {
		option, timeout int
		least           time.Duration
	}{
		"the option":  {250, 30000, 249 * time.Millisecond}, // an append time is cut to milliseconds
		"the timeout": {60000, 250, 240 * time.Millisecond},
	} {
		for _, first := range []bool{true, false} {
			t.Run(fmt.Sprint(name, first), func(t *testing.T) {
				w := open(t)
				w.configure("q", fmt.Sprintf(`{"minPopWaitTime":%d}`, row.option))
				pop := func() *popAnswer { return w.pop("q", "wait=true", fmt.Sprint("timeout=", row.timeout), "batch=10") }
				start := time.Now()
				var p *popAnswer
				if first {
					w.queued(msg("q", "p", "a"))
					p = pop()
				} else {
					got := later(pop)
					w.parked(1)
					w.queued(msg("q", "p", "a"))
					p = <-got
				}
				w.want(p, "a")
				if d := time.Since(start); d < row.least || d > 5*time.Second {
					t.Errorf("answered after %v", d)
				}
			})
		}
	}
}

func TestM256WhoIsNotHeld(t *testing.T) {
	for name, pop := range map[string]func(w *world) *popAnswer{
		"wait=false":  func(w *world) *popAnswer { return w.pop("ns.q", "batch=10") },
		"no time":     func(w *world) *popAnswer { return w.pop("ns.q", "batch=10", "wait=true", "timeout=0") },
		"batch of 1":  func(w *world) *popAnswer { return w.pop("ns.q", patient(1)...) },
		"batch of 0":  func(w *world) *popAnswer { return w.pop("ns.q", patient(0)...) },
		"full batch":  func(w *world) *popAnswer { return w.pop("ns.q", patient(2)...) },
		"pinned":      func(w *world) *popAnswer { return w.popFrom("ns.q", "p", patient(10)...) },
		"discovery":   func(w *world) *popAnswer { return w.discover(patient(10, "namespace=ns")...) },
		"old message": func(w *world) *popAnswer { w.clock.advance(time.Minute); return w.pop("ns.q", patient(10)...) },
		"switched off": func(w *world) *popAnswer {
			got := later(func() *popAnswer { return w.pop("ns.q", patient(10)...) })
			w.still(got)
			w.configureRaw(`{"queue":"ns.q","namespace":"ns"}`)
			return <-got
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := open(t)
			w.configureRaw(`{"queue":"ns.q","namespace":"ns","options":{"minPopWaitTime":60000}}`)
			w.queued(msg("ns.q", "p", "a"), msg("ns.q", "p", "b"))
			start := time.Now()
			if p := pop(w); len(p.ids()) == 0 {
				t.Error("nothing popped")
			}
			if d := time.Since(start); d > 10*time.Second {
				t.Errorf("answered after %v", d)
			}
		})
	}
}

// An empty queue is waited for as ever, and messages that are hidden are no messages.
func TestM256EmptyIsNotHeld(t *testing.T) {
	w := open(t)
	w.configure("q", `{"minPopWaitTime":60000,"delayedProcessing":1}`)
	start := time.Now()
	w.nothing(w.pop("q", "wait=true", "timeout=100", "batch=10"))
	if d := time.Since(start); d < 90*time.Millisecond || d > 5*time.Second {
		t.Errorf("answered after %v", d)
	}
	w.queued(msg("q", "p", "a"))
	w.nothing(w.pop("q", "wait=true", "timeout=100", "batch=10"))
	w.configure("q", `{"minPopWaitTime":500,"delayedProcessing":1}`)
	w.want(w.pop("q", patient(10)...), "a") // and is old enough when it shows
}

// A held pop holds nothing: others take the messages, and it goes on waiting.
func TestM256OthersTakeTheMessages(t *testing.T) {
	w := open(t)
	w.configure("q", `{"minPopWaitTime":60000}`)
	held := later(func() *popAnswer { return w.pop("q", patient(2)...) })
	w.still(held)
	for i := range 6 {
		id := fmt.Sprint(i)
		if i%2 == 0 {
			w.queued(msg("q", "p", id))
			w.still(held)
			w.ackAll("", w.want(w.pop("q"), id))
			continue
		}
		// A parked one that takes what comes gets it, whoever was there first.
		eager := later(func() *popAnswer { return w.pop("q", patient(1)...) })
		w.parked(2)
		w.queued(msg("q", "p", id))
		w.ackAll("", w.want(<-eager, id))
		w.still(held)
	}
	w.queued(numbered("q", "p", "m", 2)...)
	w.want(<-held, "m0", "m1")
}

// Of many patient pops one is held over a message, and the others stay parked.
func TestM256OneIsHeld(t *testing.T) {
	w := open(t)
	w.configure("q", `{"minPopWaitTime":200}`)
	const waiters = 20
	got := make(chan *popAnswer, waiters)
	var wg sync.WaitGroup
	for range waiters {
		wg.Go(func() { got <- w.pop("q", patient(10)...) })
	}
	w.parked(waiters)
	for i := range waiters {
		w.queued(msg("q", fmt.Sprint(i), "a"), msg("q", fmt.Sprint(i), "b"))
		w.want(<-got, "a", "b")
		w.parked(waiters - i - 1)
	}
	wg.Wait()
}

// Many lanes at once: everybody is served within the option's time, not one after another.
func TestM256HoldsDoNotAddUp(t *testing.T) {
	w := open(t)
	w.configure("q", `{"minPopWaitTime":1000}`)
	const waiters = 15
	got := make(chan *popAnswer, waiters)
	var wg sync.WaitGroup
	for range waiters {
		wg.Go(func() { got <- w.pop("q", patient(100)...) })
	}
	w.parked(waiters)
	start := time.Now()
	for i := range waiters {
		w.queued(msg("q", fmt.Sprint(i), "a"))
	}
	for range waiters {
		w.want(<-got, "a")
	}
	if d := time.Since(start); d < 900*time.Millisecond || d > 6*time.Second {
		t.Errorf("all served after %v", d)
	}
	wg.Wait()
}

// A held client that goes leaves its messages to the next.
func TestM256ClientGoes(t *testing.T) {
	w := open(t, onLoopback)
	w.configure("q", `{"minPopWaitTime":60000}`)
	conn, err := w.running.dial()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(conn, "GET /api/v1/pop/queue/q?batch=2&wait=true&timeout=60000 HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	w.parked(1)
	next := later(func() *popAnswer { return w.pop("q", patient(2)...) })
	w.parked(2)
	w.queued(msg("q", "p", "a"))
	if err := conn.Close(); err != nil {
		t.Fatal(err)
	}
	w.queued(msg("q", "p", "b"))
	w.want(<-next, "a", "b")
	w.parked(0)
}

// Whatever ends the wait of a parked pop ends that of a held one.
func TestM256Ends(t *testing.T) {
	for name, end := range map[string]func(w *world){
		"queue deleted": func(w *world) { w.deleteQueue("q") },
		"stop":          func(w *world) { w.running.broker.StopWaiting() },
	} {
		t.Run(name, func(t *testing.T) {
			w := open(t)
			w.configure("q", `{"minPopWaitTime":60000}`)
			w.queued(msg("q", "p", "a"))
			pops := []<-chan *popAnswer{
				later(func() *popAnswer { return w.pop("q", patient(9)...) }),
				later(func() *popAnswer { return w.pop("q", patient(9)...) }),
			}
			w.still(pops...)
			end(w)
			for _, c := range pops {
				w.nothing(<-c)
			}
		})
	}
}

// Without room to wait in, a pop takes what there is.
func TestM256NoRoomToWait(t *testing.T) {
	w := open(t, func(w *world) { w.broker.MaxParked = 1 })
	w.configure("q", `{"minPopWaitTime":60000}`)
	parked := later(func() *popAnswer { return w.pop("r", patient(1)...) })
	w.parked(1)
	w.queued(msg("q", "p", "a"))
	w.want(w.pop("q", patient(9)...), "a")
	w.queued(msg("r", "p", "b"))
	w.want(<-parked, "b")
}

// A conflating group counts partitions: each will give one message.
func TestM256Conflation(t *testing.T) {
	w := open(t)
	w.configure("q", `{"minPopWaitTime":60000}`)
	got := make(chan *conflatedAnswer, 1)
	go func() {
		defer close(got)
		got <- w.popFlagged(fromQ, append(patient(2), asked...))
	}()
	w.parked(1)
	w.queued(numbered("q", "0", "a", 5)...)
	w.queued(numbered("q", "1", "b", 5)...)
	if p := <-got; p == nil || len(p.Messages) != 2 {
		t.Errorf("popped %+v", p)
	}
}

// Producers and patient consumers at full speed: everything arrives, once.
func TestM256NothingIsLost(t *testing.T) {
	w := open(t)
	w.configure("q", `{"minPopWaitTime":20}`)
	const producers, perProducer = 4, 60
	var mu sync.Mutex
	seen := map[string]int{}
	done := make(chan struct{})
	var wg sync.WaitGroup
	for i := range 6 {
		wg.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				p := w.pop("q", "wait=true", "timeout=400", fmt.Sprint("batch=", 1+i*5), fmt.Sprint("partitions=", 1+i%3))
				if p == nil {
					continue
				}
				mu.Lock()
				for _, m := range p.Messages {
					if seen[m.TransactionID]++; len(seen) == producers*perProducer && seen[m.TransactionID] == 1 {
						close(done)
					}
				}
				mu.Unlock()
				w.ackAll("", p)
			}
		})
	}
	together(producers, func(i int) {
		for n := range perProducer {
			w.queued(msg("q", fmt.Sprint(n%7), fmt.Sprintf("%d-%d", i, n)))
		}
	})
	wg.Wait()
	for id, n := range seen {
		if n != 1 {
			t.Errorf("%s delivered %d times", id, n)
		}
	}
}
