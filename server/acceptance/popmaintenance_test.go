package acceptance

import (
	"testing"
	"time"
)

// M-709, G-407: no pop delivers, touches or registers anything.
func TestT47PopMaintenance(t *testing.T) {
	w := open(t)
	w.queued(msg("a.b", "p", "m"))
	w.pausePops(true)
	for _, path := range []string{
		"/api/v1/pop/queue/a.b", "/api/v1/pop/queue/a.b/partition/p", "/api/v1/pop?namespace=a", "/api/v1/pop/queue/unknown",
	} {
		if a := w.call("GET", path, ""); a.status != 204 {
			t.Errorf("GET %s: %d %s", path, a.status, a.body)
		}
	}
	if p := w.pop("a.b", "consumerGroup=g", "subscriptionMode=new"); p != nil {
		t.Errorf("delivered %+v", p)
	}
	w.queued(msg("a.b", "p", "n")) // pushes go on
	if len(w.queues()) != 1 {
		t.Errorf("a pop has made a queue: %v", w.queues())
	}
	w.pausePops(false)
	w.expect("GET", popMaintenancePath, "", 200, `{"popMaintenanceMode":false,"message":"Pop maintenance mode is OFF. Normal operation."}`)
	p := w.pop("a.b", "consumerGroup=g", "batch=10")
	if p == nil || len(p.Messages) != 2 {
		t.Fatalf("the group registered under maintenance, or messages were leased: %+v", p)
	}
	// Acks work meanwhile.
	w.pausePops(true)
	w.ackAll("g", p)
}

// M-709, G-407: a pop that is willing to wait is kept for a second at the most, and goes
// on if pops are served again before that.
func TestG407WaitingUnderPopMaintenance(t *testing.T) {
	w := open(t)
	w.queued(msg("q", "p", "m"))
	w.pausePops(true)
	began := time.Now()
	if p := w.pop("q", "wait=true", "timeout=100"); p != nil {
		t.Errorf("delivered %+v", p)
	}
	if d := time.Since(began); d < 100*time.Millisecond {
		t.Errorf("answered after %v, want the client's 100 ms", d)
	}
	began = time.Now()
	if p := w.pop("q", "wait=true", "timeout=20000"); p != nil {
		t.Errorf("delivered %+v", p)
	}
	if d := time.Since(began); d < time.Second || d > 10*time.Second {
		t.Errorf("answered after %v, want about 1 s", d)
	}
	held := later(func() *popAnswer { return w.pop("q", "wait=true", "timeout=20000") })
	w.parked(1)
	w.pausePops(false)
	if p, ok := <-held; ok && (p == nil || p.Messages[0].TransactionID != "m") {
		t.Errorf("after switching off: %+v", p)
	}
}

// M-709: parked pops of every kind are answered at
// once when the switch is turned, and what comes in then is theirs no more.
func TestM709ParkedPopsAreReleased(t *testing.T) {
	w := open(t)
	w.configure("a.b", "{}")
	w.queued(msg("c", "p", "x"))
	w.take("c")
	var held []<-chan *popAnswer
	for _, pop := range []func() *popAnswer{
		func() *popAnswer { return w.pop("a.b", "wait=true", "timeout=600000") },
		func() *popAnswer { return w.pop("a.b", "wait=true", "timeout=600000", "consumerGroup=g") },
		func() *popAnswer { return w.popFrom("c", "p", "wait=true", "timeout=600000") },
		func() *popAnswer { return w.popFrom("c", "none", "wait=true", "timeout=600000") },
		func() *popAnswer { return w.popFrom("none", "p", "wait=true", "timeout=600000") },
		func() *popAnswer { return w.discover("namespace=a", "wait=true", "timeout=600000") },
	} {
		held = append(held, later(pop))
	}
	w.parked(len(held))
	w.pausePops(true)
	w.queued(msg("a.b", "p", "m"), msg("c", "p", "y"))
	for i, c := range held {
		if p, ok := <-c; ok && p != nil {
			t.Errorf("pop %d delivers %+v", i, p)
		}
	}
	w.parked(0)
	w.pausePops(false)
	w.wantTaken("c", "y")
	w.wantTaken("a.b", "m")
}
