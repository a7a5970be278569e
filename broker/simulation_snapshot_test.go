package broker

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/skepmq/skep/log/backup"
	"github.com/skepmq/skep/log/fsck"
	"github.com/skepmq/skep/segment/vfs/faultfs"
)

// snapshot makes up an operation that comes after a snapshot was begun and before it is
// copied, together with all that changes files. What is copied has the state before, whatever
// the operation does.
func (c *simClient) snapshot(s *simState) *simOp {
	if s.lines[simKey{"switches", ""}] == "push false pop false" && s.diverting() {
		return nil // a copy would drain the spool when it is opened
	}
	op := simPick(c.rng, []func(*simClient, *simState) *simOp{
		(*simClient).push, (*simClient).transact, (*simClient).ack, (*simClient).pop, (*simClient).removeLetters,
		(*simClient).deleteQueue, (*simClient).deleteGroup, (*simClient).seek, (*simClient).retain,
	})(c, s)
	if op == nil {
		return nil
	}
	run, ids := op.run, c.rng.Uint64()
	op.name += " in a snapshot"
	op.run = func(b *Broker) (string, error) {
		// Steps begin at fixed times, with or without a fault. Until then checkpoints that the
		// step before has started are over: they hold locks, for which a bubble does not wait.
		began := time.Now()
		step := func(n time.Duration) { time.Sleep(n*time.Millisecond - time.Since(began)) }
		defer step(8)
		snap, snapErr := b.Snapshot()
		step(2)
		answer, err := run(b)
		step(4)
		if snapErr != nil {
			return answer, errors.Join(err, c.unless(snapErr))
		}
		defer snap.Close()
		if err != nil {
			return answer, err
		}
		_ = b.tryCheckpoint() // a fault may have met it: that is a matter of checkpoints
		b.checkpointMu.Lock()
		_ = errors.Join(b.rewriteCatalog(), b.rewriteOffsets())
		b.checkpointMu.Unlock()
		_ = b.tryCheckpoint()
		return answer, c.checkCopy(b, snap, s, ids)
	}
	return op
}

// unless returns err, which a disk that may fail excuses.
func (c *simClient) unless(err error) error {
	if c.faulty {
		return nil
	}
	return err
}

// checkCopy copies a snapshot and opens the copy.
func (c *simClient) checkCopy(b *Broker, snap *Snapshot, want *simState, ids uint64) (err error) {
	var tar bytes.Buffer
	a := backup.Archive{CreatedAt: snap.At, Files: snap.Files, Proceed: snap.Proceed}
	if _, err := a.WriteTo(&tar); err != nil {
		return c.unless(err)
	}
	disk := faultfs.New()
	if _, err := backup.Restore(disk, "copy", &tar); err != nil {
		return fmt.Errorf("restore: %w", err)
	}
	c.sim.snapshots++
	disk = disk.CrashStrict()
	r, err := fsck.Verify(fsck.Options{FS: disk, Dir: "copy", Now: b.o.Now})
	if err != nil || !r.Clean && !c.faulty {
		return fmt.Errorf("the copy is not in order: %+v, %w", r, err)
	}
	o := b.o
	o.FS, o.Dir, o.Random = disk, "copy", rand.New(rand.NewPCG(ids, 1)).Uint64
	cb, err := Open(o)
	if err != nil {
		return fmt.Errorf("open the copy: %w", err)
	}
	defer func() { err = errors.Join(err, cb.Close()) }()
	got, err := simStateOf(cb)
	if err != nil {
		return fmt.Errorf("the copy: %w", err)
	}
	got.latestMs, got.setBack = want.latestMs, want.setBack
	is, err := got.render(got)
	if err != nil {
		return err
	}
	was, err := want.render(got)
	if err == nil && len(simDiff(is, was)) > 0 {
		err = fmt.Errorf("the copy has another state:%s", simExplain(is, was))
	}
	return err
}
