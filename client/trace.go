package client

import (
	"context"
	"encoding/json"
	"time"
)

// Trace is a note about a message. The broker finds it by the message and by its names.
type Trace struct {
	Event string   // empty: "info"
	Names []string // of an order, a customer, a kind of work; 64 at the most, of 511 bytes
	Data  any      // encoded as JSON
}

// Trace notes something about m and returns the id of the note. The message is not touched,
// and may be gone. A note whose answer was lost may be there twice.
func (c *Client) Trace(ctx context.Context, m Message, t Trace) (id string, err error) {
	in := struct {
		TransactionID string   `json:"transactionId"`
		PartitionID   string   `json:"partitionId"`
		Group         string   `json:"consumerGroup,omitempty"`
		Event         string   `json:"eventType,omitempty"`
		Data          any      `json:"data"`
		Names         []string `json:"traceNames,omitempty"`
	}{m.TransactionID, m.PartitionID, m.Group, t.Event, t.Data, t.Names}
	var answer struct {
		ID string `json:"traceId"`
	}
	err = c.call(ctx, "POST", "/api/v1/traces", in, &answer)
	return answer.ID, err
}

// TraceRecord is a trace as the broker has it. Only TracesNamed tells where its message is.
type TraceRecord struct {
	ID            string          `json:"id"`
	TransactionID string          `json:"transaction_id"`
	PartitionID   string          `json:"partition_id"`
	Queue         string          `json:"queue_name"`
	Partition     string          `json:"partition_name"`
	Event         string          `json:"event_type"`
	Group         string          `json:"consumer_group"`
	Names         []string        `json:"trace_names"`
	Data          json.RawMessage `json:"data"`
	CreatedAt     time.Time       `json:"created_at"`
}

// TracePage is a page of traces, oldest first.
type TracePage struct {
	Traces    []TraceRecord `json:"traces"`
	Total     int           `json:"total"`     // of all pages; 0 for those of one message
	Truncated bool          `json:"truncated"` // the page ended early, because it was long
}

// TracesOf returns the traces of a message.
func (c *Client) TracesOf(ctx context.Context, partitionID, transactionID string) (TracePage, error) {
	var page TracePage
	err := c.call(ctx, "GET", "/api/v1/traces/"+segment(partitionID)+"/"+segment(transactionID), nil, &page)
	return page, err
}

// TracesNamed returns the traces with a name, of partitions that exist. A limit of 0 is the
// broker's 100.
func (c *Client) TracesNamed(ctx context.Context, name string, limit, offset int) (TracePage, error) {
	var page TracePage
	err := c.call(ctx, "GET", "/api/v1/traces/by-name/"+segment(name)+pageQuery(limit, offset), nil, &page)
	return page, err
}

// TraceName is what there is of a name.
type TraceName struct {
	Name     string    `json:"trace_name"`
	Traces   int       `json:"trace_count"`
	Messages int       `json:"message_count"`
	LastSeen time.Time `json:"last_seen"`
}

// TraceNames returns a page of names, those used last first, and how many there are. A limit
// of 0 is the broker's 50.
func (c *Client) TraceNames(ctx context.Context, limit, offset int) (names []TraceName, total int, err error) {
	var answer struct {
		Names []TraceName `json:"trace_names"`
		Total int         `json:"total"`
	}
	err = c.call(ctx, "GET", "/api/v1/traces/names"+pageQuery(limit, offset), nil, &answer)
	return answer.Names, answer.Total, err
}

// pageQuery is the query of a page, "" for the broker's first.
func pageQuery(limit, offset int) string {
	query := appendInt(appendInt(nil, "limit", limit), "offset", offset)
	if len(query) == 0 {
		return ""
	}
	return "?" + string(query[1:])
}
