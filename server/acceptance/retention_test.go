package acceptance

import (
	"encoding/json"
	"fmt"
	"net/http"
	"testing"
	"time"
)

// retaining lets a cycle of retention follow another at once.
func retaining(w *world) { w.broker.RetentionInterval = time.Millisecond }

// retainingAgain is afterAgain with retention at work.
func retainingAgain(t *testing.T, run func(w *world, again func())) {
	for name, row := range comebacks {
		t.Run(name, func(t *testing.T) {
			w := open(t, row.option, retaining)
			w.queued(msg("kept", "p", "kept")) // for those who wait for a segment
			run(w, func() { row.again(w) })
		})
	}
}

// total waits until a queue retains n messages.
func (w *world) total(queue string, n int64) {
	w.t.Helper()
	await(w.t, fmt.Sprintf("%q to retain %d messages", queue, n), func() bool { return w.queue(queue).Totals.Total == n })
}

// cycle returns when a whole cycle of retention has passed: another queue has lost its
// message twice, so there is one between.
func (w *world) cycle() {
	w.t.Helper()
	w.configure("hourglass", `{"maxWaitTimeSeconds":1}`)
	for range 2 {
		w.queued(msg("hourglass", "", ""))
		w.clock.advance(1100 * time.Millisecond)
		w.total("hourglass", 0)
	}
}

// after moves the clock and lets retention see it.
func (w *world) after(d time.Duration) {
	w.t.Helper()
	w.clock.advance(d)
	w.cycle()
}

func TestM550NothingIsDroppedByDefault(t *testing.T) {
	for name, options := range map[string]string{
		"no options":             `{}`,
		"not enabled, M-552":     `{"retentionSeconds":5,"completedRetentionSeconds":5}`,
		"enabled without window": `{"retentionEnabled":true,"retentionSeconds":0,"completedRetentionSeconds":-3,"maxWaitTimeSeconds":-1}`,
		"ttl and maxSize, M-558": `{"ttl":1,"maxSize":1,"retentionEnabled":true}`,
	} {
		t.Run(name, func(t *testing.T) {
			w := open(t, retaining)
			w.configure("q", options)
			w.queued(numbered("q", "p", "m", 5)...)
			w.ackAll("g", w.popFrom("q", "p", "consumerGroup=g"))
			w.after(1000 * 24 * time.Hour)
			w.want(w.popFrom("q", "p", "consumerGroup=other"), "m0", "m1", "m2", "m3", "m4")
		})
	}
}

func TestM552AgeRule(t *testing.T) {
	retainingAgain(t, func(w *world, again func()) {
		w.configure("q", `{"retentionEnabled":true,"retentionSeconds":1000}`)
		w.queued(numbered("q", "p", "old", 4)...)
		w.queued(numbered("q", "gone", "old", 4)...)
		w.ackAll("g", w.popFrom("q", "p", "consumerGroup=g", "batch=2"))
		w.clock.advance(600 * time.Second)
		w.queued(numbered("q", "p", "new", 3)...)
		w.clock.advance(300 * time.Second)
		again()
		w.want(w.popFrom("q", "p", "consumerGroup=early", "batch=1"), "old0")
		w.clock.advance(101 * time.Second)
		w.total("q", 3)
		w.want(w.popFrom("q", "p", "consumerGroup=g"), "new0", "new1", "new2") // M-556
		w.want(w.popFrom("q", "p", "consumerGroup=late"), "new0", "new1", "new2")
		w.nothing(w.popFrom("q", "gone", "consumerGroup=late"))
		again()
		w.total("q", 3)
		w.queued(msg("q", "gone", "next"))
		w.want(w.popFrom("q", "gone", "consumerGroup=last"), "next")
		w.want(w.popFrom("q", "p", "consumerGroup=last", "batch=1"), "new0")
	})
}

// offsets pushes and returns the offsets that the answer tells.
func (w *world) offsets(items ...item) (offsets []int64) {
	w.t.Helper()
	body, err := json.Marshal(map[string]any{"items": items})
	if err != nil {
		w.t.Fatal(err)
	}
	a := w.call("POST", "/api/v1/push", string(body))
	for _, r := range decodeLoose[[]struct{ Offset int64 }](w.t, a.body) {
		offsets = append(offsets, r.Offset)
	}
	return offsets
}

func decodeLoose[T any](t testing.TB, b []byte) (v T) {
	t.Helper()
	if err := json.Unmarshal(b, &v); err != nil {
		t.Fatalf("%v: %s", err, b)
	}
	return v
}

func TestM556OffsetsAreNotReused(t *testing.T) {
	retainingAgain(t, func(w *world, again func()) {
		w.server.DeliveryDetails = true
		w.restart()
		w.configure("q", `{"maxWaitTimeSeconds":10}`)
		for round := range int64(3) {
			if got := w.offsets(numbered("q", "p", fmt.Sprint("r", round), 4)...); got[0] != 4*round || got[3] != 4*round+3 {
				w.t.Fatalf("round %d: offsets %v", round, got)
			}
			w.clock.advance(11 * time.Second)
			w.total("q", 0)
			again()
			w.total("q", 0)
		}
	})
}

func TestM553CompletedRule(t *testing.T) {
	const options = `{"retentionEnabled":true,"completedRetentionSeconds":10}`
	drain := func(w *world, group string, n int, params ...string) {
		params = append(params, "consumerGroup="+group, fmt.Sprint("batch=", n))
		w.ackAll(group, w.popFrom("q", "p", params...))
	}
	for name, row := range map[string]struct {
		consume func(w *world)
		left    int64
	}{
		"no group":                    {func(w *world) {}, 9},
		"all done":                    {func(w *world) { drain(w, "g", 9) }, 0},
		"the slowest of two":          {func(w *world) { drain(w, "g", 9); drain(w, "h", 6) }, 3},
		"within a push, rounded down": {func(w *world) { drain(w, "g", 7) }, 3},
		"within the first push":       {func(w *world) { drain(w, "g", 2) }, 9},
		"at the edge of a push":       {func(w *world) { drain(w, "g", 3) }, 6},
		"leased is not done":          {func(w *world) { w.popFrom("q", "p") }, 9},
		"without a name":              {func(w *world) { w.ackAll("", w.popFrom("q", "p", "batch=3")) }, 6},
		"autoAck":                     {func(w *world) { w.popFrom("q", "p", "batch=6", "autoAck=true") }, 3},
		"registered, was never here": {func(w *world) {
			drain(w, "g", 9)
			w.popFrom("q", "x", "consumerGroup=h")
			w.pop("q", "consumerGroup=idle")
		}, 9},
		"without a name, was elsewhere": {func(w *world) { drain(w, "g", 9); w.ackAll("", w.popFrom("q", "x")) }, 9},
		"new, behind everything":        {func(w *world) { drain(w, "g", 9); w.nothing(w.pop("q", "consumerGroup=h", "subscriptionMode=new")) }, 0},
		"new, and then something came": {func(w *world) {
			w.nothing(w.pop("q", "consumerGroup=h", "subscriptionMode=new"))
			w.queued(msg("q", "p", "z"))
		}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			w := open(t, retaining)
			w.configure("q", options)
			w.queued(msg("q", "x", "x"))
			for _, push := range []string{"a", "b", "c"} {
				w.queued(numbered("q", "p", push, 3)...)
				w.clock.advance(10 * time.Millisecond)
			}
			row.consume(w)
			w.after(11 * time.Second)
			got := w.queue("q")
			for _, p := range got.Partitions {
				if p.Name == "p" && p.Stats.Total != row.left {
					t.Errorf("%d messages are left, want %d", p.Stats.Total, row.left)
				}
			}
		})
	}
}

// What a slow group holds goes when it has caught up, and when it is told otherwise.
func TestM553SlowGroupCatchesUp(t *testing.T) {
	retainingAgain(t, func(w *world, again func()) {
		w.configure("q", `{"retentionEnabled":true,"completedRetentionSeconds":10}`)
		w.queued(numbered("q", "p", "m", 4)...)
		w.ackAll("fast", w.popFrom("q", "p", "consumerGroup=fast"))
		w.nothing(w.popFrom("q", "p", "consumerGroup=fast"))
		p := w.popFrom("q", "p", "consumerGroup=slow", "leaseSeconds=100000")
		w.after(time.Hour)
		again()
		w.after(time.Minute)
		w.total("q", 4)
		w.ackAll("slow", p)
		w.after(10 * time.Minute)
		w.total("q", 0)
	})
}

// What was dropped behind every group stays dropped when one comes that would have held it,
// or goes back, and the rules are applied anew.
func TestM553DroppedStaysDropped(t *testing.T) {
	for name, behind := range map[string]func(w *world){
		"a new group": func(w *world) { w.nothing(w.pop("q", "consumerGroup=late", "subscriptionMode=all")) },
		"a seek":      func(w *world) { w.seek("g", "q", `{"timestamp":"1970-01-01T00:00:00Z"}`) },
	} {
		t.Run(name, func(t *testing.T) {
			retainingAgain(t, func(w *world, again func()) {
				w.configure("q", `{"retentionEnabled":true,"completedRetentionSeconds":10}`)
				w.queued(numbered("q", "p", "m", 4)...)
				w.ackAll("g", w.pop("q", "consumerGroup=g"))
				w.after(time.Minute)
				w.total("q", 0)
				behind(w)
				again()
				w.total("q", 0)
				w.nothing(w.pop("q", "consumerGroup=late", "subscriptionMode=all"))
				w.nothing(w.pop("q", "consumerGroup=g"))
			})
		})
	}
}

func TestM554Eviction(t *testing.T) {
	for _, enabled := range []string{"true", "false"} {
		t.Run("retentionEnabled "+enabled, func(t *testing.T) {
			w := open(t, retaining)
			w.configure("q", `{"retentionEnabled":`+enabled+`,"maxWaitTimeSeconds":30}`)
			w.queued(numbered("q", "p", "m", 6)...)
			leased := w.popFrom("q", "p", "consumerGroup=g", "batch=4", "leaseSeconds=1000")
			other := w.popFrom("q", "p", "batch=2", "leaseSeconds=1000")
			w.after(31 * time.Second)
			w.total("q", 0)
			if d := w.queue("q").Totals; d.Pending != 0 || d.Processing != 0 {
				t.Errorf("totals %+v", d)
			}
			w.queued(msg("q", "p", "next"))
			w.nothing(w.popFrom("q", "p", "consumerGroup=g")) // the lease is live
			w.ok(false, w.ack("g", leased.Messages[1].as("completed")))
			w.ok(true, w.ack("g", leased.Messages[3].as("completed")))
			w.want(w.popFrom("q", "p", "consumerGroup=g"), "next")
			w.ok(true, w.ack("", other.Messages[0].as("failed")))
			w.want(w.popFrom("q", "p"), "next")
			if got := w.buriedIDs("q"); len(got) != 0 {
				t.Errorf("dead letters %v", got)
			}
		})
	}
}

func TestM555FurthestBoundaryWins(t *testing.T) {
	for name, options := range map[string]string{
		"age":       `"retentionSeconds":20,"completedRetentionSeconds":40,"maxWaitTimeSeconds":60`,
		"completed": `"retentionSeconds":60,"completedRetentionSeconds":20,"maxWaitTimeSeconds":40`,
		"eviction":  `"retentionSeconds":60,"completedRetentionSeconds":60,"maxWaitTimeSeconds":20`,
	} {
		t.Run(name, func(t *testing.T) {
			w := open(t, retaining)
			w.configure("q", `{"retentionEnabled":true,`+options+`}`)
			w.queued(numbered("q", "p", "old", 3)...)
			w.clock.advance(15 * time.Second)
			w.queued(numbered("q", "p", "new", 3)...)
			w.ackAll("g", w.popFrom("q", "p", "consumerGroup=g"))
			w.after(4 * time.Second) // not yet; a cycle takes 2 s of them
			w.total("q", 3)
			if name != "completed" {
				return
			}
			w.queued(msg("q", "p", "held"))
			w.after(25 * time.Second)
			w.total("q", 1) // completed gave way to the group, and the others have not come
			w.after(20 * time.Second)
			w.total("q", 0)
		})
	}
}

// A push of several batches goes as one.
func TestM555UnitsAreWhole(t *testing.T) {
	retainingAgain(t, func(w *world, again func()) {
		w.configure("q", `{"retentionEnabled":true,"completedRetentionSeconds":10}`)
		w.queued(numbered("q", "p", "a", 10_000)...)
		w.clock.advance(10 * time.Millisecond)
		w.queued(msg("q", "p", "b"))
		w.ackAll("g", w.popFrom("q", "p", "consumerGroup=g", "batch=9000"))
		again()
		w.after(11 * time.Second)
		w.total("q", 10_001)
		w.ackAll("g", w.popFrom("q", "p", "consumerGroup=g", "batch=1000"))
		w.after(10 * time.Minute)
		w.total("q", 1)
	})
}

// Acks of what was dropped resolve, whatever the broker has forgotten meanwhile.
func TestM556AcksOfDroppedMessages(t *testing.T) {
	retainingAgain(t, func(w *world, again func()) {
		w.configure("q", `{"maxWaitTimeSeconds":10}`)
		w.queued(numbered("q", "p", "m", 3)...)
		w.queued(item{Queue: "q", Partition: "p"}, item{Queue: "q", Partition: "p"})
		p := w.popFrom("q", "p", "leaseSeconds=10000")
		w.popFrom("q", "p", "consumerGroup=g", "autoAck=true")
		w.after(11 * time.Second)
		again()
		w.total("q", 0)
		w.noop(w.ack("g", p.Messages[1].as("completed").leaseless()))
		w.noop(w.ack("g", p.Messages[3].as("completed").leaseless()))
		w.ok(false, w.ack("", p.Messages[1].as("completed")))
		w.ok(false, w.ack("", p.Messages[3].as("completed")))
		w.noop(w.ack("", p.Messages[0].as("completed")))
		w.refused(w.ack("", p.Messages[0].as("completed").id("never pushed")), unresolvable)
		w.ok(true, w.ack("", p.Messages[4].as("completed")))
	})
}

func TestM557Bounds(t *testing.T) {
	for name, row := range map[string]struct {
		options string
		within  time.Duration
	}{
		"retention": {`{"retentionEnabled":true,"retentionSeconds":10}`, 65 * time.Second},
		"eviction":  {`{"maxWaitTimeSeconds":10}`, 15 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			w := open(t, retaining)
			w.configure("q", row.options)
			for i := range 100 {
				w.queued(msg("q", fmt.Sprint(i%7), fmt.Sprint(i)))
			}
			w.clock.advance(row.within - 5*time.Second)
			w.total("q", 0) // one cycle later, which is 5 s unless a test asks for less
		})
	}
}

// The index forgets an id on its own clock, also one whose message is still there.
func TestM559IdsGoOnTheirOwnClock(t *testing.T) {
	w := open(t, retaining, eagerCheckpoints)
	w.configure("q", `{"retentionEnabled":true,"retentionSeconds":100000,"dedupWindowSeconds":0}`)
	w.queued(msg("q", "p", "a"))
	p := w.popFrom("q", "p", "leaseSeconds=1")
	w.after(901 * time.Second)
	w.refused(w.ack("", p.Messages[0].as("completed").leaseless().id("b")), unresolvable)
	w.nothing(w.popFrom("q", "p", "consumerGroup=new", "subscriptionMode=new"))
	w.refused(w.ack("new", p.Messages[0].as("completed").leaseless()), unresolvable)
	w.total("q", 1)
}

func TestM157DroppedOriginal(t *testing.T) {
	retainingAgain(t, func(w *world, again func()) {
		w.configure("q", `{"maxWaitTimeSeconds":10}`)
		w.queued(msg("q", "p", "a"))
		w.after(11 * time.Second)
		again()
		w.expect("POST", "/api/v1/push", `{"items":[{"queue":"q","partition":"p","transactionId":"a","payload":1}]}`, http.StatusCreated,
			`[{"index":0,"message_id":"00000000-0000-0000-0000-000000000000","transaction_id":"a","queueName":"q","status":"duplicate"}]`)
		w.total("q", 0)
	})
}

// Of an id that was stored twice, the window having been shorter then, a duplicate names the
// one that is still there.
func TestM157NamesWhatIsLeft(t *testing.T) {
	retainingAgain(t, func(w *world, again func()) {
		w.configure("q", `{"dedupWindowSeconds":1}`)
		w.queued(msg("q", "p", "a"))
		w.after(11 * time.Second)
		second := w.push(msg("q", "p", "a"))[0]
		w.configure("q", `{"maxWaitTimeSeconds":10}`)
		w.total("q", 1)
		again()
		if r := w.push(msg("q", "p", "a"))[0]; second.Status != "queued" || r.Status != "duplicate" || r.MessageID != second.MessageID {
			t.Errorf("%+v, want a duplicate of %+v", r, second)
		}
	})
}

func TestM225SealOfAnEmptiedPartition(t *testing.T) {
	for name, row := range map[string]struct {
		options string
		sealed  bool
	}{
		"emptied":              {`{"maxWaitTimeSeconds":10}`, true},
		"hidden by a delay":    {`{"delayedProcessing":100}`, false},
		"emptied, and delayed": {`{"maxWaitTimeSeconds":10,"delayedProcessing":100}`, true},
	} {
		t.Run(name, func(t *testing.T) {
			w := open(t, retaining)
			w.queued(numbered("q", "p", "m", 3)...)
			w.ok(false, w.ack("g", w.popFrom("q", "p", "consumerGroup=g", "leaseSeconds=1").Messages[0].as("completed")))
			w.configure("q", row.options)
			w.after(11 * time.Second)
			w.nothing(w.popFrom("q", "p", "consumerGroup=g"))
			w.crashAfterAll()
			w.configure("q", `{}`)
			// Sealed, the cursor has passed what is gone: an ack of it says so.
			p := w.queue("q").Partitions[0]
			r := w.ack("g", ack{TransactionID: "m2", PartitionID: p.ID, Status: "completed"})
			if !r.Success || r.Noop != row.sealed {
				t.Errorf("ack: %s", show(r))
			}
		})
	}
}

// The batch of a partition that is emptied ends with the seal, and does not bound what acks
// find that come after it.
func TestM225SealEndsTheBatch(t *testing.T) {
	w := open(t, retaining)
	w.configure("q", `{"maxWaitTimeSeconds":10}`)
	w.queued(numbered("q", "p", "m", 3)...)
	p := w.popFrom("q", "p", "leaseSeconds=1").Messages[0].PartitionID
	w.after(11 * time.Second)
	w.nothing(w.popFrom("q", "p"))
	w.queued(msg("q", "p", "n"))
	w.ok(false, w.ack("", ack{TransactionID: "n", PartitionID: p, Status: "completed"}))
	w.crashAfterAll()
	w.nothing(w.popFrom("q", "p"))
}

func TestM345PoisonIsGone(t *testing.T) {
	retainingAgain(t, func(w *world, again func()) {
		w.configure("q", `{"maxWaitTimeSeconds":100,"retryLimit":0}`)
		w.queued(numbered("q", "p", "m", 3)...)
		w.clock.advance(60 * time.Second)
		w.queued(msg("q", "p", "n"))
		p := w.popFrom("q", "p", "leaseSeconds=10000")
		w.after(41 * time.Second)
		w.total("q", 1)
		again()
		results := w.ackBatch("", p.Messages[0].as("completed"), p.Messages[1].as("failed"), p.Messages[2].as("dlq"))
		w.ok(false, results[0])
		w.refused(results[1], "dlq rejected")
		w.refused(results[2], "dlq rejected")
		if got := w.buriedIDs("q"); len(got) != 0 {
			w.t.Errorf("dead letters %v", got)
		}
		w.noop(w.ack("", p.Messages[0].as("completed")))
		w.ok(false, w.ack("", p.Messages[2].as("completed"))) // the poison is passed by hand
		w.ok(true, w.ack("", p.Messages[3].as("completed")))
	})
}

func TestM372DeadLettersAreKept(t *testing.T) {
	retainingAgain(t, func(w *world, again func()) {
		w.configure("q", `{"maxWaitTimeSeconds":10,"retentionEnabled":true,"retentionSeconds":10}`)
		w.queued(numbered("q", "p", "m", 3)...)
		for range 3 {
			w.buried(w.ack("", w.popFrom("q", "p").Messages[0].as("dlq")))
		}
		w.after(11 * time.Second)
		again()
		w.after(1000 * time.Hour)
		letters := w.deadLetters("queue=q")
		if len(letters) != 3 || string(letters[1].Data) != `"m1"` {
			w.t.Fatalf("dead letters %+v", letters)
		}
		w.retry(letters[2])
		again()
		p := w.popFrom("q", "p")
		if len(p.Messages) != 1 || string(p.Messages[0].Data) != `"m0"` {
			w.t.Fatalf("popped %v", p.ids())
		}
		if got := w.buriedIDs("q"); len(got) != 2 {
			w.t.Errorf("dead letters %v", got)
		}
	})
}
