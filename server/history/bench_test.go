package history

import (
	"fmt"
	"testing"

	"github.com/google/uuid"
	"github.com/rs/zerolog"

	"github.com/skepmq/skep/broker"
	"github.com/skepmq/skep/segment/vfs/faultfs"
)

// busy is a minute of n queues with as much traffic as a thousand messages a second, among
// them.
func busy(n int, at int64) *Minute {
	m := &Minute{StartMs: at, LengthMs: minuteMs}
	each := int64(60_000 / n)
	for i := range n {
		q := Queue{ID: uuid.UUID{6: byte(i >> 8), 7: byte(i), 8: 0x80}, Name: fmt.Sprintf("orders.region-%05d", i), Namespace: "shop", Partitions: 100, Parked: 2, MaxLagMs: 350}
		for _, c := range []broker.Counter{broker.PushRequests, broker.PushedMessages, broker.PopRequests, broker.PoppedMessages, broker.AckRequests, broker.AckedMessages} {
			q.Traffic[c] = each + int64(i%7)
		}
		q.Traffic[broker.EmptyPops], q.Traffic[broker.LagMs] = 3, 120*each
		m.Queues = append(m.Queues, q)
	}
	return m
}

// What a minute of very many queues costs: to keep, to look at, and to fold.
func BenchmarkMinutes(b *testing.B) {
	const queues, minutes = 10_000, 15
	o := Options{FS: faultfs.New(), Dir: "/d/metrics", Logger: zerolog.Nop()}
	l := New(o)
	for i := range int64(minutes) {
		l.Append(busy(queues, i*minuteMs))
	}
	size := l.size
	if err := l.Close(); err != nil {
		b.Fatal(err)
	}
	b.Run("op=walk/queues=10k/minutes=15", func(b *testing.B) {
		b.SetBytes(size)
		b.ReportAllocs()
		for b.Loop() {
			n := 0
			for m := range l.Minutes(0, dayMs) {
				n += len(m.Queues)
			}
			if n != queues*minutes {
				b.Fatal(n)
			}
		}
	})
	b.Run("op=fold/queues=10k/minutes=15", func(b *testing.B) {
		b.SetBytes(size)
		b.ReportAllocs()
		for b.Loop() {
			out, err := o.FS.Create("/d/metrics/" + temporary)
			if err != nil {
				b.Fatal(err)
			}
			if err := l.foldInto(out, file{}, grains[1].ms, func() bool { return false }); err != nil {
				b.Fatal(err)
			}
			folded, err := out.Size()
			if err != nil {
				b.Fatal(err)
			}
			b.ReportMetric(float64(folded)/queues, "folded-bytes/queue")
		}
		b.ReportMetric(float64(size)/queues/minutes, "bytes/queue/minute")
	})
}
