package broker

import (
	"sync"
	"time"
)

// sweep is how often waiting pops are looked at whose clients may be gone.
const sweep = 15 * time.Second

// parking knows the pops that wait. One goroutine looks after all their clients: a timer
// for each would be most of what an idle broker with thousands of them does.
type parking struct {
	mu  sync.Mutex
	set map[*waiter]func() bool // to the client's Alive
}

// enter counts w in, unless limit are in already.
func (p *parking) enter(w *waiter, alive func() bool, limit int) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.set) >= limit {
		return false
	}
	if p.set == nil {
		p.set = map[*waiter]func() bool{}
	}
	p.set[w] = alive
	return true
}

func (p *parking) leave(w *waiter) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.set, w)
	if len(p.set) == 0 {
		p.set = nil // a map keeps the room of its largest time
	}
}

func (p *parking) count() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.set)
}

// wakeGone wakes the pops whose clients are gone; they look once more and end. Asking
// a client is a system call, so no lock is held meanwhile.
func (p *parking) wakeGone() {
	p.mu.Lock()
	waiters := make(map[*waiter]func() bool, len(p.set))
	for w, alive := range p.set {
		if alive != nil {
			waiters[w] = alive
		}
	}
	p.mu.Unlock()
	for w, alive := range waiters {
		if !alive() {
			w.wake()
		}
	}
}

// sweepParked is the goroutine that finds waiting pops without a client.
func (b *Broker) sweepParked() {
	tick := time.NewTicker(sweep)
	defer tick.Stop()
	for {
		select {
		case <-b.closeC:
			return
		case <-tick.C:
			b.parking.wakeGone()
		}
	}
}
