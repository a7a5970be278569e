package server

import (
	"sync"
	"time"
)

// budget bounds memory that requests take piece by piece: one the bodies that are
// larger than what fasthttp reads ahead, with what they are decoded to, another the
// answers. Requests could come to hold one another up: each with a part of what it
// needs, none able to take more. To exclude that, room for one whole request is set
// aside. The first that would have to wait gets this reserve and can always finish; the
// others wait in order.
type budget struct {
	total int64 // to be shared

	mu       sync.Mutex
	free     int64
	reserved bool // a request holds the reserve
	waiting  []*bodyWait
}

// grant is what one request has taken.
type grant struct {
	bytes     int64 // from the shared part
	unlimited bool  // holds the reserve
}

type bodyWait struct {
	grant *grant
	bytes int64
	ready chan struct{}
}

// newBudget shares total bytes, the reserve of one body included.
func newBudget(total, body int64) *budget {
	shared := max(total-body, 0)
	return &budget{total: shared, free: shared}
}

// take adds n bytes to g and reports whether it could within patience. After false
// g is as it was, and still to be given back.
func (b *budget) take(g *grant, n int64, patience time.Duration) bool {
	w := b.ask(g, n)
	if w == nil {
		return true
	}
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-w.ready:
		return true
	case <-timer.C:
		return !b.forget(w)
	}
}

// ask takes n bytes, or returns the wait for them.
func (b *budget) ask(g *grant, n int64) *bodyWait {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.tryLocked(g, n) {
		return nil
	}
	w := &bodyWait{grant: g, bytes: n, ready: make(chan struct{})}
	b.waiting = append(b.waiting, w)
	return w
}

// try adds n bytes to g if they are there now. Who can do without leaves a quarter of
// all to those who cannot, and the reserve.
func (b *budget) try(g *grant, n int64, must bool) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !must && !g.unlimited && b.free-n < b.total/4 {
		return false
	}
	return b.tryLocked(g, n)
}

func (b *budget) tryLocked(g *grant, n int64) bool {
	switch {
	case g.unlimited:
	case len(b.waiting) == 0 && b.free >= n:
		b.free -= n
		g.bytes += n
	case !b.reserved:
		b.reserved, g.unlimited = true, true
	default:
		return false
	}
	return true
}

// settle makes g one of n bytes, now that they are known. They may be a few more than
// were taken. Who holds the reserve keeps it while there is nothing else.
func (b *budget) settle(g *grant, n int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if g.unlimited {
		if b.free < n {
			return
		}
		b.reserved, g.unlimited = false, false
	}
	b.free += g.bytes - n
	g.bytes = n
	b.serve()
}

// used returns how many bytes are taken, those of who holds the reserve left out.
func (b *budget) used() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.total - b.free
}

// pressed reports whether requests wait.
func (b *budget) pressed() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.waiting) > 0
}

// forget ends a wait. It reports false when the bytes came after all.
func (b *budget) forget(w *bodyWait) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i, other := range b.waiting {
		if other == w {
			b.waiting = append(b.waiting[:i], b.waiting[i+1:]...)
			b.serve() // those behind it may want less
			return true
		}
	}
	return false
}

// giveBack returns all of g and serves those who wait, in order.
func (b *budget) giveBack(g *grant) {
	if g.bytes == 0 && !g.unlimited {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.free += g.bytes
	if g.unlimited {
		b.reserved = false
	}
	*g = grant{}
	b.serve()
}

// serve gives those who wait what there is, in order. b.mu is held.
func (b *budget) serve() {
	for len(b.waiting) > 0 {
		w := b.waiting[0]
		switch {
		case b.free >= w.bytes:
			b.free -= w.bytes
			w.grant.bytes += w.bytes
		case !b.reserved:
			b.reserved, w.grant.unlimited = true, true
		default:
			return
		}
		b.waiting[0] = nil
		b.waiting = b.waiting[1:]
		close(w.ready)
	}
}
