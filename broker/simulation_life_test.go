package broker

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/cespare/xxhash/v2"
	"github.com/rs/zerolog"

	"github.com/skepmq/skep/segment/vfs/faultfs"
)

// simEpoch is when every simulation begins.
var simEpoch = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)

// simLife is the life of one broker, from its opening to its end.
type simLife struct {
	sim   *simulation
	disk  *faultfs.FS
	c     *simClient
	b     *Broker
	began time.Time // by the time of the bubble
	files int       // open before: of a process that has failed

	idsMu sync.Mutex
	ids   *rand.Rand

	ops     []*simOp    // ops[0] is the opening
	states  []*simState // states[i] is what ops[i] has met; one more at the end
	answers []string
	durable int // the state that is surely on disk, and all before it

	like  *simLife // what it has to be like, but for its fault
	fault simFault
	over  bool // the fault has ended it
	apart bool // it has ended since the latest of ops went another way, with the fault

	cutAt func() bool // whether the power is cut at this call; nil: at none
	cuts  []simCut
}

// simFault is a fault of the disk and the call of its kinds that meets it.
type simFault struct {
	faultfs.Fault
	at int // below 0: there is none
}

func (f simFault) String() string {
	return fmt.Sprintf("%s %d fails: %v, short %t, sticky %t", f.Kinds, f.at, f.Err, f.Short, f.Sticky)
}

// simCut is what was left when the power was cut.
type simCut struct {
	disk    *faultfs.FS
	op      int // in flight; beyond the last one: none
	call    int
	durable int
	ahead   time.Duration // of the clock, over simEpoch
	drains  bool          // the spool was being drained
	kept    bool          // the process has ended, and the power was not cut
}

// where says when it was.
func (c *simCut) where(l *simLife) string {
	switch {
	case c.kept:
		return "none, but a restart"
	case c.op >= len(l.ops):
		return "the end"
	}
	return fmt.Sprintf("call %d, in operation %d, %s", c.call, c.op, l.ops[c.op].name)
}

// newLife is a life on a disk that is known to hold a state.
func (s *simulation) newLife(disk *faultfs.FS, known *simState, c *simClient, idSeed uint64) *simLife {
	s.lives++
	return &simLife{
		sim: s, disk: disk, c: c, states: []*simState{known},
		ids: rand.New(rand.NewPCG(idSeed, 1)), fault: simFault{at: -1},
	}
}

// elapsed is how far the broker's clock is ahead of simEpoch.
func (l *simLife) elapsed() time.Duration {
	return time.Since(l.began) + time.Duration(l.c.ahead.Load())
}

func (l *simLife) random() uint64 {
	l.idsMu.Lock()
	defer l.idsMu.Unlock()
	return l.ids.Uint64()
}

// opening is the operation that every life begins with.
func (l *simLife) opening() *simOp {
	return &simOp{name: "open", waits: true, lines: simNothing, run: func(*Broker) (_ string, err error) {
		l.b, err = Open(Options{
			FS: l.disk, Dir: "data", Logger: zerolog.Nop(), Random: l.random,
			Gather:          func() { time.Sleep(time.Nanosecond) },
			Now:             func() time.Time { return simEpoch.Add(l.elapsed()) },
			CheckpointBytes: 1 << 40, CheckpointEvery: 24 * time.Hour, RetentionInterval: 24 * time.Hour,
			DiskHighPercent: 100, SegmentBytes: l.sim.segmentBytes, DedupCacheBytes: l.sim.dedupBytes,
		})
		if err == nil {
			l.sim.open[l.b] = struct{}{}
		}
		return "", err
	}}
}

// live opens the broker and does n operations, or fewer if the disk ends its life.
func (l *simLife) live(n int) error {
	l.began, l.files = time.Now(), l.disk.Handles()
	l.disk.Observe(l.observe)
	l.disk.FailAt(l.fault.at, l.fault.Fault)
	err := l.do(l.opening())
	for i := 0; i < n && !l.over && err == nil; i++ {
		err = l.do(l.c.next(l.last()))
	}
	return l.told(err)
}

// goOn does one more operation.
func (l *simLife) goOn(op *simOp) error { return l.told(l.do(op)) }

// observe comes before every call that changes the disk. Time goes on when everybody
// waits for it, so what can be done before the disk answers is done, whatever the
// scheduler makes of it; calls for several files at once have an order of their own. And
// here the power may be cut.
func (l *simLife) observe(_ faultfs.Kinds, name string) {
	time.Sleep(time.Duration(1 + xxhash.Sum64String(name)%512))
	l.sim.mu.Lock()
	defer l.sim.mu.Unlock()
	if l.cutAt != nil && l.cutAt() {
		l.cut(len(l.ops) - 1)
	}
}

// cut keeps what a power cut would leave now: what is synced, and that with some more.
func (l *simLife) cut(op int) {
	c := simCut{op: op, call: l.disk.Calls(), durable: l.durable, ahead: l.elapsed()}
	c.drains = op < len(l.ops) && l.ops[op].drains
	for _, disk := range []*faultfs.FS{l.disk.CrashStrict(), l.disk.Crash(l.sim.rng)} {
		c.disk = disk
		l.cuts = append(l.cuts, c)
	}
}

// rest lets every goroutine come to rest, and the next operation begin at a full
// millisecond: operations take the same time whatever the disk does to them.
func (l *simLife) rest() { time.Sleep(time.Millisecond - time.Since(l.began)%time.Millisecond) }

// heir is the client as it goes on when the broker is opened again.
func (l *simLife) heir(seed uint64) *simClient {
	c := l.c.branch(rand.New(rand.NewPCG(seed, 4)))
	c.ahead.Store(int64(l.elapsed()))
	return c
}

func (l *simLife) last() *simState { return l.states[len(l.states)-1] }

// do does one operation and compares what it has changed with what it may change.
func (l *simLife) do(op *simOp) error {
	l.ops = append(l.ops, op)
	before := l.last()
	answer, opErr := op.run(l.b)
	if opErr == nil && op.waits {
		l.durable = len(l.ops)
	}
	l.rest()
	if opErr != nil {
		answer += "error: " + opErr.Error()
	}
	l.answers = append(l.answers, answer)
	if l.b == nil || l.b.journal.Err() != nil {
		return l.end(opErr)
	}
	after, err := l.look()
	if err != nil {
		return err
	}
	switch {
	case l.like != nil:
		if err := l.compare(after); err != nil {
			return err
		}
	case opErr != nil && !simRefusal(opErr):
		return opErr
	}
	l.states = append(l.states, after)
	l.sim.ops++
	if before == nil {
		return nil // nothing is known of the disk
	}
	changed, err := simFrame(op, before, after)
	if err != nil || opErr != nil {
		return err
	}
	if op.durable && changed {
		l.durable = len(l.ops)
	}
	if op.check != nil {
		return op.check(before, after)
	}
	return nil
}

func (l *simLife) look() (s *simState, err error) {
	l.disk.Quietly(func() { s, err = simStateOf(l.b) })
	if err == nil {
		l.c.latestMs = max(l.c.latestMs, s.nowMs)
		s.latestMs, s.setBack = l.c.latestMs, l.c.setBack
	}
	return s, err
}

// end is that of a broker that takes no more writes.
func (l *simLife) end(err error) error {
	if l.b != nil {
		err = errors.Join(err, l.b.journal.Err())
	}
	if !l.met() {
		return fmt.Errorf("failed without a fault: %w", err)
	}
	l.over = true
	return nil
}

// met reports whether the fault has been met.
func (l *simLife) met() bool {
	return l.fault.at >= 0 && l.disk.CallsOf(l.fault.Kinds) > l.fault.at
}

// compare asserts that an operation, its answer and the state that it has led to are as
// they were without the fault. A checkpoint may say that it has failed. What could not be
// read, or not be cleaned up since it was not filed, may go another way: then it ends here.
func (l *simLife) compare(after *simState) error {
	i := len(l.ops) - 1
	op := l.ops[i]
	if len(l.like.ops) <= i || op.name != l.like.ops[i].name || op.text != l.like.ops[i].text {
		return fmt.Errorf("BUG: the simulation is not deterministic")
	}
	if l.answers[i] != l.like.answers[i] && op.name != "checkpoint" && op.name != "rewrite homes" {
		if l.met() && l.fault.Kinds&(faultfs.Open|faultfs.Read) != 0 {
			l.over, l.apart = true, true
			return nil
		}
		return fmt.Errorf("the answer was %s", l.like.answers[i])
	}
	err := simEqual(after, l.like.states[i+1])
	if err != nil && l.met() && strings.HasPrefix(op.name, "retain") {
		l.over, l.apart = true, true
		return nil
	}
	return err
}

// simFrame asserts that an operation has changed nothing but what it is about, and tells
// whether it has changed anything.
func simFrame(op *simOp, before, after *simState) (changed bool, err error) {
	was, err := before.render(after)
	if err != nil {
		return false, err
	}
	is, err := after.render(before)
	if err != nil {
		return false, err
	}
	diff := simDiff(is, was)
	for _, k := range diff {
		if !op.lines(k) {
			return false, fmt.Errorf("has changed what is none of its business: %s", simExplain(is, was))
		}
	}
	return len(diff) > 0, nil
}

// simRefusal reports whether an error is an answer like others.
func simRefusal(err error) bool {
	for _, refusal := range []error{ErrQueueNotFound, ErrPartitionNotFound, ErrDeadLetterNotFound, ErrMaintenance} {
		if errors.Is(err, refusal) {
			return true
		}
	}
	return false
}

// close ends the life. What the disk kept of it was taken before.
func (l *simLife) close() error {
	l.disk.FailAt(-1, faultfs.Fault{})
	l.disk.Observe(nil)
	if l.b == nil {
		return nil
	}
	delete(l.sim.open, l.b)
	if err := l.b.Close(); err != nil && l.fault.at < 0 {
		return l.told(fmt.Errorf("close: %w", err))
	}
	if n := l.disk.Handles() - l.files; n > 0 && l.fault.at < 0 {
		return l.told(fmt.Errorf("%d files are open after the end", n))
	}
	return nil
}

// told adds to an error the history that has led there.
func (l *simLife) told(err error) error {
	if err == nil {
		return nil
	}
	var text strings.Builder
	for i, op := range l.ops {
		answer := "…"
		if i < len(l.answers) {
			answer = l.answers[i]
		}
		fmt.Fprintf(&text, "\n%4d  %s %s\n        %.300s", i, op.name, op.text, answer)
	}
	if l.fault.at >= 0 {
		fmt.Fprintf(&text, "\n      fault: %s", l.fault)
	}
	return fmt.Errorf("%w\n   by a client that had sent %d messages:%s", err, l.c.sent, text.String())
}
