package acceptance

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

// The answers that speak of conflation have keys beyond the usual ones.
type (
	conflatedAnswer struct {
		popAnswer
		Conflation bool `json:"conflation,omitempty"`
		Conflict   bool `json:"conflationConflict,omitempty"`
	}
	conflatedAck struct {
		ackResult
		Conflated int64 `json:"conflated"`
	}
)

const (
	applied  = `{"messages":[],"conflation":true}`
	conflict = `{"messages":[],"conflationConflict":true}`
)

// latest pops with parameters from the path of a pop and wants these messages under
// conflation.
func (w *world) latest(path string, params []string, ids ...string) *conflatedAnswer {
	w.t.Helper()
	p := w.popFlagged(path, params)
	if !p.Conflation || p.Conflict {
		w.t.Errorf("conflation %t, conflict %t, want it applied", p.Conflation, p.Conflict)
	}
	w.want(&p.popAnswer, ids...)
	return p
}

func (w *world) popFlagged(path string, params []string) *conflatedAnswer {
	w.t.Helper()
	a := w.call("GET", path+"?"+query(params), "")
	if a.status != http.StatusOK {
		w.t.Fatalf("GET %s: %d %s", path, a.status, a.body)
	}
	p := decode[conflatedAnswer](w.t, a.body)
	queue, _, _ := strings.Cut(strings.TrimPrefix(path, "/api/v1/pop"), "/partition/")
	w.checkPop(&p.popAnswer, strings.TrimPrefix(queue, "/queue/"), params)
	return &p
}

// idle wants a pop to deliver nothing and to answer with a body.
func (w *world) idle(path string, params []string, body string) {
	w.t.Helper()
	w.expect("GET", path+"?"+query(params), "", 200, body)
}

// clean completes a message of a conflating group and wants it to pass over others.
func (w *world) clean(m message, conflated int64) {
	w.t.Helper()
	r := w.ackConflated(m.Group, m.as("completed"))
	w.ok(true, r.ackResult)
	if r.Conflated != conflated {
		w.t.Errorf("conflated %d, want %d", r.Conflated, conflated)
	}
}

func (w *world) ackConflated(group string, a ack) conflatedAck {
	w.t.Helper()
	a.Group = group
	body := fmt.Sprintf(`{"transactionId":%s,"partitionId":%s,"leaseId":%s,"status":%s,"consumerGroup":%s}`,
		quote(a.TransactionID), quote(a.PartitionID), quote(a.LeaseID), quote(a.Status), quote(group))
	return decode[[]conflatedAck](w.t, w.call("POST", "/api/v1/ack", body).body)[0]
}

const (
	fromQ = "/api/v1/pop/queue/q"
	fromP = "/api/v1/pop/queue/q/partition/p"
)

var asked = []string{"consumerGroup=g", "conflation=true"}

func TestM280NewestOfAPartition(t *testing.T) {
	w := open(t)
	w.queued(numbered("q", "p", "m", 5)...)
	p := w.latest(fromQ, asked, "m4")
	if s := w.queue("q").Totals; s.Processing != 5 || s.Pending != 0 {
		t.Errorf("counts under the lease %+v", s)
	}
	w.idle(fromQ, asked, applied)
	w.queued(msg("q", "p", "m5"))
	w.idle(fromQ, asked, applied) // one lease at a time, whatever is new
	w.clean(p.Messages[0], 4)
	w.clean(w.latest(fromQ, asked, "m5").Messages[0], 0)
	w.idle(fromQ, asked, applied)
	w.queued(numbered("q", "p", "n", 3)...)
	w.clean(w.latest(fromP, asked, "n2").Messages[0], 2)
	w.want(w.pop("q", "consumerGroup=other", "batch=3"), "m0", "m1", "m2") // of no concern to others
}

// A parked pop of a conflating group is woken as any, and asked again it has the newest.
func TestM280WakesAndSeesTheLastValue(t *testing.T) {
	w := open(t, eagerCheckpoints)
	const values = 300
	var wg sync.WaitGroup
	for p := range 4 {
		wg.Go(func() {
			for i := range values {
				w.queued(msg("q", fmt.Sprint(p), fmt.Sprint(i)))
			}
		})
	}
	var passed [4]int
	for done := 0; done < 4; {
		p := w.popFlagged(fromQ, append([]string{"wait=true", "timeout=20000"}, asked...))
		for _, m := range p.Messages {
			var lane, value int
			if _, err := fmt.Sscan(m.Partition+" "+m.TransactionID, &lane, &value); err != nil {
				t.Fatal(err)
			}
			if value < passed[lane] {
				t.Fatalf("partition %d: value %d after %d were passed", lane, value, passed[lane])
			}
			w.clean(m, int64(value-passed[lane]))
			passed[lane] = value + 1
			if value == values-1 {
				done++
			}
		}
	}
	wg.Wait()
	w.idle(fromQ, asked, applied)
}

func TestM281Refusals(t *testing.T) {
	w := open(t)
	for _, params := range []string{
		"conflation=true", "conflation=true&consumerGroup=", "conflation=true&consumerGroup=" + queueMode,
		"conflation=true&consumerGroup=g&autoAck=true", "conflation=1&consumerGroup=g",
	} {
		for _, path := range []string{fromQ, fromP, "/api/v1/pop"} {
			a := w.call("GET", path+"?task=t&"+params, "")
			if e := decode[errorAnswer](t, a.body); a.status != 400 || !strings.HasPrefix(e.Error, "bad query: conflation") {
				t.Errorf("%s?%s: %d %s", path, params, a.status, a.body)
			}
		}
	}
	if q := w.queues(); len(q) != 0 {
		t.Errorf("queues %+v", q)
	}
}

// What the first pop of a group says about conflation stands, until the end of the group,
// restarts included.
func TestM282FixedAtRegistration(t *testing.T) {
	afterAgain(t, func(w *world, again func()) {
		w.queued(numbered("q", "p", "m", 4)...)
		w.latest(fromQ, asked, "m3")
		plain := []string{"consumerGroup=plain"}
		w.want(w.pop("q", append([]string{"batch=2"}, plain...)...), "m0", "m1")
		again()
		w.configure("q", `{"conflation":false}`)
		w.lapse()
		w.latest(fromP, []string{"consumerGroup=g", "conflation=false"}, "m3")
		w.lapse()
		w.latest(fromP, []string{"consumerGroup=g"}, "m3")
		p := w.popFlagged(fromP, append([]string{"conflation=true"}, plain...))
		if p.Conflation || !p.Conflict {
			w.t.Errorf("conflation %t, conflict %t of a group without", p.Conflation, p.Conflict)
		}
		w.want(&p.popAnswer, "m0", "m1", "m2", "m3")
		w.want(w.popFrom("q", "p"), "m0", "m1", "m2", "m3") // queue mode has no policy
	})
}

func TestM282WhoRegisters(t *testing.T) {
	w := open(t)
	w.queued(numbered("ns.q", "p", "m", 3)...)
	const pinned, queue = "/api/v1/pop/queue/ns.q/partition/p", "/api/v1/pop/queue/ns.q"
	label := append([]string{"namespace=ns"}, asked...)
	// A pinned pop stores nothing, and so applies nothing.
	p := w.popFlagged(pinned, asked)
	if w.want(&p.popAnswer, "m0", "m1", "m2"); p.Conflation || !p.Conflict {
		t.Errorf("conflation %t, conflict %t of a pinned pop", p.Conflation, p.Conflict)
	}
	w.ok(false, w.ack("g", p.Messages[0].as("completed")))
	w.idle("/api/v1/pop", label, applied) // registers; the lease goes on
	if r := w.ack("g", p.Messages[2].as("completed")); !r.Success || !r.LeaseReleased {
		t.Errorf("ack of the lease from before: %s", show(r))
	}
	w.queued(numbered("ns.q", "p", "n", 3)...)
	w.latest("/api/v1/pop", label, "n2")
	w.lapse()
	w.clean(w.latest(pinned, asked[:1], "n2").Messages[0], 2)
	w.queued(msg("ns.q", "p", "last"))
	w.latest(queue, asked[:1], "last")
}

// Over several queues each follows its own policy.
func TestM282ManyQueues(t *testing.T) {
	w := open(t)
	w.idle("/api/v1/pop/queue/ns.latest", asked, applied)
	w.nothing(w.pop("ns.whole", "consumerGroup=g"))
	label := []string{"namespace=ns", "consumerGroup=g"}
	w.idle("/api/v1/pop", label, applied)
	w.idle("/api/v1/pop", append(label, "conflation=true"), `{"messages":[],"conflation":true,"conflationConflict":true}`)

	w.queued(numbered("ns.whole", "p", "w", 3)...)
	p := w.popFlagged("/api/v1/pop", label)
	if w.want(&p.popAnswer, "w0", "w1", "w2"); p.Conflation || p.Conflict {
		t.Errorf("conflation %t, conflict %t", p.Conflation, p.Conflict)
	}
	w.queued(numbered("ns.latest", "p", "l", 3)...)
	p = w.popFlagged("/api/v1/pop", append(label, "conflation=true"))
	if w.want(&p.popAnswer, "l2"); !p.Conflation || !p.Conflict {
		t.Errorf("conflation %t, conflict %t", p.Conflation, p.Conflict)
	}
}

func TestM283EmptyAnswers(t *testing.T) {
	w := open(t)
	wait := []string{"wait=true", "timeout=50"}
	long := append(append([]string(nil), wait...), asked...)
	w.idle("/api/v1/pop", append([]string{"task=none"}, asked...), applied)
	w.idle("/api/v1/pop", append([]string{"task=none"}, long...), applied)
	w.idle("/api/v1/pop/queue/none/partition/p", asked, conflict)
	w.idle(fromQ, asked, applied)
	w.idle(fromQ, long, applied)
	w.idle(fromQ, []string{"consumerGroup=g"}, applied)
	w.idle(fromP, asked, applied)
	w.idle("/api/v1/pop/queue/q/partition/p", append([]string{"partitions=3"}, long...), applied)
	w.nothing(w.pop("q", "consumerGroup=plain"))
	w.nothing(w.pop("q"))
	w.idle(fromQ, []string{"consumerGroup=plain", "conflation=true"}, conflict)
	w.idle(fromP, []string{"consumerGroup=plain", "conflation=true"}, conflict)

	// A parked pop whose queue is deleted says so too.
	got := make(chan answer, 1)
	go func() {
		a, _ := w.try("GET", fromQ+"?wait=true&timeout=20000&"+query(asked), "", nil)
		got <- a
	}()
	w.parked(1)
	w.deleteQueue("q")
	if a := <-got; a.status != 200 || string(a.body) != applied {
		t.Errorf("after the deletion: %d %s", a.status, a.body)
	}
}

func TestM284PartitionsByDefault(t *testing.T) {
	for name, row := range map[string]struct {
		params  []string
		claimed int
	}{
		"default batch":       {nil, 64},
		"small batch":         {[]string{"batch=10"}, 10},
		"large batch":         {[]string{"batch=500", "partitions=100"}, 64},
		"no cap":              {[]string{"batch=500", "partitions=0"}, 64},
		"partitions named":    {[]string{"partitions=3"}, 3},
		"batch below 1":       {[]string{"batch=0"}, 1},
		"more than the batch": {[]string{"batch=2", "partitions=3"}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			w := open(t)
			w.idle(fromQ, []string{"consumerGroup=stored", "conflation=true"}, applied)
			for p := range 70 {
				w.queued(numbered("q", fmt.Sprint(p), "m", 2)...)
			}
			for _, params := range [][]string{asked, {"consumerGroup=stored"}} {
				p := w.popFlagged(fromQ, append(append([]string(nil), params...), row.params...))
				if len(p.Messages) != row.claimed || p.Claimed != row.claimed {
					t.Errorf("%d messages of %d partitions, want %d", len(p.Messages), p.Claimed, row.claimed)
				}
				for _, m := range p.Messages {
					w.clean(m, 1)
				}
			}
		})
	}
}

// The bytes of an answer and of its ack.
func TestM285Bytes(t *testing.T) {
	w := open(t)
	w.queued(numbered("q", "p", "m", 3)...)
	a := w.call("GET", fromQ+"?"+query(asked), "")
	want := `{"success":true,"queue":"q","partition":"p","partitionId":"id1","leaseId":"id2","consumerGroup":"g",` +
		`"messages":[{"id":"id3","transactionId":"m2","traceId":null,"data":"m2","producerSub":null,"createdAt":"time.3",` +
		`"partitionId":"id1","partition":"p","leaseId":"id2","consumerGroup":"g"}],"partitionsClaimed":1,"conflation":true}`
	if got := masked(a.body); got != want {
		t.Errorf("pop\n got %s\nwant %s", got, want)
	}
	p := decode[conflatedAnswer](t, a.body)
	w.expect("POST", "/api/v1/ack", `{"transactionId":"m2","partitionId":"`+p.PartitionID+`","leaseId":"`+p.LeaseID+`","consumerGroup":"g"}`, 200,
		`[{"index":0,"transactionId":"m2","success":true,"error":null,"leaseReleased":true,"dlq":false,"noop":false,"conflated":2}]`)
}

// Only a clean ack says how many were passed over.
func TestM285OutcomesOfALease(t *testing.T) {
	for _, row := range []struct {
		status  string
		limit   int
		buried  bool
		next    string // what a pop brings afterwards, after one more push
		skipped int64
	}{
		{"retry", 3, false, "new", 4},
		{"failed", 3, false, "new", 4},
		{"failed", 0, true, "new", 0}, // the dead letter passes over what it stands for
		{"dlq", 3, true, "new", 0},
	} {
		t.Run(fmt.Sprint(row.status, row.limit), func(t *testing.T) {
			w := open(t)
			w.configure("q", fmt.Sprintf(`{"retryLimit":%d}`, row.limit))
			w.queued(numbered("q", "p", "m", 4)...)
			m := w.latest(fromQ, asked, "m3").Messages[0]
			r := w.ack("g", m.as(row.status)) // without "conflated", or it would not decode
			if row.buried {
				w.buried(r)
			} else {
				w.ok(true, r)
			}
			w.queued(msg("q", "p", "new"))
			w.clean(w.latest(fromQ, asked, row.next).Messages[0], row.skipped)
			if got := len(w.buriedIDs("q")); got != map[bool]int{true: 1}[row.buried] {
				t.Errorf("%d dead letters", got)
			}
			w.idle(fromQ, asked, applied)
		})
	}
}

// Ids of messages that were passed over resolve in the span of the lease, as any.
func TestM331SkippedIDs(t *testing.T) {
	w := open(t)
	w.queued(numbered("q", "p", "m", 6)...)
	m := w.latest(fromQ, asked, "m5").Messages[0]
	w.ok(false, w.ack("g", m.as("completed").id("m2"))) // the lease is kept
	w.noop(w.ack("g", m.as("completed").id("m1")))
	w.queued(msg("q", "p", "m6"))
	w.refused(w.ack("g", m.as("completed").id("m6")), unresolvable) // beyond the span
	w.clean(m, 2)                                                   // m3 and m4
	m = w.latest(fromQ, asked, "m6").Messages[0]
	w.clean(m, 0)

	w.queued(numbered("q", "p", "n", 3)...)
	m = w.latest(fromQ, asked, "n2").Messages[0]
	w.buried(w.ack("g", m.as("dlq").id("n1"))) // the lowest failure decides
	w.clean(w.latest(fromQ, asked, "n2").Messages[0], 0)
}

// An expired lease delivers what is newest then, as one more attempt at the same span.
func TestM280ExpiryDeliversTheThenNewest(t *testing.T) {
	w := open(t, detailed)
	w.idle(fromQ, asked, applied)
	w.stored(numbered("q", "p", "m", 3)...)
	w.attempts(1, w.popDetailed(asked...), "m2")
	w.stored(msg("q", "p", "m3"))
	w.lapse()
	got := w.popDetailed(asked...)
	if first := w.attempts(2, got, "m3"); got[0].Offset != 3 {
		t.Errorf("%s at offset %d", first.TransactionID, got[0].Offset)
	}
	w.lapse()
	w.refused(w.ack("g", got[0].as("completed")), leaseInvalid)
	w.clean(w.attempts(3, w.popDetailed(asked...), "m3"), 3)
	w.stored(msg("q", "p", "m4"))
	w.attempts(1, w.popDetailed(asked...), "m4")
}

// A live lease of a conflating group covers its span after a restart too.
func TestM903ConflatingLeaseSurvives(t *testing.T) {
	for _, status := range []string{"completed", "failed", "dlq"} {
		t.Run(status, func(t *testing.T) {
			afterAgain(t, func(w *world, again func()) {
				w.queued(numbered("q", "p", "m", 5)...)
				m := w.latest(fromQ, asked, "m4").Messages[0]
				w.queued(msg("q", "p", "m5"))
				again()
				w.idle(fromQ, asked, applied)
				w.refused(w.ack("g", m.as("completed").id("m5")), unresolvable)
				switch status {
				case "completed":
					w.clean(m, 4)
					again()
					w.clean(w.latest(fromQ, asked, "m5").Messages[0], 0)
				case "failed":
					w.ok(true, w.ack("g", m.as(status)))
					again()
					w.clean(w.latest(fromQ, asked, "m5").Messages[0], 5)
				case "dlq":
					w.buried(w.ack("g", m.as(status)))
					again()
					if got := w.buriedIDs("q"); len(got) != 1 || got[0] != "m4" {
						w.t.Errorf("dead letters %v", got)
					}
					w.clean(w.latest(fromQ, asked, "m5").Messages[0], 0)
				}
				again()
				w.idle(fromQ, asked, applied)
			})
		})
	}
}

// Delays cut the recent tail: what is newest is what is newest of the rest.
func TestM280NewestVisible(t *testing.T) {
	for name, option := range map[string]func(*world){"memory": func(*world) {}, "segments": eagerCheckpoints} {
		t.Run("delay/"+name, func(t *testing.T) {
			w := open(t, option)
			w.configure("q", `{"delayedProcessing":30,"leaseTime":10}`)
			w.queued(msg("q", "p", "a"))
			w.queued(msg("q", "p", "b"))
			w.idle(fromQ, asked, applied)
			w.clock.advance(20 * time.Second)
			w.queued(msg("q", "p", "c"), msg("q", "p", "d"))
			w.idle(fromP, asked, applied)
			w.clock.advance(10 * time.Second)
			m := w.latest(fromP, asked, "b").Messages[0]
			w.clean(m, 1)
			w.idle(fromP, asked, applied)
			w.clock.advance(20 * time.Second)
			w.clean(w.latest(fromP, asked, "d").Messages[0], 1)
		})
		t.Run("window/"+name, func(t *testing.T) {
			w := open(t, option)
			w.configure("q", `{"windowBuffer":30}`)
			w.queued(msg("q", "p", "a"))
			w.idle(fromQ, asked, applied)
			w.clock.advance(20 * time.Second)
			w.queued(msg("q", "p", "b"))
			w.idle(fromP, asked, applied)
			w.clock.advance(10 * time.Second)
			w.clean(w.latest(fromP, asked, "b").Messages[0], 1)
			w.queued(numbered("q", "p", "m", 100)...) // so many open the partition
			w.clean(w.latest(fromP, asked, "m99").Messages[0], 99)
		})
	}
}

// The delay wakes a parked pop of a conflating group.
func TestM280DelayWakes(t *testing.T) {
	w := open(t)
	w.configure("q", `{"delayedProcessing":1}`)
	w.queued(numbered("q", "p", "m", 2)...)
	w.latest(fromQ, append([]string{"wait=true", "timeout=20000"}, asked...), "m1")
}

// The policy of a group holds for its autoAck pops as well, which cannot ask for it.
func TestM282AutoAckFollowsThePolicy(t *testing.T) {
	w := open(t)
	w.idle(fromQ, asked, applied)
	w.queued(numbered("q", "p", "m", 3)...)
	auto := []string{"consumerGroup=g", "autoAck=true"}
	w.latest(fromQ, auto, "m2")
	w.crash()
	w.idle(fromQ, auto, applied)
	w.queued(msg("q", "p", "m3"))
	w.latest(fromP, auto, "m3")
}

// One call acks many lanes, and each says what it passed over.
func TestM285BatchOverPartitions(t *testing.T) {
	w := open(t)
	for p := range 5 {
		w.queued(numbered("q", fmt.Sprint(p), "m", p+1)...)
	}
	p := w.popFlagged(fromQ, asked)
	if len(p.Messages) != 5 {
		t.Fatalf("popped %v", p.ids())
	}
	body := `{"consumerGroup":"g","acknowledgments":[`
	for i, m := range p.Messages {
		body += map[bool]string{true: ","}[i > 0] + fmt.Sprintf(`{"transactionId":%q,"partitionId":%q,"leaseId":%q}`, m.TransactionID, m.PartitionID, m.LeaseID)
	}
	for i, r := range decode[[]conflatedAck](t, w.call("POST", "/api/v1/ack/batch", body+"]}").body) {
		w.ok(true, r.ackResult)
		if want := fmt.Sprint("m", r.Conflated); p.Messages[i].TransactionID != want {
			t.Errorf("ack of %s: conflated %d", p.Messages[i].TransactionID, r.Conflated)
		}
	}
}

// The bound is that of conflating groups: what a pop by label takes of other queues first
// leaves theirs alone.
func TestM284BoundByLabel(t *testing.T) {
	w := open(t)
	w.queued(msg("ns.a", "p", "a"), msg("ns.b", "p", "b"))
	w.ackAll("g", w.pop("ns.a", "consumerGroup=g"))
	w.clean(w.latest("/api/v1/pop/queue/ns.b", []string{"consumerGroup=g", "conflation=true"}, "b").Messages[0], 0)
	for round := range 4 { // pops by label begin with the one queue and the other in turns
		w.queued(numbered("ns.a", "p", fmt.Sprint(round, "-"), 70)...)
		w.queued(msg("ns.b", "p", fmt.Sprint("b", round)))
		p := w.popFlagged("/api/v1/pop", []string{"namespace=ns", "consumerGroup=g", "batch=100", "partitions=100"})
		if n := len(p.Messages); n != 71 {
			t.Fatalf("%d messages, want 70 of one queue and 1 of the other", n)
		}
		for _, m := range p.Messages {
			if m.TransactionID == fmt.Sprint("b", round) {
				w.clean(m, 0)
			} else {
				w.ack("g", m.as("completed"))
			}
		}
	}
}
