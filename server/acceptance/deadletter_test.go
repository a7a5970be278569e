package acceptance

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"
)

// fail pops one batch of a group from a partition and acks its first message.
func (w *world) fail(group, status string) ackResult {
	w.t.Helper()
	p := w.popFrom("q", "p", "consumerGroup="+group)
	if p == nil {
		w.t.Fatal("nothing to fail")
	}
	return w.ack(group, p.Messages[0].as(status))
}

func TestM361LimitIsTheNumberOfRedeliveries(t *testing.T) {
	for _, limit := range []int{0, 1, 2, 5} {
		t.Run(fmt.Sprint(limit), func(t *testing.T) {
			w := open(t)
			w.configure("q", fmt.Sprintf(`{"retryLimit":%d}`, limit))
			w.queued(msg("q", "p", "a"))
			for range limit {
				w.ok(true, w.fail("", "failed"))
			}
			w.buried(w.fail("", "failed"))
			w.nothing(w.popFrom("q", "p"))
			if d := w.deadLetters(); len(d) != 1 || d[0].RetryCount != int64(limit) || d[0].Error != "Retries exhausted" {
				t.Errorf("dead letters %+v", d)
			}
		})
	}
}

// M-360: the budget belongs to partition and group, not to a message.
func TestM360SharedBudget(t *testing.T) {
	w := open(t)
	w.configure("q", `{"retryLimit":2}`)
	w.queued(numbered("q", "p", "m", 4)...)
	w.queued(msg("q", "other", "x"))
	for range 2 {
		m := w.popFrom("q", "p").Messages
		w.ok(true, w.ackBatch("", m[0].as("completed"), m[1].as("failed"))...)
		w.ok(true, w.ack("", w.popFrom("q", "other").Messages[0].as("failed")))
	}
	w.ok(true, w.fail("g", "failed")) // another group has its own
	w.buried(w.fail("", "failed"))
	if ids := w.buriedIDs("q"); !slices.Equal(ids, []string{"m2"}) {
		t.Errorf("dead letters %v", ids)
	}
	if r := w.ack("", w.popFrom("q", "other").Messages[0].as("failed")); !r.DeadLetter {
		t.Errorf("other partition: %s", show(r))
	}
}

// M-365: what resets the counter and what does not.
func TestM365Resets(t *testing.T) {
	for _, row := range []struct {
		name  string
		do    func(w *world)
		reset bool
	}{
		{"complete batch", func(w *world) { w.ackAll("", w.popFrom("q", "p", "batch=2")) }, true},
		{"partial completion", func(w *world) {
			w.ok(false, w.ack("", w.popFrom("q", "p", "batch=3").Messages[0].as("completed")))
			w.lapse()
		}, false},
		{"retry", func(w *world) { w.ok(true, w.fail("", "retry")) }, false},
		{"expiry", func(w *world) { w.popFrom("q", "p"); w.lapse() }, false},
		{"dead letter", func(w *world) { w.buried(w.fail("", "dlq")) }, true},
		{"autoAck", func(w *world) { w.popFrom("q", "p", "batch=1", "autoAck=true") }, false},
		{"restart", func(w *world) { w.restart() }, false},
		{"crash", func(w *world) { w.crash() }, false},
	} {
		t.Run(row.name, func(t *testing.T) {
			w := open(t)
			w.configure("q", `{"retryLimit":1}`)
			w.queued(numbered("q", "p", "m", 6)...)
			w.ok(true, w.fail("", "failed"))
			row.do(w)
			if r := w.fail("", "failed"); r.DeadLetter == row.reset || !r.Success {
				t.Errorf("next failure: %s, counter reset: want %t", show(r), row.reset)
			}
		})
	}
}

func TestM365DropResets(t *testing.T) {
	w := open(t)
	w.configure("q", `{"retryLimit":1,"deadLetterQueue":false,"dlqAfterMaxRetries":false}`)
	w.queued(numbered("q", "p", "m", 2)...)
	w.ok(true, w.fail("", "failed"))
	w.ok(true, w.fail("", "failed")) // drops m0
	w.ok(true, w.fail("", "failed"))
	w.want(w.popFrom("q", "p"), "m1")
}

func TestM366LowerLimit(t *testing.T) {
	w := open(t)
	w.configure("q", `{"retryLimit":5}`)
	w.queued(msg("q", "p", "a"))
	for range 3 {
		w.ok(true, w.fail("", "failed"))
	}
	w.configure("q", `{"retryLimit":1}`)
	w.buried(w.fail("", "failed"))
	if d := w.deadLetters(); d[0].RetryCount != 3 {
		t.Errorf("dead letter %+v", d[0])
	}
}

func TestM370OneMessageTwoGroups(t *testing.T) {
	w := open(t)
	w.queued(msg("q", "p", "a"))
	w.buried(w.fail("g", "dlq"))
	w.clock.advance(time.Second)
	w.buried(w.fail("h", "dlq"))
	d := w.deadLetters()
	if len(d) != 2 || d[0].ID == d[1].ID || d[0].Group != "h" || d[1].Group != "g" {
		t.Fatalf("dead letters %+v", d)
	}
	w.want(w.popFrom("q", "p"), "a")
	// The newest goes back, and the other stays.
	if r := w.retry(d[0]); r.DeadLetterID != d[0].ID || r.Group != "h" {
		t.Errorf("retried %+v", r)
	}
	if left := w.deadLetters(); len(left) != 1 || left[0].ID != d[1].ID {
		t.Errorf("left %+v", left)
	}
}

func TestM371ErrorText(t *testing.T) {
	long := strings.Repeat("äää😀\"\\\n", 2000)
	for _, row := range []struct {
		name string
		acks func(m []message) []ack
		want string
	}{
		{"of the poison", func(m []message) []ack {
			return []ack{m[2].as("failed").because("other"), m[1].as("dlq").because("mine"), m[0].as("completed").because("fine")}
		}, "mine"},
		{"the first", func(m []message) []ack {
			return []ack{m[1].as("dlq"), m[0].as("completed").because("first"), m[2].as("failed").because("second")}
		}, "first"},
		{"none", func(m []message) []ack { return []ack{m[1].as("dlq")} }, "Retries exhausted"},
		{"long", func(m []message) []ack { return []ack{m[1].as("dlq").because(long)} }, long[:4095]}, // whole characters of 4 KiB
	} {
		t.Run(row.name, func(t *testing.T) {
			w := open(t)
			w.queued(numbered("q", "p", "m", 3)...)
			w.ackBatch("", row.acks(w.popFrom("q", "p").Messages)...)
			// Other requests in between: a text that was not copied would change.
			for i := range 20 {
				w.queued(msg("unrelated", fmt.Sprint(i), strings.Repeat("x", 300)))
			}
			check := func() {
				t.Helper()
				d := w.deadLetters()
				if len(d) != 1 || d[0].TransactionID != "m1" {
					t.Fatalf("%d dead letters", len(d))
				}
				if got := d[0].Error; got != row.want {
					t.Errorf("error %.60q of %d bytes, want %.60q of %d", got, len(got), row.want, len(row.want))
				}
			}
			check()
			w.crash()
			check()
		})
	}
}

func TestM380List(t *testing.T) {
	w := open(t)
	var instants []string
	for i, at := range []struct{ queue, partition, group string }{
		{"q", "p", "g"}, {"q", "p", "h"}, {"q", "r", "g"}, {"s", "p", "g"}, {"s", "p", ""},
	} {
		instants = append(instants, stamp(w.clock.now()))
		w.clock.advance(time.Millisecond) // the bounds are inclusive
		id := fmt.Sprint(i)
		w.queued(msg(at.queue, at.partition, id))
		for {
			m := w.popFrom(at.queue, at.partition, "consumerGroup="+at.group, "batch=1").Messages[0]
			if m.TransactionID == id {
				w.buried(w.ack(at.group, m.as("dlq")))
				break
			}
			w.ok(true, w.ack(at.group, m.as("completed")))
		}
		w.clock.advance(10 * time.Second)
	}
	for _, row := range []struct {
		params, want string
	}{
		{"", "4 3 2 1 0"}, {"queue=q", "2 1 0"}, {"queue=s", "4 3"}, {"queue=none", ""}, {"consumerGroup=g", "3 2 0"},
		{"queue=q&consumerGroup=h", "1"}, {"consumerGroup=" + queueMode, "4"}, {"partition=p", "4 3 1 0"}, {"queue=q&partition=r", "2"},
		{"limit=2", "4 3"}, {"limit=2&offset=2", "2 1"}, {"offset=4", "0"}, {"offset=9", ""}, {"limit=0", ""}, {"unknown=1", "4 3 2 1 0"},
		{"from=" + instants[3], "4 3"}, {"to=" + instants[2], "1 0"}, {"from=" + instants[1] + "&to=" + instants[3], "2 1"},
	} {
		var params []string
		if row.params != "" {
			params = strings.Split(row.params, "&")
		}
		var got []string
		for _, d := range w.deadLetters(params...) {
			got = append(got, d.TransactionID)
		}
		if !slices.Equal(got, strings.Fields(row.want)) {
			t.Errorf("%s: %v, want %s", row.params, got, row.want)
		}
	}
	w.expect("GET", "/api/v1/dlq?from=yesterday", "", 400, `{"error":"invalid timestamp: yesterday"}`)
}

func TestM382Delete(t *testing.T) {
	w := open(t)
	w.queued(msg("q", "p", "a"), msg("q", "p", "b"))
	p := w.popFrom("q", "p")
	missing := func(partition, id string) {
		t.Helper()
		a := w.call("DELETE", address(partition, id), "")
		if d := decode[addressAnswer](t, a.body); a.status != 404 || d.Success || d.Error != "Message not found" || d.TransactionID != id || d.PartitionID != partition {
			t.Errorf("delete of %q: %d %s", id, a.status, a.body)
		}
	}
	missing(p.PartitionID, "a") // a live message
	w.buried(w.ack("", p.Messages[0].as("dlq")))
	w.buried(w.fail("g", "dlq"))
	missing(p.PartitionID, "b")
	missing("no-uuid", "a")
	missing("0198f2c1-9a7b-8d20-8e31-4c5d6e7f8a90", "a")
	w.expect("DELETE", address(p.PartitionID, "a"), "", 200,
		`{"success":true,"partitionId":"`+p.PartitionID+`","transactionId":"a","message":"Message deleted successfully"}`)
	missing(p.PartitionID, "a") // both groups' are gone
	if d := w.deadLetters(); len(d) > 0 {
		t.Errorf("dead letters %+v", d)
	}
	w.want(w.popFrom("q", "p"), "b")
	w.crash()
	if d := w.deadLetters(); len(d) > 0 {
		t.Errorf("dead letters after a crash %+v", d)
	}
}

func TestM383Retry(t *testing.T) {
	w := open(t)
	w.queued(item{"q", "p", "a", []byte(`{"n":1e3}`)}, msg("q", "p", "b"))
	p := w.popFrom("q", "p", "batch=1")
	w.buried(w.ack("", p.Messages[0].as("dlq")))
	w.clock.advance(time.Minute)
	d := w.deadLetters()[0]
	r := w.retry(d)
	want := replayAnswer{
		Success: true, Result: "moved", Queue: "q", Partition: "p", Group: queueMode, DeadLetterID: d.ID, OriginalID: "a", LetterRemoved: true,
		ReplayedAs: replay{pushResult{0, r.ReplayedAs.MessageID, "dlq:" + d.ID, "q", "queued", ""}, 2},
	}
	if r != want {
		t.Errorf("retried %+v, want %+v", r, want)
	}
	got := w.want(w.popFrom("q", "p"), "b", "dlq:"+d.ID).Messages[1]
	if string(got.Data) != `{"n":1e3}` || got.ID != r.ReplayedAs.MessageID || got.CreatedAt <= d.FailedAt {
		t.Errorf("popped %+v", got)
	}
	a := w.call("POST", address(d.PartitionID, "a")+"/retry", "")
	if e := decode[addressAnswer](t, a.body); a.status != 404 || e.Success || e.Error != "Message not found" {
		t.Errorf("second retry: %d %s", a.status, a.body)
	}
	// The original id is still known.
	if r := w.push(msg("q", "p", "a"))[0]; r.Status != "duplicate" {
		t.Errorf("push of the original: %+v", r)
	}
	w.crash()
	if d := w.deadLetters(); len(d) > 0 {
		t.Errorf("dead letters after a crash %+v", d)
	}
	w.clock.advance(time.Hour)
	w.want(w.popFrom("q", "p"), "b", "dlq:"+d.ID)
}

// Many retry at once: the message is back once.
func TestM383ConcurrentRetries(t *testing.T) {
	w := open(t)
	w.queued(msg("q", "p", "a"))
	w.buried(w.fail("", "dlq"))
	d := w.deadLetters()[0]
	statuses := make([]int, 8)
	together(len(statuses), func(i int) {
		statuses[i] = w.call("POST", address(d.PartitionID, "a")+"/retry", "{}").status
	})
	slices.Sort(statuses)
	if want := append([]int{200}, slices.Repeat([]int{404}, 7)...); !slices.Equal(statuses, want) {
		t.Errorf("statuses %v", statuses)
	}
	w.want(w.popFrom("q", "p"), "dlq:"+d.ID)
}

func TestG315ReplayByID(t *testing.T) {
	w := open(t)
	w.queued(numbered("q", "p", "m", 3)...)
	for range 3 {
		w.buried(w.fail("", "dlq"))
		w.clock.advance(time.Second)
	}
	d := w.deadLetters()
	for i, row := range []struct{ body, queue, partition string }{
		{`{"queue":"r"}`, "r", "p"}, {`{"partition":" s "}`, "q", "s"}, {``, "q", "p"},
	} {
		from := stamp(w.clock.now())
		a := w.call("POST", "/api/v1/dlq/"+d[i].ID+"/replay", row.body)
		if r := decode[replayAnswer](t, a.body); a.status != 200 || !r.LetterRemoved || r.Queue != row.queue || r.Partition != row.partition {
			t.Errorf("%s: %d %s", row.body, a.status, a.body)
		}
		w.want(w.popFrom(row.queue, row.partition, "consumerGroup="+fmt.Sprint(i), "subscriptionMode=all", "batch=1", "subscriptionFrom="+from), "dlq:"+d[i].ID)
	}
	for _, id := range []string{d[0].ID, "nope", "0198f2c1-9a7b-7d20-8e31-4c5d6e7f8a90"} {
		w.expect("POST", "/api/v1/dlq/"+id+"/replay", "", 404,
			`{"success":false,"result":"gone","dlqId":"`+id+`","error":"Message not found","message":"No dead letter with this id"}`)
	}
	if a := w.call("POST", "/api/v1/dlq/"+d[0].ID+"/replay", `{"queue":" "}`); a.status != 400 {
		t.Errorf("blank queue: %d %s", a.status, a.body)
	}
}

func TestG324Purge(t *testing.T) {
	w := open(t)
	for i, group := range []string{"g", "g", "h"} {
		w.queued(msg("q", "p", fmt.Sprint(i)))
		w.buried(w.fail(group, "dlq"))
	}
	w.expect("DELETE", "/api/v1/dlq", "", 400, `{"error":"queue is required"}`)
	w.expect("DELETE", "/api/v1/dlq?queue=none", "", 200, `{"success":true,"deleted":0,"queue":"none","consumerGroup":null}`)
	w.expect("DELETE", "/api/v1/dlq?queue=q&consumerGroup=g", "", 200, `{"success":true,"deleted":2,"queue":"q","consumerGroup":"g"}`)
	if ids := w.buriedIDs("q"); len(ids) != 1 {
		t.Errorf("left %v", ids)
	}
	w.expect("DELETE", "/api/v1/dlq?"+url.Values{"queue": {"q"}}.Encode(), "", 200, `{"success":true,"deleted":1,"queue":"q","consumerGroup":null}`)
	if ids := w.buriedIDs("q"); len(ids) != 0 {
		t.Errorf("left %v", ids)
	}
}
