package main

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"time"
)

const (
	startupName = "startup/1M"
	backlogName = "startup/backlog"

	factStartup       = "slowest start"
	factStartupAnswer = "slowest first answer"
	factStartupMemory = "memory until ready, the most / steady before"

	// noCheckpoint keeps what is pushed in the journal.
	noCheckpoint = "SKEP_CHECKPOINT_BYTES=1099511627776"

	killsInRecovery = 5
)

func startupScenarios() []scenario {
	return []scenario{
		{name: startupName, named: true, run: runStartup},
		{name: backlogName, named: true, run: runBacklog},
	}
}

// runStartup starts a broker over a large directory: after a stop, after kill -9 with a
// journal as full as it gets, and after kills in the middle of recovering that.
func runStartup(b *bench, name string) (r *row, err error) {
	p, fresh, err := b.startupProcess()
	if err != nil {
		return nil, err
	}
	defer p.leave(b.o.startupDir != "", &err)
	p.env = []string{"SKEP_SEGMENT_BYTES=1048576"} // so that there are thousands
	if err := p.start(b.ctx, 2*time.Minute); err != nil {
		return nil, err
	}
	r = &row{Name: name}
	if fresh {
		begun := time.Now()
		if err := p.fillStartup(b); err != nil {
			return nil, err
		}
		r.fact("time to make the directory", time.Since(begun).Seconds(), "s")
	}
	if err := errors.Join(p.settle(b, time.Minute), r.describe(p), p.terminate()); err != nil {
		return nil, err
	}
	var w worst
	if err := errors.Join(p.start(b.ctx, time.Minute), p.settle(b, time.Minute), w.measure(p, r, "memory, settled after a start"), p.terminate()); err != nil {
		return nil, err
	}
	if err := w.startColdAndWarm(b, p, r, "after a stop", p.terminate); err != nil {
		return nil, err
	}
	p.env = append(p.env, noCheckpoint)
	if err := p.fillJournal(b, r, &w); err != nil {
		return nil, err
	}
	if err := w.startColdAndWarm(b, p, r, "after kill -9, full journal", p.killNow); err != nil {
		return nil, err
	}
	if err := p.killInRecovery(); err != nil {
		return nil, err
	}
	if err := w.start(b, p, r, fmt.Sprintf("after %d kills during recovery", killsInRecovery)); err != nil {
		return nil, err
	}
	if err := p.verifyStartup(); err != nil {
		return nil, err
	}
	w.facts(r)
	return r, p.terminate()
}

// runBacklog starts a broker that was killed with a backlog of large messages.
func runBacklog(b *bench, name string) (r *row, err error) {
	p, err := b.startBroker()
	if err != nil {
		return nil, err
	}
	defer p.discard(&err)
	r = &row{Name: name}
	if err := p.fillBacklog(b, b.o.startupMessages); err != nil {
		return nil, err
	}
	if err := r.describe(p); err != nil {
		return nil, err
	}
	var w worst
	if err := errors.Join(p.settle(b, time.Minute), w.measure(p, r, "memory before the kill")); err != nil {
		return nil, err
	}
	p.kill()
	if err := w.startColdAndWarm(b, p, r, "after kill -9", p.killNow); err != nil {
		return nil, err
	}
	if err := p.start(b.ctx, time.Minute); err != nil {
		return nil, err
	}
	w.facts(r)
	return r, p.checkStored(backlogQueue, b.o.startupMessages)
}

// startupProcess returns a broker over the directory that is kept, or over a new one.
func (b *bench) startupProcess() (p *process, fresh bool, err error) {
	dir := b.o.startupDir
	if dir == "" {
		dir, err = os.MkdirTemp(b.dir, "data-")
		fresh = true
	} else if _, err = os.Stat(dir); errors.Is(err, os.ErrNotExist) {
		err = nil
		fresh = true
	}
	if err != nil {
		return nil, false, err
	}
	p, err = b.newProcess(dir)
	return p, fresh, err
}

// leave ends the process, and removes its data unless they are to be kept.
func (p *process) leave(keep bool, err *error) {
	p.kill()
	if !keep {
		*err = errors.Join(*err, os.RemoveAll(p.dir))
	}
}

func (p *process) killNow() error {
	p.kill()
	return nil
}

// killInRecovery kills the broker at moments at which it recovers.
func (p *process) killInRecovery() error {
	for i := range killsInRecovery {
		if err := p.launch(); err != nil {
			return err
		}
		time.Sleep(time.Duration(i)*time.Second/2 + rand.N(time.Second/2))
		p.kill()
	}
	return nil
}

// worst is the worst of several starts.
type worst struct {
	ready, answered time.Duration
	steady          int64   // memory of the broker before the starts to come
	memory          float64 // the most until ready, by what was steady before
}

// measure takes the memory that p has now as what is steady.
func (w *worst) measure(p *process, r *row, name string) (err error) {
	w.steady, _, err = rssOf(p.pid())
	r.fact(name, megabytes(w.steady), "MB")
	return err
}

// startColdAndWarm starts the broker from the disk and then from the page cache, and ends
// it both times.
func (w *worst) startColdAndWarm(b *bench, p *process, r *row, when string, end func() error) error {
	if err := dropPageCache(); err != nil {
		r.fact(when+", cold: not available without root", 0, "")
	} else if err := w.start(b, p, r, when+", cold"); err != nil {
		return err
	} else if err := end(); err != nil {
		return err
	}
	if err := w.start(b, p, r, when+", warm"); err != nil {
		return err
	}
	return end()
}

// start starts the broker once and says how it went.
func (w *worst) start(b *bench, p *process, r *row, when string) error {
	s, err := p.watchStart(b.ctx)
	if err != nil {
		return fmt.Errorf("%s: %w", when, err)
	}
	r.fact(when+": ready", s.ready.Seconds(), "s")
	r.fact("  first answer", millis(s.answered), "ms")
	r.fact("  slowest refusal of a push or pop", millis(s.refused), "ms")
	r.fact("  memory, the most until ready", megabytes(s.peak), "MB")
	r.fact("  processor time", s.cpu.Seconds(), "s")
	r.Facts = append(r.Facts, s.phases...)
	w.ready, w.answered = max(w.ready, s.ready), max(w.answered, s.answered)
	w.memory = max(w.memory, float64(s.peak)/float64(w.steady))
	return nil
}

func (w *worst) facts(r *row) {
	r.fact(factStartup, w.ready.Seconds(), "s")
	r.fact(factStartupAnswer, millis(w.answered), "ms")
	r.fact(factStartupMemory, w.memory, "x")
}
