package broker

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"github.com/skepmq/skep/segment"
	"github.com/skepmq/skep/segment/vfs/faultfs"
)

// keeper drives a broker with an eviction of 100 s under a clock that it moves.
type keeper struct {
	ahead  atomic.Int64
	start  time.Time
	b      *Broker
	pushed map[string]time.Duration // when, by id; answered
	tried  map[string]bool
	rules  bool // answered
	buried bool // a dead letter is answered
	purged bool // and its end is
	trying bool // to end it

	gone map[string]bool // by the rule, before it was answered to be off
}

const keeperWindow = 100 * time.Second

func newKeeper() *keeper {
	return &keeper{start: time.Now(), pushed: map[string]time.Duration{}, tried: map[string]bool{}}
}

func (k *keeper) now() time.Time { return k.start.Add(time.Duration(k.ahead.Load())) }

func (k *keeper) advance(d time.Duration) func() error {
	return func() error { k.ahead.Add(int64(d)); return nil }
}

func (k *keeper) open(fsys *faultfs.FS) (*Broker, error) {
	return Open(Options{
		FS: fsys, Dir: "data", Logger: zerolog.Nop(), Now: k.now, RetentionInterval: time.Hour,
		CheckpointBytes: 1 << 40, CheckpointEvery: 24 * time.Hour, DiskHighPercent: 100,
	})
}

func (k *keeper) push(partition string, ids ...string) func() error {
	return func() error {
		for _, id := range ids {
			k.tried[id] = true
			if err := pushOne(k.b, partition, id); err != nil {
				return err
			}
			k.pushed[id] = time.Duration(k.ahead.Load())
		}
		return nil
	}
}

func pushOne(b *Broker, partition, id string) error {
	items := []PushItem{{Queue: []byte("q"), Partition: []byte(partition), TransactionID: []byte(id), Payload: []byte(`"` + id + `"`)}}
	results := make([]PushResult, 1)
	if err := b.Push(DefaultTenant, items, nil, results); err != nil {
		return err
	}
	if results[0].Status != Queued {
		return fmt.Errorf("push of %s: %+v", id, results[0])
	}
	return nil
}

func (k *keeper) configure() error {
	err := evictAfter(k.b, keeperWindow)
	k.rules = err == nil
	return err
}

// relax switches the rule off. What it has dropped stays dropped, and nothing else goes.
func (k *keeper) relax() error {
	gone := map[string]bool{}
	for id := range k.pushed {
		gone[id] = k.age(id) > keeperWindow
	}
	k.rules = false
	err := evictAfter(k.b, 0)
	if err == nil {
		k.gone = gone
	}
	return err
}

func (k *keeper) age(id string) time.Duration { return time.Duration(k.ahead.Load()) - k.pushed[id] }

func evictAfter(b *Broker, window time.Duration) error {
	_, err := b.Configure(DefaultTenant, "q", func(o QueueOptions, _ bool) (QueueOptions, error) {
		o.MaxWaitTimeSeconds = int64(window / time.Second)
		return o, nil
	})
	return err
}

func (k *keeper) bury() error {
	res, err := k.b.Pop(&PopRequest{Tenant: DefaultTenant, Queue: "q", Partition: "b", Pinned: true, Batch: 1})
	if err != nil || len(res.Parts) == 0 {
		return err
	}
	results := make([]AckResult, 1)
	err = k.b.Acknowledge(DefaultTenant, "", []Ack{{
		TransactionID: "b0", PartitionID: res.Parts[0].PartitionID.String(), LeaseID: res.LeaseID.String(), Status: AckDeadLetter,
	}}, results)
	k.buried = err == nil && results[0].DeadLetter
	return err
}

func (k *keeper) purge() error {
	k.trying = true
	_, err := k.b.PurgeDeadLetters(DefaultTenant, "q", "")
	k.purged = err == nil
	return err
}

func (k *keeper) checkpoint() error { _, err := k.b.checkpoint(); return err }
func (k *keeper) retain() error     { k.b.retain(); return k.b.journal.Err() }

// life is a script in which everything that retention does to the disk happens.
func (k *keeper) life() error {
	for _, step := range []func() error{
		k.configure,
		k.push("a", "a0", "a1"), k.push("b", "b0"), k.checkpoint,
		k.push("e", "e0"), k.advance(60 * time.Second), k.push("e", "e1"), // one extent
		k.push("a", "a2"), k.push("c", "c0"), k.bury, k.checkpoint,
		k.advance(50 * time.Second),
		k.retain, k.checkpoint, // a0, a1 and b0 go, and their segment
		k.push("a", "a3"), k.retain, k.checkpoint,
		k.purge, k.retain, k.checkpoint, // the segment of the dead letter goes
		k.advance(31 * 24 * time.Hour),
		k.push("a", "a4"), k.retain, k.checkpoint, // b and c go
		k.b.rewriteCatalog,
		k.push("b", "b1"), k.retain, k.checkpoint,
		k.advance(31 * 24 * time.Hour),
		k.retain, k.push("a", "a5"), k.checkpoint, k.push("c", "c1"), k.push("d", "d0"), k.checkpoint,
		k.advance(50 * time.Second), k.push("a", "a6"), k.advance(60 * time.Second),
		k.retain, k.relax, k.checkpoint, k.push("c", "c2"),
	} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// check compares what a broker has with what it must and may have, and reports it.
func (k *keeper) check(t *testing.T, what string, b *Broker) []string {
	t.Helper()
	got := contents(t, what, b)
	for _, id := range got {
		if _, answered := k.pushed[id]; !k.tried[id] || k.gone[id] || k.rules && answered && k.age(id) > keeperWindow {
			t.Fatalf("%s: %s is there, %v old", what, id, k.age(id))
		}
	}
	for id := range k.pushed {
		if k.age(id) <= keeperWindow && !slices.Contains(got, id) {
			t.Fatalf("%s: %s is not there, %v old; there are %v", what, id, k.age(id), got)
		}
	}
	letters, err := b.DeadLetters(DefaultTenant, DeadLetterFilter{Limit: 10})
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	if k.buried && !k.trying && (len(letters) != 1 || string(letters[0].Payload) != `"b0"`) || k.purged && len(letters) > 0 {
		t.Fatalf("%s: dead letters %+v", what, letters)
	}
	return got
}

// contents reads every message of the queue without moving a cursor.
func contents(t *testing.T, what string, b *Broker) (ids []string) {
	t.Helper()
	for _, q := range b.allQueues() {
		names := map[string]bool{}
		for _, p := range q.snapshot() {
			p.mu.Lock()
			v, gone, bytes := p.viewLocked(), !p.announced, p.filedBytes+p.tailBytesLocked()
			p.mu.Unlock()
			if gone {
				continue
			}
			if names[p.name] {
				t.Fatalf("%s: two partitions %q", what, p.name)
			}
			names[p.name] = true
			next := v.start
			err := b.batches(v, v.start, func(h *segment.Header, batch []byte) bool {
				s, err := newSpan(h, batch, v.start, int(h.Count))
				if err != nil || s.first != next {
					t.Fatalf("%s: batch at %d, want %d: %v", what, s.first, next, err)
				}
				bytes -= int64(len(batch))
				for m := range s.messages() {
					ids = append(ids, string(m.TransactionID))
					next++
				}
				return true
			})
			if bytes != 0 {
				t.Fatalf("%s: partition %q counts %d bytes too many", what, p.name, bytes)
			}
			if err != nil || next != v.hwm {
				t.Fatalf("%s: partition %q read from %d to %d of %d: %v", what, p.name, v.start, next, v.hwm, err)
			}
		}
	}
	slices.Sort(ids)
	return ids
}

// checkRecovery opens what a crash has left, twice, and lets the broker go on in between.
func (k *keeper) checkRecovery(t *testing.T, what string, fsys *faultfs.FS) {
	t.Helper()
	wantClean(t, what, fsys)
	b, err := k.open(fsys)
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	before := k.check(t, what, b)
	b.retain()
	if _, err := b.checkpoint(); err != nil {
		t.Fatalf("%s: checkpoint: %v", what, err)
	}
	if err := pushOne(b, "after", "after"); err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	b.retain()
	if _, err := b.checkpoint(); err != nil {
		t.Fatalf("%s: second checkpoint: %v", what, err)
	}
	checkFiles(t, what, b, fsys)
	again := fsys.CrashStrict()
	closeBroker(t, b)
	wantClean(t, what+", used", again)
	b, err = k.open(again)
	if err != nil {
		t.Fatalf("%s: second recovery: %v", what, err)
	}
	defer closeBroker(t, b)
	after := contents(t, what, b)
	if after = slices.DeleteFunc(after, func(id string) bool { return id == "after" }); !slices.Equal(after, before) {
		t.Fatalf("%s: %v and then %v", what, before, after)
	}
	checkFiles(t, what, b, again)
}

// checkFiles compares the segment files with those the store knows.
func checkFiles(t *testing.T, what string, b *Broker, fsys *faultfs.FS) {
	t.Helper()
	names, err := fsys.List(filepath.Join("data", "segments"))
	if err != nil {
		t.Fatal(err)
	}
	var known []string
	for _, s := range b.store.Segments() {
		known = append(known, segment.FileName(s.ID))
	}
	if slices.Sort(names); !slices.Equal(names, known) {
		t.Fatalf("%s: files %v, known %v", what, names, known)
	}
}

// The power is cut at every call of the disk in a life full of retention: what is left
// opens, holds what it must hold, nothing that is too old, and no segment too many.
func TestRetentionPowerCutAtEveryCall(t *testing.T) {
	t.Parallel()
	for n := 0; ; n++ {
		fsys := faultfs.New()
		k := newKeeper()
		var err error
		if k.b, err = k.open(fsys); err != nil {
			t.Fatal(err)
		}
		base := fsys.Calls()
		fsys.FailAt(base+n, faultfs.Fault{Err: faultfs.EIO, Sticky: true})
		err = k.life()
		met := fsys.Calls() > base+n
		for seed := range uint64(3) {
			k.checkRecovery(t, fmt.Sprintf("call %d seed %d", n, seed), fsys.Crash(rand.New(rand.NewPCG(seed, uint64(n)))))
		}
		k.checkRecovery(t, fmt.Sprintf("call %d strict", n), fsys.CrashStrict())
		closeBroker(t, k.b)
		if !met {
			if err != nil {
				t.Fatal(err)
			}
			if n < 100 {
				t.Fatalf("only %d calls", n)
			}
			return
		}
	}
}

// A call of the disk fails once, and the broker goes on if it can.
func TestRetentionFaultAtEveryCall(t *testing.T) {
	t.Parallel()
	for n := 0; ; n++ {
		fsys := faultfs.New()
		k := newKeeper()
		var err error
		if k.b, err = k.open(fsys); err != nil {
			t.Fatal(err)
		}
		base := fsys.Calls()
		fsys.FailAt(base+n, faultfs.Fault{Err: faultfs.EIO})
		err = k.life()
		met := fsys.Calls() > base+n
		fsys.FailAt(-1, faultfs.Fault{})
		if k.b.journal.Err() == nil {
			k.b.retain()
			if err := k.b.tryCheckpoint(); err != nil && k.b.journal.Err() == nil {
				t.Fatalf("call %d: checkpoint after the fault: %v", n, err)
			}
		}
		k.checkRecovery(t, fmt.Sprintf("call %d", n), fsys.CrashStrict())
		closeBroker(t, k.b)
		if !met {
			if err != nil {
				t.Fatal(err)
			}
			return
		}
	}
}

// The life ends with nothing but what it must hold: segments have really gone.
func TestRetentionLife(t *testing.T) {
	fsys := faultfs.New()
	k := newKeeper()
	var err error
	if k.b, err = k.open(fsys); err != nil {
		t.Fatal(err)
	}
	defer func() { closeBroker(t, k.b) }()
	if err := k.life(); err != nil {
		t.Fatal(err)
	}
	if got := k.check(t, "end", k.b); !slices.Equal(got, []string{"a6", "c2"}) {
		t.Fatalf("got %v", got)
	}
	if d := k.b.Stats(); d.Traffic[DroppedByEviction] != 13 || d.Traffic[DroppedByAge] != 0 || d.Traffic[DroppedCompleted] != 0 || d.DroppedSegments < 3 || d.DroppedSegmentBytes == 0 {
		t.Errorf("stats %+v", d)
	}
	if d := k.b.Stats(); d.Partitions != 4 { // a, c and d made anew, and the hidden one
		t.Errorf("%d partitions", d.Partitions)
	}
	k.b.retain()
	if err := k.checkpoint(); err != nil {
		t.Fatal(err)
	}
	if left := k.b.store.Segments(); len(left) != 1 {
		t.Errorf("segments %+v", left)
	}
}

// Everything at once. Offsets above the start have no gaps, and pops deliver in order.
func TestRetentionConcurrent(t *testing.T) {
	t.Parallel()
	k := newKeeper()
	b, err := Open(Options{
		FS: faultfs.New(), Dir: "data", Logger: zerolog.Nop(), Now: k.now, RetentionInterval: time.Millisecond,
		CheckpointBytes: 1, DiskHighPercent: 100, SegmentBytes: 16 << 10,
		CleanupAge: 200 * time.Second,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer closeBroker(t, b)
	k.b = b
	if err := k.configure(); err != nil {
		t.Fatal(err)
	}
	const partitions, rounds = 5, 150
	done := make(chan struct{})
	var background, pushers sync.WaitGroup
	repeat := func(fn func()) {
		background.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
					fn()
				}
			}
		})
	}
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	repeat(func() { <-tick.C; k.ahead.Add(int64(5 * time.Second)) })
	repeat(func() { b.Queues(DefaultTenant) })
	for range 2 {
		last := map[[16]byte]int64{}
		repeat(func() {
			res, err := b.Pop(&PopRequest{Tenant: DefaultTenant, Queue: "q", Group: "g", Batch: 20, Partitions: 3, AutoAck: true})
			if err != nil {
				t.Error(err)
				return
			}
			for _, part := range res.Parts {
				for _, s := range part.Spans {
					if was, ok := last[part.PartitionID]; ok && s.first <= was {
						t.Errorf("offset %d after %d", s.first, was)
					}
					last[part.PartitionID] = s.first + int64(s.count) - 1
				}
			}
		})
	}
	for i := range 3 {
		pushers.Go(func() {
			for r := range rounds {
				if err := pushOne(b, fmt.Sprint((i+r)%partitions), fmt.Sprint(i, "-", r)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	pushers.Wait()
	close(done)
	background.Wait()
	b.retain() // what is due, for the clock stands still now
	contents(t, "end", b)
}

// The heap gives out what is due, in order, and nothing else.
func TestDueHeap(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	var a aging
	want := map[int64]int{}
	for range 1000 {
		due := rng.Int64N(500)
		want[due]++
		a.add(dueEntry{dueMs: due})
	}
	got, last := map[int64]int{}, int64(0)
	for _, e := range a.take(249, 2000, nil) {
		if e.dueMs < last || e.dueMs > 249 {
			t.Fatalf("%d after %d", e.dueMs, last)
		}
		last = e.dueMs
		got[e.dueMs]++
	}
	maps.DeleteFunc(want, func(due int64, _ int) bool { return due > 249 })
	if !maps.Equal(got, want) {
		t.Fatalf("got %v want %v", got, want)
	}
	rest := len(a.due)
	a.lookAgain()
	if list := a.take(0, 2000, nil); len(list) != rest || len(a.due) > 0 {
		t.Fatalf("%d of %d after lookAgain", len(list), rest)
	}
}

// An abandoned group costs less and less: the pause between two looks grows to five minutes.
func TestHeldPartitionIsLeftAlone(t *testing.T) {
	k := newKeeper()
	b, err := Open(Options{
		FS: faultfs.New(), Dir: "data", Logger: zerolog.Nop(), Now: k.now, RetentionInterval: 5 * time.Second,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer closeBroker(t, b)
	_, err = b.Configure(DefaultTenant, "q", func(o QueueOptions, _ bool) (QueueOptions, error) {
		o.RetentionEnabled, o.CompletedRetentionSeconds = true, 10
		return o, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := pushOne(b, "p", "a"); err != nil {
		t.Fatal(err)
	}
	b.retain()
	q := b.queue(DefaultTenant, "q")
	var pauses []int64
	k.ahead.Add(int64(11 * time.Second))
	for range 9 {
		b.retain()
		if len(q.aging.due) != 1 {
			t.Fatalf("%d entries", len(q.aging.due))
		}
		pause := q.aging.due[0].At - b.clock.stamp()
		pauses = append(pauses, pause/1000)
		k.ahead.Add(pause * int64(time.Millisecond))
	}
	if want := []int64{5, 10, 20, 40, 80, 160, 300, 300, 300}; !slices.Equal(pauses, want) {
		t.Fatalf("pauses of %v s, want %v", pauses, want)
	}
}

// The queue mode has a place in partitions that it has not come to yet: what it has not
// seen is not completed, however far named groups are.
func TestCompletedWaitsForTheQueueMode(t *testing.T) {
	k := newKeeper()
	b, err := k.open(faultfs.New())
	if err != nil {
		t.Fatal(err)
	}
	defer closeBroker(t, b)
	k.b = b
	_, err = b.Configure(DefaultTenant, "q", func(o QueueOptions, _ bool) (QueueOptions, error) {
		o.RetentionEnabled, o.CompletedRetentionSeconds = true, 10
		return o, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(k.push("a", "a0")(), k.push("b", "b0")()); err != nil {
		t.Fatal(err)
	}
	popAll(t, b, PopRequest{Partition: "a", Pinned: true, Batch: 1, AutoAck: true})
	popAll(t, b, PopRequest{Group: "named", Batch: 10, Partitions: 2, AutoAck: true})
	k.ahead.Add(int64(time.Minute))
	b.retain()
	if got := contents(t, "both are done with a", b); !slices.Equal(got, []string{"b0"}) {
		t.Fatalf("left are %v", got)
	}
	if ids, _ := popAll(t, b, PopRequest{Batch: 10, Partitions: 2, AutoAck: true}); !slices.Equal(ids, []string{"b0"}) {
		t.Fatalf("popped %v", ids)
	}
	k.ahead.Add(int64(2 * time.Hour)) // it was held, so it is looked at after a pause
	b.retain()
	if got := contents(t, "all are done", b); len(got) > 0 {
		t.Fatalf("left are %v", got)
	}
}

// What is dropped because it was acknowledged goes when the acknowledgement is on disk, not
// before: a power cut might have taken that back.
func TestCompletedWaitsForTheDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fsys := &gateFS{FS: faultfs.New()}
		b, err := Open(Options{FS: fsys, Dir: "data", DiskHighPercent: 100, RetentionInterval: time.Second})
		if err != nil {
			t.Fatal(err)
		}
		_, err = b.Configure(DefaultTenant, "q", func(o QueueOptions, _ bool) (QueueOptions, error) {
			o.RetentionEnabled, o.CompletedRetentionSeconds = true, 10
			return o, nil
		})
		if err := errors.Join(err, pushOne(b, "p", "a")); err != nil {
			t.Fatal(err)
		}
		res, err := b.Pop(&PopRequest{Tenant: DefaultTenant, Queue: "q", Group: "g"})
		if err != nil || len(res.Parts) != 1 {
			t.Fatalf("%+v, %v", res, err)
		}
		p := b.queue(DefaultTenant, "q").partition("p")
		start := func() int64 {
			p.mu.Lock()
			defer p.mu.Unlock()
			return p.start
		}
		open := fsys.shut()
		go func() {
			acks := []Ack{{TransactionID: "a", PartitionID: res.Parts[0].PartitionID.String()}}
			if err := b.Acknowledge(DefaultTenant, "g", acks, make([]AckResult, 1)); err != nil {
				t.Error(err)
			}
		}()
		time.Sleep(time.Minute) // in the bubble: the rule is due, and nothing gets to the disk
		synctest.Wait()
		if n := start(); n != 0 {
			t.Errorf("the partition starts at %d, and the acknowledgement is not on disk", n)
		}
		open()
		time.Sleep(time.Minute)
		synctest.Wait()
		if n := start(); n != 1 {
			t.Errorf("the partition starts at %d", n)
		}
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
}
