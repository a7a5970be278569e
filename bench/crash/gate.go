package main

import (
	"context"
	"sync"
)

// gate tells the workers where the broker lives. It is closed while there is none.
type gate struct {
	mu      sync.Mutex
	life    int
	address string
	isOpen  bool
	openC   chan struct{} // closed while the gate is open
}

func newGate() *gate { return &gate{openC: make(chan struct{})} }

func (g *gate) open(life int, address string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.life, g.address, g.isOpen = life, address, true
	close(g.openC)
}

// shut closes the gate, after the broker is gone: requests on their way when it dies are
// what this is about.
func (g *gate) shut() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.isOpen {
		g.isOpen, g.openC = false, make(chan struct{})
	}
}

// wait waits until the gate is open.
func (g *gate) wait(ctx context.Context) (life int, address string, err error) {
	for {
		g.mu.Lock()
		openC := g.openC
		g.mu.Unlock()
		select {
		case <-openC:
		case <-ctx.Done():
			return 0, "", ctx.Err()
		}
		g.mu.Lock()
		life, address, still := g.life, g.address, g.openC == openC
		g.mu.Unlock()
		if still {
			return life, address, nil
		}
	}
}
