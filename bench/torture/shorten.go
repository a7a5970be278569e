package main

import (
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/skepmq/skep/bench/rig"
)

// shorten kills the broker amid pushes of 64 KiB, and then cuts the end off the newest file
// of the journal, or appends zeros. What was in the last entry may be gone then, one push of
// each pusher at most. The start needs no help, and what is pushed behind the cut stays.
func shorten(e *env) error {
	t, a := newTally(e.seed, 60<<10, 64<<10), newAPI()
	b, dir := e.brokers(), filepath.Join(e.dir, "data")
	defer func() { e.counts.tally(t) }()
	p, err := e.start(b, dir, a)
	if err != nil {
		return err
	}
	defer func() { p.Kill() }()
	for n := 0; e.more(n); n++ {
		l := t.startLoad(e.ctx, a, shape{queues: 1, partitions: 1, pushers: 6, batch: 1})
		sleep(e.ctx, 20*time.Millisecond+time.Duration(e.rng.IntN(300))*time.Millisecond)
		p.Kill()
		l.stop()
		if err := e.spoilTail(t, dir); err != nil {
			return err
		}
		if err := e.verify(b, dir); err != nil {
			return err
		}
		if p, err = e.start(b, dir, a); err != nil {
			return err
		}
		if n%8 == 7 {
			if err := t.drain(e.ctx, a, "audit", drainOptions{}); err != nil {
				return err
			}
		}
		e.counts.add("kills", 1)
	}
	p.Kill()
	if p, err = e.start(b, dir, a); err != nil {
		return err
	}
	return t.drain(e.ctx, a, "audit", drainOptions{})
}

// spoilTail appends 1, 511 or 4096 zeros, or cuts 1 to 200 bytes.
func (e *env) spoilTail(t *tally, dir string) error {
	path, err := rig.NewestLogFile(filepath.Join(dir, "journal"))
	if err != nil || path == "" {
		return err
	}
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	if e.rng.IntN(2) == 0 {
		e.counts.add("zeros appended", 1)
		return os.Truncate(path, info.Size()+[]int64{1, 511, 4096}[e.rng.IntN(3)])
	}
	const most = 200
	if info.Size() < most {
		return nil // it has no entry yet
	}
	e.counts.add("ends cut", 1)
	t.mu.Lock()
	for _, l := range t.lanes {
		if last := slices.Index(l.items, stored); last >= 0 {
			for last = len(l.items) - 1; l.items[last] != stored; last-- { // behind it there may be one without an answer
			}
			l.items[last] = unknown
		}
	}
	t.mu.Unlock()
	return os.Truncate(path, info.Size()-1-int64(e.rng.IntN(most)))
}
