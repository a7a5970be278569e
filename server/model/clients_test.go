package model

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"

	"github.com/skepmq/skep/server/model/linear"
)

// The one queue that clients contend for. Few partitions and groups, so that they meet.
const contended = "q"

var (
	lanes     = []string{"p", "r"}
	consumers = []string{"g", "g", "g", ""} // "" is queue mode
)

// moment is a step of a history.
type moment = linear.Step[*Model]

// handedOut is a message that some client has been given.
type handedOut struct {
	key, partitionID, leaseID, group string
	alone                            bool // the lease covers one partition
}

// pool is what clients know of each other.
type pool struct {
	mu      sync.Mutex
	given   []handedOut
	letters []string
	stamps  map[string]int64 // when messages were stored, by id, as deliveries tell
}

func newPool() *pool {
	return &pool{stamps: map[string]int64{}}
}

// stamp dates the messages that a step has stored as they will be delivered. It saves the
// search from finding out much later that another order was meant. sentMs is the clock
// when the step was sent.
func (p *pool) stamp(m *Model, ids []string, sentMs int64) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, id := range ids {
		if at := p.stamps[id]; at != 0 {
			if err := m.Stamp(id, at, sentMs); err != nil {
				return err
			}
		}
	}
	return nil
}

// recent draws one of the latest, so that most are still of use.
func recent[T any](rng *rand.Rand, all []T) (v T, ok bool) {
	if len(all) == 0 {
		return v, false
	}
	n := min(len(all), 6)
	if rng.IntN(5) == 0 {
		n = len(all)
	}
	return all[len(all)-1-rng.IntN(n)], true
}

func (p *pool) draw(rng *rand.Rand) (handedOut, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return recent(rng, p.given)
}

func (p *pool) letter(rng *rand.Rand) (string, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return recent(rng, p.letters)
}

// contest is one history in the making.
type contest struct {
	a       *arena
	pool    *pool
	epoch   int
	keys    atomic.Int64
	sent    atomic.Int64 // requests
	cutOn   int64        // the request that the power is cut at, 0: none
	deleted sync.Map     // groups that somebody has deleted
	cuts    chan *moment // capacity 1
}

// client is one of the contenders.
type client struct {
	*conn
	x     *contest
	rng   *rand.Rand
	name  string
	steps []moment
	held  []string // by step: the group whose cursors it may hold, "*" for any, "" for none
	pops  []popped
	lists []listed
	err   error
}

// listed is the dead letters that a step lists.
type listed struct {
	step int
	got  []Letter
}

// popped is the pop of a step.
type popped struct {
	step  int
	r     *Pop
	empty bool
}

func (x *contest) client(name string, rng *rand.Rand) *client {
	return &client{conn: x.a.connect(), x: x, rng: rng, name: name}
}

// action is one kind of request.
type action struct {
	weight int
	do     func(*client) error
}

var actions = []action{
	{18, (*client).push}, {26, (*client).pop}, {26, (*client).ack}, {6, (*client).extend},
	{4, (*client).seek}, {1, (*client).deleteGroup}, {8, (*client).transact}, {3, (*client).replay},
	{3, (*client).letters}, {3, (*client).jump},
}

// run makes n requests, or fewer if the power is cut.
func (c *client) run(n int) {
	total := 0
	for _, a := range actions {
		total += a.weight
	}
	for range n {
		if c.x.a.cutAt.Load() > 0 {
			return
		}
		if c.x.sent.Add(1) == c.x.cutOn {
			c.cut()
			return
		}
		at := c.rng.IntN(total)
		for _, a := range actions {
			if at -= a.weight; at < 0 {
				c.err = a.do(c)
				break
			}
		}
		if c.err != nil {
			return
		}
	}
}

// cut cuts the power while the others' requests are on their way.
func (c *client) cut() {
	call := c.a.elapsed()
	c.a.fs = c.a.cut(c.rng)
	c.x.cuts <- &moment{Text: "POWER CUT", Call: call, Return: c.a.elapsed(), Epoch: c.x.epoch, Crash: true,
		Do: func(m *Model) ([]*Model, error) { return m.Crash(), nil }}
}

// note records a step, which may hold cursors of a group. idle says that with this answer
// it changes nothing.
func (c *client) note(at times, holds string, idle bool, text string, do func(*Model) ([]*Model, error)) {
	if at.lost && idle {
		return
	}
	c.held = append(c.held, holds)
	c.steps = append(c.steps, moment{
		Text: c.name + " " + text, Call: at.call, Return: at.ret, Lost: at.lost, Epoch: c.x.epoch, Idle: idle, Do: do,
	})
}

// same is a step of a single outcome.
func same(err error, m *Model) ([]*Model, error) {
	if err != nil {
		return nil, err
	}
	return []*Model{m}, nil
}

// jump moves the clock on. There is no answer that could be lost.
func (c *client) jump() error {
	ms := []int64{1, 999, 1000, 1001, 2000, 5000}[c.rng.IntN(6)]
	at := times{call: c.a.elapsed()}
	c.a.clockMu.Lock()
	now := c.a.nowMs.Add(ms)
	c.a.broker.CatchUp()
	c.a.clockMu.Unlock()
	at.ret = c.a.elapsed()
	c.note(at, "", false, fmt.Sprintf("jump %dms", ms), func(m *Model) ([]*Model, error) {
		if m.nowMs+ms != now {
			return nil, fmt.Errorf("the clock stands at %d", m.nowMs)
		}
		m.Tick(now)
		return []*Model{m}, nil
	})
	return nil
}
