package broker

import (
	"errors"
	"testing"
	"time"

	"github.com/skepmq/skep/segment"
	"github.com/skepmq/skep/segment/vfs/faultfs"
)

// What a newer version has spooled is not passed over: the drain waits, says so, and
// pushes go on into the spool.
func TestDrainStopsAtWhatItDoesNotKnow(t *testing.T) {
	fsys := faultfs.New()
	b, err := openOn(fsys)
	if err != nil {
		t.Fatal(err)
	}
	defer closeBroker(t, b)
	s := newSpooler(b)
	items := []PushItem{{Queue: []byte(spoolKey.name), Payload: []byte{99}}}
	if err := errors.Join(
		b.SetPushMaintenance(true),
		s.push(DefaultTenant, "a=1"),
	); err != nil {
		t.Fatal(err)
	}
	st := pushPool.Get().(*pushState)
	st.items, st.results = items, make([]PushResult, 1)
	st.group()
	if _, err := b.appendSpool(st, &st.batches[0]); err != nil {
		t.Fatal(err)
	}
	if err := st.last.Wait(); err != nil {
		t.Fatal(err)
	}
	b.publish(st.batches[0].p, st.batches[0].end)
	st.release()
	if err := b.SetPushMaintenance(false); err != nil {
		t.Fatal(err)
	}
	awaitStall(b)
	if n := b.buffered(); n != 0 {
		t.Fatalf("%d left of the message before it", n)
	}
	results := make([]PushResult, 1)
	push := []PushItem{{Queue: []byte("q"), Partition: []byte("a"), Payload: []byte("2")}}
	if err := b.Push(DefaultTenant, push, nil, results); err != nil || results[0].Status != Buffered {
		t.Fatalf("push behind it: %+v, %v", results[0], err)
	}
}

// A damaged partition does not hold up the others: what cannot be compared with what is
// stored there is stored. One that cannot be read for now does: it may be a duplicate.
func TestDrainIntoAnUnreadablePartition(t *testing.T) {
	fsys := faultfs.New()
	b, err := openOn(fsys)
	if err != nil {
		t.Fatal(err)
	}
	defer closeBroker(t, b)
	s := newSpooler(b)
	if err := errors.Join(
		s.push(DefaultTenant, "bad=x"), s.checkpoint(), s.switchTo(true),
		s.push(DefaultTenant, "bad=x", "good=y"),
	); err != nil {
		t.Fatal(err)
	}
	flipBody(t, fsys)
	if err := s.finish(); err != nil {
		t.Fatal(err)
	}
	for partition, want := range map[string]int64{"bad": 2, "good": 1} {
		if v := viewOf(b, partition); v.hwm != want {
			t.Errorf("partition %s ends at %d, want %d", partition, v.hwm, want)
		}
	}

	if err := errors.Join(s.switchTo(true), s.push(DefaultTenant, "good=y", "good=z"), s.checkpoint(), b.store.Close()); err != nil {
		t.Fatal(err)
	}
	if err := s.switchTo(false); err != nil {
		t.Fatal(err)
	}
	awaitStall(b)
	if n := b.buffered(); n != 2 {
		t.Errorf("%d in the spool, want 2: nothing can be read", n)
	}
}

// flipBody changes a byte of the first batch in the only segment.
func flipBody(t *testing.T, fsys *faultfs.FS) {
	t.Helper()
	names, err := fsys.List("data/segments")
	if err != nil || len(names) != 1 {
		t.Fatalf("segments %v, %v", names, err)
	}
	f, err := fsys.OpenReadWrite("data/segments/" + names[0])
	if err != nil {
		t.Fatal(err)
	}
	at := int64(segment.FileHeaderLen + segment.HeaderLen)
	var one [1]byte
	_, err = f.ReadAt(one[:], at)
	one[0] ^= 1
	_, writeErr := f.WriteAt(one[:], at)
	if err := errors.Join(err, writeErr, f.Close()); err != nil {
		t.Fatal(err)
	}
}

// awaitStall waits until the drain cannot go on.
func awaitStall(b *Broker) {
	tick := time.NewTicker(100 * time.Microsecond)
	defer tick.Stop()
	for b.Maintenance().Healthy {
		<-tick.C
	}
}
