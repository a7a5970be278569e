package acceptance

import (
	"fmt"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// pass moves the clock, and lets the broker notice which leases have ended.
func (w *world) pass(d time.Duration) {
	w.t.Helper()
	w.clock.advance(d)
	w.running.broker.CatchUp()
}

// span returns the ids prefix from to, the last one excluded.
func span(prefix string, from, to int) (ids []string) {
	for i := from; i < to; i++ {
		ids = append(ids, fmt.Sprint(prefix, i))
	}
	return ids
}

func TestP04InFlightMessagesOutliveAKill(t *testing.T) {
	w := open(t)
	w.queued(numbered("q", "p", "m", 1000)...)
	held := w.want(w.popFrom("q", "p", "batch=100", "leaseSeconds=200"), span("m", 0, 100)...)
	w.crashAfterAll()
	w.nothing(w.popFrom("q", "p")) // the lease is back, and excludes others
	w.pass(100 * time.Second)
	w.nothing(w.pop("q"))
	w.ok(false, w.ack("", held.Messages[9].as("completed"))) // and its holder goes on
	w.pass(101 * time.Second)
	w.refused(w.ack("", held.Messages[20].as("completed")), leaseInvalid)
	w.ackAll("", w.want(w.pop("q", "batch=100"), span("m", 10, 110)...))
	w.want(w.pop("q", "batch=1000", "autoAck=true"), span("m", 110, 1000)...)
}

func TestP07CrashedConsumerGetsTheSameMessages(t *testing.T) {
	w := open(t)
	w.queued(numbered("q", "a", "m", 10)...)
	w.queued(numbered("q", "b", "n", 10)...)
	dead := w.want(w.popFrom("q", "a", "batch=3", "leaseSeconds=100"), "m0", "m1", "m2")
	w.ok(false, w.ack("", dead.Messages[0].as("completed")))
	w.ackAll("", w.want(w.pop("q", "batch=3"), "n0", "n1", "n2")) // the other partition goes on
	w.pass(101 * time.Second)
	m := w.want(w.popFrom("q", "a", "batch=3"), "m1", "m2", "m3").Messages
	w.ok(true, w.ackBatch("", m[0].as("completed"), m[1].as("failed"), m[2].as("completed"))...)
	// What failed holds back what is behind it, done or not.
	w.want(w.popFrom("q", "a", "batch=3"), "m2", "m3", "m4")
}

func TestP08LateAckIsRefused(t *testing.T) {
	w := open(t)
	w.configure("q", `{"retryLimit":0}`) // one failure that counted would dead-letter
	w.queued(numbered("q", "p", "m", 2)...)
	late := w.pop("q", "leaseSeconds=1").Messages
	w.pass(1500 * time.Millisecond)
	p := w.want(w.pop("q"), "m0", "m1")
	for _, status := range []string{"completed", "failed", "retry", "dlq"} {
		w.refused(w.ack("", late[0].as(status)), leaseInvalid)
	}
	if e := w.extend(late[0].LeaseID, `{"seconds":60}`); e.Renewed != 0 {
		t.Errorf("renewed %d", e.Renewed)
	}
	w.nothing(w.pop("q"))
	if c := w.queue("q").Totals; c.Processing != 2 || c.Completed != 0 || c.DeadLetter != 0 {
		t.Errorf("before the ack %+v", c)
	}
	w.ackAll("", p)
	if c := w.queue("q").Totals; c.Completed != 2 || c.DeadLetter != 0 {
		t.Errorf("after the ack %+v", c)
	}
}

func TestP09LeaseLastsAsLongAsItIsExtended(t *testing.T) {
	w := open(t)
	w.queued(msg("q", "p", "a"))
	p := w.pop("q", "leaseSeconds=60")
	other := later(func() *popAnswer { return w.pop("q", "wait=true", "timeout=20000") })
	w.parked(1)
	for range 240 { // two hours: no limit is hidden
		w.clock.advance(30 * time.Second)
		if e := w.extend(p.LeaseID, `{"seconds":60}`); e.Renewed != 1 {
			t.Fatalf("renewed %d", e.Renewed)
		}
	}
	w.pass(30 * time.Second)
	w.nothing(w.popFrom("q", "p"))
	w.within(w.extend(p.LeaseID, `{"seconds":100}`), 100*time.Second)
	w.within(w.extend(p.LeaseID, `{"seconds":1}`), 100*time.Second) // extending never shortens
	w.parked(1)
	w.pass(101 * time.Second)
	w.want(<-other, "a")
	if e := w.extend(p.LeaseID, `{"seconds":10}`); e.Renewed != 0 {
		t.Errorf("renewed %d", e.Renewed)
	}
}

// A lease that ends is not charged, whatever killed the consumer, but every delivery is
// counted, also across a kill. What fails is charged.
func TestP10PoisonMessage(t *testing.T) {
	w := open(t, detailed)
	w.configure("q", `{"retryLimit":2}`)
	w.stored(item{"q", "p", "poison", []byte(`{"boom":1}`)}, msg("q", "p", "next"))
	for attempt := 1; attempt <= 6; attempt++ {
		w.attempts(attempt, w.popDetailed("batch=1", "leaseSeconds=1"), "poison")
		w.pass(2 * time.Second)
		if attempt == 3 {
			w.crashAfterAll()
		}
	}
	for i := range 3 {
		m := w.attempts(7+i, w.popDetailed("batch=1"), "poison")
		r := w.ack("", m.as("failed").because(fmt.Sprint("failure ", i)))
		if i < 2 {
			w.ok(true, r)
		} else {
			w.buried(r)
		}
	}
	d := w.deadLetters()
	if len(d) != 1 || string(d[0].Data) != `{"boom":1}` || d[0].Error != "failure 2" || d[0].RetryCount != 2 {
		t.Errorf("dead letters %+v", d)
	}
	w.attempts(1, w.popDetailed(), "next")
}

func TestP11StuckPartitionBlocksOnlyItself(t *testing.T) {
	w := open(t)
	const partitions = 50
	var want []string
	for p := range partitions {
		w.queued(msg("q", fmt.Sprint(p), fmt.Sprint("m", p)))
		if p > 0 {
			want = append(want, fmt.Sprint("m", p))
		}
	}
	poison := w.want(w.popFrom("q", "0", "consumerGroup=g"), "m0").Messages[0]
	var mu sync.Mutex
	var got []string
	together(4, func(int) {
		for {
			p := w.pop("q", "consumerGroup=g", "subscriptionMode=all", "batch=1")
			if p == nil {
				return
			}
			mu.Lock()
			got = append(got, p.ids()...)
			mu.Unlock()
			w.ackAll("g", p)
		}
	})
	sameSet(t, "the others", got, want...)
	for range 3 { // fails, again and again
		w.ok(true, w.ack("g", poison.as("retry")))
		w.clock.advance(30 * time.Minute)
		poison = w.want(w.pop("q", "consumerGroup=g"), "m0").Messages[0]
	}
	rows := w.lagging()
	if len(rows) != 1 || rows[0].Partition != "0" || rows[0].Group != "g" || rows[0].Lag != 1 || rows[0].LagSeconds < 3600 {
		t.Errorf("lagging %+v", rows)
	}
}

// Of one partition and group one batch is out at a time, whatever is pushed meanwhile, and
// first deliveries have the order of the partition.
func TestP12OneHolderOfAnOrderingKey(t *testing.T) {
	w := open(t)
	const consumers, total = 20, 100
	var (
		held  atomic.Int32
		done  atomic.Int64
		again bool // the message was given back; of the holder
	)
	together(consumers+1, func(i int) {
		if i == consumers {
			for n := range total {
				w.queued(msg("q", "p", fmt.Sprint(n)))
			}
			return
		}
		for done.Load() < total {
			p := w.pop("q", "batch=1", "leaseSeconds=60", "wait=true", "timeout=100")
			if p == nil {
				continue
			}
			if n := held.Add(1); n != 1 {
				t.Errorf("%d hold the partition", n)
			}
			n := done.Load()
			if id := p.ids()[0]; id != fmt.Sprint(n) {
				t.Errorf("%s, want %d", id, n)
			}
			if again = n%10 == 5 && !again; !again {
				done.Add(1)
			}
			status := map[bool]string{true: "retry", false: "completed"}[again]
			held.Add(-1)
			w.ok(true, w.ack("", p.Messages[0].as(status)))
		}
	})
}

func TestP13WhatCountsAsAFailure(t *testing.T) {
	w := open(t)
	w.configure("q", `{"retryLimit":3}`)
	w.queued(msg("q", "p", "a"), msg("q", "p", "b"))
	for _, what := range []string{"expire", "expire", "retry", "failed", "failed", "retry", "expire", "retry", "failed", "expire"} {
		p := w.pop("q", "batch=1", "leaseSeconds=100")
		w.want(p, "a")
		if what == "expire" {
			w.pass(101 * time.Second)
			continue
		}
		w.ok(true, w.ack("", p.Messages[0].as(what)))
	}
	w.crashAfterAll() // the count survives
	w.buried(w.ack("", w.want(w.pop("q", "batch=1"), "a").Messages[0].as("failed")))
	if d := w.deadLetters(); len(d) != 1 || d[0].RetryCount != 3 {
		t.Errorf("dead letters %+v", d)
	}
	w.want(w.pop("q"), "b")
}

// Of a hundred consumers that die with messages in their hands a third says goodbye, a
// third is reset, and a third falls silent with its connection open.
func TestP15DeadConsumersHoldNothing(t *testing.T) {
	w := open(t, onLoopback)
	const consumers = 100
	var want []string
	for p := range consumers {
		id := fmt.Sprint("m", p)
		w.queued(msg("q", fmt.Sprint(p), id))
		want = append(want, id)
	}
	var conns []net.Conn
	defer func() {
		for _, c := range conns {
			_ = c.Close() // most are closed
		}
	}()
	lease := func() {
		for i := range consumers {
			c, err := w.running.dial()
			if err != nil {
				t.Fatal(err)
			}
			conns = append(conns, c)
			if _, err := fmt.Fprint(c, "GET /api/v1/pop/queue/q?consumerGroup=g&subscriptionMode=all&leaseSeconds=100&batch=1 HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
				t.Fatal(err)
			}
			if _, err := c.Read(make([]byte, 1)); err != nil { // the answer has come
				t.Fatal(err)
			}
			switch i % 3 {
			case 0:
				err = c.Close()
			case 1:
				if err = c.(*net.TCPConn).SetLinger(0); err == nil {
					err = c.Close()
				}
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		w.nothing(w.pop("q", "consumerGroup=g"))
	}
	lease()
	w.pass(101 * time.Second)
	p := w.pop("q", "consumerGroup=g", "partitions=0", "batch=1000")
	sameSet(t, "when the leases have ended", p.ids(), want...)
	for _, m := range p.Messages {
		w.ok(true, w.ack("g", m.as("retry")))
	}
	lease()
	w.deleteGroup("g", "")
	p = w.pop("q", "consumerGroup=g", "subscriptionMode=all", "partitions=0", "batch=1000")
	sameSet(t, "in the new group", p.ids(), want...)
	w.ackAll("g", p)
	if c := w.queue("q").Totals; c.Completed != consumers || c.Processing != 0 {
		t.Errorf("totals %+v", c)
	}
	if slices.ContainsFunc(w.groupDetail("g")["q"].Partitions, func(p groupPartition) bool { return p.LeaseActive }) {
		t.Error("a partition is still leased")
	}
}
