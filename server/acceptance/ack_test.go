package acceptance

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

func TestM300GroupOfABatchStandsAtTheTop(t *testing.T) {
	w := open(t)
	w.queued(msg("q", "p", "a"))
	m := w.want(w.popFrom("q", "p", "consumerGroup=g"), "a").Messages[0]
	item := `{"transactionId":"a","partitionId":"` + m.PartitionID + `","leaseId":"` + m.LeaseID + `","consumerGroup":"g"}`
	w.refused(w.ackRaw("/api/v1/ack/batch", `{"acknowledgments":[`+item+`]}`, "a")[0], consumerNotFound)
	w.ok(true, w.ackRaw("/api/v1/ack/batch", `{"acknowledgments":[`+item+`],"consumerGroup":"g"}`, "a")...)
}

func TestM301NullsAreAbsent(t *testing.T) {
	w := open(t)
	w.queued(msg("q", "p", "a"), msg("q", "p", "b"))
	m := w.popFrom("q", "p").Messages
	one := `{"transactionId":%s,"partitionId":"` + m[0].PartitionID + `","consumerGroup":null,"leaseId":null,"status":null,"error":null}`
	w.ok(false, w.ackRaw("/api/v1/ack", fmt.Sprintf(one, `"a"`), "a")...)
	w.ok(true, w.ackRaw("/api/v1/ack/batch", `{"consumerGroup":null,"acknowledgments":[`+fmt.Sprintf(one, `"b"`)+`]}`, "b")...)
	w.expect("POST", "/api/v1/ack/batch", `{"acknowledgments":[]}`, 200, `[]`)
	w.refused(w.ackRaw("/api/v1/ack", fmt.Sprintf(one, `null`), "")[0], unresolvable)
}

// M-302: what a status means, told by what it does.
func TestM302Statuses(t *testing.T) {
	for status, want := range map[string]string{
		"completed": "completed", "success": "completed", "acked": "completed", "ok": "completed", "absent": "completed",
		"retry": "retry", "dlq": "dlq", "failed": "failed", "": "failed", "Completed": "failed", "COMPLETED": "failed", "FAILED": "failed",
		"nack": "failed", "Retry": "failed", "DLQ": "failed", " ok": "failed", "done": "failed",
	} {
		t.Run(status, func(t *testing.T) {
			w := open(t)
			w.configure("q", `{"retryLimit":1}`)
			w.queued(msg("q", "p", "a"))
			m := w.popFrom("q", "p").Messages[0]
			send := func(m message) ackResult {
				body := `{"transactionId":"a","partitionId":"` + m.PartitionID + `","leaseId":"` + m.LeaseID + `"`
				if status != "absent" {
					body += `,"status":` + quote(status)
				}
				return w.ackRaw("/api/v1/ack", body+"}", "a")[0]
			}
			w.ok2(send(m))
			var got string
			switch p := w.popFrom("q", "p"); {
			case p == nil && len(w.deadLetters()) == 1:
				got = "dlq"
			case p == nil:
				got = "completed"
			default:
				w.ok2(send(p.Messages[0]))
				got = "retry"
				if len(w.deadLetters()) == 1 { // the second failure goes over the limit
					got = "failed"
				}
			}
			if got != want {
				t.Errorf("%q acts as %s, want %s", status, got, want)
			}
		})
	}
}

// M-304, M-353: each partition and lease of a call is decided by itself.
func TestM304SubGroups(t *testing.T) {
	w := open(t)
	for _, p := range []string{"a", "b", "c"} {
		w.queued(numbered("q", p, "m", 2)...)
	}
	p := w.pop("q", "partitions=3")
	byName := map[string][]message{}
	for _, m := range p.Messages {
		byName[m.Partition] = append(byName[m.Partition], m)
	}
	a, b, c := byName["a"], byName["b"], byName["c"]
	stale := a[0].as("completed")
	stale.LeaseID = "0198f2c1-9a7b-7d20-8e31-4c5d6e7f8a90"
	r := w.ackBatch("",
		c[1].as("completed"), stale, a[0].as("failed"), b[0].as("completed"), a[1].as("completed"), c[0].as("completed"), b[1].as("completed").id("ghost"))
	w.ok(true, r[0], r[2], r[4], r[5])
	w.refused(r[1], leaseInvalid)
	w.ok(false, r[3])
	w.refused(r[6], unresolvable)
	w.want(w.popFrom("q", "a"), "m0", "m1")
	w.nothing(w.popFrom("q", "b"))
	w.nothing(w.popFrom("q", "c"))
	w.ok(true, w.ack("", b[1].as("completed")))
}

func TestM353MultiPartitionBatch(t *testing.T) {
	w := open(t)
	for p := range 10 {
		w.queued(numbered("q", fmt.Sprint(p), "m", 3)...)
	}
	w.ackAll("", w.pop("q", "partitions=10", "batch=30"))
	w.nothing(w.pop("q", "partitions=0"))
	if d := w.queue("q"); d.Totals.Completed != 30 {
		t.Errorf("totals %+v", d.Totals)
	}
}

func TestM330Preconditions(t *testing.T) {
	w := open(t)
	w.queued(msg("q", "p", "a"), msg("q", "p", "b"), msg("q", "other", "a"))
	m := w.popFrom("q", "p").Messages[0]
	other := w.popFrom("q", "other").Messages[0]
	for _, row := range []struct {
		name, group string
		ack         ack
		want        string
	}{
		{"unknown group", "g", m.as("completed").leaseless(), consumerNotFound},
		{"unknown group with the lease", "g", m.as("completed"), consumerNotFound},
		{"unknown partition", "", ack{"a", "0198f2c1-9a7b-8d20-8e31-4c5d6e7f8a90", "", m.LeaseID, "", ""}, consumerNotFound},
		{"unknown lease", "", ack{"a", m.PartitionID, "", "0198f2c1-9a7b-7d20-8e31-4c5d6e7f8a90", "", ""}, leaseInvalid},
		{"lease that is no id", "", ack{"a", m.PartitionID, "", "lease", "failed", ""}, leaseInvalid},
		{"lease of another partition", "", ack{"a", m.PartitionID, "", other.LeaseID, "", ""}, leaseInvalid},
	} {
		w.refused(w.ack(row.group, row.ack), row.want)
	}
	for _, id := range []string{"", "p", "not-a-uuid", strings.ToUpper(m.PartitionID) + "x"} { // M-343
		r := w.ack("", ack{"a", id, "", "", "completed", ""})
		if r.Success || *r.Error == "" {
			t.Errorf("partition id %q: %s", id, show(r))
		}
	}
	w.ok(false, w.ack("", m.as("completed"))) // nothing of that did harm
}

// M-331: under a leased batch nothing above it resolves, also when the lease has expired
// and also for an ack without a lease; without one everything does.
func TestM331Resolution(t *testing.T) {
	w := open(t)
	w.queued(numbered("q", "p", "m", 6)...)
	m := w.popFrom("q", "p", "batch=3").Messages
	above := m[0].as("completed").id("m4")
	w.refused(w.ack("", above), unresolvable)
	w.refused(w.ack("", above.leaseless()), unresolvable)
	w.lapse()
	w.refused(w.ack("", above.leaseless()), unresolvable)
	w.refused(w.ack("", above), leaseInvalid)
	w.ok(true, w.ack("", m[1].as("retry").leaseless())) // releases the expired batch
	w.ok(false, w.ack("", above.leaseless()))
	w.want(w.popFrom("q", "p"), "m5")
}

// M-331 with an id that is there several times: the smallest above the cursor.
func TestM331Repeats(t *testing.T) {
	w := open(t)
	w.configure("q", `{"dedupWindowSeconds":0}`)
	for _, id := range []string{"a", "b", "a", "c", "a"} {
		w.queued(msg("q", "p", id))
	}
	m := w.want(w.popFrom("q", "p"), "a", "b", "a", "c", "a").Messages
	w.ok(false, w.ack("", m[0].as("completed")))
	w.ok(false, w.ack("", m[0].as("completed"))) // now the third
	w.noop(w.ack("", m[1].as("completed")))
	w.ok(true, w.ack("", m[0].as("completed"))) // and the last
	w.nothing(w.popFrom("q", "p"))
}

// M-338: acks of exactly the ids that were delivered finish the batch.
func TestM338ExactCover(t *testing.T) {
	for _, row := range []struct {
		name     string
		acks     func(m []message) []ack
		released bool
		left     []string
	}{
		{"a set", func(m []message) []ack { return []ack{m[0].as("completed"), m[1].as("completed")} }, true, nil},
		{"every message", func(m []message) []ack {
			return []ack{m[0].as("completed"), m[1].as("completed"), m[2].as("completed")}
		}, true, nil},
		{"other words", func(m []message) []ack { return []ack{m[1].as("ok"), m[0].as("acked")} }, true, nil},
		{"one id is missing", func(m []message) []ack { return []ack{m[0].as("completed")} }, false, []string{"b", "a"}},
		{"without the lease", func(m []message) []ack {
			return []ack{m[0].as("completed").leaseless(), m[1].as("completed").leaseless()}
		}, false, []string{"a"}},
	} {
		t.Run(row.name, func(t *testing.T) {
			w := open(t)
			w.configure("q", `{"dedupWindowSeconds":0,"retryLimit":1}`)
			for _, id := range []string{"a", "b", "a"} {
				w.queued(msg("q", "p", id))
			}
			// A failure first: a batch that is completed resets the counter, D-11.
			w.ok(true, w.ack("", w.popFrom("q", "p").Messages[0].as("failed")))
			p := w.want(w.popFrom("q", "p"), "a", "b", "a")
			w.ok(row.released, w.ackBatch("", row.acks(p.Messages)...)...)
			w.lapse()
			p = w.popFrom("q", "p")
			w.want(p, row.left...)
			if !row.released {
				return
			}
			w.queued(msg("q", "p", "z"))
			w.ok(true, w.ack("", w.popFrom("q", "p").Messages[0].as("failed")))
		})
	}
}

func TestM338OneFailureIsNoCover(t *testing.T) {
	w := open(t)
	w.configure("q", `{"dedupWindowSeconds":0}`)
	for _, id := range []string{"a", "b", "a"} {
		w.queued(msg("q", "p", id))
	}
	m := w.popFrom("q", "p").Messages
	w.ok(true, w.ackBatch("", m[0].as("completed"), m[1].as("failed"))...)
	w.want(w.popFrom("q", "p"), "b", "a")
}

// M-339: the lease of an exact cover has to be live.
func TestM339ExactCoverAfterExpiry(t *testing.T) {
	w := open(t)
	w.queued(msg("q", "p", "a"), msg("q", "p", "b"))
	m := w.popFrom("q", "p").Messages
	w.lapse()
	for _, r := range w.ackBatch("", m[0].as("completed"), m[1].as("completed")) {
		w.refused(r, leaseInvalid)
	}
	w.want(w.popFrom("q", "p"), "a", "b")
}

// M-336 and D-09: every kind of item in one call that releases.
func TestM336Outcomes(t *testing.T) {
	w := open(t)
	w.queued(numbered("q", "p", "m", 8)...)
	m := w.popFrom("q", "p", "batch=6").Messages
	w.ok(false, w.ack("", m[1].as("completed")))
	r := w.ackBatch("",
		m[0].as("completed"), m[1].as("failed"), m[2].as("completed"), m[3].as("dlq"), m[4].as("completed"),
		m[4].as("retry"), m[0].as("completed").id("ghost"), m[0].as("completed").id("m7"))
	if !r[0].Success || !r[0].Noop || !r[0].LeaseReleased {
		t.Errorf("below the cursor: %+v, want a noop that tells of the release", r[0])
	}
	w.refused(r[1], alreadyCommitted)
	w.ok(true, r[2], r[4], r[5])
	w.buried(r[3])
	w.refused(r[6], unresolvable)
	w.refused(r[7], unresolvable)
	w.want(w.popFrom("q", "p"), "m4", "m5", "m6", "m7")
}

// M-321: of equal offsets the strongest signal counts, whatever the order.
func TestM321SignalsOfOneMessage(t *testing.T) {
	for _, row := range []struct {
		statuses string
		kind     string
	}{
		{"retry failed", "failed"}, {"failed retry", "failed"}, {"failed dlq", "dlq"}, {"dlq retry", "dlq"},
		{"retry dlq failed", "dlq"}, {"completed retry", "retry"}, {"completed failed", "failed"}, {"dlq completed", "dlq"}, {"retry retry", "retry"},
	} {
		t.Run(row.statuses, func(t *testing.T) {
			w := open(t)
			w.configure("q", `{"retryLimit":1}`)
			w.queued(msg("q", "p", "a"))
			var acks []ack
			m := w.popFrom("q", "p").Messages[0]
			for _, s := range strings.Fields(row.statuses) {
				acks = append(acks, m.as(s))
			}
			w.ackBatch("", acks...)
			got := "dlq"
			if p := w.popFrom("q", "p"); p != nil {
				w.ok2(w.ack("", p.Messages[0].as("failed")))
				got = "retry"
				if len(w.deadLetters()) == 1 {
					got = "failed"
				}
			}
			if got != row.kind {
				t.Errorf("acts as %s, want %s", got, row.kind)
			}
		})
	}
}

// D-10: signals where nothing is leased.
func TestD10SignalWithoutALease(t *testing.T) {
	w := open(t)
	w.configure("q", `{"retryLimit":0}`)
	w.queued(numbered("q", "p", "m", 4)...)
	m := w.popFrom("q", "p").Messages
	w.ok(true, w.ack("", m[0].as("retry")))
	for _, status := range []string{"failed", "retry"} {
		w.ok(false, w.ackBatch("", m[0].as("completed").leaseless(), m[2].as(status).leaseless(), m[3].as("completed").leaseless())[1:]...)
	}
	w.refused(w.ack("", m[2].as("dlq").leaseless()), "no leased batch")
	if d := w.deadLetters(); len(d) > 0 {
		t.Errorf("dead letters %+v", d)
	}
	w.want(w.popFrom("q", "p"), "m1", "m2", "m3") // the completed prefix is committed
}

func TestM351RepeatedAcks(t *testing.T) {
	w := open(t)
	w.queued(msg("q", "p", "a"), msg("q", "p", "b"))
	p := w.popFrom("q", "p")
	w.ackAll("", p)
	for _, m := range p.Messages {
		w.refused(w.ack("", m.as("completed")), leaseInvalid)
		w.noop(w.ack("", m.as("completed").leaseless()))
		w.refused(w.ack("", m.as("failed").leaseless()), alreadyCommitted)
	}
}

func TestM352AfterANackTheBatchIsDead(t *testing.T) {
	w := open(t)
	w.queued(numbered("q", "p", "m", 3)...)
	m := w.popFrom("q", "p").Messages
	w.ok(true, w.ack("", m[1].as("failed")))
	w.refused(w.ack("", m[2].as("completed")), leaseInvalid)
	w.refused(w.ack("", m[0].as("completed")), leaseInvalid)
	w.want(w.popFrom("q", "p"), "m0", "m1", "m2")
}

func TestM340GroupOfTheAck(t *testing.T) {
	w := open(t)
	w.queued(msg("q", "p", "a"))
	m := w.popFrom("q", "p", "consumerGroup=g").Messages[0]
	w.refused(w.ack("", m.as("completed")), consumerNotFound)
	w.want(w.popFrom("q", "p"), "a")
	w.refused(w.ack("", m.as("completed")), leaseInvalid) // queue mode has another lease now
	w.ok(true, w.ack("g", m.as("completed")))
}

// Minted ids, ids of many partitions, and a long batch in one call.
func TestM331ManyAcksInOneCall(t *testing.T) {
	w := open(t)
	const n = 3000
	items := make([]item, n)
	for i := range items {
		items[i] = item{Queue: "q", Partition: "p"}
		if i%2 == 0 {
			items[i].TransactionID = fmt.Sprint("t", i)
		}
	}
	w.queued(items...)
	p := w.popFrom("q", "p", fmt.Sprint("batch=", n))
	var acks []ack
	for i := range p.Messages {
		acks = append(acks, p.Messages[n-1-i].as("completed"))
	}
	acks[7] = acks[7].id("ghost")
	r := w.ackBatch("", acks...)
	w.refused(r[7], unresolvable)
	w.ok(true, append(r[:7:7], r[8:]...)...)
}

// One and the same batch acked by many at once: one succeeds.
func TestM334ConcurrentAcks(t *testing.T) {
	w := open(t)
	w.queued(numbered("q", "p", "m", 4)...)
	m := w.popFrom("q", "p").Messages
	results := make([]ackResult, 8)
	together(len(results), func(i int) { results[i] = w.ack("", m[3].as("completed")) })
	n := 0
	for _, r := range results {
		if r.Success {
			n++
			w.ok(true, r)
		} else {
			w.refused(r, leaseInvalid)
		}
	}
	if n != 1 {
		t.Errorf("%d acks succeeded", n)
	}
}

// The ack that is answered is on disk.
func TestM344AckIsDurable(t *testing.T) {
	w := open(t)
	w.queued(numbered("q", "p", "m", 3)...)
	m := w.popFrom("q", "p").Messages
	w.ok(false, w.ack("", m[0].as("completed")))
	w.crash()
	w.clock.advance(time.Hour)
	w.want(w.popFrom("q", "p"), "m1", "m2")
}
