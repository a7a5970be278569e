package broker

import (
	"errors"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/skepmq/skep/segment/vfs/faultfs"
)

// footprint is what a broker keeps, in memory and on disk.
type footprint struct {
	queues, numbers, groups, partitions, chunks       int
	watched, leases, timers, letters, addresses, aged int
	changes, segments                                 int
	ids                                               int64
	catalogue, offsets, files                         int64
}

func footprintOf(t *testing.T, b *Broker, fsys *faultfs.FS) (f footprint) {
	t.Helper()
	// What is due is what the clock of a test has passed over.
	due, _ := b.wheel.advance(b.clock.mono(), nil)
	for _, k := range due {
		b.lookAt(k, b.clock.mono())
	}
	b.wheel.mu.Lock()
	f.timers = b.wheel.wheel.Len()
	b.wheel.mu.Unlock()
	b.checkpointMu.Lock()
	err := errors.Join(b.rewriteCatalog(), b.rewriteOffsets())
	f.catalogue, f.offsets = b.catalog.Size(), b.offsets.Size()
	b.checkpointMu.Unlock()
	if err != nil {
		t.Fatal(err)
	}
	b.mu.RLock()
	f.queues, f.numbers, f.groups = len(b.queues), len(b.byNumber), len(b.groups)
	b.mu.RUnlock()
	f.partitions = b.partitions.count()
	for i := range b.partitions.chunks {
		if b.partitions.chunks[i].list != nil {
			f.chunks++
		}
	}
	f.watched, f.leases, f.segments = len(b.watched), b.leases.Len(), len(b.store.Segments())
	for _, q := range b.allQueues() {
		q.aging.mu.Lock()
		f.aged += len(q.aging.due)
		q.aging.mu.Unlock()
		f.letters += len(q.dead.byID)
		f.addresses += len(q.dead.at) + len(q.dead.by)
	}
	ch := &b.changed
	ch.mu.Lock()
	f.changes = len(ch.partitions) + len(ch.cursors) + len(ch.queues) + len(ch.groups) + len(ch.deleted) +
		len(ch.frames) + len(ch.segments) + len(ch.entries) + len(ch.deletedGroups)
	ch.mu.Unlock()
	f.ids = b.ids.Stats().Entries
	for _, dir := range []string{"segments", "dedup"} {
		names, err := fsys.List(filepath.Join("data", dir))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			size, err := fsys.Size(filepath.Join("data", dir, name))
			if err != nil {
				t.Fatal(err)
			}
			f.files += size
		}
	}
	return f
}

// year is a round of everything that comes and goes, and months in which nobody is there.
func (k *keeper) year(n int) error {
	b, name := k.b, fmt.Sprintf("%06d", n)
	at := SeekTarget{TimestampMs: b.clock.stamp() - 1000}
	pop := func(queue, group string) (*PopResult, error) {
		return b.Pop(&PopRequest{Tenant: DefaultTenant, Queue: queue, Group: group, Batch: 1})
	}
	ackOf := func(res *PopResult, status AckStatus) (ack Ack) {
		for m := range res.Parts[0].Messages() {
			ack = Ack{
				TransactionID: string(m.TransactionID), PartitionID: res.Parts[0].PartitionID.String(),
				LeaseID: res.LeaseID.String(), Status: status,
			}
		}
		return ack
	}
	bury := func() error {
		res, err := pop("q", "g")
		if err != nil {
			return err
		}
		results := make([]AckResult, 1)
		err = b.Acknowledge(DefaultTenant, "g", []Ack{ackOf(res, AckDeadLetter)}, results)
		if err == nil && !results[0].DeadLetter {
			err = fmt.Errorf("not set aside: %+v", results[0])
		}
		return err
	}
	for _, step := range []func() error{
		k.push("hot", "h1", "h2", "h3"), k.push(name, "n1", "n2"),
		bury, bury, k.checkpoint,
		func() error {
			letters, err := b.DeadLetters(DefaultTenant, DeadLetterFilter{Limit: 1})
			if err == nil {
				_, err = b.ReplayDeadLetter(DefaultTenant, letters[0].ID, nil, &name)
			}
			return err
		},
		func() error { _, err := b.PurgeDeadLetters(DefaultTenant, "q", ""); return err },
		func() error { _, err := b.Seek(DefaultTenant, "g", "q", SeekTarget{ToEnd: true}); return err },
		func() error { _, err := b.Seek(DefaultTenant, "g", "q", at); return err },
		func() error { return b.SeekPartition(DefaultTenant, "other", "q", name, at) },
		func() error { _, err := b.MoveSubscription(DefaultTenant, "g", at.TimestampMs); return err },
		func() error { _, err := b.DeleteGroup(DefaultTenant, "g", "q", true); return err },
		func() error { _, err := b.DeleteGroups(DefaultTenant, "other", false); return err },
		func() error {
			res, err := pop("q", "g")
			if err != nil {
				return err
			}
			x := Transaction{
				Pushes: []PushItem{{Queue: []byte("q"), Partition: []byte("hot"), Payload: []byte("1")}},
				Acks:   []Ack{ackOf(res, AckCompleted)}, Groups: []string{"g"},
			}
			r, err := b.Transact(DefaultTenant, &x)
			if err == nil && r.Rollback != nil {
				err = errors.New(r.Rollback.Text)
			}
			return err
		},
		func() error { return b.SetPushMaintenance(true) },
		func() error {
			item := PushItem{Queue: []byte("t" + name), Partition: []byte("p"), Payload: []byte("1")}
			return b.Push(DefaultTenant, []PushItem{item}, nil, make([]PushResult, 1))
		},
		k.checkpoint,
		newSpooler(b).finish,
		func() error { _, err := pop("t"+name, "g"); return err },
		func() error { _, err := pop("q", "g"); return err },
		func() error { _, err := b.Messages(DefaultTenant, MessageFilter{Limit: 10}); return err },
		func() error { _, err := b.Queues(DefaultTenant); return err },
		func() error { _, err := b.DeleteQueue(DefaultTenant, "t"+name); return err },
		k.checkpoint, k.advance(31 * 24 * time.Hour), k.retain, k.checkpoint,
		k.advance(31 * 24 * time.Hour), k.retain, k.checkpoint, k.retain, k.checkpoint,
	} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// However often queues, partitions, groups, dead letters, the spool and leases come and go,
// what is left of them does not add up, neither in memory nor on disk, nor over a restart.
func TestLongLifeDoesNotGrow(t *testing.T) {
	t.Parallel()
	fsys := faultfs.New()
	k := newKeeper()
	var err error
	if k.b, err = k.open(fsys); err != nil {
		t.Fatal(err)
	}
	defer func() { closeBroker(t, k.b) }()
	if err := k.configure(); err != nil {
		t.Fatal(err)
	}
	years := func(from, to int) footprint {
		for n := from; n < to; n++ {
			if err := k.year(n); err != nil {
				t.Fatalf("year %d: %v", n, err)
			}
		}
		return footprintOf(t, k.b, fsys)
	}
	young := years(0, 10)
	if young.partitions != 1 || young.groups != 1 || young.segments != 0 || young.leases != 0 || young.ids != 0 {
		t.Errorf("after ten years %+v", young) // the hidden partition, and group g
	}
	if old := years(10, 200); old != young {
		t.Errorf("after ten years    %+v\nafter two hundred %+v", young, old)
	}
	closeBroker(t, k.b)
	if k.b, err = k.open(fsys); err != nil {
		t.Fatal(err)
	}
	if old := years(200, 210); old != young {
		t.Errorf("after ten years   %+v\nafter a restart   %+v", young, old)
	}
	if places := len(k.b.queue(DefaultTenant, "q").partitions); places > 40 {
		t.Errorf("%d places after a restart", places)
	}
}
