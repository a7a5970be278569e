package server

import (
	"strings"
	"testing"
	"time"

	"github.com/skepmq/skep/broker"
	"github.com/skepmq/skep/server/history"
)

// G-146: errors of the store are of no queue, so a filter leaves them, as in the status.
func TestG146StorageErrors(t *testing.T) {
	now := time.Date(2026, 8, 1, 12, 0, 30, 0, time.UTC)
	dir := t.TempDir()
	l := history.New(history.Options{Dir: dir, Retention: time.Hour})
	for i := range 3 {
		m := history.Minute{StartMs: now.Add(time.Duration(i-9) * time.Minute).UnixMilli(), LengthMs: minuteMs}
		m.Traffic[broker.StorageErrors] = int64(i)
		l.Append(&m)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	c := startMemory(t, many(1, broker.DefaultTenant), Options{MetricsDir: dir, Now: func() time.Time { return now }})
	for _, target := range []string{"analytics/worker-metrics", "analytics/worker-metrics?queue=q000000", "status"} {
		_, body, _ := call(t, c, "GET", "/api/v1/"+target, "")
		total := `"totalDbErrors":3`
		if target == "status" {
			total = `"errors":{"dbErrors":3,`
		}
		for _, want := range []string{`"dbErrors":1,`, `"dbErrors":2,`, total} {
			if !strings.Contains(body, want) {
				t.Errorf("%s: no %s in %s", target, want, body)
			}
		}
	}
}
