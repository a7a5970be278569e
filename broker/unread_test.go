package broker

import (
	"errors"
	"slices"
	"testing"
	"time"
)

// A partition that is put off because a group holds it is due as soon as the group lets go
// of it: by an acknowledgement, by taking it at once, in a transaction, and by a seek. What
// does not move the slowest group past the first message makes nothing due.
func TestReleaseMakesDue(t *testing.T) {
	pop := func(k *holder, group string, auto bool) (*PopResult, error) {
		return k.b.Pop(&PopRequest{Tenant: DefaultTenant, Queue: "q", Partition: "p", Pinned: true, Group: group, Batch: 1, AutoAck: auto})
	}
	take := func(group string) func(*holder) error {
		return func(k *holder) error { _, err := pop(k, group, true); return err }
	}
	for name, tc := range map[string]struct {
		release func(*holder) error
		left    int
	}{
		"nothing":    {func(*holder) error { return nil }, 2},
		"by autoAck": {take("slow"), 1},
		"the fast":   {take("fast"), 2},
		"by its ack": {func(k *holder) error { return ackOne(k, pop) }, 1},
		"by its seek": {func(k *holder) error {
			_, err := k.b.Seek(DefaultTenant, "slow", "q", SeekTarget{ToEnd: true})
			return err
		}, 2},
		"by its seek in the partition": {func(k *holder) error {
			return k.b.SeekPartition(DefaultTenant, "slow", "q", "p", SeekTarget{ToEnd: true})
		}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			k := newHolder()
			if err := k.open(); err != nil {
				t.Fatal(err)
			}
			defer closeBroker(t, k.b)
			register := func() error { _, err := pop(k, "slow", false); return err }
			later := func() error { k.ahead.Add(int64(time.Hour)); return nil }
			err := k.do(k.configure, k.hold("p", "a"), later, register, k.hold("p", "b"),
				func() error { return take("fast")(k) }, later, k.cycle)
			if err = errors.Join(err, tc.release(k)); err != nil {
				t.Fatal(err)
			}
			k.b.retain()
			if got := len(contents(t, name, k.b)); got != tc.left {
				t.Errorf("%d messages are left, want %d", got, tc.left)
			}
			k.ahead.Add(int64(maxPauseMs * time.Millisecond))
			k.b.retain()
			k.b.retain()
			for _, e := range k.b.queue(DefaultTenant, "q").aging.due {
				if e.Value.seq != e.Value.p.dueSeq {
					t.Errorf("an entry that does not count is still there")
				}
			}
		})
	}
}

func ackOne(k *holder, pop func(*holder, string, bool) (*PopResult, error)) error {
	res, err := pop(k, "slow", false)
	if err != nil || len(res.Parts) == 0 {
		return errors.Join(err, errors.New("nothing to acknowledge"))
	}
	results := make([]AckResult, 1)
	return k.b.Acknowledge(DefaultTenant, "slow", []Ack{{
		TransactionID: "a", PartitionID: res.Parts[0].PartitionID.String(), LeaseID: res.LeaseID.String(), Status: AckCompleted,
	}}, results)
}

// A group that has not been in a partition, and begins behind what all others have done,
// loses nothing when that is dropped. Where it begins only the index knows.
func TestCompletedIsNotUnread(t *testing.T) {
	k := newHolder()
	if err := k.open(); err != nil {
		t.Fatal(err)
	}
	defer func() { closeBroker(t, k.b) }()
	since := ""
	pop := func(group, partition string) func() error {
		return func() error {
			res, err := k.b.Pop(&PopRequest{
				Tenant: DefaultTenant, Queue: "q", Partition: partition, Pinned: partition != "", Group: group, Batch: 1, AutoAck: true, SubscriptionFrom: since,
			})
			if err == nil && len(res.Parts) == 0 {
				err = errors.New("nothing for " + group)
			}
			return err
		}
	}
	later := func() error { k.ahead.Add(int64(time.Hour)); return nil }
	err := k.do(k.configure, k.hold("first", "o"), k.hold("p", "a"), pop("fast", "p"), later)
	since = k.b.clock.now().UTC().Format(time.RFC3339Nano)
	if err == nil {
		err = k.do(later, k.hold("p", "b"), k.hold("first", "o2"), pop("late", ""), k.checkpoint, k.cycle)
	}
	if err != nil {
		t.Fatal(err)
	}
	if got := contents(t, "after a cycle", k.b); slices.Contains(got, "a") || !slices.Contains(got, "b") {
		t.Fatalf("%v is left", got)
	}
	groups, err := k.b.Groups(DefaultTenant)
	if err != nil || len(groups) != 2 {
		t.Fatalf("%v, %v", groups, err)
	}
	for _, g := range groups {
		if g.EvictedUnread != 0 {
			t.Errorf("%s has lost %d", g.Name, g.EvictedUnread)
		}
	}
}

// A partition that a group held when the rules were turned off is looked at once, not twice,
// when they are on again, whatever the group did in between.
func TestRulesOffAndOn(t *testing.T) {
	k := newHolder()
	if err := k.open(); err != nil {
		t.Fatal(err)
	}
	defer func() { closeBroker(t, k.b) }()
	take := func() error {
		_, err := k.b.Pop(&PopRequest{Tenant: DefaultTenant, Queue: "q", Partition: "p", Pinned: true, Group: "g", Batch: 1, AutoAck: true})
		return err
	}
	off := func() error {
		_, err := k.b.Configure(DefaultTenant, "q", func(o QueueOptions, _ bool) (QueueOptions, error) {
			o.RetentionEnabled = false
			return o, nil
		})
		return err
	}
	err := k.do(k.configure, k.hold("p", "a"), take, k.hold("p", "b"), k.hold("p", "c"), k.cycle, k.cycle,
		off, k.cycle, take, k.configure, k.cycle)
	if err != nil {
		t.Fatal(err)
	}
	if n := len(k.b.queue(DefaultTenant, "q").aging.due); n != 1 {
		t.Errorf("the partition is due %d times", n)
	}
}
