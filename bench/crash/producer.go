package main

import (
	"context"
	"fmt"
	"time"
)

const (
	partitions    = 12 // of each queue
	maxPushItems  = 50
	maxBacklog    = 8000  // messages that a producer lets pile up
	epochMessages = 24000 // bounds the memory of an epoch, and the time of its drain
)

// producer pushes to the queues of an epoch until its context ends.
type producer struct {
	*worker
	epoch  *epoch
	serial int
	last   []*message // of an answered push with own ids
}

// run returns when ctx ends.
func (p *producer) run(ctx context.Context) {
	defer p.hangUp()
	for ctx.Err() == nil {
		if p.epoch.full() {
			if p.pause(ctx, 5*time.Millisecond) != nil {
				return
			}
			continue
		}
		// Without a pause the backlog would be full before the first kill.
		if p.once(ctx) != nil || p.pause(ctx, time.Duration(p.rng.IntN(12))*time.Millisecond) != nil {
			return
		}
	}
}

// once pushes, and what got no answer it may push again.
func (p *producer) once(ctx context.Context) error {
	if p.last != nil && p.chance(6) {
		_, err := p.push(ctx, p.last) // all of them duplicates
		return err
	}
	own := p.chance(70)
	items := p.items(own)
	ok, err := p.push(ctx, items)
	// Minted ids cannot be tried again: the broker would mint others.
	for again := own && p.chance(75); err == nil && !ok && again; {
		ok, err = p.push(ctx, items)
	}
	if own && ok {
		p.last = items
	}
	return err
}

// items makes the messages of one push, for several partitions of both queues.
func (p *producer) items(own bool) []*message {
	n := 1 + p.rng.IntN(maxPushItems)
	if p.chance(60) {
		n = 1
	}
	spread := 1 + p.rng.IntN(4)
	lanes := make([]int, spread)
	for i := range lanes {
		lanes[i] = p.rng.IntN(partitions)
	}
	items := make([]*message, 0, n+1)
	for range n {
		q, poison := p.epoch.main, p.rng.IntN(400) == 0
		if p.chance(15) {
			q, poison = p.epoch.auto, false
		}
		txn := ""
		if own {
			p.serial++
			txn = fmt.Sprintf("%s-%d-%d", p.name, p.epoch.number, p.serial)
		}
		items = append(items, p.check.addMessage(q, lane(lanes[p.rng.IntN(spread)]), txn, poison))
	}
	if own && p.chance(5) {
		items = append(items, items[p.rng.IntN(n)]) // twice in one request
	}
	return items
}

func lane(n int) string { return fmt.Sprintf("lane/%d", n) }
