package acceptance

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"
)

// aligned moves the clock to the next multiple of d, and begins a minute there. The test has
// the rest of this minute, in real time, to be done with it.
func (w *world) aligned(d time.Duration) time.Time {
	w.clock.advance(time.Duration(w.clock.now().Truncate(d).Add(d).UnixNano() - w.clock.now().UnixNano()))
	w.running.server.RollMetrics()
	return w.clock.now().Truncate(d)
}

// bucketOf is the label of a bucket.
func bucketOf(at time.Time) string { return at.UTC().Format("2006-01-02T15:04:05Z") }

// between is the query of a time range.
func between(from, to time.Time) string {
	return "from=" + url.QueryEscape(from.Format(time.RFC3339Nano)) + "&to=" + url.QueryEscape(to.Format(time.RFC3339Nano))
}

var (
	aFigure = regexp.MustCompile(`"((?:avg|max)EventLoopLagMs|queenCpuUserPct|queenCpuSysPct|queenRssMb)":\d+\.\d\d`)
	aRange  = regexp.MustCompile(`"(from|to)":"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z"`)
	aLag    = regexp.MustCompile(`"(avg|max)LagMs":\d+`)
)

// figures is a body without what no test can know. Labels of buckets stay.
func (a answer) figures() string {
	b := aFigure.ReplaceAllString(string(a.body), `"$1":F`)
	b = aLag.ReplaceAllString(b, `"${1}LagMs":L`)
	return aRange.ReplaceAllString(anID.ReplaceAllString(b, `"id"`), `"$1":"T"`)
}

func (w *world) wantFigures(target, want string) {
	w.t.Helper()
	if a := w.call("GET", target, ""); a.status != http.StatusOK || a.figures() != want {
		w.t.Errorf("GET %s\n got %d %s\nwant 200 %s", target, a.status, a.figures(), want)
	}
}

// seriesRoutes are those that take a time.
var seriesRoutes = []string{
	"status", "status/analytics", "analytics/queue-lag", "analytics/queue-ops", "analytics/queue-parked-replicas", "analytics/retention",
	"analytics/system-metrics", "analytics/worker-metrics", "analytics/workload",
}

const noRange = `"timeRange":{"from":"T","to":"T"},"bucketMinutes":1`

func TestG120StatusOfNothing(t *testing.T) {
	w := open(t)
	at := w.aligned(time.Minute)
	a := w.call("GET", "/api/v1/status?"+between(at, at.Add(time.Minute)), "")
	const want = `{` + noRange + `,"pointCount":1,"throughput":[{"timestamp":"B","ingested":0,"processed":0,"popMessages":0,` +
		`"ingestedPerSecond":0.00,"processedPerSecond":0.00,"popPerSecond":0.00,"avgLagMs":null,"maxLagMs":null,"avgEventLoopLagMs":F,"maxEventLoopLagMs":F,` +
		`"minFreeSlots":0,"dbErrors":0,"ackFailed":0,"dlqCount":0,"queenCpuUserPct":F,"queenCpuSysPct":F,"queenRssMb":F,"dbPoolActive":null,"dbPoolIdle":null,"dbPoolSize":null}],` +
		`"queues":[],"messages":{"total":0,"pending":0,"processing":0,"completed":0,"failed":0,"deadLetter":0,"requests":{"push":0,"pop":0,"ack":0},` +
		`"batchEfficiency":{"push":0.00,"pop":0.00,"ack":0.00}},"leases":{"active":0,"partitionsWithLeases":0,"totalBatchSize":0,"totalAcked":0},` +
		`"deadLetterQueue":{"totalMessages":0,"affectedPartitions":0,"topErrors":[]},` +
		`"workers":[{"hostname":"mq1","workerId":0,"avgEventLoopLagMs":F,"maxEventLoopLagMs":F,"freeSlots":0,"dbConnections":0,"jobQueueSize":0,"messagesProcessed":0}],` +
		`"errors":{"dbErrors":0,"ackFailed":0,"dlqMessages":0},"statsAge":0}`
	if got := strings.Replace(a.figures(), bucketOf(at), "B", 1); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// status is what tests read of GET /api/v1/status.
type status struct {
	BucketMinutes, PointCount int64
	Throughput                []struct {
		Timestamp                                              string
		Ingested, Processed, PopMessages, AckFailed, DLQCount  int64
		IngestedPerSecond, ProcessedPerSecond, QueenCPUUserPct float64
		AvgLagMs, MaxLagMs                                     *int64
		QueenRSSMb                                             float64
	}
	Queues []struct {
		Name                      string
		Partitions, TotalConsumed int64
	}
	Messages struct {
		Total, Pending, Processing, Completed, Failed, DeadLetter int64
		Requests                                                  map[string]int64
		BatchEfficiency                                           map[string]float64
	}
	Leases, DeadLetterQueue, Errors map[string]any
}

func (w *world) status(query string) (s status) {
	w.t.Helper()
	if err := json.Unmarshal(w.get("/api/v1/status"+query), &s); err != nil {
		w.t.Fatal(err)
	}
	return s
}

// G-121, G-122: what went through by minute, newest first; a filter narrows that and the
// queues, not the rest. G-123, G-124: the numbers are never old, and there is no pool.
func TestG121StatusOfTraffic(t *testing.T) {
	w := open(t)
	at := w.aligned(time.Hour)
	w.configureRaw(`{"queue":"q","namespace":"n","task":"t","options":{"retryLimit":0}}`)
	w.configure("empty", `{}`)
	w.queued(numbered("q", "a", "m", 5)...)
	w.queued(msg("q", "b", "x"), msg("other", "p", "y"))
	w.rolled()
	w.buried(w.ack("", w.popFrom("q", "a", "batch=1").Messages[0].as("failed")))
	w.ok(true, w.ack("", w.popFrom("q", "a", "batch=1").Messages[0].as("completed")))
	held := w.popFrom("q", "a", "batch=3")
	w.ok(false, w.ack("", held.Messages[0].as("completed")))
	w.want(w.pop("other"), "y")
	s := w.status("")
	if s.BucketMinutes != 1 || s.PointCount < 2 || s.Throughput[0].Timestamp != bucketOf(at.Add(time.Minute)) || s.Throughput[1].Timestamp != bucketOf(at) {
		t.Fatalf("points: %+v", s)
	}
	if p := s.Throughput[1]; p.Ingested != 7 || p.IngestedPerSecond != 0.12 || p.Processed != 0 || p.AvgLagMs != nil || p.QueenRSSMb < 1 {
		t.Errorf("the first minute: %+v", p)
	}
	if p := s.Throughput[0]; p.Ingested != 0 || p.Processed != 2 || p.ProcessedPerSecond != 0.03 || p.PopMessages != 6 || p.AckFailed != 1 || p.DLQCount != 1 ||
		*p.AvgLagMs < 60_000 || *p.MaxLagMs < *p.AvgLagMs {
		t.Errorf("the minute that runs: %+v", p)
	}
	if q := s.Queues; len(q) != 2 || q[0].Name+q[1].Name != "otherq" && q[0].Name+q[1].Name != "qother" {
		t.Errorf("queues: %+v", q)
	}
	m := s.Messages
	if m.Total != 7 || m.Pending != 1 || m.Processing != 3 || m.Completed != 2 || m.Failed != 1 || m.DeadLetter != 1 {
		t.Errorf("messages: %+v", m)
	}
	if fmt.Sprint(m.Requests, m.BatchEfficiency) != "map[ack:3 pop:4 push:2] map[ack:1 pop:1.5 push:3.5]" {
		t.Errorf("requests: %v, efficiency: %v", m.Requests, m.BatchEfficiency)
	}
	if got := fmt.Sprint(s.Leases, s.DeadLetterQueue, s.Errors); got != "map[active:2 partitionsWithLeases:2 totalAcked:1 totalBatchSize:4] "+
		"map[affectedPartitions:1 topErrors:[] totalMessages:1] map[ackFailed:1 dbErrors:0 dlqMessages:1]" {
		t.Errorf("leases, dead letters, errors: %s", got)
	}
	w.clock.advance(10 * time.Minute)
	if s := w.status(""); fmt.Sprint(s.Leases) != "map[active:0 partitionsWithLeases:0 totalAcked:0 totalBatchSize:0]" {
		t.Errorf("leases that have expired: %v", s.Leases)
	}
	for query, want := range map[string]string{"?queue=q": "0 2 5 1 [{q 2 3}]", "?namespace=n": "0 2 5 1 [{q 2 3}]", "?task=t&namespace=n": "0 2 5 1 [{q 2 3}]",
		"?queue=other": "0 0 1 1 [{other 1 0}]", "?queue=empty": "0 0 0 1 []", "?queue=q&task=u": "0 0 0 1 []"} {
		s := w.status(query)
		p := s.Throughput[0]
		if got := fmt.Sprint(p.Ingested, p.Processed, p.PopMessages, p.AckFailed, s.Queues); got != want || s.Messages.Total != 7 || fmt.Sprint(s.Errors) != "map[ackFailed:1 dbErrors:0 dlqMessages:1]" {
			t.Errorf("%s: %s, want %s; %+v %v", query, got, want, s.Messages, s.Errors)
		}
	}
}

// G-120: a partition in which two groups have leases counts once.
func TestG120LeasesOfTwoGroups(t *testing.T) {
	w := open(t)
	w.queued(numbered("q", "p", "m", 5)...)
	w.want(w.pop("q", "consumerGroup=g", "batch=2"), "m0", "m1")
	w.want(w.pop("q", "consumerGroup=h", "batch=3"), "m0", "m1", "m2")
	if got := fmt.Sprint(w.status("").Leases); got != "map[active:2 partitionsWithLeases:1 totalAcked:0 totalBatchSize:5]" {
		t.Error(got)
	}
}

// G-128: one point for each interval, also where nothing was stored.
func TestG128StoredByInterval(t *testing.T) {
	w := open(t)
	at := w.aligned(24 * time.Hour)
	w.configureRaw(`{"queue":"q","namespace":"n","task":"t","options":{}}`)
	w.queued(numbered("q", "p", "m", 3)...)
	w.clock.advance(2 * time.Hour)
	w.running.server.RollMetrics()
	w.queued(msg("q", "p", "later"), msg("other", "p", "x"))
	for query, want := range map[string]string{
		"": "hour 25: 22:3 24:2", "interval=decade": "hour 25: 22:3 24:2", "queue=other": "hour 25: 24:1",
		"interval=minute": "minute 1441: 1320:3 1440:2", "interval=day&namespace=n": "day 2: 1:4", "queue=none": "hour 25:",
	} {
		var a struct {
			DataPoints []struct{ Messages int }
			Interval   string
		}
		if err := json.Unmarshal(w.get("/api/v1/status/analytics?"+query), &a); err != nil {
			t.Fatal(err)
		}
		got := fmt.Sprintf("%s %d:", a.Interval, len(a.DataPoints))
		for i, p := range a.DataPoints {
			if p.Messages > 0 {
				got += fmt.Sprintf(" %d:%d", i, p.Messages)
			}
		}
		if got != want {
			t.Errorf("%q: %s, want %s", query, got, want)
		}
	}
	hours := between(at, at.Add(3*time.Hour))
	const all = `{"dataPoints":[{"timestamp":"0","messages":3},{"timestamp":"1","messages":0},{"timestamp":"2","messages":%d}],"interval":"hour","from":"T","to":"T"}`
	for query, last := range map[string]int{"": 2, "&queue=q": 1, "&namespace=n": 1, "&task=t&interval=week": 1} {
		want := fmt.Sprintf(all, last)
		for i := range 3 {
			want = strings.Replace(want, fmt.Sprintf(`"timestamp":"%d"`, i), fmt.Sprintf(`"timestamp":"%s"`, bucketOf(at.Add(time.Duration(i)*time.Hour))), 1)
		}
		w.wantFigures("/api/v1/status/analytics?"+hours+query, want)
	}
}

// G-140, G-151: a time that makes no sense is refused by each route; an empty broker has
// empty series.
func TestG140Times(t *testing.T) {
	w := open(t)
	future := w.clock.now().Add(time.Hour)
	for _, route := range seriesRoutes {
		for query, want := range map[string]string{
			"?from=soon":                         "invalid timestamp: soon",
			"?to=2026-13-01":                     "invalid timestamp: 2026-13-01",
			"?from=2026-02-01&to=2026-01-01":     "from is not before to",
			"?from=0001-01-01&to=2026-01-01":     "from and to are more than 20000 points apart",
			"?" + between(future, future.Add(1)): "from is in the future",
		} {
			w.expect("GET", "/api/v1/"+route+query, "", 400, fmt.Sprintf(`{"error":%q}`, want))
		}
	}
	w.expect("GET", "/api/v1/analytics/queue-lag", "", 200, "[]")
	w.wantFigures("/api/v1/analytics/queue-ops", `{`+noRange+`,"series":[],"queues":[]}`)
	w.wantFigures("/api/v1/analytics/queue-parked-replicas", `{`+noRange+`,"series":[],"replicas":[]}`)
	const none = `"retentionMsgs":0,"completedRetentionMsgs":0,"evictionMsgs":0,"totalMsgs":0,"eventCount":0`
	w.wantFigures("/api/v1/analytics/retention", `{`+noRange+`,"series":[],"totals":{`+none+`}}`)
	w.wantFigures("/api/v1/analytics/retention?groupBy=task", `{`+noRange+`,"series":[],"totals":{`+none+`},"rows":[]}`)
	w.expect("GET", "/api/v1/analytics/retention?groupBy=color", "", 400, `{"error":"bad groupBy"}`)
}

// ops is a row of queue-ops.
func ops(bucket time.Time, queue, counts, partitions, lags, rates string) string {
	var text strings.Builder
	fmt.Fprintf(&text, `{"bucket":"%s","queueName":"%s"`, bucketOf(bucket), queue)
	for i, name := range []string{"pushRequests", "pushMessages", "popMessages", "popEmpty", "ackRequests", "ackSuccess", "ackFailed", "transactions", "partitionsCreated", "partitionsDeleted"} {
		fmt.Fprintf(&text, `,"%s":%s`, name, strings.Fields(counts)[i])
	}
	fmt.Fprintf(&text, `,"partitionCount":%s,"avgLagMs":%s,"maxLagMs":%s`, partitions, lags, lags)
	for i, name := range []string{"pushPerSecond", "popPerSecond", "ackPerSecond", "emptyPerSecond", "parkedCount"} {
		fmt.Fprintf(&text, `,"%s":%s`, name, strings.Fields(rates)[i])
	}
	return text.String() + "}"
}

// G-142: what queues had, by minute, oldest first. A restart loses nothing of it, and a queue
// that was deleted is gone. G-151: the minute that runs is there as well.
func TestG142QueueOps(t *testing.T) {
	w := open(t)
	at := w.aligned(time.Hour)
	hour := between(at, at.Add(time.Hour))
	w.configure("q", `{"retryLimit":0}`)
	w.queued(numbered("q", "a", "m", 3)...)
	w.queued(msg("q", "b", "x"), msg("also", "p", "y"))
	first := ops(at, "also", "1 1 0 0 0 0 0 0 1 0", "1", "null", "0.02 0.00 0.00 0.00 0.00") + "," +
		ops(at, "q", "2 4 0 0 0 0 0 0 2 0", "2", "null", "0.07 0.00 0.00 0.00 0.00")
	w.wantFigures("/api/v1/analytics/queue-ops?"+hour, `{`+noRange+`,"series":[`+first+`],"queues":["also","q"]}`)
	w.rolled()
	w.buried(w.ack("", w.popFrom("q", "a", "batch=1").Messages[0].as("failed")))
	w.ackAll("", w.popFrom("q", "a", "batch=2"))
	w.restart()
	w.committedRaw(`{"operations":[{"type":"push","items":[{"queue":"q","partition":"c","payload":1}]}]}`)
	w.ackAll("", w.popFrom("q", "b"))
	w.nothing(w.popFrom("q", "b"))
	second := ops(at.Add(time.Minute), "q", "0 1 4 1 3 3 1 1 1 0", "3", "L", "0.02 0.07 0.07 0.02 0.00")
	w.wantFigures("/api/v1/analytics/queue-ops?"+hour, `{`+noRange+`,"series":[`+first+`,`+second+`],"queues":["also","q"]}`)
	w.rolled()
	w.wantFigures("/api/v1/analytics/queue-ops?"+hour+"&queue=q",
		`{`+noRange+`,"series":[`+strings.Replace(first, ops(at, "also", "1 1 0 0 0 0 0 0 1 0", "1", "null", "0.02 0.00 0.00 0.00 0.00")+",", "", 1)+`,`+second+`],"queues":["q"]}`)
	// A bucket of five minutes has both, and the rates that follow from its width.
	w.wantFigures("/api/v1/analytics/queue-ops?"+between(at, at.Add(2*time.Hour))+"&queue=q",
		`{"timeRange":{"from":"T","to":"T"},"bucketMinutes":5,"series":[`+ops(at, "q", "2 5 4 1 3 3 1 1 3 0", "3", "L", "0.02 0.01 0.01 0.00 0.00")+`],"queues":["q"]}`)
	w.deleteQueue("q")
	w.queued(msg("q", "p", "anew"))
	w.wantFigures("/api/v1/analytics/queue-ops?"+hour+"&queue=q",
		`{`+noRange+`,"series":[`+ops(at.Add(2*time.Minute), "q", "1 1 0 0 0 0 0 0 1 0", "1", "null", "0.02 0.00 0.00 0.00 0.00")+`],"queues":["q"]}`)
}

// G-141: the lag of a bucket is that of its messages, however they came in minutes; there is
// none without them.
func TestG141QueueLag(t *testing.T) {
	w := open(t)
	at := w.aligned(time.Hour)
	w.queued(numbered("q", "p", "m", 5)...)
	w.queued(msg("also", "p", "x"))
	w.rolled()
	w.want(w.pop("q", "autoAck=true", "batch=1"), "m0") // a minute old
	w.rolled()
	w.want(w.pop("q", "autoAck=true", "batch=3"), "m1", "m2", "m3") // two
	rows := func(query string) (rows []lagRow) {
		if err := json.Unmarshal(w.get("/api/v1/analytics/queue-lag?"+query), &rows); err != nil {
			t.Fatal(err)
		}
		return rows
	}
	got := rows(between(at, at.Add(time.Hour)))
	if len(got) != 4 || got[0].QueueName != "q" || got[0].BucketTime != bucketOf(at.Add(2*time.Minute)) || got[1].BucketTime != bucketOf(at.Add(time.Minute)) ||
		got[2].QueueName != "also" || got[3].QueueName != "q" || got[3].BucketTime != bucketOf(at) || got[3].AvgLagMs != nil || got[3].MaxLagMs != nil || got[0].PopCount != 3 {
		t.Fatalf("by minute: %+v", got)
	}
	got = rows(between(at, at.Add(2*time.Hour)) + "&queue=q")
	if len(got) != 1 || got[0].PopCount != 4 || got[0].BucketMinutes != 5 {
		t.Fatalf("by five minutes: %+v", got)
	}
	// 60 s and three times 120 s.
	const tolerance = 30_000
	if avg, most := *got[0].AvgLagMs, *got[0].MaxLagMs; avg < 105_000 || avg > 105_000+tolerance || most < 120_000 || most > 120_000+tolerance {
		t.Errorf("lag %d, at most %d", avg, most)
	}
	w.rolled()
	w.wantFigures("/api/v1/analytics/queue-lag?"+between(at, at.Add(time.Second))+"&queue=also",
		`[{"queueName":"also","popCount":0,"avgLagMs":null,"maxLagMs":null,"bucketMinutes":1,"bucketTime":"`+bucketOf(at)+`"}]`)
}

type lagRow struct {
	QueueName, BucketTime   string
	PopCount, BucketMinutes int64
	AvgLagMs, MaxLagMs      *int64
}

// G-143: pops that wait, on the average of the minutes.
func TestG143ParkedPops(t *testing.T) {
	w := open(t)
	at := w.aligned(time.Hour)
	w.queued(msg("busy", "p", "x"))
	w.nothing(w.pop("q"))
	var polls sync.WaitGroup
	for range 3 {
		polls.Go(func() { w.pop("q", "wait=true", "timeout=60000000") })
	}
	w.parked(3)
	await(t, "the polls in the series", func() bool {
		return strings.Contains(string(w.get("/api/v1/analytics/queue-parked-replicas")), `"parkedCount":3.00`)
	})
	w.rolled()
	w.running.broker.StopWaiting()
	polls.Wait()
	w.rolled()
	row := func(count string) string {
		return `[{"bucket":"` + bucketOf(at) + `","queueName":"q","hostname":"mq1","workerId":0,"parkedCount":` + count + `}],"replicas":[{"hostname":"mq1","workerId":0}]}`
	}
	w.wantFigures("/api/v1/analytics/queue-parked-replicas?"+between(at, at.Add(time.Hour)), `{`+noRange+`,"series":`+row("3.00"))
	w.wantFigures("/api/v1/analytics/queue-parked-replicas?"+between(at, at.Add(time.Hour))+"&queue=busy", `{`+noRange+`,"series":[],"replicas":[]}`)
	var a struct {
		Series []struct{ ParkedCount float64 }
	}
	if err := json.Unmarshal(w.get("/api/v1/analytics/queue-parked-replicas?"+between(at, at.Add(2*time.Hour))), &a); err != nil {
		t.Fatal(err)
	}
	if len(a.Series) != 1 || a.Series[0].ParkedCount < 1 || a.Series[0].ParkedCount > 2 {
		t.Errorf("three for one minute of two: %+v", a)
	}
}

// G-144: what rules have taken, by rule, minute and label.
func TestG144Retention(t *testing.T) {
	w := open(t)
	at := w.aligned(time.Hour)
	for _, q := range []string{
		`{"queue":"aged","namespace":"n","task":"t","options":{"retentionEnabled":true,"retentionSeconds":10}}`,
		`{"queue":"evicted","namespace":"n","options":{"maxWaitTimeSeconds":10}}`,
		`{"queue":"done","options":{"retentionEnabled":true,"completedRetentionSeconds":10}}`,
	} {
		w.configureRaw(q)
	}
	w.queued(numbered("aged", "p", "m", 4)...)
	w.queued(numbered("evicted", "p", "m", 2)...)
	w.queued(numbered("done", "p", "m", 1)...)
	w.queued(msg("calm", "p", "m"))
	w.ackAll("", w.pop("done"))
	w.clock.advance(20 * time.Second)
	w.running.broker.Retain()
	w.rolled()
	w.queued(msg("aged", "p", "n"))
	w.clock.advance(20 * time.Second)
	w.running.broker.Retain()
	sums := func(age, done, evicted, events int) string {
		return fmt.Sprintf(`"retentionMsgs":%d,"completedRetentionMsgs":%d,"evictionMsgs":%d,"totalMsgs":%d,"eventCount":%d`, age, done, evicted, age+done+evicted, events)
	}
	point := func(minutes int, sums string) string {
		return `{"bucket":"` + bucketOf(at.Add(time.Duration(minutes)*time.Minute)) + `",` + sums + `}`
	}
	hour := between(at, at.Add(time.Hour))
	all := `{` + noRange + `,"series":[` + point(0, sums(4, 1, 2, 3)) + `,` + point(1, sums(1, 0, 0, 1)) + `],"totals":{` + sums(5, 1, 2, 4) + `}`
	w.wantFigures("/api/v1/analytics/retention?"+hour, all+"}")
	row := func(key string, queues int, sums string) string {
		return fmt.Sprintf(`{"key":"%s","queues":%d,%s}`, key, queues, sums)
	}
	for by, rows := range map[string]string{
		"namespace": row("n", 2, sums(5, 0, 2, 3)) + "," + row("", 1, sums(0, 1, 0, 1)),
		"task":      row("t", 1, sums(5, 0, 0, 2)) + "," + row("", 2, sums(0, 1, 2, 2)),
		"queue":     row("aged", 1, sums(5, 0, 0, 2)) + "," + row("evicted", 1, sums(0, 0, 2, 1)) + "," + row("done", 1, sums(0, 1, 0, 1)),
	} {
		w.wantFigures("/api/v1/analytics/retention?"+hour+"&groupBy="+by, all+`,"rows":[`+rows+`]}`)
	}
	w.restart()
	w.wantFigures("/api/v1/analytics/retention?"+hour+"&queue=evicted",
		`{`+noRange+`,"series":[`+point(0, sums(0, 0, 2, 1))+`],"totals":{`+sums(0, 0, 2, 1)+`}}`)
}

// G-151: what is old is told in wider buckets, and nothing of it is lost, over restarts and
// what they leave in between.
func TestG151OldSeries(t *testing.T) {
	w := open(t)
	at := w.aligned(24 * time.Hour)
	w.queued(numbered("q", "p", "m", 3)...)
	w.rolled()
	w.restart()
	w.queued(msg("q", "p", "n"))
	w.want(w.pop("q", "autoAck=true", "batch=2"), "m0", "m1")
	wide := func(minutes int) {
		t.Helper()
		for range 4 { // each is a chance to fold a file
			w.rolled()
		}
		want := fmt.Sprintf(`{"timeRange":{"from":"T","to":"T"},"bucketMinutes":%d,"series":[`, minutes)
		if minutes == 1 {
			want += ops(at, "q", "1 3 0 0 0 0 0 0 1 0", "1", "null", "0.05 0.00 0.00 0.00 0.00") + "," + ops(at.Add(time.Minute), "q", "1 1 2 0 0 0 0 0 0 0", "1", "L", "0.02 0.03 0.00 0.00 0.00")
		} else {
			want += ops(at, "q", "2 4 2 0 0 0 0 0 1 0", "1", "L", "0.00 0.00 0.00 0.00 0.00")
		}
		w.wantFigures("/api/v1/analytics/queue-ops?"+between(at.Add(time.Second), at.Add(50*time.Minute)), want+`],"queues":["q"]}`)
	}
	wide(1)
	w.clock.advance(24 * time.Hour)
	wide(1)
	w.clock.advance(24 * time.Hour)
	wide(15)
	w.restart()
	wide(15)
	w.clock.advance(8 * 24 * time.Hour)
	wide(60)
	w.crash()
	wide(60)
	if s := w.status(""); s.Messages.Total != 4 || s.Messages.Requests["push"] != 2 {
		t.Errorf("totals: %+v", s.Messages)
	}
}
