package client

import (
	"errors"
	"reflect"
	"testing"
	"time"
)

func TestTrace(t *testing.T) {
	f := newFake(t, answer(201, `{"success":true,"traceId":"x"}`))
	m := Message{TransactionID: "t", PartitionID: "p", Group: "g"}
	for _, row := range []struct {
		m    Message
		t    Trace
		body string
	}{
		{m, Trace{"step", []string{"a", "b"}, map[string]int{"n": 1}}, `{"transactionId":"t","partitionId":"p","consumerGroup":"g","eventType":"step","data":{"n":1},"traceNames":["a","b"]}`},
		{Message{TransactionID: "t", PartitionID: "p"}, Trace{}, `{"transactionId":"t","partitionId":"p","data":null}`},
	} {
		id, err := f.Trace(t.Context(), row.m, row.t)
		r := f.seen()[len(f.seen())-1]
		if id != "x" || err != nil || r.method+" "+r.path != "POST /api/v1/traces" || r.body != row.body {
			t.Errorf("%+v: %s, %v, sent %s %s", row.t, id, err, r.path, r.body)
		}
	}
	if _, err := f.Trace(t.Context(), m, Trace{Data: func() {}}); err == nil {
		t.Error("a function is no data")
	}
	f = newFake(t, answer(400, `{"error":"partitionId is not a UUID"}`))
	var e *Error
	if _, err := f.Trace(t.Context(), m, Trace{}); !errors.As(err, &e) || e.Status != 400 {
		t.Errorf("refused: %v", err)
	}
}

func TestTraces(t *testing.T) {
	const record = `{"id":"x","transaction_id":"t","partition_id":"p","event_type":"info","data":{"a":1},"consumer_group":"g","worker_id":"skep",` +
		`"created_at":"2026-07-30T10:52:11.400Z","queue_name":"q","partition_name":"eu","message_payload":null,"trace_names":["a"]}`
	at := time.Date(2026, 7, 30, 10, 52, 11, 400_000_000, time.UTC)
	want := TracePage{[]TraceRecord{{"x", "t", "p", "q", "eu", "info", "g", []string{"a"}, []byte(`{"a":1}`), at}}, 7, true}
	f := newFake(t, answer(200, `{"traces":[`+record+`],"truncated":true,"total":7,"pagination":{"limit":2,"offset":1}}`))
	if got, err := f.TracesNamed(t.Context(), "a/b", 2, 1); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, %v", got, err)
	}
	if got, err := f.TracesOf(t.Context(), "p", "t/1"); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, %v", got, err)
	}
	if r := f.seen(); r[0].path != "/api/v1/traces/by-name/a%2Fb" || r[0].query != "limit=2&offset=1" || r[1].path != "/api/v1/traces/p/t%2F1" || r[1].query != "" {
		t.Errorf("asked %+v", r)
	}
	f = newFake(t, answer(200, `{"trace_names":[{"trace_name":"a","trace_count":3,"message_count":2,"last_seen":"2026-07-30T10:52:11.400Z"}],"total":1}`))
	names, total, err := f.TraceNames(t.Context(), 0, 0)
	if err != nil || total != 1 || !reflect.DeepEqual(names, []TraceName{{"a", 3, 2, at}}) {
		t.Errorf("got %+v of %d, %v", names, total, err)
	}
	if r := f.seen()[0]; r.path != "/api/v1/traces/names" || r.query != "" {
		t.Errorf("asked %+v", r)
	}
}
