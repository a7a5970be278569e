package acceptance

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"
)

// restless is many clients that do what clients do, and what is known of the messages.
type restless struct {
	w      *world
	seed   uint64
	groups []string

	mu     sync.Mutex
	pushed map[string][]string        // ids by partition, in the order of the pushes
	done   map[string]map[string]bool // by group: an acknowledgement has passed it, and was answered
	buried map[string]map[string]bool // by group: answered to be a dead letter
}

const restlessPartitions = 40

func newRestless(w *world) *restless {
	r := &restless{
		w: w, seed: rand.Uint64(), groups: []string{"a", "b", "c"},
		pushed: map[string][]string{}, done: map[string]map[string]bool{}, buried: map[string]map[string]bool{},
	}
	for _, g := range r.groups {
		r.done[g], r.buried[g] = map[string]bool{}, map[string]bool{}
	}
	w.t.Logf("seed %d", r.seed)
	return r
}

// round lets a producer and consumers of every group work beside each other.
func (r *restless) round(n uint64) {
	together(4*len(r.groups)+1, func(i int) {
		random := rand.New(rand.NewPCG(r.seed, n<<32+uint64(i)))
		if i == 4*len(r.groups) {
			for step := range 25 {
				r.push(random, fmt.Sprint(n, "-", step))
			}
			return
		}
		for range 12 {
			r.consume(random, r.groups[i%len(r.groups)])
		}
	})
}

func (r *restless) push(random *rand.Rand, name string) {
	var items []item
	for i := range 1 + random.IntN(8) {
		items = append(items, msg("q", fmt.Sprint(random.IntN(restlessPartitions)), fmt.Sprint(name, "-", i)))
	}
	r.mu.Lock() // before they can be delivered
	for _, i := range items {
		r.pushed[i.Partition] = append(r.pushed[i.Partition], i.TransactionID)
	}
	r.mu.Unlock()
	r.w.queued(items...)
}

// consume pops and does something with what it gets.
func (r *restless) consume(random *rand.Rand, group string) {
	w := r.w
	p := w.pop("q", "consumerGroup="+group, "subscriptionMode=all", "leaseSeconds=300",
		fmt.Sprint("batch=", 1+random.IntN(6)))
	if p == nil {
		return
	}
	r.mu.Lock()
	for _, m := range p.Messages {
		if r.done[group][m.TransactionID] {
			w.t.Errorf("group %s gets %s again", group, m.TransactionID)
		}
	}
	r.mu.Unlock()
	at := random.IntN(len(p.Messages))
	switch what := random.IntN(10); what {
	case 0: // dies
	case 1: // does some of it, and dies
		r.ack(group, p.Messages[:at+1], "completed")
	case 2, 3: // fails in the middle
		r.ack(group, p.Messages[:at+1], "failed")
	case 4:
		r.ack(group, p.Messages[:at+1], "retry")
	case 5:
		r.ack(group, p.Messages[:at+1], "dlq")
	case 6:
		w.extend(p.LeaseID, `{"seconds":400}`)
		r.ack(group, p.Messages, "completed")
	default:
		r.ack(group, p.Messages, "completed")
	}
}

// ack completes the messages but for the last, which gets a status.
func (r *restless) ack(group string, messages []message, status string) {
	var acks []ack
	for _, m := range messages {
		acks = append(acks, m.as("completed"))
	}
	acks[len(acks)-1].Status = status
	results := r.w.ackBatch(group, acks...)
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, result := range results {
		if !result.Success {
			r.w.t.Errorf("ack of %s: %s", acks[i].TransactionID, show(result))
		}
		if result.DeadLetter {
			r.buried[group][acks[i].TransactionID] = true
		}
		if acks[i].Status == "completed" || result.DeadLetter {
			r.done[group][acks[i].TransactionID] = true
		}
	}
}

// drain consumes what is left in every group: each message must have come to each.
func (r *restless) drain() (total int) {
	w := r.w
	for _, group := range r.groups {
		for {
			p := w.pop("q", "consumerGroup="+group, "subscriptionMode=all", "partitions=0", "batch=1000")
			if p == nil {
				break
			}
			for _, m := range p.Messages {
				if r.done[group][m.TransactionID] {
					w.t.Errorf("group %s gets %s again", group, m.TransactionID)
				}
				r.done[group][m.TransactionID] = true
			}
			w.ackAll(group, p)
		}
	}
	for partition, ids := range r.pushed {
		total += len(ids)
		for _, id := range ids {
			for _, group := range r.groups {
				if !r.done[group][id] {
					w.t.Errorf("group %s does not see %s of partition %s", group, id, partition)
				}
			}
		}
	}
	return total
}

// Clients push, ack, fail, extend and die at random, the broker is killed in between: when
// all is quiet every group gets what it has not done, and P-28 every count says so.
func TestP14NothingStaysInvisible(t *testing.T) {
	w := open(t, func(w *world) { w.broker.CheckpointBytes = 20_000 })
	w.configure("q", `{"retryLimit":1}`)
	r := newRestless(w)
	for n := range uint64(4) {
		r.round(n)
		switch n {
		case 0, 2:
			w.crashAfterAll() // leases of this round are alive
		case 1:
			w.restart()
		}
		if n%2 == 1 {
			w.pass(10 * time.Minute)
		}
	}
	w.pass(10 * time.Minute)
	total := r.drain()
	for range 2 {
		r.checkCounts(total)
		w.crashAfterAll()
	}
}

// checkCounts compares all numbers there are of the queue with what is known.
func (r *restless) checkCounts(total int) {
	w, letters := r.w, 0
	w.t.Helper()
	for _, group := range r.groups {
		var buried []string
		for id := range r.buried[group] {
			buried = append(buried, id)
		}
		letters += len(buried)
		sameSet(w.t, "dead letters of "+group, w.buriedIDs("q", "consumerGroup="+group, "limit=1000"), buried...)
		if d := w.depth("q", group); d.Pending != 0 || d.Processing != 0 || d.PartitionsPending != 0 {
			w.t.Errorf("depth of group %s %+v", group, d)
		}
		if g := w.group(group, "q"); g.Lag != 0 || g.PartitionsWithLag != 0 || g.Cursors != len(r.pushed) {
			w.t.Errorf("group %+v", g)
		}
		var consumed int64
		for _, p := range w.groupDetail(group)["q"].Partitions {
			if consumed += p.Consumed; p.Lag != 0 || p.LeaseActive {
				w.t.Errorf("group %s in %+v", group, p)
			}
		}
		if consumed != int64(total) {
			w.t.Errorf("group %s has consumed %d of %d", group, consumed, total)
		}
	}
	if want := (counts{Total: int64(total), Completed: int64(total), DeadLetter: int64(letters)}); w.queue("q").Totals != want {
		w.t.Errorf("totals %+v, want %+v", w.queue("q").Totals, want)
	}
	if d := w.depth("q", ""); d.Pending != 0 || d.Processing != 0 {
		w.t.Errorf("depth %+v", d)
	}
	if rows := w.lagging("minLagSeconds=0"); len(rows) > 0 {
		w.t.Errorf("lagging %+v", rows)
	}
}

// A pop without a group, to have a look, changes no number of another group. The queue's own
// are those of the slowest group, which is the queue mode from then on, until it is deleted.
func TestP28CountersDoNotLie(t *testing.T) {
	w := open(t)
	w.queued(numbered("q", "p", "m", 10)...)
	w.ackAll("g", w.pop("q", "consumerGroup=g", "batch=6"))
	before := counts{Total: 10, Pending: 4, Completed: 6}
	check := func(when string, totals counts) {
		t.Helper()
		if d := w.depth("q", "g"); d.Pending != 4 || d.Processing != 0 {
			t.Errorf("%s: depth %+v", when, d)
		}
		if g := w.group("g", "q"); g.Lag != 4 || g.PartitionsWithLag != 1 {
			t.Errorf("%s: group %+v", when, g)
		}
		if c := w.queue("q").Totals; c != totals {
			t.Errorf("%s: totals %+v, want %+v", when, c, totals)
		}
	}
	check("before", before)
	w.want(w.pop("q", "batch=3", "leaseSeconds=100"), "m0", "m1", "m2")
	check("during the look", counts{Total: 10, Pending: 7, Processing: 3})
	w.pass(101 * time.Second)
	w.crashAfterAll()
	check("afterwards", counts{Total: 10, Pending: 10})
	w.deleteGroup(queueMode, "q")
	check("without it", before)
	w.crash()
	check("after a restart", before)
}
