package broker

import (
	"slices"
	"testing"
	"time"

	"github.com/skepmq/skep/segment/vfs/faultfs"
)

// Retention overtakes a pop that reads: segments that it was to read go while others are
// remembered, so what it has read has a gap. It hands that out to nobody, and reads again.
func TestRetentionOvertakesPop(t *testing.T) {
	k := newKeeper()
	b, err := k.open(faultfs.New())
	if err != nil {
		t.Fatal(err)
	}
	defer closeBroker(t, b)
	k.b = b
	must := func(steps ...func() error) {
		t.Helper()
		for _, step := range steps {
			if err := step(); err != nil {
				t.Fatal(err)
			}
		}
	}
	// Each checkpoint ends a segment.
	seal := func() error {
		for _, s := range b.store.Segments() {
			if !s.Sealed && !b.store.Retire(s.ID, s.Length) {
				t.Fatal("not sealed")
			}
		}
		return nil
	}
	must(k.configure, k.push("p", "a0", "a1"), k.checkpoint, seal, k.push("p", "a2", "a3"), k.checkpoint, seal,
		k.advance(keeperWindow/2), k.push("p", "a4", "a5"), k.checkpoint)
	if ids, _ := popAll(t, b, PopRequest{Group: "g", Batch: 1, AutoAck: true}); !slices.Equal(ids, []string{"a0"}) {
		t.Fatalf("popped %v", ids) // the first extent is remembered from now on
	}
	q := b.queue(DefaultTenant, "q")
	g := q.group("g")
	cl := &claim{p: q.partition("p"), g: g, sub: *g.sub.Load(), leases: b.newID(1), lease: 10, batch: 10, budget: 1 << 20, first: true}
	if ok, err := cl.begin(b); !ok || err != nil {
		t.Fatal(ok, err)
	}
	must(k.advance(keeperWindow/2+time.Second), k.retain, k.checkpoint)
	if left := b.store.Segments(); len(left) != 1 {
		t.Fatalf("segments %+v", left)
	}
	if part, err := cl.finish(b, cl.read(b)); len(part.Spans) > 0 || err != errRetry {
		t.Fatalf("handed out %d messages, %v", part.Count(), err)
	}
	ids, res := popAll(t, b, PopRequest{Group: "g", Batch: 10})
	if !slices.Equal(ids, []string{"a4", "a5"}) {
		t.Fatalf("popped %v", ids)
	}
	results := make([]AckResult, 1)
	err = b.Acknowledge(DefaultTenant, "g", []Ack{{
		TransactionID: "a4", PartitionID: res.Parts[0].PartitionID.String(), LeaseID: res.LeaseID.String(),
	}}, results)
	if err != nil || !results[0].Success {
		t.Fatal(results, err)
	}
	if c := cl.p.cursorLocked(g); c.committed != 4 {
		t.Fatalf("committed %d", c.committed)
	}
}
