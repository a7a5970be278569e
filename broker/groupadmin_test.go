package broker

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/uuid"

	"github.com/skepmq/skep/log/record"
	"github.com/skepmq/skep/segment/vfs/faultfs"
)

const (
	lagNowhere = -1 // the group has no place
	lagNoGroup = -2
)

// lagOf returns what group g owes in queue q.
func lagOf(b *Broker) int64 {
	q := b.queue(DefaultTenant, "q")
	if q == nil || q.group("g") == nil {
		return lagNoGroup
	}
	info := b.groupInfo(q.group("g"))
	if info.Cursors == 0 {
		return lagNowhere
	}
	return info.Lag
}

// groupStep is a step of a life, and what the group owes after it.
type groupStep struct {
	do     func() error
	lag    int64
	partly bool // it is several decisions: any part of them may be on disk
}

// groupScript is a life of group g with everything in it that moves it.
func groupScript(w *witness) []groupStep {
	b := w.b
	drain := func() error {
		_, err := b.Pop(&PopRequest{Tenant: DefaultTenant, Queue: "q", Group: "g", Batch: 100, AutoAck: true, SubscriptionMode: "all"})
		return err
	}
	seek := func(to SeekTarget) func() error {
		return func() error { _, err := b.Seek(DefaultTenant, "g", "q", to); return err }
	}
	remove := func(keep bool) func() error {
		return func() error { _, err := b.DeleteGroups(DefaultTenant, "g", keep); return err }
	}
	return []groupStep{
		{func() error { return w.push("a", "a0", "a1") }, lagNoGroup, false},
		{func() error { return w.push("b", "b0") }, lagNoGroup, false},
		{drain, 0, true},
		{seek(SeekTarget{}), 3, false},
		{w.checkpoint, 3, false},
		{func() error { return w.consume("a", 1, AckCompleted) }, 2, false},
		{seek(SeekTarget{ToEnd: true}), 0, false},
		{func() error { return w.push("a", "a2") }, 1, false},
		{w.checkpoint, 1, false},
		{func() error { return b.SeekPartition(DefaultTenant, "g", "q", "b", SeekTarget{}) }, 2, false},
		{remove(true), lagNowhere, false},
		{b.rewriteCatalog, lagNowhere, false},
		{b.rewriteOffsets, lagNowhere, false},
		{drain, 0, true},
		{w.checkpoint, 0, false},
		{func() error { _, err := b.MoveSubscription(DefaultTenant, "g", 1<<50); return err }, 0, false},
		{func() error { return w.push("c", "c0") }, 0, false},
		{remove(false), lagNoGroup, false},
		{w.checkpoint, lagNoGroup, false},
		{seek(SeekTarget{}), 5, false},
		{b.rewriteCatalog, 5, false},
		{seek(SeekTarget{ToEnd: true}), 0, false},
		{b.rewriteOffsets, 0, false},
		{w.checkpoint, 0, false},
		{seek(SeekTarget{}), 5, false},
	}
}

// The power is cut at every call of the disk: what was answered about the group holds,
// and what was not is done or not done.
func TestGroupsPowerCutAtEveryCall(t *testing.T) {
	t.Parallel()
	for n := 0; ; n++ {
		fsys := faultfs.New()
		b, err := openOn(fsys)
		if err != nil {
			t.Fatal(err)
		}
		base := fsys.Calls()
		fsys.FailAt(base+n, faultfs.Fault{Err: faultfs.EIO, Sticky: true})
		before, after, partly := int64(lagNoGroup), int64(lagNoGroup), false
		for _, step := range groupScript(newWitness(b)) {
			after, partly = step.lag, step.partly
			if err = step.do(); err != nil {
				break
			}
			if before = after; lagOf(b) != after {
				t.Fatalf("call %d: the group owes %d, want %d", n, lagOf(b), after)
			}
		}
		met := fsys.Calls() > base+n
		for seed := range uint64(3) {
			what := fmt.Sprintf("call %d seed %d", n, seed)
			crashed := fsys.Crash(rand.New(rand.NewPCG(seed, uint64(n))))
			for range 2 { // recovering is no less than what it recovers from
				c, err := openOn(crashed)
				if err != nil {
					t.Fatalf("%s: %v", what, err)
				}
				if lag := lagOf(c); lag != before && lag != after && !(partly && lag >= before && lag <= 4) {
					t.Fatalf("%s: the group owes %d, want %d or %d", what, lag, before, after)
				}
				crashed = crashed.CrashStrict()
				closeBroker(t, c)
			}
		}
		closeBroker(t, b)
		if !met {
			if err != nil {
				t.Fatal(err)
			}
			return
		}
	}
}

// A checkpoint may write a group behind its successor, and the deletion behind both.
func TestGroupRecordsInAnyOrder(t *testing.T) {
	old := record.AppendGroup(nil, &record.Group{Number: 3, Queue: 1, Registered: true, Name: "g"})
	next := record.AppendGroup(nil, &record.Group{Number: 4, Queue: 1, Registered: true, Mode: modeNew, InstantMs: 5, Name: "g"})
	gone := record.AppendGroupDeleted(nil, 3)
	for name, order := range map[string][][]byte{
		"as it was":       {old, gone, next},
		"deletion last":   {old, next, gone},
		"successor first": {next, old, gone},
		"never there":     {gone, next},
		"twice":           {old, gone, next, old, gone, next},
	} {
		t.Run(name, func(t *testing.T) {
			b, err := openOn(faultfs.New())
			if err != nil {
				t.Fatal(err)
			}
			defer closeBroker(t, b)
			q := newQueue(1, DefaultTenant, uuid.UUID{1}, "q", 0, QueueOptions{})
			b.byNumber[1] = q
			r := &recovery{b: b}
			for _, frames := range order {
				if err := r.replay(0, frames); err != nil {
					t.Fatal(err)
				}
			}
			g := q.group("g")
			if g == nil || g.number != 4 || len(*q.groupList.Load()) != 1 || b.groups[3] != nil || b.groups[4] != g || b.nextGroup != 5 {
				t.Errorf("group %+v of %d, next number %d", g, len(*q.groupList.Load()), b.nextGroup)
			}
		})
	}
}

// Whatever a pop or an ack has in its hands of a group that goes, it hands nothing out
// under it.
func TestGroupGoneInBetween(t *testing.T) {
	b, err := openOn(faultfs.New())
	if err != nil {
		t.Fatal(err)
	}
	defer closeBroker(t, b)
	if err := newWitness(b).push("a", "a0"); err != nil {
		t.Fatal(err)
	}
	q := b.queue(DefaultTenant, "q")
	g, p := b.ensureGroup(q, "g"), q.partition("a")
	cl := &claim{p: p, g: g, sub: subscription{registered: true}, leases: b.newID(1), lease: 10, batch: 1, budget: 1000, first: true}
	if ok, err := cl.begin(b); !ok || err != nil {
		t.Fatal(ok, err)
	}
	if _, err := b.Seek(DefaultTenant, "g", "q", SeekTarget{}); err != nil {
		t.Fatal(err)
	}
	if _, err := cl.finish(b, cl.read(b)); !errors.Is(err, errGroupGone) {
		t.Errorf("finish: %v", err)
	}
	if _, err := cl.begin(b); !errors.Is(err, errGroupGone) {
		t.Errorf("begin: %v", err)
	}
	a := &acknowledge{b: b, p: p, g: g, acks: []Ack{{TransactionID: "a0"}}, results: make([]AckResult, 1), items: []int32{0}}
	if _, err := a.attempt(); !errors.Is(err, errGroupGone) {
		t.Errorf("ack: %v", err)
	}
	if q.group("g") == g || p.cursorLocked(g) != nil || b.leases.Len() != 0 {
		t.Error("the old group is still there")
	}
	// It cannot come back either.
	b.register(g, "all", "", false)
	b.announceGroup(g)
	if g.sub.Load().registered || slices.Contains(*q.groupList.Load(), g) {
		t.Error("the old group is back")
	}
}

// G-204: what retention has removed is owed by nobody.
func TestLagWithoutWhatIsGone(t *testing.T) {
	b, err := openOn(faultfs.New())
	if err != nil {
		t.Fatal(err)
	}
	defer closeBroker(t, b)
	w := newWitness(b)
	for _, ids := range [][]string{{"a0", "a1"}, {"a2"}} {
		if err := w.push("a", ids...); err != nil {
			t.Fatal(err)
		}
		b.clock.ahead.Add(100_000)
	}
	if _, err := b.Seek(DefaultTenant, "implied", "q", SeekTarget{}); err != nil {
		t.Fatal(err)
	}
	if err := b.SeekPartition(DefaultTenant, "stored", "q", "a", SeekTarget{}); err != nil {
		t.Fatal(err)
	}
	p := b.queue(DefaultTenant, "q").partition("a")
	for _, step := range []struct {
		start, startMs, lag, seconds int64
	}{{0, p.startMs, 3, 200}, {2, p.lastMs, 1, 100}, {3, 0, 0, 0}} {
		p.mu.Lock()
		p.start, p.startMs = step.start, step.startMs
		p.mu.Unlock()
		infos, err := b.Groups(DefaultTenant)
		if err != nil || len(infos) != 2 {
			t.Fatal(infos, err)
		}
		for _, info := range infos {
			if info.Lag != step.lag || info.LagSeconds < step.seconds || info.LagSeconds > step.seconds+50 {
				t.Errorf("from %d: %+v, want %d, %d s", step.start, info, step.lag, step.seconds)
			}
		}
		rows, err := b.Lagging(DefaultTenant, 0, 10)
		if err != nil || len(rows) != 2*int(min(step.lag, 1)) {
			t.Errorf("from %d: lagging %+v, %v", step.start, rows, err)
		}
	}
}
