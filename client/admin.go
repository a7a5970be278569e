package client

import (
	"context"
	"fmt"
	"time"
	"unicode/utf8"
)

// Options are a queue's options. nil leaves an option to the broker's default; since
// Go 1.26 new(5) makes a pointer to a value.
type Options struct {
	Namespace string `json:"namespace,omitempty"`
	Task      string `json:"task,omitempty"`

	LeaseTime                 *int  `json:"leaseTime,omitempty"` // seconds
	RetryLimit                *int  `json:"retryLimit,omitempty"`
	DeadLetterQueue           *bool `json:"deadLetterQueue,omitempty"`
	DLQAfterMaxRetries        *bool `json:"dlqAfterMaxRetries,omitempty"`
	DedupWindowSeconds        *int  `json:"dedupWindowSeconds,omitempty"`
	DelayedProcessing         *int  `json:"delayedProcessing,omitempty"` // seconds
	WindowBuffer              *int  `json:"windowBuffer,omitempty"`      // seconds
	MinPopWaitTime            *int  `json:"minPopWaitTime,omitempty"`    // milliseconds
	RetentionEnabled          *bool `json:"retentionEnabled,omitempty"`
	RetentionSeconds          *int  `json:"retentionSeconds,omitempty"`
	CompletedRetentionSeconds *int  `json:"completedRetentionSeconds,omitempty"`
	MaxWaitTimeSeconds        *int  `json:"maxWaitTimeSeconds,omitempty"`
	EncryptionEnabled         *bool `json:"encryptionEnabled,omitempty"`
	Priority                  *int  `json:"priority,omitempty"`
	RetryDelay                *int  `json:"retryDelay,omitempty"` // milliseconds
	TTL                       *int  `json:"ttl,omitempty"`        // seconds
	MaxSize                   *int  `json:"maxSize,omitempty"`
}

// Configure creates the queue or replaces all its options, the absent ones with
// their defaults, and returns those in effect.
func (q Queue) Configure(ctx context.Context, o Options) (Options, error) {
	if !utf8.ValidString(q.name) {
		return Options{}, fmt.Errorf("%w: queue %q", ErrName, q.name)
	}
	in := struct {
		Queue     string  `json:"queue"`
		Namespace string  `json:"namespace,omitempty"`
		Task      string  `json:"task,omitempty"`
		Options   Options `json:"options"`
	}{q.name, o.Namespace, o.Task, o}
	var answer struct {
		Configured bool    `json:"configured"`
		Namespace  string  `json:"namespace"`
		Task       string  `json:"task"`
		Options    Options `json:"options"`
	}
	if err := q.c.call(ctx, "POST", "/api/v1/configure", in, &answer); err != nil {
		return Options{}, err
	}
	if !answer.Configured {
		return Options{}, fmt.Errorf("%w: queue not configured", ErrProtocol)
	}
	answer.Options.Namespace, answer.Options.Task = answer.Namespace, answer.Task
	return answer.Options, nil
}

// Delete removes the queue and everything in it, and reports whether it existed.
func (q Queue) Delete(ctx context.Context) (bool, error) {
	var answer struct {
		Existed bool `json:"existed"`
	}
	err := q.c.call(ctx, "DELETE", "/api/v1/resources/queues/"+segment(q.name), nil, &answer)
	return answer.Existed, err
}

// Stats counts messages.
type Stats struct {
	Total       int64 `json:"total"`      // retained
	Pending     int64 `json:"pending"`    // behind the slowest group
	Processing  int64 `json:"processing"` // leased
	Completed   int64 `json:"completed"`
	DeadLetters int64 `json:"deadLetter"`
}

// PartitionInfo describes a partition.
type PartitionInfo struct {
	ID        string    `json:"id"`
	Name      string    `json:"name"`
	CreatedAt time.Time `json:"createdAt"`
	Stats     Stats     `json:"stats"`
}

// QueueInfo describes a queue with all its partitions: large for a queue with many.
type QueueInfo struct {
	ID            string          `json:"id"`
	Name          string          `json:"name"`
	Namespace     string          `json:"namespace"`
	Task          string          `json:"task"`
	CreatedAt     time.Time       `json:"createdAt"`
	Partitions    []PartitionInfo `json:"partitions"`
	Totals        Stats           `json:"totals"`
	RetainedBytes int64           `json:"retainedBytes"`
	Options       *Options        `json:"options"` // nil if the broker does not tell
}

// Info describes the queue. A queue that does not exist is an *Error with status 404.
func (q Queue) Info(ctx context.Context) (QueueInfo, error) {
	var info QueueInfo
	err := q.c.call(ctx, "GET", "/api/v1/resources/queues/"+segment(q.name), nil, &info)
	return info, err
}

// Health asks once, without retries, whether the broker is ready to serve. It returns
// nil, an *Error with what the broker says, or why it could not be asked.
func (c *Client) Health(ctx context.Context) error {
	_, err := c.do(ctx, request{method: "GET", path: "/health", timeout: c.timeout, single: true})
	return err
}
