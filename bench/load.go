package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/skepmq/skep/bench/hist"
	"github.com/skepmq/skep/bench/wire"
)

// grace is how long an answer may take beyond the end of a load before it counts as lost.
const grace = 60 * time.Second

// tally is what one connection, or all of them, have done.
type tally struct {
	requests int64
	messages int64
	latency  hist.Histogram
}

func (t *tally) add(messages int, latency time.Duration) {
	t.requests++
	t.messages += int64(messages)
	t.latency.Record(latency)
}

func (t *tally) merge(other *tally) {
	t.requests += other.requests
	t.messages += other.messages
	t.latency.Merge(&other.latency)
}

// work is what one connection does until stop is set.
type work func(c *wire.Conn, stop *atomic.Bool, t *tally) error

// drive opens a connection for each of works, lets all of them begin together, and stops
// them after d. It returns what they did together and how long it took, the last answers
// included. The first error stops everybody.
func drive(ctx context.Context, address string, d time.Duration, works []work) (*tally, time.Duration, error) {
	conns := make([]*wire.Conn, len(works))
	tallies := make([]tally, len(works))
	errs := make([]error, len(works)+1)
	for i := range works {
		c, err := wire.Dial(address)
		if err != nil {
			return nil, 0, errors.Join(err, closeAll(conns))
		}
		conns[i] = c
		if err := c.SetDeadline(time.Now().Add(d + grace)); err != nil {
			return nil, 0, errors.Join(err, closeAll(conns))
		}
	}
	var stop atomic.Bool
	var wg sync.WaitGroup
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	begun := time.Now()
	for i, do := range works {
		wg.Go(func() {
			if errs[i] = do(conns[i], &stop, &tallies[i]); errs[i] != nil {
				cancel()
			}
		})
	}
	finished := make(chan struct{})
	go func() { wg.Wait(); close(finished) }()
	select {
	case <-ctx.Done():
		stop.Store(true)
		<-finished
	case <-finished: // there was nothing left to do
	}
	elapsed := time.Since(begun)
	errs[len(works)] = closeAll(conns)
	total := &tallies[0]
	for i := range tallies[1:] {
		total.merge(&tallies[1+i])
	}
	return total, elapsed, errors.Join(errs...)
}

func closeAll(conns []*wire.Conn) (err error) {
	for _, c := range conns {
		if c != nil {
			err = errors.Join(err, c.Close())
		}
	}
	return err
}

// statusError is an answer that should not have been.
type statusError struct {
	status int
	body   string
}

func (e statusError) Error() string {
	const most = 300
	body := e.body
	if len(body) > most {
		body = body[:most] + "…"
	}
	return fmt.Sprintf("status %d: %s", e.status, body)
}

// measured is load on the broker in one or several slices, and what it cost.
type measured struct {
	tally   tally
	elapsed time.Duration
	usage   usage
}

// slice adds one slice of load on p.
func (m *measured) slice(ctx context.Context, p *process, d time.Duration, works []work) error {
	before, err := usageNow(p.pid())
	if err != nil {
		return err
	}
	t, elapsed, err := drive(ctx, p.address, d, works)
	if err != nil {
		return err
	}
	after, err := usageNow(p.pid())
	if err != nil {
		return err
	}
	m.tally.merge(t)
	m.elapsed += elapsed
	m.usage = m.usage.plus(after.since(before))
	return nil
}

// row turns the measurement into a row of the report.
func (m *measured) row(name string) *row {
	l := &m.tally.latency
	r := &row{
		Name:     name,
		Messages: m.tally.messages, Requests: m.tally.requests, Seconds: m.elapsed.Seconds(),
		P50: l.Quantile(0.5), P99: l.Quantile(0.99), P999: l.Quantile(0.999), Max: l.Max(),
	}
	r.rates(m.usage)
	return r
}
