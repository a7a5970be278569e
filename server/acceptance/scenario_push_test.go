package acceptance

import (
	"net/http"
	"slices"
	"strings"
	"testing"
)

func statuses(results []pushResult) (s []string) {
	for _, r := range results {
		s = append(s, r.Status)
	}
	return s
}

// wantStatuses compares the statuses of a push and checks that all have one message id.
func (w *world) wantStatuses(results []pushResult, sameID bool, want ...string) {
	w.t.Helper()
	if got := statuses(results); !slices.Equal(got, want) {
		w.t.Errorf("statuses %v, want %v", got, want)
	}
	for _, r := range results {
		if (r.MessageID == results[0].MessageID) != sameID && r != results[0] {
			w.t.Errorf("message ids %s and %s, want equal: %t", results[0].MessageID, r.MessageID, sameID)
		}
	}
}

func TestT01PushToUnknownQueue(t *testing.T) {
	w := open(t)
	id := w.queued(msg("orders", "customer-42", "a"))[0]
	p := w.want(w.popFrom("orders", "customer-42"), "a")
	if p.Messages[0].ID != id {
		t.Errorf("popped id %s, pushed %s", p.Messages[0].ID, id)
	}
}

func TestT02PushNothing(t *testing.T) {
	w := open(t)
	w.expect("POST", "/api/v1/push", `{"items":[]}`, 201, `[]`)
	if q := w.queues(); len(q) > 0 {
		t.Errorf("queues %v", q)
	}
}

func TestT03PushTwice(t *testing.T) {
	w := open(t)
	first, second := w.push(msg("q", "p", "a")), w.push(msg("q", "p", "a"))
	w.wantStatuses(append(first, second...), true, "queued", "duplicate")
	w.want(w.pop("q"), "a")
}

func TestT04SameIDInTwoPartitions(t *testing.T) {
	w := open(t)
	w.wantStatuses(w.push(msg("q", "0", "a"), msg("q", "1", "a"), msg("r", "0", "a")), false, "queued", "queued", "queued")
}

func TestT05RepeatsInOnePush(t *testing.T) {
	w := open(t)
	w.wantStatuses(w.push(msg("q", "", "a"), msg("q", "", "a"), msg("q", "", "a")), true, "queued", "duplicate", "duplicate")
	w.want(w.pop("q"), "a")
}

func TestT06RepeatsOfAStoredMessage(t *testing.T) {
	w := open(t)
	seed := w.push(msg("q", "", "a"))
	again := w.push(msg("q", "", "a"), msg("q", "", "a"))
	w.wantStatuses(append(seed, again...), true, "queued", "duplicate", "duplicate")
}

func TestT07ConcurrentPushesOfOneID(t *testing.T) {
	w := open(t)
	results := make([]pushResult, 8)
	together(len(results), func(i int) { results[i] = w.push(msg("q", "", "a"))[0] })
	slices.SortFunc(results, func(a, b pushResult) int { return -strings.Compare(a.Status, b.Status) })
	w.wantStatuses(results, true, append([]string{"queued"}, slices.Repeat([]string{"duplicate"}, 7)...)...)
	w.want(w.pop("q"), "a")
}

func TestT08DedupOff(t *testing.T) {
	w := open(t)
	w.configure("q", `{"dedupWindowSeconds":0}`)
	w.wantStatuses(append(w.push(msg("q", "", "a")), w.push(msg("q", "", "a"))...), false, "queued", "queued")
	for range 2 {
		w.ok(true, w.ack("", w.want(w.pop("q", "batch=1"), "a").Messages[0].as("completed")))
	}
	w.nothing(w.pop("q"))
}

func TestT09DataIsNoPayload(t *testing.T) {
	w := open(t)
	a := w.call("POST", "/api/v1/push", `{"items":[{"queue":"q","payload":1},{"queue":"q","data":{"a":1}}]}`)
	if e := decode[errorAnswer](t, a.body); a.status != 400 || !strings.HasPrefix(e.Error, "bad body: ") {
		t.Errorf("got %d %s", a.status, a.body)
	}
	if q := w.queues(); len(q) > 0 {
		t.Errorf("queues %v", q)
	}
}

func TestT10Payloads(t *testing.T) {
	w := open(t)
	big := `"` + strings.Repeat("x", 1<<20) + `"`
	objects := "[" + strings.Repeat(`{"id":1,"name":"n","tags":["a","b"]},`, 9_999) + `{"last":true}]`
	payloads := []string{
		`null`, `{}`, `[]`, `42`, `-0`, `"s"`, `""`, `true`, `false`,
		`{"a":{"b":[1,{"c":null}]}}`, `9007199254740993`, `123456789012345678901234567890`, `1.0`, `1e400`, `0.1e-7`,
		`"\u00e9\n\/\ud83d\ude00"`, `"é😀"`, `{"a":1,"a":2}`, `{ "spaced" : [ 1 , 2 ] }`, "[\n\t1\r\n]", big, objects,
	}
	for _, p := range payloads {
		if a := w.call("POST", "/api/v1/push", `{"items":[{"queue":"q","payload":  `+p+"\n}]}"); a.status != 201 {
			t.Fatalf("push of %.40s: %d %s", p, a.status, a.body)
		}
	}
	got := [][]byte{}
	for range payloads {
		a := w.call("GET", "/api/v1/pop/queue/q?batch=1&autoAck=true", "")
		if a.status != http.StatusOK {
			t.Fatalf("pop: %d %s", a.status, a.body)
		}
		_, rest, _ := strings.Cut(string(a.body), `"data":`)
		data, _, _ := strings.Cut(rest, `,"producerSub":null,`)
		got = append(got, []byte(data))
	}
	for i, p := range payloads {
		if string(got[i]) != p {
			t.Errorf("payload %d: got %.60q, want %.60q", i, got[i], p)
		}
	}
}

func TestT11TraceIDOfAPushIsIgnored(t *testing.T) {
	w := open(t)
	w.pushRaw(`{"items":[{"queue":"q","payload":1,"traceId":"0198f2c1-4d3a-7c10-9f2b-6a1e5d0c7b83"},{"queue":"q","payload":2,"traceId":17,"producerSub":"mallory"}]}`)
	for _, m := range w.pop("q").Messages {
		if m.TraceID != nil || m.ProducerSub != nil {
			t.Errorf("traceId %v, producerSub %v", m.TraceID, m.ProducerSub)
		}
	}
}
