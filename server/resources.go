package server

import (
	"slices"
	"strconv"
	"strings"

	"github.com/valyala/fasthttp"

	"github.com/skepmq/skep/broker"
	"github.com/skepmq/skep/server/codec"
)

// defaultPartitionLimit cuts the partitions of one queue's detail.
const defaultPartitionLimit = 10_000

// counts are the numbers that queues and partitions are described by. What is
// retained and neither pending nor leased has been completed by every group.
type counts struct {
	total, pending, processing, deadLetters int64
}

func (c counts) append(b []byte) []byte {
	b = append(b, `{"total":`...)
	b = strconv.AppendInt(b, c.total, 10)
	b = append(b, `,"pending":`...)
	b = strconv.AppendInt(b, c.pending, 10)
	b = append(b, `,"processing":`...)
	b = strconv.AppendInt(b, c.processing, 10)
	b = append(b, `,"completed":`...)
	b = strconv.AppendInt(b, max(c.total-c.pending-c.processing, 0), 10)
	b = append(b, `,"failed":null,"deadLetter":`...)
	b = strconv.AppendInt(b, c.deadLetters, 10)
	return append(b, '}')
}

// listQueues answers GET /api/v1/resources/queues: newest first, filtered by label.
func (r *request) listQueues() {
	r.abandonBody()
	q, ok := r.filters()
	if !ok {
		return
	}
	queues, err := r.broker.Queues(r.tenant)
	if err != nil {
		r.fail(err)
		return
	}
	queues = filterQueues(queues, q)
	b := append(r.answer(), `{"queues":[`...)
	for i := range queues {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendQueue(b, &queues[i])
	}
	r.send(fasthttp.StatusOK, append(b, `]}`...))
}

func appendQueue(b []byte, q *broker.QueueInfo) []byte {
	b = append(b, '{')
	b = appendIdentity(b, q)
	b = append(b, `,"partitions":`...)
	b = strconv.AppendInt(b, int64(q.Partitions), 10)
	b = appendStorage(b, q)
	b = append(b, `,"messages":{"total":`...)
	b = strconv.AppendInt(b, q.Total, 10)
	b = append(b, `,"pending":`...)
	b = strconv.AppendInt(b, q.Pending, 10)
	b = append(b, `,"processing":`...)
	b = strconv.AppendInt(b, q.Processing, 10)
	return append(appendDamaged(append(b, '}'), q.Damaged), '}')
}

// appendDamaged says how many partitions are out of service, if any are.
func appendDamaged(b []byte, n int) []byte {
	if n == 0 {
		return b
	}
	return strconv.AppendInt(append(b, `,"damagedPartitions":`...), int64(n), 10)
}

// filterQueues sorts the queues, newest first, and keeps those that were asked for.
func filterQueues(queues []broker.QueueInfo, q filters) []broker.QueueInfo {
	return window(matching(queues, q), q.number("offset", 0), q.number("limit", -1))
}

// window returns at most limit elements from offset on; a negative limit is none.
func window[T any](all []T, offset, limit int64) []T {
	all = all[min(max(offset, 0), int64(len(all))):]
	if limit >= 0 {
		all = all[:min(limit, int64(len(all)))]
	}
	return all
}

// appendIdentity appends the five keys that every description of a queue begins with.
func appendIdentity(b []byte, q *broker.QueueInfo) []byte {
	b = append(b, `"id":`...)
	b = codec.AppendUUID(b, q.ID)
	b = append(b, `,"name":`...)
	b = codec.AppendString(b, q.Name)
	b = append(b, `,"namespace":`...)
	b = codec.AppendString(b, q.Options.Namespace)
	b = append(b, `,"task":`...)
	b = codec.AppendString(b, q.Options.Task)
	b = append(b, `,"createdAt":`...)
	return appendTime(b, q.CreatedAtMs)
}

func appendStorage(b []byte, q *broker.QueueInfo) []byte {
	b = append(b, `,"retainedBytes":`...)
	b = strconv.AppendInt(b, q.RetainedBytes, 10)
	b = append(b, `,"segments":{"segments":`...)
	b = strconv.AppendInt(b, int64(q.Segments), 10)
	b = append(b, `,"messages":`...)
	b = strconv.AppendInt(b, q.Total, 10)
	return append(b, '}')
}

// appendTime appends a quoted time, or null for 0.
func appendTime(b []byte, ms int64) []byte {
	if ms == 0 {
		return append(b, "null"...)
	}
	return codec.AppendTimeMs(b, ms)
}

// describeQueue answers GET /api/v1/resources/queues/:queue. Totals cover all
// partitions, also when the list of them is cut.
func (r *request) describeQueue() {
	r.abandonBody()
	q, ok := r.filters()
	if !ok {
		return
	}
	queue, partitions, err := r.broker.Queue(r.tenant, r.param(0))
	if err != nil {
		r.fail(err)
		return
	}
	offset, limit := q.number("partitionOffset", 0), q.number("partitionLimit", defaultPartitionLimit)
	sortPartitions(partitions)
	shown := window(partitions, offset, limit)
	if !r.makeRoom(partitionsBytes(shown, detailBytes)) {
		return
	}

	b := append(r.answer(), '{')
	b = appendIdentity(b, &queue)
	b = append(b, `,"partitions":[`...)
	for i := range shown {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendPartition(b, &shown[i])
	}
	b = append(b, `],"totals":`...)
	b = counts{queue.Total, queue.Pending, queue.Processing, queue.DeadLetters}.append(b)
	b = appendStorage(b, &queue)
	b = append(b, `,"options":`...)
	b = appendOptions(b, &queue.Options, true)
	b = append(b, `,"partitionCount":`...)
	b = strconv.AppendInt(b, int64(len(partitions)), 10)
	if len(shown) < len(partitions) {
		b = append(b, `,"partitionsTruncated":true`...)
	}
	b = append(appendDamaged(b, queue.Damaged), '}')
	r.settle(b)
	r.send(fasthttp.StatusOK, b)
}

// About what a partition takes in an answer, beside its name: described, its backlog, and
// how far a group has come.
const (
	detailBytes   = 300
	backlogBytes  = 80
	progressBytes = 200
)

// partitionsBytes returns about how long the list of partitions is.
func partitionsBytes(partitions []broker.PartitionInfo, each int) int {
	n := len(partitions) * each
	for i := range partitions {
		n += len(partitions[i].Name)
	}
	return n
}

func sortPartitions(partitions []broker.PartitionInfo) {
	slices.SortFunc(partitions, func(a, b broker.PartitionInfo) int { return strings.Compare(a.Name, b.Name) })
}

func appendPartition(b []byte, p *broker.PartitionInfo) []byte {
	b = append(b, `{"id":`...)
	b = codec.AppendUUID(b, p.ID)
	b = append(b, `,"name":`...)
	b = codec.AppendString(b, p.Name)
	b = append(b, `,"createdAt":`...)
	b = appendTime(b, p.CreatedAtMs)
	b = append(b, `,"stats":`...)
	b = counts{p.Total, p.Pending, p.Processing, p.DeadLetters}.append(b)
	b = append(b, `,"oldestMessage":`...)
	b = appendTime(b, p.OldestMs)
	b = append(b, `,"newestMessage":`...)
	b = appendTime(b, p.NewestMs)
	if p.Damage != nil {
		b = append(b, `,"damaged":true,"damagedFile":`...)
		b = codec.AppendString(b, p.Damage.File)
		b = append(b, `,"damagedPosition":`...)
		b = strconv.AppendInt(b, p.Damage.Position, 10)
	}
	return append(b, '}')
}

// deleteQueue answers DELETE /api/v1/resources/queues/:queue, always 200: clients
// delete before they create.
func (r *request) deleteQueue() {
	r.abandonBody()
	name := r.param(0)
	existed, err := r.broker.DeleteQueue(r.tenant, name)
	if err != nil {
		r.fail(err)
		return
	}
	b := append(r.answer(), `{"deleted":`...)
	b = strconv.AppendBool(b, existed)
	b = append(b, `,"queue":`...)
	b = codec.AppendString(b, name)
	b = append(b, `,"existed":`...)
	b = strconv.AppendBool(b, existed)
	if !existed {
		b = append(b, `,"message":"Queue not found, nothing was deleted"`...)
	}
	r.send(fasthttp.StatusOK, append(b, '}'))
}
