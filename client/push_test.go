package client

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/uuid"
)

func TestPushBody(t *testing.T) {
	type named struct {
		A string `json:"a"`
	}
	for _, tt := range []struct {
		name  string
		queue func(Queue) Queue
		items []Item
		want  string
	}{
		{"raw stays as it is", nil, []Item{{json.RawMessage("{\"a\" : 1.0e2,\"<\":\"\\u00e9\"}"), "t", ""}},
			"{\"items\":[{\"queue\":\"q\",\"transactionId\":\"t\",\"payload\":{\"a\" : 1.0e2,\"<\":\"\\u00e9\"}}]}"},
		{"bytes too", nil, []Item{{[]byte("12345678901234567890"), "t", ""}},
			`{"items":[{"queue":"q","transactionId":"t","payload":12345678901234567890}]}`},
		{"values are marshalled", nil, []Item{{named{"<&>"}, "t", ""}, {nil, "u", ""}, {"s", "v", ""}},
			`{"items":[{"queue":"q","transactionId":"t","payload":{"a":"<&>"}},{"queue":"q","transactionId":"u","payload":null},{"queue":"q","transactionId":"v","payload":"s"}]}`},
		{"partition", func(q Queue) Queue { return q.Partition("p") }, []Item{{1, "t", ""}, {2, "u", "other"}},
			`{"items":[{"queue":"q","partition":"p","transactionId":"t","payload":1},{"queue":"q","partition":"other","transactionId":"u","payload":2}]}`},
		{"empty partition", func(q Queue) Queue { return q.Partition("") }, []Item{{1, "t", ""}},
			`{"items":[{"queue":"q","partition":"","transactionId":"t","payload":1}]}`},
		{"quoting", func(q Queue) Queue { return q.Partition("a\"\\\n\u2028é😀") }, []Item{{1, "\x00", ""}},
			"{\"items\":[{\"queue\":\"q\",\"partition\":\"a\\\"\\\\\\n\\u2028é😀\",\"transactionId\":\"\\u0000\",\"payload\":1}]}"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := newFake(t, func(_ int, w http.ResponseWriter, _ *http.Request) {
				reply(w, 201, "["+strings.Repeat(`{"status":"queued"},`, len(tt.items)-1)+`{"status":"duplicate"}]`)
			})
			q := f.Queue("q")
			if tt.queue != nil {
				q = tt.queue(q)
			}
			if _, err := q.Push(t.Context(), tt.items...); err != nil {
				t.Fatal(err)
			}
			r := f.seen()[0]
			if r.method+" "+r.path != "POST /api/v1/push" || r.body != tt.want {
				t.Errorf("got  %s %s %s\nwant %s", r.method, r.path, r.body, tt.want)
			}
		})
	}
}

func TestPushMintsIDs(t *testing.T) {
	f := newFake(t, answer(201, `[{"status":"queued"},{"status":"queued"}]`))
	items := []Item{{Payload: 1}, {Payload: 2}}
	if _, err := f.Queue("q").Push(t.Context(), items...); err != nil {
		t.Fatal(err)
	}
	var body struct {
		Items []struct{ TransactionID string }
	}
	if err := json.Unmarshal([]byte(f.seen()[0].body), &body); err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, it := range body.Items {
		if u, err := uuid.Parse(it.TransactionID); err != nil || u.Version() != 7 || seen[it.TransactionID] {
			t.Errorf("transaction id %q is no fresh UUIDv7", it.TransactionID)
		}
		seen[it.TransactionID] = true
	}
	if items[0].TransactionID != "" {
		t.Error("Push changed the caller's items")
	}
}

func TestPushRefusesBeforeSending(t *testing.T) {
	for _, tt := range []struct {
		name  string
		queue string
		item  Item
		want  error
	}{
		{"broken", "q", Item{Payload: []byte(`{"a":`)}, ErrPayload},
		{"smuggled item", "q", Item{Payload: []byte(`1},{"queue":"other","payload":2`)}, ErrPayload},
		{"empty", "q", Item{Payload: []byte{}}, ErrPayload},
		{"unmarshallable", "q", Item{Payload: func() {}}, ErrPayload},
		{"queue name", "\xff", Item{Payload: 1}, ErrName},
		{"partition name", "q", Item{Payload: 1, Partition: "\xff"}, ErrName},
		{"transaction id", "q", Item{Payload: 1, TransactionID: "\xff"}, ErrName},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := newFake(t, answer(201, `[]`))
			if _, err := f.Queue(tt.queue).Push(t.Context(), tt.item); !errors.Is(err, tt.want) {
				t.Errorf("got %v want %v", err, tt.want)
			}
			if len(f.seen()) != 0 {
				t.Error("something was sent")
			}
		})
	}
	f := newFake(t, answer(201, `[]`))
	if r, err := f.Queue("q").Push(t.Context()); r != nil || err != nil || len(f.seen()) != 0 {
		t.Errorf("a push of nothing: got %v, %v after %d requests", r, err, len(f.seen()))
	}
}

func TestPushVerdicts(t *testing.T) {
	for _, tt := range []struct {
		name, body, want string // want: part of the error, "" for none
	}{
		{"good", `[{"index":0,"message_id":"m","transaction_id":"t","queueName":"q","status":"queued"},{"status":"buffered"}]`, ""},
		{"one failed", `[{"status":"queued"},{"status":"failed","error":"disk"}]`, "push refused for 1 of 2 items: failed: disk"},
		{"a status we do not know", `[{"status":"error"},{"status":"queued"}]`, "1 of 2"},
		{"too few", `[{"status":"queued"}]`, "unexpected answer: 1 verdicts on 2 items"},
		{"no array", `{"ok":true}`, "unexpected answer"},
		{"nothing", ``, "unexpected answer"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := newFake(t, answer(201, tt.body))
			results, err := f.Queue("q").Push(t.Context(), Item{Payload: 1}, Item{Payload: 2})
			if tt.want == "" {
				if err != nil || results[0] != (PushResult{"m", "t", "q", Queued, ""}) {
					t.Errorf("got %v, %v", results, err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v want %q", err, tt.want)
			}
			var refused *RefusedError
			if errors.As(err, &refused) && len(results) != 2 {
				t.Errorf("no results beside %v", err)
			}
		})
	}
}

func FuzzAppendString(f *testing.F) {
	f.Add("plain")
	f.Add("\"\\\x1f\x7f\u2028<é😀")
	f.Fuzz(func(t *testing.T, s string) {
		if !utf8.ValidString(s) {
			return
		}
		var got string
		if err := json.Unmarshal(appendString(nil, s), &got); err != nil || got != s {
			t.Errorf("got %q, %v want %q", got, err, s)
		}
	})
}

func BenchmarkAppendPush(b *testing.B) {
	payload := json.RawMessage(`{"text":"` + strings.Repeat("x", 1000) + `"}`)
	items := make([]Item, 100)
	for i := range items {
		items[i] = Item{Payload: payload, Partition: "customer-42"}
	}
	q := Queue{name: "orders"}
	b.SetBytes(int64(len(items) * len(payload)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := q.appendPush(nil, items); err != nil {
			b.Fatal(err)
		}
	}
}
