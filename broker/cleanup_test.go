package broker

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/skepmq/skep/segment/vfs/faultfs"
)

// A push that meets a partition on its way out makes a new one, also when the record of
// the removal is not on disk yet; so does one that comes later, and after a crash.
func TestPushMeetsARemovedPartition(t *testing.T) {
	fsys := faultfs.New()
	k := newKeeper()
	b, err := k.open(fsys)
	if err != nil {
		t.Fatal(err)
	}
	defer closeBroker(t, b)
	if err := evictAfter(b, time.Second); err != nil {
		t.Fatal(err)
	}
	if err := pushOne(b, "p", "x"); err != nil {
		t.Fatal(err)
	}
	_, res := popAll(t, b, PopRequest{Partition: "p", Pinned: true, Group: "g", Batch: 1, AutoAck: true})
	old := res.Parts[0].PartitionID
	k.ahead.Add(int64(time.Hour))
	b.retain()
	if _, err := b.checkpoint(); err != nil {
		t.Fatal(err)
	}
	q := b.queue(DefaultTenant, "q")
	p := q.partition("p")
	if _, ok := b.remove(p, b.clock.stamp()); !ok {
		t.Fatal("the partition was not removed")
	}
	if _, again := b.remove(p, b.clock.stamp()); again {
		t.Fatal("the partition was removed twice")
	}
	// Known by name still, and nothing can be done with it.
	popAll(t, b, PopRequest{Partition: "p", Pinned: true, Group: "h", Batch: 1})
	if p.cursors.next != nil {
		t.Fatal("a cursor was made in a removed partition")
	}
	results := make([]AckResult, 1)
	if err := b.Acknowledge(DefaultTenant, "g", []Ack{{TransactionID: "x", PartitionID: old.String()}}, results); err != nil || results[0].Error != errConsumerNotFound {
		t.Fatalf("ack: %+v, %v", results[0], err)
	}
	if err := pushOne(b, "p", "x"); err != nil {
		t.Fatal(err)
	}
	b.buryAll([]*partition{p})
	next := q.partition("p")
	if next == nil || next == p || next.number == p.number || next.start != 0 || next.end != 1 {
		t.Fatalf("the successor is %+v", next)
	}
	if q.partitionAt(p.index) != q.tombstone || q.partitionAt(next.index) != next {
		t.Fatal("a tombstone is in the wrong place")
	}
	after := mustOpen(t, fsys.CrashStrict(), func(o *Options) { o.Now = k.now })
	_, res = popAll(t, after, PopRequest{Group: "g", Batch: 5})
	if len(res.Parts) != 1 || res.Parts[0].PartitionID == old || res.Parts[0].Count() != 1 {
		t.Fatalf("after a crash: %+v", res)
	}
}

// However many partitions there are, a slice is bounded, and all of them have their turn.
func TestCleanupSlices(t *testing.T) {
	var table partitionTable
	const count = 3*tableChunk + 17
	for n := uint64(1); n <= count; n++ {
		if n/tableChunk != 1 && n%3 != 0 { // a whole chunk is missing, and many others
			table.set(n, &partition{number: n})
		}
	}
	seen := map[uint64]bool{}
	for from, rounds := uint64(0), 0; ; rounds++ {
		list, next := table.slice(from, 1000)
		if len(list) > 1000 || rounds > 100 {
			t.Fatalf("%d partitions in round %d", len(list), rounds)
		}
		for _, p := range list {
			if seen[p.number] {
				t.Fatalf("partition %d twice", p.number)
			}
			seen[p.number] = true
		}
		if from = next; from == 0 {
			break
		}
	}
	if len(seen) != table.count() {
		t.Fatalf("%d of %d partitions", len(seen), table.count())
	}
	for n := range seen {
		table.set(n, nil)
		table.set(n, nil)
	}
	for i := range table.chunks {
		if table.chunks[i].list != nil || table.count() != 0 {
			t.Fatalf("chunk %d takes memory, %d partitions are counted", i, table.count())
		}
	}
}

// A long list of partitions keeps its order and its places when some are removed.
func TestTombstonesKeepPlaces(t *testing.T) {
	b := mustOpen(t, faultfs.New(), nil)
	for i := range 20 {
		if err := pushOne(b, fmt.Sprint(i), fmt.Sprint(i)); err != nil {
			t.Fatal(err)
		}
	}
	q := b.queue(DefaultTenant, "q")
	before := q.snapshot()
	var gone []*partition
	for i, p := range before {
		if i%3 == 0 {
			p.removed = true
			gone = append(gone, p)
		}
	}
	b.buryAll(gone)
	for i, p := range q.snapshot() {
		if i%3 == 0 && p != q.tombstone || i%3 != 0 && p != before[i] || before[i] == q.tombstone {
			t.Fatalf("place %d", i)
		}
	}
	ids, _ := popAll(t, b, PopRequest{Batch: 100, Partitions: 0, Group: "g"})
	if len(ids) != 13 {
		t.Fatalf("popped %v", ids)
	}
	if info, partitions, err := b.Queue(DefaultTenant, "q"); err != nil || info.Partitions != 13 || len(partitions) != 13 {
		t.Fatalf("%d partitions, %v", info.Partitions, err)
	}
}

// The record of a partition stands in the journal again with every dead letter that is
// replayed into it. Where the catalogue has forgotten the partition by then, batches seem to
// be missing, and its removal behind them says why.
func TestRemovedPartitionIsReplayed(t *testing.T) {
	fsys := faultfs.New()
	k := newKeeper()
	b, err := k.open(fsys)
	if err != nil {
		t.Fatal(err)
	}
	defer closeBroker(t, b)
	k.b = b
	if err := errors.Join(k.configure(), k.push("b", "b0")(), k.bury(), k.checkpoint()); err != nil {
		t.Fatal(err)
	}
	// A checkpoint has sealed the journal, and captures what comes in just then.
	sealed, err := b.journal.Rotate()
	if err != nil {
		t.Fatal(err)
	}
	letters, err := b.DeadLetters(DefaultTenant, DeadLetterFilter{Limit: 1})
	if err != nil || len(letters) != 1 {
		t.Fatalf("%d dead letters, %v", len(letters), err)
	}
	if r, err := b.ReplayDeadLetter(DefaultTenant, letters[0].ID, nil, nil); err != nil || !r.Removed {
		t.Fatalf("replayed %+v, %v", r, err)
	}
	c := b.changed.take()
	if err := b.file(&c, b.capture(&c), sealed); err != nil {
		t.Fatal(err)
	}
	k.ahead.Add(int64(31 * 24 * time.Hour))
	b.retain()
	if q := b.queue(DefaultTenant, "q"); q.partition("b") != nil {
		t.Fatal("the partition was not removed")
	}
	if err := b.rewriteAlone(); err != nil {
		t.Fatal(err)
	}
	after, err := k.open(fsys.CrashStrict())
	if err != nil {
		t.Fatal(err)
	}
	defer closeBroker(t, after)
	if q := after.queue(DefaultTenant, "q"); q.partition("b") != nil {
		t.Fatal("the partition is back")
	}
}
