//go:build !race

package client

import (
	"encoding/json"
	"testing"
)

// TestAllocs pins what the client allocates a message.
func TestAllocs(t *testing.T) {
	body := bigAnswer(100, 1000)
	got := testing.AllocsPerRun(20, func() {
		if err := decodeBatch(body, &Batch{}); err != nil {
			t.Fatal(err)
		}
	})
	// The id of each message, the growing slice, and a handful for the batch.
	if got > 125 {
		t.Errorf("decoding 100 messages: %v allocations, want at most 125", got)
	}
	items := make([]Item, 100)
	for i := range items {
		items[i] = Item{Payload: json.RawMessage(`{"a":1}`), TransactionID: "t", Partition: "p"}
	}
	got = testing.AllocsPerRun(20, func() {
		if _, err := (Queue{name: "q"}).appendPush(nil, items); err != nil {
			t.Fatal(err)
		}
	})
	if got > 2 {
		t.Errorf("encoding 100 items: %v allocations, want at most 2", got)
	}
}
