package main

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/skepmq/skep/bench/hist"
	"github.com/skepmq/skep/bench/wire"
)

const (
	parkedName    = "parked/polls=10000"
	factParkedRSS = "memory with all parked"
	factParkedCPU = "processor time while idle"

	parkedPolls = 10_000
	wakeUps     = 300
)

func parkedScenario() scenario { return scenario{name: parkedName, quick: true, run: runParked} }

// runParked measures what long polls cost that wait, and how fast a push wakes one.
func runParked(b *bench, name string) (r *row, err error) {
	limit, err := raiseOpenFiles()
	if err != nil {
		return nil, err
	}
	polls := min(parkedPolls, limit-500) // of which both sides need one descriptor each
	broker, err := b.startBroker()
	if err != nil {
		return nil, err
	}
	defer broker.discard(&err)
	one := shape{batch: 1}
	answer, err := broker.probePush(queueName, one)
	if err != nil {
		return nil, err
	}
	before, _, err := rssOf(broker.pid())
	if err != nil {
		return nil, err
	}
	lot := &parkingLot{wokenC: make(chan wakeUp, polls)}
	defer func() { err = errors.Join(err, lot.empty()) }()
	begun := time.Now()
	for range polls {
		if err := lot.park(broker.address); err != nil {
			return nil, err
		}
	}
	if first := <-lot.wokenC; first.err != nil { // takes the probe's message
		return nil, first.err
	}
	if err := broker.settle(b, 20*time.Second); err != nil {
		return nil, err
	}
	r = &row{Name: name}
	r.fact("polls", float64(polls), "")
	r.fact("until all were parked", time.Since(begun).Seconds(), "s")
	if err := idleCost(b, broker, r, before); err != nil {
		return nil, err
	}
	pusher := newPusher(pushPath, queueName, one, answer, 0)
	return r, lot.wake(broker, pusher, r)
}

// idleCost measures memory and processor time while nothing happens.
func idleCost(b *bench, p *process, r *row, before int64) error {
	d := 20 * time.Second // to meet what the broker does only every so often
	if b.o.quick {
		d = 5 * time.Second
	}
	from, err := cpuOf(p.pid())
	if err != nil {
		return err
	}
	select {
	case <-time.After(d):
	case <-b.ctx.Done():
		return b.ctx.Err()
	}
	to, err := cpuOf(p.pid())
	if err != nil {
		return err
	}
	rss, _, err := rssOf(p.pid())
	if err != nil {
		return err
	}
	r.fact("memory before", megabytes(before), "MB")
	r.fact(factParkedRSS, megabytes(rss), "MB")
	r.fact(factParkedCPU, 100*(to-from).Seconds()/d.Seconds(), "% of one")
	return nil
}

// parkingLot is connections that wait in long polls.
type parkingLot struct {
	conns  []*wire.Conn
	wg     sync.WaitGroup
	wokenC chan wakeUp
}

// wakeUp is a poll that has been answered with a message, or failed.
type wakeUp struct {
	at  time.Time
	err error
}

// park adds one connection. Once woken, it polls again.
func (l *parkingLot) park(address string) error {
	c, err := wire.Dial(address)
	if err != nil {
		return err
	}
	l.conns = append(l.conns, c)
	request := getRequest("/api/v1/pop/queue/" + queueName + "?batch=1&autoAck=true&wait=true&timeout=300000")
	if err := c.Send(request); err != nil {
		return err
	}
	l.wg.Go(func() {
		for {
			status, body, err := c.Receive()
			w := wakeUp{at: time.Now(), err: err}
			if err == nil && status != 200 {
				w.err = fmt.Errorf("parked pop: %w", statusError{status, string(body)})
			}
			if w.err == nil {
				w.err = c.Send(request)
			}
			l.wokenC <- w
			if w.err != nil {
				return
			}
		}
	})
	return nil
}

// empty closes all connections. Those that were still parked report an error each, which
// is why wokenC has room for all.
func (l *parkingLot) empty() error {
	err := closeAll(l.conns)
	l.wg.Wait()
	return err
}

// wake pushes one message at a time, at irregular intervals, and waits until a poll has it.
func (l *parkingLot) wake(p *process, pusher *pusher, r *row) (err error) {
	c, err := wire.Dial(p.address)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	if err := c.SetDeadline(time.Now().Add(grace)); err != nil {
		return err
	}
	var woken, answered hist.Histogram
	rng := rand.New(rand.NewPCG(1, 2))
	for range wakeUps {
		begun := time.Now()
		if err := pusher.send(c, pusher.next()); err != nil {
			return err
		}
		answered.Record(time.Since(begun))
		select {
		case w := <-l.wokenC:
			if w.err != nil {
				return w.err
			}
			woken.Record(w.at.Sub(begun))
		case <-time.After(10 * time.Second):
			return errors.New("a push woke none of the parked polls within 10 s")
		}
		time.Sleep(time.Duration(rng.IntN(3000)) * time.Microsecond)
	}
	r.fact("push answered, p50", micros(answered.Quantile(0.5)), "us")
	r.fact("push to delivery, p50", micros(woken.Quantile(0.5)), "us")
	r.fact("push to delivery, p99", micros(woken.Quantile(0.99)), "us")
	r.fact("push to delivery, longest", micros(woken.Max()), "us")
	return nil
}
