package main

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"time"
)

// firstStart kills the broker while it makes its data directory, some times in a row. The
// next start makes it.
func firstStart(e *env) error {
	b := e.brokers()
	for n := 0; e.more(n); n++ {
		dir := filepath.Join(e.dir, fmt.Sprintf("data-%d", n))
		for range 1 + e.rng.IntN(3) {
			p, err := b.Start(dir)
			if err != nil {
				return err
			}
			time.Sleep(time.Duration(e.rng.Int64N(int64(60 * time.Millisecond))))
			p.Kill()
			e.counts.add("kills", 1)
		}
		if err := e.servesNew(dir); err != nil {
			return err
		}
		e.counts.add("rounds", 1)
	}
	return nil
}

// servesNew starts the broker and pushes and drains a message.
func (e *env) servesNew(dir string) error {
	b, a, t := e.brokers(), newAPI(), newTally(e.seed, 100, 200)
	p, err := e.start(b, dir, a)
	if err != nil {
		return err
	}
	defer func() { p.Kill(); e.counts.tally(t) }()
	if status := t.push(e.ctx, a, t.lane("queue", "0"), 1); status != http.StatusCreated {
		return violated("unexpected answer", "push: %d", status)
	}
	if err := t.drain(e.ctx, a, "audit", drainOptions{}); err != nil {
		return err
	}
	return os.RemoveAll(dir)
}
