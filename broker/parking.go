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
	set map[*waiter]*PopRequest
}

// enter counts w in, unless limit are in already.
func (p *parking) enter(w *waiter, req *PopRequest, limit int) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.set) >= limit {
		return false
	}
	if p.set == nil {
		p.set = map[*waiter]*PopRequest{}
	}
	p.set[w] = req
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
	for w, req := range p.set {
		if req.Alive != nil {
			waiters[w] = req.Alive
		}
	}
	p.mu.Unlock()
	for w, alive := range waiters {
		if !alive() {
			w.wake()
		}
	}
}

// wakeFor wakes the pops that a tenant's queue may have something for; they look once more.
// Which queues a discovery pop takes from only a look tells.
func (p *parking) wakeFor(t Tenant, queue string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for w, req := range p.set {
		if req.Tenant == t && (req.Discovery || req.Queue == queue) {
			w.wake()
		}
	}
}

// Notify makes the parked pops that may want messages of a queue look for them again. They
// are woken by whatever they wait for, so it changes nothing.
func (b *Broker) Notify(t Tenant, queue string) { b.parking.wakeFor(t, queue) }

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
