package client

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"time"
)

func TestSeek(t *testing.T) {
	at := time.Date(2026, 7, 30, 10, 0, 0, 5e6, time.FixedZone("", 7200))
	f := newFake(t, answer(200, `{"success":true,"partitionsUpdated":8}`))
	q := f.Queue("a b").Group("g/1")
	if n, err := q.Seek(t.Context(), at); n != 8 || err != nil {
		t.Errorf("got %d, %v", n, err)
	}
	if n, err := q.SeekToEnd(t.Context()); n != 8 || err != nil {
		t.Errorf("got %d, %v", n, err)
	}
	for i, want := range []recorded{
		{"POST", "/api/v1/consumer-groups/g%2F1/queues/a%20b/seek", "", `{"timestamp":"2026-07-30T08:00:00.005Z"}`, ""},
		{"POST", "/api/v1/consumer-groups/g%2F1/queues/a%20b/seek", "", `{"toEnd":true}`, ""},
	} {
		if got := f.seen()[i]; got != want {
			t.Errorf("got %+v want %+v", got, want)
		}
	}

	f = newFake(t, answer(200, `{"success":true,"updated":true}`))
	if n, err := f.Queue("q").Partition("p").SeekToEnd(t.Context()); n != 1 || err != nil {
		t.Errorf("got %d, %v", n, err)
	}
	if got, want := f.seen()[0].path, "/api/v1/consumer-groups/__QUEUE_MODE__/queues/q/partitions/p/seek"; got != want {
		t.Errorf("got %s want %s", got, want)
	}

	f = newFake(t, answer(404, `{"success":false,"error":"Queue not found or has no partitions"}`))
	var e *Error
	if _, err := f.Queue("q").Seek(t.Context(), at); !errors.As(err, &e) || e.Status != 404 {
		t.Errorf("got %v want status 404", err)
	}
}

// A seek to the end that may have arrived is not sent again, one to an instant is.
func TestSeekRepeats(t *testing.T) {
	first := map[string]func(w http.ResponseWriter){
		"no answer": func(http.ResponseWriter) { panic(http.ErrAbortHandler) },
		"unknown":   func(w http.ResponseWriter) { reply(w, 503, `{"error":"failed","code":"storage_failed"}`) },
		"refused":   func(w http.ResponseWriter) { reply(w, 503, `{"error":"recovering","code":"recovering"}`) },
	}
	for name, row := range map[string]struct {
		seek func(Queue) (int, error)
		sent map[string]int
	}{
		"instant": {func(q Queue) (int, error) { return q.Seek(context.Background(), time.Unix(0, 0)) },
			map[string]int{"no answer": 2, "unknown": 2, "refused": 2}},
		"end": {func(q Queue) (int, error) { return q.SeekToEnd(context.Background()) },
			map[string]int{"no answer": 1, "unknown": 1, "refused": 2}},
	} {
		for how, sent := range row.sent {
			f := newFake(t, func(n int, w http.ResponseWriter, _ *http.Request) {
				if n == 0 {
					first[how](w)
					return
				}
				reply(w, 200, `{"partitionsUpdated":1}`)
			})
			_, err := row.seek(f.Queue("q").Group("g"))
			if got := len(f.seen()); got != sent || (err == nil) != (sent == 2) {
				t.Errorf("%s, %s: sent %d times, %v", name, how, got, err)
			}
		}
	}
}

func TestDeleteGroup(t *testing.T) {
	f := newFake(t, answer(200, `{"success":true,"deletedPartitions":24,"metadataDeleted":true}`))
	if n, err := f.DeleteGroup(t.Context(), "g", false); n != 24 || err != nil {
		t.Errorf("got %d, %v", n, err)
	}
	if n, err := f.Queue("q").Group("g").DeleteGroup(t.Context(), true); n != 24 || err != nil {
		t.Errorf("got %d, %v", n, err)
	}
	for i, want := range []recorded{
		{"DELETE", "/api/v1/consumer-groups/g", "deleteMetadata=true", "", ""},
		{"DELETE", "/api/v1/consumer-groups/g/queues/q", "deleteMetadata=false", "", ""},
	} {
		if got := f.seen()[i]; got != want {
			t.Errorf("got %+v want %+v", got, want)
		}
	}
}

func TestMoveSubscription(t *testing.T) {
	f := newFake(t, answer(200, `{"success":true,"rowsUpdated":3}`))
	if n, err := f.MoveSubscription(t.Context(), "g", time.Unix(1, 0)); n != 3 || err != nil {
		t.Errorf("got %d, %v", n, err)
	}
	want := recorded{"POST", "/api/v1/consumer-groups/g/subscription", "", `{"subscriptionTimestamp":"1970-01-01T00:00:01Z"}`, ""}
	if got := f.seen()[0]; got != want {
		t.Errorf("got %+v want %+v", got, want)
	}
}

func TestGroups(t *testing.T) {
	f := newFake(t, answer(200, `[{"name":"g","topics":["q"],"queueName":"q","members":8,"partitionCursors":8,"partitionsWithLag":2,"totalLag":314,"maxTimeLag":42,"state":"Stable","storage":"segments","subscriptionMode":"new","subscriptionTimestamp":"2026-07-30T08:00:00Z","subscriptionCreatedAt":"2026-07-30T08:00:00Z","conflation":false,"evictedUnread":4},`+
		`{"name":"__QUEUE_MODE__","queueName":"q","subscriptionMode":null,"subscriptionTimestamp":null,"subscriptionCreatedAt":null}]`))
	got, err := f.Groups(t.Context())
	if err != nil || len(got) != 2 || got[0].Lag != 314 || got[0].LagSeconds != 42 || got[0].EvictedUnread != 4 || got[0].SubscriptionMode != "new" || got[0].SubscriptionFrom.Unix() != 1785398400 ||
		got[1].SubscriptionMode != "" || got[1].SubscribedAt != nil {
		t.Errorf("got %+v, %v", got, err)
	}
}

func TestGroup(t *testing.T) {
	f := newFake(t, answer(200, `{"q":{"conflation":false,"partitions":[{"partition":"p","workerId":null,"lastConsumedAt":null,"totalConsumed":5,"offsetLag":2,"timeLagSeconds":9,"leaseActive":false}],"partitionCount":1}}`))
	got, err := f.Group(t.Context(), "g")
	if err != nil || len(got) != 1 || len(got["q"]) != 1 || got["q"][0].Lag != 2 || got["q"][0].LeaseID != "" || got["q"][0].TotalConsumed != 5 {
		t.Errorf("got %+v, %v", got, err)
	}
}

func TestLagging(t *testing.T) {
	f := newFake(t, answer(200, `[{"consumer_group":"g","queue_name":"q","partition_name":"p","partition_id":"i","worker_id":"w","offset_lag":3,"time_lag_seconds":7416,"lag_hours":2.06,"oldest_unconsumed_at":"2026-07-30T08:00:00Z","last_consumed_at":null}]`))
	got, err := f.Lagging(t.Context(), 90*time.Second)
	if err != nil || len(got) != 1 || got[0].LagSeconds != 7416 || got[0].LeaseID != "w" || got[0].LastConsumedAt != nil || f.seen()[0].query != "minLagSeconds=90" {
		t.Errorf("got %+v, %v", got, err)
	}
}

func TestDepth(t *testing.T) {
	f := newFake(t, answer(200, `{"queue":"q","group":"g","pending":3,"processing":1,"ready":2,"partitionsPending":1,"partitionsReady":1,"partitions":[{"partition":"p","pending":3,"processing":1,"ready":2}]}`))
	got, err := f.Queue("q").Group("a&b").Depth(t.Context())
	if err != nil || got.Ready != 2 || len(got.Partitions) != 1 || got.Partitions[0].Pending != 3 || f.seen()[0].query != "group=a%26b" {
		t.Errorf("got %+v, %v, query %q", got, err, f.seen()[0].query)
	}
	if _, err := f.Queue("q").Depth(t.Context()); err != nil || f.seen()[1].query != "" {
		t.Errorf("without a group: %v, query %q", err, f.seen()[1].query)
	}
}
