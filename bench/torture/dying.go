package main

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/skepmq/skep/bench/rig"
)

// dying gives the broker a disk that takes no writes for a moment, as if its cable were
// loose. The kernel notices when it brings to the disk what it has taken long before, and a
// sync fails, which ends the broker. It is started again on the mounted file system, whose
// cache holds what the disk does not, serves for a while, and the power is cut. Nothing
// that was answered may be gone.
func dying(e *env) error {
	for n := 0; e.more(n); n++ {
		if err := e.dyingOnce(n); err != nil {
			return err
		}
		e.counts.add("rounds", 1)
	}
	return nil
}

func (e *env) dyingOnce(n int) (err error) {
	root := filepath.Join(e.dir, fmt.Sprintf("round-%d", n))
	if err := os.Mkdir(root, 0o700); err != nil {
		return err
	}
	medium, err := rig.OpenMedium(1 << 30)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, medium.Close()) }()
	disk, err := rig.OpenDisk(root, rig.DiskOptions{Kind: []string{"ext4", "xfs"}[e.rng.IntN(4)/3], Device: medium.Path})
	if err != nil {
		return err
	}
	defer func() {
		if err != nil { // a disk in memory cannot be kept
			err = errors.Join(err, os.CopyFS(filepath.Join(root, "kept"), os.DirFS(disk.Path)))
		}
		err = errors.Join(err, disk.Close(false))
	}()
	t, a := newTally(e.rng.Uint64(), 100, 8<<10), newAPI()
	b, dir := e.brokers(), filepath.Join(disk.Path, "data")
	if e.rng.IntN(2) == 0 {
		b.Env = append(b.Env, fmt.Sprintf("SKEP_CHECKPOINT_BYTES=%d", 1<<(17+e.rng.IntN(5))))
	}
	fmt.Fprintf(e.log, "round %d: %v\n", n, b.Env)
	p, err := e.start(b, dir, a)
	if err != nil {
		return err
	}
	defer func() { p.Kill(); e.counts.tally(t) }()
	load := shape{queues: 3, partitions: 4, pushers: 6, workers: 2, batch: 8}
	l := t.startLoad(e.ctx, a, load)
	defer func() { l.stop() }()
	sleep(e.ctx, time.Duration(e.rng.IntN(400))*time.Millisecond)
	for begun := time.Now(); !p.Ended(); {
		if time.Since(begun) > fillWithin {
			return violated("fail-stop", "the disk takes nothing, and the broker lives on\n%s", b.LastWords(p))
		}
		if err := medium.Fail(true); err != nil {
			return err
		}
		sleep(e.ctx, time.Duration(1+e.rng.IntN(4000))*time.Microsecond)
		if err := medium.Fail(false); err != nil {
			return err
		}
		sleep(e.ctx, 50*time.Millisecond)
	}
	l.stop()
	if err := e.stoppedByFailure(b, p); err != nil {
		return err
	}
	t.revive()
	if p, err = e.start(b, dir, a); err != nil {
		if touch(disk.Path) == nil {
			return err
		}
		e.counts.add("file systems that gave up", 1) // and take no more writes until they are mounted again
	} else {
		l = t.startLoad(e.ctx, a, load)
		sleep(e.ctx, 20*time.Millisecond+time.Duration(e.rng.IntN(500))*time.Millisecond)
		l.stop() // before the power goes: an answer that crosses the cut would be worth nothing
	}
	if err := disk.Cut(p); err != nil {
		return err
	}
	e.counts.add("power cuts", 1)
	if err := e.verify(b, dir); err != nil {
		return err
	}
	t.revive()
	if p, err = e.start(b, dir, a); err != nil {
		return err
	}
	if status := t.push(e.ctx, a, t.lane("queue-0", "after"), 1); status != http.StatusCreated {
		return violated("unexpected answer", "push after the power cut: %d", status)
	}
	err = t.drainAll(e.ctx, a, "audit")
	p.Kill()
	return err
}

// touch tells if a file system can be written to.
func touch(dir string) error {
	path := filepath.Join(dir, "touched")
	return errors.Join(os.WriteFile(path, []byte("x"), 0o600), os.Remove(path))
}
