package server

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/skepmq/skep/broker"
	"github.com/skepmq/skep/server/codec"
)

// appendKey appends `,"name":`, without the comma behind a brace.
func appendKey(b []byte, name string) []byte {
	e := optionEncoder{b}
	e.key(name)
	return e.b
}

// appendComma parts element i of a list from the one before it.
func appendComma(b []byte, i int) []byte {
	if i > 0 {
		b = append(b, ',')
	}
	return b
}

func appendNumber(b []byte, name string, n int64) []byte {
	return strconv.AppendInt(appendKey(b, name), n, 10)
}

// appendRate appends a number with two decimals.
func appendRate(b []byte, name string, v float64) []byte {
	return strconv.AppendFloat(appendKey(b, name), v, 'f', 2, 64)
}

func appendText(b []byte, name, text string) []byte {
	return codec.AppendString(appendKey(b, name), text)
}

func appendInstant(b []byte, name string, at time.Time) []byte {
	return codec.AppendTimeMs(appendKey(b, name), at.UnixMilli())
}

// totalled adds up the queues.
func totalled(queues []broker.QueueInfo) (c counts, partitions int64) {
	for i := range queues {
		q := &queues[i]
		c.total += q.Total
		c.pending += q.Pending
		c.processing += q.Processing
		c.deadLetters += q.DeadLetters
		partitions += int64(q.Partitions)
	}
	return c, partitions
}

// overview answers GET /api/v1/resources/overview. total, completed and failed are what went
// through, the other counts what there is.
func (r *request) overview() {
	r.abandonBody()
	queues, err := r.broker.Queues(r.tenant)
	if err != nil {
		r.fail(err)
		return
	}
	groups, err := r.broker.Groups(r.tenant)
	if err != nil {
		r.fail(err)
		return
	}
	namespaces, tasks := map[string]bool{}, map[string]bool{}
	for i := range queues {
		namespaces[queues[i].Options.Namespace], tasks[queues[i].Options.Task] = true, true
	}
	c, partitions := totalled(queues)
	now := r.server.opts.Now()
	all, lately := r.throughput(now)

	b := append(r.answer(), '{')
	b = appendNumber(b, "queues", int64(len(queues)))
	b = appendNumber(b, "partitions", partitions)
	b = appendNumber(b, "namespaces", int64(len(namespaces)))
	b = appendNumber(b, "tasks", int64(len(tasks)))
	b = append(appendKey(b, "messages"), '{')
	b = appendNumber(b, "total", all[broker.PushedMessages])
	b = appendNumber(b, "pending", c.pending)
	b = appendNumber(b, "processing", c.processing)
	b = appendNumber(b, "completed", all[broker.AckedMessages])
	b = appendNumber(b, "failed", all[broker.FailedAcks])
	b = appendNumber(b, "deadLetter", c.deadLetters)
	b = append(b, `},"lag":{"time":`...)
	b = appendSpread(b, groups, func(g broker.GroupInfo) int64 { return g.LagSeconds })
	b = append(b, `,"offset":`...)
	b = appendSpread(b, groups, func(g broker.GroupInfo) int64 { return g.Lag })
	b = append(b, `},"throughput":{`...)
	b = appendRate(b, "ingestedPerSecond", float64(lately[broker.PushedMessages])/latelySpan.Seconds())
	b = appendRate(b, "processedPerSecond", float64(lately[broker.AckedMessages])/latelySpan.Seconds())
	b = append(b, '}')
	b = appendInstant(b, "timestamp", now)
	r.send(fasthttp.StatusOK, append(appendNumber(b, "statsAge", 0), '}'))
}

// throughput returns what went through since the data directory was made, and in the last
// latelySpan. For a tenant that the request names it is what went through the queues that he
// has, since the start.
func (r *request) throughput(now time.Time) (all, lately broker.Traffic) {
	m := &r.server.minutes
	if r.tenant == broker.DefaultTenant {
		st := r.broker.Stats()
		return m.lifetime(&st), m.lately(now, st.Traffic, minuteEnd.ofAll)
	}
	all = byTenant(r.broker.Traffic(false))[r.tenant]
	return all, m.lately(now, all, func(end minuteEnd) broker.Traffic { return end.tenants[r.tenant] })
}

// appendSpread appends average, median and maximum of a number of the groups; min is 0, as
// that of a group that has done all it could.
func appendSpread(b []byte, groups []broker.GroupInfo, of func(broker.GroupInfo) int64) []byte {
	var all []int64
	var sum int64
	for _, g := range groups {
		all = append(all, of(g))
		sum += of(g)
	}
	slices.Sort(all)
	var average, median, most int64
	if n := len(all); n > 0 {
		average, median, most = sum/int64(n), all[n/2], all[n-1]
	}
	b = appendNumber(append(b, '{'), "avg", average)
	b = appendNumber(b, "median", median)
	b = appendNumber(b, "min", 0)
	return append(appendNumber(b, "max", most), '}')
}

// namespaces answers GET /api/v1/resources/namespaces.
func (r *request) namespaces() {
	r.labels("namespaces", "namespace", func(q *broker.QueueInfo) string { return q.Options.Namespace })
}

// tasks answers GET /api/v1/resources/tasks.
func (r *request) tasks() {
	r.labels("tasks", "task", func(q *broker.QueueInfo) string { return q.Options.Task })
}

// labels adds up the queues by a label; those without one are under "".
func (r *request) labels(list, key string, of func(*broker.QueueInfo) string) {
	r.abandonBody()
	queues, err := r.broker.Queues(r.tenant)
	if err != nil {
		r.fail(err)
		return
	}
	by := map[string][]broker.QueueInfo{}
	for i := range queues {
		by[of(&queues[i])] = append(by[of(&queues[i])], queues[i])
	}
	b := append(appendKey(append(r.answer(), '{'), list), '[')
	for i, label := range slices.Sorted(maps.Keys(by)) {
		if i > 0 {
			b = append(b, ',')
		}
		c, partitions := totalled(by[label])
		b = appendText(append(b, '{'), key, label)
		b = appendNumber(b, "queues", int64(len(by[label])))
		b = appendNumber(b, "partitions", partitions)
		b = append(appendKey(b, "messages"), '{')
		b = appendNumber(b, "total", c.total)
		b = append(appendNumber(b, "pending", c.pending), "}}"...)
	}
	r.send(fasthttp.StatusOK, append(b, "]}"...))
}

const queueRequired = `{"error":"queue is required"}`

// partitions answers GET /api/v1/resources/partitions, by name.
func (r *request) partitions() {
	r.abandonBody()
	q, ok := r.filters()
	if !ok {
		return
	}
	name := q.text("queue")
	if name == "" {
		r.sendText(fasthttp.StatusBadRequest, queueRequired)
		return
	}
	_, all, err := r.broker.Queue(r.tenant, name)
	if err != nil {
		r.fail(err)
		return
	}
	sortPartitions(all)
	shown := window(all, q.number("offset", 0), q.number("limit", defaultPartitionLimit))
	if !r.makeRoom(partitionsBytes(shown, placeBytes+len(name))) {
		return
	}
	b := append(r.answer(), `{"partitions":[`...)
	for i := range shown {
		p := &shown[i]
		if i > 0 {
			b = append(b, ',')
		}
		b = codec.AppendUUID(appendKey(append(b, '{'), "id"), p.ID)
		b = appendText(b, "queue", name)
		b = appendText(b, "name", p.Name)
		b = appendNumber(b, "lastOffset", p.End-1)
		b = appendNumber(b, "logStart", p.Start)
		b = appendNumber(b, "pending", p.Pending)
		b = append(appendTime(appendKey(b, "lastWriteAt"), p.NewestMs), '}')
	}
	b = append(appendNumber(append(b, ']'), "total", int64(len(all))), '}')
	r.settle(b)
	r.send(fasthttp.StatusOK, b)
}

// refreshStats answers POST /api/v1/stats/refresh. The numbers are never old, so there is
// nothing to do.
func (r *request) refreshStats() {
	r.abandonBody()
	began := time.Now()
	st := r.broker.Stats()
	b := append(r.answer(), `{"refreshed":true`...)
	b = appendText(b, "engine", r.server.opts.EngineName)
	b = appendNumber(b, "queues", int64(st.Queues))
	b = appendNumber(b, "segPartitions", int64(st.Partitions))
	r.send(fasthttp.StatusOK, append(appendNumber(b, "durationMs", time.Since(began).Milliseconds()), '}'))
}

// statusQueues answers GET /api/v1/status/queues: newest first.
func (r *request) statusQueues() {
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
	limit, offset := q.number("limit", 100), q.number("offset", 0)
	if name := q.text("queue"); name != "" {
		queues = slices.DeleteFunc(queues, func(i broker.QueueInfo) bool { return i.Name != name })
	}
	queues = window(matching(queues, q), offset, limit)
	b := append(r.answer(), `{"queues":[`...)
	for i := range queues {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendIdentity(append(b, '{'), &queues[i])
		b = appendNumber(b, "partitions", int64(queues[i].Partitions))
		b = append(appendCounts(appendKey(b, "messages"), &queues[i]), '}')
	}
	b = appendNumber(append(b, `],"pagination":{`...), "limit", limit)
	r.send(fasthttp.StatusOK, append(appendNumber(b, "offset", offset), "}}"...))
}

func appendCounts(b []byte, q *broker.QueueInfo) []byte {
	return counts{q.Total, q.Pending, q.Processing, q.DeadLetters}.append(b)
}

// About what a partition takes in these answers, beside its name.
const (
	statusBytes = 600
	placeBytes  = 200
)

// statusQueue answers GET /api/v1/status/queues/:queue, partitions included. Totals cover
// all of them, also when the list is cut.
func (r *request) statusQueue() {
	r.abandonBody()
	q, ok := r.filters()
	if !ok {
		return
	}
	queue, all, err := r.broker.Queue(r.tenant, r.param(0))
	if err != nil {
		r.fail(err)
		return
	}
	sortPartitions(all)
	shown := window(all, q.number("partitionOffset", 0), q.number("partitionLimit", defaultPartitionLimit))
	if !r.makeRoom(partitionsBytes(shown, statusBytes)) {
		return
	}
	o := &queue.Options
	b := append(r.answer(), `{"queue":{`...)
	b = appendIdentity(b, &queue)
	b = appendNumber(b, "priority", o.Priority)
	b = append(appendKey(b, "config"), '{')
	b = appendNumber(b, "leaseTime", o.LeaseTime)
	b = appendNumber(b, "retryLimit", o.RetryLimit)
	b = appendNumber(b, "retryDelay", o.RetryDelay)
	b = appendNumber(b, "ttl", o.TTL)
	b = appendNumber(b, "maxQueueSize", o.MaxSize)
	b = strconv.AppendBool(appendKey(b, "deadLetterQueue"), o.DeadLetterQueue)
	b = append(b, `}},"partitions":[`...)
	for i := range shown {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendPartitionStatus(b, &shown[i])
	}
	b = append(b, `],"totals":{"messages":`...)
	b = appendCounts(b, &queue)
	b = append(b, ',')
	b = append(b, appendCounts(nil, &queue)[1:]...) // and once more beside it
	b = appendNumber(b, "partitionCount", int64(len(all)))
	if len(shown) < len(all) {
		b = append(b, `,"partitionsTruncated":true`...)
	}
	b = append(b, '}')
	r.settle(b)
	r.send(fasthttp.StatusOK, b)
}

func appendPartitionStatus(b []byte, p *broker.PartitionInfo) []byte {
	c := counts{p.Total, p.Pending, p.Processing, p.DeadLetters}
	b = codec.AppendUUID(appendKey(append(b, '{'), "id"), p.ID)
	b = appendText(b, "name", p.Name)
	b = appendTime(appendKey(b, "createdAt"), p.CreatedAtMs)
	b = c.append(appendKey(b, "messages"))
	b = c.append(appendKey(b, "stats"))
	b = appendNumber(append(appendKey(b, "cursor"), '{'), "totalConsumed", p.Consumed)
	b = append(appendNumber(b, "batchesConsumed", 0), '}')
	b = appendTime(appendKey(b, "lastActivity"), p.LastActivityMs)
	b = appendTime(appendKey(b, "oldestMessage"), p.OldestMs)
	return append(appendTime(appendKey(b, "newestMessage"), p.NewestMs), '}')
}

// matching keeps the queues with the labels of a query, newest first.
func matching(queues []broker.QueueInfo, q filters) []broker.QueueInfo {
	namespace, task := q.text("namespace"), q.text("task")
	queues = slices.DeleteFunc(queues, func(i broker.QueueInfo) bool {
		return namespace != "" && i.Options.Namespace != namespace || task != "" && i.Options.Task != task
	})
	slices.SortStableFunc(queues, func(x, y broker.QueueInfo) int {
		return cmp.Or(cmp.Compare(y.CreatedAtMs, x.CreatedAtMs), cmp.Compare(x.Name, y.Name))
	})
	return queues
}
