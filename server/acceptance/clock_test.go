package acceptance

import (
	"fmt"
	"testing"
	"time"
)

// setClock runs a test with the wall clock set on or back while the broker serves, or
// while it is down. again is nothing, or the way in which the broker comes back.
func setClock(t *testing.T, run func(w *world, step time.Duration, again func())) {
	for name, again := range map[string]func(*world){
		"serving": func(*world) {}, "restart": (*world).restart, "crash": (*world).crashAfterAll,
	} {
		for _, step := range []time.Duration{-56 * 365 * 24 * time.Hour, -time.Second, 30 * time.Second, 10 * time.Minute} {
			t.Run(fmt.Sprint(name, step), func(t *testing.T) {
				w := open(t)
				run(w, step, func() {
					if name != "serving" {
						again(w)
					}
				})
			})
		}
	}
}

// A lease ends when its time has passed in the process, whatever the clock says. Over a
// restart the clock decides, but none outlasts the time it was granted for.
func TestR12Leases(t *testing.T) {
	setClock(t, func(w *world, step time.Duration, again func()) {
		w.queued(msg("q", "p", "a"))
		p := w.pop("q", "leaseSeconds=100")
		running := w.running
		w.clock.set(step)
		again()
		if w.running == running || step < 0 {
			w.clock.advance(95 * time.Second)
			w.nothing(w.popFrom("q", "p"))
			if e := w.extend(p.LeaseID, `{"seconds":100}`); e.Renewed != 1 {
				w.t.Errorf("extended: %+v", e)
			} else if left := e.expiry(w).Sub(w.clock.wall()); left > 101*time.Second || left < 95*time.Second {
				w.t.Errorf("%v are left by the clock of the client", left)
			}
		}
		w.clock.advance(101 * time.Second)
		w.want(w.popFrom("q", "p"), "a")
	})
}

// What a lease was granted for includes its extensions, and is measured by one clock: dates
// may be ahead of the wall clock.
func TestR12ExtendedLeases(t *testing.T) {
	for name, again := range map[string]func(*world){"restart": (*world).restart, "crash": (*world).crashAfterAll} {
		t.Run(name, func(t *testing.T) {
			w := open(t)
			w.queued(msg("q", "plain", "a"), msg("q", "extended", "b"), msg("q", "before", "c"))
			before := w.popFrom("q", "before", "leaseSeconds=10").LeaseID
			w.clock.set(-30 * time.Second)
			w.extend(before, `{"seconds":25}`) // ends before the lease was granted, by the clock
			w.popFrom("q", "plain", "leaseSeconds=100")
			w.extend(w.popFrom("q", "extended", "leaseSeconds=10").LeaseID, `{"seconds":100}`)
			again(w)
			w.clock.advance(20 * time.Second)
			w.nothing(w.popFrom("q", "before"))
			w.clock.advance(75 * time.Second)
			w.nothing(w.popFrom("q", "plain"))
			w.nothing(w.popFrom("q", "extended"))
			w.clock.advance(6 * time.Second)
			w.want(w.popFrom("q", "plain"), "a")
			w.want(w.popFrom("q", "extended"), "b")
		})
	}
}

// Times of a partition do not decrease, and a subscription to what is new gets that.
func TestR12OrderAndSubscriptions(t *testing.T) {
	setClock(t, func(w *world, step time.Duration, again func()) {
		w.queued(msg("q", "p", "old"))
		w.nothing(w.pop("q", "consumerGroup=before", "subscriptionMode=new"))
		w.clock.set(step)
		again()
		w.nothing(w.pop("q", "consumerGroup=after", "subscriptionMode=new"))
		w.queued(msg("q", "p", "new"))
		w.clock.set(-step)
		w.queued(msg("q", "p", "newer"))
		for _, group := range []string{"before", "after"} {
			w.want(w.pop("q", "consumerGroup="+group), "new", "newer")
		}
		all := w.want(w.pop("q"), "old", "new", "newer").Messages
		for i, m := range all[1:] {
			if m.CreatedAt < all[i].CreatedAt {
				w.t.Errorf("%s was created at %s, %s before it at %s", m.TransactionID, m.CreatedAt, all[i].TransactionID, all[i].CreatedAt)
			}
		}
		// The time of a message is where a seek finds it, and what came before stays behind.
		w.clock.advance(time.Minute)
		w.queued(msg("q", "p", "last"))
		last := w.popFrom("q", "p", "consumerGroup=look").Messages[3]
		if last.CreatedAt <= all[2].CreatedAt {
			w.t.Fatalf("a minute later: %s after %s", last.CreatedAt, all[2].CreatedAt)
		}
		w.seek("seeker", "q", fmt.Sprintf(`{"timestamp":%q}`, last.CreatedAt))
		w.want(w.pop("q", "consumerGroup=seeker"), "last")
	})
}

// No delay lasts longer than it should by more than a fiftieth, and none is cut short by
// more than a step that is believed.
func TestR12Delays(t *testing.T) {
	for name, options := range map[string]string{
		"delayedProcessing": `{"delayedProcessing":300}`, "windowBuffer": `{"windowBuffer":300}`,
	} {
		t.Run(name, func(t *testing.T) {
			setClock(t, func(w *world, step time.Duration, again func()) {
				w.configure("q", options)
				w.queued(msg("q", "p", "a"))
				w.clock.set(step)
				again()
				w.queued(msg("q", "p", "b"))
				if step < time.Minute {
					w.clock.advance(300*time.Second - max(step, 0) - 5*time.Second)
					w.nothing(w.pop("q"))
				}
				w.clock.advance(12*time.Second + max(step, 0))
				w.want(w.pop("q", "consumerGroup=g"), "a", "b")
			})
		})
	}
}

// A poll that waits for more than it finds is answered in time.
func TestR12HeldPolls(t *testing.T) {
	for _, step := range []time.Duration{-time.Hour, 10 * time.Second} {
		t.Run(fmt.Sprint(step), func(t *testing.T) {
			w := open(t)
			w.configure("q", `{"minPopWaitTime":300}`)
			w.queued(msg("q", "p", "a"))
			got := later(func() *popAnswer { return w.pop("q", patient(4)...) })
			w.clock.set(step)
			w.want(<-got, "a")
		})
	}
}

// A conflating group gets the newest message, by order and not by the clock.
func TestR12Conflation(t *testing.T) {
	setClock(t, func(w *world, step time.Duration, again func()) {
		w.call("GET", "/api/v1/pop/queue/q?consumerGroup=c&conflation=true&subscriptionMode=all", "")
		w.queued(msg("q", "p", "a"))
		w.clock.set(step)
		again()
		w.queued(msg("q", "p", "b"))
		w.latest("/api/v1/pop/queue/q", []string{"consumerGroup=c", "conflation=true"}, "b")
	})
}

// Neither what retention drops nor the ids that tell duplicates depend on a clock that is
// wrong for a moment: a step of more than a minute has to stand for five.
func TestR12RetentionAndDedup(t *testing.T) {
	for _, step := range []time.Duration{-24 * time.Hour, -10 * time.Minute, 10 * time.Minute, 24 * time.Hour, 73 * 365 * 24 * time.Hour} {
		t.Run(fmt.Sprint(step), func(t *testing.T) {
			w := open(t, retaining)
			w.configure("q", `{"retentionEnabled":true,"retentionSeconds":1000,"dedupWindowSeconds":1000}`)
			id := w.queued(msg("q", "p", "a"))[0]
			w.clock.set(step)
			w.after(200 * time.Second)
			w.clock.set(-step)
			w.after(700 * time.Second)
			w.total("q", 1)
			w.wantDuplicate(msg("q", "p", "a"), id)
			w.clock.advance(150 * time.Second)
			w.total("q", 0)
			w.queued(msg("q", "p", "a"))
		})
	}
}

// A step that stands is believed: what has become old by it goes.
func TestR12StepThatStands(t *testing.T) {
	w := open(t, retaining)
	w.configure("q", `{"retentionEnabled":true,"retentionSeconds":1000,"dedupWindowSeconds":1000}`)
	w.queued(msg("q", "p", "a"))
	w.clock.set(24 * time.Hour)
	w.after(10 * time.Second) // it is seen
	w.total("q", 1)
	w.clock.advance(301 * time.Second)
	w.total("q", 0)
	w.queued(msg("q", "p", "a"))
	at := w.pop("q").Messages[0].CreatedAt
	if want := stamp(w.clock.wall().Add(-time.Minute)); at < want {
		t.Errorf("created at %s, it is about %s", at, want)
	}
}
