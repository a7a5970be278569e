package main

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/skepmq/skep/bench/rig"
)

const (
	// spaceWithin is how soon a broker takes pushes again when there is room.
	spaceWithin = 10 * time.Second
	// fillWithin is how long filling a disk of some megabytes may take.
	fillWithin = 90 * time.Second
)

// small is a broker on a small disk.
type small struct {
	*env
	disk *rig.Disk
	b    *rig.Brokers
	p    *rig.Process
	a    *api
	t    *tally
	l    *load
	dir  string
}

// openSmall makes the disk and starts a broker on it that files its journal early, late,
// or, as configured by default, when the journal would be larger than the disk.
func (e *env) openSmall(round int, mkfs ...string) (s *small, err error) {
	root := filepath.Join(e.dir, fmt.Sprintf("round-%d", round))
	if err := os.Mkdir(root, 0o700); err != nil {
		return nil, err
	}
	size := int64(32+e.rng.IntN(33)) << 20
	disk, err := rig.OpenDisk(root, rig.DiskOptions{Kind: "ext4", Bytes: size, Make: mkfs})
	if err != nil {
		return nil, err
	}
	s = &small{env: e, disk: disk, a: newAPI(), dir: filepath.Join(disk.Path, "data"), t: newTally(e.rng.Uint64(), 100, 100+e.rng.IntN(16<<10))}
	s.b = e.brokers("SKEP_DISK_HIGH_PCT=100")
	if n := e.rng.IntN(4); n < 3 {
		s.b.Env = append(s.b.Env, fmt.Sprintf("SKEP_CHECKPOINT_BYTES=%d", 1<<(18+3*n)))
	}
	fmt.Fprintf(e.log, "round %d: disk of %d bytes, %v\n", round, size, s.b.Env)
	if s.p, err = e.start(s.b, s.dir, s.a); err != nil {
		return nil, errors.Join(err, disk.Close(true))
	}
	for range 4 { // in requests that leave room for each other
		s.t.push(e.ctx, s.a, s.t.lane("stock", "0"), 25)
	}
	return s, nil
}

// done ends a round. A violation keeps the image.
func (s *small) done(err *error) {
	if s.l != nil {
		s.l.stop()
	}
	s.p.Kill()
	s.counts.tally(s.t)
	*err = errors.Join(*err, s.disk.Close(*err != nil))
}

// alive fails if the broker has ended by itself.
func (s *small) alive() error {
	if s.p.Ended() {
		return violated("ended by itself", "%v\n%s", s.p.Exit, s.b.LastWords(s.p))
	}
	return s.t.err()
}

// until waits for a condition while the broker lives.
func (s *small) until(what string, limit time.Duration, done func() bool) error {
	for end := time.Now().Add(limit); !done(); sleep(s.ctx, 10*time.Millisecond) {
		if err := s.alive(); err != nil {
			return err
		}
		if s.ctx.Err() != nil {
			return s.ctx.Err()
		}
		if time.Now().After(end) {
			return violated("stuck", "%s: not within %v\n%s", what, limit, s.b.LastWords(s.p))
		}
	}
	return s.alive()
}

func (s *small) count(n *int) int {
	s.t.mu.Lock()
	defer s.t.mu.Unlock()
	return *n
}

// restart kills the broker, has the directory checked, and starts it again.
func (s *small) restart() (err error) {
	s.p.Kill()
	if err := s.verify(s.b, s.dir); err != nil {
		return err
	}
	s.p, err = s.start(s.b, s.dir, s.a)
	return err
}

// full fills a disk by pushes. They are refused before a write fails, and everything else
// goes on; so does a restart; and with room they are taken again, without one.
func full(e *env) error {
	for n := 0; e.more(n); n++ {
		if err := e.fullOnce(n); err != nil {
			return err
		}
		e.counts.add("rounds", 1)
	}
	return nil
}

func (e *env) fullOnce(n int) (err error) {
	s, err := e.openSmall(n, "-m", fmt.Sprint(e.rng.IntN(6)))
	if err != nil {
		return err
	}
	defer s.done(&err)
	ballast, err := eat(s.disk.Path, "ballast", 4<<20)
	if err != nil {
		return err
	}
	load := shape{queues: 3, partitions: 4, pushers: 6, workers: 2, batch: 8}
	// Somebody else's messages and groups, to be deleted and moved while it is full.
	for _, q := range []string{"victim", "kept"} {
		s.t.push(e.ctx, s.a, s.t.lane(q, "0"), 20)
	}
	if err := s.t.drain(e.ctx, s.a, "mover", drainOptions{}); err != nil {
		return err
	}
	s.l = s.t.startLoad(e.ctx, s.a, load)
	if err := s.until("filling", fillWithin, func() bool { return s.count(&s.t.refused) > 30 }); err != nil {
		return err
	}
	if err := s.whileFull(); err != nil {
		return err
	}
	if err := s.restart(); err != nil {
		return err
	}
	if err := s.t.drain(e.ctx, s.a, "audit", drainOptions{}); err != nil {
		return err
	}
	if err := os.Remove(ballast); err != nil {
		return err
	}
	if err := s.until("taking pushes again", spaceWithin, func() bool {
		return s.t.push(e.ctx, s.a, s.t.lane("kept", "0"), 1) == http.StatusCreated
	}); err != nil {
		return err
	}
	s.l = s.t.startLoad(e.ctx, s.a, load)
	sleep(e.ctx, 300*time.Millisecond)
	s.p.Kill()
	s.l.stop()
	if err := s.restart(); err != nil {
		return err
	}
	return s.t.drainAll(e.ctx, s.a, "audit")
}

// ackStock acknowledges messages that are there for this.
func (s *small) ackStock() error {
	for acked := s.count(&s.t.acked); s.count(&s.t.acked) < acked+50; {
		if ok, err := s.t.work(s.ctx, s.a, "stock"); err != nil || !ok {
			return errors.Join(violated("full", "acks do not go on"), err, s.alive())
		}
	}
	s.counts.add("acks while full", 50)
	return nil
}

// whileFull is what has to go on: acks, and what an operator does to make room.
func (s *small) whileFull() error {
	if err := s.ackStock(); err != nil {
		return err
	}
	s.l.stop() // a push that is under way could meet the deletion
	for _, r := range []struct{ method, path, body string }{
		{http.MethodPost, "/api/v1/consumer-groups/mover/queues/kept/seek", `{"toEnd":true}`},
		{http.MethodDelete, "/api/v1/consumer-groups/mover/queues/kept", ""},
		{http.MethodPost, "/api/v1/configure", `{"queue":"kept","options":{"leaseTime":3}}`},
		{http.MethodDelete, "/api/v1/resources/queues/victim", ""},
		{http.MethodGet, "/health", ""},
	} {
		if _, err := s.a.must(s.ctx, r.method, r.path, []byte(r.body), http.StatusOK, http.StatusCreated); err != nil {
			return err
		}
	}
	s.t.forget("victim")
	s.counts.add("operations while full", 5)
	return s.alive()
}

// eat makes a file of so many bytes, which do not compress away.
func eat(dir, name string, size int64) (path string, err error) {
	path = filepath.Join(dir, name)
	f, err := os.Create(path)
	if err != nil {
		return "", err
	}
	chunk := bytes.Repeat([]byte{1}, 64<<10)
	for done := int64(0); err == nil && done < size; done += int64(len(chunk)) {
		_, err = f.Write(chunk)
	}
	return path, errors.Join(err, f.Sync(), f.Close())
}

// eatAll takes what is left of a disk, to the last byte.
func eatAll(dir string) (path string, err error) {
	path = filepath.Join(dir, "eater")
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return "", err
	}
	for size := 1 << 20; size > 0; {
		if n, err := f.Write(make([]byte, size)); err != nil || n < size {
			size /= 2
		}
	}
	return path, f.Close()
}

// lastBytes has somebody else take the last bytes, so that a write of the journal fails.
// That ends the broker; nothing that it answered is lost, and with room it starts.
func lastBytes(e *env) error {
	for n := 0; e.more(n); n++ {
		if err := e.lastBytesOnce(n); err != nil {
			return err
		}
		e.counts.add("rounds", 1)
	}
	return nil
}

func (e *env) lastBytesOnce(n int) (err error) {
	s, err := e.openSmall(n, "-m", "0")
	if err != nil {
		return err
	}
	defer s.done(&err)
	s.l = s.t.startLoad(e.ctx, s.a, shape{queues: 3, partitions: 4, pushers: 4, workers: 2, batch: 8})
	sleep(e.ctx, 100*time.Millisecond+time.Duration(e.rng.IntN(900))*time.Millisecond)
	eater := ""
	ended := func() bool {
		if s.p.Ended() {
			return true
		}
		eater, err = eatAll(s.disk.Path) // what a checkpoint has given back too
		return err != nil
	}
	for end := time.Now().Add(fillWithin); !ended(); sleep(e.ctx, time.Millisecond) {
		if time.Now().After(end) {
			return violated("stuck", "the disk is full to the last byte, and the broker neither ends nor is asked to write\n%s", s.b.LastWords(s.p))
		}
		// Pushes are refused long before; this has to be written.
		_, _, _ = s.a.call(e.ctx, http.MethodPost, "/api/v1/configure", fmt.Appendf(nil, `{"queue":"q%d","options":{}}`, e.rng.IntN(1000)))
	}
	s.l.stop()
	if err != nil {
		return err
	}
	if err := s.stoppedByFailure(s.b, s.p); err != nil {
		return err
	}
	if err := s.startOnNothing(); err != nil {
		return err
	}
	if eater != "" {
		if err := os.Remove(eater); err != nil {
			return err
		}
	}
	if err := s.restart(); err != nil {
		return err
	}
	return s.t.drainAll(e.ctx, s.a, "audit")
}

// startOnNothing starts the broker on a disk without a free byte. It may decline, but not
// for long, and it must not change anything for the worse.
func (s *small) startOnNothing() (err error) {
	if s.p, err = s.b.Start(s.dir); err != nil {
		return err
	}
	err = s.p.Ready(s.ctx)
	if err == nil {
		s.counts.add("starts without a free byte", 1)
	} else if errors.Is(err, rig.ErrNotReady) {
		s.counts.add("starts declined without a free byte", 1)
		err = nil
	}
	return err
}

// stoppedByFailure checks the end of a broker whose write has failed.
func (e *env) stoppedByFailure(b *rig.Brokers, p *rig.Process) error {
	select {
	case <-p.ExitedC:
	case <-time.After(drainPatience):
		return violated("fail-stop", "a write has failed, and the broker lives on\n%s", b.LastWords(p))
	}
	if code := exitStatus(p.Exit); code != 1 {
		return violated("fail-stop", "exit status %d, %v\n%s", code, p.Exit, b.LastWords(p))
	}
	if !bytes.Contains([]byte(b.Words(p)), []byte("commit journal failed")) {
		return violated("fail-stop", "nothing in the log says so\n%s", b.LastWords(p))
	}
	e.counts.add("fail-stops", 1)
	return nil
}

// forget takes a queue that was deleted out of the tally.
func (t *tally) forget(queue string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for key, l := range t.lanes {
		if l.queue == queue {
			delete(t.lanes, key)
		}
	}
}

// inodes fills a disk with the files of somebody else, until it has no more inodes but a few.
func inodes(e *env) error {
	for n := 0; e.more(n); n++ {
		if err := e.inodesOnce(n); err != nil {
			return err
		}
		e.counts.add("rounds", 1)
	}
	return nil
}

func (e *env) inodesOnce(n int) (err error) {
	s, err := e.openSmall(n, "-N", "200")
	if err != nil {
		return err
	}
	defer s.done(&err)
	load := shape{queues: 3, partitions: 4, pushers: 4, workers: 2, batch: 8, pause: 3 * time.Millisecond}
	s.l = s.t.startLoad(e.ctx, s.a, load)
	sleep(e.ctx, 100*time.Millisecond)
	if err := eatInodes(s.disk.Path, e.rng); err != nil {
		return err
	}
	if err := s.until("filling", fillWithin, func() bool { return s.count(&s.t.refused) > 30 }); err != nil {
		return err
	}
	if err := s.ackStock(); err != nil {
		return err
	}
	if e.rng.IntN(2) == 0 { // else there is room again without a restart in between
		s.l.stop()
		s.p.Kill()
		if err := s.startOnNothing(); err != nil {
			return err
		}
		s.p.Kill()
	}
	if err := os.RemoveAll(filepath.Join(s.disk.Path, "files")); err != nil {
		return err
	}
	if s.p.Ended() {
		if err := s.restart(); err != nil {
			return err
		}
	}
	if err := s.until("taking pushes again", spaceWithin, func() bool {
		return s.t.push(e.ctx, s.a, s.t.lane("kept", "0"), 1) == http.StatusCreated
	}); err != nil {
		return err
	}
	s.p.Kill()
	s.l.stop()
	if err := s.restart(); err != nil {
		return err
	}
	return s.t.drainAll(e.ctx, s.a, "audit")
}

// eatInodes makes empty files until there are no inodes, and perhaps gives a few back.
func eatInodes(dir string, rng *rand.Rand) error {
	dir = filepath.Join(dir, "files")
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	n := 0
	for ; ; n++ {
		f, err := os.Create(filepath.Join(dir, fmt.Sprint(n)))
		if err != nil {
			break
		}
		if err := f.Close(); err != nil {
			return err
		}
	}
	for range rng.IntN(4) {
		n--
		if err := os.Remove(filepath.Join(dir, fmt.Sprint(n))); err != nil {
			return err
		}
	}
	return nil
}
