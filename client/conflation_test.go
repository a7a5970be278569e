package client

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
)

// TestConflationEcho checks that the broker has to say that it does what was asked.
func TestConflationEcho(t *testing.T) {
	for name, tt := range map[string]struct {
		status int
		body   string
		asked  bool
		want   error
		msgs   int
	}{
		"applied":             {200, strings.TrimSuffix(popAnswer, "}") + `,"conflation":true}`, true, nil, 2},
		"applied, empty":      {200, `{"messages":[],"conflation":true}`, true, nil, 0},
		"paused":              {200, `{"messages":[],"paused":true,"conflation":true}`, true, nil, 0},
		"conflict":            {200, strings.TrimSuffix(popAnswer, "}") + `,"conflationConflict":true}`, true, ErrConflation, 0},
		"conflict, empty":     {200, `{"messages":[],"conflationConflict":true}`, true, ErrConflation, 0},
		"both":                {200, `{"messages":[],"conflation":true,"conflationConflict":true}`, true, ErrConflation, 0},
		"no echo":             {200, popAnswer, true, ErrConflation, 0},
		"204 of an old one":   {204, "", true, ErrConflation, 0},
		"stored, not asked":   {200, `{"messages":[],"conflation":true}`, false, nil, 0},
		"old one, not asked":  {204, "", false, nil, 0},
		"conflation: no bool": {200, `{"messages":[],"conflation":1}`, true, ErrProtocol, 0},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFake(t, answer(tt.status, tt.body))
			q := f.Queue("orders").Group("billing")
			if tt.asked {
				q = q.Conflation()
			}
			b, err := q.Pop(t.Context())
			if !errors.Is(err, tt.want) {
				t.Fatalf("got %v, want %v", err, tt.want)
			}
			if err == nil && (len(b.Messages) != tt.msgs || b.Conflated != strings.Contains(tt.body, `"conflation":true`)) {
				t.Errorf("got %+v", b)
			}
			if n := len(f.seen()); n != 1 {
				t.Errorf("%d requests", n)
			}
		})
	}
}

// TestConflationEndsConsume checks that a consumer does not go on against a policy.
func TestConflationEndsConsume(t *testing.T) {
	f := newFake(t, func(_ int, w http.ResponseWriter, _ *http.Request) { reply(w, 204, "") })
	err := f.Queue("q").Group("g").Conflation().Consume(t.Context(), func(context.Context, []Message) error { return nil })
	if !errors.Is(err, ErrConflation) {
		t.Errorf("got %v", err)
	}
}

func TestConflatedAck(t *testing.T) {
	f := newFake(t, answer(200, `[{"index":0,"transactionId":"m","success":true,"error":null,"leaseReleased":true,"dlq":false,"noop":false,"conflated":41}]`))
	r, err := f.Ack(t.Context(), Message{TransactionID: "m", PartitionID: "p", Group: "g"}, Completed)
	if err != nil || r.Conflated != 41 {
		t.Errorf("got %+v, %v", r, err)
	}
}
