package broker

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/skepmq/skep/index/dedup"
	partlog "github.com/skepmq/skep/log/partition"
	"github.com/skepmq/skep/log/wal"
	"github.com/skepmq/skep/segment/vfs"
	"github.com/skepmq/skep/segment/vfs/faultfs"
)

// openOn opens a broker whose checkpoints run only when a test says so.
func openOn(fsys vfs.FS) (*Broker, error) {
	return Open(Options{
		FS: fsys, Dir: "data", Logger: zerolog.Nop(),
		CheckpointBytes: 1 << 40, CheckpointEvery: 24 * time.Hour, DiskHighPercent: 100,
	})
}

// witness drives a broker and remembers what it was answered.
type witness struct {
	b       *Broker
	stored  map[string]PushResult // by transaction id, answered queued
	sent    map[string]bool
	acked   map[string]int64 // by partition: highest acknowledged offset
	tried   map[string]int64 // by partition: highest offset an ack was sent for
	letters int              // dead letters answered
	triedDL int
}

func newWitness(b *Broker) *witness {
	return &witness{b: b, stored: map[string]PushResult{}, sent: map[string]bool{}, acked: map[string]int64{}, tried: map[string]int64{}}
}

func (w *witness) push(partition string, ids ...string) error {
	var items []PushItem
	for _, id := range ids {
		w.sent[id] = true
		items = append(items, PushItem{
			Queue: []byte("q"), Partition: []byte(partition), TransactionID: []byte(id),
			Payload: []byte(`"` + partition + "/" + id + `"`),
		})
	}
	results := make([]PushResult, len(items))
	if err := w.b.Push(DefaultTenant, items, nil, results); err != nil {
		return err
	}
	for i, r := range results {
		if r.Status == Queued {
			w.stored[ids[i]] = r
		}
	}
	return nil
}

func (w *witness) checkpoint() error {
	_, err := w.b.checkpoint()
	return err
}

// consume leases n messages of a partition and acknowledges all with one status.
func (w *witness) consume(partition string, n int, status AckStatus) error {
	res, err := w.b.Pop(&PopRequest{Tenant: DefaultTenant, Queue: "q", Partition: partition, Pinned: true, Group: "g", Batch: n})
	if err != nil || len(res.Parts) == 0 {
		return err
	}
	var acks []Ack
	last := int64(-1)
	for m := range res.Parts[0].Messages() {
		acks = append(acks, Ack{
			TransactionID: string(m.TransactionID), PartitionID: res.Parts[0].PartitionID.String(),
			LeaseID: res.LeaseID.String(), Status: status, Error: "by test",
		})
		last = int64(m.ID[15])
		if status != AckCompleted {
			break
		}
	}
	w.tried[partition] = max(w.tried[partition], last+1)
	if status == AckDeadLetter {
		w.triedDL++
	}
	results := make([]AckResult, len(acks))
	if err := w.b.Acknowledge(DefaultTenant, "g", acks, results); err != nil {
		return err
	}
	for _, r := range results {
		if !r.Success {
			return fmt.Errorf("ack refused: %s", r.Error)
		}
	}
	w.acked[partition] = max(w.acked[partition], last+1)
	if status == AckDeadLetter {
		w.letters++
	}
	return nil
}

// script is a life with everything in it that is written to disk.
func script(w *witness) error {
	steps := []func() error{
		func() error { return w.push("a", "a0", "a1", "a2") },
		func() error { return w.push("b", "b0") },
		func() error { return w.consume("a", 1, AckCompleted) },
		w.checkpoint,
		func() error { return w.push("a", "a3", "a0") },
		func() error { return w.consume("a", 2, AckCompleted) },
		func() error { return w.push("b", "b1", "b2") },
		func() error { return w.consume("b", 1, AckDeadLetter) },
		w.checkpoint,
		func() error { return w.consume("b", 1, AckDeadLetter) },
		func() error { _, err := w.b.Configure(DefaultTenant, "q", keepOptions); return err },
		func() error { return w.push("c", "c0") },
		w.b.rewriteCatalog,
		w.b.rewriteOffsets,
		w.checkpoint,
		func() error { return w.push("a", "a4") },
	}
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

func keepOptions(o QueueOptions, _ bool) (QueueOptions, error) { return o, nil }

// check asserts that b, recovered from w's disk, has what was answered and nothing else.
func (w *witness) check(t *testing.T, what string, b *Broker) string {
	t.Helper()
	var state strings.Builder
	found := map[string]bool{}
	q := b.queue(DefaultTenant, "q")
	if q == nil {
		if len(w.stored) > 0 {
			t.Fatalf("%s: the queue is gone", what)
		}
		return "no queue"
	}
	for _, p := range q.snapshot() {
		p.mu.Lock()
		v := p.viewLocked()
		p.mu.Unlock()
		for o := v.start; o < v.hwm; o++ {
			m, ok, err := b.messageAt(v, o, v.hwm)
			if err != nil || !ok {
				t.Fatalf("%s: partition %s offset %d of %d: found %v, %v", what, p.name, o, v.hwm, ok, err)
			}
			id := string(m.TransactionID)
			if !w.sent[id] || found[id] || string(m.Payload) != `"`+p.name+"/"+id+`"` {
				t.Fatalf("%s: phantom, duplicate or changed message %s %s", what, id, m.Payload)
			}
			found[id] = true
			fmt.Fprintf(&state, "%s/%d=%s ", p.name, o, id)
			if r, ok := w.stored[id]; ok && r.MessageID != m.ID {
				t.Fatalf("%s: message %s has another id than was answered", what, id)
			}
		}
		committed := int64(0)
		p.mu.Lock()
		for c := p.cursors; c != nil; c = c.next {
			committed = c.committed + 1
			fmt.Fprintf(&state, "%s:%s@%d ", p.name, c.group.name, c.committed)
		}
		p.mu.Unlock()
		if committed < w.acked[p.name] || committed > w.tried[p.name] {
			t.Fatalf("%s: cursor of %s at %d; acknowledged up to %d, tried up to %d", what, p.name, committed, w.acked[p.name], w.tried[p.name])
		}
	}
	for id := range w.stored {
		if !found[id] {
			t.Fatalf("%s: %s was answered queued and is lost", what, id)
		}
	}
	letters, err := b.DeadLetters(DefaultTenant, DeadLetterFilter{Limit: 100})
	if err != nil || len(letters) < w.letters || len(letters) > w.triedDL {
		t.Fatalf("%s: %d dead letters (%v); answered %d, tried %d", what, len(letters), err, w.letters, w.triedDL)
	}
	for _, l := range letters {
		if len(l.Payload) == 0 {
			t.Fatalf("%s: dead letter %s lost its payload", what, l.TransactionID)
		}
		fmt.Fprintf(&state, "dead:%s ", l.TransactionID)
	}
	return state.String()
}

// checkRecovery recovers twice, each time from a crash, and uses the broker in between.
func (w *witness) checkRecovery(t *testing.T, what string, crashed *faultfs.FS) {
	t.Helper()
	wantClean(t, what, crashed)
	b, err := openOn(crashed)
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	first := w.check(t, what, b)
	again := crashed.CrashStrict()
	closeBroker(t, b)
	b2, err := openOn(again)
	if err != nil {
		t.Fatalf("%s: second recovery: %v", what, err)
	}
	defer closeBroker(t, b2)
	if second := w.check(t, what+", second recovery", b2); second != first {
		t.Fatalf("%s: the first recovery found\n%s\nand the second\n%s", what, first, second)
	}
	// What was stored is still known by its id; and the broker goes on.
	after := newWitness(b2)
	for id, r := range w.stored {
		results := make([]PushResult, 1)
		items := []PushItem{{Queue: []byte("q"), Partition: []byte(id[:1]), TransactionID: []byte(id), Payload: []byte("1")}}
		if err := b2.Push(DefaultTenant, items, nil, results); err != nil {
			t.Fatalf("%s: push after recovery: %v", what, err)
		}
		if results[0].Status != Duplicate || results[0].MessageID != r.MessageID {
			t.Fatalf("%s: %s pushed again is %+v, was stored as %s", what, id, results[0], r.MessageID)
		}
	}
	if err := after.push("a", "new"); err != nil || len(after.stored) != 1 {
		t.Fatalf("%s: the recovered broker takes no push: %v", what, err)
	}
}

func closeBroker(t *testing.T, b *Broker) {
	t.Helper()
	err := b.Close()
	failed := b.journal.Err() != nil || errors.Is(err, partlog.ErrClosed) || errors.Is(err, wal.ErrFailed) || errors.Is(err, dedup.ErrFailed)
	if err != nil && !failed {
		t.Errorf("close: %v", err)
	}
}

// The n-th call of the disk fails, for every n until none does. Whatever was answered
// before survives, in every way that a power cut may leave the disk.
func TestFaultAtEveryCall(t *testing.T) {
	t.Parallel()
	for _, fault := range []struct {
		name  string
		fault faultfs.Fault
	}{
		{"once", faultfs.Fault{Err: faultfs.EIO}},
		{"from then on", faultfs.Fault{Err: faultfs.EIO, Sticky: true}},
		{"short write, disk full", faultfs.Fault{Err: faultfs.ENOSPC, Short: true, Sticky: true}},
	} {
		t.Run(fault.name, func(t *testing.T) {
			t.Parallel()
			for n := 0; ; n++ {
				fsys := faultfs.New()
				b, err := openOn(fsys)
				if err != nil {
					t.Fatal(err)
				}
				w := newWitness(b)
				base := fsys.Calls()
				fsys.FailAt(base+n, fault.fault)
				err = script(w)
				met := fsys.Calls() > base+n
				fsys.FailAt(-1, faultfs.Fault{})
				what := fmt.Sprintf("call %d", n)
				strict := fsys.CrashStrict()
				torn := fsys.Crash(rand.New(rand.NewPCG(7, uint64(n))))
				closeBroker(t, b)
				w.checkRecovery(t, what+", power cut", strict)
				w.checkRecovery(t, what+", torn power cut", torn)
				if !met {
					if err != nil {
						t.Fatalf("no fault and yet: %v", err)
					}
					return
				}
			}
		})
	}
}

// The power is cut at every call.
func TestPowerCutAtEveryCall(t *testing.T) {
	t.Parallel()
	for n := 0; ; n++ {
		fsys := faultfs.New()
		b, err := openOn(fsys)
		if err != nil {
			t.Fatal(err)
		}
		w := newWitness(b)
		base := fsys.Calls()
		// Nothing reaches the disk from the n-th call on: what the witness was told
		// before is what it may insist on.
		fsys.FailAt(base+n, faultfs.Fault{Err: faultfs.EIO, Sticky: true})
		scriptErr := script(w)
		met := fsys.Calls() > base+n
		for seed := range uint64(4) {
			w.checkRecovery(t, fmt.Sprintf("call %d seed %d", n, seed), fsys.Crash(rand.New(rand.NewPCG(seed, uint64(n)))))
		}
		closeBroker(t, b)
		if !met {
			if scriptErr != nil {
				t.Fatal(scriptErr)
			}
			return
		}
	}
}

// A directory that was being made when the power was cut is one that can be opened.
func TestPowerCutInTheFirstOpen(t *testing.T) {
	t.Parallel()
	for n := 0; ; n++ {
		fsys := faultfs.New()
		fsys.FailAt(n, faultfs.Fault{Err: faultfs.EIO, Sticky: true})
		b, err := openOn(fsys)
		for seed := range uint64(4) {
			newWitness(nil).checkRecovery(t, fmt.Sprintf("call %d seed %d", n, seed), fsys.Crash(rand.New(rand.NewPCG(seed, uint64(n)))))
		}
		newWitness(nil).checkRecovery(t, fmt.Sprintf("call %d", n), fsys.CrashStrict())
		if err == nil {
			closeBroker(t, b)
			return
		}
	}
}

// The first failed write is final: the caller is told, and so is whoever watches.
func TestFailStop(t *testing.T) {
	fsys := faultfs.New()
	b, err := openOn(fsys)
	if err != nil {
		t.Fatal(err)
	}
	defer closeBroker(t, b)
	w := newWitness(b)
	if err := w.push("a", "a0"); err != nil {
		t.Fatal(err)
	}
	fsys.FailAt(fsys.Calls(), faultfs.Fault{Err: faultfs.EIO})
	if err := w.push("a", "a1"); !errors.Is(err, ErrStorageFailed) {
		t.Fatalf("got %v, want ErrStorageFailed", err)
	}
	<-b.Failed()
	if err := b.Ready(); !errors.Is(err, ErrStorageFailed) {
		t.Fatalf("ready says %v", err)
	}
	if err := w.push("a", "a2"); !errors.Is(err, ErrStorageFailed) {
		t.Fatalf("after the failure: %v", err)
	}
	if _, err := b.Pop(&PopRequest{Tenant: DefaultTenant, Queue: "q", Batch: 1}); !errors.Is(err, ErrStorageFailed) {
		t.Fatalf("pop after the failure: %v", err)
	}
}

// Above the high-water mark pushes are refused and everything else goes on; below it
// they are taken again, without a restart.
func TestStorageFull(t *testing.T) {
	fsys := faultfs.New()
	b, err := openOn(fsys)
	if err != nil {
		t.Fatal(err)
	}
	defer closeBroker(t, b)
	b.o.DiskHighPercent = 85
	w := newWitness(b)
	if err := w.push("a", "a0", "a1"); err != nil {
		t.Fatal(err)
	}
	fsys.SetFree(14<<20, 100<<20)
	b.checkSpace()
	if err := w.push("a", "a2"); !errors.Is(err, ErrStorageFull) {
		t.Fatalf("at 86 %%: %v, want ErrStorageFull", err)
	}
	if err := w.consume("a", 1, AckCompleted); err != nil || w.acked["a"] != 1 {
		t.Fatalf("pop and ack on a full disk: %v", err)
	}
	fsys.SetFree(15<<20, 100<<20)
	b.checkSpace()
	if err := w.push("a", "a2"); !errors.Is(err, ErrStorageFull) {
		t.Fatalf("at 85 %%: %v, want ErrStorageFull until one percent below", err)
	}
	if n := b.Stats().Traffic[StorageErrors]; n != 2 {
		t.Errorf("%d refusals counted, want 2", n)
	}
	fsys.SetFree(17<<20, 100<<20)
	b.checkSpace()
	if err := w.push("a", "a2"); err != nil {
		t.Fatalf("at 83 %%: %v", err)
	}
	fsys.SetFree(enoughFree, 100*enoughFree)
	b.checkSpace()
	if err := w.push("a", "a3"); err != nil {
		t.Fatalf("with 8 GiB free: %v", err)
	}
}

// What is left of the disk must do for filing what the journal holds, and for the
// reserve: a push is refused before that is touched, whenever the disk was last looked at.
func TestStorageTight(t *testing.T) {
	fsys := faultfs.New()
	b, err := openOn(fsys)
	if err != nil {
		t.Fatal(err)
	}
	defer closeBroker(t, b)
	const total = 64 << 20
	payload := make([]byte, 1<<20) // must not compress
	for i := range payload {
		payload[i] = byte(rand.Uint32())
	}
	push := func() error {
		items := []PushItem{{Queue: []byte("q"), Partition: []byte("p"), Payload: payload}}
		return b.Push(DefaultTenant, items, nil, make([]PushResult, 1))
	}
	fsys.SetFree(20<<20, total)
	b.checkSpace()
	taken := 0
	for ; push() == nil; taken++ {
		if taken > 20 {
			t.Fatal("pushes are taken beyond what fits")
		}
		fsys.SetFree(20<<20-b.journal.Appended(), total) // each takes its bytes
	}
	// 20 MiB less a reserve of 8: each push needs its bytes twice.
	if taken < 5 || taken > 7 {
		t.Fatalf("%d MiB were taken of 12 that are free for twice as many", taken)
	}
	if _, err := b.checkpoint(); err != nil {
		t.Fatal(err)
	}
	fsys.SetFree(40<<20, total)
	b.checkSpace()
	if err := push(); err != nil {
		t.Fatalf("after room was made: %v", err)
	}
}
