package journal

import (
	"fmt"
	"runtime"
	"time"

	"github.com/skepmq/skep/log/wal"
)

// commit is the committer: it alone writes and syncs the log.
func (j *Journal) commit() {
	// A stopped timer: armed when frames wait that nobody waits for.
	lazy := time.NewTimer(lazyDelay)
	lazy.Stop()
	var tick <-chan time.Time
	if j.o.Sync == SyncInterval {
		t := time.NewTicker(j.o.Interval)
		defer t.Stop()
		tick = t.C
	}
	dirty := false
	before := 0 // frames of the latest group
	var lastWarn time.Time
	for {
		select {
		case <-j.wakeC:
			j.letWaitersGather(before)
		case <-j.lazyC:
			lazy.Reset(lazyDelay)
			continue
		case <-lazy.C:
		case <-tick:
			if dirty {
				j.settle(nil, j.sync(&lastWarn))
				dirty = false
			}
			continue
		case r := <-j.rotateC:
			j.switchTo(r, &lastWarn)
			dirty = false
			continue
		case <-j.stopC:
			g := j.swap()
			j.settle(g, j.write(g, true, &lastWarn))
			return
		}
		g := j.swap()
		before = g.frames
		j.settle(g, j.write(g, j.o.Sync == SyncGroup || g.barrier, &lastWarn))
		dirty = j.o.Sync != SyncGroup
	}
}

// letWaitersGather yields while the open group grows, until it has half of the waiters
// there seem to be: those of the group before, just released, and those here already.
// Waiters released together come back one by one, and syncing the first of them alone
// would let all others wait for two syncs. From half on, the processor time of one half
// and the sync of the other overlap, which is better than waiting for the rest.
func (j *Journal) letWaitersGather(before int) {
	if j.o.Gather != nil {
		j.o.Gather()
	}
	n := j.gathered()
	enough := (before + n + 1) / 2
	for still := 0; n < enough && still < maxYields; {
		runtime.Gosched()
		last := n
		if n = j.gathered(); n == last {
			still++
		}
	}
}

func (j *Journal) gathered() int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.open.frames
}

// swap takes the open group and puts an empty one in its place. It takes the waiters
// together with their bytes, so nobody is released whose bytes were not in the sync.
func (j *Journal) swap() *group {
	j.mu.Lock()
	defer j.mu.Unlock()
	g := j.open
	j.chunk = j.chunk[len(g.buf):]
	j.open = j.newGroup(0)
	j.lazy = false
	return g
}

func (j *Journal) write(g *group, sync bool, lastWarn *time.Time) error {
	if err := j.Err(); err != nil {
		return err
	}
	began := time.Now()
	if g.frames > 0 {
		if err := j.writeBuffers(g); err != nil {
			return fmt.Errorf("write: %w", err)
		}
		j.stats.groups.Add(1)
		j.stats.frames.Add(int64(g.frames))
	} else if j.o.Sync == SyncGroup {
		return nil // an empty Flush: everything before it is synced
	}
	if sync {
		if err := j.sync(lastWarn); err != nil {
			return err
		}
	}
	j.stats.committed(g, time.Since(began))
	return nil
}

func (j *Journal) writeBuffers(g *group) error {
	for _, buf := range append(g.full, g.buf) {
		if len(buf) == wal.Headroom {
			continue
		}
		if _, err := j.log.AppendFramed(buf); err != nil {
			return err
		}
		j.stats.bytes.Add(int64(len(buf)))
	}
	return nil
}

func (j *Journal) sync(lastWarn *time.Time) error {
	start := time.Now()
	if err := j.log.Sync(); err != nil {
		return fmt.Errorf("sync: %w", err)
	}
	took := time.Since(start)
	j.stats.synced(took)
	if took >= slowSync && time.Since(*lastWarn) >= time.Second {
		*lastWarn = time.Now()
		j.o.Logger.Warn().Str("took", took.String()).Str("path", j.o.Dir).Msg("slow sync of the commit journal")
	}
	return nil
}

// settle releases the waiters of g, and poisons the journal when err is not nil.
func (j *Journal) settle(g *group, err error) {
	if err != nil {
		err = j.fail(err)
	}
	if g != nil {
		g.err = err
		close(g.doneC)
	}
}

// fail makes the first failure stick and returns the sticky error.
func (j *Journal) fail(err error) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.err == nil {
		j.err = fmt.Errorf("%w: %w", ErrFailed, err)
		close(j.failedC)
		j.wakeAdmit()
		j.o.Logger.Error().Err(err).Str("path", j.o.Dir).Msg("commit journal failed, no further writes")
	}
	return j.err
}
