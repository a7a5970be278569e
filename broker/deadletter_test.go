package broker

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/uuid"

	"github.com/skepmq/skep/log/record"
	"github.com/skepmq/skep/segment/vfs/faultfs"
)

// bury files n dead letters of a queue in memory, without payloads, each a millisecond
// after the one before.
func bury(q *queue, n int, at func(i int) (partition uint64, transactionID string)) (ids []uuid.UUID) {
	for i := range n {
		partition, id := at(i)
		d := &record.DeadLetter{
			ID: uuid.Must(uuid.NewV7()), Queue: q.number, Partition: partition, GroupName: fmt.Sprint("g", i%3),
			CreatedMs: int64(i), FailedMs: int64(i), TransactionID: id, MessageID: uuid.Must(uuid.NewV7()), Offset: int64(i),
		}
		q.dead.add(d, true)
		ids = append(ids, d.ID)
	}
	return ids
}

// The merged list is in the order that sorting all would give, whatever was removed from
// it, and each filter leaves out what it should.
func TestMergeDeadLetters(t *testing.T) {
	b := mustOpen(t, faultfs.New(), nil)
	rng := rand.New(rand.NewPCG(1, 2))
	var queues []*queue
	var all []*deadLetter
	for i, n := range []int{9000, 0, 1, 3000, 200} {
		q, _ := b.ensureQueue(DefaultTenant, fmt.Sprint("q", i), DefaultOptions)
		p := b.ensurePartition(q, []byte("p"))
		ids := bury(q, n, func(i int) (uint64, string) { return p.number + uint64(i%2), fmt.Sprint(i) })
		for _, id := range ids {
			if l := q.dead.byID[id]; rng.IntN(3) == 0 {
				q.dead.remove(id)
			} else {
				all = append(all, l)
			}
		}
		queues = append(queues, q)
	}
	slices.SortStableFunc(all, func(x, y *deadLetter) int {
		return cmp.Or(cmp.Compare(y.FailedMs, x.FailedMs), cmp.Compare(x.Queue, y.Queue))
	})
	for name, row := range map[string]struct {
		match     letterMatch
		partition string
		wanted    func(*deadLetter) bool
	}{
		"all":       {wanted: func(*deadLetter) bool { return true }},
		"group":     {match: letterMatch{group: "g1"}, wanted: func(l *deadLetter) bool { return l.GroupName == "g1" }},
		"times":     {match: letterMatch{fromMs: 100, toMs: 2500}, wanted: func(l *deadLetter) bool { return l.FailedMs >= 100 && l.FailedMs <= 2500 }},
		"partition": {partition: "p", wanted: func(l *deadLetter) bool { return l.FailedMs%2 == 0 }},
	} {
		var got []*deadLetter
		merge := mergeDeadLetters(queues, row.partition, row.match)
		for _, l := merge.next(); l != nil; _, l = merge.next() {
			got = append(got, l)
		}
		want := slices.DeleteFunc(slices.Clone(all), func(l *deadLetter) bool { return !row.wanted(l) })
		if !slices.Equal(got, want) || len(want) == 0 {
			t.Errorf("%s: %d dead letters, want %d in their order", name, len(got), len(want))
		}
	}
}

// A walk goes on over what was there, while the list it began with is replaced.
func TestLetterWalkOverCompaction(t *testing.T) {
	b := mustOpen(t, faultfs.New(), nil)
	q, _ := b.ensureQueue(DefaultTenant, "q", DefaultOptions)
	ids := bury(q, 1000, func(i int) (uint64, string) { return 7, fmt.Sprint(i) })
	walk := newLetterWalk(q, letterMatch{})
	if first := walk.take(1); first[0].ID != ids[999] {
		t.Fatalf("first %v", first[0].ID)
	}
	for _, id := range ids[10:] {
		q.dead.remove(id)
	}
	bury(q, 5, func(i int) (uint64, string) { return 7, "later" })
	rest := walk.take(1000)
	if len(rest) != 10 || rest[0].ID != ids[9] || rest[9].ID != ids[0] {
		t.Errorf("%d left", len(rest))
	}
}

// Each address finds its own, newest first, in whatever order others go.
func TestAddressedDeadLetters(t *testing.T) {
	for seed := range uint64(20) {
		var q queue
		ids := bury(&q, 60, func(i int) (uint64, string) { return uint64(i % 2), fmt.Sprint(i % 3) })
		rng := rand.New(rand.NewPCG(seed, 0))
		for _, i := range rng.Perm(len(ids)) {
			for partition := range uint64(2) {
				for id := range 3 {
					var want []uuid.UUID
					for n, at := range slices.Backward(ids) {
						if uint64(n%2) == partition && n%3 == id && q.dead.byID[at] != nil {
							want = append(want, at)
						}
					}
					var got []uuid.UUID
					for _, l := range q.dead.addressed(partition, fmt.Sprint(id)) {
						got = append(got, l.ID)
					}
					if !slices.Equal(got, want) {
						t.Fatalf("%d/%d: got %d, want %d", partition, id, len(got), len(want))
					}
				}
			}
			q.dead.remove(ids[i])
		}
		if len(q.dead.at) > 0 || q.dead.count() > 0 || q.dead.of(0) {
			t.Fatalf("%d addresses, %d dead letters are left of none", len(q.dead.at), q.dead.count())
		}
	}
}

// A purge of more than one step removes all of them but one that is being replayed.
func TestPurgeInSteps(t *testing.T) {
	fsys := faultfs.New()
	b := mustOpen(t, fsys, nil)
	w := newWitness(b)
	if err := errors.Join(w.push("p", "a"), w.consume("p", 1, AckDeadLetter)); err != nil {
		t.Fatal(err)
	}
	q := b.queue(DefaultTenant, "q")
	ids := bury(q, 2*purgeStep+10, func(i int) (uint64, string) { return 1, fmt.Sprint(i) })
	q.dead.reserve(ids[77])
	n, err := b.PurgeDeadLetters(DefaultTenant, "q", "")
	if err != nil || n != len(ids) || q.dead.count() != 1 {
		t.Fatalf("%d removed, %d left, %v", n, q.dead.count(), err)
	}
	after := mustOpen(t, fsys.CrashStrict(), nil)
	if left := after.queue(DefaultTenant, "q").dead.count(); left != 0 {
		t.Errorf("%d dead letters after a power cut", left)
	}
}

// The trace of a message goes with it: into the dead letter, and back.
func TestDeadLetterKeepsTrace(t *testing.T) {
	fsys := faultfs.New()
	b := mustOpen(t, fsys, nil)
	w := newWitness(b)
	trace := uuid.MustParse("0198f2c1-9a7b-7d20-8e31-4c5d6e7f8a90")
	items := []PushItem{{Queue: []byte("q"), Partition: []byte("p"), TransactionID: []byte("a"), Payload: []byte("1"), TraceID: trace}}
	if err := errors.Join(b.Push(DefaultTenant, items, []byte("me"), make([]PushResult, 1)), w.consume("p", 1, AckDeadLetter)); err != nil {
		t.Fatal(err)
	}
	b = mustOpen(t, fsys.CrashStrict(), nil)
	letters, err := b.DeadLetters(DefaultTenant, DeadLetterFilter{Limit: 1})
	if err != nil || letters[0].TraceID != trace {
		t.Fatalf("dead letters %+v, %v", letters, err)
	}
	r, err := b.ReplayDeadLetter(DefaultTenant, letters[0].ID, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	d, err := b.Message(DefaultTenant, letters[0].PartitionID, r.TransactionID)
	if err != nil || d.TraceID != trace || string(d.ProducerSub) != "me" || string(d.Payload) != "1" {
		t.Errorf("replayed as %+v, %v", d.Message, err)
	}
}

// However the power is cut, a message that was dead-lettered is in one place: among the
// dead letters, or in the queue that it was moved to.
func TestReplayIsOneStep(t *testing.T) {
	t.Parallel()
	for n := 0; ; n++ {
		fsys := faultfs.New()
		b, err := openOn(fsys)
		if err != nil {
			t.Fatal(err)
		}
		w := newWitness(b)
		if err := errors.Join(w.push("a", "a0"), w.consume("a", 1, AckDeadLetter)); err != nil {
			t.Fatal(err)
		}
		letters, err := b.DeadLetters(DefaultTenant, DeadLetterFilter{Limit: 1})
		if err != nil || len(letters) != 1 {
			t.Fatal(letters, err)
		}
		base := fsys.Calls()
		fsys.FailAt(base+n, faultfs.Fault{Err: faultfs.EIO, Sticky: true})
		target := "other"
		_, moveErr := b.ReplayDeadLetter(DefaultTenant, letters[0].ID, &target, nil)
		err = errors.Join(moveErr, w.checkpoint(), b.rewriteAlone())
		met := fsys.Calls() > base+n
		for seed := range uint64(4) {
			checkMoved(t, fmt.Sprintf("call %d seed %d", n, seed), fsys.Crash(rand.New(rand.NewPCG(seed, uint64(n)))), moveErr == nil)
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

// checkMoved looks twice, with a checkpoint in between.
func checkMoved(t *testing.T, what string, crashed *faultfs.FS, answered bool) {
	t.Helper()
	for range 2 {
		b, err := openOn(crashed)
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		letters, err := b.DeadLetters(DefaultTenant, DeadLetterFilter{Limit: 9})
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		page, err := b.Messages(DefaultTenant, MessageFilter{Queue: "other", Limit: 9})
		if err != nil || len(letters)+len(page.Messages) != 1 || answered && len(letters) > 0 {
			t.Fatalf("%s: %d dead letters and %d messages, answered %t, %v", what, len(letters), len(page.Messages), answered, err)
		}
		if _, err := b.checkpoint(); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		crashed = crashed.CrashStrict()
		closeBroker(t, b)
	}
}

// A full disk refuses a replay, which would grow it, and no removal.
func TestReplayOnFullDisk(t *testing.T) {
	fsys := faultfs.New()
	b := mustOpen(t, fsys, func(o *Options) { o.DiskHighPercent = 85 })
	w := newWitness(b)
	if err := errors.Join(w.push("p", "a"), w.consume("p", 1, AckDeadLetter)); err != nil {
		t.Fatal(err)
	}
	letters, err := b.DeadLetters(DefaultTenant, DeadLetterFilter{Limit: 1})
	if err != nil {
		t.Fatal(err)
	}
	fsys.SetFree(14<<20, 100<<20)
	b.checkSpace()
	if _, err := b.ReplayDeadLetter(DefaultTenant, letters[0].ID, nil, nil); !errors.Is(err, ErrStorageFull) {
		t.Errorf("replay: %v", err)
	}
	if n, err := b.DeleteDeadLetter(DefaultTenant, letters[0].PartitionID, "a"); n != 1 || err != nil {
		t.Errorf("delete: %d, %v", n, err)
	}
}

// A queue may be deleted while the first dead letter of it is filed. Whoever has filed it
// still finds where its payload is.
func TestDeadLetterOfAQueueBeingDeleted(t *testing.T) {
	b := mustOpen(t, faultfs.New(), nil)
	w := newWitness(b)
	if err := w.push("p", "0", "1"); err != nil {
		t.Fatal(err)
	}
	_, res := popAll(t, b, PopRequest{Partition: "p", Pinned: true, Group: "g", Batch: 2})
	ack := Ack{TransactionID: "0", PartitionID: res.Parts[0].PartitionID.String(), Status: AckDeadLetter}
	a := &acknowledge{b: b, acks: []Ack{ack}, results: make([]AckResult, 1), items: []int32{0}, goneAt: -1}
	a.p, a.g, _ = b.ackTarget(DefaultTenant, ack.PartitionID, "g")
	need, err := a.attempt()
	if need == nil || err != nil {
		t.Fatalf("the payload is not to be read: %v", err)
	}
	if err := need(); err != nil {
		t.Fatal(err)
	}
	a.p.mu.Lock()
	if ok, _, err := a.findLocked(); !ok || err != nil || a.decideLocked() != nil {
		t.Fatalf("not decided: %t, %v", ok, err)
	}
	b.deleteQueue(DefaultTenant, "q")
	a.applyLocked(&a.decision)
	a.p.mu.Unlock()
	if err := a.ticket.Wait(); err != nil || a.filed != 1 {
		t.Fatalf("filed up to %d: %v", a.filed, err)
	}
	b.publish(a.p.queue.hiddenPartition(), a.filed) // as Acknowledge does
	b.forgetPartitions(a.p.queue)
	if _, err := b.checkpoint(); err != nil {
		t.Fatal(err)
	}
	if n := b.partitions.count(); n != 0 {
		t.Errorf("%d partitions remain", n)
	}
}

// The oldest dead letter is found whatever was removed, and the list replaced, meanwhile.
func TestOldestDeadLetter(t *testing.T) {
	b := mustOpen(t, faultfs.New(), nil)
	q, _ := b.ensureQueue(DefaultTenant, "q", DefaultOptions)
	ids := bury(q, 1000, func(i int) (uint64, string) { return 1, fmt.Sprint(i) })
	rng := rand.New(rand.NewPCG(1, 2))
	gone := make([]bool, len(ids))
	for range ids {
		i := slices.Index(gone, false)
		if rng.IntN(2) == 0 {
			i = rng.IntN(len(ids))
		}
		gone[i] = true
		q.dead.remove(ids[i])
		want := int64(slices.Index(gone, false))
		if got, ok := q.dead.oldest(); got != max(want, 0) || ok != (want >= 0) {
			t.Fatalf("the oldest is at %d, %t, want %d", got, ok, want)
		}
	}
}
