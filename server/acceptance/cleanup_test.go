package acceptance

import (
	"fmt"
	"testing"
	"time"
)

const day = 24 * time.Hour

// partitionNames returns the partitions of a queue, sorted.
func (w *world) partitionNames(queue string) string {
	w.t.Helper()
	names := ""
	for _, p := range w.queue(queue).Partitions {
		names += p.Name
	}
	return names
}

// cleaned waits until a queue has just these partitions, each with a name of one letter. A
// minute passes with each look, so that each may be after another slice of cleanup.
func (w *world) cleaned(queue, names string) {
	w.t.Helper()
	await(w.t, fmt.Sprintf("%q to have the partitions %q", queue, names), func() bool {
		w.clock.advance(time.Minute)
		return w.partitionNames(queue) == names
	})
}

// openKept is open with eager checkpoints, and with a segment that stays: there is always
// one to wait for.
func openKept(t *testing.T, options ...func(*world)) *world {
	t.Helper()
	w := open(t, append(options, retaining, eagerCheckpoints)...)
	w.queued(msg("kept", "p", "kept"))
	return w
}

// cleanedOnce returns when a slice of cleanup has passed: it has removed another partition.
func (w *world) cleanedOnce() {
	w.t.Helper()
	w.configure("hourglass", `{"maxWaitTimeSeconds":1}`)
	w.clock.advance(31 * day)
	w.cleaned("hourglass", "")
	w.queued(msg("hourglass", "x", ""))
	w.filed()
	w.clock.advance(31 * day)
	w.cleaned("hourglass", "")
}

func TestM560PartitionCleanup(t *testing.T) {
	for name, row := range map[string]struct {
		prepare func(w *world)
		left    string
	}{
		"nothing stands against it": {func(w *world) {}, ""},
		"a message":                 {func(w *world) { w.configure("q", `{}`); w.queued(msg("q", "a", "z")); w.queued(msg("q", "b", "z")) }, "ab"},
		"a dead letter": {func(w *world) {
			w.queued(msg("q", "a", "z"))
			w.buried(w.ack("", w.popFrom("q", "a").Messages[0].as("dlq")))
		}, "a"},
		"a live lease": {func(w *world) {
			w.queued(msg("q", "b", "z"))
			w.popFrom("q", "b", fmt.Sprint("leaseSeconds=", 1000*24*3600))
		}, "b"},
	} {
		t.Run(name, func(t *testing.T) {
			w := openKept(t)
			w.configure("q", `{"maxWaitTimeSeconds":1}`)
			w.queued(msg("q", "a", "x"), msg("q", "b", "x"))
			w.ackAll("g", w.pop("q", "partitions=2", "consumerGroup=g"))
			w.clock.advance(2 * time.Second)
			w.total("q", 0)
			row.prepare(w)
			w.clock.advance(2 * time.Second)
			w.filed()
			w.clock.advance(29 * day)
			w.cycle()
			if got := w.partitionNames("q"); got != "ab" {
				t.Fatalf("partitions %q after 29 days", got)
			}
			w.cleanedOnce()
			w.cleaned("q", row.left)
			w.crash()
			w.cleaned("q", row.left)
			w.restart()
			w.cleaned("q", row.left)
			if got := w.queues(); len(got) != 3 {
				t.Errorf("%d queues: a queue is never removed", len(got))
			}
		})
	}
}

// Whoever comes back finds a new partition of that name: another id, offsets from 0, no
// cursors, no memory of ids; groups keep their subscription.
func TestM560PartitionIsMadeAnew(t *testing.T) {
	for name, back := range map[string]func(w *world){
		"restart": (*world).restart,
		"crash":   (*world).crashAfterAll,
		"both":    func(w *world) { w.crash(); w.restart() },
	} {
		t.Run(name, func(t *testing.T) {
			w := openKept(t)
			again := func() { back(w) }
			w.configure("q", fmt.Sprintf(`{"maxWaitTimeSeconds":1,"dedupWindowSeconds":%d}`, 365*24*3600))
			w.queued(msg("q", "a", "x"), msg("q", "a", "y"))
			w.queued(msg("q", "b", "x"))
			w.ackAll("g", w.pop("q", "consumerGroup=g", "partitions=2"))
			w.nothing(w.pop("q", "consumerGroup=new", "subscriptionMode=new"))
			old := w.queue("q").Partitions[0]
			w.clock.advance(2 * time.Second)
			w.total("q", 0)
			w.filed()
			w.clock.advance(31 * day)
			w.cleaned("q", "")
			w.server.DeliveryDetails, w.broker.CleanupAge = true, -1
			again()
			if got := w.partitionNames("q"); got != "" {
				t.Fatalf("partitions %q", got)
			}
			r := w.ack("g", ack{TransactionID: "x", PartitionID: old.ID, Status: "completed"})
			w.refused(r, consumerNotFound)
			w.configure("q", `{}`)
			if got := w.offsets(msg("q", "a", "x"), msg("q", "a", "y")); got[0] != 0 || got[1] != 1 {
				t.Fatalf("offsets %v", got)
			}
			if p := w.queue("q").Partitions[0]; p.ID == old.ID || p.CreatedAt <= old.CreatedAt || p.Stats.Total != 2 {
				t.Errorf("the new partition is %+v, the old one was %+v", p, old)
			}
			w.server.DeliveryDetails = false
			again()
			for _, group := range []string{"g", "new", ""} {
				w.want(w.pop("q", "consumerGroup="+group), "x", "y")
			}
		})
	}
}

// A pop that waits for a partition goes on waiting for its successor.
func TestM560WaitingPopFindsTheSuccessor(t *testing.T) {
	w := openKept(t)
	w.configure("q", `{"maxWaitTimeSeconds":1}`)
	w.queued(msg("q", "a", "x"))
	w.clock.advance(2 * time.Second)
	w.total("q", 0)
	w.filed()
	pinned := later(func() *popAnswer { return w.popFrom("q", "a", "wait=true", "timeout=60000", "consumerGroup=p") })
	w.parked(1)
	w.clock.advance(31 * day)
	w.cleaned("q", "")
	w.queued(msg("q", "a", "next"))
	w.want(<-pinned, "next")
}

func TestM560CleanupOff(t *testing.T) {
	w := openKept(t, func(w *world) { w.broker.CleanupAge = -1 })
	w.configure("q", `{"maxWaitTimeSeconds":1}`)
	w.queued(msg("q", "a", "x"))
	w.filed()
	w.after(1000 * day)
	w.after(time.Hour)
	if got := w.partitionNames("q"); got != "a" {
		t.Errorf("partitions %q", got)
	}
}

// Partitions come and go while they are pushed to: nothing that was answered is lost.
func TestM560CleanupUnderLoad(t *testing.T) {
	w := openKept(t, func(w *world) { w.broker.CleanupAge = time.Millisecond })
	w.configure("q", `{"maxWaitTimeSeconds":3600}`)
	const pushers, rounds = 4, 40
	together(pushers+1, func(i int) {
		if i == pushers {
			for range rounds {
				w.clock.advance(2 * time.Hour)
				w.cycle()
			}
			return
		}
		for r := range rounds {
			w.queued(msg("q", fmt.Sprint(i%2), fmt.Sprint(i, "-", r)))
		}
	})
	w.configure("q", `{}`)
	for i := range pushers {
		w.queued(msg("q", fmt.Sprint(i%2), fmt.Sprint("last", i)))
	}
	found := map[string]int{}
	for p := w.pop("q", "partitions=0", "autoAck=true"); p != nil; p = w.pop("q", "partitions=0", "autoAck=true") {
		for _, m := range p.Messages {
			found[m.TransactionID]++
		}
	}
	for i := range pushers {
		if found[fmt.Sprint("last", i)] != 1 {
			t.Errorf("last%d was delivered %d times", i, found[fmt.Sprint("last", i)])
		}
	}
}
