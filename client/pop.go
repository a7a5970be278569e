package client

import (
	"encoding/json"
	"time"
)

// Message is one delivered message.
type Message struct {
	ID            string
	TransactionID string
	Data          json.RawMessage // the pushed payload, byte for byte
	CreatedAt     time.Time
	Queue         string
	Partition     string
	PartitionID   string
	LeaseID       string // empty with AutoAck
	Group         string
	TraceID       string // empty for none
	ProducerSub   string // the authenticated producer, empty for none
	Attempt       int    // how often this batch has been handed out, 0 if the broker does not say
}

// Batch is what one pop brought. The messages of a partition are contiguous and in
// order. Their Data share the memory of the answer: keeping one keeps all.
type Batch struct {
	Queue      string
	Group      string
	LeaseID    string // covers every message; empty with AutoAck
	Messages   []Message
	Partitions int // how many partitions delivered
	// Conflated says that the group gets the newest message of a partition alone,
	// which stands for those before it.
	Conflated bool

	conflict bool // conflation was asked for, and the group is registered without
}
