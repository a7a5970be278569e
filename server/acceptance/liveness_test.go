package acceptance

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

type liveness struct {
	CapturedAt string        `json:"capturedAt"`
	Rows       []livenessRow `json:"rows"`
}

type livenessRow struct {
	Queue         string  `json:"queue"`
	Namespace     string  `json:"namespace"`
	Task          string  `json:"task"`
	Partitions    int     `json:"partitions"`
	Live1h        int     `json:"live1h"`
	Live24h       int     `json:"live24h"`
	Live7d        int     `json:"live7d"`
	Created24h    int     `json:"created24h"`
	OldestWriteAt *string `json:"oldestWriteAt"`
	NewestWriteAt *string `json:"newestWriteAt"`
	Pending       int64   `json:"pending"`
}

func (w *world) liveness(params ...string) []livenessRow {
	w.t.Helper()
	target := "/api/v1/analytics/partition-liveness?" + query(params)
	a := w.call("GET", target, "")
	if a.status != 200 {
		w.t.Fatalf("%s: %d %s", target, a.status, a.body)
	}
	l := decode[liveness](w.t, a.body)
	if !millisPattern.MatchString(l.CapturedAt) {
		w.t.Errorf("capturedAt %q", l.CapturedAt)
	}
	return l.Rows
}

// livenessOf names the queues, in their order.
func (w *world) livenessOf(params ...string) (names string) {
	w.t.Helper()
	for _, r := range w.liveness(params...) {
		names += r.Queue + " "
	}
	return names
}

// G-150: partitions count by their latest write, whatever is kept of it.
func TestG150PartitionLiveness(t *testing.T) {
	w := open(t)
	w.wantShape("GET", "/api/v1/analytics/partition-liveness", 200, `{"capturedAt":"T","rows":[]}`)
	w.configureRaw(`{"queue":"q","namespace":"n","task":"t","options":{"retentionEnabled":true,"completedRetentionSeconds":1}}`)
	w.wantShape("GET", "/api/v1/analytics/partition-liveness", 200,
		`{"capturedAt":"T","rows":[{"queue":"q","namespace":"n","task":"t","partitions":0,"live1h":0,"live24h":0,"live7d":0,"created24h":0,"oldestWriteAt":null,"newestWriteAt":null,"pending":0}]}`)
	const hour = time.Hour
	var first string
	for _, step := range []struct {
		partition string
		then      time.Duration
	}{{"a", hour}, {"b", 7*24*hour - 25*hour}, {"c", 23 * hour}, {"d", 30 * time.Minute}, {"b", 0}} {
		w.queued(msg("q", step.partition, fmt.Sprint(step.partition, step.then)))
		if first == "" {
			first = w.popFrom("q", "a").Messages[0].CreatedAt
			w.clock.advance(hour)
		}
		w.clock.advance(step.then)
	}
	check := func(want string) {
		t.Helper()
		r := w.liveness()[0]
		if got := fmt.Sprint(r.Partitions, " live ", r.Live1h, r.Live24h, r.Live7d, " created ", r.Created24h, " pending ", r.Pending); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
		if *r.OldestWriteAt != first || *r.NewestWriteAt <= *r.OldestWriteAt {
			t.Errorf("written from %s to %s, want from %s", *r.OldestWriteAt, *r.NewestWriteAt, first)
		}
	}
	// a was written 7 days and half an hour ago, b just now, c half an hour less than a day ago,
	// d half an hour ago.
	check("4 live 2 3 3 created 2 pending 5")
	w.clock.advance(31 * time.Minute)
	check("4 live 1 2 3 created 1 pending 5")
	for range 4 {
		w.ackAll("", w.pop("q"))
	}
	w.clock.advance(2 * time.Second)
	w.running.broker.Retain()
	if d := w.queue("q"); d.Totals.Total != 0 {
		t.Fatalf("retention has left %+v", d.Totals)
	}
	check("4 live 1 2 3 created 1 pending 0")
	w.restart()
	check("4 live 1 2 3 created 1 pending 0")
}

// G-150: the queues with most partitions, filtered. An empty label is none.
func TestG150PartitionLivenessFilters(t *testing.T) {
	w := open(t)
	for i, labels := range []string{`"namespace":"n"`, `"namespace":"n","task":"t"`, `"task":"t"`, `"task":""`} {
		q := fmt.Sprint("q", i)
		w.configureRaw(`{"queue":"` + q + `",` + labels + `,"options":{}}`)
		for p := range i % 3 {
			w.queued(msg(q, fmt.Sprint(p), "m"))
		}
	}
	for _, tt := range []struct{ query, want string }{
		{"", "q2 q1 q0 q3 "},
		{"limit=2", "q2 q1 "},
		{"limit=0", ""},
		{"limit=-1", ""},
		{"limit=many", "q2 q1 q0 q3 "},
		{"queue=q1", "q1 "},
		{"queue=none", ""},
		{"queue=", "q2 q1 q0 q3 "},
		{"namespace=n", "q1 q0 "},
		{"namespace=", "q2 q3 "},
		{"namespace=n task=t", "q1 "},
		{"task=", "q0 q3 "},
		{"namespace= task=", "q3 "},
		{"namespace=other", ""},
	} {
		if got := w.livenessOf(strings.Fields(tt.query)...); got != tt.want {
			t.Errorf("%s: got %s, want %s", tt.query, got, tt.want)
		}
	}
	for i := range 201 {
		w.configure(fmt.Sprint("many", i), "{}")
	}
	if n := len(w.liveness()); n != 20 {
		t.Errorf("%d rows by default", n)
	}
	if n := len(w.liveness("limit=1000")); n != 200 {
		t.Errorf("%d rows at the most", n)
	}
}
