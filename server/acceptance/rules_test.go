package acceptance

import (
	"fmt"
	"testing"
	"time"
)

// The items of a push that go to one partition have one time, and their place in it.
func TestM123OneTimeForABatch(t *testing.T) {
	w := open(t)
	var items []item
	for i := range 300 {
		items = append(items, msg("q", fmt.Sprint(i%3), fmt.Sprint(i)))
	}
	w.queued(items...)
	w.clock.advance(time.Second)
	w.queued(msg("q", "0", "later"))
	for p := range 3 {
		got := w.popFrom("q", fmt.Sprint(p)).Messages
		for i, m := range got[:100] {
			if m.CreatedAt != got[0].CreatedAt || m.TransactionID != fmt.Sprint(3*i+p) {
				t.Fatalf("partition %d, message %d: %s of %s, the first of %s", p, i, m.TransactionID, m.CreatedAt, got[0].CreatedAt)
			}
		}
		if p == 0 && got[100].CreatedAt <= got[0].CreatedAt {
			t.Errorf("pushed later: %s, the first %s", got[100].CreatedAt, got[0].CreatedAt)
		}
	}
}

// A pop that lets the broker choose gets the defaults, and is not told of a choice.
func TestM291AutopilotIsIgnored(t *testing.T) {
	w := open(t)
	for p := range 3 {
		w.queued(numbered("q", fmt.Sprint(p), "m", 150)...)
	}
	for _, params := range [][]string{nil, {"autopilot=true"}, {"autopilot=false"}, {"autopilot=perhaps"}} {
		group := fmt.Sprint("consumerGroup=", params)
		if p := w.pop("q", append(params, group)...); p.Claimed != 1 || len(p.Messages) != 150 {
			t.Errorf("%v: %d messages of %d partitions", params, len(p.Messages), p.Claimed)
		}
		if p := w.pop("q", append(params, group, "partitions=2", "batch=160")...); p.Claimed != 2 || len(p.Messages) != 160 {
			t.Errorf("%v, with limits: %d messages of %d partitions", params, len(p.Messages), p.Claimed)
		}
		w.nothing(w.pop("q", append(params, group)...))
	}
}

// A failure is delivered again at once, whatever retryDelay says.
func TestM369RetryDelayHasNoEffect(t *testing.T) {
	w := open(t)
	w.configure("q", `{"retryDelay":3600000,"retryLimit":2}`)
	w.queued(msg("q", "", "a"))
	for range 2 {
		w.ok(true, w.ack("", w.want(w.pop("q"), "a").Messages[0].as("failed")))
	}
	w.buried(w.ack("", w.want(w.pop("q"), "a").Messages[0].as("failed")))
}

// Time takes no dead letter away, and neither do those who consume the queue.
func TestM372DeadLettersStay(t *testing.T) {
	afterAgain(t, func(w *world, again func()) {
		w.configure("q", `{"ttl":1,"maxSize":1}`)
		w.queued(numbered("q", "p", "m", 3)...)
		w.buried(w.ack("", w.want(w.pop("q"), "m0", "m1", "m2").Messages[0].as("dlq").because("no good")))
		w.ackAll("", w.want(w.pop("q"), "m1", "m2"))
		again()
		w.clock.advance(400 * 24 * time.Hour)
		w.queued(msg("q", "p", "late"))
		again()
		d := w.deadLetters("queue=q")
		if len(d) != 1 || d[0].TransactionID != "m0" || d[0].Error != "no good" || string(d[0].Data) != `"m0"` {
			w.t.Errorf("dead letters %+v", d)
		}
	})
}

// Of two dead letters of one message a replay by address takes the newer, and leaves the
// other group its own.
func TestG310NewestOfAnAddress(t *testing.T) {
	w := open(t)
	w.queued(msg("q", "p", "a"))
	for _, group := range []string{"old", "new"} {
		w.buried(w.fail(group, "dlq"))
		w.clock.advance(time.Second)
	}
	d := w.deadLetters("queue=q")
	if r := w.retry(d[0]); d[0].Group != "new" || r.Group != "new" || r.DeadLetterID != d[0].ID {
		t.Errorf("retried %+v of %+v", r, d)
	}
	if left := w.deadLetters("queue=q"); len(left) != 1 || left[0].Group != "old" {
		t.Errorf("left %+v", left)
	}
	if r := w.retry(d[1]); r.Group != "old" {
		t.Errorf("retried %+v", r)
	}
	w.want(w.popFrom("q", "p", "consumerGroup=third"), "a", "dlq:"+d[0].ID, "dlq:"+d[1].ID)
}

// The depth counts what is leased as pending, too.
func TestM533Depth(t *testing.T) {
	w := open(t)
	const path = "/api/v1/resources/queues/q/depth"
	w.expect("GET", path, "", 404, `{"error":"Queue not found"}`)
	w.queued(numbered("q", "a", "m", 3)...)
	w.queued(numbered("q", "b", "m", 2)...)
	p := w.popFrom("q", "a")
	w.expect("GET", path, "", 200, `{"queue":"q","group":null,"pending":5,"processing":3,"ready":2,"partitionsPending":2,"partitionsReady":1,`+
		`"conflation":false,"effectivePending":5,"effectiveReady":2,"partitions":[{"partition":"a","pending":3,"processing":3,"ready":0},`+
		`{"partition":"b","pending":2,"processing":0,"ready":2}]}`)
	w.ackAll("", p)
	w.ackAll("", w.popFrom("q", "b"))
	w.expect("GET", path, "", 200, `{"queue":"q","group":null,"pending":0,"processing":0,"ready":0,"partitionsPending":0,"partitionsReady":0,`+
		`"conflation":false,"effectivePending":0,"effectiveReady":0,"partitions":[{"partition":"a","pending":0,"processing":0,"ready":0},`+
		`{"partition":"b","pending":0,"processing":0,"ready":0}]}`)
}
