package server

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/skepmq/skep/broker"
	"github.com/skepmq/skep/server/history"
)

// G-148: each counter stands under its name, parked pops are an average of the time there are
// records of, and what others had is nobody's.
func TestG148Counters(t *testing.T) {
	now := time.Date(2026, 8, 1, 12, 0, 0, 0, time.UTC)
	f := many(2, broker.DefaultTenant)
	f.traffic[1].Tenant = broker.Tenant{7}
	f.queues = []broker.QueueInfo{{ID: queueID(0), Name: "q000000", RetainedBytes: 5, Groups: 3}}
	l := history.New(history.Options{Dir: t.TempDir(), Retention: time.Hour})
	for i, lengthMs := range []int64{30_000, 60_000} {
		m := history.Minute{StartMs: now.Add(time.Duration(i-2) * time.Minute).UnixMilli(), LengthMs: lengthMs}
		for _, q := range f.traffic {
			had := history.Queue{ID: q.ID, Name: q.Name, Parked: int64(i), MaxLagMs: 99}
			for c := range had.Traffic {
				had.Traffic[c] = int64(100 + c + 1000*i)
			}
			m.Queues = append(m.Queues, had)
		}
		l.Append(&m)
	}
	ln := newMemoryListener()
	s := start(t, ln, f, Options{Now: func() time.Time { return now }})
	s.history = l
	_, body, _ := call(t, memoryClient(t, ln), "GET", "/api/v1/analytics/workload?from=2026-08-01T11:57:00Z&to=2026-08-01T12:00:00Z", "")
	sum := func(c broker.Counter) int64 { return int64(1200 + 2*c) }
	window := fmt.Sprintf(`"window":{"pushMessages":%d,"pushRequests":%d,"popMessages":%d,"popEmpty":%d,"ackRequests":%d,"ackSuccess":%d,"ackFailed":%d,"transactions":%d,`+
		`"conflated":%d,"partitionsCreated":%d,"partitionsDeleted":%d,"parkedAvg":0.67,"avgLagMs":1,"maxLagMs":99}`,
		sum(broker.PushedMessages), sum(broker.PushRequests), sum(broker.PoppedMessages), sum(broker.EmptyPops), sum(broker.AckRequests), sum(broker.AckedMessages),
		sum(broker.FailedAcks), sum(broker.Transactions), sum(broker.Conflated), sum(broker.PartitionsCreated), sum(broker.PartitionsRemoved))
	const series = `"series":{"push":[null,101,1101],"pop":[null,103,1103],"popEmpty":[null,104,1104],"ackFailed":[null,107,1107],"parked":[null,0.00,1.00],"avgLagMs":[null,1,1],"maxLagMs":[null,99,99]}`
	const state = `"now":{"pending":0,"processing":0,"deadLetter":0,"retainedBytes":5,"partitions":0,"groups":3,"queuesWithoutGroup":0,"pendingWithoutGroup":0,"queuesTouched":1,"queuesActive":0}}`
	row := `"queues":1,` + window + `,` + series + `,` + state
	want := `{"timeRange":{"from":"2026-08-01T11:57:00.000Z","to":"2026-08-01T12:00:00.000Z"},"bucketMinutes":1,"groupBy":"namespace",` +
		`"buckets":["2026-08-01T11:57:00Z","2026-08-01T11:58:00Z","2026-08-01T11:59:00Z"],"rows":[{"key":"n",` + row + `],"tenant":{` + row + `}`
	if body != want {
		t.Errorf("got  %s\nwant %s", body, want)
	}
}

// R8: where rows and buckets are too many for an answer, buckets get wider, and what is too
// much even so is refused.
func TestWorkloadIsBounded(t *testing.T) {
	now := time.Date(2026, 8, 1, 12, 0, 0, 0, time.UTC)
	for _, tt := range []struct {
		queues, name int // and how long the names are
		query, want  string
	}{
		{3, 0, "from=2026-07-31", `"bucketMinutes":60,`},
		{60, 0, "from=2013-01-01", `"bucketMinutes":1440,`},
		{1200, 60_000, "", `{"error":"too many queues for one answer: name one, or a shorter time"}`},
		{1200, 60_000, "task=t", `"bucketMinutes":1,`},
	} {
		f := many(tt.queues, broker.DefaultTenant)
		f.traffic[0].Task = "t"
		for i := range f.traffic {
			f.traffic[i].Name += strings.Repeat("x", tt.name)
			f.queues = append(f.queues, broker.QueueInfo{ID: f.traffic[i].ID})
		}
		c := startMemory(t, f, Options{Now: func() time.Time { return now }})
		if _, body, _ := call(t, c, "GET", "/api/v1/analytics/workload?groupBy=queue&"+tt.query, ""); !strings.Contains(body, tt.want) {
			t.Errorf("%d queues, %s: no %s in %.300s", tt.queues, tt.query, tt.want, body)
		}
	}
}
