package broker

import (
	"testing"
	"time"

	"github.com/skepmq/skep/segment/vfs/faultfs"
)

// A partition that is found damaged while the directory is opened is in service again when
// the journal says that what is damaged has been dropped, and forgotten when it says that
// the partition was removed.
func TestRecoveryDropsDamage(t *testing.T) {
	for name, removed := range map[string]bool{"dropped": false, "removed": true} {
		t.Run(name, func(t *testing.T) {
			fsys := faultfs.New()
			k := newKeeper()
			b, err := k.open(fsys)
			if err != nil {
				t.Fatal(err)
			}
			if err := evictAfter(b, keeperWindow); err != nil {
				t.Fatal(err)
			}
			if err := pushOne(b, "p", "x"); err != nil {
				t.Fatal(err)
			}
			if _, err := b.checkpoint(); err != nil {
				t.Fatal(err)
			}
			k.ahead.Add(int64(keeperWindow + time.Second))
			b.retain()
			if p := b.queue(DefaultTenant, "q").partition("p"); removed {
				ticket, ok := b.remove(p, b.clock.stamp()+1)
				if err := ticket.Wait(); !ok || err != nil {
					t.Fatal(ok, err)
				}
			}
			if err := b.journal.Join().Wait(); err != nil {
				t.Fatal(err)
			}
			after := fsys.CrashStrict()
			closeBroker(t, b)
			f, err := after.OpenReadWrite("data/segments/00000001.seg")
			if err != nil {
				t.Fatal(err)
			}
			if _, err := f.WriteAt([]byte{0xff, 0xff}, 60); err != nil {
				t.Fatal(err)
			}
			if err := f.Close(); err != nil {
				t.Fatal(err)
			}
			if err := after.RemoveAll("data/dedup"); err != nil { // so that the segment is read
				t.Fatal(err)
			}
			if b, err = k.open(after); err != nil {
				t.Fatal(err)
			}
			defer closeBroker(t, b)
			if n := b.DamagedPartitions(); n != 0 {
				t.Errorf("%d damaged partitions", n)
			}
			if err := pushOne(b, "p", "y"); err != nil {
				t.Fatal(err)
			}
			if ids, _ := popAll(t, b, PopRequest{Partition: "p", Pinned: true, Group: "g", Batch: 5}); len(ids) != 1 || ids[0] != "y" {
				t.Errorf("popped %v", ids)
			}
		})
	}
}
