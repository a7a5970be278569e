package acceptance

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"
)

// M-605, G-200 to G-202: the list, as a group lives.
func TestM605List(t *testing.T) {
	afterAgain(t, func(w *world, again func()) {
		if g := w.groups(); g == nil || len(g) != 0 {
			w.t.Errorf("groups %+v, want an empty array", g)
		}
		w.queued(msg("q", "a", "1"), msg("q", "a", "2"), msg("q", "b", "1"), msg("r", "a", "1"))
		w.clock.advance(100 * time.Second)
		w.nothing(w.pop("q", "consumerGroup=new", "subscriptionMode=new"))
		w.nothing(w.pop("r", "consumerGroup=new", "subscriptionFrom="+stamp(w.clock.now())))
		w.ackAll("all", w.popFrom("q", "a", "consumerGroup=all", "batch=1"))
		w.want(w.pop("q", "consumerGroup=all", "batch=1", "leaseSeconds=10"), "2")
		again()
		w.clock.advance(50 * time.Second)
		check := func(name, queue, mode, state string, cursors, behind int, lag, least int64) {
			w.t.Helper()
			g := w.group(name, queue)
			if g == nil {
				w.t.Fatalf("no group %s of %s among %+v", name, queue, w.groups())
			}
			if g.Cursors != cursors || g.PartitionsWithLag != behind || g.Lag != lag || g.State != state || g.LagSeconds < least || g.LagSeconds > least+100 || g.Conflation {
				w.t.Errorf("group %+v, want %d cursors, %d behind, lag %d of %d s, %s", g, cursors, behind, lag, least, state)
			}
			if (g.Mode == nil) != (mode == "") || g.Mode != nil && *g.Mode != mode || (g.Instant == nil) != (mode == "") || (g.CreatedAt == nil) != (mode == "") {
				w.t.Errorf("subscription of %+v", g)
			}
			if mode == "all" && *g.Instant != "1970-01-01T00:00:00.000Z" {
				w.t.Errorf("instant of %s: %s", name, *g.Instant)
			}
		}
		check("new", "q", "new", "Dead", 2, 0, 0, 0)
		check("new", "r", "timestamp", "Dead", 1, 0, 0, 0)
		check("all", "q", "all", "Stable", 2, 2, 2, 150)
		w.clock.advance(200 * time.Second)
		check("all", "q", "all", "Lagging", 2, 2, 2, 350)
		w.drain("all", "q")
		check("all", "q", "all", "Stable", 2, 0, 0, 0)
		w.queued(msg("q", "c", "1"))
		check("new", "q", "new", "Dead", 3, 1, 1, 0)
		w.want(w.popFrom("q", "c"), "1")
		check(queueMode, "q", "", "Lagging", 3, 3, 4, 350)
		// A group that has ever consumed has done so after a seek, and another one, too.
		for _, timestamp := range []string{"1970-01-01T00:00:00Z", "2200-01-01T00:00:00Z"} {
			w.seek("all", "q", `{"timestamp":"`+timestamp+`"}`)
			again()
		}
		check("all", "q", "all", "Stable", 3, 0, 0, 0)
		w.seek("new", "q", `{"toEnd":true}`)
		check("new", "q", "new", "Dead", 3, 0, 0, 0)
		w.deleteGroup("all", "q", "deleteMetadata=false")
		check("all", "q", "all", "Dead", 0, 0, 0, 0)
	})
}

// A lag is exact wherever the instant of a group lies, and all routes say the same.
func TestG165LagOfAnInstant(t *testing.T) {
	for _, option := range []string{"", "segments"} {
		t.Run(option, func(t *testing.T) {
			var options []func(*world)
			if option != "" {
				options = append(options, eagerCheckpoints)
			}
			w := open(t, options...)
			var between []time.Time
			for n := range 5 {
				w.queued(numbered("q", "p", fmt.Sprint("m", n, "-"), 2)...)
				w.clock.advance(100 * time.Second)
				between = append(between, w.clock.now())
				w.clock.advance(100 * time.Second)
			}
			if option != "" {
				w.filed()
			}
			for again := range 2 {
				for n, at := range between {
					group := fmt.Sprint("g", n)
					if again == 0 {
						w.seek(group, "q", since(at))
					}
					lag := int64(8 - 2*n)
					oldest := int64(0)
					if lag > 0 {
						oldest = int64(200 * (4 - n))
					}
					if d := w.depth("q", group); d.Pending != lag || d.PartitionsPending != min(lag, 1) {
						t.Errorf("depth %+v, want %d", d, lag)
					}
					g := w.group(group, "q")
					if g.Lag != lag || g.LagSeconds < oldest || g.LagSeconds > oldest+150 {
						t.Errorf("group %+v, want %d, %d s", g, lag, oldest)
					}
					d := w.groupDetail(group)["q"]
					if len(d.Partitions) != 1 || d.Partitions[0].Lag != lag || d.Partitions[0].LagSeconds < g.LagSeconds || d.Partitions[0].LagSeconds > oldest+150 {
						t.Errorf("detail %+v, want %d, %d s", d, lag, g.LagSeconds)
					}
				}
				if pending := w.queue("q").Totals.Pending; pending != 8 {
					t.Errorf("pending %d", pending)
				}
				for n := range 4 {
					rows := w.lagging("minLagSeconds=" + fmt.Sprint(200*(3-n)+150))
					if len(rows) != n+1 || rows[0].Group != "g0" {
						t.Errorf("lagging over %d: %+v", 200*(3-n)+150, rows)
					}
				}
				w.restart()
			}
		})
	}
}

// M-606, G-203: who is behind, worst first.
func TestM606Lagging(t *testing.T) {
	afterAgain(t, func(w *world, again func()) {
		w.queued(msg("q", "old", "1"), msg("q", "old", "2"))
		w.clock.advance(7316 * time.Second)
		w.queued(msg("q", "young", "1"))
		w.clock.advance(100 * time.Second)
		p := w.popFrom("q", "young", "consumerGroup=g", "leaseSeconds=1000")
		w.popFrom("q", "old", "consumerGroup=g", "batch=1", "autoAck=true")
		again()
		rows := w.lagging("minLagSeconds=60")
		if len(rows) != 2 || rows[0].Partition != "old" || rows[1].Partition != "young" {
			w.t.Fatalf("rows %+v", rows)
		}
		old, young := rows[0], rows[1]
		if old.Group != "g" || old.Queue != "q" || old.Lag != 1 || old.LagSeconds < 7416 || old.LagSeconds > 7516 || math.Abs(old.LagHours-float64(old.LagSeconds)/3600) > 0.006 ||
			old.Worker != nil || old.LastConsumed == nil || !uuidPattern.MatchString(old.PartitionID) || !millisPattern.MatchString(old.Oldest) {
			w.t.Errorf("%+v", old)
		}
		if young.Lag != 1 || young.Worker == nil || *young.Worker != p.LeaseID || young.LastConsumed != nil || young.PartitionID != p.PartitionID {
			w.t.Errorf("%+v", young)
		}
		for params, want := range map[string]int{"": 1, "minLagSeconds=9000": 0, "minLagSeconds=0": 2, "minLagSeconds=0&limit=1": 1, "limit=0": 0, "minLagSeconds=x": 1} {
			if got := w.lagging(strings.FieldsFunc(params, func(r rune) bool { return r == '&' })...); got == nil || len(got) != want {
				w.t.Errorf("%q: %d rows, want %d", params, len(got), want)
			}
		}
	})
}

// G-205, G-206: one group in detail.
func TestG205Detail(t *testing.T) {
	afterAgain(t, func(w *world, again func()) {
		w.expect("GET", "/api/v1/consumer-groups/nobody", "", 200, `{}`)
		for p := range 3 {
			w.queued(numbered("q", fmt.Sprint(p), "m", 3)...)
		}
		w.queued(msg("r", "p", "1"))
		p := w.popFrom("q", "1", "consumerGroup=g", "leaseSeconds=1000")
		w.ok(false, w.ack("g", p.Messages[1].as("completed")))
		again()
		d := w.groupDetail("g")
		if len(d) != 1 || d["q"].Count != 1 || len(d["q"].Partitions) != 1 {
			w.t.Fatalf("detail %+v", d)
		}
		if x := d["q"].Partitions[0]; x.Partition != "1" || x.Worker == nil || *x.Worker != p.LeaseID || !x.LeaseActive || x.Consumed != 2 || x.LastConsumed == nil || x.Lag != 1 {
			w.t.Errorf("%+v", x)
		}
		w.clock.advance(1001 * time.Second)
		if x := w.groupDetail("g")["q"].Partitions[0]; x.LeaseActive || x.Worker != nil || x.LagSeconds < 1001 {
			w.t.Errorf("after the lease: %+v", x)
		}
		// From the first pop by name on it is everywhere.
		w.want(w.pop("q", "consumerGroup=g", "batch=1", "autoAck=true"), "m0")
		w.want(w.pop("r", "consumerGroup=g"), "1")
		d = w.groupDetail("g")
		if len(d) != 2 || d["q"].Count != 3 || d["q"].Truncated || d["r"].Count != 1 {
			w.t.Errorf("detail %+v", d)
		}
		var names []string
		for _, x := range d["q"].Partitions {
			names = append(names, x.Partition)
		}
		if !slices.Equal(names, []string{"0", "1", "2"}) {
			w.t.Errorf("partitions %v", names)
		}
		d = w.groupDetail("g", "partitionLimit=1", "partitionOffset=1")
		if x := d["q"]; x.Count != 3 || !x.Truncated || len(x.Partitions) != 1 || x.Partitions[0].Partition != "1" {
			w.t.Errorf("cut: %+v", d)
		}
	})
}

// M-533, G-166: the depth of one group.
func TestG166DepthOfAGroup(t *testing.T) {
	w := open(t)
	w.expect("GET", "/api/v1/resources/queues/q/depth?group=g", "", 404, `{"error":"Queue not found"}`)
	w.queued(numbered("q", "a", "m", 4)...)
	w.nothing(w.pop("q", "consumerGroup=new", "subscriptionMode=new"))
	w.queued(numbered("q", "b", "m", 4)...)
	want := func(group string, pending, processing, partitions int64) {
		t.Helper()
		d := w.depth("q", group)
		if d.Pending != pending || d.Processing != processing || d.PartitionsPending != partitions ||
			d.EffectivePending != pending || d.EffectiveReady != pending-processing || d.Conflation || d.Group == nil || *d.Group != group {
			t.Errorf("depth of %s: %+v, want %d pending, %d processing, %d partitions", group, d, pending, processing, partitions)
		}
	}
	want("nobody", 8, 0, 2)
	want("new", 4, 0, 1)
	p := w.popFrom("q", "a", "consumerGroup=g", "batch=3")
	want("g", 8, 3, 2)
	w.ok(false, w.ack("g", p.Messages[0].as("completed")))
	want("g", 7, 2, 2)
	w.lapse()
	want("g", 7, 0, 2)
	w.drain("g", "q")
	want("g", 0, 0, 0)
	if d := w.depth("q", ""); d.Pending != 4 {
		t.Errorf("the slowest group: %+v", d)
	}
	w.drain("new", "q")
	if d := w.depth("q", ""); d.Pending != 0 {
		t.Errorf("the slowest group: %+v", d)
	}
	w.restart()
	want("g", 0, 0, 0)
	want("nobody", 8, 0, 2)
}

// M-603, G-216 to G-218: a deleted group is gone, and one of its name starts over.
func TestM603Delete(t *testing.T) {
	afterAgain(t, func(w *world, again func()) {
		for _, queue := range []string{"q", "r"} {
			w.queued(msg(queue, "a", "1"), msg(queue, "b", "1"))
			w.drain("g", queue)
			w.drain("other", queue)
		}
		w.queued(msg("q", "a", "2"))
		old := w.want(w.popFrom("q", "a", "consumerGroup=g"), "2")
		if d := w.deleteGroup("g", "nope"); d.Deleted != 0 || !d.Metadata {
			w.t.Errorf("%+v", d)
		}
		if d := w.deleteGroup("g", "q"); d.Deleted != 2 || !d.Metadata {
			w.t.Errorf("%+v", d)
		}
		for range 2 {
			w.refused(w.ack("g", old.Messages[0].as("completed")), consumerNotFound)
			w.refused(w.ack("g", old.Messages[0].as("completed").leaseless()), consumerNotFound)
			if e := w.extend(old.LeaseID, ""); e.Renewed != 0 {
				w.t.Errorf("renewed %d", e.Renewed)
			}
			if w.group("g", "q") != nil || w.group("g", "r") == nil {
				w.t.Errorf("groups %+v", w.groups())
			}
			again()
		}
		w.nothing(w.pop("r", "consumerGroup=g"))
		w.nothing(w.popFrom("q", "b", "consumerGroup=other"))
		w.nothing(w.pop("q", "consumerGroup=g", "subscriptionMode=new")) // another policy this time
		w.queued(msg("q", "b", "2"))
		sameSet(w.t, "new", w.drain("g", "q"), "2")
		if d := w.deleteGroup("g", ""); d.Deleted != 4 || !d.Metadata {
			w.t.Errorf("%+v", d)
		}
		again()
		if w.group("g", "q") != nil || w.group("g", "r") != nil {
			w.t.Errorf("groups %+v", w.groups())
		}
		if d := w.deleteGroup("g", ""); d.Deleted != 0 {
			w.t.Errorf("again: %+v", d)
		}
		sameSet(w.t, "all of q", w.drain("g", "q"), "1", "1", "2", "2")
		sameSet(w.t, "all of r", w.drain("g", "r"), "1", "1")
		sameSet(w.t, "other", w.drain("other", "q"), "2", "2")
	})
}

// G-218, D-27: the registration may stay, and decides where the group begins again.
func TestM603KeepMetadata(t *testing.T) {
	afterAgain(t, func(w *world, again func()) {
		w.queued(msg("q", "a", "old"))
		w.nothing(w.pop("q", "consumerGroup=new", "subscriptionMode=new"))
		w.drain("all", "q")
		w.queued(msg("q", "a", "young"), msg("q", "b", "young"))
		lease := w.want(w.popFrom("q", "a", "consumerGroup=new"), "young")
		created := *w.group("new", "q").CreatedAt
		for _, group := range []string{"new", "all"} {
			if d := w.deleteGroup(group, "", "deleteMetadata=false"); d.Deleted != 2 || d.Metadata {
				w.t.Errorf("%+v", d)
			}
		}
		for range 2 {
			// Until its next pop it has no cursors.
			w.refused(w.ack("new", lease.Messages[0].as("completed")), consumerNotFound)
			w.refused(w.ack("new", lease.Messages[0].as("completed").leaseless()), consumerNotFound)
			if g := w.group("new", "q"); g == nil || g.Cursors != 0 || *g.Mode != "new" || *g.CreatedAt != created {
				w.t.Errorf("group %+v", g)
			}
			if d := w.groupDetail("new"); len(d) != 0 {
				w.t.Errorf("detail %+v", d)
			}
			again()
		}
		w.want(w.popFrom("q", "b", "consumerGroup=new", "subscriptionMode=all"), "young")
		w.refused(w.ack("new", lease.Messages[0].as("completed")), consumerNotFound)
		w.lapse()
		// What was stored before its registration does not come, whatever the pop asks for.
		sameSet(w.t, "new", w.drain("new", "q", "subscriptionMode=all"), "young", "young")
		sameSet(w.t, "all", w.drain("all", "q", "subscriptionMode=new"), "old", "young", "young")
		again()
		w.nothing(w.pop("q", "consumerGroup=new"))
		w.nothing(w.pop("q", "consumerGroup=all"))
		w.queued(msg("q", "c", "later"))
		sameSet(w.t, "new", w.drain("new", "q"), "later")
	})
}

// Queue mode is a group like others, under its name.
func TestM603QueueMode(t *testing.T) {
	w := open(t)
	w.queued(msg("q", "a", "1"), msg("q", "b", "1"))
	w.drain("", "q")
	if d := w.deleteGroup(queueMode, "q", "deleteMetadata=false"); d.Deleted != 2 || d.Metadata {
		t.Errorf("%+v", d)
	}
	sameSet(t, "again", w.drain("", "q"), "1", "1")
	w.seek(queueMode, "q", toBegin)
	w.restart()
	sameSet(t, "and again", w.drain("", "q"), "1", "1")
}

// Dead letters of a deleted group stay, under its name.
func TestM603DeadLettersStay(t *testing.T) {
	afterAgain(t, func(w *world, again func()) {
		w.queued(msg("q", "p", "a"))
		w.buried(w.ack("g", w.popFrom("q", "p", "consumerGroup=g").Messages[0].as("dlq").because("no")))
		w.deleteGroup("g", "")
		again()
		if d := w.deadLetters("consumerGroup=g"); len(d) != 1 || d[0].Group != "g" || d[0].Error != "no" {
			w.t.Errorf("%+v", d)
		}
		w.want(w.popFrom("q", "p", "consumerGroup=g"), "a")
	})
}

// M-604, G-207, G-208: the stored instant decides about partitions to come alone.
func TestM604Subscription(t *testing.T) {
	afterAgain(t, func(w *world, again func()) {
		w.queued(msg("q", "a", "a1"), msg("r", "a", "a1"))
		w.drain("g", "q")
		w.nothing(w.pop("r", "consumerGroup=g", "subscriptionMode=new"))
		w.queued(msg("q", "b", "b1"), msg("r", "b", "b1")) // not touched yet
		w.clock.advance(10 * time.Second)
		first := w.clock.now()
		if m := w.moveSubscription("g", first.Add(100*time.Second)); m.Rows != 2 {
			w.t.Errorf("%+v", m)
		}
		if m := w.moveSubscription("nobody", first); m.Rows != 0 {
			w.t.Errorf("%+v", m)
		}
		again()
		for _, queue := range []string{"q", "r"} {
			if g := w.group("g", queue); *g.Instant != stamp(first.Add(100*time.Second)) || *g.Mode != "timestamp" || g.Lag != 1 {
				w.t.Errorf("group %+v", g)
			}
		}
		w.queued(msg("q", "c", "c1"), msg("q", "a", "a2"), msg("r", "a", "a2"))
		sameSet(w.t, "q", w.drain("g", "q"), "b1", "a2")
		sameSet(w.t, "r", w.drain("g", "r"), "b1", "a2")
		w.clock.advance(200 * time.Second)
		w.queued(msg("q", "c", "c2"))
		sameSet(w.t, "after the instant", w.drain("g", "q"), "c2")

		// Again, with two generations of partitions that it has not touched.
		w.seek("g", "q", toBegin)
		w.queued(msg("q", "d", "d1"))
		w.moveSubscription("g", w.clock.now().Add(1000*time.Second))
		again()
		w.queued(msg("q", "e", "e1"))
		sameSet(w.t, "at last", w.drain("g", "q"), "a1", "a2", "b1", "c1", "c2", "d1")
		again()
		w.nothing(w.pop("q", "consumerGroup=g"))
	})
}

func TestM604Refusals(t *testing.T) {
	w := open(t)
	const target = "/api/v1/consumer-groups/g/subscription"
	const required = `{"error":"subscriptionTimestamp is required"}`
	for body, want := range map[string]string{
		"": required, "{}": required, `{"subscriptionTimestamp":""}`: required, `{"subscriptionTimestamp":null}`: required, `{"subscriptionTimestamp":5}`: required,
		`{"subscriptionTimestamp":"now"}`: `{"error":"invalid timestamp: now"}`,
		`{"subscriptionTimestamp"`:        `{"error":"bad body: unexpected end at byte 24"}`,
	} {
		w.expect("POST", target, body, 400, want)
	}
	w.expect("POST", target, `{"subscriptionTimestamp":"2026-07-30T08:00:00Z"}`, 200,
		`{"success":true,"consumerGroup":"g","newTimestamp":"2026-07-30T08:00:00Z","rowsUpdated":0}`)
}
