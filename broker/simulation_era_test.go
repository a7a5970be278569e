package broker

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/skepmq/skep/log/fsck"
	"github.com/skepmq/skep/segment/vfs/faultfs"
)

// simulation is one history of a broker on a disk in memory, with branches: one wherever
// the power is cut, and one wherever a call of the disk fails.
//
// An era is a script of operations, made up as it goes along (simClient) and lived through
// once without a fault (simLife). After each operation the whole state of the broker is
// read, past all that it keeps to answer faster (simState), and compared with the answer
// and with the state before: what was pushed is there, and what is none of an operation's
// business has not changed. At calls of the disk on the way it is crashed, which leaves
// what was synced, or that and any part of the rest.
//
// What a crash has left is opened, and has to be the state after some operation: the
// latest whose answer promised to be on disk, or one behind it. Operations that are
// several decisions may have come part of the way (simLife.match). It is opened once more
// after a crash, and after a crash in the middle of opening, and is the same. What is
// stored is pushed again, and known. A few more operations, another crash: the same again.
//
// Then the script is lived through with faults. As long as the journal works, answers and
// states are those without the fault, whatever becomes of checkpoints; and what is left,
// after a crash or when the process alone has ended, is judged as before. The next era
// begins on the disk that one of the crashes has left.
//
// Everything follows from the seed. The clock and the ids are the simulation's, and a
// bubble of package synctest makes every call of the disk take its time, in which
// everybody else comes to rest. Operations take a millisecond, with or without a fault.
type simulation struct {
	mu           sync.Mutex // one call of the disk at a time
	rng          *rand.Rand
	segmentBytes int64
	dedupBytes   int64
	simPlan
	open   map[*Broker]struct{}
	faulty bool // a life with a fault is being lived through, or what it has left
	simCounts
}

// simPlan says how much a simulation does.
type simPlan struct {
	eras     int
	eraOps   int  // operations of an era
	afterOps int  // operations after a crash
	every    bool // crash and fail at every call
}

var (
	simHistory   = simPlan{eras: 3, eraOps: 25, afterOps: 4}
	simEveryCall = simPlan{eras: 1, eraOps: 7, afterOps: 2, every: true}
)

// Of an era that crashes and fails at some calls.
const (
	simCuts   = 8
	simFaults = 12
	simCalls  = 250 // about what it takes
)

func newSimulation(seed uint64, plan simPlan) *simulation {
	rng := rand.New(rand.NewPCG(seed, 2))
	return &simulation{
		rng:          rng,
		segmentBytes: simPick(rng, []int64{4 << 10, 64 << 10, 64 << 20}),
		dedupBytes:   simPick(rng, []int64{0, 1 << 10}),
		simPlan:      plan,
		open:         map[*Broker]struct{}{},
	}
}

// run goes through the eras.
func (s *simulation) run(seed uint64) (err error) {
	b := simBase{faultfs.New(), simEmpty(), newSimClient(s, rand.New(rand.NewPCG(seed, 3)))}
	for era := range s.eras {
		if b, err = s.era(b); err != nil {
			return fmt.Errorf("era %d: %w", era, err)
		}
	}
	return nil
}

// simBase is where an era begins: a disk, what it is known to hold, and the client.
type simBase struct {
	disk  *faultfs.FS
	known *simState
	c     *simClient
}

// simEmpty is the state of a disk that is new.
func simEmpty() *simState {
	return &simState{lines: map[simKey]string{{"switches", ""}: "push false pop false"}}
}

// era lives through a script, without a fault, with all its power cuts, and with faults.
// It returns where the history goes on.
func (s *simulation) era(base simBase) (next simBase, err error) {
	script, ids := s.rng.Uint64(), s.rng.Uint64()
	begin := func() *simLife {
		return s.newLife(base.disk.CrashStrict(), base.known, base.c.branch(rand.New(rand.NewPCG(script, 1))), ids)
	}
	like := begin()
	like.cutAt = func() bool { return s.every || s.rng.IntN(simCalls) < simCuts }
	err = like.live(s.eraOps)
	counts := simCallsByKind(like.disk)
	if err = cmp.Or(err, s.closeAt(like)); err != nil {
		return next, err
	}
	if err := s.afterStop(like); err != nil {
		return next, fmt.Errorf("stopped: %w", err)
	}
	goOn := s.rng.IntN(len(like.cuts))
	for i := range like.cuts {
		b, err := s.afterCut(like, &like.cuts[i])
		if err != nil {
			return next, err
		}
		if i == goOn {
			next = b
		}
	}
	for _, fault := range s.makeFaults(counts) {
		if err := s.fail(like, begin(), fault); err != nil {
			return next, fmt.Errorf("%w\n   the fault: %s", err, fault)
		}
	}
	return next, nil
}

// fail lives through a script once more, with a fault.
func (s *simulation) fail(like, l *simLife, fault simFault) error {
	s.faulty = true
	defer func() { s.faulty = false }()
	l.like, l.fault, l.c.faulty = like, fault, true
	err := l.live(s.eraOps)
	if err = cmp.Or(err, s.closeAt(l)); err != nil {
		return err
	}
	if s.rng.IntN(2) == 0 {
		restart := l.cuts[0]
		restart.disk, restart.kept = l.disk, true
		l.cuts = append(l.cuts, restart)
	}
	if l.apart {
		like = l // it knows what it has answered
	}
	for i := range l.cuts {
		if _, err := s.afterCut(like, &l.cuts[i]); err != nil {
			return err
		}
	}
	return nil
}

// closeAt cuts the power at the end of a life, after it has been told to its end, or in
// the middle of what its fault has ended.
func (s *simulation) closeAt(l *simLife) error {
	if l.over && !l.apart {
		l.cut(len(l.ops) - 1)
	} else {
		l.cut(len(l.ops))
	}
	s.calls += l.disk.Calls()
	s.cuts += len(l.cuts)
	if l.met() {
		s.faults++
	}
	return l.close()
}

// afterStop opens what a broker has left that was closed: nothing is missing.
func (s *simulation) afterStop(l *simLife) error {
	if err := s.verify(l.disk, l.elapsed()); err != nil {
		return err
	}
	return s.reopened(l.disk.CrashStrict(), l.last(), l.heir(s.rng.Uint64()))
}

// reopened asserts that a disk holds a state.
func (s *simulation) reopened(disk *faultfs.FS, known *simState, c *simClient) error {
	l := s.newLife(disk, known, c, s.rng.Uint64())
	return cmp.Or(l.live(0), l.close())
}

// simJumps are how far the clock may have gone between a power cut and the recovery.
var simJumps = []time.Duration{0, 0, 0, time.Second, 101 * time.Second, time.Hour, -5 * time.Second}

// afterCut is goOnAfter with an error that says what had happened before.
func (s *simulation) afterCut(like *simLife, cut *simCut) (simBase, error) {
	b, err := s.goOnAfter(like, cut)
	if err != nil {
		err = like.told(fmt.Errorf("%w\n   after a power cut at %s, with state %d safe,", err, cut.where(like), cut.durable))
	}
	return b, err
}

// goOnAfter recovers what a power cut has left, compares it with what was answered, and
// lets the broker go on until the next power cut. It returns what can go on from there.
func (s *simulation) goOnAfter(like *simLife, cut *simCut) (simBase, error) {
	c := like.c.branch(rand.New(rand.NewPCG(s.rng.Uint64(), 1)))
	c.ahead.Store(int64(cut.ahead))
	if !cut.drains { // what is drained now has another time already
		jump := simPick(s.rng, simJumps)
		c.ahead.Add(int64(jump))
		c.setBack = c.setBack || jump < 0
	}
	untouched := cut.disk.CrashStrict()
	l, err := s.recovered(like, cut, c)
	if err != nil {
		return simBase{}, err
	}
	base := simBase{cut.disk.CrashStrict(), l.last(), l.heir(s.rng.Uint64())}
	if err := s.reopened(base.disk.CrashStrict(), base.known, l.heir(s.rng.Uint64())); err != nil {
		return base, fmt.Errorf("second recovery: %w", err)
	}
	if s.rng.IntN(4) == 0 && !cut.drains && !cut.kept {
		if err := s.cutInRecovery(untouched, base.known, l.heir(s.rng.Uint64())); err != nil {
			return base, fmt.Errorf("recovery after a power cut in a recovery: %w", err)
		}
	}
	if op := l.c.again(l.last()); op != nil {
		err = l.goOn(op)
	}
	for i := 0; i < s.afterOps && err == nil; i++ {
		err = l.goOn(l.c.next(l.last()))
	}
	if err = cmp.Or(err, s.closeAt(l)); err != nil {
		return base, fmt.Errorf("after the recovery: %w", err)
	}
	for i := range l.cuts {
		again, err := s.recovered(l, &l.cuts[i], l.heir(s.rng.Uint64()))
		if err == nil {
			err = again.close()
		}
		if err != nil {
			return base, fmt.Errorf("after the next power cut: %w", err)
		}
	}
	return base, nil
}

// verify asserts that a disk which nobody serves is in order: whatever the power cut or the
// fault was, a check of every byte finds nothing. Where a sync has failed, the end of the
// index of transaction ids may be damaged after the next power cut: it is made again.
func (s *simulation) verify(disk *faultfs.FS, ahead time.Duration) (err error) {
	disk.Quietly(func() {
		var r *fsck.Report
		r, err = fsck.Verify(fsck.Options{FS: disk, Dir: "data", Now: func() time.Time { return simEpoch.Add(ahead) }})
		healed := func(f fsck.Finding) bool { return s.faulty && f.Code == fsck.DedupDamaged }
		if err == nil && !r.Clean && slices.ContainsFunc(r.Findings, func(f fsck.Finding) bool { return f.Severity != fsck.Note && !healed(f) }) {
			err = fmt.Errorf("the directory is not in order: %+v", r.Findings)
		}
	})
	if errors.Is(err, fsck.ErrNoDirectory) {
		return nil
	}
	return err
}

// recovered opens what a power cut has left and asserts that it is what was answered.
func (s *simulation) recovered(like *simLife, cut *simCut, c *simClient) (*simLife, error) {
	if err := s.verify(cut.disk, cut.ahead); err != nil {
		return nil, err
	}
	l := s.newLife(cut.disk, nil, c, s.rng.Uint64())
	err := l.live(0)
	if err == nil {
		err = like.match(cut, l.last())
	}
	if err != nil {
		return nil, err
	}
	return l, nil
}

// cutInRecovery cuts the power somewhere in a recovery. The next one finds all the same.
func (s *simulation) cutInRecovery(disk *faultfs.FS, known *simState, c *simClient) error {
	l := s.newLife(disk, nil, c, s.rng.Uint64())
	l.fault = simFault{faultfs.Fault{Kinds: faultfs.Mutating, Sticky: true}, s.rng.IntN(30)}
	if err := cmp.Or(l.live(0), s.closeAt(l)); err != nil {
		return err
	}
	for i := range l.cuts {
		if err := s.reopened(l.cuts[i].disk, known, l.heir(s.rng.Uint64())); err != nil {
			return err
		}
	}
	return nil
}

// simKinds are what a fault may be about.
var simKinds = []faultfs.Kinds{
	faultfs.Mutating, faultfs.Write, faultfs.Sync, faultfs.Truncate, faultfs.Create, faultfs.Rename,
	faultfs.Remove, faultfs.Mkdir, faultfs.SyncDir, faultfs.Open, faultfs.Read,
}

// makeFaults makes up faults for a life of so many calls.
func (s *simulation) makeFaults(calls map[faultfs.Kinds]int) (faults []simFault) {
	add := func(k faultfs.Kinds, at int) {
		f := simFault{faultfs.Fault{Kinds: k, Err: faultfs.EIO, Sticky: s.rng.IntN(2) == 0, Short: s.rng.IntN(2) == 0}, at}
		if s.rng.IntN(2) == 0 {
			f.Err = faultfs.ENOSPC
		}
		faults = append(faults, f)
	}
	if s.every {
		for _, k := range simKinds {
			for at := range calls[k] {
				add(k, at)
			}
		}
		return faults
	}
	for len(faults) < simFaults {
		if k := simPick(s.rng, simKinds); calls[k] > 0 {
			add(k, s.rng.IntN(calls[k]))
		}
	}
	return faults
}

func simCallsByKind(disk *faultfs.FS) map[faultfs.Kinds]int {
	calls := map[faultfs.Kinds]int{}
	for _, k := range simKinds {
		calls[k] = disk.CallsOf(k)
	}
	return calls
}
