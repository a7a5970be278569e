package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"
)

const (
	producers     = 6
	consumers     = 3 // of each group of the main queue
	lateGroups    = 2
	drainPatience = 40 * time.Second
)

// epoch is a few rounds of load on queues of its own, and a drain. Its workers live as
// long as it does, and connect to one life of the broker after the other.
type epoch struct {
	run        *run
	number     int
	main, auto *queue
	late       []*lateGroup
	moves      *moves // nil if the broker has no transactions
	solos      []*solo
	alone      sync.RWMutex // see maintainer

	draining atomic.Bool
	pushing  sync.WaitGroup // producers and the churner
	taking   sync.WaitGroup
	leasing  sync.WaitGroup // consumers with leases
	others   sync.WaitGroup
}

// newWorker makes a worker whose choices follow from the seed and its name's number.
func (r *run) newWorker(name string, stream int) *worker {
	return &worker{name: name, check: r.check, gate: r.gate, now: r.now, rng: rand.New(rand.NewPCG(r.seed, uint64(stream)))}
}

// epoch runs a number of rounds, and everything that follows.
func (r *run) epoch(ctx context.Context, rounds int) error {
	r.epochs++
	e := &epoch{run: r, number: r.epochs}
	boss := r.newWorker("boss", e.number<<8)
	defer boss.hangUp()
	limit := boss.rng.IntN(4)
	e.main = r.check.addQueue(fmt.Sprintf("main.%d", e.number), 1, limit, "alpha", "beta")
	e.auto = r.check.addQueue(fmt.Sprintf("auto.%d", e.number), 1, 3, "audit")
	if err := boss.configure(ctx, e.main.name, options{LeaseTime: 2, RetryLimit: limit}); err != nil {
		return err
	}
	if err := e.addMoves(ctx, boss); err != nil {
		return err
	}
	pushCtx, stopPushing := context.WithCancel(ctx)
	leaseCtx, stopLeasing := context.WithCancel(ctx)
	defer e.wait()
	defer stopLeasing()
	defer stopPushing()
	e.start(ctx, pushCtx, leaseCtx)
	for round := range rounds {
		if (round+1)*lateGroups%max(rounds, lateGroups) < lateGroups {
			e.subscribe(ctx, fmt.Sprintf("late-%d", round))
		}
		if err := r.round(ctx); err != nil {
			return err
		}
	}
	e.draining.Store(true)
	stopPushing()
	e.pushing.Wait()
	e.taking.Wait()
	e.others.Wait()
	if err := boss.emptied(ctx); err != nil {
		return err
	}
	if err := e.drain(ctx, stopLeasing); err != nil {
		return err
	}
	return e.verify(ctx, boss)
}

func (e *epoch) wait() {
	e.pushing.Wait()
	e.taking.Wait()
	e.leasing.Wait()
	e.others.Wait()
}

// start starts the workers.
func (e *epoch) start(ctx, pushCtx, leaseCtx context.Context) {
	stream := e.number<<8 + 1
	next := func(name string) *worker {
		stream++
		return e.run.newWorker(name, stream)
	}
	for i := range producers {
		p := &producer{worker: next(fmt.Sprintf("producer-%d", i)), epoch: e}
		e.pushing.Go(func() { p.run(pushCtx) })
	}
	churn := &churner{worker: next("churner"), name: fmt.Sprintf("churn.%d", e.number), alone: &e.alone, done: e.draining.Load}
	e.pushing.Go(func() { churn.run(ctx) })
	maintain := &maintainer{worker: next("maintainer"), alone: &e.alone, done: e.draining.Load}
	e.pushing.Go(func() { maintain.run(ctx) })
	for _, expiring := range []bool{false, true} {
		s := e.newSolo(next("solo"), expiring)
		e.solos = append(e.solos, s)
		e.pushing.Go(func() { s.run(ctx, e.draining.Load) })
	}
	for _, q := range []*queue{e.main, e.auto} {
		for _, g := range q.groups {
			for i := range consumers {
				c := &consumer{worker: next(fmt.Sprintf("%s-%d", g, i)), queue: q, group: g, tidy: e.draining.Load}
				e.leasing.Go(func() { c.run(leaseCtx) })
			}
		}
	}
	e.moves.start(pushCtx, next)
	for i := range 2 {
		t := &taker{worker: next(fmt.Sprintf("taker-%d", i)), queue: e.auto, group: takers}
		e.taking.Go(func() { t.run(pushCtx) })
	}
}

// takers is the group that consumes under autoAck.
const takers = "takers"

// full reports whether the producers should wait.
func (e *epoch) full() bool {
	c := e.run.check
	c.mu.Lock()
	n := len(c.messages)
	c.mu.Unlock()
	return n >= epochMessages || c.backlog(e.main) > maxBacklog || c.backlog(e.auto) > maxBacklog
}

// subscribe registers a group that wants only what comes from now on.
func (e *epoch) subscribe(ctx context.Context, name string) {
	w := e.run.newWorker(name, e.number<<8+200+len(e.late))
	g := &lateGroup{queue: e.main, name: name, sent: never, got: map[*stream][]*message{}}
	e.late = append(e.late, g)
	e.others.Go(func() {
		defer w.hangUp()
		for {
			p := &pop{queue: e.main, group: name, batch: 1, partitions: 1, leaseSeconds: 1, mode: "new", late: true}
			if _, err := w.pop(ctx, p); err != nil {
				return
			}
			g.sent, g.done = min(g.sent, p.sent), p.end
			if p.outcome == answered {
				return
			}
		}
	})
}

// drain lets the consumers finish.
func (e *epoch) drain(ctx context.Context, stop context.CancelFunc) error {
	limit, cancel := context.WithTimeout(ctx, drainPatience)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	var done bool
	for {
		_, _, done = e.run.check.drained()
		if done || limit.Err() != nil {
			break
		}
		select {
		case <-tick.C:
		case <-limit.Done():
		}
	}
	stop()
	e.leasing.Wait()
	// A last delivery may have told that an ack was lost after all, too late for its
	// consumer: then emptyQueues has the rest.
	if ctx.Err() == nil && !done && !e.run.check.checkDrained() {
		return errViolation
	}
	return ctx.Err()
}
