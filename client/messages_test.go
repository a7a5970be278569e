package client

import (
	"errors"
	"testing"
	"time"
)

func TestMessages(t *testing.T) {
	f := newFake(t, answer(200, `{"messages":[{"id":"m","transactionId":"t","txnHash":"x","partitionId":"p","queue":"q","partition":"eu","status":"processing","queueStatus":"pending",`+
		`"busStatus":{"consumedBy":1,"totalGroups":2},"traceId":null,"producerSub":null,"payloadAvailable":true,"createdAt":"2026-07-30T10:52:11.400Z",`+
		`"leaseExpiresAt":"2026-07-30T10:53:11.400Z","data":{"a":1},"payload":{"a":1}},{"id":null,"transactionId":null,"leaseExpiresAt":null,"data":null}],`+
		`"mode":{"hasQueueMode":true,"busGroupsCount":2,"type":"hybrid"},"total":2,"truncated":true}`))
	at := time.Date(2026, 7, 30, 12, 52, 11, 400_000_000, time.FixedZone("", 7200))
	got, err := f.Messages(t.Context(), MessageFilter{
		Queue: "q&", Partition: "eu", Namespace: "n", Task: "k", Status: "processing", From: at, To: at.Add(time.Minute), Limit: 5, Offset: 6,
	})
	if err != nil || len(got.Messages) != 2 || !got.Truncated || got.Mode != (Consumption{true, 2, "hybrid"}) {
		t.Fatalf("got %+v, %v", got, err)
	}
	m := got.Messages[0]
	if m.ID != "m" || m.Status != "processing" || m.QueueStatus != "pending" || m.Bus.ConsumedBy != 1 || m.Bus.TotalGroups != 2 || !m.Available ||
		string(m.Data) != `{"a":1}` || m.LeaseEnd.Sub(m.CreatedAt) != time.Minute || m.TraceID != "" {
		t.Errorf("got %+v", m)
	}
	if gone := got.Messages[1]; gone.ID != "" || gone.Available || !gone.LeaseEnd.IsZero() {
		t.Errorf("got %+v", gone)
	}
	want := "queue=q%26&partition=eu&namespace=n&task=k&status=processing&from=2026-07-30T10%3A52%3A11.4Z&to=2026-07-30T10%3A53%3A11.4Z&limit=5&offset=6"
	if r := f.seen()[0]; r.method+" "+r.path != "GET /api/v1/messages" || r.query != want {
		t.Errorf("got %s?%s", r.path, r.query)
	}
	if _, err := f.Messages(t.Context(), MessageFilter{}); err != nil || f.seen()[1].query != "" {
		t.Errorf("without a filter: %v, query %q", err, f.seen()[1].query)
	}
}

func TestMessageDetail(t *testing.T) {
	f := newFake(t, answer(200, `{"id":"m","transactionId":"t/1","data":1,"payload":1,"traceId":"x","producerSub":null,"createdAt":"2026-07-30T10:52:11.400Z",`+
		`"partitionId":"p","partition":"eu","queue":"q","status":"dead_letter","errorMessage":"boom","retryCount":3,"leaseExpiresAt":null,`+
		`"consumerGroups":[{"name":"g","group":"g","consumed":true,"leaseExpiresAt":null}],"mode":{"hasQueueMode":false,"busGroupsCount":1,"type":"bus"},`+
		`"queueConfig":{"namespace":"n","leaseTime":60}}`))
	got, err := f.Message(t.Context(), "p", "t/1")
	if err != nil || got.ID != "m" || got.Reason != "boom" || got.RetryCount != 3 || len(got.Groups) != 1 || !got.Groups[0].Consumed ||
		got.Mode.Type != "bus" || *got.Options.LeaseTime != 60 || got.TraceID != "x" || string(got.Data) != "1" {
		t.Errorf("got %+v, %v", got, err)
	}
	if r := f.seen()[0]; r.method != "GET" || r.path != "/api/v1/messages/p/t%2F1" {
		t.Errorf("got %s %s", r.method, r.path)
	}
	f = newFake(t, answer(404, `{"error":"Message not found"}`))
	var e *Error
	if _, err := f.Message(t.Context(), "p", "t"); !errors.As(err, &e) || e.Status != 404 {
		t.Errorf("got %v", err)
	}
}

func TestRemoveDeadLetters(t *testing.T) {
	f := newFake(t, answer(200, `{"success":true,"deleted":3,"queue":"q","consumerGroup":null}`))
	if n, err := f.PurgeDeadLetters(t.Context(), "q", "a b"); n != 3 || err != nil {
		t.Errorf("purge: %d, %v", n, err)
	}
	if ok, err := f.DeleteDeadLetters(t.Context(), "p", ".."); !ok || err != nil {
		t.Errorf("delete: %t, %v", ok, err)
	}
	r := f.seen()
	if r[0].method+" "+r[0].path+"?"+r[0].query != "DELETE /api/v1/dlq?queue=q&consumerGroup=a+b" || r[1].method+" "+r[1].path != "DELETE /api/v1/messages/p/%2E%2E" {
		t.Errorf("asked %+v", r)
	}
	f = newFake(t, answer(404, `{"success":false,"error":"Message not found","message":"No dead letter with this address"}`))
	if ok, err := f.DeleteDeadLetters(t.Context(), "p", "t"); ok || err != nil {
		t.Errorf("delete of none: %t, %v", ok, err)
	}
	f = newFake(t, answer(404, `{"error":"Not Found","code":"no_such_route"}`))
	if _, err := f.DeleteDeadLetters(t.Context(), "p", "t"); err == nil {
		t.Error("a broker without the route is none with nothing to delete")
	}
	f = newFake(t, answer(400, `{"error":"queue is required"}`))
	var e *Error
	if _, err := f.PurgeDeadLetters(t.Context(), "", ""); !errors.As(err, &e) || e.Status != 400 || f.seen()[0].query != "" {
		t.Errorf("purge of no queue: %v", err)
	}
}

func TestReplayDeadLetter(t *testing.T) {
	const moved = `{"success":true,"result":"moved","queue":"r","partition":"p","consumerGroup":"g","dlqId":"d","originalTransactionId":"t",` +
		`"replayedAs":{"index":0,"message_id":"m","transaction_id":"dlq:d","queueName":"r","status":"queued","offset":7},"dlqRowRemoved":true}`
	f := newFake(t, answer(200, moved))
	want := Replay{true, "r", "p", "g", "d", "t", "dlq:d", "m", 7}
	if got, err := f.ReplayDeadLetter(t.Context(), "d", ReplayTarget{Queue: new("r")}); got != want || err != nil {
		t.Errorf("got %+v, %v", got, err)
	}
	if got, err := f.RetryDeadLetter(t.Context(), "p", "t"); got != want || err != nil {
		t.Errorf("got %+v, %v", got, err)
	}
	r := f.seen()
	if r[0].method+" "+r[0].path+r[0].body != `POST /api/v1/dlq/d/replay{"queue":"r"}` || r[1].path+r[1].body != `/api/v1/messages/p/t/retry{}` {
		t.Errorf("asked %+v", r)
	}
	var e *Error
	f = newFake(t, answer(404, `{"success":false,"result":"gone","dlqId":"d","error":"Message not found","message":"x"}`))
	if _, err := f.ReplayDeadLetter(t.Context(), "d", ReplayTarget{}); !errors.As(err, &e) || e.Status != 404 {
		t.Errorf("got %v", err)
	}
	f = newFake(t, answer(200, `{"success":false}`))
	if _, err := f.ReplayDeadLetter(t.Context(), "d", ReplayTarget{}); !errors.Is(err, ErrProtocol) {
		t.Errorf("got %v", err)
	}
}

func TestDeadLetterTimes(t *testing.T) {
	f := newFake(t, answer(200, `{"messages":[],"total":0}`))
	at := time.Date(2026, 7, 30, 10, 52, 11, 0, time.UTC)
	if _, err := f.DeadLetters(t.Context(), DeadLetterFilter{From: at, To: at}); err != nil {
		t.Fatal(err)
	}
	if r := f.seen()[0]; r.query != "from=2026-07-30T10%3A52%3A11Z&to=2026-07-30T10%3A52%3A11Z" {
		t.Errorf("got %s", r.query)
	}
}
