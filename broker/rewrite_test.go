package broker

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rs/zerolog"

	partlog "github.com/skepmq/skep/log/partition"
	"github.com/skepmq/skep/segment"
	"github.com/skepmq/skep/segment/vfs/faultfs"
)

// holder drives a broker in which very much is done and very little is not: what is done is
// dropped after ten seconds, and one partition is held by a group that does not come.
type holder struct {
	ahead   atomic.Int64
	start   time.Time
	fs      *faultfs.FS
	b       *Broker
	held    []string        // answered, and never consumed
	tried   map[string]bool // never consumed, answered or not
	letters map[string]bool // dead letters that are to stay, by transaction id
	pushed  int             // and consumed
	high    int             // percent of the disk at which pushes are refused
	segment int64           // at which a segment is sealed
}

const (
	holderSegment  = 8 << 10
	holderInterval = 10 * time.Minute
)

func newHolder() *holder {
	return &holder{start: time.Now(), fs: faultfs.New(), tried: map[string]bool{}, letters: map[string]bool{}, high: 100, segment: holderSegment}
}

func (k *holder) now() time.Time { return k.start.Add(time.Duration(k.ahead.Load())) }

func (k *holder) open() (err error) {
	k.b, err = Open(Options{
		FS: k.fs, Dir: "data", Logger: zerolog.Nop(), RetentionInterval: holderInterval, SegmentBytes: k.segment,
		Now:             k.now,
		CheckpointBytes: 1 << 40, CheckpointEvery: 24 * time.Hour, DiskHighPercent: k.high,
	})
	return err
}

func (k *holder) configure() error {
	_, err := k.b.Configure(DefaultTenant, "q", func(o QueueOptions, _ bool) (QueueOptions, error) {
		o.RetentionEnabled, o.CompletedRetentionSeconds = true, 10
		return o, nil
	})
	return err
}

func (k *holder) pushTo(queue, partition, id string, size int, more ...string) error {
	payload := `"` + id + strings.Repeat("x", size) + strings.Join(more, "") + `"`
	items := []PushItem{{Queue: []byte(queue), Partition: []byte(partition), TransactionID: []byte(id), Payload: []byte(payload)}}
	results := make([]PushResult, 1)
	return k.b.Push(DefaultTenant, items, nil, results)
}

func (k *holder) hold(partition, id string) func() error {
	return func() error {
		k.tried[id] = true
		err := k.pushTo("q", partition, id, 100)
		if err == nil {
			k.held = append(k.held, id)
		}
		return err
	}
}

// consumed pushes to n partitions, and the group takes all of it.
func (k *holder) consumed(n int) func() error {
	return func() error {
		for range n {
			name := fmt.Sprint("p", k.pushed%7)
			k.pushed++
			if err := k.pushTo("q", name, fmt.Sprint("c", k.pushed), 400); err != nil {
				return err
			}
			if _, err := k.b.Pop(&PopRequest{Tenant: DefaultTenant, Queue: "q", Partition: name, Pinned: true, Group: "g", Batch: 1, AutoAck: true}); err != nil {
				return err
			}
		}
		return nil
	}
}

// bury sets the next message of a partition aside, for a group.
func (k *holder) bury(group, id string) error {
	res, err := k.b.Pop(&PopRequest{Tenant: DefaultTenant, Queue: "d", Partition: "l", Pinned: true, Group: group, Batch: 1})
	if err != nil || len(res.Parts) == 0 {
		return errors.Join(err, errors.New("nothing to bury"))
	}
	results := make([]AckResult, 1)
	return k.b.Acknowledge(DefaultTenant, group, []Ack{{
		TransactionID: id, PartitionID: res.Parts[0].PartitionID.String(), LeaseID: res.LeaseID.String(), Status: AckDeadLetter,
	}}, results)
}

// buried makes dead letters of several groups, by turns and in many extents.
func (k *holder) buried(n int) func() error {
	return func() error {
		for i := range n {
			id := fmt.Sprint("l", i)
			if err := k.pushTo("d", "l", id, 400); err != nil {
				return err
			}
			k.letters[id] = true
			for _, group := range []string{"gone", "stays", "gone2"} {
				if group == "stays" && i%4 != 0 {
					continue
				}
				if err := k.bury(group, id); err != nil {
					return err
				}
				if group == "stays" {
					k.letters[id] = true
				}
			}
			if i%4 != 0 {
				delete(k.letters, id)
				if _, err := k.b.Pop(&PopRequest{Tenant: DefaultTenant, Queue: "d", Partition: "l", Pinned: true, Group: "stays", Batch: 1, AutoAck: true}); err != nil {
					return err
				}
			}
			if err := k.checkpoint(); err != nil {
				return err
			}
		}
		return nil
	}
}

func (k *holder) purge() error {
	for _, group := range []string{"gone", "gone2"} {
		if _, err := k.b.PurgeDeadLetters(DefaultTenant, "d", group); err != nil {
			return err
		}
	}
	return nil
}

func (k *holder) checkpoint() error { _, err := k.b.checkpoint(); return err }

// cycle lets a cycle of retention pass, and the next be one that counts again.
func (k *holder) cycle() error {
	k.ahead.Add(int64(holderInterval + time.Second))
	k.b.retain()
	return k.b.journal.Err()
}

// prelude is what life begins with.
func (k *holder) prelude() error {
	return k.do(
		k.configure,
		k.consumed(10), k.hold("slow", "s0"), k.checkpoint, k.hold("slow", "s1"), k.consumed(6), k.checkpoint,
		k.buried(5),
		k.cycle, k.checkpoint, // starts
	)
}

// life is a script in which segments are rewritten, and rewritten again.
func (k *holder) life() error {
	return k.do(
		k.purge,
		k.cycle, k.cycle, k.checkpoint, // rewritten
		k.hold("slow", "s2"), k.hold("other", "o0"), k.consumed(10), k.checkpoint,
		k.cycle, k.cycle, k.consumed(3), k.checkpoint,
		k.b.rewriteCatalog,
		k.cycle, k.cycle, k.checkpoint, k.hold("slow", "s3"),
	)
}

func (k *holder) do(steps ...func() error) error {
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// check reads everything that is to be there.
func (k *holder) check(t *testing.T, what string) {
	t.Helper()
	got := contents(t, what, k.b)
	for _, id := range k.held {
		if !slices.Contains(got, id) {
			t.Fatalf("%s: %s is not there; there are %v", what, id, got)
		}
	}
	letters, err := k.b.DeadLetters(DefaultTenant, DeadLetterFilter{Queue: "d", Group: "stays", Limit: 100})
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	found := map[string]bool{}
	for _, l := range letters {
		if !bytes.HasPrefix(l.Payload, []byte(`"`+l.TransactionID+`x`)) {
			t.Fatalf("%s: dead letter %s: %.50q", what, l.TransactionID, l.Payload)
		}
		found[l.TransactionID] = true
	}
	for id := range k.letters {
		if !found[id] && len(found) < len(k.letters)-1 { // the last one may not have been answered
			t.Fatalf("%s: dead letter %s is not there, %v are", what, id, found)
		}
	}
}

// checkRecovery opens what a crash has left, twice, and lets the broker go on in between.
func (k *holder) checkRecovery(t *testing.T, what string, fsys *faultfs.FS) {
	t.Helper()
	c := &holder{start: k.start, fs: fsys, held: k.held, tried: k.tried, letters: k.letters, high: k.high, segment: k.segment}
	c.ahead.Store(k.ahead.Load())
	for round := range 2 {
		wantCleanAt(t, what, c.fs, c.now)
		if err := c.open(); err != nil {
			t.Fatalf("%s: round %d: %v", what, round, err)
		}
		c.check(t, what)
		for range 2 {
			if err := errors.Join(c.cycle(), c.checkpoint()); err != nil {
				t.Fatalf("%s: round %d: %v", what, round, err)
			}
		}
		c.check(t, what)
		checkFiles(t, what, c.b, c.fs)
		old := c.b
		was := c.fs
		c.fs = was.CrashStrict()
		closeBroker(t, old)
		wantCleanAt(t, what+", closed", was, c.now)
	}
}

// One segment is left of what is done, with little more than what is held.
func TestRewriteLife(t *testing.T) {
	k := newHolder()
	if err := k.open(); err != nil {
		t.Fatal(err)
	}
	defer func() { closeBroker(t, k.b) }()
	if err := k.do(k.prelude, k.life); err != nil {
		t.Fatal(err)
	}
	k.check(t, "end")
	hidden := 0
	for _, info := range k.b.store.Segments() {
		if info.Partition != 0 && len(info.Replaces) > 0 {
			hidden++
		}
	}
	if hidden != 1 {
		t.Errorf("%d segments of dead letters are rewritten", hidden)
	}
	s := k.b.Stats()
	if s.RewrittenSegments < 3 || s.ReclaimedBytes < 10_000 || s.RewrittenBytes > 10_000 {
		t.Errorf("stats %+v", s)
	}
	for _, info := range k.b.store.Segments() {
		if info.Queue == 1 && info.Length > 3_000 {
			t.Errorf("segment %+v is left", info)
		}
	}
	checkFiles(t, "end", k.b, k.fs)
	k.checkRecovery(t, "end", k.fs.CrashStrict())
}

// The power is cut at every call of the disk in that life.
func TestRewritePowerCutAtEveryCall(t *testing.T) {
	t.Parallel()
	atEveryCall(t, faultfs.Fault{Err: faultfs.EIO, Sticky: true}, func(n int, k *holder) {
		seed := uint64(n)
		k.checkRecovery(t, fmt.Sprintf("call %d", n), k.fs.Crash(rand.New(rand.NewPCG(seed, 1))))
		k.checkRecovery(t, fmt.Sprintf("call %d strict", n), k.fs.CrashStrict())
	})
}

// A call of the disk fails once, and the broker goes on if it can.
func TestRewriteFaultAtEveryCall(t *testing.T) {
	t.Parallel()
	atEveryCall(t, faultfs.Fault{Err: faultfs.ENOSPC}, func(n int, k *holder) {
		k.fs.FailAt(-1, faultfs.Fault{})
		if k.b.journal.Err() == nil {
			k.b.retain()
			if err := k.b.tryCheckpoint(); err != nil && k.b.journal.Err() == nil {
				t.Fatalf("call %d: checkpoint after the fault: %v", n, err)
			}
		}
		k.checkRecovery(t, fmt.Sprintf("call %d", n), k.fs.CrashStrict())
	})
}

// atEveryCall lives the life with the n-th call failing, for every n, until there are not so
// many.
func atEveryCall(t *testing.T, fault faultfs.Fault, check func(n int, k *holder)) {
	for n := 0; ; n++ {
		k := newHolder()
		if err := errors.Join(k.open(), k.prelude()); err != nil {
			t.Fatal(err)
		}
		at := k.fs.Calls() + n
		k.fs.FailAt(at, fault)
		err := k.life()
		met := k.fs.Calls() > at
		check(n, k)
		closeBroker(t, k.b)
		if !met {
			if err != nil || n < 60 {
				t.Fatalf("%d calls, %v", n, err)
			}
			return
		}
	}
}

// What could not be put together is left alone for a while, like everything else.
func TestRewriteSmallPauses(t *testing.T) {
	k := newHolder()
	if err := k.do(k.open, k.configure); err != nil {
		t.Fatal(err)
	}
	defer func() { closeBroker(t, k.b) }()
	q, small := k.b.queue(DefaultTenant, "q"), &watched{partition: 1}
	s := partlog.Aged{SegmentInfo: partlog.SegmentInfo{ID: 2, Queue: q.number, Length: 100, Sealed: true, Replaces: []uint32{1}}}
	now := k.b.clock.stamp()
	look := counting{b: k.b, left: countLimit}
	if look.at(q, &s, small, now); len(look.found) != 1 {
		t.Fatalf("found %v", look.found)
	}
	k.b.noteUnwritten(look.found, faultfs.ENOSPC)
	q.aging.loose.Store(false)
	if look.at(q, &s, small, now); len(look.found) != 1 || !q.aging.loose.Load() {
		t.Errorf("it is tried again at once, or never")
	}
	if look.at(q, &s, small, now+2*maxPauseMs); len(look.found) != 2 {
		t.Errorf("it is not tried again")
	}
}

// The oldest dead letter holds the start of its partition. What is removed behind it is given
// back all the same, in a queue where nothing else is ever dropped, and after a restart.
func TestRewriteBehindOldestLetter(t *testing.T) {
	for name, restart := range map[string]bool{"running": false, "restart": true} {
		t.Run(name, func(t *testing.T) {
			k := newHolder()
			if err := errors.Join(k.open(), k.pushTo("d", "l", "l0", 400), k.bury("stays", "l0")); err != nil {
				t.Fatal(err)
			}
			defer func() { closeBroker(t, k.b) }()
			k.letters["l0"] = true
			for i := range 10 {
				id := fmt.Sprint("l", i)
				if err := errors.Join(k.bury("gone", id), k.pushTo("d", "l", fmt.Sprint("l", i+1), 400), k.checkpoint()); err != nil {
					t.Fatal(err)
				}
			}
			if err := k.do(k.cycle, k.cycle); err != nil {
				t.Fatal(err)
			}
			if _, err := k.b.PurgeDeadLetters(DefaultTenant, "d", "gone"); err != nil {
				t.Fatal(err)
			}
			if restart {
				closeBroker(t, k.b)
				k.fs = k.fs.CrashStrict()
				if err := k.open(); err != nil {
					t.Fatal(err)
				}
			}
			if err := k.do(k.cycle, k.cycle, k.checkpoint); err != nil {
				t.Fatal(err)
			}
			if s := k.b.Stats(); s.RewrittenSegments != 1 || s.ReclaimedBytes < 3000 {
				t.Errorf("stats %+v", s)
			}
			k.check(t, "end")
		})
	}
}

// Segments that are larger than they are to be now are rewritten as well.
func TestRewriteOfLarger(t *testing.T) {
	k := newHolder()
	k.segment = 8 * holderSegment
	if err := k.do(k.open, k.configure, k.consumed(70)); err != nil {
		t.Fatal(err)
	}
	defer func() { closeBroker(t, k.b) }()
	for i := range 80 {
		if err := k.hold("slow", fmt.Sprint("s", i))(); err != nil {
			t.Fatal(err)
		}
	}
	if err := k.checkpoint(); err != nil {
		t.Fatal(err)
	}
	closeBroker(t, k.b)
	k.segment = holderSegment
	if err := k.do(k.open, k.cycle, k.checkpoint, k.cycle, k.cycle, k.checkpoint); err != nil {
		t.Fatal(err)
	}
	if s := k.b.Stats(); s.RewrittenSegments != 1 || s.RewrittenBytes <= holderSegment {
		t.Errorf("stats %+v", s)
	}
	k.check(t, "end")
}

// A copy is not what fills the disk, or pushes would be refused for it. Where they are
// refused already it is made of what is reserved.
func TestRewriteLeavesRoom(t *testing.T) {
	for name, tc := range map[string]struct {
		high  int
		total int64
		free  func(unfiled int64) int64 // the least at which pushes are taken
	}{
		"reserve":         {100, 1 << 40, func(unfiled int64) int64 { return maxReserve + unfiled + 2 }},
		"high-water mark": {85, 2000 << 20, func(int64) int64 { return 300<<20 + 1 }},
	} {
		t.Run(name, func(t *testing.T) {
			k := newHolder()
			k.high = tc.high
			if err := errors.Join(k.open(), k.prelude()); err != nil {
				t.Fatal(err)
			}
			defer func() { closeBroker(t, k.b) }()
			k.fs.SetFree(tc.free(k.b.journal.Unfiled()), tc.total)
			k.b.checkSpace()
			if !k.b.hasSpace() {
				t.Fatal("pushes are refused")
			}
			if err := k.do(k.cycle, k.cycle, k.cycle); err != nil {
				t.Fatal(err)
			}
			if n := k.b.Stats().RewrittenSegments; n != 0 {
				t.Errorf("%d segments are rewritten to where pushes are refused", n)
			}
			k.fs.SetFree(tc.free(k.b.journal.Unfiled())-10, tc.total)
			k.b.checkSpace()
			if k.b.hasSpace() {
				t.Fatal("pushes are not refused")
			}
			if err := k.do(k.cycle, k.cycle, k.cycle); err != nil {
				t.Fatal(err)
			}
			if n := k.b.Stats().RewrittenSegments; n == 0 {
				t.Error("no segments are rewritten while pushes are refused")
			}
		})
	}
}

// A disk that becomes full beside a rewrite ends it, and leaves nothing of it. When there is
// room again it is made.
func TestRewriteEndsWhenFull(t *testing.T) {
	k := newHolder()
	k.segment = 16 << 20
	if err := k.open(); err != nil {
		t.Fatal(err)
	}
	defer func() { closeBroker(t, k.b) }()
	rng := rand.New(rand.NewPCG(1, 1))
	large := func(partition string) error {
		b := make([]byte, 200<<10)
		for i := range b {
			b[i] = "0123456789abcdef"[rng.IntN(16)]
		}
		return k.pushTo("q", partition, fmt.Sprint("l", rng.Uint64()), 0, string(b))
	}
	err := k.configure()
	for i := range 12 {
		err = errors.Join(err, large(fmt.Sprint("slow", i)))
		for j := range 2 {
			done := fmt.Sprint("done", i, j)
			pushErr := large(done)
			_, popErr := k.b.Pop(&PopRequest{Tenant: DefaultTenant, Queue: "q", Partition: done, Pinned: true, Group: "g", Batch: 1, AutoAck: true})
			err = errors.Join(err, pushErr, popErr)
		}
	}
	if err = errors.Join(err, k.checkpoint()); err != nil {
		t.Fatal(err)
	}
	files := func() (names []string) {
		names, err := k.fs.List("data/segments")
		if err != nil {
			t.Fatal(err)
		}
		return names
	}
	before := files()
	k.fs.Observe(func(kind faultfs.Kinds, name string) {
		if kind == faultfs.Sync && strings.HasSuffix(name, ".seg") {
			k.fs.SetFree(minReserve, 1<<30)
		}
	})
	if err := k.do(k.cycle, k.cycle, k.cycle); err != nil {
		t.Fatal(err)
	}
	if got := files(); !slices.Equal(got, before) || k.b.Stats().RewrittenSegments != 0 {
		t.Fatalf("files %v, were %v; %+v", got, before, k.b.Stats())
	}
	k.fs.Observe(nil)
	k.fs.SetFree(1<<30, 1<<30)
	if err := k.do(k.cycle, k.cycle, k.cycle); err != nil {
		t.Fatal(err)
	}
	if k.b.Stats().RewrittenSegments == 0 {
		t.Error("nothing is rewritten where there is room")
	}
}

// Pushes, pops, lists, checkpoints and deletions beside segments that are rewritten all the
// time: what nobody takes is read whole by everybody who looks.
func TestRewriteBesideEverything(t *testing.T) {
	t.Parallel()
	k := newHolder()
	var err error
	k.b, err = Open(Options{
		FS: k.fs, Dir: "data", Logger: zerolog.Nop(), RetentionInterval: time.Millisecond, SegmentBytes: holderSegment,
		Now:             k.now,
		CheckpointBytes: 1, DiskHighPercent: 100,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer closeBroker(t, k.b)
	if err := k.configure(); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	var background sync.WaitGroup
	repeat := func(fn func() error) {
		background.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				if err := fn(); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	repeat(func() error { <-tick.C; k.ahead.Add(int64(5 * time.Second)); return nil })
	var known atomic.Int64 // of the held partition
	repeat(func() error {
		least := known.Load()
		p := k.b.queue(DefaultTenant, "q").partition("held")
		if p == nil {
			return nil
		}
		p.mu.Lock()
		v := p.viewLocked()
		p.mu.Unlock()
		next := int64(0)
		err := k.b.batches(v, 0, func(h *segment.Header, _ []byte) bool {
			if h.BaseOffset != next {
				t.Errorf("batch at %d, want %d", h.BaseOffset, next)
			}
			next = h.EndOffset()
			return true
		})
		if next < least {
			t.Errorf("read up to %d, there are %d", next, least)
		}
		return err
	})
	repeat(func() error { _, err := k.b.Queues(DefaultTenant); return err })
	repeat(func() error { _, err := k.b.DeleteQueue(DefaultTenant, "other"); return err })
	repeat(func() error { return k.pushTo("other", "p", "", 300) })
	// On a busy machine the retainer may not have had a turn by the thirtieth.
	for i := 0; i < 30 || i < 1000 && k.b.Stats().RewrittenSegments == 0; i++ {
		if err := errors.Join(k.consumed(10)(), k.hold("held", fmt.Sprint("h", i))()); err != nil {
			t.Fatal(err)
		}
		known.Store(int64(i + 1))
	}
	close(done)
	background.Wait()
	k.check(t, "end")
	if s := k.b.Stats(); s.RewrittenSegments == 0 {
		t.Error("nothing was rewritten")
	}
}
