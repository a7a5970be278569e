package acceptance

import (
	"sync"
	"testing"
	"time"
)

// M-903: what was handed out when the process was killed comes again or is acknowledged,
// and while a lease has come back with the broker, nobody else gets it.
func TestM903KilledWhileInFlight(t *testing.T) {
	t.Parallel()
	w := &world{t: t, dir: t.TempDir(), clock: &clock{}}
	child := w.startChild()
	w.queued(numbered("q", "p", "m", 1000)...)
	held := w.popFrom("q", "p", "batch=100", "leaseSeconds=20")
	if held == nil || len(held.Messages) != 100 {
		t.Fatalf("popped %v", held.ids())
	}
	w.kill(child, &sync.WaitGroup{})
	w.start()
	t.Cleanup(w.stop)

	seen := map[string]bool{}
	take := func() {
		for p := w.popFrom("q", "p", "batch=300"); p != nil && len(p.Messages) > 0; p = w.popFrom("q", "p", "batch=300") {
			for _, id := range p.ids() {
				seen[id] = true
			}
			w.ackAll("", p)
		}
	}
	if r := w.ack("", held.Messages[99].as("completed")); r.Success {
		for _, id := range held.ids() {
			seen[id] = true // its consumer has done with them
		}
	} else {
		take() // the lease was not written yet, and then all of it is there at once
	}
	take()
	if len(seen) != 1000 {
		t.Errorf("%d different messages, want 1000", len(seen))
	}
}

// M-903: the same, after the lease is known to be on disk and without an ack.
func TestM903RestoredLeaseIsAlone(t *testing.T) {
	w := open(t)
	w.queued(numbered("q", "p", "m", 1000)...)
	held := w.popFrom("q", "p", "batch=100", "leaseSeconds=20")
	w.crashAfterAll()
	w.nothing(w.popFrom("q", "p"))
	w.clock.advance(15 * time.Second)
	w.nothing(w.popFrom("q", "p"))
	w.clock.advance(6 * time.Second)
	w.refused(w.ack("", held.Messages[0].as("completed")), leaseInvalid)
	if p := w.popFrom("q", "p", "batch=1000"); len(p.ids()) != 1000 || p.ids()[0] != "m0" {
		t.Errorf("%d messages from %s on", len(p.ids()), p.ids()[0])
	}
}

// M-903: a message that is handed out again and again tells so, also over crashes, and is
// set aside once it has failed often enough.
func TestM903AttemptsOverCrashes(t *testing.T) {
	w := open(t, detailed)
	w.configure("q", `{"retryLimit":1}`)
	w.stored(numbered("q", "p", "m", 2)...)
	for attempt := 1; attempt <= 6; attempt++ {
		w.attempts(attempt, w.popDetailed("batch=1", "leaseSeconds=1"), "m0")
		if attempt == 3 || attempt == 5 {
			w.crashAfterAll()
		}
		w.clock.advance(1100 * time.Millisecond)
	}
	w.ok(true, w.ack("", w.attempts(7, w.popDetailed("batch=1"), "m0").as("failed")))
	w.crashAfterAll()
	w.buried(w.ack("", w.attempts(8, w.popDetailed("batch=1"), "m0").as("failed").because("poison")))
	if d := w.deadLetters(); len(d) != 1 || d[0].TransactionID != "m0" || d[0].Error != "poison" {
		t.Errorf("dead letters %+v", d)
	}
	w.attempts(1, w.popDetailed("batch=1"), "m1")
}
