package acceptance

import (
	"strings"
	"testing"
	"time"
)

// G-113: what of a request is committed counts for its operation, whoever shares the commit.
func TestG113Batches(t *testing.T) {
	w := open(t)
	for _, op := range []string{"push", "pop", "ack", "transaction"} {
		w.wantMetrics(map[string]float64{
			`queen_batches_fired_total{op="` + op + `"}`: 0, `queen_batch_items_fired_total{op="` + op + `"}`: 0,
			`queen_fusion_items_per_batch{op="` + op + `"}`: 0, `queen_batch_rtt_milliseconds{op="` + op + `",quantile="0.5"}`: 0,
		})
	}
	w.queued(msg("q", "a", "m0"), msg("q", "a", "m1"), msg("q", "b", "n0")) // two partitions, one commit
	w.queued(msg("q", "a", "m2"))
	w.want(w.pop("q", "autoAck=true", "batch=1"), "m0")
	w.ackAll("g", w.pop("q", "consumerGroup=g", "batch=3", "partitions=1")) // the lease and the ack of one partition
	w.committedRaw(`{"operations":[{"type":"push","items":[{"queue":"other","payload":1}]}]}`)
	v := w.scrape()
	for name, want := range map[string]float64{
		`queen_batches_fired_total{op="push"}`: 2, `queen_batch_items_fired_total{op="push"}`: 3,
		`queen_fusion_items_per_batch{op="push"}`: 1.5,
		`queen_batch_items_fired_total{op="pop"}`: 2,
		`queen_batches_fired_total{op="ack"}`:     1, `queen_batch_items_fired_total{op="ack"}`: 1,
		`queen_batches_fired_total{op="transaction"}`: 1, `queen_batch_items_fired_total{op="transaction"}`: 1,
	} {
		if v[name] != want {
			t.Errorf("%s: got %v, want %v", name, v[name], want)
		}
	}
	for _, op := range []string{"push", "pop", "ack", "transaction"} {
		p50, p99 := v[`queen_batch_rtt_milliseconds{op="`+op+`",quantile="0.5"}`], v[`queen_batch_rtt_milliseconds{op="`+op+`",quantile="0.99"}`]
		if p50 <= 0 || p99 < p50 {
			t.Errorf("%s: %v ms, %v ms", op, p50, p99)
		}
	}
}

// G-113: pops by what they ask for.
func TestG113PopPaths(t *testing.T) {
	w := open(t)
	w.queued(msg("q", "p", "m0"), msg("q", "p", "m1"))
	w.want(w.popFrom("q", "p", "batch=1", "autoAck=true"), "m0")
	w.want(w.pop("q", "autoAck=true"), "m1")
	w.nothing(w.pop("q"))
	w.nothing(w.discover("namespace=n"))
	w.nothing(w.popFrom("q", "other"))
	w.wantMetrics(map[string]float64{"queen_pop_targeted_total": 2, "queen_pop_wildcard_total": 3, "queen_pop_fill_wait_total": 0})
}

// G-113: a pop that is held counts once, and the time it is held, however often it looks.
func TestG113FillWait(t *testing.T) {
	w := open(t)
	w.configure("q", `{"minPopWaitTime":60000}`)
	w.queued(msg("q", "p", "a"))
	got := later(func() *popAnswer { return w.pop("q", patient(3)...) })
	await(t, "the hold in the metrics", func() bool { return w.scrape()["queen_pop_fill_wait_total"] == 1 })
	w.clock.advance(5 * time.Second)
	w.queued(msg("q", "p", "b"))
	w.queued(msg("q", "p", "c"))
	w.want(<-got, "a", "b", "c")
	v := w.scrape()
	if us := v["queen_pop_fill_wait_microseconds_total"]; v["queen_pop_fill_wait_total"] != 1 || us < 5e6 || us > 60e6 {
		t.Errorf("%v pops held for %v us", v["queen_pop_fill_wait_total"], us)
	}
}

// G-113: errors that the broker goes on after are counted, also over a restart.
func TestG113StoreErrors(t *testing.T) {
	w := open(t, eagerCheckpoints)
	w.queued(msg("q", "bad", "rotten-apple"), msg("q", "good", "m0"))
	w.filed("rotten-apple")
	w.spoil("rotten-apple")
	errors := `queen_cluster_db_errors_total{scope="cluster"}`
	w.wantMetrics(map[string]float64{errors: 0})
	w.expect("GET", "/api/v1/pop/queue/q/partition/bad", "", 500, `{"error":"partition damaged","code":"partition_damaged"}`)
	w.wantMetrics(map[string]float64{errors: 1})
	w.restart()
	w.wantMetrics(map[string]float64{errors: 1})
	if a := w.call("GET", "/api/v1/status", ""); strings.Count(string(a.body), `"dbErrors":1,`) != 2 {
		t.Errorf("status: %s", a.body)
	}
}
