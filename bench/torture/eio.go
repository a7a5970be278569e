package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// calls are the system calls that fail, and with what.
var calls = []struct {
	name   string
	errnos []string
	share  int
}{
	{"fdatasync", []string{"EIO", "ENOSPC"}, 6},
	{"pwrite64", []string{"EIO", "ENOSPC", "EDQUOT"}, 6},
	{"fsync", []string{"EIO"}, 2},
	{"write", []string{"EIO", "ENOSPC"}, 3},
	{"openat", []string{"EIO", "ENOSPC", "EMFILE"}, 3},
	{"mkdirat", []string{"EIO", "ENOSPC"}, 1},
	{"unlinkat", []string{"EIO"}, 1},
	{"renameat", []string{"EIO", "ENOSPC"}, 1},
	{"ftruncate", []string{"EIO"}, 1},
}

// failing lets system calls of the broker fail under load: of writing and syncing the
// journal and its homes, after which it must end, and of everything else that it does with
// files, which it may survive. Nothing answered may be lost, and nothing be answered that
// rests on a file whose write or sync has failed.
func failing(e *env) error {
	for n := 0; e.more(n); n++ {
		if err := e.failOnce(n); err != nil {
			return err
		}
		e.counts.add("rounds", 1)
	}
	return nil
}

func (e *env) failOnce(n int) (err error) {
	root := filepath.Join(e.dir, fmt.Sprintf("round-%d", n))
	dir := filepath.Join(root, "data")
	if err := os.Mkdir(root, 0o700); err != nil {
		return err
	}
	b := e.brokers()
	if e.rng.IntN(3) > 0 {
		b.Env = append(b.Env, fmt.Sprintf("SKEP_CHECKPOINT_BYTES=%d", 1<<(16+e.rng.IntN(6))))
	}
	t, a := newTally(e.rng.Uint64(), 100, 4<<10), newAPI()
	p, err := e.start(b, dir, a)
	if err != nil {
		return err
	}
	defer func() { p.Kill(); e.counts.tally(t) }()
	l := t.startLoad(e.ctx, a, shape{queues: 4, partitions: 5, pushers: 6, workers: 2, batch: 8})
	defer func() { l.stop() }()
	sleep(e.ctx, time.Duration(e.rng.IntN(300))*time.Millisecond)
	f, err := e.chooseFault(dir)
	if err != nil {
		return err
	}
	fmt.Fprintf(e.log, "round %d: %v, %v\n", n, f, b.Env)
	t.unreadable.Store(f.call == "openat")
	tr, err := attach(p, filepath.Join(root, "trace"), f)
	if err != nil {
		return err
	}
	stopWatch := t.watchHealth(e.ctx, a)
	select {
	case <-p.ExitedC:
	case <-time.After(300*time.Millisecond + time.Duration(e.rng.IntN(1200))*time.Millisecond):
	}
	ended := p.Ended()
	if made, err := tr.calls(); err != nil {
		return err
	} else if !ended && mustEnd(dir, made) {
		select { // it has just happened
		case <-p.ExitedC:
			ended = true
		case <-time.After(drainPatience):
		}
	}
	stopWatch()
	l.stop()
	p.Kill()
	tr.done()
	made, err := tr.calls()
	if err != nil {
		return err
	}
	if err := e.judge(dir, f, made); err != nil {
		return err
	}
	switch {
	case ended:
		err = e.stoppedByFailure(b, p)
	case mustEnd(dir, made):
		err = violated("fail-stop", "%v: the broker lives on\n%s", f, b.LastWords(p))
	}
	if err != nil {
		return err
	}
	if err := e.verify(b, dir); err != nil {
		return err
	}
	t.revive()
	t.unreadable.Store(false)
	if p, err = e.start(b, dir, a); err != nil {
		return err
	}
	if err := t.drainAll(e.ctx, a, "audit"); err != nil {
		return err
	}
	return os.RemoveAll(root)
}

// chooseFault makes one at random.
func (e *env) chooseFault(dir string) (f fault, err error) {
	pick := 0
	for _, c := range calls {
		pick += c.share
	}
	pick = e.rng.IntN(pick)
	for _, c := range calls {
		if pick -= c.share; pick < 0 {
			f = fault{call: c.name, errno: c.errnos[e.rng.IntN(len(c.errnos))], n: 1 + e.rng.IntN(12)}
			break
		}
	}
	homes := []string{"offsets", "catalog"}
	switch f.call {
	case "write": // answers are written too, so it needs paths
	case "fdatasync", "pwrite64":
		if homes = []string{"", "journal", "segments", "offsets", "catalog", "dedup"}; e.rng.IntN(2) == 0 {
			return f, nil
		}
	default:
		return f, nil
	}
	f.paths, err = filesOf(dir, homes[e.rng.IntN(len(homes))])
	return f, err
}

// filesOf returns the files below a part of the data directory, and those that come next.
func filesOf(dir, part string) (paths []string, err error) {
	if part == "" {
		return nil, nil
	}
	last := 0
	err = filepath.WalkDir(filepath.Join(dir, part), func(path string, d os.DirEntry, err error) error {
		if os.IsNotExist(err) || err == nil && d.IsDir() {
			return nil // a checkpoint removes them while we look
		}
		paths = append(paths, path)
		if part == "segments" {
			_, _ = fmt.Sscanf(d.Name(), "%x", &last)
		}
		return err
	})
	for i := range 8 {
		paths = append(paths, filepath.Join(dir, "segments", fmt.Sprintf("%08x.seg", last+1+i)))
	}
	return paths, err
}

// mustEnd reports whether a write or sync has failed after which nothing can be promised.
func mustEnd(dir string, made []traced) bool {
	for _, c := range made {
		if c.injected && c.writes() {
			switch home(dir, c.path) {
			case "journal", "offsets", "catalog":
				return true
			}
		}
	}
	return false
}

// judge looks for calls that trust a file whose sync has failed: the kernel may have
// dropped its pages, and the next sync of it says nothing. After a write that has failed,
// which segments may survive, the bytes are written again. The logs of offsets and catalogue
// are synced once more when they are closed, which nobody relies on.
func (e *env) judge(dir string, f fault, made []traced) error {
	failed := map[string]bool{}
	for _, c := range made {
		part := home(dir, c.path)
		switch {
		case c.injected:
			e.counts.add("faults", 1)
			if c.writes() && part != "" {
				isSync := c.call == "fsync" || c.call == "fdatasync"
				failed[c.path] = isSync && part != "offsets" && part != "catalog"
				e.counts.add("of writing "+part, 1)
			}
		case c.writes() && failed[c.path] && !strings.HasPrefix(c.result, "-1"):
			return violated("synced again", "%v: %s of %s after its sync had failed", f, c.call, c.path)
		}
	}
	return nil
}

// watchHealth asks for /health until it is stopped. After an answer that a write has
// failed it must not be 200.
func (t *tally) watchHealth(ctx context.Context, a *api) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Go(func() {
		for ; ctx.Err() == nil; sleep(ctx, time.Millisecond) {
			begun := time.Now()
			status, _, err := a.call(ctx, http.MethodGet, "/health", nil)
			if err == nil && status == http.StatusOK && t.failedBefore(begun) {
				t.complain(violated("health", "200 after an answer that a write has failed"))
			}
		}
	})
	return func() { cancel(); wg.Wait() }
}

// failedBefore reports whether a write was answered to have failed before a moment.
func (t *tally) failedBefore(at time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return !t.failedAt.IsZero() && t.failedAt.Before(at)
}

// revive begins another life.
func (t *tally) revive() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.failedAt = time.Time{}
}
