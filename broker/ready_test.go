package broker

import (
	"slices"
	"testing"
	"time"

	"github.com/skepmq/skep/segment/vfs/faultfs"
)

func drain(r *ready, partitions uint32) (got []uint32) {
	for {
		i, ok := r.take(partitions)
		if !ok {
			return got
		}
		got = append(got, i)
	}
}

func TestReady(t *testing.T) {
	t.Run("what was never looked at is a candidate", func(t *testing.T) {
		var r ready
		if got := drain(&r, 3); !slices.Equal(got, []uint32{0, 1, 2}) {
			t.Fatalf("got %v", got)
		}
		if got := drain(&r, 5); !slices.Equal(got, []uint32{3, 4}) {
			t.Fatalf("new partitions: got %v", got)
		}
	})
	t.Run("offered ones come in order, once each, in turns with new ones", func(t *testing.T) {
		var r ready
		drain(&r, 100)
		for _, i := range []uint32{70, 3, 70, 9, 3} {
			r.offer(i)
		}
		if got := drain(&r, 102); !slices.Equal(got, []uint32{100, 70, 101, 3, 9}) {
			t.Fatalf("got %v", got)
		}
		r.offer(70)
		if got := drain(&r, 102); !slices.Equal(got, []uint32{70}) {
			t.Fatalf("after it was taken: got %v", got)
		}
	})
	t.Run("an offer of what is not scanned adds nothing", func(t *testing.T) {
		var r ready
		r.offer(1)
		if got := drain(&r, 2); !slices.Equal(got, []uint32{0, 1}) {
			t.Fatalf("got %v", got)
		}
	})
	t.Run("the ring grows and keeps its order", func(t *testing.T) {
		var r ready
		drain(&r, 1000)
		var want []uint32
		for i := range uint32(10) {
			r.offer(i)
			r.take(1000)
		}
		for i := uint32(999); i > 500; i-- {
			r.offer(i)
			want = append(want, i)
		}
		if got := drain(&r, 1000); !slices.Equal(got, want) {
			t.Fatalf("got %v", got)
		}
	})
	t.Run("one that keeps getting work does not starve the rest", func(t *testing.T) {
		var r ready
		seen := map[uint32]bool{}
		for range 8 {
			i, _ := r.take(4)
			seen[i] = true
			r.offer(0)
		}
		if len(seen) != 4 {
			t.Fatalf("only %v were looked at", seen)
		}
	})
	t.Run("lookAgain makes all candidates", func(t *testing.T) {
		var r ready
		drain(&r, 2)
		r.lookAgain()
		if got := drain(&r, 2); !slices.Equal(got, []uint32{0, 1}) {
			t.Fatalf("got %v", got)
		}
	})
}

func woken(w *waiter) bool {
	select {
	case <-w.C:
		return true
	default:
		return false
	}
}

func TestWaiters(t *testing.T) {
	t.Run("one offer wakes one, the oldest", func(t *testing.T) {
		var r ready
		drain(&r, 1)
		a, b := newWaiter(), newWaiter()
		r.wait(a)
		r.wait(b)
		r.offer(0)
		if !woken(a) || woken(b) {
			t.Fatal("not the oldest alone")
		}
		r.offer(0)
		if !woken(b) {
			t.Fatal("the second offer woke nobody")
		}
	})
	t.Run("a pinned one has the right of way", func(t *testing.T) {
		var r ready
		drain(&r, 2)
		general, pinned := newWaiter(), newWaiter()
		r.wait(general)
		r.waitPinned(pinned, 1)
		r.offer(0)
		if woken(pinned) || !woken(general) {
			t.Fatal("woken for another partition")
		}
		r.offer(1)
		if !woken(pinned) {
			t.Fatal("not woken for its own")
		}
		pinned.leave()
		r.leftPinned(1)
		if len(r.pinned) != 0 {
			t.Fatal("an empty list remains")
		}
	})
	t.Run("passOn goes on only while there is work", func(t *testing.T) {
		var r ready
		drain(&r, 1)
		a := newWaiter()
		r.wait(a)
		r.passOn(1)
		if woken(a) {
			t.Fatal("woken for nothing")
		}
		r.passOn(2)
		if !woken(a) {
			t.Fatal("not woken for a new partition")
		}
	})
	t.Run("one that left is not woken", func(t *testing.T) {
		var r ready
		drain(&r, 1)
		a, b, c := newWaiter(), newWaiter(), newWaiter()
		for _, w := range []*waiter{a, b, c} {
			r.wait(w)
		}
		b.leave()
		r.wakeAll()
		if !woken(a) || woken(b) || !woken(c) {
			t.Fatal("want a and c woken, b not")
		}
	})
	t.Run("a waiter that another list has woken is passed over", func(t *testing.T) {
		var r1, r2 ready
		drain(&r1, 1)
		drain(&r2, 1)
		a, b := newWaiter(), newWaiter()
		r1.wait(a)
		r2.wait(a)
		r2.wait(b)
		r1.offer(0)
		r2.offer(0)
		if !woken(a) || !woken(b) {
			t.Fatal("the second offer was lost on a waiter that was awake")
		}
	})
	t.Run("watch", func(t *testing.T) {
		var w watch
		a, b := newWaiter(), newWaiter()
		w.add("x", a)
		w.add("y", b)
		w.wake("x")
		if !woken(a) || woken(b) {
			t.Fatal("want a alone")
		}
		w.left("x")
		b.leave()
		w.left("y")
		if w.count.Load() != 0 || len(w.lists) != 0 {
			t.Fatalf("%d waiters and %d lists remain", w.count.Load(), len(w.lists))
		}
	})
}

// A discovery pop that is woken for a queue which has lost the label that it looks for
// hands the wake-up on to somebody who still waits there.
func TestWakeUpOfALostLabel(t *testing.T) {
	b := mustOpen(t, faultfs.New(), nil)
	configure := func(namespace string, delay int64) {
		_, err := b.Configure(DefaultTenant, "q", func(o QueueOptions, _ bool) (QueueOptions, error) {
			o.Namespace, o.DelayedProcessing = namespace, delay
			return o, nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	configure("a", 3600)
	if err := newWitness(b).push("p", "p0"); err != nil {
		t.Fatal(err)
	}
	p := &popper{b: b, name: "g", gate: b.maintenance.pops.Load(), waits: time.Hour, over: true, req: &PopRequest{
		Tenant: DefaultTenant, Discovery: true, Namespace: "a", Group: "g",
	}}
	if res, err := p.try(); err != nil || len(res.Parts) > 0 || len(p.groups) != 1 {
		t.Fatal(res, err)
	}
	discovery, other := newWaiter(), newWaiter()
	p.enlist(discovery)
	p.groups[0].ready.wait(other)
	configure("b", 0)
	if woken(other) {
		t.Fatal("not the oldest alone")
	}
	if _, err := p.wait(discovery); err != nil {
		t.Fatal(err)
	}
	if !woken(other) {
		t.Fatal("the wake-up is lost")
	}
}
