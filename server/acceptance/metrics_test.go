package acceptance

import (
	"bufio"
	"bytes"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/skepmq/skep/log/fsck"
)

// scrape reads the metrics: the value of each line, by its name and labels.
func (w *world) scrape() map[string]float64 {
	w.t.Helper()
	a := w.call("GET", "/metrics/prometheus", "")
	if a.status != http.StatusOK || a.header.Get("Content-Type") != metricsType || a.header.Get("Cache-Control") != "no-cache" {
		w.t.Fatalf("metrics: %d %v", a.status, a.header)
	}
	values := map[string]float64{}
	for lines := bufio.NewScanner(bytes.NewReader(a.body)); lines.Scan(); {
		line := lines.Text()
		if strings.HasPrefix(line, "#") {
			continue
		}
		at := strings.LastIndexByte(line, ' ')
		v, err := strconv.ParseFloat(line[at+1:], 64)
		if err != nil {
			w.t.Fatalf("metrics: %q: %v", line, err)
		}
		values[line[:at]] = v
	}
	return values
}

// wantMetrics compares some values; -1 stands for a line that is not there.
func (w *world) wantMetrics(want map[string]float64) {
	w.t.Helper()
	got := w.scrape()
	for name, v := range want {
		g, ok := got[name]
		if !ok {
			g = -1
		}
		if g != v {
			w.t.Errorf("%s: got %v, want %v", name, g, v)
		}
	}
}

// rolled ends the minute of the metrics.
func (w *world) rolled() {
	w.clock.advance(time.Minute)
	w.running.server.RollMetrics()
}

func TestG104MetricsAsJSON(t *testing.T) {
	w := open(t)
	w.queued(numbered("q", "p", "m", 3)...)
	w.ackAll("", w.pop("q"))
	var m struct {
		Uptime             *int64
		Requests, Messages struct{ Total, Rate int64 }
		Database           struct{ PoolSize, IdleConnections, WaitingRequests *int64 }
		Storage            struct{ Queues, Partitions, Fsyncs, Bytes int64 }
		Memory             struct{ RSS, HeapTotal, HeapUsed int64 }
		CPU                struct{ User, System *int64 }
	}
	if err := json.Unmarshal(w.call("GET", "/metrics", "").body, &m); err != nil {
		t.Fatal(err)
	}
	if m.Uptime == nil || m.Requests.Total != 3 || m.Messages.Total != 9 || m.Database.PoolSize == nil || m.CPU.User == nil {
		t.Errorf("metrics: %+v", m)
	}
	if s := m.Storage; s.Queues != 1 || s.Partitions != 1 || s.Fsyncs == 0 || s.Bytes == 0 || m.Memory.RSS == 0 || m.Memory.HeapUsed == 0 {
		t.Errorf("metrics: %+v", m)
	}
}

// G-113: what is counted, and when. Counters begin anew with the process.
func TestG112CountersOfTheProcess(t *testing.T) {
	w := open(t)
	w.configure("q", `{"retryLimit":0}`)
	ids := w.queued(numbered("q", "p", "m", 4)...)
	w.wantDuplicate(msg("q", "p", "m0"), ids[0])
	p := w.pop("q", "batch=2")
	w.ackAll("", p)
	w.buried(w.ack("", w.pop("q", "batch=1").Messages[0].as("failed")))
	w.nothing(w.pop("empty"))
	w.committedRaw(`{"operations":[{"type":"push","items":[{"queue":"other","payload":1}]}]}`)
	w.want(w.pop("q", "autoAck=true"), "m3")
	w.wantMetrics(map[string]float64{
		"queen_process_push_requests_total":                          2,
		"queen_process_push_messages_total":                          5,
		"queen_process_pop_requests_total":                           4,
		"queen_process_pop_messages_total":                           4,
		"queen_process_pop_empty_total":                              1,
		"queen_process_ack_requests_total":                           2,
		"queen_process_ack_messages_total":                           2,
		"queen_process_ack_failed_total":                             1,
		"queen_process_transactions_total":                           1,
		"queen_process_dlq_total":                                    1,
		`queen_dlq_depth{scope="cluster"}`:                           1,
		`queen_dlq_depth_by_queue{queue="q"}`:                        1,
		`queen_dlq_depth_by_queue{queue="other"}`:                    -1,
		"queen_queues":                                               3,
		"queen_ready":                                                1,
		"queen_damaged_partitions":                                   0,
		`queen_http_requests_total{op="push",code="201"}`:            -1, // labels are sorted
		`queen_http_requests_total{code="201",op="push"}`:            2,
		`queen_http_requests_total{code="204",op="pop"}`:             1,
		`queen_group_lag_messages{group="__QUEUE_MODE__",queue="q"}`: 0,
		`queen_store_fsync_total`:                                    w.scrape()["queen_store_fsync_total"],
	})
	if v := w.scrape(); v["queen_store_fsync_total"] == 0 || v["queen_disk_free_bytes"] == 0 || v[`queen_store_recovery_seconds{phase="total"}`] == 0 ||
		v[`queen_store_bytes{kind="journal"}`] == 0 || v["queen_process_resident_memory_bytes"] == 0 {
		t.Errorf("metrics: %v", v)
	}
	w.restart()
	w.wantMetrics(map[string]float64{
		"queen_process_push_messages_total": 0, "queen_process_pop_requests_total": 0,
		`queen_dlq_depth_by_queue{queue="q"}`: 1,
	})
}

// A request that no route takes, and one that is refused, are counted as such.
func TestG113RequestsByStatus(t *testing.T) {
	w := open(t)
	w.call("GET", "/api/v1/nothing", "")
	w.call("POST", "/api/v1/push", "{")
	w.wantMetrics(map[string]float64{
		`queen_http_requests_total{code="404",op="none"}`: 1, `queen_http_requests_total{code="400",op="push"}`: 1,
	})
}

// G-113: a poll is counted where it waits, once, and no longer than it waits.
func TestG113ParkedPolls(t *testing.T) {
	w := open(t)
	w.nothing(w.pop("q"))
	var polls sync.WaitGroup
	polls.Go(func() { w.pop("q", "wait=true", "timeout=60000") })
	polls.Go(func() { w.discover("namespace=n", "wait=true", "timeout=60000") })
	w.parked(2)
	await(t, "the poll in the metrics", func() bool { return w.scrape()[`queen_parked_long_polls{queue="q"}`] == 1 })
	w.wantMetrics(map[string]float64{`queen_parked_long_polls{queue="q"}`: 1, `queen_parked_long_polls{queue=""}`: 1})
	w.running.broker.StopWaiting()
	polls.Wait()
	w.wantMetrics(map[string]float64{`queen_parked_long_polls{queue="q"}`: -1, `queen_parked_long_polls{queue=""}`: 0})
}

// G-114: the newest minute of a queue is shown for five. The minute that runs is shown as
// long as there is no other.
func TestG114NewestMinuteOfAQueue(t *testing.T) {
	w := open(t)
	w.queued(numbered("q", "p", "m", 3)...)
	w.clock.advance(2 * time.Second)
	w.want(w.pop("q", "batch=2"), "m0", "m1")
	pushed, popped := `queen_queue_push_messages_per_minute{queue="q"}`, `queen_queue_pop_messages_per_minute{queue="q"}`
	w.wantMetrics(map[string]float64{pushed: 3, popped: 2})
	if v := w.scrape(); v[`queen_queue_pop_lag_milliseconds{queue="q",stat="avg"}`] < 2000 || v[`queen_queue_pop_lag_milliseconds{queue="q",stat="max"}`] < 2000 {
		t.Errorf("age at delivery: %v", v)
	}
	w.rolled()
	w.wantMetrics(map[string]float64{pushed: 3, popped: 2})
	w.queued(msg("q", "p", "m3"))
	w.wantMetrics(map[string]float64{pushed: 3}) // that minute still runs
	w.rolled()
	w.wantMetrics(map[string]float64{pushed: 1, popped: 0, `queen_queue_pop_lag_milliseconds{queue="q",stat="max"}`: -1})
	w.clock.advance(4 * time.Minute)
	w.wantMetrics(map[string]float64{pushed: 1})
	w.clock.advance(time.Minute)
	w.wantMetrics(map[string]float64{pushed: -1})
}

// What retention takes is counted by its rule, and what a group had not acknowledged.
func TestG113DroppedMessages(t *testing.T) {
	w := open(t)
	w.configure("q", `{"retentionEnabled":true,"retentionSeconds":10}`)
	w.queued(numbered("q", "p", "m", 3)...)
	w.ackAll("g", w.pop("q", "consumerGroup=g", "batch=1"))
	w.clock.advance(20 * time.Second)
	w.running.broker.Retain()
	w.wantMetrics(map[string]float64{
		`queen_retention_deleted_messages_total{rule="age"}`:       3,
		`queen_retention_deleted_messages_total{rule="completed"}`: 0,
		`queen_retention_deleted_messages_total{rule="eviction"}`:  0,
		"queen_retention_evicted_unread_messages_total":            2,
	})
}

// G-113: the lag of a group is that of its list, seconds included.
func TestG113GroupLag(t *testing.T) {
	w := open(t, func(w *world) { w.server.MetricsGroups = 1 })
	w.queued(numbered("q", "p", "m", 5)...)
	w.queued(numbered("q", "p2", "n", 1)...)
	w.ackAll("near", w.pop("q", "consumerGroup=near", "batch=4"))
	w.ackAll("far", w.pop("q", "consumerGroup=far", "batch=1"))
	w.clock.advance(10 * time.Second)
	lag := `queen_group_lag_messages{group="far",queue="q"}`
	v := w.scrape()
	if far := w.depth("q", "far"); v[lag] != float64(far.Pending) || far.Pending == 0 || v[`queen_group_lag_seconds{group="far",queue="q"}`] < 10 {
		t.Errorf("lag %v of %+v", v[lag], far)
	}
	w.wantMetrics(map[string]float64{"queen_groups": 2, `queen_group_lag_messages{group="near",queue="q"}`: -1})
}

// G-113: however many queues there are, those with most have lines of their own, and what the
// others have is in no line that is lost.
func TestG113QueuesWithMost(t *testing.T) {
	w := open(t, func(w *world) { w.server.MetricsQueues = 1 })
	for _, q := range []string{"a", "b", "c"} {
		w.configure(q, `{"retryLimit":0}`)
		w.queued(numbered(q, "p", "m", map[string]int{"a": 2, "b": 5, "c": 3}[q])...)
	}
	for range 2 {
		w.buried(w.ack("", w.pop("c", "batch=1").Messages[0].as("failed")))
	}
	w.buried(w.ack("", w.pop("a", "batch=1").Messages[0].as("failed")))
	var polls sync.WaitGroup
	for _, q := range []string{"x", "x", "y"} {
		polls.Go(func() { w.pop(q, "wait=true", "timeout=60000") })
	}
	w.parked(3)
	await(t, "the polls in the metrics", func() bool { return w.scrape()[`queen_parked_long_polls{queue="x"}`] == 2 })
	for _, ended := range []bool{false, true} {
		w.wantMetrics(map[string]float64{
			`queen_parked_long_polls{queue="x"}`: 2, `queen_parked_long_polls{queue="y"}`: -1, `queen_parked_long_polls{queue=""}`: 1,
			`queen_dlq_depth{scope="cluster"}`: 3, `queen_dlq_depth_by_queue{queue="c"}`: 2, `queen_dlq_depth_by_queue{queue="a"}`: -1,
			`queen_queue_push_messages_per_minute{queue="a"}`: -1,
			`queen_queue_push_messages_per_minute{queue="b"}`: -1,
			`queen_queue_push_messages_per_minute{queue="c"}`: 3, // with its pops and acks the busiest
		})
		if !ended {
			w.rolled()
		}
	}
	w.running.broker.StopWaiting()
	polls.Wait()
}

// Totals go on after a stop, and after a kill but for the minute that ran. What is damaged or
// missing of them stops nothing.
func TestG151TotalsOutliveTheProcess(t *testing.T) {
	w := open(t)
	w.configure("q", `{"retryLimit":0}`)
	w.queued(numbered("q", "p", "m", 3)...)
	w.buried(w.ack("", w.pop("q", "batch=1").Messages[0].as("failed")))
	storeErrors := 0.0
	want := func(pushed, failed float64) {
		t.Helper()
		w.wantMetrics(map[string]float64{
			`queen_cluster_push_messages_total{scope="cluster"}`:       pushed,
			`queen_cluster_ack_total{result="failed",scope="cluster"}`: failed,
			`queen_cluster_dlq_total{scope="cluster"}`:                 failed,
			`queen_cluster_db_errors_total{scope="cluster"}`:           storeErrors,
		})
	}
	want(3, 1)
	w.restart()
	want(3, 1)
	w.queued(msg("q", "p", "kept"))
	w.rolled()
	w.queued(msg("q", "p", "lost"))
	w.crash()
	want(4, 1)
	w.stop()
	dir := filepath.Join(w.dir, fsck.MetricsName)
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(dir, []byte("in the way"), 0o600); err != nil {
		t.Fatal(err)
	}
	w.start()
	want(0, 0)
	w.queued(msg("q", "p", "on"))
	w.rolled()
	storeErrors = 1 // the minute that could not be kept
	want(1, 0)
}
