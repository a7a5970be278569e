package main

import (
	"encoding/json"
	"time"
)

// moment is a time by the harness's monotonic clock, from its start.
type moment = time.Duration

// never is later than everything.
const never = moment(1<<63 - 1)

// outcome is what became of a request.
type outcome uint8

const (
	pending  outcome = iota
	answered         // with a result
	unknown          // the connection broke, or the answer came too late to count
)

var outcomeNames = [...]string{"pending", "answered", "unknown"}

func (o outcome) String() string { return outcomeNames[o] }

// request is what all requests have in common.
type request struct {
	worker  string
	life    int    // of the broker, from 1: each start is a life
	sent    moment // before the first byte left
	end     moment // after the last byte of the answer came, or it was clear that none will
	outcome outcome
}

// queue is one incarnation of a queue: deleted and made again, it is another one.
type queue struct {
	name       string
	generation int
	retryLimit int
	groups     []string // that consume it with leases from its beginning
	streams    map[string]*stream
	order      []*stream

	deleted bool // what it still holds is nobody's concern
	stored  int  // answered messages
}

// stream is a partition of one incarnation of a queue.
type stream struct {
	queue     *queue
	partition string
	id        string // the partition's, once seen
	log       []*message
	waiting   int // answered messages that are not in log yet

	latestSent moment // of the messages in log
	places     map[string]*place
}

// message is one message as the producers meant it. Pushing it again does not make
// another one.
type message struct {
	number   uint32
	stream   *stream
	own      bool   // its transaction id was chosen by the producer
	poison   bool   // no consumer ever completes it
	txn      string // "" until the broker has minted one
	id       string // message_id, "" until known
	offset   int64  // as answered, -1 until then
	position int    // in the stream's log, -1 until delivered
	sent     moment // when it was first sent, never if it was not
	answered moment // when it was first answered to be stored, never if it was not
	seen     moment // when it was first delivered, never if it was not
	taken    bool   // delivered under autoAck

	// mayBuffer says that one of its pushes met maintenance, or may have: then it is
	// stored some time after its answer.
	mayBuffer bool
}

func (m *message) isSent() bool { return m.sent != never }

func (m *message) isAnswered() bool { return m.answered != never }

// push is one push request. A retry is another push of the same messages.
type push struct {
	request
	items   []*message
	again   bool // its messages may have been stored by an earlier push
	results []pushResult

	windows    int  // of maintenance that had begun when it was sent
	mayBuffer  bool // one was open then, or opened later
	mustBuffer bool // it was certainly open, all the time
}

// pushResult is one element of the answer to a push.
type pushResult struct {
	Index         int    `json:"index"`
	MessageID     string `json:"message_id"`
	TransactionID string `json:"transaction_id"`
	Queue         string `json:"queueName"`
	Status        string `json:"status"`
	Offset        *int64 `json:"offset"`
	Error         string `json:"error"`
}

// pop is one pop request.
type pop struct {
	request
	queue        *queue
	group        string
	partition    string // of a pinned pop
	batch        int
	partitions   int
	leaseSeconds int
	autoAck      bool
	wait         time.Duration
	mode         string // subscriptionMode
	late         bool   // of a group that is checked when all is known

	parts []*part
}

// part is what a pop delivered of one partition.
type part struct {
	stream   *stream
	messages []*message
	lease    *lease // nil under autoAck
}

// delivered is one message of a pop's answer.
type delivered struct {
	ID            string          `json:"id"`
	TransactionID string          `json:"transactionId"`
	Data          json.RawMessage `json:"data"`
	Created       string          `json:"createdAt"`
	PartitionID   string          `json:"partitionId"`
	Partition     string          `json:"partition"`
	LeaseID       string          `json:"leaseId"`
	Group         string          `json:"consumerGroup"`
	Attempt       int             `json:"deliveryAttempt"`
}

// ack is one ack request.
type ack struct {
	request
	group   string
	items   []ackItem
	ops     []*ackOp
	results []ackResult
}

// ackItem is one message of an ack and what is said of it.
type ackItem struct {
	message *message
	lease   *lease
	status  string // completed, failed, retry or dlq
}

// ackResult is one element of the answer to an ack.
type ackResult struct {
	Index         int     `json:"index"`
	TransactionID string  `json:"transactionId"`
	Success       bool    `json:"success"`
	Error         *string `json:"error"`
	LeaseReleased bool    `json:"leaseReleased"`
	DLQ           bool    `json:"dlq"`
	Noop          bool    `json:"noop"`
}

func (r *ackResult) text() string {
	if r.Error == nil {
		return ""
	}
	return *r.Error
}

// extend is one request to extend a lease, for all places that the pop has leased.
type extend struct {
	request
	pop     *pop
	seconds int
	renewed int
}

// call is a request that the checker does not follow.
type call struct {
	request
	what string
}

// crash is the end of a life of the broker.
type crash struct {
	life int
	at   moment
	how  string
}

// deadLetter is one element of the list of dead letters.
type deadLetter struct {
	ID            string          `json:"id"`
	TransactionID string          `json:"transactionId"`
	PartitionID   string          `json:"partitionId"`
	Partition     string          `json:"partition"`
	Group         string          `json:"consumerGroup"`
	Error         string          `json:"errorMessage"`
	RetryCount    int             `json:"retryCount"`
	Data          json.RawMessage `json:"data"`
}
