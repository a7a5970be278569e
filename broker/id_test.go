package broker

import (
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/skepmq/skep/segment"
)

func TestPartitionID(t *testing.T) {
	const directory = 0xfedcba9876543210
	for _, number := range []uint64{0, 1, 4096, 1 << 40, 1<<62 - 1} {
		id := partitionID(directory, number)
		if id.Version() != 8 || id.Variant() != uuid.RFC4122 {
			t.Errorf("%s: version %d, variant %v", id, id.Version(), id.Variant())
		}
		if got, ok := partitionNumber(directory, id); !ok || got != number {
			t.Errorf("%s: number %d, %v; want %d", id, got, ok, number)
		}
		if _, ok := partitionNumber(directory+1<<32, id); ok {
			t.Errorf("%s was taken for one of another directory", id)
		}
	}
	if _, ok := partitionNumber(directory, uuid.New()); ok {
		t.Error("a random id was taken for a partition's")
	}
}

func TestMintedIDs(t *testing.T) {
	var b Broker
	b.o.setDefaults()
	seen := map[uuid.UUID]bool{}
	for i := range 1000 {
		const ms = 1785000000123
		id := b.newBatchID(ms, int64(i%3))
		m := uuid.UUID(segment.MessageID(id, int64(i%3)))
		for _, id := range []uuid.UUID{m, b.newID(ms)} {
			if id.Version() != 7 || id.Variant() != uuid.RFC4122 {
				t.Fatalf("%s: version %d, variant %v", id, id.Version(), id.Variant())
			}
			if got := int64(id[0])<<40 | int64(id[1])<<32 | int64(id[2])<<24 | int64(id[3])<<16 | int64(id[4])<<8 | int64(id[5]); got != ms {
				t.Fatalf("%s carries time %d, want %d", id, got, ms)
			}
			if seen[id] {
				t.Fatalf("%s came twice", id)
			}
			seen[id] = true
		}
	}
}

// Stamps never go back, whatever the wall clock does; mono does not notice it at all.
func TestClock(t *testing.T) {
	now := time.UnixMilli(1_000_000)
	c := newClock(func() time.Time { return now })
	if c.stamp() != 1_000_000 || c.mono() != 1_000_000 {
		t.Fatalf("at the start: stamp %d, mono %d", c.stamp(), c.mono())
	}
	now = now.Add(5 * time.Second)
	if got := c.stamp(); got != 1_005_000 {
		t.Fatalf("forward: %d", got)
	}
	deadline := c.mono() + 1000
	if got := c.monoOf(c.wallOf(deadline)); got != deadline {
		t.Fatalf("a deadline came back as %d, want %d", got, deadline)
	}
}
