package broker

import (
	"bytes"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/skepmq/skep/segment/vfs/faultfs"
)

// pushing is a message for partition p of a queue.
func pushing(queue, id string) PushItem {
	return PushItem{Queue: []byte(queue), Partition: []byte("p"), TransactionID: []byte(id), Payload: []byte("1")}
}

func (tx *transaction) mustCommit(t *testing.T) *transaction {
	t.Helper()
	if rollback, err := tx.run(); rollback != nil || err != nil {
		t.Fatalf("%+v, %v", rollback, err)
	}
	return tx
}

// begun is a transaction that pushes, up to the append of its entry.
func begun(t *testing.T, b *Broker, items ...PushItem) *transaction {
	t.Helper()
	s := &pushState{byName: map[uint64]int32{}, leaders: map[uint64]int32{}, items: items, results: make([]PushResult, len(items))}
	tx := newTransaction(b, DefaultTenant, s)
	tx.preparePushes()
	return tx.mustCommit(t)
}

// A push that comes later and is done earlier shows all of the transactions below it, and
// of those that they stand on, or nothing.
func TestPublishHelpsTransactions(t *testing.T) {
	b := mustOpen(t, faultfs.New(), nil)
	l := &ledger{b: b}
	for _, q := range []string{"a", "b", "c", "d"} {
		if err := l.push(q, "p", "old"); err != nil {
			t.Fatal(err)
		}
	}
	one := begun(t, b, pushing("a", "1"), pushing("b", "1"))
	two := begun(t, b, pushing("c", "2"), pushing("b", "2"))
	three := begun(t, b, pushing("c", "3"), pushing("d", "3"))
	other := begun(t, b, pushing("e", "4"), pushing("a", "4"))
	if err := other.ticket.Wait(); err != nil {
		t.Fatal(err)
	}
	for _, q := range []string{"a", "b", "c", "d", "e"} {
		if ids := idsOf(t, b, q); len(ids) > 1 {
			t.Fatalf("%s shows %v before anything is published", q, ids)
		}
	}
	if err := l.push("d", "p", "new"); err != nil {
		t.Fatal(err)
	}
	want := map[string][]string{
		"a": {"old", "1"}, "b": {"old", "1", "2"}, "c": {"old", "2", "3"}, "d": {"old", "3", "new"}, "e": nil,
	}
	wantShown := func() {
		t.Helper()
		for q, ids := range want {
			if got := idsOf(t, b, q); !slices.Equal(got, ids) {
				t.Errorf("%s shows %v, want %v", q, got, ids)
			}
		}
	}
	wantShown()
	for _, tx := range []*transaction{three, one, two} {
		b.reveal(tx.bundle) // changes nothing any more
	}
	wantShown()
	b.reveal(other.bundle)
	want["a"], want["e"] = append(want["a"], "4"), []string{"4"}
	wantShown()
	for _, q := range []string{"a", "b", "c", "d", "e"} {
		if p := b.queue(DefaultTenant, q).partition("p"); p.unpublished != nil {
			t.Errorf("%s still has an unpublished bundle", q)
		}
	}
}

// A dead letter that is filed later shows the transaction that has filed one before.
func TestDeadLettersShowTransactions(t *testing.T) {
	b := mustOpen(t, faultfs.New(), nil)
	l := &ledger{b: b}
	for _, p := range []string{"p", "o"} {
		if err := l.push("in", p, p+"0", p+"1"); err != nil {
			t.Fatal(err)
		}
	}
	take := func(partition string) Ack {
		res, err := b.Pop(&PopRequest{Tenant: DefaultTenant, Queue: "in", Partition: partition, Pinned: true, Group: "g", Batch: 1})
		if err != nil || len(res.Parts) != 1 {
			t.Fatalf("%+v, %v", res, err)
		}
		return Ack{TransactionID: partition + "0", PartitionID: res.Parts[0].PartitionID.String(), Status: AckDeadLetter}
	}
	ofP, ofO := take("p"), take("o")
	s := &pushState{byName: map[uint64]int32{}, leaders: map[uint64]int32{}, items: []PushItem{pushing("out", "1")}, results: make([]PushResult, 1)}
	tx := newTransaction(b, DefaultTenant, s)
	tx.preparePushes()
	tx.prepareAcks(&Transaction{Acks: []Ack{ofP}, Groups: []string{"g"}}, make([]AckResult, 1))
	tx.mustCommit(t)
	letters := func() (ids []string) {
		found, err := b.DeadLetters(DefaultTenant, DeadLetterFilter{Limit: 9})
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range found {
			ids = append(ids, d.TransactionID)
		}
		slices.Sort(ids)
		return ids
	}
	if ids := letters(); len(ids) > 0 || idsOf(t, b, "out") != nil {
		t.Fatalf("dead letters %v, out %v", ids, idsOf(t, b, "out"))
	}
	results := make([]AckResult, 1)
	if err := b.Acknowledge(DefaultTenant, "g", []Ack{ofO}, results); err != nil || !results[0].DeadLetter {
		t.Fatalf("%+v, %v", results, err)
	}
	if ids := letters(); !slices.Equal(ids, []string{"o0", "p0"}) || !slices.Equal(idsOf(t, b, "out"), []string{"1"}) {
		t.Fatalf("dead letters %v, out %v", ids, idsOf(t, b, "out"))
	}
}

// While its transaction is not visible a cursor hands nothing out. The lease is over.
func TestCursorWaitsForItsTransaction(t *testing.T) {
	b := mustOpen(t, faultfs.New(), nil)
	l := &ledger{b: b}
	if err := l.push("in", "p", "0", "1"); err != nil {
		t.Fatal(err)
	}
	pop := func() *PopResult {
		res, err := b.Pop(&PopRequest{Tenant: DefaultTenant, Queue: "in", Partition: "p", Pinned: true, Batch: 1})
		if err != nil {
			t.Fatal(err)
		}
		return res
	}
	taken := pop()
	id := taken.Parts[0].PartitionID.String()
	tx := newTransaction(b, DefaultTenant, &pushState{})
	tx.prepareAcks(&Transaction{Acks: []Ack{{TransactionID: "0", PartitionID: id}}, Groups: []string{""}}, make([]AckResult, 1))
	tx.mustCommit(t)
	if err := tx.ticket.Wait(); err != nil {
		t.Fatal(err)
	}
	if res := pop(); len(res.Parts) > 0 {
		t.Fatal("handed out before the transaction is visible")
	}
	if keys := b.leases.Keys(taken.LeaseID, nil); len(keys) > 0 {
		t.Errorf("the lease still has %v", keys)
	}
	b.reveal(tx.bundle)
	if res := pop(); len(res.Parts) != 1 {
		t.Fatal("not handed out when the transaction is visible")
	}
}

// Dead letters count towards the size of a transaction: no request has sent their bytes.
func TestTransactionTooLarge(t *testing.T) {
	b := mustOpen(t, faultfs.New(), nil)
	x := Transaction{Pushes: []PushItem{pushing("out", "1")}}
	for i := range 3 {
		p := []byte(fmt.Sprint(i))
		item := PushItem{Queue: []byte("q"), Partition: p, TransactionID: p, Payload: bytes.Repeat(p, 1000)}
		if err := b.Push(DefaultTenant, []PushItem{item}, nil, make([]PushResult, 1)); err != nil {
			t.Fatal(err)
		}
		_, res := popAll(t, b, PopRequest{Partition: string(p), Pinned: true, Batch: 1})
		x.Acks = append(x.Acks, Ack{TransactionID: string(p), PartitionID: res.Parts[0].PartitionID.String(), LeaseID: res.LeaseID.String(), Status: AckDeadLetter})
		x.Groups = append(x.Groups, "")
	}
	for _, row := range []struct {
		limit int64
		text  string
	}{{2500, errTooLarge}, {5000, ""}} {
		s := &pushState{byName: map[uint64]int32{}, leaders: map[uint64]int32{}, items: x.Pushes, results: make([]PushResult, 1)}
		tx := newTransaction(b, DefaultTenant, s)
		tx.limit = row.limit
		tx.preparePushes()
		tx.prepareAcks(&x, make([]AckResult, len(x.Acks)))
		rollback, err := tx.run()
		if err != nil || (rollback == nil) != (row.text == "") || rollback != nil && *rollback != (Rollback{RollbackTooLarge, row.text}) {
			t.Errorf("limit %d: %+v, %v", row.limit, rollback, err)
		}
	}
}

// Transactions over the same partitions in every order, with pushes, acks, autoAck pops,
// checkpoints and a queue that is deleted again and again beside them: they end, and
// nobody sees half of one. Writers of each kind number their messages; whoever sees
// message n of a transaction in one queue has to find it in the other.
func TestTransactionsUnderLoad(t *testing.T) {
	const transactions, writers = 80, 4
	b := mustOpen(t, faultfs.New(), func(o *Options) { o.CheckpointBytes = 64 << 10 })
	l := &ledger{b: b}
	for _, q := range []string{"a", "b", "in"} {
		if err := l.push(q, "p", "first"); err != nil {
			t.Fatal(err)
		}
	}
	var (
		writing, beside sync.WaitGroup
		done            atomic.Bool
		committed       atomic.Int64
	)
	for w := range writers {
		writing.Go(func() {
			for n := range transactions {
				id := fmt.Sprintf("t%d.%d", w, n)
				items := []PushItem{pushing("a", id), pushing("b", id), pushing("gone", id)}
				if w%2 == 1 {
					slices.Reverse(items)
				}
				r, err := b.Transact(DefaultTenant, &Transaction{Pushes: items})
				if err != nil || r.Rollback != nil {
					t.Errorf("%s: %+v, %v", id, r.Rollback, err)
					return
				}
				committed.Add(1)
			}
		})
		beside.Go(func() {
			for n := 0; !done.Load(); n++ {
				q := []string{"a", "b", "in"}[(n+w)%3]
				if err := l.push(q, "p", fmt.Sprintf("p%d.%d", w, n)); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	beside.Go(func() {
		for !done.Load() {
			if _, err := b.DeleteQueue(DefaultTenant, "gone"); err != nil {
				t.Error(err)
				return
			}
		}
	})
	beside.Go(func() { workUnderLoad(t, b, &done) })
	for _, first := range []string{"a", "b"} {
		second := map[string]string{"a": "b", "b": "a"}[first]
		beside.Go(func() { watchBoth(t, &done, taking(t, b, first, "pops "+first), taking(t, b, second, "pops "+first)) })
		beside.Go(func() { watchBoth(t, &done, reading(t, b, first), reading(t, b, second)) })
	}
	writing.Wait()
	done.Store(true)
	beside.Wait()
	if committed.Load() != transactions*writers {
		t.Fatalf("%d committed", committed.Load())
	}
	count := func(queue string) (n int) {
		for _, id := range idsOf(t, b, queue) {
			if id[0] == 't' {
				n++
			}
		}
		return n
	}
	if count("a") != transactions*writers || count("b") != transactions*writers {
		t.Errorf("%d in a, %d in b", count("a"), count("b"))
	}
}

// workUnderLoad takes messages of queue in by transactions, every third as a dead letter.
func workUnderLoad(t *testing.T, b *Broker, done *atomic.Bool) {
	for n := 0; !done.Load(); n++ {
		res, err := b.Pop(&PopRequest{Tenant: DefaultTenant, Queue: "in", Batch: 3})
		if err != nil {
			t.Error(err)
			return
		}
		if len(res.Parts) == 0 {
			continue
		}
		x := Transaction{Pushes: []PushItem{pushing("b", fmt.Sprint("w", n)), pushing("a", fmt.Sprint("w", n))}, Leases: []string{res.LeaseID.String()}}
		for m := range res.Parts[0].Messages() {
			x.Acks = append(x.Acks, Ack{TransactionID: string(m.TransactionID), PartitionID: res.Parts[0].PartitionID.String()})
			x.Groups = append(x.Groups, "")
		}
		if n%3 == 0 {
			x.Acks[0].Status = AckDeadLetter
		}
		if r, err := b.Transact(DefaultTenant, &x); err != nil || r.Rollback != nil {
			t.Errorf("work %d: %+v, %v", n, r.Rollback, err)
			return
		}
	}
}

// taking takes what is new in a queue as a group, with autoAck.
func taking(t *testing.T, b *Broker, queue, group string) func() []string {
	return func() (ids []string) {
		for {
			res, err := b.Pop(&PopRequest{Tenant: DefaultTenant, Queue: queue, Group: group, Batch: 1000, AutoAck: true})
			if err != nil {
				t.Error(err)
			}
			if err != nil || len(res.Parts) == 0 {
				return ids
			}
			for m := range res.Parts[0].Messages() {
				ids = append(ids, string(m.TransactionID))
			}
		}
	}
}

// reading reads what is new in partition p of a queue, without the detour over a cursor.
func reading(t *testing.T, b *Broker, queue string) func() []string {
	p := b.queue(DefaultTenant, queue).partition("p")
	next := int64(0)
	return func() (ids []string) {
		p.mu.Lock()
		v := p.viewLocked()
		p.mu.Unlock()
		f := finder{b: b, v: v, limit: v.hwm}
		for ; next < v.hwm; next++ {
			m, ok, err := f.at(next)
			if err != nil || !ok {
				t.Errorf("offset %d of %s: %v, %v", next, queue, ok, err)
				return ids
			}
			ids = append(ids, string(m.TransactionID))
		}
		return ids
	}
}

// watchBoth looks into two queues in turn: what a transaction has put into the first must
// be found in the second by whoever looks afterwards.
func watchBoth(t *testing.T, done *atomic.Bool, first, second func() []string) {
	seen := map[string]bool{}
	for !done.Load() {
		found := first()
		for _, id := range second() {
			seen[id] = true
		}
		for _, id := range found {
			if id[0] == 't' && !seen[id] {
				t.Errorf("%s is in the first queue and not in the second", id)
				return
			}
		}
	}
}

// Nobody finds one queue of a transaction before the other is among the candidates of
// every group: partitions are offered under the locks.
func TestRevealOffersUnderTheLocks(t *testing.T) {
	b := mustOpen(t, faultfs.New(), nil)
	l := &ledger{b: b}
	if err := errors.Join(l.push("a", "p", "old"), l.push("q", "p", "old")); err != nil {
		t.Fatal(err)
	}
	popAll(t, b, PopRequest{Group: "g", Batch: 1})
	tx := begun(t, b, pushing("a", "1"), pushing("q", "1"))
	if err := tx.ticket.Wait(); err != nil {
		t.Fatal(err)
	}
	g, a := b.queue(DefaultTenant, "q").group("g"), b.queue(DefaultTenant, "a").partition("p")
	g.ready.mu.Lock() // so nothing can be offered
	revealed := make(chan struct{})
	go func() {
		defer close(revealed)
		b.reveal(tx.bundle)
	}()
	for held := 0; held < 1000; runtime.Gosched() {
		if !a.mu.TryLock() {
			held++
			continue
		}
		if a.hwm > 1 {
			t.Error("visible in one queue and not offered in the other")
			held = 1000
		}
		a.mu.Unlock()
	}
	g.ready.mu.Unlock()
	<-revealed
}

// A dead letter whose payload is gone rolls back, and the lease stays.
func TestTransactionPoisonIsGone(t *testing.T) {
	b := mustOpen(t, faultfs.New(), nil)
	l := &ledger{b: b}
	if err := l.push("q", "p", "0", "1"); err != nil {
		t.Fatal(err)
	}
	_, res := popAll(t, b, PopRequest{Partition: "p", Pinned: true, Batch: 2})
	p := b.queue(DefaultTenant, "q").partition("p")
	p.mu.Lock()
	p.start = 1 // as retention leaves it
	p.mu.Unlock()
	ack := Ack{TransactionID: "0", PartitionID: res.Parts[0].PartitionID.String(), LeaseID: res.LeaseID.String(), Status: AckDeadLetter}
	x := Transaction{Acks: []Ack{ack}, Groups: []string{""}, Pushes: []PushItem{pushing("out", "1")}}
	r, err := b.Transact(DefaultTenant, &x)
	if want := (Rollback{RollbackAck, "QTXN ack refused: dlq rejected; transaction rolled back"}); err != nil || r.Rollback == nil || *r.Rollback != want {
		t.Fatalf("%+v, %v", r.Rollback, err)
	}
	x.Acks[0].TransactionID, x.Acks[0].Status = "1", AckCompleted
	if r, err := b.Transact(DefaultTenant, &x); err != nil || r.Rollback != nil {
		t.Fatalf("%+v, %v", r.Rollback, err)
	}
}

// Messages of a transaction keep who has sent them, and what they were traced by.
func TestTransactionKeepsProducer(t *testing.T) {
	b := mustOpen(t, faultfs.New(), nil)
	item := pushing("q", "1")
	item.TraceID = b.newID(1)
	if r, err := b.Transact(DefaultTenant, &Transaction{Pushes: []PushItem{item}, Sub: []byte("someone")}); err != nil || r.Rollback != nil {
		t.Fatalf("%+v, %v", r.Rollback, err)
	}
	_, res := popAll(t, b, PopRequest{Batch: 1})
	for m := range res.Parts[0].Messages() {
		if string(m.ProducerSub) != "someone" || m.TraceID != item.TraceID {
			t.Errorf("producer %q, trace %s", m.ProducerSub, m.TraceID)
		}
	}
}

// A group that wants new messages only gets those of a transaction of the same
// millisecond, and not those before.
func TestTransactionBehindANewGroup(t *testing.T) {
	now := time.Now()
	b := mustOpen(t, faultfs.New(), func(o *Options) { o.Now = func() time.Time { return now } })
	l := &ledger{b: b}
	if err := l.push("q", "p", "old"); err != nil {
		t.Fatal(err)
	}
	pop := PopRequest{Group: "g", Batch: 9, SubscriptionMode: "new"}
	if ids, _ := popAll(t, b, pop); ids != nil {
		t.Fatalf("got %v", ids)
	}
	if r, err := b.Transact(DefaultTenant, &Transaction{Pushes: []PushItem{pushing("q", "new")}}); err != nil || r.Rollback != nil {
		t.Fatalf("%+v, %v", r.Rollback, err)
	}
	if ids, _ := popAll(t, b, pop); !slices.Equal(ids, []string{"new"}) {
		t.Errorf("got %v", ids)
	}
}

// A seek or a deletion of the group may come between a transaction's look for the group
// and its locks. The acks are then for the group that has come in its place, if there is
// one.
func TestTransactionMeetsAReplacedGroup(t *testing.T) {
	for name, row := range map[string]struct {
		replace func(b *Broker) error
		refusal string
	}{
		"seek": {func(b *Broker) error {
			_, err := b.Seek(DefaultTenant, "g", "q", SeekTarget{TimestampMs: 1})
			return err
		}, ""},
		"deletion": {func(b *Broker) error {
			_, err := b.DeleteGroup(DefaultTenant, "g", "q", false)
			return err
		}, errConsumerNotFound},
	} {
		b := mustOpen(t, faultfs.New(), nil)
		l := &ledger{b: b}
		if err := l.push("q", "p", "0", "1", "2"); err != nil {
			t.Fatal(err)
		}
		_, res := popAll(t, b, PopRequest{Group: "g", Batch: 3})
		tx := newTransaction(b, DefaultTenant, &pushState{})
		ack := Ack{TransactionID: "1", PartitionID: res.Parts[0].PartitionID.String()}
		tx.prepareAcks(&Transaction{Acks: []Ack{ack}, Groups: []string{"g"}}, make([]AckResult, 1))
		if err := row.replace(b); err != nil {
			t.Fatal(err)
		}
		rollback, err := tx.run()
		if want := refused(row.refusal).rollback; err != nil || (rollback == nil) != (row.refusal == "") || rollback != nil && *rollback != *want {
			t.Errorf("%s: %+v, %v", name, rollback, err)
		}
		if row.refusal != "" {
			continue
		}
		q := b.queue(DefaultTenant, "q")
		p := q.partition("p")
		p.mu.Lock()
		if c := p.cursorLocked(q.group("g")); c == nil || c.committed != 1 {
			t.Errorf("%s: the cursor is %+v", name, c)
		}
		p.mu.Unlock()
	}
}

// Without a window an id is as good as new, within a millisecond too.
func TestTransactionWithoutAWindow(t *testing.T) {
	now := time.Now()
	b := mustOpen(t, faultfs.New(), func(o *Options) { o.Now = func() time.Time { return now } })
	_, err := b.Configure(DefaultTenant, "q", func(o QueueOptions, _ bool) (QueueOptions, error) {
		o.DedupWindowSeconds = 0
		return o, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if r, err := b.Transact(DefaultTenant, &Transaction{Pushes: []PushItem{pushing("q", "1")}}); err != nil || r.Rollback != nil {
			t.Fatalf("%+v, %v", r.Rollback, err)
		}
	}
}
