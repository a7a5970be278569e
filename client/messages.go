package client

import (
	"context"
	"encoding/json"
	"time"
)

// MessageFilter selects stored messages; empty fields select all.
type MessageFilter struct {
	Queue     string
	Partition string
	Namespace string
	Task      string
	Status    string    // pending, processing, completed or dead_letter
	From      time.Time // zero: an hour ago
	To        time.Time // up to the end of its minute; zero: now
	Limit     int       // 0: the broker's 200
	Offset    int
}

// Consumption says who consumes: queue mode, named groups, both, or nobody.
type Consumption struct {
	QueueMode bool   `json:"hasQueueMode"`
	Groups    int    `json:"busGroupsCount"`
	Type      string `json:"type"` // queue, bus, hybrid or none
}

// StoredMessage is a message as the broker has it, whoever has consumed it.
type StoredMessage struct {
	ID            string          `json:"id"`
	TransactionID string          `json:"transactionId"`
	PartitionID   string          `json:"partitionId"`
	Queue         string          `json:"queue"`
	Partition     string          `json:"partition"`
	Namespace     string          `json:"namespace"`
	Task          string          `json:"task"`
	Status        string          `json:"status"`
	TraceID       string          `json:"traceId"`     // empty for none
	ProducerSub   string          `json:"producerSub"` // empty for none
	CreatedAt     time.Time       `json:"createdAt"`
	LeaseEnd      time.Time       `json:"leaseExpiresAt"` // zero: not leased
	Data          json.RawMessage `json:"data"`
}

// ListedMessage is a StoredMessage of a list.
type ListedMessage struct {
	StoredMessage
	QueueStatus string `json:"queueStatus"`      // what the queue mode alone makes of it
	Available   bool   `json:"payloadAvailable"` // false: removed while the list was made
	Bus         struct {
		ConsumedBy  int `json:"consumedBy"`
		TotalGroups int `json:"totalGroups"`
	} `json:"busStatus"`
}

// MessagePage is a page of stored messages, newest first.
type MessagePage struct {
	Messages  []ListedMessage `json:"messages"`
	Mode      Consumption     `json:"mode"`
	Truncated bool            `json:"truncated"` // the broker stopped before the page was full
}

// Messages lists stored messages, newest first over all partitions. It takes none.
func (c *Client) Messages(ctx context.Context, f MessageFilter) (MessagePage, error) {
	query := appendText(nil, "queue", f.Queue)
	query = appendText(query, "partition", f.Partition)
	query = appendText(query, "namespace", f.Namespace)
	query = appendText(query, "task", f.Task)
	query = appendText(query, "status", f.Status)
	query = appendTime(query, "from", f.From)
	query = appendTime(query, "to", f.To)
	query = appendInt(query, "limit", f.Limit)
	query = appendInt(query, "offset", f.Offset)
	path := "/api/v1/messages"
	if len(query) > 0 {
		path += "?" + string(query[1:])
	}
	var page MessagePage
	err := c.call(ctx, "GET", path, nil, &page)
	return page, err
}

// MessageDetail is a message and what every group has to do with it.
type MessageDetail struct {
	StoredMessage
	Reason     string `json:"errorMessage"` // of its newest dead letter, empty for none
	RetryCount int    `json:"retryCount"`   // of its newest dead letter
	Groups     []struct {
		Name     string    `json:"name"`
		Consumed bool      `json:"consumed"`
		LeaseEnd time.Time `json:"leaseExpiresAt"` // zero: it holds no lease on the message
	} `json:"consumerGroups"`
	Mode    Consumption `json:"mode"`
	Options Options     `json:"queueConfig"`
}

// Message describes one message, of several with the id the newest. One that does not
// exist is an *Error with status 404.
func (c *Client) Message(ctx context.Context, partitionID, transactionID string) (MessageDetail, error) {
	var d MessageDetail
	err := c.call(ctx, "GET", messagePath(partitionID, transactionID), nil, &d)
	return d, err
}
