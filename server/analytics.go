package server

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/valyala/fasthttp"

	"github.com/skepmq/skep/broker"
	"github.com/skepmq/skep/server/codec"
)

// seriesTime is how much of the past series show whose query does not say.
const seriesTime = time.Hour

// About what a row takes in these answers, beside its name.
const (
	lagBytes       = 130
	opsBytes       = 420
	parkedBytes    = 120
	retentionBytes = 160
)

// queueSeries reads the query and sums up what the tenant's queues had, by name, or answers
// for it. It makes room for the rows, each of so many bytes and its name.
func (r *request) queueSeries(each int) (*series, []row, bool) {
	r.abandonBody()
	q, ok := r.filters()
	if !ok {
		return nil, nil, false
	}
	t, ok := r.timeRange(q, seriesTime, 0)
	if !ok {
		return nil, nil, false
	}
	s, ok := r.series(r.walk(t, q, &r.tenant), func(is *broker.QueueTraffic) string { return is.Name })
	if !ok {
		return nil, nil, false
	}
	rows := s.sorted()
	n := 0
	for _, at := range rows {
		n += each + len(at.key)
	}
	return s, rows, r.makeRoom(n)
}

// queueLag answers GET /api/v1/analytics/queue-lag: the newest bucket first.
func (r *request) queueLag() {
	s, rows, ok := r.queueSeries(lagBytes)
	if !ok {
		return
	}
	slices.SortStableFunc(rows, func(x, y row) int { return cmp.Compare(y.ms, x.ms) })
	b := append(r.answer(), '[')
	for i, at := range rows {
		if i > 0 {
			b = append(b, ',')
		}
		had := s.rows[at]
		b = appendText(append(b, '{'), "queueName", at.key)
		b = appendNumber(b, "popCount", had.Traffic[broker.PoppedMessages])
		b = appendLags(b, had)
		b = appendNumber(b, "bucketMinutes", s.widthMs/minuteMs)
		b = append(appendBucket(b, "bucketTime", at.ms), '}')
	}
	b = append(b, ']')
	r.settle(b)
	r.send(fasthttp.StatusOK, b)
}

// appendLags appends how old messages were at their delivery. Of none nobody knows.
func appendLags(b []byte, had *bucket) []byte {
	popped := had.Traffic[broker.PoppedMessages]
	if popped == 0 {
		return append(b, `,"avgLagMs":null,"maxLagMs":null`...)
	}
	b = appendNumber(b, "avgLagMs", had.Traffic[broker.LagMs]/popped)
	return appendNumber(b, "maxLagMs", had.maxLagMs)
}

// queueOps answers GET /api/v1/analytics/queue-ops: the oldest bucket first.
func (r *request) queueOps() {
	s, rows, ok := r.queueSeries(opsBytes)
	if !ok {
		return
	}
	b := appendTimeRange(append(r.answer(), '{'), &s.timeRange)
	b = append(b, `,"series":[`...)
	for i, at := range rows {
		if i > 0 {
			b = append(b, ',')
		}
		b = s.appendOps(b, at)
	}
	names := map[string]bool{}
	for _, at := range rows {
		names[at.key] = true
	}
	b = append(b, `],"queues":[`...)
	for i, name := range slices.Sorted(maps.Keys(names)) {
		if i > 0 {
			b = append(b, ',')
		}
		b = codec.AppendString(b, name)
	}
	b = append(b, "]}"...)
	r.settle(b)
	r.send(fasthttp.StatusOK, b)
}

func (s *series) appendOps(b []byte, at row) []byte {
	had := s.rows[at]
	t := &had.Traffic
	b = appendBucket(append(b, '{'), "bucket", at.ms)
	b = appendText(b, "queueName", at.key)
	b = appendNumber(b, "pushRequests", t[broker.PushRequests])
	b = appendNumber(b, "pushMessages", t[broker.PushedMessages])
	b = appendNumber(b, "popMessages", t[broker.PoppedMessages])
	b = appendNumber(b, "popEmpty", t[broker.EmptyPops])
	b = appendNumber(b, "ackRequests", t[broker.AckRequests])
	b = appendNumber(b, "ackSuccess", t[broker.AckedMessages])
	b = appendNumber(b, "ackFailed", t[broker.FailedAcks])
	b = appendNumber(b, "transactions", t[broker.Transactions])
	b = appendNumber(b, "partitionsCreated", t[broker.PartitionsCreated])
	b = appendNumber(b, "partitionsDeleted", t[broker.PartitionsRemoved])
	b = appendNumber(b, "partitionCount", had.partitions)
	b = appendLags(b, had)
	b = appendRate(b, "pushPerSecond", s.perSecond(t[broker.PushedMessages]))
	b = appendRate(b, "popPerSecond", s.perSecond(t[broker.PoppedMessages]))
	b = appendRate(b, "ackPerSecond", s.perSecond(t[broker.AckedMessages]+t[broker.FailedAcks]))
	b = appendRate(b, "emptyPerSecond", s.perSecond(t[broker.EmptyPops]))
	return append(appendRate(b, "parkedCount", s.parked(at)), '}')
}

// queueParkedReplicas answers GET /api/v1/analytics/queue-parked-replicas. There is one.
func (r *request) queueParkedReplicas() {
	s, rows, ok := r.queueSeries(parkedBytes + len(hostname()))
	if !ok {
		return
	}
	rows = slices.DeleteFunc(rows, func(at row) bool { return s.rows[at].parkedMs == 0 })
	b := appendTimeRange(append(r.answer(), '{'), &s.timeRange)
	b = append(b, `,"series":[`...)
	for i, at := range rows {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendBucket(append(b, '{'), "bucket", at.ms)
		b = appendText(b, "queueName", at.key)
		b = appendReplica(b)
		b = append(appendRate(b, "parkedCount", s.parked(at)), '}')
	}
	b = append(b, `],"replicas":[`...)
	if len(rows) > 0 {
		b = append(appendReplica(append(b, '{')), '}')
	}
	b = append(b, "]}"...)
	r.settle(b)
	r.send(fasthttp.StatusOK, b)
}

func appendReplica(b []byte) []byte {
	return appendNumber(appendText(b, "hostname", hostname()), "workerId", 0)
}

// dropped counts messages that rules have taken.
type dropped struct {
	age, completed, eviction int64
	events                   int64 // minutes of queues in which there were any
	queues                   map[uuid.UUID]bool
}

func (d *dropped) total() int64 { return d.age + d.completed + d.eviction }

func (d *dropped) add(other *dropped) {
	d.age += other.age
	d.completed += other.completed
	d.eviction += other.eviction
	d.events += other.events
}

func (d *dropped) append(b []byte) []byte {
	b = appendNumber(b, "retentionMsgs", d.age)
	b = appendNumber(b, "completedRetentionMsgs", d.completed)
	b = appendNumber(b, "evictionMsgs", d.eviction)
	b = appendNumber(b, "totalMsgs", d.total())
	return appendNumber(b, "eventCount", d.events)
}

// labelOf returns what queues are grouped by.
func labelOf(by string) (of func(*broker.QueueTraffic) string, ok bool) {
	switch by {
	case "namespace":
		return func(t *broker.QueueTraffic) string { return t.Namespace }, true
	case "task":
		return func(t *broker.QueueTraffic) string { return t.Task }, true
	case "queue":
		return func(t *broker.QueueTraffic) string { return t.Name }, true
	}
	return nil, false
}

const badGroupBy = `{"error":"bad groupBy"}`

// retention answers GET /api/v1/analytics/retention: the oldest bucket first, the groups from
// which most was taken first.
func (r *request) retention() {
	r.abandonBody()
	q, ok := r.filters()
	if !ok {
		return
	}
	by := q.text("groupBy")
	key, ok := labelOf(by)
	if by != "" && !ok {
		r.sendText(fasthttp.StatusBadRequest, badGroupBy)
		return
	}
	t, ok := r.timeRange(q, seriesTime, 0)
	if !ok {
		return
	}
	w := r.walk(t, q, &r.tenant)
	var sum dropped
	buckets, groups := map[int64]*dropped{}, map[string]*dropped{}
	for m := range w.minutes() {
		for had, is := range w.had(m) {
			d := dropped{had.Traffic[broker.DroppedByAge], had.Traffic[broker.DroppedCompleted], had.Traffic[broker.DroppedByEviction], 1, nil}
			if d.total() == 0 {
				continue
			}
			sum.add(&d)
			entry(buckets, w.bucket(m.StartMs)).add(&d)
			if key != nil {
				g := entry(groups, key(is))
				if g.add(&d); g.queues == nil {
					g.queues = map[uuid.UUID]bool{}
				}
				g.queues[had.ID] = true
			}
		}
	}
	if !r.makeRoom((len(buckets) + len(groups)) * retentionBytes) {
		return
	}
	b := appendTimeRange(append(r.answer(), '{'), &w.timeRange)
	b = append(b, `,"series":[`...)
	for i, ms := range slices.Sorted(maps.Keys(buckets)) {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(buckets[ms].append(appendBucket(append(b, '{'), "bucket", ms)), '}')
	}
	b = append(sum.append(append(b, `],"totals":{`...)), '}')
	if key != nil {
		b = appendDropped(append(b, `,"rows":[`...), groups)
	}
	b = append(b, '}')
	r.settle(b)
	r.send(fasthttp.StatusOK, b)
}

func appendDropped(b []byte, groups map[string]*dropped) []byte {
	keys := slices.SortedFunc(maps.Keys(groups), func(x, y string) int {
		return cmp.Or(cmp.Compare(groups[y].total(), groups[x].total()), cmp.Compare(x, y))
	})
	for i, key := range keys {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendText(append(b, '{'), "key", key)
		b = appendNumber(b, "queues", int64(len(groups[key].queues)))
		b = append(groups[key].append(b), '}')
	}
	return append(b, ']')
}
