package acceptance

import (
	"fmt"
	"strings"
	"testing"

	"github.com/skepmq/skep/log/fsck"
)

// repair repairs the directory of a stopped broker.
func (w *world) repair(apply bool) *fsck.RepairReport {
	w.t.Helper()
	r, err := fsck.Repair(fsck.Options{Dir: w.dir, Now: w.clock.now}, apply)
	if err != nil {
		w.t.Fatal(err)
	}
	if apply && !r.Clean() {
		w.t.Fatalf("not clean after %+v: %+v", r.Steps, r.After.Findings)
	}
	w.damaged = w.damaged && !r.Clean()
	return r
}

// damagedWorld is a broker that has been stopped with a message damaged in the middle of a
// partition, and one at the end of another; everything else is whole.
func damagedWorld(t *testing.T) *world {
	w := open(t, eagerCheckpoints)
	for i := range 5 {
		text := fmt.Sprintf("m%d", i)
		if i == 2 {
			text = "rotten-apple"
		}
		w.queued(msg("q", "bad", text), msg("q", "good", fmt.Sprintf("g%d", i)), msg("other", "p", fmt.Sprintf("o%d", i)))
	}
	w.queued(msg("q", "end", "e0"))
	w.queued(msg("q", "end", "moldy-bread"))
	big := strings.Repeat("x", 700<<10)
	w.queued(item{"large", "p", "l0", []byte(quote(big))}, item{"large", "p", "l1", []byte(quote("sour-milk" + big))})
	w.queued(item{"large", "p", "l2", []byte(quote(big))})
	w.filed("rotten-apple", "moldy-bread", "sour-milk")
	w.stop()
	w.rot("rotten-apple")
	w.rot("moldy-bread")
	w.rot("sour-milk")
	return w
}

// What is damaged is marked as lost and passed over: by leases, which do not span it, by
// autoAck, by a conflating group, by whoever stands before it. Nothing else is missing, and
// nothing is left pending.
func TestR6Repair(t *testing.T) {
	w := damagedWorld(t)
	plan := w.repair(false)
	if plan.Applied || len(plan.Steps) == 0 || plan.Lost == 0 {
		t.Errorf("plan: %+v", plan)
	}
	done := w.repair(true)
	if fmt.Sprint(done.Losses) != fmt.Sprint(plan.Losses) || len(done.Steps) != len(plan.Steps) {
		t.Errorf("planned %+v, done %+v", plan, done)
	}
	lost := map[string]int64{}
	for _, l := range done.Losses {
		lost[l.Queue+"/"+l.Partition] += l.Messages
	}
	if len(lost) != 3 || lost["q/bad"] != 1 || lost["q/end"] != 1 || lost["large/p"] < 1 {
		t.Errorf("lost %v", lost)
	}
	w.start()
	w.want(w.popFrom("q", "bad", "consumerGroup=a", "batch=10", "autoAck=true", "subscriptionMode=all"), "m0", "m1")
	w.want(w.popFrom("q", "bad", "consumerGroup=a", "batch=10", "autoAck=true"), "m3", "m4")
	first := w.want(w.popFrom("q", "bad", "consumerGroup=b", "batch=10"), "m0", "m1")
	w.ackAll("b", first)
	second := w.want(w.popFrom("q", "bad", "consumerGroup=b", "batch=10"), "m3", "m4")
	w.ok(true, w.ack("b", second.Messages[0].as("retry")))
	w.ackAll("b", w.want(w.popFrom("q", "bad", "consumerGroup=b", "batch=10"), "m3", "m4"))
	w.nothing(w.popFrom("q", "bad", "consumerGroup=b"))
	for _, group := range []string{"a", "b"} {
		w.want(w.popFrom("q", "end", "consumerGroup="+group, "batch=10", "autoAck=true"), "e0")
		w.nothing(w.popFrom("q", "end", "consumerGroup="+group))
		w.want(w.popFrom("q", "good", "consumerGroup="+group, "batch=10", "autoAck=true"), "g0", "g1", "g2", "g3", "g4")
	}
	w.want(w.popFrom("other", "p", "batch=10", "autoAck=true"), "o0", "o1", "o2", "o3", "o4")
	if ids := w.popFrom("large", "p", "batch=1", "autoAck=true").ids(); len(ids) == 0 {
		t.Error("nothing is left of the large partition")
	}
	if q := w.queue("q"); q.Totals.Pending != 0 || q.Totals.Processing != 0 || q.Damaged != 0 {
		t.Errorf("totals %+v, %d damaged", q.Totals, q.Damaged)
	}
	// An id that was lost may be pushed again; one that was not is a duplicate.
	w.queued(msg("q", "bad", "rotten-apple"))
	if r := w.push(msg("q", "bad", "m3")); r[0].Status != "duplicate" {
		t.Errorf("m3 again: %+v", r)
	}
	w.restart()
	w.want(w.popFrom("q", "bad", "consumerGroup=a", "batch=10", "autoAck=true"), "rotten-apple")
}

// A conflating group gets the newest message that is left.
func TestR6RepairConflation(t *testing.T) {
	w := damagedWorld(t)
	w.repair(true)
	w.start()
	params := []string{"consumerGroup=c", "conflation=true", "subscriptionMode=all", "batch=1"}
	got := map[string]string{}
	for range 3 {
		p := w.popFlagged("/api/v1/pop/queue/q", params)
		got[p.Messages[0].Partition] = p.ids()[0]
		w.ok(true, w.ackConflated("c", p.Messages[0].as("completed")).ackResult)
	}
	w.idle("/api/v1/pop/queue/q", params, applied)
	if len(got) != 3 || got["bad"] != "m4" || got["end"] != "e0" || got["good"] != "g4" {
		t.Errorf("popped %v", got)
	}
	if q := w.queue("q"); q.Totals.Pending != 0 {
		t.Errorf("totals %+v", q.Totals)
	}
}

// Spooled messages that are lost do not hold up the drain, wherever they are in the spool.
func TestR6RepairSpool(t *testing.T) {
	w := open(t, eagerCheckpoints)
	w.maintain(true)
	for _, text := range []string{"m0", "rotten-apple", "m2", "moldy-bread"} {
		w.buffered(msg("q", "p", text))
	}
	w.filed("rotten-apple", "moldy-bread")
	w.stop()
	w.rot("rotten-apple")
	w.rot("moldy-bread")
	if r := w.repair(true); r.Lost != 2 {
		t.Errorf("lost %+v", r.Losses)
	}
	w.start()
	w.maintain(false)
	w.drained()
	w.want(w.pop("q", "batch=10", "autoAck=true"), "m0", "m2")
	w.restart()
	w.nothing(w.pop("q"))
}

// A dead letter whose payload is lost goes; the others stay.
func TestR6RepairDeadLetter(t *testing.T) {
	w := open(t, eagerCheckpoints)
	w.queued(item{"q", "p", "m0", []byte(`"rotten-apple"`)})
	w.queued(msg("q", "p", "m1"))
	for range 2 {
		w.buried(w.fail("", "dlq"))
	}
	await(t, "the message and its dead letter to be filed", func() bool { return w.copiesOf("rotten-apple") == 2 })
	w.filed()
	w.stop()
	w.rot("rotten-apple") // the message, and the payload of its dead letter
	r := w.repair(true)
	if len(r.Losses) != 2 || !strings.Contains(fmt.Sprint(r.Other), `transaction id "m0"`) {
		t.Errorf("lost %+v and %q", r.Losses, r.Other)
	}
	w.start()
	letters := w.deadLetters()
	if len(letters) != 1 || letters[0].TransactionID != "m1" || string(letters[0].Data) != `"m1"` {
		t.Errorf("dead letters %+v", letters)
	}
	w.restart()
	w.retry(letters[0])
}
