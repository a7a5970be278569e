package acceptance

import (
	"fmt"
	"testing"
	"time"
)

// within checks that an instant is so far from the world's now, to the second.
func (w *world) within(e extendAnswer, want time.Duration) {
	w.t.Helper()
	if got := e.expiry(w).Sub(w.clock.now()); got > want || got < want-5*time.Second {
		w.t.Errorf("expires in %v, want %v", got, want)
	}
}

func TestM400Extend(t *testing.T) {
	w := open(t)
	w.queued(msg("q", "p", "a"))
	p := w.popFrom("q", "p", "leaseSeconds=10")
	w.within(w.extend(p.LeaseID, `{"seconds":120}`), 120*time.Second)
	w.clock.advance(110 * time.Second)
	w.nothing(w.popFrom("q", "p"))
	w.ackAll("", p)
}

// M-402: a lease is never shortened.
func TestM402ExtendNeverShortens(t *testing.T) {
	w := open(t)
	w.queued(msg("q", "p", "a"))
	p := w.popFrom("q", "p", "leaseSeconds=100")
	w.within(w.extend(p.LeaseID, `{"seconds":10}`), 100*time.Second)
	w.within(w.extend(p.LeaseID, `{"seconds":0}`), 100*time.Second)
	w.within(w.extend(p.LeaseID, `{"seconds":-1000}`), 100*time.Second)
	w.within(w.extend(p.LeaseID, `{"seconds":200}`), 200*time.Second)
	q := w.popFrom("q", "p", "consumerGroup=g", "leaseSeconds=1")
	w.clock.advance(100 * time.Millisecond)
	before := w.clock.now()
	if e := w.extend(q.LeaseID, `{"seconds":-5}`); !e.Success || e.expiry(w).Sub(before) < 998*time.Millisecond {
		t.Errorf("below 1 acts as 1: %+v", e)
	}
}

func TestM403EndedLeasesStayEnded(t *testing.T) {
	w := open(t)
	w.queued(msg("q", "p", "a"), msg("q", "p", "b"))
	p := w.popFrom("q", "p", "leaseSeconds=10")
	w.clock.advance(11 * time.Second)
	if e := w.extend(p.LeaseID, `{"seconds":60}`); e.Success || e.Renewed != 0 {
		t.Errorf("expired: %+v", e)
	}
	w.refused(w.ack("", p.Messages[0].as("completed")), leaseInvalid)
	p = w.popFrom("q", "p")
	w.ok(true, w.ack("", p.Messages[0].as("retry")))
	if e := w.extend(p.LeaseID, `{"seconds":60}`); e.Success {
		t.Errorf("released: %+v", e)
	}
	p = w.popFrom("q", "p")
	w.deleteQueue("q")
	if e := w.extend(p.LeaseID, ``); e.Success {
		t.Errorf("of a deleted queue: %+v", e)
	}
	for _, id := range []string{"0198f2c1-9a7b-7d20-8e31-4c5d6e7f8a90", "nope", "ä/\n", ""} {
		if e := w.extend(id, `{"seconds":60}`); e.Success {
			t.Errorf("%q: %+v", id, e)
		}
	}
}

// M-404: renewed counts leases, and the earliest expiry is told.
func TestM404EarliestExpiry(t *testing.T) {
	w := open(t)
	w.configureRaw(`{"queue":"a","namespace":"ns","options":{"leaseTime":50}}`)
	w.configureRaw(`{"queue":"b","namespace":"ns","options":{"leaseTime":500}}`)
	w.queued(msg("a", "", "1"), msg("b", "", "1"))
	p := w.discover("namespace=ns", "partitions=0")
	e := w.extend(p.LeaseID, `{"seconds":10}`)
	if e.Renewed != 2 {
		t.Errorf("renewed %d", e.Renewed)
	}
	w.within(e, 50*time.Second)
	w.within(w.extend(p.LeaseID, `{"seconds":100}`), 100*time.Second)
	// One of the two is released.
	w.ok(true, w.ack("", p.Messages[0].as("completed")))
	if e = w.extend(p.LeaseID, `{"seconds":1000}`); e.Renewed != 1 {
		t.Errorf("renewed %d", e.Renewed)
	}
	w.within(e, 1000*time.Second)
}

// M-405: whatever the body, it is never a 400.
func TestM405Bodies(t *testing.T) {
	for i, row := range []struct {
		body    string
		seconds int
	}{
		{``, 60}, {`{}`, 60}, {`not json`, 60}, {`{"seconds":`, 60}, {`[]`, 60}, {`null`, 60}, {`{"seconds":null}`, 60},
		{`{"seconds":"90"}`, 60}, {`{"seconds":1.5}`, 60}, {`{"seconds":{}}`, 60}, {`{"sec":90}`, 60}, {"\xff", 60},
		{`{"seconds":90}`, 90}, {`{"seconds":90.0}`, 90}, {`{"x":1,"seconds":70}`, 70},
	} {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			w := open(t)
			w.queued(msg("q", "p", "a"))
			p := w.popFrom("q", "p", "leaseSeconds=1")
			w.within(w.extend(p.LeaseID, row.body), time.Duration(row.seconds)*time.Second)
		})
	}
}

// M-407: the lease would have ended twice.
func TestM407RenewedTwice(t *testing.T) {
	w := open(t)
	w.queued(msg("q", "p", "a"))
	p := w.pop("q", "leaseSeconds=100")
	for range 2 {
		w.clock.advance(70 * time.Second)
		if e := w.extend(p.LeaseID, `{"seconds":100}`); !e.Success {
			t.Fatalf("extend: %+v", e)
		}
		w.nothing(w.pop("q"))
	}
	w.clock.advance(70 * time.Second)
	w.nothing(w.pop("q", "wait=true", "timeout=100"))
	w.ackAll("", p)
	w.nothing(w.pop("q"))
}

// The extension ends like any lease, and a parked pop gets the message then.
func TestM407ExtendedLeaseExpires(t *testing.T) {
	w := open(t)
	w.queued(msg("q", "p", "a"))
	p := w.pop("q", "leaseSeconds=1")
	got := later(func() *popAnswer { return w.pop("q", "wait=true", "timeout=20000") })
	w.parked(1)
	start := time.Now()
	w.extend(p.LeaseID, `{"seconds":2}`)
	w.want(<-got, "a")
	if d := time.Since(start); d < 1900*time.Millisecond || d > 4*time.Second {
		t.Errorf("redelivered after %v", d)
	}
}
