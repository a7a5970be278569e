package broker

import (
	"bytes"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/skepmq/skep/segment/vfs/faultfs"
)

// TestConflationReadsLittle counts what the disk is asked for: with a long backlog in
// segments as much as with a short one.
func TestConflationReadsLittle(t *testing.T) {
	for name, options := range map[string]QueueOptions{
		"no delay": {DedupWindowSeconds: 3600},
		"delay":    {DedupWindowSeconds: 3600, DelayedProcessing: 30},
		"window":   {DedupWindowSeconds: 3600, WindowBuffer: 30},
	} {
		t.Run(name, func(t *testing.T) {
			start := time.Now()
			var ahead atomic.Int64
			fsys := faultfs.New()
			set := func(o *Options) {
				o.Now = func() time.Time { return start.Add(time.Duration(ahead.Load())) }
				o.SegmentBytes = 1 << 20
			}
			b := mustOpen(t, fsys, set)
			_, err := b.Configure(DefaultTenant, "q", func(QueueOptions, bool) (QueueOptions, error) { return options, nil })
			if err != nil {
				t.Fatal(err)
			}
			payload := fmt.Appendf(nil, `"%s"`, bytes.Repeat([]byte("x"), 4000))
			results := make([]PushResult, 1)
			const messages = 1500
			for i := range messages {
				item := PushItem{Queue: []byte("q"), Partition: []byte("p"), TransactionID: fmt.Append(nil, i), Payload: payload}
				if err := b.Push(DefaultTenant, []PushItem{item}, nil, results); err != nil {
					t.Fatal(err)
				}
				if i%100 == 0 {
					ahead.Add(int64(time.Second))
					if _, err := b.checkpoint(); err != nil {
						t.Fatal(err)
					}
				}
			}
			if _, err := b.checkpoint(); err != nil {
				t.Fatal(err)
			}
			ahead.Add(int64(time.Minute))
			cold := mustOpen(t, fsys.CrashStrict(), set)
			counted := cold.o.FS.(*faultfs.FS)
			before := counted.Calls()
			ids, res := popAll(t, cold, PopRequest{Group: "g", Conflation: true, Batch: 1, SubscriptionMode: "all"})
			if len(ids) != 1 || ids[0] != fmt.Sprint(messages-1) || !res.Conflation {
				t.Fatalf("popped %v of %d", ids, messages)
			}
			if p := cold.queue(DefaultTenant, "q").partition("p"); p.filedEnd != messages || len(p.tail) != 0 {
				t.Fatalf("filed up to %d, %d batches are not", p.filedEnd, len(p.tail))
			}
			// The batch, what leads to it, and the record of the lease.
			if calls := counted.Calls() - before; calls > 20 {
				t.Errorf("%d calls of the file system", calls)
			}
		})
	}
}
