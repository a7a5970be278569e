package broker

import (
	"fmt"
	"testing"

	"github.com/rs/zerolog"
)

// BenchmarkGroups is what the routes of groups cost on 100,000 partitions of four batches
// each, all in segments, stored over half an hour; the group's place lies between the
// second and the third. cold is the first look after that was so, when each place and its
// time are looked up in the index.
func BenchmarkGroups(b *testing.B) {
	const partitions = 100_000
	br, err := Open(Options{Dir: b.TempDir(), Logger: zerolog.Nop(), CheckpointBytes: 1 << 40, DiskHighPercent: 100})
	if err != nil {
		b.Fatal(err)
	}
	defer br.Close()
	middle := fillPartitions(b, br, partitions)
	group := func() *group { return br.queue(DefaultTenant, "q").group("g") }
	seek := func(to SeekTarget) {
		if n, err := br.Seek(DefaultTenant, "g", "q", to); err != nil || n != partitions {
			b.Fatal(n, err)
		}
	}
	between := SeekTarget{TimestampMs: middle}
	for _, op := range []struct {
		name     string
		prepare  func()
		do       func()
		everyone bool // prepare before each, not once
	}{
		{"seek", func() {}, func() { seek(SeekTarget{}) }, false},
		{"list/cold", func() { seek(between) }, func() { br.groupInfo(group()) }, true},
		{"list/warm", func() { seek(between); br.groupInfo(group()) }, func() { br.groupInfo(group()) }, false},
		{"depth/cold", func() { seek(between) }, func() { _, _, _ = br.Depth(DefaultTenant, "q", "g") }, true},
		{"depth/warm", func() {}, func() { _, _, _ = br.Depth(DefaultTenant, "q", "g") }, false},
		{"lagging", func() {}, func() { _, _ = br.Lagging(DefaultTenant, 0, 10_000) }, false},
		{"delete", func() { seek(between); br.groupInfo(group()) }, func() { _, _ = br.DeleteGroups(DefaultTenant, "g", false) }, true},
		{"register", func() { _, _ = br.DeleteGroups(DefaultTenant, "g", false) }, func() {
			_, _ = br.Pop(&PopRequest{Tenant: DefaultTenant, Queue: "q", Group: "g", Batch: 1, SubscriptionMode: "new"})
		}, true},
	} {
		b.Run(fmt.Sprintf("partitions=%dk/%s", partitions/1000, op.name), func(b *testing.B) {
			op.prepare()
			b.ResetTimer()
			for i := range b.N {
				if op.everyone && i > 0 {
					b.StopTimer()
					op.prepare()
					b.StartTimer()
				}
				op.do()
			}
		})
	}
}

// fillPartitions pushes four batches to each partition of a queue, ten minutes apart,
// files them, and returns an instant between the second and the third.
func fillPartitions(b *testing.B, br *Broker, partitions int) (middle int64) {
	b.Helper()
	for round := range 4 {
		for first := 0; first < partitions; first += 5000 {
			var items []PushItem
			for p := first; p < first+5000; p++ {
				items = append(items, PushItem{Queue: []byte("q"), Partition: fmt.Append(nil, p), Payload: []byte(`{"n":1}`)})
			}
			if err := br.Push(DefaultTenant, items, nil, make([]PushResult, len(items))); err != nil {
				b.Fatal(err)
			}
		}
		br.clock.floor.Add(600_000)
		if round == 1 {
			middle = br.clock.stamp() - 1
		}
	}
	if _, err := br.checkpoint(); err != nil {
		b.Fatal(err)
	}
	return middle
}
