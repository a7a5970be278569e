package broker

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/skepmq/skep/segment/vfs/faultfs"
)

// ledger drives transactions and remembers what it was answered. Transaction k takes
// message k of queue in, by completing it or as a dead letter, and pushes k to partition p
// of the queues x and y.
type ledger struct {
	b        *Broker
	answered int // transactions that have committed
	tried    int
	buried   []bool // by transaction

	filePop bool // a checkpoint comes between a pop and its transaction
}

func (l *ledger) push(queue, partition string, ids ...string) error {
	var items []PushItem
	for _, id := range ids {
		items = append(items, PushItem{
			Queue: []byte(queue), Partition: []byte(partition), TransactionID: []byte(id), Payload: []byte(`"` + id + `"`),
		})
	}
	return l.b.Push(DefaultTenant, items, nil, make([]PushResult, len(items)))
}

func (l *ledger) transact(status AckStatus) error {
	res, err := l.b.Pop(&PopRequest{Tenant: DefaultTenant, Queue: "in", Partition: "p", Pinned: true, Group: "g", Batch: 1})
	if err != nil {
		return err
	}
	if len(res.Parts) != 1 {
		return fmt.Errorf("transaction %d: nothing to take", l.tried)
	}
	if l.filePop {
		if _, err := l.b.checkpoint(); err != nil {
			return err
		}
	}
	x := Transaction{Groups: []string{"g"}, Leases: []string{res.LeaseID.String()}}
	for m := range res.Parts[0].Messages() {
		x.Acks = append(x.Acks, Ack{TransactionID: string(m.TransactionID), PartitionID: res.Parts[0].PartitionID.String(), Status: status})
	}
	id := x.Acks[0].TransactionID
	for _, q := range []string{"x", "y"} {
		x.Pushes = append(x.Pushes, PushItem{Queue: []byte(q), Partition: []byte("p"), TransactionID: []byte(id), Payload: []byte(`"` + id + `"`)})
	}
	l.tried++
	l.buried = append(l.buried, status == AckDeadLetter)
	r, err := l.b.Transact(DefaultTenant, &x)
	if err != nil {
		return err
	}
	if r.Rollback != nil {
		return errors.New(r.Rollback.Text)
	}
	l.answered++
	return nil
}

func (l *ledger) script() error {
	checkpoint := func() error { _, err := l.b.checkpoint(); return err }
	completed := func() error { return l.transact(AckCompleted) }
	buried := func() error { return l.transact(AckDeadLetter) }
	return runAll(
		func() error { return l.push("in", "p", "0", "1", "2", "3", "4", "5") },
		completed, buried, checkpoint, buried, completed,
		func() error { return l.push("x", "p", "other") },
		checkpoint, buried,
		func() error { l.filePop = true; return nil },
		completed, checkpoint,
	)
}

func runAll(steps ...func() error) error {
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// idsOf returns the transaction ids that partition p of a queue shows, in order.
func idsOf(t *testing.T, b *Broker, queue string) (ids []string) {
	t.Helper()
	q := b.queue(DefaultTenant, queue)
	if q == nil || q.partition("p") == nil {
		return nil
	}
	p := q.partition("p")
	p.mu.Lock()
	v := p.viewLocked()
	p.mu.Unlock()
	for o := v.start; o < v.hwm; o++ {
		m, ok, err := b.messageAt(v, o, v.hwm)
		if err != nil || !ok {
			t.Fatalf("offset %d of %s: %v, %v", o, queue, ok, err)
		}
		ids = append(ids, string(m.TransactionID))
	}
	return ids
}

// check asserts that b, recovered from l's disk, has every answered transaction and of
// each all or nothing.
func (l *ledger) check(t *testing.T, what string, b *Broker) {
	t.Helper()
	x := slices.DeleteFunc(idsOf(t, b, "x"), func(id string) bool { return id == "other" })
	y := idsOf(t, b, "y")
	committed := int64(-1)
	if q := b.queue(DefaultTenant, "in"); q != nil && q.partition("p") != nil {
		for c := q.partition("p").cursors; c != nil; c = c.next {
			committed = c.committed
		}
	}
	if !slices.Equal(x, y) || int64(len(x)) != committed+1 {
		t.Fatalf("%s: half a transaction: x has %v, y has %v, the cursor is at %d", what, x, y, committed)
	}
	if len(x) < l.answered || len(x) > l.tried {
		t.Fatalf("%s: %d transactions, %d were answered, %d tried", what, len(x), l.answered, l.tried)
	}
	want := 0
	for _, buried := range l.buried[:len(x)] {
		if buried {
			want++
		}
	}
	letters, err := b.DeadLetters(DefaultTenant, DeadLetterFilter{Limit: 100})
	if err != nil || len(letters) != want {
		t.Fatalf("%s: %d dead letters (%v), want %d", what, len(letters), err, want)
	}
	for _, d := range letters {
		if string(d.Payload) != `"`+d.TransactionID+`"` {
			t.Fatalf("%s: dead letter %s has %s", what, d.TransactionID, d.Payload)
		}
	}
}

// The n-th call of the disk fails, for every n until none does, and every transaction is
// whole or absent in what a power cut then leaves, torn writes included.
func TestTransactionsUnderFaults(t *testing.T) {
	t.Parallel()
	for n := 0; ; n++ {
		fsys := faultfs.New()
		b, err := openOn(fsys)
		if err != nil {
			t.Fatal(err)
		}
		l := &ledger{b: b}
		base := fsys.Calls()
		fsys.FailAt(base+n, faultfs.Fault{Err: faultfs.EIO, Sticky: true})
		scriptErr := l.script()
		met := fsys.Calls() > base+n
		disks := map[string]*faultfs.FS{"power cut": fsys.CrashStrict()}
		for seed := range uint64(4) {
			disks[fmt.Sprint("torn power cut ", seed)] = fsys.Crash(rand.New(rand.NewPCG(seed, uint64(n))))
		}
		closeBroker(t, b)
		for what, disk := range disks {
			what = fmt.Sprintf("call %d, %s", n, what)
			wantClean(t, what, disk)
			after, err := openOn(disk)
			if err != nil {
				t.Fatalf("%s: %v", what, err)
			}
			l.check(t, what, after)
			closeBroker(t, after)
		}
		if !met {
			if scriptErr != nil || l.answered != 6 {
				t.Fatalf("no fault and yet %d committed: %v", l.answered, scriptErr)
			}
			return
		}
	}
}

// A transaction whose entry cannot be written is answered so, and nobody sees any of it.
func TestFailedTransactionIsInvisible(t *testing.T) {
	fsys := faultfs.New()
	b := mustOpen(t, fsys, nil)
	l := &ledger{b: b}
	if err := errors.Join(l.push("in", "p", "0", "1"), l.push("x", "p", "other"), l.push("y", "p", "other")); err != nil {
		t.Fatal(err)
	}
	fsys.FailAt(fsys.Calls(), faultfs.Fault{Err: faultfs.EIO, Sticky: true})
	if err := l.transact(AckDeadLetter); !errors.Is(err, ErrStorageFailed) {
		t.Fatalf("got %v, want ErrStorageFailed", err)
	}
	for _, q := range []string{"x", "y"} {
		if ids := idsOf(t, b, q); !slices.Equal(ids, []string{"other"}) {
			t.Errorf("%s shows %v", q, ids)
		}
	}
	if letters, err := b.DeadLetters(DefaultTenant, DeadLetterFilter{Limit: 9}); err != nil || len(letters) > 0 {
		t.Errorf("dead letters %v, %v", letters, err)
	}
}

// That a message is stored already is the proof that an earlier attempt has committed. It
// is not given before that one is on disk, nor ever if it does not get there.
func TestRollbackRestsOnTheDisk(t *testing.T) {
	fsys := faultfs.New()
	b := mustOpen(t, fsys, nil)
	l := &ledger{b: b}
	if err := l.push("q", "p", "old"); err != nil {
		t.Fatal(err)
	}
	fsys.FailAt(fsys.Calls(), faultfs.Fault{Err: faultfs.EIO, Sticky: true})
	first := begun(t, b, pushing("q", "1"))
	r, err := b.Transact(DefaultTenant, &Transaction{Pushes: []PushItem{pushing("q", "1")}})
	if !errors.Is(err, ErrStorageFailed) {
		t.Errorf("the repeat: %+v, %v", r.Rollback, err)
	}
	if first.ticket.Wait() == nil {
		t.Error("the first one is on disk")
	}
}

// An ack that finds the cursor past its message is not answered before the one that has
// moved it there is on disk.
func TestRepeatedAckRestsOnTheDisk(t *testing.T) {
	fsys := faultfs.New()
	b := mustOpen(t, fsys, nil)
	l := &ledger{b: b}
	if err := l.push("q", "p", "0", "1"); err != nil {
		t.Fatal(err)
	}
	_, res := popAll(t, b, PopRequest{Partition: "p", Pinned: true, Batch: 1})
	x := &Transaction{Acks: []Ack{{TransactionID: "0", PartitionID: res.Parts[0].PartitionID.String()}}, Groups: []string{QueueMode}}
	fsys.FailAt(fsys.Calls(), faultfs.Fault{Err: faultfs.EIO, Sticky: true})
	first := newTransaction(b, DefaultTenant, &pushState{})
	first.prepareAcks(x, make([]AckResult, 1))
	first.mustCommit(t)
	if r, err := b.Transact(DefaultTenant, x); !errors.Is(err, ErrStorageFailed) {
		t.Errorf("the repeat: %+v, %v", r, err)
	}
}

// A full disk refuses what pushes, and carries out acks alone.
func TestTransactionOnAFullDisk(t *testing.T) {
	fsys := faultfs.New()
	b := mustOpen(t, fsys, func(o *Options) { o.DiskHighPercent = 85 })
	l := &ledger{b: b}
	if err := l.push("in", "p", "0", "1"); err != nil {
		t.Fatal(err)
	}
	fsys.SetFree(10<<20, 100<<20)
	b.checkSpace()
	if err := l.transact(AckCompleted); !errors.Is(err, ErrStorageFull) {
		t.Fatalf("got %v, want ErrStorageFull", err)
	}
	id := partitionID(b.directory, b.queue(DefaultTenant, "in").partition("p").number).String()
	r, err := b.Transact(DefaultTenant, &Transaction{Acks: []Ack{{TransactionID: "0", PartitionID: id}}, Groups: []string{"g"}})
	if err != nil || r.Rollback != nil {
		t.Fatalf("acks alone: %+v, %v", r.Rollback, err)
	}
}
