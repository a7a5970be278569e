package main

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/skepmq/skep/bench/wire"
)

const (
	// reclaimBytes is the payload that is pushed, reclaimMark what is to be on disk when it
	// was consumed and only one partition of it is left, and reclaimWithin how soon.
	reclaimBytes  = 300_000_000
	reclaimMark   = 60_000_000
	reclaimWithin = 30 * time.Second

	factReclaimed = "on disk, 30 s after"
	factIdleCPU   = "processor time, the 10 s after that"
)

func reclaimScenarios() []scenario {
	var all []scenario
	for _, held := range []int{1, popPartitions / 4} {
		all = append(all, scenario{name: reclaimName(held), slow: true, run: func(b *bench, name string) (*row, error) {
			return runReclaim(b, name, held, reclaimBytes/payloadSize, reclaimWithin)
		}})
	}
	return all
}

func reclaimName(held int) string { return fmt.Sprintf("reclaim/held=%d", held) }

// runReclaim fills a queue, lets a group consume all of it but for some partitions, and
// measures how soon the disk is given back, and what that does to a stream of pushes and
// pops. What was not consumed must be there afterwards, also after a kill.
func runReclaim(b *bench, name string, held, messages int, within time.Duration) (r *row, err error) {
	broker, err := b.startBroker()
	if err != nil {
		return nil, err
	}
	defer broker.discard(&err)
	filled, err := b.fill(broker, messages)
	if err != nil {
		return nil, err
	}
	if err := broker.configure(queueName, `{"retentionEnabled":true,"completedRetentionSeconds":5}`); err != nil {
		return nil, err
	}
	if err := broker.hold(held); err != nil {
		return nil, err
	}
	_, before, err := broker.files()
	if err != nil {
		return nil, err
	}
	r = &row{Name: name}
	r.fact("on disk, full", float64(before)/1e6, "MB")
	beside, err := startStream(b.ctx, broker.address, besideQueue)
	if err != nil {
		return nil, err
	}
	err = r.reclaim(b, broker, beside, within)
	if err = errors.Join(err, beside.stop()); err != nil {
		return nil, err
	}
	return r, broker.checkHeld(b, filled*int64(held)/popPartitions)
}

// reclaim watches the disk after the queue was drained.
func (r *row) reclaim(b *bench, p *process, beside *stream, within time.Duration) error {
	if err := wait(b.ctx, 2*time.Second); err != nil {
		return err
	}
	quiet := beside.take()
	if err := p.drain(b, "billing"); err != nil {
		return err
	}
	drained := time.Now()
	beside.take()
	var below time.Duration
	var size int64
	for time.Since(drained) < within {
		if err := wait(b.ctx, 100*time.Millisecond); err != nil {
			return err
		}
		var err error
		if _, size, err = p.files(); err != nil {
			return err
		}
		if below == 0 && size < reclaimMark {
			below = time.Since(drained)
		}
	}
	h := beside.take()
	r.fact(factReclaimed, float64(size)/1e6, "MB")
	if below > 0 {
		r.fact("below 60 MB after", below.Seconds(), "s")
	}
	r.fact("  beside nothing, p99", millis(quiet.Quantile(0.99)), "ms")
	r.fact("  beside nothing, max", millis(quiet.Max()), "ms")
	r.fact("  beside it, p99", millis(h.Quantile(0.99)), "ms")
	r.fact("  beside it, max", millis(h.Max()), "ms")
	if err := beside.stop(); err != nil {
		return err
	}
	cpu, err := cpuOf(p.pid())
	if err != nil {
		return err
	}
	if err := wait(b.ctx, 10*time.Second); err != nil {
		return err
	}
	now, err := cpuOf(p.pid())
	r.fact(factIdleCPU, millis(now-cpu), "ms")
	return err
}

func (p *process) configure(queue, options string) error {
	body := fmt.Sprintf(`{"queue":%q,"options":%s}`, queue, options)
	status, answer, err := p.once(append(appendPostHead(nil, "/api/v1/configure", len(body)), body...))
	if err == nil && status/100 != 2 {
		err = fmt.Errorf("configure: %w", statusError{status, string(answer)})
	}
	return err
}

// hold leases a message of each of the first partitions for longer than all of it takes.
func (p *process) hold(partitions int) error {
	for i := range partitions {
		path := fmt.Sprintf("/api/v1/pop/queue/%s/partition/p%0*d?batch=1&leaseSeconds=100000&consumerGroup=billing", queueName, partitionDigits, i)
		if _, err := p.get(path); err != nil {
			return err
		}
	}
	return nil
}

// drain lets a group consume whatever is not leased.
func (p *process) drain(b *bench, group string) error {
	works := make([]work, 8)
	for i := range works {
		works[i] = popAndAck(newConsumer(queueName, popQuery{group: group, batch: 1000, partitions: 10}))
	}
	_, _, err := drive(b.ctx, p.address, grace, works)
	return err
}

// checkHeld kills the broker, starts it again, and lets a group that has seen nothing read
// what there is: no less than what was never consumed, and no more.
func (p *process) checkHeld(b *bench, want int64) (err error) {
	p.kill()
	if err := p.start(b.ctx, 30*time.Second); err != nil {
		return err
	}
	c, err := wire.Dial(p.address)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	var stop atomic.Bool
	var t tally
	if err := popAndAck(newConsumer(queueName, popQuery{group: "audit", batch: 1000, partitions: 10}))(c, &stop, &t); err != nil {
		return err
	}
	if t.messages != want {
		return fmt.Errorf("%d messages are left of %d that nobody has consumed", t.messages, want)
	}
	return nil
}
