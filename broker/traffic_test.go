package broker

import (
	"fmt"
	"testing"

	"github.com/skepmq/skep/segment/vfs/faultfs"
)

// A request counts once for each queue, however many partitions it touches and in what order.
func TestRequestsCountOnceForAQueue(t *testing.T) {
	b, err := openOn(faultfs.New())
	if err != nil {
		t.Fatal(err)
	}
	defer closeBroker(t, b)
	const queues, rounds = 6, 3 // more than are remembered without a map
	var items []PushItem
	for round := range rounds {
		for q := range queues {
			items = append(items, PushItem{
				Queue: fmt.Appendf(nil, "q%d", q), Partition: fmt.Appendf(nil, "p%d", round), Payload: []byte("1"),
			})
		}
	}
	pushed := make([]PushResult, len(items))
	if err := b.Push(DefaultTenant, items, nil, pushed); err != nil {
		t.Fatal(err)
	}
	for q := range queues {
		if _, err := b.Pop(&PopRequest{Tenant: DefaultTenant, Queue: fmt.Sprintf("q%d", q), Batch: 1}); err != nil {
			t.Fatal(err)
		}
	}
	acks := make([]Ack, len(items))
	for i := range items {
		p := b.queue(DefaultTenant, string(items[i].Queue)).partition(string(items[i].Partition))
		acks[i] = Ack{PartitionID: partitionID(b.directory, p.number).String(), TransactionID: pushed[i].MessageID.String()}
	}
	if err := b.Acknowledge(DefaultTenant, "", acks, make([]AckResult, len(acks))); err != nil {
		t.Fatal(err)
	}
	for _, q := range b.Traffic(false) {
		if q.Traffic[PushRequests] != 1 || q.Traffic[AckRequests] != 1 || q.Traffic[PushedMessages] != rounds {
			t.Errorf("%s: %d pushes of %d messages, %d acks, want 1 of each", q.Name, q.Traffic[PushRequests],
				q.Traffic[PushedMessages], q.Traffic[AckRequests])
		}
	}
}
