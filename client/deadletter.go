package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"
)

// DeadLetterFilter selects dead letters; empty fields select all.
type DeadLetterFilter struct {
	Queue     string
	Group     string
	Partition string
	From      time.Time // when it failed, at the earliest; zero: no bound
	To        time.Time // at the latest; zero: no bound
	Limit     int       // 0: the broker's 100
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
	query = appendTime(query, "from", f.From)
	query = appendTime(query, "to", f.To)
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

// appendTime adds a parameter that is absent when zero.
func appendTime(b []byte, key string, t time.Time) []byte {
	if t.IsZero() {
		return b
	}
	return appendText(b, key, t.UTC().Format(time.RFC3339Nano))
}

// messagePath is the path of a message's address.
func messagePath(partitionID, transactionID string) string {
	return "/api/v1/messages/" + segment(partitionID) + "/" + segment(transactionID)
}

// DeleteDeadLetters removes the dead letters of one message, those of all groups, and
// reports whether there were any. Repeated after a lost answer it reports that there were
// none.
func (c *Client) DeleteDeadLetters(ctx context.Context, partitionID, transactionID string) (bool, error) {
	var answer struct {
		Success bool `json:"success"`
	}
	err := c.call(ctx, "DELETE", messagePath(partitionID, transactionID), nil, &answer)
	var e *Error
	if errors.As(err, &e) && e.Status == http.StatusNotFound && e.Code == "" {
		return false, nil
	}
	return answer.Success, err
}

// PurgeDeadLetters removes the dead letters of a queue, or with a group those of that
// group, and returns how many.
func (c *Client) PurgeDeadLetters(ctx context.Context, queue, group string) (int, error) {
	query := appendText(nil, "queue", queue)
	query = appendText(query, "consumerGroup", group)
	path := "/api/v1/dlq"
	if len(query) > 0 {
		path += "?" + string(query[1:])
	}
	var answer struct {
		Deleted int `json:"deleted"`
	}
	err := c.call(ctx, "DELETE", path, nil, &answer)
	return answer.Deleted, err
}

// Replay is what became of a dead letter that was moved back into a queue.
type Replay struct {
	Moved                 bool // false: the partition has its message already, and the dead letter stays
	Queue                 string
	Partition             string
	Group                 string
	DeadLetterID          string
	OriginalTransactionID string
	TransactionID         string // of the new message
	MessageID             string
	Offset                int64
}

// ReplayTarget is where a dead letter goes. nil leaves a half as it was.
type ReplayTarget struct {
	Queue     *string `json:"queue,omitempty"`
	Partition *string `json:"partition,omitempty"`
}

// ReplayDeadLetter moves a dead letter to the end of its partition, or of another. One
// that is gone is an *Error with status 404. After a lost answer it is not repeated, and
// may be: what has been moved is gone.
func (c *Client) ReplayDeadLetter(ctx context.Context, id string, to ReplayTarget) (Replay, error) {
	return c.replay(ctx, "/api/v1/dlq/"+segment(id)+"/replay", to)
}

// RetryDeadLetter is ReplayDeadLetter for the newest dead letter of a message.
func (c *Client) RetryDeadLetter(ctx context.Context, partitionID, transactionID string) (Replay, error) {
	return c.replay(ctx, messagePath(partitionID, transactionID)+"/retry", ReplayTarget{})
}

func (c *Client) replay(ctx context.Context, path string, to ReplayTarget) (Replay, error) {
	r := request{method: "POST", path: path, timeout: c.timeout, once: true}
	var err error
	if r.body, err = json.Marshal(to); err != nil {
		return Replay{}, fmt.Errorf("client: POST %s: %w", path, err)
	}
	body, err := c.do(ctx, r)
	if err != nil {
		return Replay{}, err
	}
	var answer struct {
		Success     bool   `json:"success"`
		Queue       string `json:"queue"`
		Partition   string `json:"partition"`
		Group       string `json:"consumerGroup"`
		ID          string `json:"dlqId"`
		Transaction string `json:"originalTransactionId"`
		ReplayedAs  struct {
			MessageID     string `json:"message_id"`
			TransactionID string `json:"transaction_id"`
			Offset        int64  `json:"offset"`
		} `json:"replayedAs"`
		Removed bool `json:"dlqRowRemoved"`
	}
	if err := decode(body, &answer); err != nil {
		return Replay{}, err
	}
	if !answer.Success {
		return Replay{}, fmt.Errorf("%w: dead letter not replayed", ErrProtocol)
	}
	as := answer.ReplayedAs
	return Replay{
		Moved: answer.Removed, Queue: answer.Queue, Partition: answer.Partition, Group: answer.Group, DeadLetterID: answer.ID,
		OriginalTransactionID: answer.Transaction, TransactionID: as.TransactionID, MessageID: as.MessageID, Offset: as.Offset,
	}, nil
}
