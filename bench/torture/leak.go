package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/skepmq/skep/bench/rig"
)

const (
	// workersEnd is how long fasthttp keeps the goroutines of connections that are gone,
	// twice ten seconds, and room for a busy machine.
	workersEnd = 45 * time.Second
	// The runtime has goroutines of its own that come and go; segments stay open to be read.
	slackGoroutines = 5
	slackFiles      = 20
)

// leak loads the broker again and again. When the clients are gone it has no more goroutines
// and descriptors than before.
func leak(e *env) error {
	pprof, err := rig.FreeAddress()
	if err != nil {
		return err
	}
	b := e.brokers("SKEP_CHECKPOINT_BYTES=1000000")
	b.Arguments = []string{"--pprof", pprof}
	t, a := newTally(e.rng.Uint64(), 60, 2000), newAPI()
	p, err := e.start(b, filepath.Join(e.dir, "data"), a)
	if err != nil {
		return err
	}
	defer func() { p.Kill(); e.counts.tally(t) }()
	fresh, err := footprintOf(p, pprof)
	if err != nil {
		return err
	}
	// Some seconds of the share go to waiting at the end.
	for n := 0; e.more(n) && time.Now().Before(e.deadline.Add(-workersEnd/2)) || n < 3; n++ {
		if err := e.loadForLeaks(t, a); err != nil {
			return err
		}
		e.counts.add("rounds", 1)
	}
	var now footprint
	for end := time.Now().Add(workersEnd); ; sleep(e.ctx, 100*time.Millisecond) {
		if now, err = footprintOf(p, pprof); err != nil {
			return err
		}
		if now.goroutines <= fresh.goroutines+slackGoroutines && now.files <= fresh.files+slackFiles {
			break
		}
		if time.Now().After(end) {
			return violated("leak", "%+v at first, %+v in the end", fresh, now)
		}
	}
	e.counts.add("goroutines", int64(now.goroutines))
	e.counts.add("descriptors", int64(now.files))
	return nil
}

// loadForLeaks pushes, works, polls and hangs up.
func (e *env) loadForLeaks(t *tally, a *api) error {
	l := t.startLoad(e.ctx, a, shape{queues: 4, partitions: 4, pushers: 6, workers: 4, batch: 8})
	ctx, hangUp := context.WithCancel(e.ctx)
	var polls sync.WaitGroup
	for i := range 50 {
		polls.Go(func() {
			_, _, _ = a.call(ctx, http.MethodGet, popPath(fmt.Sprintf("empty-%d", i), "poller", "wait=true&timeout=30000"), nil)
		})
	}
	sleep(e.ctx, 500*time.Millisecond)
	hangUp()
	polls.Wait()
	l.stop()
	err := t.drain(e.ctx, a, "audit", drainOptions{})
	a.client.CloseIdleConnections()
	return err
}

// footprint is what a process holds.
type footprint struct{ goroutines, files int }

func footprintOf(p *rig.Process, pprof string) (f footprint, err error) {
	files, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", p.PID()))
	if os.IsNotExist(err) {
		return f, rig.Lacking("no /proc")
	}
	if err != nil {
		return f, err
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: patience}
	resp, err := client.Get("http://" + pprof + "/debug/pprof/goroutine?debug=1")
	if err != nil {
		return f, err
	}
	defer func() { _ = resp.Body.Close() }() // read to its end
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return f, err
	}
	f.files = len(files)
	_, err = fmt.Sscanf(string(text), "goroutine profile: total %d", &f.goroutines)
	return f, err
}
