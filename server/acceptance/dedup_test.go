package acceptance

import (
	"fmt"
	"testing"
	"time"
)

// wantDuplicate pushes an item that has to be a duplicate of a message.
func (w *world) wantDuplicate(i item, of string) {
	w.t.Helper()
	if r := w.push(i)[0]; r.Status != "duplicate" || r.MessageID != of {
		w.t.Errorf("%+v, want a duplicate of %s", r, of)
	}
}

func TestM150KeyIsExact(t *testing.T) {
	w := open(t)
	for _, id := range []string{"a", "A", "a ", " a", "ä", "a\u0308", "a\x00", "aa", "1", "01"} {
		w.queued(msg("q", "", id))
	}
	w.queued(msg("q", "other", "a"), msg("other", "", "a"))
}

func TestM151Window(t *testing.T) {
	for _, row := range []struct {
		name, options  string
		inside, beyond time.Duration
	}{
		{"default", ``, 3590 * time.Second, 3610 * time.Second},
		{"configured", `{"dedupWindowSeconds":100}`, 95 * time.Second, 105 * time.Second},
		{"shorter than the ack window", `{"dedupWindowSeconds":60}`, 40 * time.Second, 70 * time.Second},
	} {
		t.Run(row.name, func(t *testing.T) {
			w := open(t)
			if row.options != "" {
				w.configure("q", row.options)
			}
			id := w.queued(msg("q", "", "a"))[0]
			w.clock.advance(row.inside)
			w.wantDuplicate(msg("q", "", "a"), id)
			w.clock.advance(row.beyond - row.inside)
			second := w.queued(msg("q", "", "a"))[0]
			w.wantDuplicate(msg("q", "", "a"), second)
			w.restart()
			w.wantDuplicate(msg("q", "", "a"), second)
		})
	}
}

func TestM151NegativeWindowIsOff(t *testing.T) {
	w := open(t)
	if got := w.configure("q", `{"dedupWindowSeconds":-7}`).Options.DedupWindowSeconds; got != 0 {
		t.Errorf("dedupWindowSeconds %d", got)
	}
	w.queued(msg("q", "", "a"))
	w.queued(msg("q", "", "a"))
}

func TestM152DuplicateTakesNoOffset(t *testing.T) {
	w := open(t)
	w.queued(msg("q", "", "a"))
	for range 5 {
		w.push(msg("q", "", "a"))
	}
	w.queued(msg("q", "", "b"))
	if d := w.queue("q"); d.Totals.Total != 2 {
		t.Errorf("total %d", d.Totals.Total)
	}
	w.want(w.pop("q"), "a", "b")
}

// Many keys, each pushed by many at once, in batches that overlap.
func TestM153Concurrency(t *testing.T) {
	w := open(t)
	const workers, keys = 8, 20
	results := make([][]pushResult, workers)
	together(workers, func(i int) {
		items := numbered("q", "p", "k", keys)
		if i%2 == 1 { // in another order
			for a, b := 0, keys-1; a < b; a, b = a+1, b-1 {
				items[a], items[b] = items[b], items[a]
			}
		}
		results[i] = append(w.push(items[:keys/2]...), w.push(items[keys/2:]...)...)
	})
	queued, ids := map[string]int{}, map[string]string{}
	for _, rs := range results {
		for _, r := range rs {
			if r.Status == "queued" {
				queued[r.TransactionID]++
			}
			if id := ids[r.TransactionID]; id != "" && id != r.MessageID {
				t.Errorf("%s: ids %s and %s", r.TransactionID, id, r.MessageID)
			}
			ids[r.TransactionID] = r.MessageID
		}
	}
	for k := range keys {
		if n := queued[fmt.Sprint("k", k)]; n != 1 {
			t.Errorf("key %d: queued %d times", k, n)
		}
	}
	if p := w.popFrom("q", "p"); len(p.Messages) != keys {
		t.Errorf("%d messages", len(p.Messages))
	}
}

// With the check off, repeats in one request are still one message, requests are not.
func TestM155WindowZero(t *testing.T) {
	w := open(t)
	w.configure("q", `{"dedupWindowSeconds":0}`)
	w.wantStatuses(w.push(msg("q", "", "a"), msg("q", "", "a")), true, "queued", "duplicate")
	w.queued(msg("q", "", "a"))
	w.want(w.pop("q"), "a", "a")
}

func TestM156EarliestInsideTheWindow(t *testing.T) {
	w := open(t)
	w.configure("q", `{"dedupWindowSeconds":0}`)
	ids := make([]string, 3)
	for i := range ids {
		ids[i] = w.queued(msg("q", "", "a"))[0]
		w.clock.advance(100 * time.Second)
	}
	w.configure("q", `{"dedupWindowSeconds":1000}`)
	w.wantDuplicate(msg("q", "", "a"), ids[0])
	w.configure("q", `{"dedupWindowSeconds":250}`)
	w.wantDuplicate(msg("q", "", "a"), ids[1])
	w.configure("q", `{"dedupWindowSeconds":150}`)
	w.wantDuplicate(msg("q", "", "a"), ids[2])
	w.configure("q", `{"dedupWindowSeconds":50}`)
	w.queued(msg("q", "", "a"))
}

// An id outside of the ack window is unresolvable, although its message is there.
func TestM159AckWindow(t *testing.T) {
	for _, row := range []struct {
		name, options string
		window        time.Duration
	}{
		{"at least 900 s", `{"dedupWindowSeconds":0}`, 900 * time.Second},
		{"dedup window", `{"dedupWindowSeconds":2000}`, 2000 * time.Second},
		{"completed retention", `{"dedupWindowSeconds":0,"completedRetentionSeconds":3000}`, 3000 * time.Second},
	} {
		t.Run(row.name, func(t *testing.T) {
			w := open(t)
			w.configure("q", row.options)
			w.queued(msg("q", "p", "a"), item{Queue: "q", Partition: "p"}, msg("q", "p", "c"))
			m := w.popFrom("q", "p").Messages
			w.ok(true, w.ack("", m[0].as("retry"))) // nothing is leased any more
			w.clock.advance(row.window - 10*time.Second)
			w.ok(false, w.ack("", m[0].as("completed").leaseless()))
			w.ok(false, w.ack("", m[1].as("completed").leaseless()))
			w.clock.advance(20 * time.Second)
			w.refused(w.ack("", m[2].as("completed").leaseless()), unresolvable)
			w.refused(w.ack("", m[1].as("completed").leaseless()), unresolvable)
		})
	}
}

// D-16: the ids of the leased batch resolve however old they are.
func TestM159LeasedBatchAlwaysResolves(t *testing.T) {
	w := open(t)
	w.configure("q", `{"dedupWindowSeconds":0}`)
	w.queued(msg("q", "p", "a"), item{Queue: "q", Partition: "p"})
	w.clock.advance(time.Hour)
	p := w.popFrom("q", "p")
	w.crashAfterAll()
	w.ackAll("", p)
}

func TestM161MintedIDsNeverDeduplicate(t *testing.T) {
	w := open(t)
	first := w.queued(item{Queue: "q"})[0]
	w.queued(item{Queue: "q"}, item{Queue: "q"})
	w.wantDuplicate(msg("q", "", first), first)
	if p := w.pop("q"); len(p.Messages) != 3 {
		t.Errorf("%d messages", len(p.Messages))
	}
}
