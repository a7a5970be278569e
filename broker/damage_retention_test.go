package broker

import (
	"testing"
	"time"

	"github.com/skepmq/skep/segment/vfs/faultfs"
)

// A partition whose damaged segment retention has dropped is in service again, and nothing
// of it had to be read for that.
func TestRetentionDropsDamage(t *testing.T) {
	fsys := faultfs.New()
	k := newKeeper()
	b, err := k.open(fsys)
	if err != nil {
		t.Fatal(err)
	}
	defer closeBroker(t, b)
	if err := evictAfter(b, keeperWindow); err != nil {
		t.Fatal(err)
	}
	if err := pushOne(b, "p", "x"); err != nil {
		t.Fatal(err)
	}
	if _, err := b.checkpoint(); err != nil {
		t.Fatal(err)
	}
	f, err := fsys.OpenReadWrite("data/segments/00000001.seg")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt([]byte{0xff, 0xff}, 60); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	pop := PopRequest{Tenant: DefaultTenant, Queue: "q", Partition: "p", Pinned: true, Group: "g", Batch: 1}
	if _, err := b.Pop(&pop); err == nil {
		t.Fatal("a damaged message was delivered")
	}
	if n := b.DamagedPartitions(); n != 1 {
		t.Fatalf("%d damaged partitions", n)
	}
	k.ahead.Add(int64(keeperWindow + time.Second))
	b.retain()
	if err := pushOne(b, "p", "y"); err != nil {
		t.Fatal(err)
	}
	if ids, _ := popAll(t, b, PopRequest{Partition: "p", Pinned: true, Group: "g", Batch: 5}); len(ids) != 1 || ids[0] != "y" {
		t.Fatalf("popped %v", ids)
	}
	if n := b.DamagedPartitions(); n != 0 {
		t.Fatalf("%d damaged partitions, in service", n)
	}
}
