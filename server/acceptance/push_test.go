package acceptance

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

func TestM100OneBadItemStoresNothing(t *testing.T) {
	w := open(t)
	w.queued(msg("q", "p", "before"))
	for _, bad := range []string{`{"queue":"q"}`, `{"payload":1}`, `{"queue":"q","data":1}`, `{"queue":7,"payload":1}`, `{"queue":"q","payload":1,"partition":7}`} {
		for _, items := range []string{`{"queue":"q","partition":"p","payload":1},` + bad, bad + `,{"queue":"new","payload":1}`} {
			if a := w.call("POST", "/api/v1/push", `{"items":[`+items+`]}`); a.status != 400 {
				t.Errorf("%s: %d %s", items, a.status, a.body)
			}
		}
	}
	w.want(w.pop("q", "partitions=0"), "before")
	if q := w.queues(); len(q) != 1 {
		t.Errorf("queues %+v", q)
	}
}

func TestM105ManyQueuesInOnePush(t *testing.T) {
	w := open(t)
	var items []item
	for i := range 30 {
		items = append(items, msg(fmt.Sprint("q", i%3), fmt.Sprint("p", i%5), fmt.Sprint(i)))
	}
	w.queued(items...)
	for q := range 3 {
		for p := range 5 {
			got := w.popFrom(fmt.Sprint("q", q), fmt.Sprint("p", p)).ids()
			var want []string
			for i := range 30 {
				if i%3 == q && i%5 == p {
					want = append(want, fmt.Sprint(i))
				}
			}
			if !slices.Equal(got, want) {
				t.Errorf("queue %d partition %d: %v, want %v", q, p, got, want)
			}
		}
	}
}

func TestM107EmptyPartitionNameIsAName(t *testing.T) {
	w := open(t)
	w.pushRaw(`{"items":[{"queue":"q","partition":"","transactionId":"a","payload":1},{"queue":"q","partition":null,"transactionId":"b","payload":1},{"queue":"q","transactionId":"c","payload":1}]}`)
	w.want(w.popFrom("q", ""), "a")
	w.want(w.popFrom("q", "Default"), "b", "c")
}

// A transactionId of null or "" is absent, D-07.
func TestM106AbsentTransactionIDs(t *testing.T) {
	w := open(t)
	r := w.pushRaw(`{"items":[{"queue":"q","transactionId":"","payload":1},{"queue":"q","transactionId":null,"payload":1},{"queue":"q","payload":1}]}`)
	for _, r := range r {
		if r.Status != "queued" || r.TransactionID != r.MessageID {
			t.Errorf("%+v", r)
		}
	}
	p := w.pop("q")
	for i, m := range p.Messages {
		if m.TransactionID != r[i].MessageID || m.ID != r[i].MessageID {
			t.Errorf("message %d: %+v, pushed %+v", i, m, r[i])
		}
	}
	w.ackAll("", p)
}

func TestM111QueueOfAPush(t *testing.T) {
	w := open(t)
	w.queued(msg("billing.invoice.eu", "", "a"))
	d := w.queue("billing.invoice.eu")
	want := defaults
	want.LeaseTime = 60
	if d.Options.options != want {
		t.Errorf("options %+v, want %+v", d.Options, want)
	}
}

func TestM112Labels(t *testing.T) {
	w := open(t)
	for name, want := range map[string][2]string{
		"billing.invoice.eu": {"billing", "invoice"}, "billing.invoice": {"billing", "invoice"}, "orders": {"orders", ""},
		".x": {"", "x"}, "x.": {"x", ""}, "a..b": {"a", ""}, ".": {"", ""}, "ä.ö.ü": {"ä", "ö"},
	} {
		w.queued(msg(name, "", "a"))
		if d := w.queue(name); d.Namespace != want[0] || d.Task != want[1] || d.Options.Namespace != want[0] || d.Options.Task != want[1] {
			t.Errorf("%q: namespace %q, task %q, want %q", name, d.Namespace, d.Task, want)
		}
	}
}

// Concurrent pushes of one partition: each keeps its order and is contiguous, all have
// one time each, and times never go back.
func TestM121OrderUnderConcurrency(t *testing.T) {
	w := open(t)
	const producers, pushes, size = 8, 10, 5
	together(producers, func(i int) {
		for n := range pushes {
			w.queued(numbered("q", "p", fmt.Sprintf("%d-%d-", i, n), size)...)
		}
	})
	p := w.popFrom("q", "p", "batch=1000")
	if len(p.Messages) != producers*pushes*size {
		t.Fatalf("%d messages", len(p.Messages))
	}
	last := map[string]int{} // push of each producer
	for i := 0; i < len(p.Messages); i += size {
		unit := p.Messages[i : i+size]
		producer, _, _ := strings.Cut(unit[0].TransactionID, "-")
		if want := fmt.Sprintf("%s-%d-", producer, last[producer]); !strings.HasPrefix(unit[0].TransactionID, want) {
			t.Fatalf("%s, want %s", unit[0].TransactionID, want)
		}
		for n, m := range unit {
			if m.TransactionID != fmt.Sprintf("%s-%d-%d", producer, last[producer], n) || m.CreatedAt != unit[0].CreatedAt {
				t.Errorf("message %d of a push: %s at %s, the first at %s", n, m.TransactionID, m.CreatedAt, unit[0].CreatedAt)
			}
		}
		last[producer]++
	}
}

func TestM122ClockStepsBack(t *testing.T) {
	w := open(t)
	w.queued(msg("q", "p", "a"))
	w.clock.advance(-time.Hour)
	w.queued(msg("q", "p", "b"))
	w.restart()
	w.clock.advance(-time.Hour)
	w.queued(msg("q", "p", "c"))
	w.want(w.popFrom("q", "p"), "a", "b", "c") // popFrom checks that createdAt does not decrease
}

func TestM125ReadYourWrites(t *testing.T) {
	w := open(t)
	together(4, func(i int) {
		queue := fmt.Sprint("q", i)
		w.nothing(w.pop(queue, "consumerGroup=g"))
		for n := range 25 {
			id := fmt.Sprint(n)
			w.queued(msg(queue, fmt.Sprint(n%3), id))
			w.want(w.pop(queue, "autoAck=true"), id)
			w.want(w.pop(queue, "autoAck=true", "consumerGroup=g"), id)
		}
	})
}

func TestM126MessageIDs(t *testing.T) {
	w := open(t)
	var mu sync.Mutex
	seen := map[string]bool{}
	together(4, func(i int) {
		for n := range 5 {
			ids := w.queued(slices.Repeat([]item{{Queue: "q", Partition: fmt.Sprint(n % 2)}}, 20)...)
			mu.Lock()
			for _, id := range ids {
				if seen[id] {
					t.Errorf("id %s twice", id)
				}
				seen[id] = true
			}
			mu.Unlock()
		}
	})
	p := w.pop("q", "partitions=0", "batch=1000")
	for _, m := range p.Messages {
		if !seen[m.ID] || m.TransactionID != m.ID {
			t.Errorf("popped %+v", m)
		}
	}
	if len(p.Messages) != 400 {
		t.Errorf("%d messages", len(p.Messages))
	}
}

func TestM135DuplicatesDoNotBlockSiblings(t *testing.T) {
	w := open(t)
	w.queued(msg("q", "p", "b"))
	r := w.push(msg("q", "p", "a"), msg("q", "p", "b"), msg("q", "p", "c"), msg("q", "p", "a"), msg("r", "p", "b"))
	if got, want := statuses(r), []string{"queued", "duplicate", "queued", "duplicate", "queued"}; !slices.Equal(got, want) {
		t.Errorf("statuses %v, want %v", got, want)
	}
	w.want(w.popFrom("q", "p"), "b", "a", "c")
}

// Keys that escapes spell differently are the same key, and the last of equal keys counts.
func TestM106EscapedKeys(t *testing.T) {
	w := open(t)
	w.pushRaw(`{"it\u0065ms":[{"\u0071ueue":"wrong","queue":"q\u0031","transaction\u0049d":"\ud83d\ude00\u0000","payload":1,"payload":{"k":"\u0061"}}]}`)
	p := w.want(w.pop("q1"), "😀\x00")
	if string(p.Messages[0].Data) != `{"k":"\u0061"}` {
		t.Errorf("data %s", p.Messages[0].Data)
	}
}

func TestM106LargePush(t *testing.T) {
	w := open(t)
	const n = 10_000
	items := numbered("q", "p", "m", n)
	for i := range items {
		items[i].Payload = json.RawMessage(fmt.Sprintf(`{"i":%d,"f":%d.50}`, i, i))
	}
	w.queued(items...)
	p := w.popFrom("q", "p", fmt.Sprint("batch=", 2*n))
	if len(p.Messages) != n {
		t.Fatalf("%d messages", len(p.Messages))
	}
	for i, m := range p.Messages {
		if string(m.Data) != string(items[i].Payload) || m.TransactionID != items[i].TransactionID {
			t.Fatalf("message %d: %+v", i, m)
		}
	}
	w.ackAll("", p)
}

// One answer is bounded in bytes; what does not fit comes with the next one.
func TestM106AnswerIsBoundedInBytes(t *testing.T) {
	w := open(t, func(w *world) { w.broker.MaxAnswerBytes = 1000 })
	big := json.RawMessage(`"` + strings.Repeat("x", 600) + `"`)
	huge := json.RawMessage(`"` + strings.Repeat("x", 5000) + `"`)
	w.queued(item{"q", "p", "a", big}, item{"q", "p", "b", big}, item{"q", "p", "c", huge}, item{"q", "p", "d", big})
	for _, id := range []string{"a", "b", "c", "d"} {
		w.ackAll("", w.want(w.pop("q"), id))
	}
}
