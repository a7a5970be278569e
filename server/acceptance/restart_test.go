package acceptance

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

// comebacks are the ways in which a broker comes back. Under segments everything is filed
// as soon as it is written, so what comes back is read from there.
var comebacks = map[string]struct {
	option func(*world)
	again  func(*world)
}{
	"restart":          {func(*world) {}, (*world).restart},
	"twice":            {func(*world) {}, func(w *world) { w.restart(); w.restart() }},
	"crash":            {func(*world) {}, (*world).crashAfterAll},
	"crash twice":      {func(*world) {}, func(w *world) { w.crashAfterAll(); w.crash() }},
	"segments":         {eagerCheckpoints, func(w *world) { w.filed(); w.restart() }},
	"segments, crash":  {eagerCheckpoints, func(w *world) { w.filed(); w.crashAfterAll() }},
	"crash, restart":   {eagerCheckpoints, func(w *world) { w.crashAfterAll(); w.restart() }},
	"journal, segment": {func(*world) {}, func(w *world) { w.broker.CheckpointBytes = 1; w.restart(); w.filed(); w.crash() }},
}

// afterAgain runs a test once for each way of coming back.
func afterAgain(t *testing.T, run func(w *world, again func())) {
	for name, row := range comebacks {
		t.Run(name, func(t *testing.T) {
			w := open(t, row.option)
			run(w, func() { row.again(w) })
		})
	}
}

func TestRestartMessages(t *testing.T) {
	afterAgain(t, func(w *world, again func()) {
		big := []byte(quote(fmt.Sprintf("%0100000d", 7)))
		w.queued(numbered("q", "p", "m", 50)...)
		for p := range 20 {
			w.queued(numbered("many", fmt.Sprint(p), "m", 2)...)
		}
		w.queued(item{"q", "p", "big", big}, item{Queue: "q", Partition: "p"})
		before := w.popFrom("q", "p", "consumerGroup=before")
		again()
		w.queued(msg("q", "p", "later"))
		after := w.popFrom("q", "p", "consumerGroup=after")
		if len(after.Messages) != 53 {
			w.t.Fatalf("%d messages", len(after.Messages))
		}
		for i, m := range before.Messages {
			n := after.Messages[i]
			if n.ID != m.ID || n.TransactionID != m.TransactionID || n.CreatedAt != m.CreatedAt || string(n.Data) != string(m.Data) || n.PartitionID != m.PartitionID {
				w.t.Errorf("message %d: %.200v, before %.200v", i, n, m)
			}
		}
		if p := w.pop("many", "partitions=0"); len(p.Messages) != 40 || p.Claimed != 20 {
			w.t.Errorf("%d messages of %d partitions", len(p.Messages), p.Claimed)
		}
	})
}

func TestRestartCursors(t *testing.T) {
	afterAgain(t, func(w *world, again func()) {
		w.queued(numbered("q", "p", "m", 6)...)
		w.ackAll("", w.popFrom("q", "p", "batch=3"))
		w.popFrom("q", "p", "consumerGroup=auto", "autoAck=true", "batch=5")
		w.ok(false, w.ack("g", w.popFrom("q", "p", "consumerGroup=g").Messages[0].as("completed")))
		again()
		w.want(w.popFrom("q", "p"), "m3", "m4", "m5")
		w.want(w.popFrom("q", "p", "consumerGroup=auto"), "m5")
		w.nothing(w.popFrom("q", "p", "consumerGroup=g"))
		w.lapse()
		w.want(w.popFrom("q", "p", "consumerGroup=g"), "m1", "m2", "m3", "m4", "m5")
	})
}

// A live lease excludes others as before, its holder acks and extends it as before, and
// its end comes when it would have come.
func TestRestartLeases(t *testing.T) {
	afterAgain(t, func(w *world, again func()) {
		w.queued(numbered("q", "a", "m", 3)...)
		w.queued(numbered("q", "b", "m", 3)...)
		p := w.pop("q", "partitions=2", "leaseSeconds=100")
		if p.Claimed != 2 {
			w.t.Fatalf("claimed %d", p.Claimed)
		}
		again()
		w.nothing(w.pop("q", "partitions=0"))
		w.nothing(w.popFrom("q", "a"))
		w.clock.advance(90 * time.Second)
		w.nothing(w.popFrom("q", "b"))
		e := w.extend(p.LeaseID, `{"seconds":60}`)
		if e.Renewed != 2 {
			w.t.Errorf("renewed %d", e.Renewed)
		}
		w.clock.advance(30 * time.Second)
		w.refused(w.ack("", p.Messages[0].as("completed").id("ghost")), unresolvable)
		w.ok(false, w.ack("", p.Messages[0].as("completed")))
		var acks []ack
		for _, m := range p.Messages[:3] {
			acks = append(acks, m.as("completed"))
		}
		for _, r := range w.ackBatch("", acks...)[1:] {
			w.ok(true, r)
		}
		w.nothing(w.popFrom("q", p.Partition))
		w.clock.advance(31 * time.Second)
		w.refused(w.ack("", p.Messages[3].as("completed")), leaseInvalid)
		w.want(w.popFrom("q", p.Messages[3].Partition), "m0", "m1", "m2")
	})
}

// The end of a lease that was live at the restart wakes who waits.
func TestRestartLeaseExpiryWakes(t *testing.T) {
	afterAgain(t, func(w *world, again func()) {
		w.queued(msg("q", "p", "a"))
		w.want(w.pop("q", "leaseSeconds=2"), "a")
		again()
		w.want(w.pop("q", "wait=true", "timeout=20000"), "a")
	})
}

// A batch with repeated and minted ids, leased before: ids are read again, exact cover
// included.
func TestRestartLeasedIDs(t *testing.T) {
	afterAgain(t, func(w *world, again func()) {
		w.configure("q", `{"dedupWindowSeconds":0,"leaseTime":100000}`)
		for _, id := range []string{"x", "a", "b", "a", ""} {
			w.queued(item{Queue: "q", Partition: "p", TransactionID: id})
		}
		w.ackAll("", w.popFrom("q", "p", "batch=1"))
		p := w.popFrom("q", "p", "batch=4")
		again()
		w.clock.advance(2 * time.Hour) // out of every ack window
		m := p.Messages
		w.ok(false, w.ack("", m[0].as("completed")))
		w.ok(true, w.ackBatch("", m[1].as("completed"), m[0].as("completed"), m[3].as("completed"))...)
		w.nothing(w.popFrom("q", "p"))
	})
}

func TestRestartRetryCounterAndDeadLetters(t *testing.T) {
	afterAgain(t, func(w *world, again func()) {
		w.configure("q", `{"retryLimit":2}`)
		w.queued(numbered("q", "p", "m", 3)...)
		w.buried(w.ack("", w.popFrom("q", "p", "batch=1").Messages[0].as("dlq").because("first")))
		w.ok(true, w.fail("", "failed"))
		w.ok(true, w.fail("", "failed"))
		before := w.deadLetters()
		again()
		if after := w.deadLetters(); len(after) != 1 || fmt.Sprint(after) != fmt.Sprint(before) {
			w.t.Errorf("dead letters %+v, before %+v", after, before)
		}
		w.buried(w.fail("", "failed"))
		again()
		if ids := w.buriedIDs("q"); !slices.Equal(ids, []string{"m1", "m0"}) {
			w.t.Errorf("dead letters %v", ids)
		}
		w.want(w.popFrom("q", "p"), "m2")
		d := w.deadLetters()[1]
		w.retry(d)
		again()
		if ids := w.buriedIDs("q"); !slices.Equal(ids, []string{"m1"}) {
			w.t.Errorf("dead letters %v", ids)
		}
		w.want(w.popFrom("q", "p", "consumerGroup=g"), "m0", "m1", "m2", "dlq:"+d.ID)
	})
}

func TestRestartDedup(t *testing.T) {
	afterAgain(t, func(w *world, again func()) {
		ids := map[string]string{}
		for p := range 4 {
			for _, i := range numbered("q", fmt.Sprint(p), "m", 5) {
				ids[i.Partition+"/"+i.TransactionID] = w.queued(i)[0]
			}
		}
		again()
		w.clock.advance(3000 * time.Second)
		for p := range 4 {
			for _, i := range numbered("q", fmt.Sprint(p), "m", 5) {
				w.wantDuplicate(i, ids[i.Partition+"/"+i.TransactionID])
			}
		}
		w.queued(msg("q", "0", "new"), msg("q", "4", "m0"))
		again()
		w.clock.advance(700 * time.Second)
		for p := range 4 {
			w.queued(numbered("q", fmt.Sprint(p), "m", 5)...)
		}
	})
}

// Acks without a lease find their message in the index, whether it is in the journal or
// in segments.
func TestRestartAckIndex(t *testing.T) {
	afterAgain(t, func(w *world, again func()) {
		w.configure("q", `{"dedupWindowSeconds":0}`)
		w.queued(numbered("q", "p", "m", 3)...)
		minted := w.queued(item{Queue: "q", Partition: "p"})[0]
		w.ok(true, w.fail("", "retry")) // a cursor and no lease
		id := w.popFrom("q", "p", "consumerGroup=other").PartitionID
		again()
		w.ok(false, w.ack("", ack{TransactionID: "m1", PartitionID: id}))
		w.noop(w.ack("", ack{TransactionID: "m0", PartitionID: id}))
		w.refused(w.ack("", ack{TransactionID: "m4", PartitionID: id}), unresolvable)
		w.ok(false, w.ack("", ack{TransactionID: minted, PartitionID: id}))
		w.nothing(w.popFrom("q", "p"))
	})
}

// Offsets go on where they were, and so does everything else, over many generations.
func TestRestartOverAndOver(t *testing.T) {
	w := open(t, eagerCheckpoints)
	var want []string
	for round := range 6 {
		id := fmt.Sprint(round)
		w.queued(msg("q", "p", id), msg("q", "p"+id, id))
		want = append(want, id)
		if round%2 == 0 {
			w.restart()
		} else {
			w.crash()
		}
		w.want(w.popFrom("q", "p", "consumerGroup=g"+id), want...)
		w.ackAll("", w.want(w.popFrom("q", "p"), id))
		if d := w.queue("q"); len(d.Partitions) != round+2 || d.Totals.Total != int64(2*(round+1)) {
			t.Errorf("round %d: %+v", round, d.Totals)
		}
	}
}

// Acks and pushes while checkpoints run: nothing is lost, doubled or out of order when the
// broker comes back, and what was acked stays away.
func TestRestartUnderLoad(t *testing.T) {
	w := open(t, eagerCheckpoints)
	const lanes, each = 6, 40
	acked := make([]int, lanes)
	together(2*lanes, func(i int) {
		lane := fmt.Sprint(i % lanes)
		if i < lanes {
			for n := range each {
				w.queued(msg("q", lane, fmt.Sprint(n)))
			}
			return
		}
		for acked[i%lanes] < each/2 {
			p := w.popFrom("q", lane, "batch=5", "wait=true", "timeout=20000")
			if p == nil {
				w.t.Error("no message")
				return
			}
			for n, m := range p.Messages {
				if m.TransactionID != fmt.Sprint(acked[i%lanes]+n) {
					w.t.Errorf("lane %s: %s, want %d", lane, m.TransactionID, acked[i%lanes]+n)
				}
			}
			w.ackAll("", p)
			acked[i%lanes] += len(p.Messages)
		}
	})
	w.crash()
	for lane := range lanes {
		var want []string
		for n := acked[lane]; n < each; n++ {
			want = append(want, fmt.Sprint(n))
		}
		w.want(w.popFrom("q", fmt.Sprint(lane)), want...)
		if p := w.popFrom("q", fmt.Sprint(lane), "consumerGroup=all"); len(p.Messages) != each {
			t.Errorf("lane %d: %d messages", lane, len(p.Messages))
		}
	}
}
