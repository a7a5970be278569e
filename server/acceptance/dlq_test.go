package acceptance

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// letter files a dead letter of a fresh message and returns it.
func (w *world) letter(queue, partition, id, group string) deadLetter {
	w.t.Helper()
	w.queued(msg(queue, partition, id))
	for {
		m := w.popFrom(queue, partition, "consumerGroup="+group, "batch=1").Messages[0]
		if m.TransactionID != id {
			w.ok(true, w.ack(group, m.as("completed")))
			continue
		}
		w.buried(w.ack(group, m.as("dlq").because("because of "+id)))
		return w.deadLetters("queue="+queue, "limit=1")[0]
	}
}

func (w *world) replay(id, body string) replayAnswer {
	w.t.Helper()
	a := w.call("POST", "/api/v1/dlq/"+id+"/replay", body)
	if a.status != 200 {
		w.t.Fatalf("replay: %d %s", a.status, a.body)
	}
	return decode[replayAnswer](w.t, a.body)
}

// Pages of dead letters fit together over queues, with some of them gone.
func TestG320Pages(t *testing.T) {
	afterAgain(t, func(w *world, again func()) {
		for i := range 24 {
			w.letter(fmt.Sprint("q", i%3), "p", fmt.Sprint("m", i), "g")
			w.clock.advance(time.Millisecond) // those of one instant are in order of their queues
			if i%4 == 0 {
				w.clock.advance(time.Second)
			}
		}
		for _, d := range w.deadLetters("limit=24")[3:6] {
			w.call("DELETE", address(d.PartitionID, d.TransactionID), "")
		}
		again()
		whole := w.deadLetters("limit=1000")
		if len(whole) != 21 || whole[0].TransactionID != "m23" || whole[3].TransactionID != "m17" {
			w.t.Fatalf("%d dead letters, %+v", len(whole), whole)
		}
		var paged []deadLetter
		for offset := 0; offset < 25; offset += 5 {
			paged = append(paged, w.deadLetters("limit=5", fmt.Sprint("offset=", offset))...)
		}
		if fmt.Sprint(paged) != fmt.Sprint(whole) {
			w.t.Errorf("pages\n got %+v\nwant %+v", paged, whole)
		}
	})
}

// G-320: unknown names match nothing, and limits that do not parse are the default.
func TestG320Unknown(t *testing.T) {
	w := open(t)
	w.letter("q", "p", "a", "g")
	for _, params := range []string{"queue=x", "consumerGroup=x", "partition=x", "queue=q&consumerGroup=x", "queue=q&partition=x", "from=2099-01-01", "to=2001-01-01"} {
		if d := w.deadLetters(strings.Split(params, "&")...); len(d) != 0 {
			t.Errorf("%s: %+v", params, d)
		}
	}
	w.expect("GET", "/api/v1/dlq?queue=x&limit=x&offset=x", "", 200, `{"messages":[],"pagination":{"limit":100,"offset":0},"total":0}`)
	if d := w.deadLetters("limit=x"); len(d) != 1 {
		t.Errorf("%+v", d)
	}
}

// G-323, M-381: createdAt is when the message was stored.
func TestG323Times(t *testing.T) {
	afterAgain(t, func(w *world, again func()) {
		w.queued(msg("q", "p", "a"))
		created := w.popFrom("q", "p").Messages[0].CreatedAt
		w.lapse()
		w.buried(w.fail("", "dlq"))
		again()
		d := w.deadLetters()[0]
		if d.CreatedAt != created || d.FailedAt <= created {
			w.t.Errorf("created %s, failed %s; the message was created %s", d.CreatedAt, d.FailedAt, created)
		}
		w.clock.advance(400 * 24 * time.Hour)
		again()
		if d := w.deadLetters(); len(d) != 1 { // nothing expires them
			w.t.Errorf("%+v", d)
		}
	})
}

// G-312: the destination has the id already.
func TestG312Duplicate(t *testing.T) {
	afterAgain(t, func(w *world, again func()) {
		d := w.letter("q", "p", "a", "g")
		w.queued(msg("q", "p", "b"), msg("q", "p", "dlq:"+d.ID), msg("q", "p", "c"))
		again()
		for _, r := range []replayAnswer{w.retry(d), w.replay(d.ID, "")} {
			want := replayAnswer{
				Success: true, Result: "duplicate", Queue: "q", Partition: "p", Group: "g", DeadLetterID: d.ID, OriginalID: "a",
				ReplayedAs: replay{pushResult{0, "00000000-0000-0000-0000-000000000000", "dlq:" + d.ID, "q", "duplicate", ""}, 2},
			}
			if r != want {
				w.t.Errorf("got %+v, want %+v", r, want)
			}
		}
		if left := w.deadLetters(); len(left) != 1 {
			w.t.Errorf("dead letters %+v", left)
		}
		// Another partition does not have it, and afterwards nothing is left to replay.
		if r := w.replay(d.ID, `{"partition":"r"}`); r.Result != "moved" || r.ReplayedAs.Offset != 0 || !r.LetterRemoved {
			w.t.Errorf("moved as %+v", r)
		}
		if a := w.call("POST", "/api/v1/dlq/"+d.ID+"/replay", ""); a.status != 404 {
			w.t.Errorf("again: %d %s", a.status, a.body)
		}
	})
}

// G-311: after the window of the id has passed nothing but the removal keeps a repetition
// from storing it twice.
func TestG311Repeat(t *testing.T) {
	afterAgain(t, func(w *world, again func()) {
		w.configure("q", `{"dedupWindowSeconds":0}`)
		d := w.letter("q", "p", "a", "g")
		w.retry(d)
		again()
		for range 2 {
			w.expect("POST", "/api/v1/dlq/"+d.ID+"/replay", "", 404,
				`{"success":false,"result":"gone","dlqId":"`+d.ID+`","error":"Message not found","message":"No dead letter with this id"}`)
		}
		w.expect("POST", address(d.PartitionID, "a")+"/retry", "{}", 404,
			`{"success":false,"partitionId":"`+d.PartitionID+`","transactionId":"a","error":"Message not found","message":"No dead letter with this address"}`)
		w.want(w.popFrom("q", "p"), "a", "dlq:"+d.ID)
	})
}

// G-315: a replay to elsewhere makes what it needs, and survives as one step.
func TestG315Elsewhere(t *testing.T) {
	afterAgain(t, func(w *world, again func()) {
		d := w.letter("q", "p", "a", "g")
		r := w.replay(d.ID, `{"queue":"  new.queue ","partition":"\tnew partition\n"}`)
		if r.Queue != "new.queue" || r.Partition != "new partition" || r.ReplayedAs.Queue != "new.queue" || r.ReplayedAs.Offset != 0 {
			w.t.Errorf("moved as %+v", r)
		}
		again()
		if left := w.deadLetters(); len(left) != 0 {
			w.t.Errorf("dead letters %+v", left)
		}
		if q := w.queue("new.queue"); q.Totals.Total != 1 || q.Namespace != "new" {
			w.t.Errorf("queue %+v", q)
		}
		p := w.want(w.popFrom("new.queue", "new partition"), "dlq:"+d.ID)
		if string(p.Messages[0].Data) != `"a"` || p.Messages[0].ID != r.ReplayedAs.MessageID {
			w.t.Errorf("message %+v", p.Messages[0])
		}
		w.want(w.popFrom("q", "p"), "a")
	})
}

func TestG315Refused(t *testing.T) {
	w := open(t)
	d := w.letter("q", "p", "a", "g")
	for body, status := range map[string]int{
		`{"queue":""}`: 400, `{"queue":" \t"}`: 400, `{"partition":""}`: 400, `{"queue":"x","partition":" "}`: 400,
		`{"queue":1}`: 400, `[]`: 400, `{`: 400, `{"queue":"` + strings.Repeat("x", 65536) + `"}`: 400,
	} {
		if a := w.call("POST", "/api/v1/dlq/"+d.ID+"/replay", body); a.status != status || !strings.HasPrefix(string(a.body), `{"error":"bad body: `) {
			t.Errorf("%.40s: %d %s", body, a.status, a.body)
		}
	}
	if left := w.deadLetters(); len(left) != 1 {
		t.Errorf("dead letters %+v", left)
	}
	if queues := w.queues(); len(queues) != 1 {
		t.Errorf("queues %+v", queues)
	}
	// Absent halves stay, whatever else is in the body.
	if r := w.replay(d.ID, `{"queue":null,"x":1}`); r.Queue != "q" || r.Partition != "p" {
		t.Errorf("moved as %+v", r)
	}
}

// G-314: the message comes back for all groups, at the end and as new.
func TestG314BackAtTheEnd(t *testing.T) {
	w := open(t)
	d := w.letter("q", "p", "a", "g")
	w.ackAll("h", w.popFrom("q", "p", "consumerGroup=h"))
	w.queued(msg("q", "p", "b"))
	w.clock.advance(time.Minute)
	w.retry(d)
	for _, group := range []string{"g", "h"} {
		p := w.want(w.popFrom("q", "p", "consumerGroup="+group), "b", "dlq:"+d.ID)
		if m := p.Messages; m[1].CreatedAt <= m[0].CreatedAt || m[1].CreatedAt <= d.FailedAt {
			t.Errorf("times %s, %s", m[0].CreatedAt, m[1].CreatedAt)
		}
	}
}

// G-324: a purge takes what its names say and nothing else, for good.
func TestG324PurgeOfGroup(t *testing.T) {
	afterAgain(t, func(w *world, again func()) {
		for i, group := range []string{"g", "h", "g", ""} {
			w.letter("q", "p", fmt.Sprint("m", i), group)
		}
		w.letter("other", "p", "x", "g")
		w.expect("DELETE", "/api/v1/dlq?queue=q&consumerGroup=none", "", 200, `{"success":true,"deleted":0,"queue":"q","consumerGroup":"none"}`)
		w.expect("DELETE", "/api/v1/dlq?queue=q&consumerGroup=g", "", 200, `{"success":true,"deleted":2,"queue":"q","consumerGroup":"g"}`)
		w.expect("DELETE", "/api/v1/dlq?queue=&consumerGroup=h", "", 400, `{"error":"queue is required"}`)
		again()
		if ids := w.buriedIDs("q"); !slices.Equal(ids, []string{"m3", "m1"}) {
			w.t.Errorf("left %v", ids)
		}
		if ids := w.buriedIDs("other"); len(ids) != 1 {
			w.t.Errorf("left %v", ids)
		}
	})
}

// Many delete one dead letter: one of them did.
func TestM382ConcurrentDeletes(t *testing.T) {
	w := open(t)
	d := w.letter("q", "p", "a", "g")
	statuses := make([]int, 8)
	together(len(statuses), func(i int) { statuses[i] = w.call("DELETE", address(d.PartitionID, "a"), "").status })
	slices.Sort(statuses)
	if want := append([]int{200}, slices.Repeat([]int{404}, 7)...); !slices.Equal(statuses, want) {
		t.Errorf("statuses %v", statuses)
	}
}
