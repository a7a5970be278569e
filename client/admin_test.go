package client

import (
	"errors"
	"testing"
)

func TestConfigure(t *testing.T) {
	f := newFake(t, answer(200, `{"configured":true,"queueId":"x","queue":"q","namespace":"n","task":"","options":{"leaseTime":7,"retryLimit":0,"deadLetterQueue":false}}`))
	got, err := f.Queue("q").Configure(t.Context(), Options{Namespace: "n", LeaseTime: new(7), RetryLimit: new(0), DeadLetterQueue: new(false)})
	if err != nil {
		t.Fatal(err)
	}
	want := `{"queue":"q","namespace":"n","options":{"namespace":"n","leaseTime":7,"retryLimit":0,"deadLetterQueue":false}}`
	if r := f.seen()[0]; r.method+" "+r.path != "POST /api/v1/configure" || r.body != want {
		t.Errorf("got  %s\nwant %s", r.body, want)
	}
	if got.Namespace != "n" || *got.LeaseTime != 7 || *got.RetryLimit != 0 || *got.DeadLetterQueue || got.TTL != nil {
		t.Errorf("got %+v", got)
	}
	f = newFake(t, answer(200, `{"configured":false}`))
	if _, err := f.Queue("q").Configure(t.Context(), Options{}); !errors.Is(err, ErrProtocol) {
		t.Errorf("got %v want ErrProtocol", err)
	}
	if _, err := f.Queue("\xff").Configure(t.Context(), Options{}); !errors.Is(err, ErrName) {
		t.Errorf("got %v want ErrName", err)
	}
}

func TestDeleteQueue(t *testing.T) {
	f := newFake(t, answer(200, `{"deleted":true,"queue":"a b","existed":true}`))
	existed, err := f.Queue("a b").Delete(t.Context())
	if err != nil || !existed {
		t.Errorf("got %v, %v", existed, err)
	}
	if r := f.seen()[0]; r.method != "DELETE" || r.path != "/api/v1/resources/queues/a%20b" {
		t.Errorf("got %s %s", r.method, r.path)
	}
}

func TestInfo(t *testing.T) {
	f := newFake(t, answer(200, `{"id":"i","name":"q","partitions":[{"id":"p","name":"Default","createdAt":"2026-07-30T09:12:44.031Z","stats":{"total":16,"pending":4,"processing":8,"completed":2,"failed":null,"deadLetter":1}}],"totals":{"total":9},"retainedBytes":5,"options":{"leaseTime":60}}`))
	got, err := f.Queue("q").Info(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if got.Name != "q" || got.Totals.Total != 9 || got.Partitions[0].Stats != (Stats{16, 4, 8, 2, 1}) || *got.Options.LeaseTime != 60 {
		t.Errorf("got %+v", got)
	}
	f = newFake(t, answer(404, `{"error":"Queue not found"}`))
	var e *Error
	if _, err := f.Queue("q").Info(t.Context()); !errors.As(err, &e) || e.Status != 404 {
		t.Errorf("got %v want status 404", err)
	}
}

func TestDeadLetters(t *testing.T) {
	f := newFake(t, answer(200, `{"messages":[{"id":"d","transactionId":"t","partitionId":"p","queue":"q","partition":"eu","consumerGroup":"g","errorMessage":"boom","retryCount":3,"data":{"a":1},"createdAt":"2026-07-30T10:52:11.400Z","failedAt":"2026-07-30T10:52:12Z"}],"total":1}`))
	got, err := f.DeadLetters(t.Context(), DeadLetterFilter{Queue: "q&", Group: "g", Partition: "p", Limit: 5, Offset: 6})
	if err != nil || len(got) != 1 || got[0].Reason != "boom" || got[0].RetryCount != 3 || string(got[0].Data) != `{"a":1}` {
		t.Errorf("got %+v, %v", got, err)
	}
	if r := f.seen()[0]; r.path != "/api/v1/dlq" || r.query != "offset=6&limit=5&queue=q%26&consumerGroup=g&partition=p" {
		t.Errorf("got %s?%s", r.path, r.query)
	}
	if _, err := f.DeadLetters(t.Context(), DeadLetterFilter{}); err != nil || f.seen()[1].query != "" {
		t.Errorf("without a filter: %v, query %q", err, f.seen()[1].query)
	}
}

func TestHealth(t *testing.T) {
	if err := newFake(t, answer(200, `{"status":"healthy"}`)).Health(t.Context()); err != nil {
		t.Error(err)
	}
	f := newFake(t, answer(503, `{"status":"unhealthy"}`))
	var e *Error
	if err := f.Health(t.Context()); !errors.As(err, &e) || e.Status != 503 || e.Message != "unhealthy" {
		t.Errorf("got %v", err)
	}
	if got := len(f.seen()); got != 1 {
		t.Errorf("asked %d times want once", got)
	}
}
