package client

import (
	"context"
	"encoding/json"
	"time"
)

// DeadLetterFilter selects dead letters; empty fields select all.
type DeadLetterFilter struct {
	Queue     string
	Group     string
	Partition string
	Limit     int // 0: the broker's 100
	Offset    int
}

// DeadLetterRecord is a message that was set aside for one group.
type DeadLetterRecord struct {
	ID            string          `json:"id"`
	TransactionID string          `json:"transactionId"`
	PartitionID   string          `json:"partitionId"`
	Queue         string          `json:"queue"`
	Partition     string          `json:"partition"`
	Group         string          `json:"consumerGroup"`
	Reason        string          `json:"errorMessage"`
	RetryCount    int             `json:"retryCount"`
	Data          json.RawMessage `json:"data"`
	CreatedAt     time.Time       `json:"createdAt"`
	FailedAt      time.Time       `json:"failedAt"`
}

// DeadLetters lists dead letters, newest first.
func (c *Client) DeadLetters(ctx context.Context, f DeadLetterFilter) ([]DeadLetterRecord, error) {
	query := appendInt(nil, "offset", f.Offset)
	query = appendInt(query, "limit", f.Limit)
	query = appendText(query, "queue", f.Queue)
	query = appendText(query, "consumerGroup", f.Group)
	query = appendText(query, "partition", f.Partition)
	path := "/api/v1/dlq"
	if len(query) > 0 {
		path += "?" + string(query[1:])
	}
	var answer struct {
		Messages []DeadLetterRecord `json:"messages"`
	}
	if err := c.call(ctx, "GET", path, nil, &answer); err != nil {
		return nil, err
	}
	return answer.Messages, nil
}
