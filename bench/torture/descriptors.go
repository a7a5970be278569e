package main

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/skepmq/skep/bench/rig"
)

const (
	restartWithin = 20 * time.Second
	maxGrowth     = 40 << 20 // bytes of memory for 20,000 partitions
)

// descriptors gives the broker few file descriptors: 256 for 5,000 partitions, 1,024 for
// 20,000, and then clients that hold all of them. Nothing is answered with a 5xx, everything
// is delivered, before and after a restart.
func descriptors(e *env) error {
	for n := 0; e.more(n); n++ {
		for _, c := range []struct{ limit, partitions int }{{256, 5000}, {1024, 20000}} {
			if err := e.fewDescriptors(n, c.limit, c.partitions); err != nil {
				return err
			}
		}
		e.counts.add("rounds", 1)
	}
	return nil
}

func (e *env) fewDescriptors(n, limit, partitions int) (err error) {
	dir := filepath.Join(e.dir, fmt.Sprintf("%d-%d", n, limit))
	b := e.brokers("SKEP_CHECKPOINT_BYTES=1000000")
	b.Descriptors = limit
	t, a := newTally(e.rng.Uint64(), 60, 100), newAPI()
	p, err := e.start(b, dir, a)
	if err != nil {
		return err
	}
	defer func() { p.Kill(); e.counts.tally(t) }()
	before, err := residentBytes(p)
	if err != nil {
		return err
	}
	const queues = 40
	for i := range partitions {
		if status := t.push(e.ctx, a, t.lane(fmt.Sprintf("queue-%d", i%queues), strconv.Itoa(i/queues)), 1); status != http.StatusCreated {
			return violated("unexpected answer", "push to partition %d: %d %v", i, status, t.err())
		}
	}
	// Garbage is given back when nothing has happened for some seconds.
	var grown int64
	for end := time.Now().Add(drainPatience); ; sleep(e.ctx, 200*time.Millisecond) {
		after, err := residentBytes(p)
		if err != nil {
			return err
		}
		if grown = after - before; grown < maxGrowth || time.Now().After(end) {
			break
		}
	}
	e.counts.max("most MiB grown", grown>>20)
	if grown > maxGrowth {
		return violated("memory", "%d partitions of one message take %d MiB", partitions, grown>>20)
	}
	if err := t.drain(e.ctx, a, "audit", drainOptions{}); err != nil {
		return err
	}
	if err := e.holdConnections(t, a, b, p, limit); err != nil {
		return err
	}
	p.Kill()
	if err := e.verify(b, dir); err != nil {
		return err
	}
	begun := time.Now()
	if p, err = e.start(b, dir, a); err != nil {
		return err
	}
	if took := time.Since(begun); took > restartWithin {
		return violated("start", "%v for %d partitions", took, partitions)
	}
	if err := t.drain(e.ctx, a, "audit-again", drainOptions{}); err != nil {
		return err
	}
	return os.RemoveAll(dir)
}

// holdConnections has clients hold as many connections as there are descriptors, while
// others push and the broker files what they push. When they let go, all is as before.
func (e *env) holdConnections(t *tally, a *api, b *rig.Brokers, p *rig.Process, limit int) error {
	l := t.startLoad(e.ctx, a, shape{queues: 3, partitions: 4, pushers: 4, workers: 2, batch: 8})
	defer l.stop()
	sleep(e.ctx, 100*time.Millisecond) // they have their connections
	var held []net.Conn
	for range limit + 50 {
		c, err := net.DialTimeout("tcp", p.Address, 5*time.Second)
		if err != nil {
			break // refused: as good
		}
		held = append(held, c)
	}
	e.counts.add("connections held", int64(len(held)))
	sleep(e.ctx, 2*time.Second)
	for _, c := range held {
		_ = c.Close() // the broker may have done so
	}
	for end := time.Now().Add(drainPatience); t.push(e.ctx, a, t.lane("queue-0", "after"), 1) != http.StatusCreated; sleep(e.ctx, 50*time.Millisecond) {
		if p.Ended() || time.Now().After(end) {
			return violated("descriptors", "nothing can be pushed after clients have held all descriptors; the broker has ended: %v\n%s", p.Ended(), b.LastWords(p))
		}
	}
	return t.err()
}

// residentBytes returns the memory of a process.
func residentBytes(p *rig.Process) (int64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.PID()))
	if os.IsNotExist(err) {
		return 0, rig.Lacking("no /proc")
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			n, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest), "kB")), 10, 64)
			return n << 10, err
		}
	}
	return 0, errors.Join(err, errors.New("no VmRSS"))
}
