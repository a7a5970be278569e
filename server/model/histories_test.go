package model

import (
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/skepmq/skep/server/model/linear"
)

var (
	contestFor  = flag.Duration("contest.duration", 0, "how long clients contend; 0: for a few histories")
	contestSeed = flag.Uint64("contest.seed", 0, "what the first history is made from; 0: the time")
)

const (
	fewContests = 8
	contenders  = 6
	requests    = 14 // of each, in all
)

// How many states a search may come to: few take more than a thousand.
const (
	fewStates  = 3_000
	manyStates = 50_000
)

// tally counts what was done.
type tally struct{ histories, steps, cuts, undecided, states int }

// TestConcurrentHistories lets clients contend, cuts the power now and then, and asks
// whether what they saw is linearizable.
func TestConcurrentHistories(t *testing.T) {
	first := *contestSeed
	if first == 0 {
		first = uint64(time.Now().UnixNano() >> 10)
	}
	t.Logf("histories from seed %d", first)
	var n tally
	until := time.Now().Add(*contestFor)
	for seed := first; n.histories < fewContests && *contestFor == 0 || time.Now().Before(until); seed++ {
		if err := n.play(seed); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
	}
	t.Logf("%d histories, %d steps, %d power cuts; %d undecided, %d states searched",
		n.histories, n.steps, n.cuts, n.undecided, n.states)
}

func (n *tally) play(seed uint64) error {
	rng := rand.New(rand.NewPCG(seed, 0))
	x := &contest{a: newArena(rng), cuts: make(chan *moment, 1), pool: newPool()}
	if err := x.a.start(); err != nil {
		return err
	}
	steps, err := x.live(rng)
	if err = errors.Join(err, x.a.stop()); err != nil {
		return err
	}
	m := &Model{}
	m.Tick(startMs)
	limit := manyStates
	if *contestFor == 0 {
		limit = fewStates
	}
	v := linear.Check(m, steps, limit)
	n.histories++
	n.steps += len(steps)
	n.cuts += x.epoch
	n.states += v.States
	switch {
	case v.Undecided:
		n.undecided++
	case !v.Linearizable:
		return fmt.Errorf("not linearizable\n%s", v.Report)
	}
	return nil
}

// live is the history: a beginning, clients that contend, perhaps with a power cut in
// between, and at the end a look at everything that is there.
func (x *contest) live(rng *rand.Rand) (steps []moment, err error) {
	begin := x.client("begin", rng)
	if err := begin.setUp(); err != nil {
		return nil, err
	}
	steps = begin.steps
	rounds := 1 + min(rng.IntN(3), 1)
	each := requests / rounds
	for ; ; rounds-- {
		if rounds > 1 {
			x.cutOn = x.sent.Load() + 1 + rng.Int64N(int64(contenders*each))
		}
		all, err := x.contend(rng, each)
		if err != nil {
			return nil, err
		}
		steps = append(steps, all...)
		if rounds == 1 {
			break
		}
		if err := x.restart(&steps); err != nil {
			return nil, err
		}
	}
	end := x.client("end", rng)
	if err := end.audit(); err != nil {
		return nil, err
	}
	return append(steps, end.steps...), nil
}

// restart goes on with what the power cut has left.
func (x *contest) restart(steps *[]moment) error {
	select {
	case cut := <-x.cuts:
		*steps = append(*steps, *cut)
		x.epoch++
	default:
		return nil // it did not come to that
	}
	if err := x.a.stop(); err != nil {
		return err
	}
	return x.a.start()
}

func (x *contest) contend(rng *rand.Rand, requests int) (steps []moment, err error) {
	var clients []*client
	var wg sync.WaitGroup
	for i := range contenders {
		c := x.client(string(rune('A'+i)), rand.New(rand.NewPCG(rng.Uint64(), 0)))
		clients = append(clients, c)
		wg.Go(func() { c.run(requests) })
	}
	wg.Wait()
	x.mark(clients)
	for _, c := range clients {
		c.http.CloseIdleConnections()
		steps = append(steps, c.steps...)
		err = errors.Join(err, c.err)
	}
	return steps, err
}

// mark tells the pops that others were under way which may have held a cursor of their
// group. An empty one changes nothing, unless it may be the first of a group made anew.
func (x *contest) mark(clients []*client) {
	for _, c := range clients {
		for _, p := range c.pops {
			own := &c.steps[p.step]
			p.r.Contended = p.r.Contended || beside(clients, c, own, c.held[p.step])
			_, anew := x.deleted.Load(c.held[p.step])
			own.Idle = p.empty && !anew
		}
		for _, l := range c.lists {
			own := &c.steps[l.step]
			if beside(clients, c, own, "") {
				// A dead letter is shown when it is on disk, by when its ack is no secret.
				own.Do = func(m *Model) ([]*Model, error) { return same(m.MeetLetters(l.got, false), m) }
			}
		}
	}
}

// beside reports whether another request was under way that may have held a cursor of the
// group, "" for any.
func beside(clients []*client, c *client, own *moment, group string) bool {
	for _, other := range clients {
		for i := range other.steps {
			s, holds := &other.steps[i], other.held[i]
			if other != c && (holds == group || holds == "*" || group == "" && holds != "") && s.Call < own.Return && (s.Lost || s.Return > own.Call) {
				return true
			}
		}
	}
	return false
}

// setUp makes the queue, with messages and groups.
func (c *client) setUp() error {
	options := map[string]any{"leaseTime": 2, "retryLimit": 1}
	var ignored any
	at, err := c.request("POST", "/api/v1/configure", map[string]any{"queue": contended, "options": options}, &ignored)
	if err != nil {
		return err
	}
	c.note(at, "", false, "configure", func(m *Model) ([]*Model, error) {
		m.Configure(contended, false, func(o *Options) { o.LeaseTime, o.RetryLimit = 2, 1 })
		return []*Model{m}, nil
	})
	for range 5 {
		if err := c.push(); err != nil {
			return err
		}
	}
	for _, group := range []string{"g", ""} {
		if err := c.sendPop(&Pop{Queue: contended, Group: group, Batch: 1, Partitions: 1, LeaseSeconds: 1}, false); err != nil {
			return err
		}
	}
	return nil
}

// audit reads all that is there when nobody else does.
func (c *client) audit() error {
	errs := []error{c.letters(), c.look("g"), c.look(QueueMode)}
	for _, lane := range lanes {
		r := &Pop{Queue: contended, Partition: lane, Pinned: true, Group: "audit", Batch: 1_000_000, LeaseSeconds: 1}
		errs = append(errs, c.sendPop(r, false))
	}
	return errors.Join(errs...)
}
