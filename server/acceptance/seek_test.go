package acceptance

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// sameSet compares ids whose order is the broker's choice.
func sameSet(t testing.TB, what string, got []string, want ...string) {
	t.Helper()
	got, want = slices.Sorted(slices.Values(got)), slices.Sorted(slices.Values(want))
	if !slices.Equal(got, want) {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

// TestT45SeekAndDelete: a seek to before the first push, and the deletion of the group,
// each bring everything back.
func TestT45SeekAndDelete(t *testing.T) {
	w := open(t)
	before := w.clock.now()
	w.clock.advance(time.Second)
	var want []string
	for p := range 10 {
		id := fmt.Sprint("m", p)
		w.queued(msg("q", fmt.Sprint(p), id))
		want = append(want, id)
	}
	sameSet(t, "first", w.drain("g", "q"), want...)
	if s := w.seek("g", "q", since(before)); s.Updated != 10 {
		t.Errorf("seek: %+v", s)
	}
	sameSet(t, "after the seek", w.drain("g", "q"), want...)
	if d := w.deleteGroup("g", ""); d.Deleted != 10 || !d.Metadata {
		t.Errorf("delete: %+v", d)
	}
	sameSet(t, "after the deletion", w.drain("g", "q"), want...)
	if d := w.deleteGroup("g", "q"); d.Deleted != 10 || !d.Metadata {
		t.Errorf("delete: %+v", d)
	}
	sameSet(t, "after the deletion in one queue", w.drain("g", "q"), want...)
}

// M-274, M-602, G-210, G-211: where a seek leads, in the whole queue and in one partition,
// for a group that has consumed everything, one that has consumed nothing, and one that
// nobody has heard of; at once, after a restart, and when all is in segments.
func TestM602Targets(t *testing.T) {
	for _, row := range []struct {
		name, to string // "between", "at", "after", "ahead": instants around the messages
		want     string // delivered afterwards; "later" is pushed after the seek
	}{
		{"beginning", toBegin, "a1 a2 b1 b2 later"},
		{"to the end", toEnd, "later"},
		{"end wins", `{"toEnd":true,"timestamp":"1970-01-01T00:00:00Z"}`, "later"},
		{"between", "between", "b1 b2 later"},
		{"at a message", "at", "b1 b2 later"},
		{"just after", "after", "later"},
		{"ahead", "ahead", "later"},
		{"false is nothing", `{"toEnd":false,"timestamp":"1970-01-01"}`, "a1 a2 b1 b2 later"},
		{"unknown members", `{"position":"x","toEnd":true}`, "later"},
	} {
		for _, group := range []string{"done", "fresh", "unknown", queueMode} {
			for _, scope := range []string{"queue", "partition"} {
				for _, again := range []string{"", "restart", "segments"} {
					t.Run(strings.Join([]string{row.name, group, scope, again}, "/"), func(t *testing.T) {
						var options []func(*world)
						if again == "segments" {
							options = append(options, eagerCheckpoints)
						}
						w := open(t, options...)
						w.queued(msg("q", "p", "a1"), msg("q", "p", "a2"))
						w.clock.advance(10 * time.Second)
						instant := map[string]time.Time{"between": w.clock.now()}
						w.clock.advance(10 * time.Second)
						w.queued(msg("q", "p", "b1"), msg("q", "p", "b2"))
						at, err := time.Parse(time.RFC3339, w.popFrom("q", "p", "consumerGroup=look").Messages[2].CreatedAt)
						if err != nil {
							t.Fatal(err)
						}
						instant["at"], instant["after"], instant["ahead"] = at, at.Add(time.Millisecond), at.Add(time.Hour)
						switch group {
						case "done", queueMode:
							w.drain(group, "q")
						case "fresh":
							w.nothing(w.pop("q", "consumerGroup=fresh", "subscriptionMode=new"))
						}
						if again == "segments" {
							w.filed()
						}
						to := row.to
						if at, ok := instant[to]; ok {
							to = since(at)
						}
						if scope == "queue" {
							if s := w.seek(group, "q", to); s.Updated != 1 {
								t.Errorf("seek: %+v", s)
							}
						} else {
							w.seekIn(group, "q", "p", to)
						}
						if again != "" {
							w.restart()
						}
						if lag := int64(len(strings.Fields(row.want)) - 1); w.depth("q", group).Pending != lag {
							t.Errorf("depth %+v, want %d", w.depth("q", group), lag)
						}
						w.queued(msg("q", "p", "later"))
						if got := w.drain(group, "q", "subscriptionMode=all"); !slices.Equal(got, strings.Fields(row.want)) {
							t.Errorf("got %v, want %s", got, row.want)
						}
					})
				}
			}
		}
	}
}

// A seek of one partition leaves the others where they are.
func TestM602OnePartition(t *testing.T) {
	afterAgain(t, func(w *world, again func()) {
		w.queued(msg("q", "a", "a1"), msg("q", "b", "b1"))
		sameSet(w.t, "first", w.drain("g", "q"), "a1", "b1")
		w.seekIn("g", "q", "a", toBegin)
		again()
		sameSet(w.t, "back", w.drain("g", "q"), "a1")
		w.queued(msg("q", "a", "a2"), msg("q", "b", "b2"))
		w.seekIn("g", "q", "b", "") // an empty body, and one without members
		again()
		sameSet(w.t, "end of b", w.drain("g", "q"), "a2")
		w.queued(msg("q", "b", "b3"))
		w.seekIn("g", "q", "b", "{}")
		w.nothing(w.pop("q", "consumerGroup=g"))
		again()
		w.nothing(w.pop("q", "consumerGroup=g"))
	})
}

// Partitions that come into being after a seek begin where the subscription says.
func TestM602NewPartitions(t *testing.T) {
	afterAgain(t, func(w *world, again func()) {
		w.queued(msg("q", "a", "a1"))
		w.nothing(w.pop("q", "consumerGroup=new", "subscriptionMode=new"))
		w.seek("new", "q", toBegin)
		w.seek("placed", "q", toEnd)
		again()
		w.queued(msg("q", "b", "b1"), msg("q", "b", "b2"))
		sameSet(w.t, "new", w.drain("new", "q"), "a1", "b1", "b2")
		// A group that has never popped registers with its first pop; its place stays.
		sameSet(w.t, "placed", w.drain("placed", "q", "subscriptionMode=new"))
		again()
		w.queued(msg("q", "c", "c1"), msg("q", "a", "a2"))
		sameSet(w.t, "new", w.drain("new", "q"), "c1", "a2")
		sameSet(w.t, "placed", w.drain("placed", "q"), "c1", "a2")
	})
}

// M-602, G-212: a seek ends leases, at once and for good.
func TestM602Leases(t *testing.T) {
	seeks := map[string]func(w *world, to string){
		"queue":     func(w *world, to string) { w.seek("g", "q", to) },
		"partition": func(w *world, to string) { w.seekIn("g", "q", "p", to) },
	}
	for name, seek := range seeks {
		for _, to := range []string{toBegin, toEnd} {
			t.Run(name+to, func(t *testing.T) {
				afterAgain(t, func(w *world, again func()) {
					w.queued(numbered("q", "p", "m", 3)...)
					w.ok(false, w.ack("g", w.popFrom("q", "p", "consumerGroup=g").Messages[0].as("completed")))
					w.lapse()
					old := w.want(w.popFrom("q", "p", "consumerGroup=g"), "m1", "m2")
					other := w.want(w.popFrom("q", "p", "consumerGroup=other"), "m0", "m1", "m2")
					seek(w, to)
					for range 2 {
						if e := w.extend(old.LeaseID, ""); e.Renewed != 0 {
							w.t.Errorf("renewed %d", e.Renewed)
						}
						w.refused(w.ack("g", old.Messages[1].as("completed")), leaseInvalid)
						again()
					}
					w.ok(false, w.ack("other", other.Messages[0].as("completed")))
					if to == toEnd {
						w.nothing(w.popFrom("q", "p", "consumerGroup=g"))
						w.noop(w.ack("g", old.Messages[1].as("completed").leaseless()))
						return
					}
					p := w.want(w.popFrom("q", "p", "consumerGroup=g"), "m0", "m1", "m2")
					w.nothing(w.popFrom("q", "p", "consumerGroup=g"))
					w.refused(w.ack("g", old.Messages[1].as("completed")), leaseInvalid)
					w.ackAll("g", p)
				})
			})
		}
	}
}

// M-602: the retry counter and the count of attempts begin anew.
func TestM602Retries(t *testing.T) {
	for _, scope := range []string{"queue", "partition"} {
		t.Run(scope, func(t *testing.T) {
			afterAgain(t, func(w *world, again func()) {
				w.configure("q", `{"retryLimit":1}`)
				w.queued(msg("q", "p", "a"))
				fail := func() ackResult {
					w.t.Helper()
					return w.ack("g", w.popFrom("q", "p", "consumerGroup=g").Messages[0].as("failed"))
				}
				for range 2 {
					w.ok(true, fail())
					if scope == "queue" {
						w.seek("g", "q", toBegin)
					} else {
						w.seekIn("g", "q", "p", toBegin)
					}
					again()
				}
				w.ok(true, fail())
				w.buried(fail())
			})
		})
	}
}

// M-252, G-212: who waits gets what a seek brings back, within half a second.
func TestM602WakesParkedPops(t *testing.T) {
	pops := map[string]func(w *world) *popAnswer{
		"queue": func(w *world) *popAnswer { return w.pop("ns.q", "wait=true", "timeout=20000", "consumerGroup=g") },
		"pinned": func(w *world) *popAnswer {
			return w.popFrom("ns.q", "p", "wait=true", "timeout=20000", "consumerGroup=g")
		},
		"discovery": func(w *world) *popAnswer {
			return w.discover("namespace=ns", "wait=true", "timeout=20000", "consumerGroup=g")
		},
	}
	wakes := map[string]func(w *world){
		"seek":            func(w *world) { w.seek("g", "ns.q", toBegin) },
		"partition seek":  func(w *world) { w.seekIn("g", "ns.q", "p", toBegin) },
		"delete":          func(w *world) { w.deleteGroup("g", "") },
		"delete in queue": func(w *world) { w.deleteGroup("g", "ns.q", "deleteMetadata=false") },
	}
	for name, pop := range pops {
		for how, wake := range wakes {
			t.Run(name+"/"+how, func(t *testing.T) {
				w := open(t)
				w.queued(msg("ns.q", "p", "a"))
				w.drain("g", "ns.q")
				got := later(func() *popAnswer { return pop(w) })
				w.parked(1)
				start := time.Now()
				wake(w)
				p := w.want(<-got, "a")
				if d := time.Since(start); d > 500*time.Millisecond {
					t.Errorf("after %v", d)
				}
				w.ackAll("g", p)
			})
		}
	}
}

// A seek to the end leaves who waits waiting, for what comes.
func TestM602ParkedPopsGoOn(t *testing.T) {
	w := open(t)
	w.queued(msg("q", "p", "a"))
	w.want(w.pop("q", "consumerGroup=g"), "a")
	got := later(func() *popAnswer { return w.pop("q", "wait=true", "timeout=20000", "consumerGroup=g") })
	w.parked(1)
	w.seek("g", "q", toEnd)
	w.queued(msg("q", "p", "b"))
	w.want(<-got, "b")
}

// M-600, M-601, G-210, G-213, G-214: what is refused.
func TestM600Refusals(t *testing.T) {
	w := open(t)
	w.queued(msg("q", "p", "a"))
	w.nothing(w.pop("empty"))
	const (
		must    = `{"error":"Must specify toEnd=true or a timestamp"}`
		none    = `{"success":false,"error":"Partition not found"}`
		queue   = "/api/v1/consumer-groups/g/queues/q/seek"
		inP     = "/api/v1/consumer-groups/g/queues/q/partitions/p/seek"
		noQueue = `{"success":false,"error":"Queue not found or has no partitions","consumerGroup":"g","queueName":"%s","partitionsUpdated":0}`
	)
	for _, row := range []struct {
		target, body string
		status       int
		want         string
	}{
		{queue, "", 400, must},
		{queue, "{}", 400, must},
		{queue, `{"position":"end"}`, 400, must},
		{queue, `{"toEnd":false}`, 400, must},
		{queue, `{"toEnd":null,"timestamp":null}`, 400, must},
		{queue, `{"timestamp":""}`, 400, must},
		{queue, `{"timestamp":"yesterday"}`, 400, `{"error":"invalid timestamp: yesterday"}`},
		{queue, `{"timestamp":5}`, 400, `{"error":"bad body: timestamp is not a string"}`},
		{queue, `{"toEnd":"yes"}`, 400, `{"error":"bad body: toEnd is not true or false"}`},
		{queue, `[]`, 400, `{"error":"bad body: the body is not an object"}`},
		{"/api/v1/consumer-groups/g/queues/nope/seek", toEnd, 404, fmt.Sprintf(noQueue, "nope")},
		{"/api/v1/consumer-groups/g/queues/empty/seek", toEnd, 404, fmt.Sprintf(noQueue, "empty")},
		{inP, `{"position":"end"}`, 400, must},
		{inP, `{"toEnd":false}`, 400, must},
		{inP, `{"timestamp":"2026-02-30"}`, 400, `{"error":"invalid timestamp: 2026-02-30"}`},
		{"/api/v1/consumer-groups/g/queues/q/partitions/nope/seek", "", 404, none},
		{"/api/v1/consumer-groups/g/queues/nope/partitions/p/seek", toEnd, 404, none},
		{queue, toEnd, 200, `{"success":true,"consumerGroup":"g","queueName":"q","seekToEnd":true,"targetTimestamp":null,"partitionsUpdated":1}`},
		{queue, `{"timestamp":"2026-01-02"}`, 200, `{"success":true,"consumerGroup":"g","queueName":"q","seekToEnd":false,"targetTimestamp":"2026-01-02","partitionsUpdated":1}`},
		{inP, "", 200, `{"success":true,"consumerGroup":"g","queueName":"q","partitionName":"p","seekToEnd":true,"targetTimestamp":null,"updated":true}`},
		{inP, `{"timestamp":"2026-01-02"}`, 200, `{"success":true,"consumerGroup":"g","queueName":"q","partitionName":"p","seekToEnd":false,"targetTimestamp":"2026-01-02","updated":true}`},
	} {
		w.expect("POST", row.target, row.body, row.status, row.want)
	}
}
