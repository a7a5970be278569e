package main

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/skepmq/skep/bench/wire"
)

const (
	newPartitionsName = "partitions/new"
	factNewPartitions = "new partitions"

	cardinalityName      = "partitions/1M"
	factCardinalityRSS   = "memory, the most of all phases"
	factCardinalityFiles = "files"
	factRestart          = "kill -9 to ready, without the kill"

	million   = 1_000_000
	unlimited = 1 << 40
)

// scattered is a push whose items all go to other partitions.
var scattered = shape{batch: 100, spread: true}

func newPartitionsScenario() scenario {
	return scenario{name: newPartitionsName, quick: true, run: runNewPartitions}
}

func cardinalityScenario() scenario {
	return scenario{name: cardinalityName, slow: true, run: runCardinality}
}

// creators returns the work of conns connections that push to partitions nobody has used,
// until there are limit of them.
func creators(conns, answer int, limit int64) []work {
	var next atomic.Int64
	works := make([]work, conns)
	for i := range works {
		p := newPusher(pushPath, queueName, scattered, answer, i)
		works[i] = func(c *wire.Conn, stop *atomic.Bool, t *tally) error {
			for !stop.Load() {
				first := next.Add(int64(scattered.batch)) - int64(scattered.batch)
				if first >= limit {
					return nil
				}
				r := p.next()
				r.setPartition(int(first), -1)
				begun := time.Now()
				if err := p.send(c, r); err != nil {
					return err
				}
				t.add(r.shape.batch, time.Since(begun))
			}
			return nil
		}
	}
	return works
}

// runNewPartitions measures how fast partitions come into being.
func runNewPartitions(b *bench, name string) (r *row, err error) {
	broker, err := b.startBroker()
	if err != nil {
		return nil, err
	}
	defer broker.discard(&err)
	answer, err := broker.probePush(probeQueue, scattered)
	if err != nil {
		return nil, err
	}
	answer = answerFor(queueName, probeQueue, answer, scattered)
	var m measured
	wait := b.profile(broker, name, b.o.duration)
	if err := m.slice(b.ctx, broker, b.o.duration, creators(16, answer, unlimited)); err != nil {
		return nil, err
	}
	r = m.row(name)
	r.fact(factNewPartitions, r.MessagesPerSec, "1/s")
	return r, errors.Join(wait(), broker.checkStored(queueName, m.tally.messages))
}

// runCardinality makes a million partitions of one message each, kills the broker and
// starts it again.
func runCardinality(b *bench, name string) (r *row, err error) {
	broker, err := b.startBroker()
	if err != nil {
		return nil, err
	}
	defer broker.discard(&err)
	answer, err := broker.probePush(probeQueue, scattered)
	if err != nil {
		return nil, err
	}
	answer = answerFor(queueName, probeQueue, answer, scattered)
	var m measured
	if err := m.slice(b.ctx, broker, 3*time.Minute, creators(16, answer, million)); err != nil {
		return nil, err
	}
	if m.tally.messages != million {
		return nil, fmt.Errorf("only %d partitions were made in time", m.tally.messages)
	}
	r = m.row(name)
	r.fact("time to make them", m.elapsed.Seconds(), "s")
	loaded, err := broker.memoryFact(r, "memory at once")
	if err != nil {
		return nil, err
	}
	if err := broker.settle(b, 30*time.Second); err != nil {
		return nil, err
	}
	settled, err := broker.memoryFact(r, "memory when settled")
	if err != nil {
		return nil, err
	}
	files, size, err := broker.files()
	if err != nil {
		return nil, err
	}
	r.fact(factCardinalityFiles, float64(files), "")
	r.fact("bytes on disk a partition", float64(size)/million, "B")
	restarted, err := broker.killAndRestart(b, r)
	if err != nil {
		return nil, err
	}
	r.fact(factCardinalityRSS, max(loaded, settled, restarted), "MB")
	return r, nil
}

// killAndRestart kills the broker, starts it again and uses it.
func (p *process) killAndRestart(b *bench, r *row) (rss float64, err error) {
	p.kill()
	begun := time.Now()
	if err := p.start(b.ctx, 2*time.Minute); err != nil {
		return 0, err
	}
	r.fact(factRestart, time.Since(begun).Seconds(), "s")
	if rss, err = p.memoryFact(r, "memory after the restart"); err != nil {
		return 0, err
	}
	begun = time.Now()
	if err := p.popOne(); err != nil {
		return 0, fmt.Errorf("after the restart: %w", err)
	}
	r.fact("first pop and ack", micros(time.Since(begun)), "us")
	return rss, p.checkStored(queueName, million)
}

// popOne pops one message and acknowledges it.
func (p *process) popOne() (err error) {
	c, err := wire.Dial(p.address)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	if err := c.SetDeadline(time.Now().Add(grace)); err != nil {
		return err
	}
	k := newConsumer(queueName, popQuery{group: "billing", batch: 1, partitions: 1})
	if n, err := k.pop(c); err != nil || n != 1 {
		return errors.Join(fmt.Errorf("popped %d messages, expected 1", n), err)
	}
	return k.acknowledge(c)
}

// memoryFact adds the memory of the broker to r and returns it, in MB.
func (p *process) memoryFact(r *row, name string) (float64, error) {
	rss, _, err := rssOf(p.pid())
	r.fact(name, megabytes(rss), "MB")
	return megabytes(rss), err
}

func megabytes(n int64) float64 { return float64(n) / 1e6 }

// settle waits until the broker has almost nothing left to do, at most for patience.
func (p *process) settle(b *bench, patience time.Duration) error {
	const step = 500 * time.Millisecond
	for end := time.Now().Add(patience); time.Now().Before(end); {
		before, err := cpuOf(p.pid())
		if err != nil {
			return err
		}
		select {
		case <-time.After(step):
		case <-b.ctx.Done():
			return b.ctx.Err()
		}
		now, err := cpuOf(p.pid())
		if err != nil {
			return err
		}
		if now-before <= step/50 {
			return nil
		}
	}
	return nil
}
