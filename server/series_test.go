package server

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/skepmq/skep/broker"
	"github.com/skepmq/skep/server/codec"
	"github.com/skepmq/skep/server/history"
)

// many is a broker with so many queues, named by number, each of which stores a message with
// each look at it.
func many(n int, tenant broker.Tenant) *fake {
	f := newFake()
	for i := range n {
		q := broker.QueueTraffic{ID: queueID(i), Tenant: tenant, Name: fmt.Sprintf("q%06d", i), Namespace: "n"}
		f.traffic = append(f.traffic, q)
	}
	return f
}

func queueID(i int) uuid.UUID { return uuid.UUID{byte(i >> 16), byte(i >> 8), byte(i), 1} }

// keptFor makes a log in which each queue of f stores so many messages in each minute from start
// on.
func keptFor(t *testing.T, f *fake, start time.Time, minutes int) (dir string) {
	t.Helper()
	dir = t.TempDir()
	l := history.New(history.Options{Dir: dir, Retention: time.Hour})
	for i := range minutes {
		m := history.Minute{StartMs: start.Add(time.Duration(i) * time.Minute).UnixMilli(), LengthMs: minuteMs}
		for _, q := range f.traffic {
			had := history.Queue{ID: q.ID, Name: q.Name, Parked: 1, Partitions: int64(i)}
			had.Traffic[broker.PushedMessages] = 1
			m.Queues = append(m.Queues, had)
		}
		l.Append(&m)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	return dir
}

// Series of very many queues have wider buckets, and what is too much even so is refused.
func TestSeriesAreBounded(t *testing.T) {
	now := time.Date(2026, 8, 1, 12, 0, 30, 0, time.UTC)
	for _, tt := range []struct {
		queues, minutes int
		want            string // parts of the answer, with commas
	}{
		{10, 60, `"bucketMinutes":1,|{"bucket":"2026-08-01T11:59:00Z","queueName":"q000009",|"pushMessages":1,|"partitionCount":59,|"pushPerSecond":0.02,|"parkedCount":1.00}`},
		{300, 20, `"bucketMinutes":15,|{"bucket":"2026-08-01T11:45:00Z","queueName":"q000299",|"pushMessages":15,|"partitionCount":19,|"pushPerSecond":0.02,|"parkedCount":1.00}`},
		{1001, 1, `{"error":"too many queues for one answer: name one, or a shorter time"}`},
	} {
		f := many(tt.queues, broker.DefaultTenant)
		begin := now.Truncate(time.Minute).Add(-time.Duration(tt.minutes) * time.Minute)
		ln := newMemoryListener()
		s := start(t, ln, f, Options{MetricsDir: keptFor(t, f, begin, tt.minutes), Now: func() time.Time { return now }})
		s.maxRows = 1000
		c := memoryClient(t, ln)
		_, body, _ := call(t, c, "GET", "/api/v1/analytics/queue-ops", "")
		for _, part := range strings.Split(tt.want, "|") {
			if !strings.Contains(body, part) {
				t.Errorf("%d queues, %d minutes: no %s in %.300s … %.300s", tt.queues, tt.minutes, part, body, body[max(len(body)-300, 0):])
			}
		}
	}
}

// Series are of the queues of one tenant; the queues of others do not exist.
func TestSeriesOfATenant(t *testing.T) {
	now := time.Date(2026, 8, 1, 12, 0, 30, 0, time.UTC)
	own, foreign := many(1, broker.DefaultTenant), many(2, broker.Tenant{7})
	own.traffic = append(own.traffic, foreign.traffic[1])
	own.traffic[1].Name = own.traffic[0].Name
	dir := keptFor(t, own, now.Add(-10*time.Minute), 3)
	c := startMemory(t, own, Options{MetricsDir: dir, Now: func() time.Time { return now }})
	for target, want := range map[string]string{
		"analytics/queue-lag":               `"queueName":"q000000"`,
		"analytics/queue-ops?queue=q000000": `"pushMessages":1`,
		"analytics/queue-parked-replicas":   `"parkedCount":1.00`,
		"status/analytics?interval=minute":  `"messages":1}`,
		"status?queue=q000000":              `"ingested":1`,
	} {
		_, body, _ := call(t, c, "GET", "/api/v1/"+target, "")
		if n := strings.Count(body, want); n != 3 {
			t.Errorf("%s: %d times %s: %s", target, n, want, body)
		}
	}
}

// A minute that ends while a walk is on its way is in it once, and a range ends where it says.
func TestG151MinuteEndsDuringAWalk(t *testing.T) {
	now := time.Date(2026, 8, 1, 12, 0, 30, 0, time.UTC)
	f := many(1, broker.DefaultTenant)
	f.traffic[0].Traffic[broker.PushedMessages] = 5
	s := New(Options{Broker: f, MetricsDir: t.TempDir(), Now: func() time.Time { return now }})
	defer shutDown(t, s)
	r := &request{server: s, broker: f}
	messages := func(w *walk) (n, minutes int64) {
		for m := range w.minutes() {
			minutes++
			for had := range w.had(m) {
				n += had.Traffic[broker.PushedMessages]
			}
		}
		return n, minutes
	}
	hour := func() timeRange {
		return timeRange{fromMs: now.Add(-time.Hour).UnixMilli(), toMs: now.UnixMilli(), widthMs: minuteMs}
	}
	var q codec.Values
	now = now.Add(time.Second)
	early := r.walk(hour(), filters{&q}, &broker.DefaultTenant)
	now = now.Add(time.Minute)
	s.RollMetrics()
	for name, w := range map[string]*walk{"begun before": early, "begun behind": r.walk(hour(), filters{&q}, nil)} {
		if n, minutes := messages(w); n != 5 || name == "begun before" && minutes != 1 || name == "begun behind" && minutes != 2 {
			t.Errorf("%s: %d messages in %d minutes", name, n, minutes)
		}
	}
	for range early.minutes() {
		break
	}
	now = now.Add(time.Hour)
	past := timeRange{fromMs: now.Add(-2 * time.Hour).UnixMilli(), toMs: now.Add(-time.Hour).Truncate(time.Minute).UnixMilli(), widthMs: minuteMs}
	if n, minutes := messages(r.walk(past, filters{&q}, nil)); n != 5 || minutes != 1 {
		t.Errorf("of a time that is over: %d messages in %d minutes", n, minutes)
	}
}

// Minutes add up in any order: a clock that was set back leaves later files with earlier names.
func TestBucketsMerge(t *testing.T) {
	early, late := bucket{maxLagMs: 9, parkedMs: 10, partitions: 2, endMs: 100}, bucket{maxLagMs: 5, parkedMs: 30, partitions: 1, endMs: 200}
	early.Traffic[broker.LagMs], late.Traffic[broker.LagMs] = 3, 4
	want := bucket{maxLagMs: 9, parkedMs: 40, partitions: 1, endMs: 200}
	want.Traffic[broker.LagMs] = 7
	for _, order := range [][]bucket{{early, late}, {late, early}} {
		var sum bucket
		for i := range order {
			sum.merge(&order[i])
		}
		if sum != want {
			t.Errorf("got %+v, want %+v", sum, want)
		}
	}
}
