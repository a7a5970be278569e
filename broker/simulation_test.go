package broker

import (
	"flag"
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

var (
	simRuns     = flag.Int("simulate.runs", 3, "how many simulations")
	simSeed     = flag.Uint64("simulate.seed", 1, "seed of the first one; each has the next")
	simDuration = flag.Duration("simulate.duration", 0, "for how long at least, whatever the number")
)

// Random histories on a disk that fails and loses its power: see simulation.
func TestSimulation(t *testing.T) {
	t.Parallel()
	var total simCounts
	began, seed := time.Now(), *simSeed
	for ; seed < *simSeed+uint64(*simRuns) || time.Since(began) < *simDuration; seed++ {
		simulate(t, seed, simHistory, &total)
	}
	t.Logf("seeds %d to %d: %s", *simSeed, seed-1, &total)
}

// One history in which the power is cut at every call of the disk, and every call fails.
func TestSimulationAtEveryCall(t *testing.T) {
	t.Parallel()
	var total simCounts
	simulate(t, *simSeed, simEveryCall, &total)
	t.Logf("seed %d: %s", *simSeed, &total)
}

// simulate runs one simulation in a bubble of its own.
func simulate(t *testing.T, seed uint64, plan simPlan, total *simCounts) {
	var err error
	s := newSimulation(seed, plan)
	synctest.Test(t, func(*testing.T) {
		err = s.run(seed)
		for b := range s.open {
			_ = b.Close() // an error has left it open
		}
	})
	total.add(&s.simCounts)
	if err != nil {
		t.Fatalf("seed %d, to be run alone with make simulate RUNS=1 SEED=%d: %v", seed, seed, err)
	}
}

// simCounts say what simulations have gone through.
type simCounts struct {
	lives, ops, calls, faults, cuts, messages, transactions, snapshots int
}

func (c *simCounts) add(o *simCounts) {
	c.lives += o.lives
	c.ops += o.ops
	c.calls += o.calls
	c.faults += o.faults
	c.cuts += o.cuts
	c.messages += o.messages
	c.transactions += o.transactions
	c.snapshots += o.snapshots
}

func (c *simCounts) String() string {
	return fmt.Sprintf("%d runs of a broker, %d operations (%d messages, %d transactions, %d snapshots), %d calls of the disk, %d faults, %d power cuts",
		c.lives, c.ops, c.messages, c.transactions, c.snapshots, c.calls, c.faults, c.cuts)
}
