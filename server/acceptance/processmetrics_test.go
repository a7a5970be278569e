package acceptance

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"
)

var (
	aSpread = regexp.MustCompile(`\{"avg":[\d.]+,"min":[\d.]+,"max":[\d.]+,"last":[\d.]+\}`)
	unknown = `{"avg":null,"min":null,"max":null,"last":null}`
)

// G-145: one point of what is measured, in the shape for more. What nobody measures is null.
func TestG145SystemMetrics(t *testing.T) {
	w := open(t)
	at := w.aligned(time.Hour)
	w.queued(msg("q", "p", "m")) // and with it a sync
	hour := "/api/v1/analytics/system-metrics?" + between(at, at.Add(time.Hour))
	point := func(at time.Time, samples int, sync string) string {
		return fmt.Sprintf(`{"timestamp":"%s","sampleCount":%d,"metrics":{"cpu":{"user_us":L,"system_us":L},"memory":{"rss_bytes":L,"virtual_bytes":L},`+
			`"database":{"pool_size":N,"pool_idle":N,"pool_active":N},"uptime_seconds":L,"threadpool":null,"shared_state":{"enabled":false},`+
			`"storage":{"bytes":L,"segments":L,"fsync_ms":%s}}}`, bucketOf(at), samples, sync)
	}
	late := false
	want := func(target, minutes string, points ...string) {
		t.Helper()
		a := w.call("GET", target, "")
		got := strings.ReplaceAll(aSpread.ReplaceAllString(a.figures(), "L"), unknown, "N")
		if late { // whether there were syncs in a minute of nothing nobody knows
			got = strings.NewReplacer(`"fsync_ms":L`, `"fsync_ms":S`, `"fsync_ms":N`, `"fsync_ms":S`).Replace(got)
		}
		if text := fmt.Sprintf(`{"timeRange":{"from":"T","to":"T"},"bucketMinutes":%s,"pointCount":%d,"replicaCount":1,"replicas":[{"hostname":"mq1","port":null,"workerId":0,"timeSeries":[%s]}]}`,
			minutes, len(points), strings.Join(points, ",")); got != text {
			t.Errorf("%s\n got %d %s\nwant %s", target, a.status, got, text)
		}
	}
	want(hour, "1", point(at, 1, "L"))
	w.rolled()
	w.rolled()
	late = true
	minutes := []string{point(at, 1, "S"), point(at.Add(time.Minute), 1, "S"), point(at.Add(2*time.Minute), 1, "S")}
	want(hour, "1", minutes...)
	want("/api/v1/analytics/system-metrics?"+between(at, at.Add(2*time.Hour)), "5", point(at, 3, "S"))
	want(hour+"&hostname=mq1&workerId=0&queue=other", "1", minutes...)
	want(hour+"&workerId=x", "1", minutes...)
	want("/api/v1/analytics/system-metrics?"+between(at.Add(-3*time.Hour), at.Add(-2*time.Hour)), "1")
	for _, other := range []string{"&hostname=mq2", "&workerId=1", "&hostname=mq1&workerId=7"} {
		w.wantFigures(hour+other, `{`+noRange+`,"pointCount":0,"replicaCount":0,"replicas":[]}`)
	}
	var a struct {
		Replicas []struct {
			TimeSeries []struct {
				Metrics struct {
					Uptime struct{ Min, Max, Last float64 } `json:"uptime_seconds"`
				}
			}
		}
	}
	if err := json.Unmarshal(w.get("/api/v1/analytics/system-metrics?"+between(at, at.Add(2*time.Hour))), &a); err != nil {
		t.Fatal(err)
	}
	if up := a.Replicas[0].TimeSeries[0].Metrics.Uptime; up.Last < up.Min+60 || up.Max != up.Last {
		t.Errorf("uptime: %+v", up)
	}
}

func TestG145Port(t *testing.T) {
	w := open(t, onLoopback)
	if a := w.call("GET", "/api/v1/analytics/system-metrics", ""); !regexp.MustCompile(`"replicas":\[\{"hostname":"mq1","port":[1-9]\d+,"workerId":0,`).Match(a.body) {
		t.Errorf("%s", a.body)
	}
}

// worked is a point of the one worker.
func worked(at time.Time, counts, rates, lags, verdicts string) string {
	var text strings.Builder
	fmt.Fprintf(&text, `{"timestamp":"%s"`, bucketOf(at))
	for i, name := range []string{"pushMessages", "popMessages", "ackMessages", "pushRequests", "popRequests", "ackRequests", "jobsDone"} {
		fmt.Fprintf(&text, `,"%s":%s`, name, strings.Fields(counts)[i])
	}
	for i, name := range []string{"pushPerSecond", "popPerSecond", "ackPerSecond"} {
		fmt.Fprintf(&text, `,"%s":%s`, name, strings.Fields(rates)[i])
	}
	text.WriteString(`,"avgEventLoopLagMs":F,"maxEventLoopLagMs":F,"avgFreeSlots":0,"minFreeSlots":0,"dbConnections":0,"avgJobQueueSize":0,"maxJobQueueSize":0,"backoffSize":0`)
	fmt.Fprintf(&text, `,"avgLagMs":%s,"maxLagMs":%s`, lags, lags)
	for i, name := range []string{"lagCount", "dbErrors", "ackSuccess", "ackFailed", "dlqCount"} {
		fmt.Fprintf(&text, `,"%s":%s`, name, strings.Fields(verdicts)[i])
	}
	return text.String() + "}"
}

// total is the summary of the one worker.
func total(counts string) string {
	var text strings.Builder
	for i, name := range []string{"totalPushMessages", "totalPopMessages", "totalAckMessages", "totalPushRequests", "totalPopRequests", "totalAckRequests",
		"totalDbErrors", "totalAckFailed", "totalDlq", "pendingMessages"} {
		fmt.Fprintf(&text, `,"%s":%s`, name, strings.Fields(counts)[i])
	}
	return `"summary":{` + text.String()[1:] + "}"
}

// G-146: what the one worker has done, newest first. A filter narrows it to queues.
func TestG146WorkerMetrics(t *testing.T) {
	w := open(t)
	at := w.aligned(time.Hour)
	hour := "/api/v1/analytics/worker-metrics?" + between(at, at.Add(time.Hour))
	want := func(target string, points []string, processed, queues, summary string) {
		t.Helper()
		worker := ""
		if processed != "" {
			worker = `{"hostname":"mq1","workerId":0,"avgEventLoopLagMs":F,"maxEventLoopLagMs":F,"freeSlots":0,"dbConnections":0,"jobQueueSize":0,"backoffSize":0,"messagesProcessed":` + processed + `,"lastSeen":"T"}`
		}
		a := w.call("GET", target, "")
		got := regexp.MustCompile(`"lastSeen":"[^"]*"`).ReplaceAllString(a.figures(), `"lastSeen":"T"`)
		if text := fmt.Sprintf(`{%s,"pointCount":%d,"timeSeries":[%s],"workers":[%s],"queues":[%s],%s}`,
			noRange, len(points), strings.Join(points, ","), worker, queues, total(summary)); got != text {
			t.Errorf("%s\n got %d %s\nwant %s", target, a.status, got, text)
		}
	}
	quiet := func(at time.Time) string { return worked(at, "0 0 0 0 0 0 0", "0.00 0.00 0.00", "null", "0 0 0 0 0") }
	want(hour, []string{quiet(at)}, "0", "", "0 0 0 0 0 0 0 0 0 0")

	w.configure("q", `{"retryLimit":0}`)
	w.queued(numbered("q", "p", "m", 5)...)
	w.queued(msg("other", "p", "x"), msg("unread", "p", "y"))
	w.rolled()
	w.buried(w.ack("", w.pop("q", "batch=1").Messages[0].as("failed")))
	w.ackAll("", w.pop("q", "batch=2"))
	w.want(w.pop("other"), "x")
	first, second := worked(at, "7 0 0 2 0 0 2", "0.12 0.00 0.00", "null", "0 0 0 0 0"), at.Add(time.Minute)
	const q, other = `{"queueName":"q","popCount":3,"avgLagMs":L,"maxLagMs":L}`, `{"queueName":"other","popCount":1,"avgLagMs":L,"maxLagMs":L}`
	want(hour, []string{worked(second, "0 4 3 0 3 2 0", "0.00 0.07 0.05", "L", "4 0 2 1 1"), first}, "13", other+","+q, "7 4 3 2 3 2 0 1 1 3")
	want(hour+"&queue=q&hostname=mq1", []string{worked(second, "0 3 3 0 2 2 0", "0.00 0.05 0.05", "L", "3 0 2 1 1"),
		worked(at, "5 0 0 1 0 0 1", "0.08 0.00 0.00", "null", "0 0 0 0 0")}, "13", q, "5 3 3 1 2 2 0 1 1 2")
	want(hour+"&queue=none", []string{quiet(second), quiet(at)}, "13", "", "0 0 0 0 0 0 0 0 0 0")
	want(hour+"&hostname=mq2", nil, "", "", "0 0 0 0 0 0 0 0 0 3")
	want(hour+"&workerId=1", nil, "", "", "0 0 0 0 0 0 0 0 0 3")
	for range 6 {
		w.rolled()
	}
	if a := w.call("GET", hour, ""); !strings.Contains(string(a.body), `"messagesProcessed":0,`) {
		t.Errorf("six minutes later: %s", a.body)
	}
}
