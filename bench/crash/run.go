package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/skepmq/skep/bench/rig"
)

const (
	roundMin    = 20 * time.Millisecond
	roundMax    = 500 * time.Millisecond
	startupMax  = 40 * time.Millisecond // a start takes about half of it
	epochRounds = 12
	// epochPatience bounds an epoch, which takes ten seconds on an idle machine.
	epochPatience = 4 * time.Minute
)

// run is one store and the broker on it, crashed again and again.
type run struct {
	seed    uint64
	begun   time.Time
	rng     *rand.Rand
	check   *checker
	gate    *gate
	store   store
	brokers *rig.Brokers

	process *rig.Process
	epochs  int
	rounds  int
	kills   int
	slowest time.Duration // from start to ready

	verifies bool // the broker can check a directory
	verified int
}

func (r *run) now() moment { return time.Since(r.begun) }

// all runs rounds, or for a time if that is not 0.
func (r *run) all(ctx context.Context, rounds int, duration time.Duration) (err error) {
	ctx, cancel := context.WithCancel(ctx)
	var watch sync.WaitGroup
	defer watch.Wait()
	defer cancel()
	watch.Go(func() {
		select {
		case <-r.check.failedC:
			cancel()
		case <-ctx.Done():
		}
	})
	defer func() {
		if r.process != nil {
			r.process.Kill()
		}
	}()
	if err := r.start(ctx); err != nil {
		return err
	}
	deadline := r.now() + duration
	for left := rounds; duration > 0 && r.now() < deadline || duration == 0 && left > 0; left -= epochRounds {
		n := epochRounds
		if duration == 0 {
			n = min(n, left)
		}
		if err := r.bounded(ctx, n); err != nil {
			return err
		}
	}
	return nil
}

// bounded runs an epoch, and complains if it does not come to an end.
func (r *run) bounded(ctx context.Context, rounds int) error {
	limit, cancel := context.WithTimeout(ctx, epochPatience)
	defer cancel()
	err := r.epoch(limit, rounds)
	if limit.Err() != nil && ctx.Err() == nil {
		r.check.complain("stuck", "an epoch of %d rounds is not done after %v", rounds, epochPatience)
		return errViolation
	}
	return err
}

// round lets the load run for a while, crashes the broker and starts it again.
func (r *run) round(ctx context.Context) error {
	r.rounds++
	t := time.NewTimer(roundMin + time.Duration(r.rng.Int64N(int64(roundMax-roundMin))))
	defer t.Stop()
	select {
	case <-t.C:
	case <-r.process.ExitedC:
		r.check.complain("ended by itself", "life %d: %v\n%s", r.brokers.Lives, r.process.Exit, r.brokers.LastWords(r.process))
		return errViolation
	case <-ctx.Done():
		return ctx.Err()
	}
	return r.restart(ctx)
}

// restart crashes the broker and starts it, now and then with a crash during the start.
func (r *run) restart(ctx context.Context) error {
	if err := r.crash(""); err != nil {
		return err
	}
	for r.rng.IntN(4) == 0 {
		p, err := r.brokers.Start(r.store.dir())
		if err != nil {
			return err
		}
		r.process = p
		time.Sleep(time.Duration(r.rng.Int64N(int64(startupMax))))
		if err := r.crash(" while starting"); err != nil {
			return err
		}
	}
	return r.start(ctx)
}

// crash ends the broker's life.
func (r *run) crash(when string) error {
	life := r.brokers.Lives
	how, err := r.store.crash(r.process, func() { r.check.cut(life) })
	r.gate.shut()
	r.process = nil
	if err != nil {
		return fmt.Errorf("crash the broker: %w", err)
	}
	r.kills++
	r.check.crashed(life, r.now(), how+when)
	return r.verify()
}

// verify has the broker check what the crash has left: no crash may look like damage.
func (r *run) verify() error {
	if !r.verifies {
		return nil
	}
	r.verified++
	said, err := r.brokers.Verify(r.store.dir())
	if errors.Is(err, rig.ErrFindings) {
		r.check.complain("verify", "after the end of life %d:\n%s", r.brokers.Lives, said)
		return errViolation
	}
	return err
}

// start starts the broker and opens the gate when it is ready. A broker that does not
// become ready is a violation, unless somebody has taken its port.
func (r *run) start(ctx context.Context) error {
	for attempt := 0; ; attempt++ {
		begun := time.Now()
		p, err := r.brokers.Start(r.store.dir())
		if err != nil {
			return err
		}
		r.process = p
		err = p.Ready(ctx)
		if err == nil {
			r.slowest = max(r.slowest, time.Since(begun))
			r.gate.open(r.brokers.Lives, p.Address)
			return nil
		}
		if !errors.Is(err, rig.ErrNotReady) {
			return err
		}
		p.Kill()
		if !r.brokers.PortTaken(p) || attempt == 3 {
			r.check.complain("start", "life %d: %v\n%s", r.brokers.Lives, err, r.brokers.LastWords(p))
			return errViolation
		}
	}
}

// summary is one line about a run.
func (r *run) summary(mode string) string {
	c := r.check
	c.mu.Lock()
	defer c.mu.Unlock()
	t := &c.totals
	text := fmt.Sprintf("%s: %d rounds, %d kills, %d verified, %d messages pushed, %d answered, %d pushed without an answer, %d duplicates, %d deliveries, %d redeliveries, %d acks, %d without an answer, %d dead letters, slowest start %v, %d violations\n",
		mode, r.rounds, r.kills, r.verified, t.messages, t.stored, t.lostPushes, t.duplicates, t.deliveries, t.redeliveries, t.acks, t.lostAcks, t.deadLetters, r.slowest.Round(time.Millisecond), len(c.violations))
	text += fmt.Sprintf("%s: %d transactions, %d without an answer, %d rolled back, %d moves; %d seeks, %d groups deleted, %d conflated; %d maintenance cycles, %d messages buffered; %d messages under retention, %d expired",
		mode, t.transfers, t.lostTransfers, t.rollbacks, t.moves, t.seeks, t.groupDeletes, t.conflated, t.maintenances, t.buffered, t.retained, t.expired)
	for _, route := range c.missing {
		text += fmt.Sprintf("\n%s: not available, left out: %s", mode, route)
	}
	return text
}
