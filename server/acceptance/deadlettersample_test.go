package acceptance

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

type signatures struct {
	Queue       string          `json:"queue"`
	RowsNow     int64           `json:"rowsNow"`
	Sample      int64           `json:"sample"`
	RetryCounts []int64         `json:"retryCounts"`
	Groups      []string        `json:"groups"`
	Oldest      *string         `json:"oldest"`
	Newest      *string         `json:"newest"`
	AvgBytes    *int64          `json:"avgBytes"`
	Signatures  []signatureRow  `json:"signatures"`
	ByDay       []lettersOfADay `json:"byDay"`
}

type signatureRow struct {
	Text  string  `json:"text"`
	N     int64   `json:"n"`
	Share float64 `json:"share"`
}

type lettersOfADay struct {
	Day string `json:"day"`
	N   int64  `json:"n"`
}

// signatures asks what the newest dead letters of a queue have in common; params as in pop.
func (w *world) signatures(params ...string) signatures {
	w.t.Helper()
	target := "/api/v1/analytics/dlq-signatures?" + query(params)
	a := w.call("GET", target, "")
	if a.status != 200 {
		w.t.Fatalf("%s: %d %s", target, a.status, a.body)
	}
	return decode[signatures](w.t, a.body)
}

// G-149: the newest dead letters of one queue, whatever group has filed them, and those that
// have been removed left out.
func TestG149DeadLetterSignatures(t *testing.T) {
	w := open(t)
	w.configure("q", `{"retryLimit":1}`)
	w.expect("GET", "/api/v1/analytics/dlq-signatures?queue=none", "", 404, `{"error":"Queue not found"}`)
	w.expect("GET", "/api/v1/analytics/dlq-signatures", "", 400, `{"error":"queue required"}`)
	bury := func(queue, group, id, why string) {
		t.Helper()
		w.queued(msg(queue, group, id))
		w.ok(true, w.ack(group, w.popFrom(queue, group, "consumerGroup="+group).Messages[0].as("failed").because(why)))
		w.buried(w.ack(group, w.popFrom(queue, group, "consumerGroup="+group).Messages[0].as("failed").because(why)))
	}
	for i := range 4 {
		bury("q", "g", fmt.Sprint("g", i), fmt.Sprintf("order %d of 2026-07-3%d is late", i, i))
		w.clock.advance(time.Second)
	}
	bury("q", "f", "f0", "boom")
	w.configure("other", `{"retryLimit":1}`)
	bury("other", "h", "h0", "of another queue")
	all := w.deadLetters("queue=q")

	s := w.signatures("queue=q")
	if got := fmt.Sprint(s.RowsNow, s.Sample, s.RetryCounts, s.Groups, *s.AvgBytes, s.Signatures); got != "5 5 [1] [f g] 4 [{order <n> of <date> is late 4 0.8} {boom 1 0.2}]" {
		t.Errorf("got %s", got)
	}
	if *s.Newest != all[0].FailedAt || *s.Oldest != all[4].FailedAt || s.ByDay[0].Day != all[4].FailedAt[:10] {
		t.Errorf("got %+v, of %+v", s, all)
	}
	s = w.signatures("queue=q", "limit=2")
	if got := fmt.Sprint(s.RowsNow, s.Sample, s.Groups, s.Signatures); got != "5 2 [f g] [{boom 1 0.5} {order <n> of <date> is late 1 0.5}]" || *s.Oldest != all[1].FailedAt {
		t.Errorf("the newest two: %s, %+v", got, s)
	}
	if a := w.call("DELETE", address(all[0].PartitionID, all[0].TransactionID), ""); a.status != 200 {
		t.Fatalf("%d %s", a.status, a.body)
	}
	if s = w.signatures("queue=q"); s.RowsNow != 4 || s.Sample != 4 || len(s.Groups) != 1 {
		t.Errorf("with one removed: %+v", s)
	}
}

// R8: no more payloads are read than fit a pop; the rest of the sample is counted without.
func TestDeadLetterSignaturesOfLargePayloads(t *testing.T) {
	w := open(t, func(w *world) { w.broker.MaxAnswerBytes = 1000 })
	w.configure("q", `{"retryLimit":0}`)
	for i := range 6 { // the newest are the largest
		w.queued(item{"q", "p", fmt.Sprint(i), []byte(quote(strings.Repeat("x", 100*i)))})
		w.buried(w.fail("", "failed"))
	}
	if s := w.signatures("queue=q"); s.Sample != 6 || *s.AvgBytes != (502+402+302)/3 {
		t.Errorf("sample of %d, %d bytes each", s.Sample, *s.AvgBytes)
	}
}
