package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

// Movers carry parcels from queue to queue: in one transaction they acknowledge a
// message and push the next leg of its parcel elsewhere. So a parcel has one message that
// its group has not acknowledged, whatever happens to the broker. Tellers acknowledge the
// same messages for a group of their own, and push a receipt for each. See also drifters.
const (
	movers  = "movers"
	tellers = "tellers"
)

// spot is a partition of one of the queues that parcels are in.
type spot struct {
	queue     string
	partition string
	id        string // the partition's, once seen
	receipts  bool   // holds receipts, which nobody takes
	log       []*leg // in the order in which all readers get them
}

// leg is a message that a transfer pushes: a parcel at its next spot, or a receipt.
type leg struct {
	by       *transfer
	index    int // in by.gives
	name     string
	at       *spot
	parcel   int
	hop      int
	receipt  bool
	position int                  // in the spot's log, -1 until read
	taken    map[string]*transfer // by group: the committed transfer that acknowledged it
	tried    map[string][]*transfer
}

// legName is the transaction id of a leg. Transfers that take the same message for the
// same group make legs of the same name, so at most one of them can be stored.
func legName(parcel, hop int, receipt bool) string {
	kind := "parcel"
	if receipt {
		kind = "receipt"
	}
	return fmt.Sprintf("%s-%d.%d", kind, parcel, hop)
}

// payload is what the leg is pushed with. It names the transfer, so that a message tells
// which request has stored it.
func (l *leg) payload() json.RawMessage {
	pad := (l.by.serial*37 + l.index*11) % 300
	return fmt.Appendf(nil, `{"transfer":%d,"index":%d,"big":9007199254740993,"pad":%q}`, l.by.serial, l.index, strings.Repeat("x", pad))
}

// take is the acknowledgement of one message, by name or by one that lies above it.
type take struct {
	leg   *leg
	group string
}

// fate is what is known of a transfer.
type fate uint8

const (
	open      fate = iota // not answered, or not for certain
	committed             // answered, or seen
	absent                // rolled back, or what it took has come again
)

var fateNames = [...]string{"open", "committed", "absent"}

func (f fate) String() string { return fateNames[f] }

// transfer is one transaction. Sent again it is the same one.
type transfer struct {
	serial int // in the ledger
	takes  []take
	gives  []*leg
	claims []*claim // whose leases it needs
	body   []byte
	want   []transferResult // of a commit, but for message ids
	spoilt string           // why it must be rolled back, "" if it need not
	loose  bool             // it may be rolled back: its leases may end at any time
	fate   fate
	known  moment // when its fate became known
	trials []*trial
	lost   int // trials without an answer
}

// trial is one request of a transfer.
type trial struct {
	request
	said string
}

// claim is what one pop leased to a mover or teller.
type claim struct {
	request
	queue   string
	group   string
	seconds int
	lease   string
	parts   []*claimPart
}

// claimPart is what a claim has of one spot.
type claimPart struct {
	spot *spot
	legs []*leg
}

// until is when the lease ends at the earliest, if the broker lives.
func (c *claim) until() moment { return c.sent + moment(c.seconds)*time.Second }

// transferResult is one element of the answer to a transaction.
type transferResult struct {
	Index         int    `json:"index"`
	Type          string `json:"type"`
	Success       bool   `json:"success"`
	TransactionID string `json:"transactionId"`
	MessageID     string `json:"messageId"`
	Queue         string `json:"queueName"`
	Duplicate     bool   `json:"duplicate"`
}

// transferAnswer is the answer to a transaction.
type transferAnswer struct {
	Success bool             `json:"success"`
	Error   string           `json:"error"`
	Results []transferResult `json:"results"`
}

// operation is one element of a transaction's request.
type operation struct {
	Type          string         `json:"type"`
	TransactionID string         `json:"transactionId,omitempty"`
	PartitionID   string         `json:"partitionId,omitempty"`
	Group         string         `json:"consumerGroup,omitempty"`
	Status        string         `json:"status,omitempty"`
	LeaseID       string         `json:"leaseId,omitempty"`
	Items         []transferItem `json:"items,omitempty"`
}

// transferItem is one message to push.
type transferItem struct {
	Queue         string          `json:"queue"`
	Partition     string          `json:"partition"`
	TransactionID string          `json:"transactionId"`
	Payload       json.RawMessage `json:"payload"`
}
