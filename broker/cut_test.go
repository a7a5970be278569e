package broker

import (
	"errors"
	"testing"
	"time"

	"github.com/skepmq/skep/log/record"
	"github.com/skepmq/skep/segment/vfs/faultfs"
)

// A cut is decided without the lock. What came in between must not be dropped with it, nor
// be counted twice, nor may a group be robbed that has gone back.
func TestCutIsDecidedAgain(t *testing.T) {
	for name, between := range map[string]struct {
		do    func(k *keeper) error
		start int64 // after the next decision
	}{
		"nothing":   {func(*keeper) error { return nil }, 2},
		"push":      {func(k *keeper) error { return k.push("p", "c")() }, 2},
		"file":      {func(k *keeper) error { return k.checkpoint() }, 2},
		"seek back": {func(k *keeper) error { return k.b.SeekPartition(DefaultTenant, "g", "q", "p", SeekTarget{}) }, 0},
	} {
		t.Run(name, func(t *testing.T) {
			k := newKeeper()
			var err error
			if k.b, err = k.open(faultfs.New()); err != nil {
				t.Fatal(err)
			}
			b := k.b
			defer closeBroker(t, b)
			_, err = b.Configure(DefaultTenant, "q", func(o QueueOptions, _ bool) (QueueOptions, error) {
				o.RetentionEnabled, o.CompletedRetentionSeconds = true, 10
				return o, nil
			})
			if err := errors.Join(err, k.push("p", "a", "b")()); err != nil {
				t.Fatal(err)
			}
			popAll(t, b, PopRequest{Group: "g", Batch: 10, AutoAck: true})
			b.retain()
			k.ahead.Add(int64(time.Minute))
			p := b.queue(DefaultTenant, "q").partition("p")
			w, now := p.queue.aging.windows, b.clock.stamp()
			s := p.agingState(w)
			c, err := b.decideCut(&s, w, now)
			if err != nil || c.offset != 2 || c.rule != dropCompleted {
				t.Fatalf("decided %+v, %v", c, err)
			}
			if err := between.do(k); err != nil {
				t.Fatal(err)
			}
			e := dueEntry{p: p}
			if _, ok := b.applyCut(e, &s, c, w, now); ok != (name == "nothing") {
				t.Fatalf("applied: %v", ok)
			}
			s = p.agingState(w)
			b.look(e, &s, now)
			if p.start != between.start || p.filedBytes != 0 && p.start == p.filedEnd {
				t.Fatalf("starts at %d, with %d bytes filed", p.start, p.filedBytes)
			}
		})
	}
}

// A dead letter whose payload lies below the start is one that was on its way out.
func TestForgetBelow(t *testing.T) {
	var ds deadLetters
	for n := range 4 {
		ds.add(&record.DeadLetter{ID: [16]byte{byte(n), 1}, Partition: 1, Offset: int64(n)}, true)
	}
	ds.forgetBelow(2)
	if offset, ok := ds.oldest(); !ok || offset != 2 || ds.count() != 2 {
		t.Fatalf("the oldest of %d is %d, %v", ds.count(), offset, ok)
	}
}

// What is dropped before it was filed is filed as dropped: the catalogue has the start, with
// no rule left that would find it again.
func TestDroppedBeforeFiled(t *testing.T) {
	fsys := faultfs.New()
	k := newKeeper()
	var err error
	if k.b, err = k.open(fsys); err != nil {
		t.Fatal(err)
	}
	defer closeBroker(t, k.b)
	for _, step := range []func() error{
		k.configure, k.push("p", "a"), k.advance(keeperWindow + time.Second), k.retain, k.push("p", "b"), k.checkpoint, k.relax,
	} {
		if err := step(); err != nil {
			t.Fatal(err)
		}
	}
	after, err := k.open(fsys.CrashStrict())
	if err != nil {
		t.Fatal(err)
	}
	defer closeBroker(t, after)
	if got := k.check(t, "after", after); len(got) != 1 || got[0] != "b" {
		t.Fatalf("got %v", got)
	}
}
