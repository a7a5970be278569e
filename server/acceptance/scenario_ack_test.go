package acceptance

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// lapse lets every lease that now runs end. The wheel goes by real time, so what follows
// pops from a partition: that looks at the lease itself.
func (w *world) lapse() { w.clock.advance(400 * time.Second) }

func TestT20AckOfTheLastCompletesTheBatch(t *testing.T) {
	w := open(t)
	w.queued(numbered("q", "", "m", 5)...)
	p := w.want(w.pop("q"), "m0", "m1", "m2", "m3", "m4")
	w.ok(true, w.ack("", p.Messages[4].as("completed")))
	w.nothing(w.pop("q"))
	w.lapse()
	w.nothing(w.popFrom("q", "Default"))
}

func TestT21AckOfTheMiddle(t *testing.T) {
	w := open(t)
	w.queued(numbered("q", "", "m", 3)...)
	p := w.want(w.pop("q"), "m0", "m1", "m2")
	w.ok(false, w.ack("", p.Messages[1].as("completed")))
	w.nothing(w.pop("q"))
	w.lapse()
	w.want(w.popFrom("q", "Default"), "m2")
}

func TestT22FailureInABatch(t *testing.T) {
	w := open(t)
	w.queued(numbered("q", "", "m", 5)...)
	m := w.want(w.pop("q"), "m0", "m1", "m2", "m3", "m4").Messages
	w.ok(true, w.ackBatch("", m[0].as("completed"), m[1].as("failed"), m[2].as("completed"), m[3].as("completed"), m[4].as("completed"))...)
	w.want(w.pop("q"), "m1", "m2", "m3", "m4")
}

func TestT23RetryInABatch(t *testing.T) {
	w := open(t)
	w.queued(numbered("q", "", "m", 3)...)
	m := w.want(w.pop("q"), "m0", "m1", "m2").Messages
	w.ok(true, w.ackBatch("", m[0].as("completed"), m[1].as("retry"), m[2].as("completed"))...)
	w.want(w.pop("q"), "m1", "m2")
	if d := w.deadLetters(); len(d) > 0 {
		t.Errorf("dead letters %+v", d)
	}
}

func TestT24FailureBelowTheCursor(t *testing.T) {
	w := open(t)
	w.queued(numbered("q", "", "m", 3)...)
	m := w.pop("q").Messages
	w.ok(false, w.ack("", m[1].as("completed")))
	for _, status := range []string{"failed", "retry", "dlq"} {
		w.refused(w.ack("", m[0].as(status)), alreadyCommitted)
	}
	w.ok(true, w.ack("", m[2].as("completed"))) // the lease has survived
}

func TestT25CompletionBelowTheCursor(t *testing.T) {
	w := open(t)
	w.queued(numbered("q", "", "m", 3)...)
	m := w.pop("q").Messages
	w.ok(false, w.ack("", m[1].as("completed")))
	w.noop(w.ack("", m[0].as("completed")))
	w.ok(true, w.ack("", m[2].as("completed")))
}

func TestT26UnknownIDs(t *testing.T) {
	w := open(t)
	w.queued(numbered("q", "", "m", 2)...)
	p := w.pop("q")
	for _, status := range []string{"completed", "failed", "retry", "dlq"} {
		w.refused(w.ack("", p.Messages[0].as(status).id("ghost")), unresolvable)
	}
	w.refused(w.ack("", p.Messages[0].as("completed").id("")), unresolvable)
	w.ackAll("", p)
	if d := w.deadLetters(); len(d) > 0 {
		t.Errorf("dead letters %+v", d)
	}
}

func TestT27RetriesAreFreeAndFailuresCount(t *testing.T) {
	w := open(t)
	w.queued(msg("q", "", "a"))
	for range 6 {
		w.ok(true, w.ack("", w.want(w.pop("q"), "a").Messages[0].as("retry")))
	}
	for range 3 {
		w.ok(true, w.ack("", w.want(w.pop("q"), "a").Messages[0].as("failed").because("boom")))
	}
	w.buried(w.ack("", w.want(w.pop("q"), "a").Messages[0].as("failed").because("last")))
	w.nothing(w.pop("q"))
	if d := w.deadLetters("queue=q"); len(d) != 1 || d[0].TransactionID != "a" || d[0].Error != "last" || d[0].RetryCount != 3 {
		t.Errorf("dead letters %+v", d)
	}
}

func TestT28ExpiriesAreFree(t *testing.T) {
	w := open(t)
	w.configure("q", `{"retryLimit":2}`)
	w.queued(msg("q", "", "a"))
	for range 4 {
		w.want(w.popFrom("q", "Default"), "a")
		w.lapse()
	}
	for range 2 {
		w.ok(true, w.ack("", w.want(w.popFrom("q", "Default"), "a").Messages[0].as("failed")))
	}
	w.buried(w.ack("", w.want(w.popFrom("q", "Default"), "a").Messages[0].as("failed")))
}

func TestT29DeadLetterAtOnce(t *testing.T) {
	w := open(t)
	w.queued(msg("q", "p", "a"), msg("q", "p", "b"))
	m := w.pop("q", "batch=1").Messages[0]
	w.buried(w.ack("", m.as("dlq").because("poison")))
	d := w.deadLetters("queue=q")
	if len(d) != 1 {
		t.Fatalf("dead letters %+v", d)
	}
	got := d[0]
	if got.TransactionID != "a" || got.PartitionID != m.PartitionID || got.Queue != "q" || got.Partition != "p" ||
		got.Group != queueMode || got.Error != "poison" || got.RetryCount != 0 || string(got.Data) != `"a"` || got.CreatedAt != m.CreatedAt {
		t.Errorf("dead letter %+v of %+v", got, m)
	}
	w.want(w.pop("q"), "b")
}

func TestT30DeadLetterFlags(t *testing.T) {
	for options, letters := range map[string]int{
		`{"retryLimit":0}`:                                                        1,
		`{"retryLimit":0,"deadLetterQueue":false}`:                                1,
		`{"retryLimit":0,"dlqAfterMaxRetries":false}`:                             1,
		`{"retryLimit":0,"deadLetterQueue":false,"dlqAfterMaxRetries":false}`:     0,
		`{"retryLimit":0,"deadLetterQueue":null,"dlqAfterMaxRetries":false}`:      1,
		`{"retryLimit":"0","deadLetterQueue":"false","dlqAfterMaxRetries":false}`: 0,
	} {
		t.Run(options, func(t *testing.T) {
			w := open(t)
			w.configure("q", options)
			w.queued(msg("q", "", "a"), msg("q", "", "b"))
			r := w.ack("", w.want(w.pop("q"), "a", "b").Messages[0].as("failed"))
			if !r.Success || !r.LeaseReleased || r.DeadLetter != (letters == 1) {
				t.Errorf("ack: %s", show(r))
			}
			if d := w.deadLetters(); len(d) != letters {
				t.Errorf("dead letters %+v", d)
			}
			w.want(w.pop("q"), "b")
			// A dead letter that is asked for is filed whatever the flags say.
			w.lapse()
			w.buried(w.ack("", w.want(w.popFrom("q", "Default"), "b").Messages[0].as("dlq")))
		})
	}
}

func TestT31AckAfterExpiry(t *testing.T) {
	w := open(t)
	w.queued(msg("q", "", "a"))
	m := w.want(w.pop("q"), "a").Messages[0]
	w.lapse()
	r := w.ack("", m.as("completed"))
	w.refused(r, leaseInvalid)
	if !strings.Contains(*r.Error, "lease") {
		t.Errorf("error %q", *r.Error)
	}
	w.ok(true, w.ack("", m.as("completed").leaseless()))
	w.nothing(w.popFrom("q", "Default"))
}

func TestT50AckedNeverReturnsUnackedReturns(t *testing.T) {
	for _, row := range []struct {
		name   string
		option func(*world)
	}{{"journal", func(*world) {}}, {"segments", eagerCheckpoints}} {
		t.Run(row.name, func(t *testing.T) {
			w := open(t, row.option)
			for p := range 3 {
				w.queued(numbered("q", fmt.Sprint(p), "m", 6)...)
			}
			for p := range 3 {
				got := w.want(w.popFrom("q", fmt.Sprint(p), "batch=4"), "m0", "m1", "m2", "m3")
				w.ok(false, w.ack("", got.Messages[p].as("completed")))
				w.crash()
			}
			w.lapse()
			for p := range 3 {
				var want []string
				for i := p + 1; i < 6; i++ {
					want = append(want, fmt.Sprint("m", i))
				}
				w.want(w.popFrom("q", fmt.Sprint(p)), want...)
			}
		})
	}
}
