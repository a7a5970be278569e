package server

import (
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/skepmq/skep/broker"
	"github.com/skepmq/skep/log/journal"
)

// G-111: what cannot be told is left out, and the answer is 200 all the same.
func TestG111MetricsOfPart(t *testing.T) {
	f := newFake()
	f.err = errors.New("the groups cannot be listed")
	f.traffic = []broker.QueueTraffic{{Name: "a\xff", DeadLetters: 1}, {Name: "a\xfe", DeadLetters: 2}}
	c := startMemory(t, f, Options{})
	status, body, _ := rawCall(t, c, "GET", "/metrics/prometheus")
	if status != 200 || strings.Contains(body, "queen_group_lag") || !strings.Contains(body, "\nqueen_leases 0\n") {
		t.Errorf("%d %s", status, body)
	}
	if n := strings.Count(body, `queen_dlq_depth_by_queue{queue="a�"}`); n != 1 {
		t.Errorf("%d lines of two queues that look alike, want 1 of them", n)
	}
}

// While the broker recovers there are the metrics of the process.
func TestG110MetricsWithoutBroker(t *testing.T) {
	c := startMemory(t, nil, Options{})
	status, body, header := rawCall(t, c, "GET", "/metrics/prometheus")
	if status != 200 || !strings.Contains(body, "\nqueen_ready 0\n") || !strings.Contains(body, "# TYPE queen_uptime_seconds gauge\n") ||
		strings.Contains(body, "queen_queues") {
		t.Errorf("%d %s", status, body)
	}
	if got := header.Get("Content-Type"); got != string(textType) {
		t.Errorf("Content-Type %q", got)
	}
	if status, body, _ = rawCall(t, c, "GET", "/metrics"); status != 200 || !strings.HasPrefix(body, `{"uptime":`) {
		t.Errorf("%d %s", status, body)
	}
}

// G-110: names of queues are labels, whatever is in them.
func TestG110LabelsAreEscaped(t *testing.T) {
	f := newFake()
	f.traffic = []broker.QueueTraffic{{Name: "a\"b\\c\nd", Damaged: 3}}
	c := startMemory(t, f, Options{})
	_, body, _ := rawCall(t, c, "GET", "/metrics/prometheus")
	if want := `queen_damaged_partitions_by_queue{queue="a\"b\\c\nd"} 3`; !strings.Contains(body, want) {
		t.Errorf("no %s in %s", want, body)
	}
}

// Lags are found anew when they are old, and when that takes its time less often.
func TestLagsAreKept(t *testing.T) {
	f := newFake()
	now := time.Unix(1000, 0)
	s := New(Options{Broker: f, Now: func() time.Time { return now }})
	for _, step := range []struct {
		wait time.Duration
		cost time.Duration
		want int
	}{
		{0, 0, 1}, {time.Second, 0, 1}, {time.Second, 0, 3}, {2 * time.Second, time.Second, 3}, {97 * time.Second, time.Second, 3},
		{time.Second, time.Second, 6},
	} {
		now = now.Add(step.wait)
		s.lags.cost = max(s.lags.cost, step.cost)
		f.groups = append(f.groups, broker.GroupInfo{Name: "g", Queue: strconv.Itoa(len(f.groups))})
		if groups, count, _, err := s.lags.top(s, f); err != nil || len(groups) != step.want || count != step.want {
			t.Errorf("after %v: %d groups of %d, %v, want %d", step.wait, len(groups), count, err, step.want)
		}
	}
}

func TestQuantile(t *testing.T) {
	var c journal.SyncCounts
	if got := c.Quantile(0.5); got != 0 {
		t.Errorf("of nothing: %v", got)
	}
	for _, d := range []time.Duration{90 * time.Microsecond, 100 * time.Microsecond, 101 * time.Microsecond, time.Hour} {
		c[journal.SyncBucket(d)]++
	}
	for q, want := range map[float64]time.Duration{0.01: 100 * time.Microsecond, 0.5: 100 * time.Microsecond, 0.75: 200 * time.Microsecond, 1: 10 * time.Second} {
		if got := c.Quantile(q); got != want {
			t.Errorf("quantile %v: %v, want %v", q, got, want)
		}
	}
}
