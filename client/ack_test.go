package client

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"
)

func TestAckBody(t *testing.T) {
	m := Message{TransactionID: "t1", PartitionID: "p1", LeaseID: "l1", Group: "g"}
	bare := Message{TransactionID: `t"2`, PartitionID: "p2"}
	for _, tt := range []struct {
		name string
		acks []Ack
		want string
	}{
		{"completed", []Ack{{m, Completed}}, `{"consumerGroup":"g","acknowledgments":[{"transactionId":"t1","partitionId":"p1","leaseId":"l1","status":"completed"}]}`},
		{"failed", []Ack{{m, Failed("downstream 502")}}, `{"consumerGroup":"g","acknowledgments":[{"transactionId":"t1","partitionId":"p1","leaseId":"l1","status":"failed","error":"downstream 502"}]}`},
		{"mixed, no group, no lease", []Ack{{bare, Retry}, {bare, DeadLetter("bad")}},
			`{"acknowledgments":[{"transactionId":"t\"2","partitionId":"p2","status":"retry"},{"transactionId":"t\"2","partitionId":"p2","status":"dlq","error":"bad"}]}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := newFake(t, func(_ int, w http.ResponseWriter, _ *http.Request) {
				reply(w, 200, "["+strings.Repeat(`{"success":true},`, len(tt.acks)-1)+`{"success":true}]`)
			})
			if _, err := f.AckAll(t.Context(), tt.acks...); err != nil {
				t.Fatal(err)
			}
			if r := f.seen()[0]; r.method+" "+r.path != "POST /api/v1/ack/batch" || r.body != tt.want {
				t.Errorf("got  %s\nwant %s", r.body, tt.want)
			}
		})
	}
}

func TestAckReasonIsBounded(t *testing.T) {
	got := Failed(strings.Repeat("x", maxReason-1) + "é").reason
	if got != strings.Repeat("x", maxReason-1) {
		t.Errorf("got a reason of %d bytes ending in %q", len(got), got[len(got)-3:])
	}
}

func TestAckVerdicts(t *testing.T) {
	a := Message{TransactionID: "a", PartitionID: "p", Group: "g"}
	b := Message{TransactionID: "b", PartitionID: "p", Group: "g"}
	f := newFake(t, answer(200, `[{"index":0,"transactionId":"a","success":true,"error":null,"leaseReleased":true,"dlq":true,"noop":true},{"success":false,"error":"invalid or expired lease"}]`))
	results, err := f.AckBatch(t.Context(), []Message{a, b}, Completed)
	var refused *RefusedError
	if !errors.As(err, &refused) || *refused != (RefusedError{"ack", 1, 2, "invalid or expired lease"}) {
		t.Errorf("got %v", err)
	}
	if len(results) != 2 || results[0] != (AckResult{"a", true, "", true, true, true, 0}) {
		t.Errorf("got %+v", results)
	}
	if _, err := f.Ack(t.Context(), a, Completed); !errors.Is(err, ErrProtocol) {
		t.Errorf("two verdicts on one ack: got %v want ErrProtocol", err)
	}
	sent := len(f.seen())
	b.Group = "h"
	if _, err := f.AckBatch(t.Context(), []Message{a, b}, Completed); !errors.Is(err, ErrMixedGroups) {
		t.Errorf("got %v want ErrMixedGroups", err)
	}
	a.Group = "\xff"
	if _, err := f.Ack(t.Context(), a, Completed); !errors.Is(err, ErrName) {
		t.Errorf("got %v want ErrName", err)
	}
	if _, err := f.AckBatch(t.Context(), nil, Completed); err != nil {
		t.Errorf("acking nothing: %v", err)
	}
	if len(f.seen()) != sent {
		t.Error("something was sent")
	}
}

func TestExtendLease(t *testing.T) {
	f := newFake(t, answer(200, `{"leaseId":"a/b","success":true,"renewed":2,"newExpiresAt":"2026-07-30T11:06:44.512873Z","expiresAt":"x"}`))
	got, err := f.ExtendLease(t.Context(), "a/b", 1500*time.Millisecond)
	want := Lease{2, time.Date(2026, 7, 30, 11, 6, 44, 512873e3, time.UTC)}
	if err != nil || got != want {
		t.Errorf("got %v, %v want %v", got, err, want)
	}
	if r := f.seen()[0]; r.path != "/api/v1/lease/a%2Fb/extend" || r.body != `{"seconds":2}` {
		t.Errorf("got %s %s", r.path, r.body)
	}
	f = newFake(t, answer(200, `{"leaseId":"l","success":false,"renewed":0,"newExpiresAt":null,"expiresAt":null}`))
	if _, err := f.ExtendLease(t.Context(), "l", time.Second); !errors.Is(err, ErrLeaseLost) {
		t.Errorf("got %v want ErrLeaseLost", err)
	}
}
