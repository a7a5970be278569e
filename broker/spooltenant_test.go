package broker

import (
	"errors"
	"slices"
	"testing"

	"github.com/skepmq/skep/segment/vfs/faultfs"
)

// G-832, G-834: the id of zeros is a tenant like any. It sees nothing of the spool, which
// lies under it on disk, under whichever name it asks, and may have a queue of that name.
func TestG832TheSpoolIsNobodys(t *testing.T) {
	fsys := faultfs.New()
	b := mustOpen(t, fsys, nil)
	s := newSpooler(b)
	if err := errors.Join(b.SetPushMaintenance(true), s.push(DefaultTenant, "a=1", "b=1")); err != nil {
		t.Fatal(err)
	}
	nobody := Tenant{}
	spool := b.spooled()
	id := partitionID(b.directory, spool.number)
	queues, err := b.Queues(nobody)
	if err != nil || len(queues) != 0 {
		t.Errorf("queues: %v, %v", queues, err)
	}
	if _, _, err := b.Queue(nobody, "spool"); !errors.Is(err, ErrQueueNotFound) {
		t.Errorf("queue: %v", err)
	}
	if groups, err := b.Groups(nobody); err != nil || len(groups) != 0 {
		t.Errorf("groups: %v, %v", groups, err)
	}
	if page, err := b.Messages(nobody, MessageFilter{Limit: 10}); err != nil || len(page.Messages) != 0 {
		t.Errorf("messages: %+v, %v", page, err)
	}
	if b.partitionByID(nobody, id) != nil || b.partitionByID(DefaultTenant, id) != nil {
		t.Error("who knows the id of its partition finds it")
	}
	if err := b.drainGroupIsThere(); err != nil {
		t.Fatal(err)
	}
	for _, tenant := range []Tenant{nobody, DefaultTenant} {
		if _, _, refusal := b.ackTarget(tenant, id.String(), spoolGroup); refusal != errConsumerNotFound {
			t.Errorf("an ack of %s there: %q", tenant, refusal)
		}
		res, err := b.Pop(&PopRequest{Tenant: tenant, Queue: "spool", Pinned: true, Partition: spoolPartition, Batch: 10, Group: spoolGroup})
		if err != nil || len(res.Parts) != 0 {
			t.Errorf("a pop of %s: %+v, %v", tenant, res, err)
		}
	}
	if n, err := b.DeleteGroups(nobody, spoolGroup, false); n != 0 || err != nil {
		t.Errorf("deleting its group: %d, %v", n, err)
	}
	if existed, err := b.DeleteQueue(nobody, "spool"); existed || err != nil {
		t.Errorf("deleting it: %t, %v", existed, err)
	}
	if traffic := b.Traffic(false); len(traffic) != 0 {
		t.Errorf("traffic: %+v", traffic)
	}

	// A queue of that name is another one.
	if _, err := b.Configure(nobody, "spool", func(QueueOptions, bool) (QueueOptions, error) {
		return QueueOptions{LeaseTime: 1}, nil
	}); err != nil {
		t.Fatal(err)
	}
	closeBroker(t, b)
	b = mustOpen(t, fsys, nil)
	if n := b.buffered(); n != 2 {
		t.Errorf("%d are spooled after the restart", n)
	}
	s.check(t, "drained", b)
	queues, err = b.Queues(nobody)
	if err != nil || !slices.ContainsFunc(queues, func(q QueueInfo) bool { return q.Name == "spool" }) {
		t.Errorf("its queue has gone with the spool: %v, %v", queues, err)
	}
}

// drainGroupIsThere makes the group that drains, as a drain does.
func (b *Broker) drainGroupIsThere() error {
	if b.newDrain() == nil {
		return errors.New("nothing is spooled")
	}
	return nil
}

// A directory in which the spool still has its former name is drained.
func TestFormerSpoolIsDrained(t *testing.T) {
	fsys := faultfs.New()
	b := mustOpen(t, fsys, nil)
	s := newSpooler(b)
	if err := errors.Join(b.SetPushMaintenance(true), s.push(DefaultTenant, "a=1", "b=1"), s.push(s.other, "a=1")); err != nil {
		t.Fatal(err)
	}
	// The queue record that a checkpoint writes has the name.
	b.spoolQueue().name = formerSpoolName
	if err := errors.Join(s.checkpoint(), b.rewriteCatalog()); err != nil {
		t.Fatal(err)
	}
	crashed := fsys.CrashStrict()
	b.spoolQueue().name = spoolKey.name
	closeBroker(t, b)

	b = mustOpen(t, crashed, nil)
	if n := b.buffered(); n != 3 {
		t.Errorf("%d are spooled", n)
	}
	s.check(t, "drained", b)
}

// G-832: what one tenant makes wakes nobody of another, who would look through all queues
// for nothing.
func TestG832WakingIsByTenant(t *testing.T) {
	b := mustOpen(t, faultfs.New(), nil)
	one, two := Tenant{1}, Tenant{2}
	for _, name := range []string{"", "q"} {
		w := newWaiter()
		b.created.add(made(one, name), w)
		push := func(tenant Tenant) {
			t.Helper()
			if err := b.Push(tenant, []PushItem{{Queue: []byte("q"), Payload: []byte("1")}}, nil, make([]PushResult, 1)); err != nil {
				t.Fatal(err)
			}
		}
		push(two)
		select {
		case <-w.C:
			t.Errorf("waiting for %q: woken by another", name)
		default:
		}
		push(one)
		select {
		case <-w.C:
		default:
			t.Errorf("waiting for %q: not woken", name)
		}
		b.created.left(made(one, name))
		for _, tenant := range []Tenant{one, two} {
			if _, err := b.DeleteQueue(tenant, "q"); err != nil {
				t.Fatal(err)
			}
		}
	}
}
