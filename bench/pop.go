package main

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/skepmq/skep/bench/wire"
)

// popRow is pops with their acknowledgements, from a queue that was filled before.
type popRow struct {
	batch int
	conns int
}

const popPartitions = 1000

func popScenarios() []scenario {
	var all []scenario
	for _, batch := range []int{1, 100} {
		for _, conns := range []int{1, 16, 64} {
			p := popRow{batch, conns}
			name := fmt.Sprintf("pop+ack/batch=%d/conns=%d/partitions=%d", batch, conns, popPartitions)
			all = append(all, scenario{name: name, quick: batch == 100 && conns == 16, run: p.run})
		}
	}
	return all
}

func (p popRow) run(b *bench, name string) (r *row, err error) {
	broker, err := b.startBroker()
	if err != nil {
		return nil, err
	}
	defer broker.discard(&err)
	// More than can be popped in the time; a row that runs dry all the same is measured
	// until then.
	perSecond := 50_000.0
	if p.batch > 1 {
		perSecond = 350_000
	}
	filled, err := b.fill(broker, int(perSecond*b.o.duration.Seconds()))
	if err != nil {
		return nil, err
	}
	works := make([]work, p.conns)
	for i := range works {
		works[i] = popAndAck(newConsumer(queueName, popQuery{group: "billing", batch: p.batch, partitions: 1}))
	}
	var m measured
	wait := b.profile(broker, name, b.o.duration)
	if err := m.slice(b.ctx, broker, b.o.duration, works); err != nil {
		return nil, err
	}
	if m.tally.messages > filled {
		return nil, fmt.Errorf("%d messages were acknowledged, %d had been pushed", m.tally.messages, filled)
	}
	return m.row(name), wait()
}

// popAndAck is the work: its latency is that of both requests together.
func popAndAck(c *consumer) work {
	return func(conn *wire.Conn, stop *atomic.Bool, t *tally) error {
		for begun := time.Now(); !stop.Load(); {
			n, err := c.pop(conn)
			if err != nil || n == 0 {
				return err
			}
			if err := c.acknowledge(conn); err != nil {
				return err
			}
			now := time.Now()
			t.add(n, now.Sub(begun))
			t.requests++ // they were two
			begun = now
		}
		return nil
	}
}

// fill pushes at least want messages, evenly over popPartitions partitions, and returns
// how many.
func (b *bench) fill(p *process, want int) (int64, error) {
	const (
		conns    = 4
		variants = 64 // a compressor must not find the same payloads close together
	)
	row := pushRow{shape{batch: 100}, conns, popPartitions}
	answer, err := p.probePush(probeQueue, row.shape)
	if err != nil {
		return 0, err
	}
	answer = answerFor(queueName, probeQueue, answer, row.shape)
	perConn := (want/row.batch/popPartitions + 1) * popPartitions / conns
	works := make([]work, conns)
	for i := range works {
		s := newVariedPusher(pushPath, queueName, row.shape, answer, i, variants)
		s.partition, s.partitions = i*popPartitions/conns, popPartitions
		works[i] = s.times(perConn)
	}
	t, _, err := drive(b.ctx, p.address, grace, works)
	if err != nil {
		return 0, fmt.Errorf("fill the queue: %w", err)
	}
	return t.messages, p.checkStored(queueName, t.messages)
}

// probeQueue takes the probe where the queue itself must hold nothing else.
const probeQueue = "probe"

// times is the work of n pushes.
func (p *pusher) times(n int) work {
	return func(c *wire.Conn, stop *atomic.Bool, t *tally) error {
		for range n {
			if stop.Load() {
				return fmt.Errorf("stopped before %d pushes were done", n)
			}
			r := p.next()
			begun := time.Now()
			if err := p.send(c, r); err != nil {
				return err
			}
			t.add(r.shape.batch, time.Since(begun))
		}
		return nil
	}
}
