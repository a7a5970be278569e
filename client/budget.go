package client

import (
	"context"
	"sync"
)

// budget shares the limit of a Consume among its workers. A worker reserves what a
// pop may bring, and returns what it did not use; a worker that finds nothing left
// waits until that is certain. nil has no limit.
type budget struct {
	mu       sync.Mutex
	free     int
	reserved int
	changed  chan struct{} // closed and replaced at every return
}

func newBudget(limit int) *budget {
	if limit <= 0 {
		return nil
	}
	return &budget{free: limit, changed: make(chan struct{})}
}

// reserve returns up to n, or 0 when the limit is reached or ctx has ended.
func (b *budget) reserve(ctx context.Context, n int) int {
	if b == nil {
		if ctx.Err() != nil {
			return 0
		}
		return n
	}
	for ctx.Err() == nil {
		b.mu.Lock()
		if b.free > 0 || b.reserved == 0 {
			n = min(n, b.free)
			b.free -= n
			b.reserved += n
			b.mu.Unlock()
			return n
		}
		changed := b.changed
		b.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
		}
	}
	return 0
}

// settle ends a reservation of n, of which used are spent.
func (b *budget) settle(n, used int) {
	if b == nil || n == 0 {
		return
	}
	b.mu.Lock()
	b.reserved -= n
	b.free += n - used
	close(b.changed)
	b.changed = make(chan struct{})
	b.mu.Unlock()
}

// spent reports whether the limit is reached.
func (b *budget) spent() bool {
	if b == nil {
		return false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.free == 0 && b.reserved == 0
}
