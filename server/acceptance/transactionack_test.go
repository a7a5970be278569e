package acceptance

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

func TestT37GhostRollsBack(t *testing.T) {
	w := open(t)
	w.queued(msg("in", "", "m0"))
	m := w.pop("in").Messages[0]
	w.rolledBack(bundled(acking("", m.as("completed")), pushing(msg("out", "", "o0")), acking("", m.as("completed").id("ghost"))), "ack_rejected", unknownAck)
	w.nothing(w.pop("out"))
	w.lapse()
	w.want(w.popFrom("in", "Default"), "m0")
}

func TestT38TwoPartitionsTwoQueues(t *testing.T) {
	w := open(t)
	var ops []any
	for _, q := range []string{"q1", "q2"} {
		w.queued(msg(q, "p1", "m1"), msg(q, "p2", "m2"))
		for _, m := range w.pop(q, "partitions=2").Messages {
			ops = append(ops, acking("", m.as("completed")))
		}
	}
	if _, acks := w.committed(bundled(ops...)); len(acks) != 4 {
		t.Errorf("%v", acks)
	}
	w.crash()
	w.lapse()
	for _, q := range []string{"q1", "q2"} {
		w.nothing(w.pop(q, "partitions=2"))
	}
}

func TestT39FailedOnRetryLimit0(t *testing.T) {
	w := open(t)
	w.configure("in", `{"retryLimit":0}`)
	w.queued(msg("in", "", "m0"), msg("in", "", "m1"))
	m := w.pop("in").Messages[0]
	_, acks := w.committed(bundled(acking("", m.as("failed").because("no such order")), pushing(msg("out", "", "o0"))))
	if !acks[0].DeadLetter {
		t.Errorf("%+v", acks)
	}
	for _, step := range []func(){func() {}, w.restart, w.crash} {
		step()
		d := w.deadLetters("queue=in")
		if len(d) != 1 || d[0].TransactionID != "m0" || d[0].Error != "no such order" || string(d[0].Data) != `"m0"` || d[0].RetryCount != 0 {
			t.Errorf("dead letters %+v", d)
		}
		w.lapse()
		w.want(w.popFrom("in", "Default"), "m1")
		w.want(w.popFrom("out", "Default"), "o0")
	}
}

func TestM442RetryIsFree(t *testing.T) {
	w := open(t)
	w.configure("q", `{"retryLimit":1}`)
	w.queued(msg("q", "", "m0"))
	for range 4 {
		w.committed(bundled(acking("", w.pop("q").Messages[0].as("retry"))))
	}
	w.committed(bundled(acking("", w.pop("q").Messages[0].as("failed").because("first"))))
	if d := w.deadLetters(); len(d) > 0 {
		t.Fatalf("dead letters %+v", d)
	}
	w.committed(bundled(acking("", w.pop("q").Messages[0].as("failed").because("second"))))
	if d := w.deadLetters(); len(d) != 1 || d[0].Error != "second" || d[0].RetryCount != 1 {
		t.Errorf("dead letters %+v", d)
	}
	w.nothing(w.pop("q"))
}

func TestM442Drop(t *testing.T) {
	w := open(t)
	w.configure("q", `{"retryLimit":0,"deadLetterQueue":false,"dlqAfterMaxRetries":false}`)
	w.queued(msg("q", "", "m0"), msg("q", "", "m1"))
	_, acks := w.committed(bundled(acking("", w.pop("q").Messages[0].as("failed"))))
	if d := w.deadLetters(); len(d) > 0 || acks[0].DeadLetter {
		t.Errorf("dead letters %+v, %+v", d, acks)
	}
	w.want(w.pop("q"), "m1")
}

// All acks of a partition and group are one decision, wherever they stand.
func TestM442DecidedTogether(t *testing.T) {
	w := open(t)
	w.queued(numbered("q", "", "m", 5)...)
	m := w.pop("q").Messages
	w.committed(bundled(
		acking("", m[4].as("completed")), pushing(msg("out", "", "o0")), acking("", m[0].as("completed")),
		acking("", m[1].as("failed")), acking("", m[2].as("completed")), acking("", m[3].as("failed"))))
	w.want(w.pop("q"), "m1", "m2", "m3", "m4")
}

// Several dead letters of one queue in one bundle, and of another one beside.
func TestM442ManyDeadLetters(t *testing.T) {
	for _, name := range []string{"in memory", "filed"} {
		t.Run(name, func(t *testing.T) {
			w := open(t, func(w *world) {
				if name == "filed" {
					eagerCheckpoints(w)
				}
			})
			var ops []any
			for i := range 6 {
				q, p := fmt.Sprint("q", i%2), fmt.Sprint("p", i)
				w.queued(msg(q, p, fmt.Sprint("a", i)), msg(q, p, fmt.Sprint("b", i)))
				if name == "filed" {
					w.filed()
				}
				m := w.popFrom(q, p, "consumerGroup=g").Messages
				ops = append(ops, acking("g", m[0].as("dlq").because(fmt.Sprint("reason ", i))), pushing(msg("out", p, "o")))
			}
			w.queued(msg("q0", "plain", "x"))
			w.buried(w.ack("", w.popFrom("q0", "plain").Messages[0].as("dlq")))
			w.committed(bundled(ops...))
			w.queued(msg("q0", "plain", "y"))
			w.buried(w.ack("", w.popFrom("q0", "plain").Messages[0].as("dlq")))
			for _, step := range []func(){func() {}, w.restart, w.crash} {
				step()
				got := append(w.buriedIDs("q0"), w.buriedIDs("q1")...)
				slices.Sort(got)
				if want := []string{"a0", "a1", "a2", "a3", "a4", "a5", "x", "y"}; !slices.Equal(got, want) {
					t.Fatalf("dead letters %v, want %v", got, want)
				}
				for _, d := range w.deadLetters() {
					if string(d.Data) != quote(d.TransactionID) {
						t.Errorf("dead letter %s has %s", d.TransactionID, d.Data)
					}
				}
				w.lapse()
				for i := range 6 {
					w.want(w.popFrom(fmt.Sprint("q", i%2), fmt.Sprint("p", i), "consumerGroup=g"), fmt.Sprint("b", i))
				}
			}
		})
	}
}

// One message is poison to two groups in one bundle.
func TestM442TwoGroupsOfAPartition(t *testing.T) {
	w := open(t)
	w.queued(numbered("q", "", "m", 3)...)
	g, h := w.pop("q", "consumerGroup=g").Messages, w.pop("q", "consumerGroup=h").Messages
	w.committed(bundled(acking("g", g[0].as("dlq")), acking("h", h[0].as("dlq")), pushing(msg("q", "", "m3"))))
	if ids := w.buriedIDs("q"); !slices.Equal(ids, []string{"m0", "m0"}) {
		t.Errorf("dead letters %v", ids)
	}
	w.crash()
	for _, group := range []string{"g", "h"} {
		w.want(w.pop("q", "consumerGroup="+group), "m1", "m2", "m3")
	}
}

// Acks of what was leased before a restart, and of what lies in segments.
func TestM442AfterRestart(t *testing.T) {
	w := open(t, eagerCheckpoints)
	w.queued(numbered("q", "", "m", 4)...)
	w.queued(item{Queue: "q", Payload: []byte(`1`)})
	m := w.pop("q").Messages
	w.filed()
	w.restart()
	w.committed(bundled(acking("", m[1].as("completed")), pushing(msg("out", "", "o0"))))
	w.filed()
	w.crash()
	w.committed(bundled(acking("", m[3].as("completed").leaseless()), acking("", m[4].as("completed").leaseless())).holding(m[0].LeaseID))
	w.lapse()
	w.nothing(w.popFrom("q", "Default"))
	// Without a lease: the ids are looked up where the messages are.
	w.queued(numbered("q", "", "n", 3)...)
	w.filed()
	w.restart()
	w.committed(bundled(acking("", ack{TransactionID: "n1", PartitionID: m[0].PartitionID})))
	w.want(w.pop("q"), "n2")
}

// R6: what cannot be read rolls back, and takes its partition out of service, no more.
func TestTransactionOnADamagedPartition(t *testing.T) {
	w := open(t, eagerCheckpoints)
	w.queued(item{"q", "bad", "m0", []byte(`"` + strings.Repeat("x", 1000) + `"`)})
	w.queued(msg("q", "good", "m0"))
	partition := w.popFrom("q", "bad").PartitionID
	w.filed("xxxxxxxx")
	w.spoil("xxxxxxxx")
	b := bundled(acking("", ack{TransactionID: "m0", PartitionID: partition}), pushing(msg("q", "good", "m1"), msg("new", "", "n0")))
	w.expect("POST", "/api/v1/transaction", b.body(), 500, `{"error":"partition damaged","code":"partition_damaged"}`)
	w.want(w.popFrom("q", "good"), "m0")
	if names := w.queueNames(); slices.Contains(names, "new") {
		t.Errorf("queues %v", names)
	}
	w.expect("POST", "/api/v1/transaction", bundled(pushing(msg("q", "bad", "m0"))).body(), 500, `{"error":"partition damaged","code":"partition_damaged"}`)
	w.committed(bundled(pushing(msg("q", "good", "m1"))))
}
