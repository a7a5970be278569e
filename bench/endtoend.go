package main

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/skepmq/skep/bench/wire"
)

// endToEndFloor is the row that the floor is measured on.
const endToEndFloor = "e2e/closed/batch=100"

// flow is producers and consumers at once. Every message carries the time at which it was
// sent, or should have been; its latency ends when a consumer has it.
type flow struct {
	batch     int
	producers int
	consumers int
	rate      float64 // messages a second of all producers; 0: as fast as the backlog allows
	query     popQuery

	begun  time.Time
	pushed atomic.Int64 // answered pushes
	acked  atomic.Int64
	active atomic.Int64 // producers
	ended  atomic.Int64 // nanoseconds after begun at which everything was acknowledged
}

// maxBacklog is how many messages producers without a rate may be ahead of the consumers.
const maxBacklog = 40_000

func endToEndScenarios() []scenario {
	closed := func(b *bench, name string) (*row, error) {
		f := &flow{batch: 100, producers: 8, consumers: 8,
			query: popQuery{group: "billing", batch: 100, partitions: 1, wait: 200 * time.Millisecond}}
		return f.run(b, name)
	}
	steady := func(b *bench, name string) (*row, error) {
		f := &flow{batch: 10, producers: 8, consumers: 8, rate: 20_000,
			query: popQuery{group: "billing", batch: 100, partitions: 10, wait: 200 * time.Millisecond}}
		return f.run(b, name)
	}
	return []scenario{
		{name: endToEndFloor, quick: true, run: closed},
		{name: "e2e/rate=20k/batch=10", quick: true, run: steady},
	}
}

func (f *flow) run(b *bench, name string) (r *row, err error) {
	broker, err := b.startBroker()
	if err != nil {
		return nil, err
	}
	defer broker.discard(&err)
	s := shape{batch: f.batch}
	answer, err := broker.probePush(probeQueue, s) // whose message carries no time
	if err != nil {
		return nil, err
	}
	answer = answerFor(queueName, probeQueue, answer, s)
	var works []work
	for i := range f.producers {
		p := newPusher(pushPath, queueName, s, answer, i)
		p.partition, p.partitions = i*popPartitions/f.producers, popPartitions
		works = append(works, f.produce(p, i))
	}
	for range f.consumers {
		works = append(works, f.consume(newConsumer(queueName, f.query)))
	}
	f.active.Store(int64(f.producers))
	f.begun = time.Now()
	var m measured
	wait := b.profile(broker, name, b.o.duration)
	if err := m.slice(b.ctx, broker, b.o.duration, works); err != nil {
		return nil, err
	}
	if f.acked.Load() != f.pushed.Load() {
		return nil, fmt.Errorf("%d messages were pushed, %d acknowledged", f.pushed.Load(), f.acked.Load())
	}
	// The last polls found nothing; their wait is not part of the work.
	m.elapsed = time.Duration(f.ended.Load())
	return m.row(name), wait()
}

// produce is the work of producer number i.
func (f *flow) produce(p *pusher, i int) work {
	return func(c *wire.Conn, stop *atomic.Bool, t *tally) (err error) {
		defer f.active.Add(-1)
		pace, err := f.pace(i)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, pace.close()) }()
		for !stop.Load() {
			due, ok, err := pace.next()
			if err != nil {
				return err
			}
			if !ok {
				continue
			}
			r := p.next()
			r.setStamp(int64(due.Sub(f.begun)))
			if err := p.send(c, r); err != nil {
				return err
			}
			f.pushed.Add(int64(f.batch))
			t.requests++
		}
		return nil
	}
}

// pace says when a producer sends.
type pace struct {
	flow     *flow
	alarm    *alarm
	due      time.Time
	interval time.Duration // 0: no rate
}

// pace returns the pace of producer number i: between them they are evenly spread.
func (f *flow) pace(i int) (*pace, error) {
	alarm, err := newAlarm()
	if err != nil {
		return nil, err
	}
	p := &pace{flow: f, alarm: alarm, due: f.begun}
	if f.rate > 0 {
		p.interval = time.Duration(float64(time.Second) * float64(f.batch*f.producers) / f.rate)
		p.due = p.due.Add(p.interval * time.Duration(i) / time.Duration(f.producers))
	}
	return p, nil
}

// next waits until the next push is due and returns when that was; not ok says to ask
// again, since the consumers are too far behind.
func (p *pace) next() (due time.Time, ok bool, err error) {
	now := time.Now()
	if p.interval == 0 {
		if p.flow.pushed.Load()-p.flow.acked.Load() < maxBacklog {
			return now, true, nil
		}
		return now, false, p.alarm.wait(now.Add(time.Millisecond))
	}
	due = p.due
	p.due = due.Add(p.interval)
	return due, true, p.alarm.wait(due)
}

func (p *pace) close() error { return p.alarm.close() }

// consume is the work of a consumer: it ends when nothing is left to come.
func (f *flow) consume(k *consumer) work {
	return func(c *wire.Conn, stop *atomic.Bool, t *tally) error {
		var now time.Duration
		k.delivered = func(payload []byte) {
			t.latency.Record(now - stampOf(payload))
		}
		for !f.done() {
			// The stamps are read when the answer has been, which is when it is parsed.
			status, body, err := c.Do(k.popRequest)
			now = time.Since(f.begun)
			n, err := k.popped(status, body, err)
			if err != nil {
				return err
			}
			t.requests++
			if n == 0 {
				continue
			}
			if err := k.acknowledge(c); err != nil {
				return err
			}
			t.requests++
			t.messages += int64(n)
			f.acked.Add(int64(n))
			f.ended.Store(int64(time.Since(f.begun)))
		}
		return nil
	}
}

// done reports whether every message has been acknowledged and no more will come.
func (f *flow) done() bool {
	return f.active.Load() == 0 && f.acked.Load() >= f.pushed.Load()
}

// stampOf returns the stamp of a payload.
func stampOf(payload []byte) time.Duration {
	var v int64
	for _, d := range payload[len(payloadStart) : len(payloadStart)+stampDigits] {
		v = v*10 + int64(d-'0')
	}
	return time.Duration(v - stampBase)
}
