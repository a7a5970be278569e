package server

import (
	"math"
	"strconv"

	"github.com/google/uuid"
	"github.com/valyala/fasthttp"

	"github.com/skepmq/skep/broker"
	"github.com/skepmq/skep/server/codec"
)

const (
	// laggingSeconds is how long a group has to be behind to be called so.
	laggingSeconds = 300
	// defaultMinLag is the threshold of the list of lagging partitions, in seconds.
	defaultMinLag = 3600
	// maxLaggingRows is how many of them are listed at most.
	maxLaggingRows = 10_000
)

// listGroups answers GET /api/v1/consumer-groups: a bare array, one element for each
// group and queue.
func (r *request) listGroups() {
	r.abandonBody()
	groups, err := r.broker.Groups(r.tenant)
	if err != nil {
		r.fail(err)
		return
	}
	b := append(r.answer(), '[')
	for i := range groups {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendGroup(b, &groups[i])
	}
	r.send(fasthttp.StatusOK, append(b, ']'))
}

func appendGroup(b []byte, g *broker.GroupInfo) []byte {
	b = append(b, `{"name":`...)
	b = codec.AppendString(b, g.Name)
	b = append(b, `,"topics":[`...)
	b = codec.AppendString(b, g.Queue)
	b = append(b, `],"queueName":`...)
	b = codec.AppendString(b, g.Queue)
	b = append(b, `,"members":`...)
	b = strconv.AppendInt(b, int64(g.Cursors), 10)
	b = append(b, `,"partitionCursors":`...)
	b = strconv.AppendInt(b, int64(g.Cursors), 10)
	b = append(b, `,"partitionsWithLag":`...)
	b = strconv.AppendInt(b, int64(g.PartitionsWithLag), 10)
	b = append(b, `,"totalLag":`...)
	b = strconv.AppendInt(b, g.Lag, 10)
	b = append(b, `,"maxTimeLag":`...)
	b = strconv.AppendInt(b, g.LagSeconds, 10)
	b = append(b, `,"state":"`...)
	b = append(b, groupState(g)...)
	b = append(b, `","storage":"segments","subscriptionMode":`...)
	b = appendStringOrNull(b, g.Mode)
	for _, at := range [...]struct {
		key string
		ms  int64
	}{{"subscriptionTimestamp", g.InstantMs}, {"subscriptionCreatedAt", g.CreatedMs}} {
		b = append(b, `,"`...)
		b = append(b, at.key...)
		b = append(b, `":`...)
		if g.Registered {
			b = codec.AppendTimeMs(b, at.ms)
		} else {
			b = append(b, "null"...)
		}
	}
	b = append(b, `,"conflation":`...)
	b = strconv.AppendBool(b, g.Conflation)
	b = append(b, `,"evictedUnread":`...)
	b = strconv.AppendInt(b, g.EvictedUnread, 10)
	return append(b, '}')
}

func groupState(g *broker.GroupInfo) string {
	switch {
	case g.LagSeconds > laggingSeconds:
		return "Lagging"
	case g.Consumed:
		return "Stable"
	}
	return "Dead"
}

// listLagging answers GET /api/v1/consumer-groups/lagging: a bare array, worst first.
func (r *request) listLagging() {
	r.abandonBody()
	q, ok := r.filters()
	if !ok {
		return
	}
	limit := min(max(q.number("limit", maxLaggingRows), 0), maxLaggingRows)
	rows, err := r.broker.Lagging(r.tenant, q.number("minLagSeconds", defaultMinLag), int(limit))
	if err != nil {
		r.fail(err)
		return
	}
	b := append(r.answer(), '[')
	for i := range rows {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendLagging(b, &rows[i])
	}
	r.send(fasthttp.StatusOK, append(b, ']'))
}

func appendLagging(b []byte, p *broker.LaggingPartition) []byte {
	b = append(b, `{"consumer_group":`...)
	b = codec.AppendString(b, p.Group)
	b = append(b, `,"queue_name":`...)
	b = codec.AppendString(b, p.Queue)
	b = append(b, `,"partition_name":`...)
	b = codec.AppendString(b, p.Partition)
	b = append(b, `,"partition_id":`...)
	b = codec.AppendUUID(b, p.PartitionID)
	b = append(b, `,"worker_id":`...)
	b = appendUUIDOrNull(b, p.LeaseID)
	b = append(b, `,"offset_lag":`...)
	b = strconv.AppendInt(b, p.Lag, 10)
	b = append(b, `,"time_lag_seconds":`...)
	b = strconv.AppendInt(b, p.LagSeconds, 10)
	b = append(b, `,"lag_hours":`...)
	b = strconv.AppendFloat(b, math.Round(float64(p.LagSeconds)/36)/100, 'f', -1, 64)
	b = append(b, `,"oldest_unconsumed_at":`...)
	b = appendTime(b, p.OldestMs)
	b = append(b, `,"last_consumed_at":`...)
	b = appendTime(b, p.LastConsumedMs)
	return append(b, '}')
}

func appendUUIDOrNull(b []byte, id uuid.UUID) []byte {
	if id == uuid.Nil {
		return append(b, "null"...)
	}
	return codec.AppendUUID(b, id)
}

// describeGroup answers GET /api/v1/consumer-groups/:group: an object keyed by queue, {}
// for a group that is nowhere.
func (r *request) describeGroup() {
	r.abandonBody()
	q, ok := r.filters()
	if !ok {
		return
	}
	offset := min(max(q.number("partitionOffset", 0), 0), math.MaxInt32)
	limit := q.number("partitionLimit", defaultPartitionLimit)
	if limit < 0 || limit > math.MaxInt32 {
		limit = math.MaxInt32
	}
	queues, err := r.broker.Group(r.tenant, r.groupParam(), int(offset), int(limit))
	if err != nil {
		r.fail(err)
		return
	}
	if !r.makeRoom(groupBytes(queues)) {
		return
	}
	b := append(r.answer(), '{')
	for i := range queues {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendGroupQueue(b, &queues[i])
	}
	b = append(b, '}')
	r.settle(b)
	r.send(fasthttp.StatusOK, b)
}

// groupBytes returns about how long the description of a group is.
func groupBytes(queues []broker.GroupQueue) (n int) {
	for i := range queues {
		n += progressBytes + len(queues[i].Queue)
		for j := range queues[i].Partitions {
			n += progressBytes + len(queues[i].Partitions[j].Partition)
		}
	}
	return n
}

func appendGroupQueue(b []byte, q *broker.GroupQueue) []byte {
	b = codec.AppendString(b, q.Queue)
	b = append(b, `:{"conflation":`...)
	b = strconv.AppendBool(b, q.Conflation)
	b = append(b, `,"evictedUnread":`...)
	b = strconv.AppendInt(b, q.EvictedUnread, 10)
	b = append(b, `,"partitions":[`...)
	for i := range q.Partitions {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendGroupPartition(b, &q.Partitions[i])
	}
	b = append(b, `],"partitionCount":`...)
	b = strconv.AppendInt(b, int64(q.Count), 10)
	if len(q.Partitions) < q.Count {
		b = append(b, `,"partitionsTruncated":true`...)
	}
	return append(b, '}')
}

func appendGroupPartition(b []byte, p *broker.GroupPartition) []byte {
	b = append(b, `{"partition":`...)
	b = codec.AppendString(b, p.Partition)
	b = append(b, `,"workerId":`...)
	b = appendUUIDOrNull(b, p.LeaseID)
	b = append(b, `,"lastConsumedAt":`...)
	b = appendTime(b, p.LastConsumedMs)
	b = append(b, `,"totalConsumed":`...)
	b = strconv.AppendInt(b, p.Consumed, 10)
	b = append(b, `,"offsetLag":`...)
	b = strconv.AppendInt(b, p.Lag, 10)
	b = append(b, `,"timeLagSeconds":`...)
	b = strconv.AppendInt(b, p.LagSeconds, 10)
	b = append(b, `,"leaseActive":`...)
	b = strconv.AppendBool(b, p.LeaseID != uuid.Nil)
	return append(b, '}')
}

// groupParam returns the group in the path; an empty one is queue mode.
func (r *request) groupParam() string { return groupOrQueueMode(r.param(0)) }

// deleteGroup answers DELETE /api/v1/consumer-groups/:group, always 200.
func (r *request) deleteGroup() {
	r.abandonBody()
	q, ok := r.filters()
	if !ok {
		return
	}
	keep := keepsMetadata(q)
	n, err := r.broker.DeleteGroups(r.tenant, r.groupParam(), keep)
	if err != nil {
		r.fail(err)
		return
	}
	b := r.appendGroupName(append(r.answer(), `{"success":true`...))
	r.send(fasthttp.StatusOK, appendDeletedGroup(b, n, keep))
}

// deleteQueueGroup answers DELETE /api/v1/consumer-groups/:group/queues/:queue, always
// 200.
func (r *request) deleteQueueGroup() {
	r.abandonBody()
	q, ok := r.filters()
	if !ok {
		return
	}
	keep := keepsMetadata(q)
	n, err := r.broker.DeleteGroup(r.tenant, r.groupParam(), r.param(1), keep)
	if err != nil {
		r.fail(err)
		return
	}
	b := r.appendQueueName(r.appendGroupName(append(r.answer(), `{"success":true`...)))
	r.send(fasthttp.StatusOK, appendDeletedGroup(b, n, keep))
}

// keepsMetadata reports whether the registrations are to stay.
func keepsMetadata(q filters) bool { return !q.truth("deleteMetadata", true) }

func appendDeletedGroup(b []byte, cursors int, kept bool) []byte {
	b = append(b, `,"deletedPartitions":`...)
	b = strconv.AppendInt(b, int64(cursors), 10)
	b = append(b, `,"metadataDeleted":`...)
	b = strconv.AppendBool(b, !kept)
	return append(b, '}')
}

func (r *request) appendGroupName(b []byte) []byte {
	b = append(b, `,"consumerGroup":`...)
	return codec.AppendString(b, groupOrQueueMode(borrow(r.params[0])))
}

func (r *request) appendQueueName(b []byte) []byte {
	b = append(b, `,"queueName":`...)
	return codec.AppendString(b, r.params[1])
}
