package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/skepmq/skep/bench/wire"
)

const (
	queueName = "orders"
	pushPath  = "/api/v1/push"

	// rounds is how often the ceiling and the broker take turns in a row of pushes.
	rounds = 2
)

// pushRow is pushes of one shape, on some connections, to some partitions.
type pushRow struct {
	shape
	conns      int
	partitions int
}

func (p pushRow) name() string {
	name := fmt.Sprintf("push/batch=%d/conns=%d/partitions=%d", p.batch, p.conns, p.partitions)
	if p.ids {
		name += "/ids"
	}
	if p.spread {
		name += "/spread"
	}
	return name
}

func pushScenarios() []scenario {
	var all []scenario
	add := func(p pushRow, quick bool) {
		all = append(all, scenario{name: p.name(), quick: quick, run: p.run})
	}
	for _, batch := range []int{1, 10, 100} {
		for _, conns := range []int{1, 16, 64} {
			for _, partitions := range []int{1, 1000} {
				floor := batch == 1 && conns == 64 || batch == 100 && conns == 16
				add(pushRow{shape{batch: batch}, conns, partitions}, floor)
			}
		}
	}
	add(pushRow{shape{batch: 100, spread: true}, 16, 1000}, false)
	add(pushRow{shape{batch: 1, ids: true}, 64, 1000}, false)
	add(pushRow{shape{batch: 100, ids: true}, 16, 1000}, false)
	return all
}

// run takes turns between the ceiling and the broker, so that both meet the same noise.
// The broker is halted while the ceiling is measured.
func (p pushRow) run(b *bench, name string) (r *row, err error) {
	broker, err := b.startBroker()
	if err != nil {
		return nil, err
	}
	defer broker.discard(&err)
	answer, err := broker.probePush(queueName, p.shape)
	if err != nil {
		return nil, err
	}
	pushers := p.pushers(pushPath, queueName, answer)
	ceilingPushers := p.pushers(fmt.Sprintf("%s%d", ceilingPath, answer), queueName, answer)
	var m measured
	var top tally
	var topElapsed time.Duration
	for round := range rounds {
		if err := broker.pause(); err != nil {
			return nil, err
		}
		t, elapsed, err := drive(b.ctx, b.ceiling.address, b.o.duration/(2*rounds), ceilingPushers)
		if err != nil {
			return nil, fmt.Errorf("ceiling: %w", err)
		}
		top.merge(t)
		topElapsed += elapsed
		if err := broker.resume(); err != nil {
			return nil, err
		}
		wait := func() error { return nil }
		if round == rounds-1 {
			wait = b.profile(broker, name, b.o.duration/rounds)
		}
		if err := m.slice(b.ctx, broker, b.o.duration/rounds, pushers); err != nil {
			return nil, err
		}
		if err := wait(); err != nil {
			return nil, err
		}
	}
	r = m.row(name)
	r.CeilingPerSec = float64(top.requests) / topElapsed.Seconds()
	r.Ratio = r.RequestsPerSec / r.CeilingPerSec
	return r, broker.checkStored(queueName, m.tally.messages+int64(p.batch))
}

// pushers returns the work of each connection, whose requests are made here, once.
func (p pushRow) pushers(path, queue string, answer int) []work {
	works := make([]work, p.conns)
	for i := range works {
		s := newPusher(path, queue, p.shape, answer, i)
		s.partition, s.partitions = i*p.partitions/p.conns, p.partitions
		works[i] = s.push
	}
	return works
}

// pusher sends pushes, one after the other, on one connection.
type pusher struct {
	requests []*pushRequest // taken in turn, so that neighbouring batches differ
	turn     int
	answer   int // length of the answer when every item was queued

	partition, partitions int    // to address next, of how many in a circle
	id                    uint64 // of the next item
}

// pushVariants is how many requests with different payloads a connection sends: few, so
// that they stay in the processor's cache.
const pushVariants = 4

func newPusher(path, queue string, s shape, answer, conn int) *pusher {
	return newVariedPusher(path, queue, s, answer, conn, pushVariants)
}

// newVariedPusher returns a pusher whose payloads repeat after variants requests.
func newVariedPusher(path, queue string, s shape, answer, conn, variants int) *pusher {
	p := &pusher{answer: answer, partitions: 1, id: uint64(conn+1) * 1e12}
	rng := rand.New(rand.NewPCG(uint64(conn), 1))
	for range variants {
		p.requests = append(p.requests, newPushRequest(path, queue, s, rng))
	}
	return p
}

// next returns the next request, addressed.
func (p *pusher) next() *pushRequest {
	r := p.requests[p.turn%len(p.requests)]
	p.turn++
	if p.partitions > 1 {
		r.setPartition(p.partition, p.partitions)
		if p.partition++; p.partition == p.partitions {
			p.partition = 0
		}
	}
	if r.shape.ids {
		r.setIDs(p.id)
		p.id += uint64(r.shape.batch)
	}
	return r
}

// push is the work: a closed loop.
func (p *pusher) push(c *wire.Conn, stop *atomic.Bool, t *tally) error {
	for begun := time.Now(); !stop.Load(); {
		r := p.next()
		if err := p.send(c, r); err != nil {
			return err
		}
		now := time.Now()
		t.add(r.shape.batch, now.Sub(begun))
		begun = now
	}
	return nil
}

// send sends r and checks the answer. All answers to requests of one shape are equally
// long if every item was queued, and longer or shorter if one was not.
func (p *pusher) send(c *wire.Conn, r *pushRequest) error {
	status, body, err := c.Do(r.bytes)
	if err != nil {
		return err
	}
	if status != 201 || len(body) != p.answer {
		return fmt.Errorf("push: %w", statusError{status, string(body)})
	}
	return nil
}

// probePush is probe on a connection of its own.
func (p *process) probePush(queue string, s shape) (answer int, err error) {
	c, err := wire.Dial(p.address)
	if err != nil {
		return 0, err
	}
	answer, err = probe(c, queue, s)
	return answer, errors.Join(err, c.Close())
}

// probe sends one push of that shape, checks its answer word by word, and returns how
// long the answer is. Its transaction ids are none that a pusher uses.
func probe(c *wire.Conn, queue string, s shape) (answer int, err error) {
	r := newPushRequest(pushPath, queue, s, rand.New(rand.NewPCG(0, 0)))
	r.setPartition(0, s.batch)
	r.setIDs(0)
	status, body, err := c.Do(r.bytes)
	if err != nil {
		return 0, err
	}
	var results []struct{ Status string }
	if status != 201 || json.Unmarshal(body, &results) != nil || len(results) != s.batch {
		return 0, fmt.Errorf("push: %w", statusError{status, string(body)})
	}
	for i := range results {
		if results[i].Status != "queued" {
			return 0, fmt.Errorf("push: %w", statusError{status, string(body)})
		}
	}
	return len(body), nil
}

// answerFor is how long the answer to a push to queue is when that to the same push to
// probed was answer bytes long: every verdict names the queue.
func answerFor(queue, probed string, answer int, s shape) int {
	return answer + s.batch*(len(queue)-len(probed))
}

// checkStored compares the messages that the broker says the queue holds with those it
// has answered.
func (p *process) checkStored(queue string, want int64) error {
	body, err := p.get("/api/v1/resources/queues")
	if err != nil {
		return err
	}
	var list struct {
		Queues []struct {
			Name     string
			Messages struct{ Total int64 }
		}
	}
	if err := json.Unmarshal(body, &list); err != nil {
		return fmt.Errorf("list of queues: %w", err)
	}
	for _, q := range list.Queues {
		if q.Name == queue && q.Messages.Total != want {
			return fmt.Errorf("queue %s holds %d messages, %d were accepted", queue, q.Messages.Total, want)
		} else if q.Name == queue {
			return nil
		}
	}
	return fmt.Errorf("queue %s is not there", queue)
}

// profile writes a CPU profile of the broker over d, if profiles are wanted. wait returns
// when it is written.
func (b *bench) profile(p *process, name string, d time.Duration) (wait func() error) {
	if b.o.profileDir == "" {
		return func() error { return nil }
	}
	path := filepath.Join(b.o.profileDir, strings.ReplaceAll(name, "/", ".")+".pprof")
	done := make(chan error, 1)
	go func() { done <- fetchProfile(p.pprof, path, max(int(d.Seconds()), 1)) }()
	return func() error { return <-done }
}
