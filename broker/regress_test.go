package broker

import (
	"bytes"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/skepmq/skep/log/journal"
	"github.com/skepmq/skep/log/record"
	"github.com/skepmq/skep/segment/vfs/faultfs"
)

// rewriteAlone rewrites the catalogue while no checkpoint runs: some requests ask for one.
func (b *Broker) rewriteAlone() error {
	b.checkpointMu.Lock()
	defer b.checkpointMu.Unlock()
	return b.rewriteCatalog()
}

func mustOpen(t *testing.T, fsys *faultfs.FS, change func(*Options)) *Broker {
	t.Helper()
	o := Options{FS: fsys, Dir: "data", CheckpointBytes: 1 << 40, CheckpointEvery: 24 * time.Hour, DiskHighPercent: 100}
	if change != nil {
		change(&o)
	}
	b, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeBroker(t, b) })
	return b
}

func popAll(t *testing.T, b *Broker, req PopRequest) (ids []string, res *PopResult) {
	t.Helper()
	req.Tenant, req.Queue = DefaultTenant, "q"
	res, err := b.Pop(&req)
	if err != nil {
		t.Fatal(err)
	}
	for i := range res.Parts {
		for m := range res.Parts[i].Messages() {
			ids = append(ids, string(m.TransactionID))
		}
	}
	return ids, res
}

// A pinned pop that finds a partition before its first push has been journaled must not
// write the partition's record ahead of the queue's: replay would drop both.
func TestPinnedPopBeforeFirstPush(t *testing.T) {
	fsys := faultfs.New()
	b := mustOpen(t, fsys, nil)
	q, _ := b.ensureQueue(DefaultTenant, "q", DefaultOptions)
	b.ensurePartition(q, []byte("p"))
	popAll(t, b, PopRequest{Partition: "p", Pinned: true, Group: "g", Batch: 1})
	w := newWitness(b)
	if err := w.push("p", "p0"); err != nil {
		t.Fatal(err)
	}
	after := mustOpen(t, fsys.CrashStrict(), nil)
	if ids, _ := popAll(t, after, PopRequest{Batch: 10}); len(ids) != 1 {
		t.Fatalf("after a power cut the queue has %v", ids)
	}
}

// The record of a registration is not overtaken by an older one of the same group.
func TestRegistrationSurvivesPinnedPop(t *testing.T) {
	fsys := faultfs.New()
	b := mustOpen(t, fsys, nil)
	w := newWitness(b)
	if err := w.push("p", "old"); err != nil {
		t.Fatal(err)
	}
	popAll(t, b, PopRequest{Partition: "p", Pinned: true, Group: "g", SubscriptionMode: "new", Batch: 1})
	popAll(t, b, PopRequest{Group: "g", SubscriptionMode: "new", Batch: 1})
	popAll(t, b, PopRequest{Partition: "p", Pinned: true, Group: "g", Batch: 1})
	if err := b.journal.Flush(); err != nil {
		t.Fatal(err)
	}
	after := mustOpen(t, fsys.CrashStrict(), nil)
	g := after.queue(DefaultTenant, "q").group("g")
	if s := g.sub.Load(); !s.registered || s.mode != modeNew {
		t.Fatalf("after a power cut the subscription is %+v", *s)
	}
}

// A push that comes between a checkpoint's taking of the changes and its capture of the
// tail is filed, so its transaction ids must be saved with it.
func TestIDsOfCapturedTailsAreTaken(t *testing.T) {
	b := mustOpen(t, faultfs.New(), nil)
	w := newWitness(b)
	if err := w.push("p", "first"); err != nil {
		t.Fatal(err)
	}
	taken := b.changed.take()
	if err := w.push("p", "second"); err != nil {
		t.Fatal(err)
	}
	captured := b.capture(&taken)
	ids := b.changed.takeIDs()
	if n := len(captured.tails[0].Batches); n != 2 || len(ids) != 2 {
		t.Fatalf("%d batches captured with %d ids", n, len(ids))
	}
}

// An answer that has no room for a partition's next message leaves that partition to the
// next pop.
func TestAnswerBytes(t *testing.T) {
	b := mustOpen(t, faultfs.New(), func(o *Options) { o.MaxAnswerBytes = 1000 })
	payload := []byte(`"` + strings.Repeat("x", 600) + `"`)
	var items []PushItem
	for _, p := range []string{"a", "b", "c"} {
		for i := range 2 {
			items = append(items, PushItem{
				Queue: []byte("q"), Partition: []byte(p), TransactionID: fmt.Appendf(nil, "%s%d", p, i), Payload: payload,
			})
		}
	}
	if err := b.Push(DefaultTenant, items, nil, make([]PushResult, len(items))); err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for range 3 {
		ids, _ := popAll(t, b, PopRequest{Batch: 100, Partitions: 10})
		if len(ids) != 1 {
			t.Fatalf("an answer of 1000 bytes holds %v", ids)
		}
		seen[ids[0]] = true
	}
	if len(seen) != 3 {
		t.Fatalf("three pops delivered %v", seen)
	}
	// One message larger than any answer is delivered alone.
	huge := []PushItem{{Queue: []byte("q"), Partition: []byte("d"), Payload: bytes.Repeat([]byte("1"), 5000)}}
	if err := b.Push(DefaultTenant, huge, nil, make([]PushResult, 1)); err != nil {
		t.Fatal(err)
	}
	if ids, _ := popAll(t, b, PopRequest{Batch: 100, Partitions: 10}); len(ids) != 1 {
		t.Fatalf("the huge message came as %v", ids)
	}
}

// A partition that cannot be read fails its own items and nobody else's.
func TestUnreadablePartition(t *testing.T) {
	fsys := faultfs.New()
	b := mustOpen(t, fsys, nil)
	w := newWitness(b)
	if err := errors.Join(w.push("bad", "x0"), w.push("good", "y0")); err != nil {
		t.Fatal(err)
	}
	_, bad := popAll(t, b, PopRequest{Partition: "bad", Pinned: true, Batch: 1})
	_, good := popAll(t, b, PopRequest{Partition: "good", Pinned: true, Batch: 1})
	if _, err := b.checkpoint(); err != nil {
		t.Fatal(err)
	}
	if err := b.store.Close(); err != nil { // nothing filed can be read any more
		t.Fatal(err)
	}
	ack := func(res *PopResult, id string, status AckStatus) Ack {
		return Ack{TransactionID: id, PartitionID: res.Parts[0].PartitionID.String(), LeaseID: res.LeaseID.String(), Status: status}
	}
	acks := []Ack{ack(good, "y0", AckCompleted), ack(bad, "x0", AckDeadLetter)}
	results := make([]AckResult, 2)
	if err := b.Acknowledge(DefaultTenant, "", acks, results); err != nil {
		t.Fatal(err)
	}
	if !results[0].Success || results[1].Error != errFlush {
		t.Fatalf("acks: %+v", results)
	}
	items := []PushItem{
		{Queue: []byte("q"), Partition: []byte("bad"), TransactionID: []byte("x0"), Payload: []byte("1")},
		{Queue: []byte("q"), Partition: []byte("good"), TransactionID: []byte("y1"), Payload: []byte("1")},
	}
	pushed := make([]PushResult, 2)
	if err := b.Push(DefaultTenant, items, nil, pushed); err != nil {
		t.Fatal(err)
	}
	if pushed[0].Status != Failed || pushed[1].Status != Queued {
		t.Fatalf("pushes: %+v", pushed)
	}
	if ids, _ := popAll(t, b, PopRequest{Partition: "good", Pinned: true, Batch: 1}); len(ids) != 1 || ids[0] != "y1" {
		t.Fatalf("the good partition delivers %v", ids)
	}
}

// A home that takes no more writes ends the broker: no checkpoint could ever succeed, and
// the journal would grow until every push hangs.
func TestFailedHomeEndsTheBroker(t *testing.T) {
	poisoned := 0
	for n := range 40 {
		fsys := faultfs.New()
		b := mustOpen(t, fsys, nil)
		w := newWitness(b)
		if err := errors.Join(w.push("p", "p0"), w.consume("p", 1, AckCompleted)); err != nil {
			t.Fatal(err)
		}
		fsys.FailAt(fsys.Calls()+n, faultfs.Fault{Err: faultfs.ENOSPC})
		err := b.tryCheckpoint()
		fsys.FailAt(-1, faultfs.Fault{})
		if b.Ready() != nil {
			<-b.Failed()
			poisoned++
			continue
		}
		// Otherwise it must be able to go on.
		if err := b.tryCheckpoint(); err != nil {
			t.Fatalf("call %d: the broker says it is ready, and cannot checkpoint: %v", n, err)
		}
		if err == nil && poisoned == 0 {
			t.Fatal("no failed call ended the broker")
		}
	}
}

// Pushing thousands of stored messages again compares each with its original without
// reading the batch anew for every one.
func TestRepushIsLinear(t *testing.T) {
	b := mustOpen(t, faultfs.New(), nil)
	const n = 20_000
	items := make([]PushItem, n)
	for i := range items {
		items[i] = PushItem{Queue: []byte("q"), Partition: []byte("p"), TransactionID: fmt.Appendf(nil, "id-%d", i), Payload: []byte("{}")}
	}
	first, second := make([]PushResult, n), make([]PushResult, n)
	if err := errors.Join(b.Push(DefaultTenant, items, nil, first), b.Push(DefaultTenant, items, nil, second)); err != nil {
		t.Fatal(err)
	}
	for i := range second {
		if second[i].Status != Duplicate || second[i].MessageID != first[i].MessageID {
			t.Fatalf("item %d: %+v after %+v", i, second[i], first[i])
		}
	}
	// Each batch is decoded once for the whole push.
	p := b.queue(DefaultTenant, "q").partition("p")
	f := finder{b: b, v: p.viewLocked(), limit: p.end}
	allocs := testing.AllocsPerRun(10, func() {
		for i := range int64(1000) {
			if _, ok, err := f.at(i * 7 % maxBatchMessages); !ok || err != nil {
				t.Fatal("message not found")
			}
		}
	})
	if allocs > 0 {
		t.Fatalf("finding messages in one batch allocates %v times", allocs)
	}
}

// A queue that was deleted and made again under its name is there after a restart,
// whichever of the two the records of a checkpoint name last.
func TestDeletedAndMadeAgain(t *testing.T) {
	for _, checkpoints := range [][2]bool{{false, false}, {true, false}, {false, true}, {true, true}} {
		t.Run(fmt.Sprint(checkpoints), func(t *testing.T) {
			fsys := faultfs.New()
			b := mustOpen(t, fsys, nil)
			w := newWitness(b)
			checkpoint := func(want bool) {
				if want {
					if _, err := b.checkpoint(); err != nil {
						t.Fatal(err)
					}
				}
			}
			if err := w.push("p", "old"); err != nil {
				t.Fatal(err)
			}
			checkpoint(checkpoints[0])
			if _, err := b.DeleteQueue(DefaultTenant, "q"); err != nil {
				t.Fatal(err)
			}
			_, err := b.Configure(DefaultTenant, "q", func(o QueueOptions, exists bool) (QueueOptions, error) {
				o.LeaseTime = 213
				return o, nil
			})
			if err := errors.Join(err, w.push("p", "new")); err != nil {
				t.Fatal(err)
			}
			checkpoint(checkpoints[1])
			after := mustOpen(t, fsys.CrashStrict(), nil)
			q := after.queue(DefaultTenant, "q")
			if q == nil || q.options.Load().LeaseTime != 213 {
				t.Fatal("the new queue is gone, or has other options")
			}
			if ids, _ := popAll(t, after, PopRequest{Batch: 10}); len(ids) != 1 || ids[0] != "new" {
				t.Fatalf("the new queue has %v", ids)
			}
		})
	}
}

// A checkpoint that meets a deletion which came after it took the changes leaves the
// tails of that queue out and drops the journal that held them. Recovery must neither
// refuse to start nor bring the queue back.
func TestDeletedDuringCheckpoint(t *testing.T) {
	fsys := faultfs.New()
	b := mustOpen(t, fsys, nil)
	w := newWitness(b)
	if err := errors.Join(w.push("p", "filed"), newWitness(b).checkpoint(), w.push("p", "left out")); err != nil {
		t.Fatal(err)
	}
	b.checkpointMu.Lock() // this is the checkpoint
	sealed, err := b.journal.Rotate()
	if err != nil {
		t.Fatal(err)
	}
	taken := b.changed.take()
	if err := w.push("p", "in the next generation"); err != nil {
		t.Fatal(err)
	}
	if _, err := b.DeleteQueue(DefaultTenant, "q"); err != nil {
		t.Fatal(err)
	}
	captured := b.capture(&taken)
	taken.entries = b.changed.takeIDs()
	if err := errors.Join(b.journal.Flush(), b.file(&taken, captured, sealed), b.journal.Drop(sealed)); err != nil {
		t.Fatal(err)
	}
	crashed := fsys.CrashStrict()
	b.checkpointMu.Unlock()
	after := mustOpen(t, crashed, nil)
	if after.queue(DefaultTenant, "q") != nil {
		t.Fatal("the deleted queue is back")
	}
}

// Batches that are missing without such an excuse are a loss, and recovery says so
// instead of serving the rest as if nothing had been there.
func TestMissingBatchesAreRefused(t *testing.T) {
	fsys := faultfs.New()
	b := mustOpen(t, fsys, nil)
	w := newWitness(b)
	if err := errors.Join(w.push("p", "filed"), newWitness(b).checkpoint(), w.push("p", "lost")); err != nil {
		t.Fatal(err)
	}
	sealed, err := b.journal.Rotate()
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(w.push("p", "after"), b.file(&taken{}, captured{}, sealed), b.journal.Drop(sealed)); err != nil {
		t.Fatal(err)
	}
	if _, err := openOn(fsys.CrashStrict()); !errors.Is(err, record.ErrCorrupt) {
		t.Fatalf("opened with a batch missing: %v", err)
	}
}

func viewOf(b *Broker, partition string) view {
	p := b.queue(DefaultTenant, "q").partition(partition)
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.viewLocked()
}

// A large push becomes batches of bounded size, in one entry of the journal and with one
// timestamp: whole or absent, and cheap to read a part of.
func TestLargePush(t *testing.T) {
	payload := func(n int) []byte { return []byte(`"` + strings.Repeat("x", n-2) + `"`) }
	tests := []struct {
		name    string
		sizes   []int
		batches int
	}{
		{"small", []int{10, 10}, 1},
		{"many messages", slices.Repeat([]int{10}, maxBatchMessages+1), 2},
		{"exactly as many", slices.Repeat([]int{10}, maxBatchMessages), 1},
		{"many bytes", slices.Repeat([]int{maxBatchBytes / 4}, 8), 3},
		{"larger than a batch", []int{10, 3 * maxBatchBytes, 10}, 3},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			fsys := faultfs.New()
			b := mustOpen(t, fsys, nil)
			var items []PushItem
			for i, n := range tt.sizes {
				items = append(items, PushItem{
					Queue: []byte("q"), Partition: []byte("p"), TransactionID: fmt.Append(nil, i), Payload: payload(n),
				})
			}
			groups := b.journal.Stats().Frames
			results := make([]PushResult, len(items))
			if err := b.Push(DefaultTenant, items, nil, results); err != nil {
				t.Fatal(err)
			}
			if got := b.journal.Stats().Frames - groups; got != 2 { // the queue's record, and this
				t.Errorf("%d appends to the journal, want 2", got)
			}
			if n := len(viewOf(b, "p").tail); n != tt.batches {
				t.Errorf("%d batches, want %d", n, tt.batches)
			}
			after := mustOpen(t, fsys.CrashStrict(), nil)
			f := finder{b: after, v: viewOf(after, "p"), limit: int64(len(items))}
			first, _, _ := f.at(0)
			for i := range items {
				m, ok, err := f.at(int64(i))
				if err != nil || !ok || m.ID != results[i].MessageID || string(m.Payload) != string(items[i].Payload) || m.CreatedAtMs != first.CreatedAtMs {
					t.Fatalf("message %d after a power cut: found %v, %v", i, ok, err)
				}
			}
		})
	}
}

// A wall clock that was set back between two runs neither reorders messages nor makes
// delayed ones wait until it has caught up.
func TestClockSetBackOverARestart(t *testing.T) {
	fsys := faultfs.New()
	var now atomic.Int64 // Unix milliseconds
	clock := func(o *Options) { o.Now = func() time.Time { return time.UnixMilli(now.Load()) } }
	now.Store(2_000_000_000)
	b := mustOpen(t, fsys, clock)
	w := newWitness(b)
	_, err := b.Configure(DefaultTenant, "q", func(o QueueOptions, _ bool) (QueueOptions, error) {
		o.DelayedProcessing = 5
		return o, nil
	})
	if err := errors.Join(err, w.push("p", "before")); err != nil {
		t.Fatal(err)
	}
	now.Store(1_000_000_000) // eleven days back
	after := mustOpen(t, fsys.CrashStrict(), clock)
	if err := newWitness(after).push("p", "after"); err != nil {
		t.Fatal(err)
	}
	if ids, _ := popAll(t, after, PopRequest{Batch: 10}); len(ids) != 0 {
		t.Fatalf("%v were delivered at once", ids)
	}
	now.Add(6000)
	// Another group: that of the first pop is offered the partition by a real timer.
	ids, res := popAll(t, after, PopRequest{Group: "g", Batch: 10})
	if fmt.Sprint(ids) != "[before after]" {
		t.Fatalf("six seconds later: %v", ids)
	}
	last := int64(0)
	for m := range res.Parts[0].Messages() {
		if m.CreatedAtMs < last {
			t.Fatal("times decrease")
		}
		last = m.CreatedAtMs
	}
}

// A deletion that comes while the catalogue's entry is being written leaves the queue out
// of it. Then it must be on disk before the entry says that the journal is filed: a power
// cut could otherwise keep the queue and lose what was pushed to it.
func TestDeletedWhileTheCatalogueIsWritten(t *testing.T) {
	fsys := faultfs.New()
	// In this mode a record that nobody flushes stays unsynced, as in the moment before
	// its group's sync.
	b := mustOpen(t, fsys, func(o *Options) { o.Sync = journal.SyncNever })
	w := newWitness(b)
	if err := errors.Join(w.push("p", "filed"), w.checkpoint(), w.push("p", "captured")); err != nil {
		t.Fatal(err)
	}
	b.checkpointMu.Lock() // this is the checkpoint
	sealed, err := b.journal.Rotate()
	if err != nil {
		t.Fatal(err)
	}
	taken := b.changed.take()
	captured := b.capture(&taken)
	taken.entries = b.changed.takeIDs()
	if err := b.journal.Flush(); err != nil {
		t.Fatal(err)
	}
	if _, err := b.DeleteQueue(DefaultTenant, "q"); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(b.file(&taken, captured, sealed), b.journal.Drop(sealed)); err != nil {
		t.Fatal(err)
	}
	crashed := fsys.CrashStrict()
	b.checkpointMu.Unlock()
	after := mustOpen(t, crashed, nil)
	if q := after.queue(DefaultTenant, "q"); q != nil {
		ids, _ := popAll(t, after, PopRequest{Batch: 10})
		t.Fatalf("the queue is back, with %v of [filed captured]", ids)
	}
}

// A dead letter whose queue is deleted while it is being read or replayed is no message
// without a payload: it is not listed, and not moved.
func TestDeadLetterOfDeletedQueue(t *testing.T) {
	b := mustOpen(t, faultfs.New(), nil)
	w := newWitness(b)
	if err := errors.Join(w.push("p", "p0"), w.consume("p", 1, AckDeadLetter)); err != nil {
		t.Fatal(err)
	}
	q := b.queue(DefaultTenant, "q")
	letters, err := b.DeadLetters(DefaultTenant, DeadLetterFilter{Queue: "q", Limit: 10})
	if err != nil || len(letters) != 1 {
		t.Fatalf("%d dead letters, %v", len(letters), err)
	}
	b.forgetPartitions(q) // what a deletion does after the list has been taken
	if page, err := b.DeadLetters(DefaultTenant, DeadLetterFilter{Queue: "q", Limit: 10}); err != nil || len(page) != 0 {
		t.Errorf("listed %+v, %v", page, err)
	}
	other := "elsewhere"
	if _, err := b.ReplayDeadLetter(DefaultTenant, letters[0].ID, &other, nil); !errors.Is(err, ErrDeadLetterNotFound) {
		t.Errorf("replayed: %v", err)
	}
	if b.queue(DefaultTenant, other) != nil {
		t.Error("something was moved")
	}
}

// A checkpoint may take the mark of a queue whose record is only about to be written, and
// the catalogue be rewritten before it is: nobody will write the record again.
func TestRewriteWaitsForTheRecordOfAQueue(t *testing.T) {
	fsys := faultfs.New()
	b := mustOpen(t, fsys, nil)
	q, _ := b.ensureQueue(DefaultTenant, "q", DefaultOptions)
	q.mu.Lock() // as announceLocked has it, which is cut in two here
	b.changed.queue(q)
	w := newWitness(b)
	if err := w.checkpoint(); err != nil {
		t.Fatal(err)
	}
	rewritten := make(chan error)
	go func() { rewritten <- b.rewriteAlone() }()
	for range 1000 {
		runtime.Gosched() // so that it comes as far as it can
	}
	b.journal.Append(q.appendRecord(nil), false)
	q.announced.Store(true)
	q.mu.Unlock()
	if err := errors.Join(<-rewritten, w.push("p", "p0"), w.checkpoint()); err != nil {
		t.Fatal(err)
	}
	w.checkRecovery(t, "after the rewrite", fsys.CrashStrict())
}

// A catalogue that is rewritten has queues that hold nothing yet, with their groups.
func TestRewriteKeepsEmptyQueues(t *testing.T) {
	fsys := faultfs.New()
	b := mustOpen(t, fsys, nil)
	_, err := b.Configure(DefaultTenant, "q", func(o QueueOptions, _ bool) (QueueOptions, error) {
		o.LeaseTime = 77
		return o, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	popAll(t, b, PopRequest{Group: "g", Batch: 1})
	if _, err := b.checkpoint(); err != nil {
		t.Fatal(err)
	}
	if err := b.rewriteAlone(); err != nil {
		t.Fatal(err)
	}
	after := mustOpen(t, fsys.CrashStrict(), nil)
	q := after.queue(DefaultTenant, "q")
	if q == nil {
		t.Fatal("the queue is lost")
	}
	if q.options.Load().LeaseTime != 77 || q.group("g") == nil || !q.group("g").sub.Load().registered {
		t.Fatalf("options %+v, groups %v", *q.options.Load(), q.groups)
	}
}

// The journal may hold a queue and its deletion where the catalogue already has its
// successor, which keeps the name.
func TestReplayedQueueLeavesTheNameToItsSuccessor(t *testing.T) {
	fsys := faultfs.New()
	b := mustOpen(t, fsys, nil)
	if err := pushOne(b, "p", "old"); err != nil {
		t.Fatal(err)
	}
	b.checkpointMu.Lock() // deleting asks for a checkpoint
	if _, err := b.DeleteQueue(DefaultTenant, "q"); err != nil {
		t.Fatal(err)
	}
	if err := pushOne(b, "p", "new"); err != nil {
		t.Fatal(err)
	}
	if err := b.rewriteCatalog(); err != nil {
		t.Fatal(err)
	}
	crashed := fsys.CrashStrict()
	b.checkpointMu.Unlock()
	after := mustOpen(t, crashed, nil)
	if ids, _ := popAll(t, after, PopRequest{Group: "g", Batch: 10}); !slices.Equal(ids, []string{"new"}) {
		t.Fatalf("popped %v", ids)
	}
}
