package acceptance

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

func TestM201BatchBelowOneActsAsOne(t *testing.T) {
	w := open(t)
	w.queued(numbered("q", "", "m", 4)...)
	for i, batch := range []string{"0", "-1", "-99999", "1"} {
		w.ackAll("", w.want(w.pop("q", "batch="+batch), fmt.Sprint("m", i)))
	}
}

func TestM201DefaultBatch(t *testing.T) {
	w := open(t)
	w.queued(numbered("q", "", "m", 250)...)
	if p := w.pop("q"); len(p.Messages) != 200 {
		t.Errorf("%d messages", len(p.Messages))
	}
}

func TestM202PartitionsWithoutCap(t *testing.T) {
	w := open(t)
	fill := func() {
		for p := range 7 {
			w.queued(item{Queue: "q", Partition: fmt.Sprint(p)})
		}
	}
	for _, partitions := range []string{"0", "-3", "7", "100"} {
		fill()
		p := w.pop("q", "partitions="+partitions, "autoAck=true")
		if p.Claimed != 7 || len(p.Messages) != 7 {
			t.Errorf("partitions=%s: claimed %d, %d messages", partitions, p.Claimed, len(p.Messages))
		}
	}
	fill()
	if p := w.pop("q", "partitions=3"); p.Claimed != 3 {
		t.Errorf("partitions=3: claimed %d", p.Claimed)
	}
	w.want(w.popFrom("r", "p", "partitions=5"))
}

// The lease of a pop: leaseSeconds, else the queue's leaseTime, else 60. M-203, M-515.
func TestM203LeaseTime(t *testing.T) {
	for _, row := range []struct {
		name, options, param string
		seconds              time.Duration
	}{
		{"pushed queue", "", "", 60},
		{"pushed queue, asked", "", "leaseSeconds=7", 7},
		{"pushed queue, zero", "", "leaseSeconds=0", 60},
		{"pushed queue, negative", "", "leaseSeconds=-5", 60},
		{"configured without", "{}", "", 300},
		{"configured", `{"leaseTime":20}`, "", 20},
		{"configured, asked", `{"leaseTime":20}`, "leaseSeconds=100", 100},
		{"configured as nothing", `{"leaseTime":0}`, "", 60},
	} {
		t.Run(row.name, func(t *testing.T) {
			w := open(t)
			if row.options != "" {
				w.configure("q", row.options)
			}
			w.queued(msg("q", "p", "a"))
			params := strings.Fields(row.param)
			w.want(w.popFrom("q", "p", params...), "a")
			w.clock.advance((row.seconds - 3) * time.Second)
			w.nothing(w.popFrom("q", "p"))
			w.clock.advance(3 * time.Second)
			w.want(w.popFrom("q", "p"), "a")
		})
	}
}

func TestM505NewLeaseTimeIsForTheNextPop(t *testing.T) {
	w := open(t)
	w.queued(msg("q", "p", "a"), msg("q", "p", "b"))
	w.popFrom("q", "p")
	w.configure("q", `{"leaseTime":10}`)
	w.clock.advance(50 * time.Second)
	w.nothing(w.popFrom("q", "p")) // that lease is still one of 60 s
	w.clock.advance(11 * time.Second)
	w.want(w.popFrom("q", "p"), "a", "b")
	w.clock.advance(11 * time.Second)
	w.want(w.popFrom("q", "p"), "a", "b")
}

func TestM204EmptyGroupIsQueueMode(t *testing.T) {
	w := open(t)
	w.queued(msg("q", "", "a"), msg("q", "", "b"))
	m := w.want(w.pop("q", "consumerGroup=", "batch=1"), "a").Messages[0]
	w.ok(true, w.ackRaw("/api/v1/ack", `{"consumerGroup":"","transactionId":"a","partitionId":"`+m.PartitionID+`","leaseId":"`+m.LeaseID+`"}`, "a")...)
	m = w.want(w.pop("q", "consumerGroup="+queueMode), "b").Messages[0]
	w.ok(true, w.ackBatch("", m.as("completed"))...)
	w.nothing(w.pop("q"))
}

func TestM205DiscoveryNeedsALabel(t *testing.T) {
	w := open(t)
	for _, q := range []string{"", "?namespace=", "?namespace=&task=", "?wait=true&timeout=60000"} {
		w.expect("GET", "/api/v1/pop"+q, "", 400, `{"success":false,"error":"namespace or task is required","messages":[]}`)
	}
}

func TestM206Discovery(t *testing.T) {
	w := open(t)
	w.queued(msg("a.x.1", "p", "1"), msg("a.x.2", "p", "2"), msg("a.y.3", "p", "3"), msg("b.x.4", "p", "4"))
	w.configureRaw(`{"queue":"odd","namespace":"a","task":"z","options":{"leaseTime":30}}`)
	w.queued(msg("odd", "p", "5"))
	for _, row := range []struct {
		params string
		want   []string
	}{
		{"namespace=a", []string{"1", "2", "3", "5"}},
		{"task=x", []string{"1", "2", "4"}},
		{"namespace=a&task=x", []string{"1", "2"}},
		{"namespace=a&task=z", []string{"5"}},
		{"namespace=A", nil}, {"namespace=a&task=nope", nil}, {"task=x.1", nil},
	} {
		group := "consumerGroup=" + row.params
		p := w.discover(append(strings.Split(row.params, "&"), group, "partitions=0")...)
		ids := p.ids()
		slices.Sort(ids)
		if !slices.Equal(ids, row.want) {
			t.Errorf("%s: %v, want %v", row.params, ids, row.want)
		}
	}
	if p := w.discover("namespace=a", "partitions=2", "consumerGroup=two"); p.Claimed != 2 {
		t.Errorf("claimed %d", p.Claimed)
	}
	if p := w.discover("namespace=a", "partitions=0", "batch=3", "consumerGroup=three"); len(p.Messages) != 3 {
		t.Errorf("%d messages", len(p.Messages))
	}
	// One lease id over queues, each lease as long as its queue's.
	p := w.discover("namespace=a", "partitions=0", "consumerGroup=g")
	w.clock.advance(31 * time.Second)
	if e := w.extend(p.LeaseID, `{"seconds":1}`); e.Renewed != 3 {
		t.Errorf("renewed %d, want those of 60 s alone", e.Renewed)
	}
	w.want(w.popFrom("odd", "p", "consumerGroup=g"), "5")
}

func TestM214LeaseIDs(t *testing.T) {
	w := open(t)
	w.queued(msg("q", "", "a"))
	seen := map[string]bool{}
	for range 5 {
		p := w.pop("q", "leaseId=0198f2c1-9a7b-7d20-8e31-4c5d6e7f8a90")
		if seen[p.LeaseID] || p.LeaseID == "0198f2c1-9a7b-7d20-8e31-4c5d6e7f8a90" {
			t.Errorf("lease id %s", p.LeaseID)
		}
		seen[p.LeaseID] = true
		w.ok(true, w.ack("", p.Messages[0].as("retry")))
	}
}

func TestM215PartitionIDIsStable(t *testing.T) {
	w := open(t)
	w.queued(msg("q", "a", "1"), msg("q", "b", "1"))
	a, b := w.popFrom("q", "a"), w.popFrom("q", "b")
	if a.PartitionID == b.PartitionID {
		t.Error("two partitions have one id")
	}
	w.restart()
	w.queued(msg("q", "a", "2"))
	if got := w.popFrom("q", "a", "consumerGroup=g").PartitionID; got != a.PartitionID {
		t.Errorf("after a restart %s, before %s", got, a.PartitionID)
	}
	if d := w.queue("q"); d.Partitions[0].ID != a.PartitionID || d.Partitions[1].ID != b.PartitionID {
		t.Errorf("detail %+v", d.Partitions)
	}
}

func TestM222OneBatchPerPartitionAndGroup(t *testing.T) {
	w := open(t)
	w.queued(numbered("q", "p", "m", 10)...)
	w.want(w.pop("q", "batch=2"), "m0", "m1")
	w.nothing(w.pop("q"))
	w.nothing(w.popFrom("q", "p"))
	w.nothing(w.pop("q", "autoAck=true"))
	w.want(w.pop("q", "batch=1", "consumerGroup=other"), "m0")
}

// Of many who pop at once, one gets the partition.
func TestM222ConcurrentPops(t *testing.T) {
	w := open(t)
	for round := range 10 {
		queue := fmt.Sprint("q", round)
		w.queued(msg(queue, "p", "a"))
		got := make([]*popAnswer, 8)
		together(len(got), func(i int) {
			if i%2 == 0 {
				got[i] = w.pop(queue)
			} else {
				got[i] = w.popFrom(queue, "p")
			}
		})
		n := 0
		for _, p := range got {
			n += len(p.ids())
		}
		if n != 1 {
			t.Errorf("%d workers got the message", n)
		}
	}
}

func TestM226ReleaseMakesClaimableAndWakes(t *testing.T) {
	for _, status := range []string{"completed", "failed", "retry", "dlq"} {
		t.Run(status, func(t *testing.T) {
			w := open(t)
			w.queued(msg("q", "p", "a"), msg("q", "p", "b"))
			m := w.want(w.pop("q", "batch=1"), "a").Messages[0]
			group := later(func() *popAnswer { return w.pop("q", "wait=true", "timeout=20000") })
			w.parked(1)
			w.ok2(w.ack("", m.as(status)))
			want := []string{"b"}
			if status == "failed" || status == "retry" {
				want = []string{"a", "b"}
			}
			p := w.want(<-group, want...)
			w.nothing(w.pop("q"))
			pinned := later(func() *popAnswer { return w.popFrom("q", "p", "wait=true", "timeout=20000") })
			w.parked(1)
			w.ok2(w.ack("", p.Messages[0].as("retry")))
			w.want(<-pinned, want...)
		})
	}
}

// ok2 checks that an acknowledgement released the lease, dead letter or not.
func (w *world) ok2(r ackResult) {
	w.t.Helper()
	if !r.Success || !r.LeaseReleased {
		w.t.Errorf("ack: %s", show(r))
	}
}

// Of partitions that always have work none is served much more often than another, from
// the first pop of a group on, and after a restart.
func TestM231Fairness(t *testing.T) {
	for _, again := range []string{"first contact", "restart"} {
		t.Run(again, func(t *testing.T) {
			w := open(t)
			const partitions = 12
			for p := range partitions {
				w.queued(numbered("q", fmt.Sprint(p), "m", 40)...)
			}
			if again == "restart" {
				w.ackAll("", w.pop("q", "batch=2"))
				w.restart()
			}
			served := map[string]int{}
			for range 2 * partitions {
				p := w.pop("q", "batch=1")
				served[p.Partition]++
				w.ackAll("", p)
			}
			if len(served) != partitions {
				t.Errorf("%d of %d partitions served in %d pops: %v", len(served), partitions, 2*partitions, served)
			}
			// All have been looked at: from here on they take turns.
			turn := map[string]int{}
			for range 3 * partitions {
				p := w.pop("q", "batch=1")
				turn[p.Partition]++
				w.ackAll("", p)
			}
			for p, n := range turn {
				if n != 3 {
					t.Errorf("partition %s served %d times in three turns: %v", p, n, turn)
				}
			}
		})
	}
}

func TestM231BusyPartitionDoesNotStarveOthers(t *testing.T) {
	w := open(t)
	w.queued(numbered("q", "busy", "m", 5)...)
	for i := range 5 {
		w.queued(msg("q", fmt.Sprint("quiet", i), "x"))
	}
	seen := map[string]bool{}
	for i := range 12 {
		w.queued(item{Queue: "q", Partition: "busy"}) // always more
		p := w.pop("q", "batch=1", "autoAck=true")
		seen[p.Partition] = true
		if i == 11 && len(seen) != 6 {
			t.Errorf("served only %v", seen)
		}
	}
}

func TestM234ConcurrentWorkers(t *testing.T) {
	w := open(t)
	const partitions, workers, each = 16, 8, 12
	want := map[string]bool{}
	for p := range partitions {
		for i := range each {
			id := fmt.Sprintf("%d/%d", p, i)
			want[id] = true
			w.queued(msg("q", fmt.Sprint(p), id))
		}
	}
	var mu sync.Mutex
	got, lanes := map[string]int{}, map[string][]string{}
	together(workers, func(int) {
		for {
			p := w.pop("q", "batch=3", "consumerGroup=g")
			if p == nil {
				return
			}
			mu.Lock()
			for _, m := range p.Messages {
				got[m.TransactionID]++
				lanes[m.Partition] = append(lanes[m.Partition], m.TransactionID)
			}
			mu.Unlock()
			w.ackAll("g", p)
		}
	})
	// A worker ends when all that is left is leased by others: they finish it.
	if len(got) != len(want) {
		t.Errorf("%d of %d messages delivered", len(got), len(want))
	}
	for id, n := range got {
		if n != 1 {
			t.Errorf("%s delivered %d times", id, n)
		}
	}
	for p, ids := range lanes {
		for i, id := range ids {
			if id != fmt.Sprintf("%s/%d", p, i) {
				t.Errorf("partition %s: %v", p, ids)
				break
			}
		}
	}
}

// With as many workers as partitions every one gets another partition.
func TestM231WorkersSpread(t *testing.T) {
	w := open(t)
	for p := range 8 {
		w.queued(msg("q", fmt.Sprint(p), "a"))
	}
	got := make([]*popAnswer, 10)
	together(len(got), func(i int) { got[i] = w.pop("q") })
	seen := map[string]bool{}
	for _, p := range got {
		if p != nil {
			seen[p.Partition] = true
		}
	}
	if len(seen) != 8 {
		t.Errorf("%d partitions served", len(seen))
	}
}

// Partitions that come into being while others are served get their turn.
func TestM233NewPartitionsAreFound(t *testing.T) {
	w := open(t)
	w.nothing(w.pop("q", "consumerGroup=g"))
	for p := range 20 {
		w.queued(msg("q", fmt.Sprint(p), "a"))
		w.want(w.pop("q", "consumerGroup=g"), "a")
	}
	w.nothing(w.pop("q", "consumerGroup=g"))
}

func TestM240AutoAckIsDurable(t *testing.T) {
	w := open(t)
	w.queued(numbered("q", "p", "m", 4)...)
	w.want(w.pop("q", "autoAck=true", "batch=2"), "m0", "m1")
	w.want(w.popFrom("q", "p", "autoAck=true", "batch=1", "consumerGroup=g"), "m0")
	w.crash()
	w.want(w.popFrom("q", "p", "consumerGroup=g"), "m1", "m2", "m3")
	w.want(w.pop("q"), "m2", "m3")
}

// An autoAck pop takes over a lease that has ended, and its old holder is refused.
func TestM242AutoAckClearsAStaleLease(t *testing.T) {
	w := open(t)
	w.queued(numbered("q", "p", "m", 3)...)
	m := w.popFrom("q", "p", "batch=2").Messages
	w.lapse()
	w.want(w.popFrom("q", "p", "autoAck=true", "batch=1"), "m0")
	w.refused(w.ack("", m[1].as("completed")), leaseInvalid)
	if e := w.extend(m[0].LeaseID, ""); e.Success {
		t.Errorf("extended %+v", e)
	}
	// Nothing is leased: an ack without a lease has no upper bound.
	w.ok(false, w.ack("", m[1].as("completed").leaseless().id("m2")))
	w.nothing(w.popFrom("q", "p"))
}
