package client

import (
	"context"
	"fmt"
	"strconv"
	"time"
)

// queueMode is the group of consumers that name none.
const queueMode = "__QUEUE_MODE__"

func groupPath(name string) string {
	if name == "" {
		name = queueMode
	}
	return "/api/v1/consumer-groups/" + segment(name)
}

// seekPath is the route that moves the group of q, in the partition q is pinned to or in
// all of its queue.
func (q Queue) seekPath() string {
	path := groupPath(q.group) + "/queues/" + segment(q.name)
	if q.pinned {
		path += "/partitions/" + segment(q.partition)
	}
	return path + "/seek"
}

// Seek moves the group of q to the first batch stored at an instant or later: in the
// partition q is pinned to, or in all of the queue. Leases of the group end there, and
// messages it had acknowledged come again. It returns how many partitions were moved. A
// queue or partition that does not exist is an *Error with status 404.
func (q Queue) Seek(ctx context.Context, at time.Time) (partitions int, err error) {
	in := map[string]string{"timestamp": at.UTC().Format(time.RFC3339Nano)}
	var answer seekAnswer
	if err := q.c.call(ctx, "POST", q.seekPath(), in, &answer); err != nil {
		return 0, err
	}
	return answer.partitions(), nil
}

// SeekToEnd moves the group of q behind everything stored so far, as Seek does to an
// instant. It is not sent again once it may have taken effect: what was stored in between
// would be passed over too.
func (q Queue) SeekToEnd(ctx context.Context) (partitions int, err error) {
	body, err := q.c.do(ctx, request{
		method: "POST", path: q.seekPath(), body: []byte(`{"toEnd":true}`), timeout: q.c.timeout, once: true,
	})
	if err != nil {
		return 0, err
	}
	var answer seekAnswer
	if err := decode(body, &answer); err != nil {
		return 0, err
	}
	return answer.partitions(), nil
}

type seekAnswer struct {
	Updated    bool `json:"updated"` // of one partition
	Partitions int  `json:"partitionsUpdated"`
}

func (a seekAnswer) partitions() int {
	if a.Updated {
		return 1
	}
	return a.Partitions
}

// DeleteGroup deletes the group of q in its queue and returns how many cursors it had. A
// consumer of that name starts over by its own subscription, or with keepSubscription by
// the stored one. Dead letters stay.
func (q Queue) DeleteGroup(ctx context.Context, keepSubscription bool) (cursors int, err error) {
	return q.c.deleteGroup(ctx, groupPath(q.group)+"/queues/"+segment(q.name), keepSubscription)
}

// DeleteGroup is Queue.DeleteGroup for every queue.
func (c *Client) DeleteGroup(ctx context.Context, name string, keepSubscription bool) (cursors int, err error) {
	return c.deleteGroup(ctx, groupPath(name), keepSubscription)
}

func (c *Client) deleteGroup(ctx context.Context, path string, keepSubscription bool) (int, error) {
	var answer struct {
		Deleted int `json:"deletedPartitions"`
	}
	err := c.call(ctx, "DELETE", path+"?deleteMetadata="+strconv.FormatBool(!keepSubscription), nil, &answer)
	return answer.Deleted, err
}

// MoveSubscription changes where a group begins in partitions that come into being from
// now on, in every queue where it is registered, and returns how many these are.
func (c *Client) MoveSubscription(ctx context.Context, group string, at time.Time) (queues int, err error) {
	in := map[string]string{"subscriptionTimestamp": at.UTC().Format(time.RFC3339Nano)}
	var answer struct {
		Rows int `json:"rowsUpdated"`
	}
	err = c.call(ctx, "POST", groupPath(group)+"/subscription", in, &answer)
	return answer.Rows, err
}

// GroupInfo describes a consumer group of one queue.
type GroupInfo struct {
	Name              string     `json:"name"`
	Queue             string     `json:"queueName"`
	Cursors           int        `json:"partitionCursors"`
	PartitionsWithLag int        `json:"partitionsWithLag"`
	Lag               int64      `json:"totalLag"`
	LagSeconds        int64      `json:"maxTimeLag"`
	State             string     `json:"state"`                 // Stable, Lagging or Dead
	SubscriptionMode  string     `json:"subscriptionMode"`      // "" without a registration
	SubscriptionFrom  *time.Time `json:"subscriptionTimestamp"` // nil without one
	SubscribedAt      *time.Time `json:"subscriptionCreatedAt"`
	Conflation        bool       `json:"conflation"`
	EvictedUnread     int64      `json:"evictedUnread"` // messages that were too old before they were acknowledged
}

// Groups describes all groups, by group and queue.
func (c *Client) Groups(ctx context.Context) ([]GroupInfo, error) {
	var groups []GroupInfo
	err := c.call(ctx, "GET", "/api/v1/consumer-groups", nil, &groups)
	return groups, err
}

// GroupPartition is where a group stands in one partition.
type GroupPartition struct {
	Partition      string     `json:"partition"`
	LeaseID        string     `json:"workerId"` // of the live lease; "": none
	LastConsumedAt *time.Time `json:"lastConsumedAt"`
	TotalConsumed  int64      `json:"totalConsumed"`
	Lag            int64      `json:"offsetLag"`
	LagSeconds     int64      `json:"timeLagSeconds"`
}

// Group describes a group in each queue where it has cursors, by name of the queue. Of a
// queue with very many partitions it has the first 10,000.
func (c *Client) Group(ctx context.Context, name string) (map[string][]GroupPartition, error) {
	var answer map[string]struct {
		Partitions []GroupPartition `json:"partitions"`
	}
	if err := c.call(ctx, "GET", groupPath(name), nil, &answer); err != nil {
		return nil, err
	}
	queues := make(map[string][]GroupPartition, len(answer))
	for queue, of := range answer {
		queues[queue] = of.Partitions
	}
	return queues, nil
}

// LaggingPartition is a partition in which a group is behind.
type LaggingPartition struct {
	Group          string     `json:"consumer_group"`
	Queue          string     `json:"queue_name"`
	Partition      string     `json:"partition_name"`
	PartitionID    string     `json:"partition_id"`
	LeaseID        string     `json:"worker_id"` // of the live lease; "": none
	Lag            int64      `json:"offset_lag"`
	LagSeconds     int64      `json:"time_lag_seconds"`
	Oldest         time.Time  `json:"oldest_unconsumed_at"`
	LastConsumedAt *time.Time `json:"last_consumed_at"`
}

// Lagging lists where groups have messages left that are older than a duration, worst
// first, 10,000 at most.
func (c *Client) Lagging(ctx context.Context, longerThan time.Duration) ([]LaggingPartition, error) {
	var rows []LaggingPartition
	path := fmt.Sprintf("/api/v1/consumer-groups/lagging?minLagSeconds=%d", int64(longerThan/time.Second))
	err := c.call(ctx, "GET", path, nil, &rows)
	return rows, err
}

// Depth is the backlog of a queue, leased messages included.
type Depth struct {
	Pending           int64            `json:"pending"`
	Processing        int64            `json:"processing"` // of them leased
	Ready             int64            `json:"ready"`      // of them not
	PartitionsPending int64            `json:"partitionsPending"`
	PartitionsReady   int64            `json:"partitionsReady"`
	Partitions        []PartitionDepth `json:"partitions"`
}

// PartitionDepth is the backlog of one partition.
type PartitionDepth struct {
	Partition  string `json:"partition"`
	Pending    int64  `json:"pending"`
	Processing int64  `json:"processing"`
	Ready      int64  `json:"ready"`
}

// Depth tells what the group of q has left, or without a group the slowest one. A queue
// that does not exist is an *Error with status 404.
func (q Queue) Depth(ctx context.Context) (Depth, error) {
	path := "/api/v1/resources/queues/" + segment(q.name) + "/depth"
	if query := appendText(nil, "group", q.group); len(query) > 0 {
		path += "?" + string(query[1:])
	}
	var d Depth
	err := q.c.call(ctx, "GET", path, nil, &d)
	return d, err
}
