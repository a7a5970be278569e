package main

import (
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/skepmq/skep/log/journal"
)

// TestPushPopAck runs the works of the harness against a real broker: everything that is
// pushed must be popped and acknowledged once.
func TestPushPopAck(t *testing.T) {
	for _, s := range []shape{{batch: 1}, {batch: 10, ids: true}, {batch: 10, spread: true}} {
		t.Run(fmt.Sprintf("%+v", s), func(t *testing.T) {
			p := startInProcess(t, journal.SyncNever)
			push := p.pusher(s)
			push.partitions = 7
			c := p.dial()
			var stop atomic.Bool
			var pushed, popped tally
			if err := push.times(20)(c, &stop, &pushed); err != nil {
				t.Fatal(err)
			}
			k := newConsumer(queueName, popQuery{group: "billing", batch: 8, partitions: 3})
			delivered := 0
			k.delivered = func(payload []byte) {
				delivered++
				if stampOf(payload) != 0 {
					t.Errorf("got stamp %v", stampOf(payload))
				}
			}
			if err := popAndAck(k)(c, &stop, &popped); err != nil {
				t.Fatal(err)
			}
			want := int64(20 * s.batch)
			if pushed.messages != want || popped.messages != want || int64(delivered) != want {
				t.Errorf("got %d pushed, %d popped, %d delivered, want %d", pushed.messages, popped.messages, delivered, want)
			}
		})
	}
}

// TestFlow runs producers and consumers at once, with and without a rate: all that was
// pushed must have been acknowledged when they are done, and every message have a latency.
func TestFlow(t *testing.T) {
	for _, tt := range []struct {
		name string
		rate float64
	}{{"closed", 0}, {"at a rate", 1e6}} {
		t.Run(tt.name, func(t *testing.T) {
			p := startInProcess(t, journal.SyncNever)
			f := &flow{batch: 10, producers: 2, rate: tt.rate, begun: time.Now()}
			query := popQuery{group: "billing", batch: 15, partitions: 2, wait: 20 * time.Millisecond}
			var works []work
			for i := range f.producers {
				push := p.pusher(shape{batch: f.batch})
				push.partition, push.partitions = 3*i, 7
				works = append(works, f.produce(push, i))
			}
			for range 2 {
				works = append(works, f.consume(newConsumer(queueName, query)))
			}
			f.active.Store(int64(f.producers))
			const enough = 1000
			var stop atomic.Bool
			var wg sync.WaitGroup
			tallies := make([]tally, len(works))
			for i, do := range works {
				c := p.dial()
				wg.Go(func() {
					if err := do(c, &stop, &tallies[i]); err != nil {
						t.Error(err)
						stop.Store(true)
					}
				})
			}
			for f.acked.Load() < enough && !stop.Load() {
				runtime.Gosched()
			}
			stop.Store(true)
			wg.Wait()
			total := &tallies[0]
			for i := range tallies[1:] {
				total.merge(&tallies[1+i])
			}
			if n := f.pushed.Load(); n < enough || f.acked.Load() != n || total.messages != n || int64(total.latency.Count()) != n {
				t.Errorf("got %d pushed, %d acknowledged, %d counted, %d latencies", n, f.acked.Load(), total.messages, total.latency.Count())
			}
		})
	}
}

// TestPace expects the pushes of all producers evenly spread, and none early.
func TestPace(t *testing.T) {
	const interval = 2 * time.Millisecond
	f := &flow{batch: 10, producers: 2, rate: 10_000, begun: time.Now()}
	for i := range f.producers {
		p, err := f.pace(i)
		if err != nil {
			t.Fatal(err)
		}
		for n := range 5 {
			due, ok, err := p.next()
			want := f.begun.Add(time.Duration(i)*interval/2 + time.Duration(n)*interval)
			if err != nil || !ok || !due.Equal(want) || time.Now().Before(want) {
				t.Errorf("producer %d, push %d: got %v, %t, %v want %v", i, n, due.Sub(f.begun), ok, err, want.Sub(f.begun))
			}
		}
		if err := p.close(); err != nil {
			t.Error(err)
		}
	}
	f = &flow{begun: time.Now()}
	f.pushed.Store(maxBacklog)
	p, err := f.pace(0)
	if err != nil {
		t.Fatal(err)
	}
	if _, ok, err := p.next(); ok || err != nil {
		t.Errorf("with a full backlog: got %t, %v", ok, err)
	}
	f.acked.Store(1)
	if _, ok, err := p.next(); !ok || err != nil {
		t.Errorf("with room in the backlog: got %t, %v", ok, err)
	}
	if err := p.close(); err != nil {
		t.Error(err)
	}
}
