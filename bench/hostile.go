package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/skepmq/skep/bench/hist"
	"github.com/skepmq/skep/bench/wire"
)

const (
	// calm is how long the live pair is measured before the attack.
	calm = 2 * time.Second
	// livePause keeps the live pair from being a load of its own.
	livePause = 2 * time.Millisecond
	liveQueue = "live"
)

// hostileScenarios returns a row for each attack. They run only if --run names them: what
// they measure is no speed.
func hostileScenarios() []scenario {
	var all []scenario
	for _, a := range attacks() {
		all = append(all, scenario{name: "hostile/" + a.name, named: true, run: func(b *bench, name string) (*row, error) {
			return runHostile(b, name, a)
		}})
	}
	return all
}

// runHostile measures what an attack costs in memory, and what a producer and a consumer
// beside it notice, before it and in it.
func runHostile(b *bench, name string, a attack) (r *row, err error) {
	if _, err := raiseOpenFiles(); err != nil {
		return nil, err
	}
	broker, err := b.startBroker()
	if err != nil {
		return nil, err
	}
	defer broker.discard(&err)
	if a.prepare != nil {
		if err := a.prepare(broker); err != nil {
			return nil, fmt.Errorf("prepare: %w", err)
		}
	}
	r = &row{Name: name}
	before := live(b.ctx, broker.address, calm)
	rss, _, err := rssOf(broker.pid())
	if err != nil {
		return nil, err
	}
	d := max(a.lasts, b.o.duration)
	assault := beginAssault(b.ctx, broker.address, a)
	during := live(b.ctx, broker.address, d)
	outcomes := assault.end()
	after, peak, err := rssOf(broker.pid())
	if err != nil {
		return nil, err
	}
	if err := broker.health(); err != nil {
		return nil, fmt.Errorf("after the attack: %w", err)
	}
	before.report(r, "calm")
	during.report(r, "attacked")
	r.fact("memory before", megabytes(rss), "MB")
	r.fact("memory, most", megabytes(peak), "MB")
	r.fact("memory after", megabytes(after), "MB")
	bound := a.most
	if bound == 0 {
		bound = memoryBound(a.clients)
	}
	r.fact("memory bound", megabytes(bound), "MB")
	if peak > bound {
		return nil, fmt.Errorf("the broker has taken %.0f MB, more than %.0f", megabytes(peak), megabytes(bound))
	}
	if a.check != nil {
		if err := a.check(outcomes); err != nil {
			return nil, err
		}
	}
	for _, o := range outcomes {
		r.fact("outcome: "+o.name, float64(o.count), "")
	}
	return r, nil
}

// memoryBound is what docs/operations.md promises of a broker with the defaults, with
// these clients and few partitions.
func memoryBound(clients int) int64 {
	const (
		program, unfiled, ids, requests, answers, cache = 20 << 20, 512 << 20, 512 << 20, 384 << 20, 256 << 20, 160 << 20
		connection                                      = 100_000
	)
	live := program + unfiled + ids + requests + answers + cache + int64(clients)*connection
	return live * 3 / 2
}

// liveResult is what a producer and a consumer have seen.
type liveResult struct {
	push, pop hist.Histogram
	failed    int
	err       error // the last failure
}

// live pushes and pops one message after the other for d.
func live(ctx context.Context, address string, d time.Duration) *liveResult {
	res := &liveResult{}
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	body := `{"items":[{"queue":"` + liveQueue + `","payload":{"n":1}}]}`
	push := append(appendPostHead(nil, pushPath, len(body)), body...)
	pop := getRequest("/api/v1/pop/queue/" + liveQueue + "?batch=1&autoAck=true&wait=true&timeout=1000")
	var c *wire.Conn
	defer func() {
		if c != nil {
			res.note(c.Close())
		}
	}()
	for ctx.Err() == nil {
		err := func() (err error) {
			if c == nil {
				if c, err = wire.Dial(address); err != nil {
					return err
				}
			}
			if err := c.SetDeadline(time.Now().Add(grace)); err != nil {
				return err
			}
			if err := timed(c, push, 201, &res.push); err != nil {
				return err
			}
			return timed(c, pop, 200, &res.pop)
		}()
		if err != nil {
			res.failed++
			res.note(err)
			if c != nil {
				res.note(c.Close())
				c = nil
			}
		}
		_ = wait(ctx, livePause) // the loop asks
	}
	return res
}

func (l *liveResult) note(err error) {
	if err != nil {
		l.err = err
	}
}

// timed makes one request whose answer has to have the status.
func timed(c *wire.Conn, request []byte, want int, h *hist.Histogram) error {
	begun := time.Now()
	status, body, err := c.Do(request)
	if err != nil {
		return err
	}
	if status != want {
		return statusError{status, string(body)}
	}
	h.Record(time.Since(begun))
	return nil
}

func (l *liveResult) report(r *row, when string) {
	for _, side := range []struct {
		name string
		h    *hist.Histogram
	}{{"push", &l.push}, {"pop", &l.pop}} {
		for _, q := range []struct {
			name string
			at   float64
		}{{"p50", 0.5}, {"p99", 0.99}} {
			r.fact(fmt.Sprintf("%s: %s %s", when, side.name, q.name), micros(side.h.Quantile(q.at)), "us")
		}
		r.fact(fmt.Sprintf("%s: %s, longest", when, side.name), micros(side.h.Max()), "us")
	}
	r.fact(when+": pairs", float64(l.pop.Count()), "")
	if l.failed > 0 {
		r.fact(fmt.Sprintf("%s: failed, last with %v", when, l.err), float64(l.failed), "")
	}
}

// wait returns after d, or when ctx ends, with its error.
func wait(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// outcome is how clients of an attack have fared, and how many of them.
type outcome struct {
	name  string
	count int
}

// assault is an attack under way.
type assault struct {
	address string
	ctx     context.Context
	cancel  context.CancelFunc
	wg      sync.WaitGroup

	mu       sync.Mutex
	conns    map[*hostileConn]struct{}
	outcomes []outcome
}

// beginAssault lets every client of a do its worst, over and over.
func beginAssault(ctx context.Context, address string, a attack) *assault {
	s := &assault{address: address, conns: map[*hostileConn]struct{}{}}
	s.ctx, s.cancel = context.WithCancel(ctx)
	for i := range a.clients {
		s.wg.Go(func() {
			for s.ctx.Err() == nil {
				how := s.once(a, i)
				if s.ctx.Err() != nil {
					return // cut off by us
				}
				s.add(how, 1)
				_ = wait(s.ctx, a.pause) // the loop asks
			}
		})
	}
	return s
}

func (s *assault) once(a attack, client int) (how string) {
	c, err := s.dial()
	if err != nil {
		return "no connection"
	}
	defer s.hangUp(c)
	how, err = a.attack(c, client)
	switch {
	case err == nil:
		return how
	case errors.Is(err, errRefused):
		return err.Error()
	}
	return "connection closed by the broker"
}

func (s *assault) add(how string, n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.outcomes {
		if s.outcomes[i].name == how {
			s.outcomes[i].count += n
			return
		}
	}
	s.outcomes = append(s.outcomes, outcome{how, n})
}

// end closes what is open and returns what became of the clients.
func (s *assault) end() []outcome {
	s.cancel()
	s.mu.Lock()
	open := len(s.conns)
	for c := range s.conns {
		_ = c.Close() // it may be closed already
	}
	s.mu.Unlock()
	s.wg.Wait()
	return append(s.outcomes, outcome{"still open at the end", open})
}
