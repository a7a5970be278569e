package server

import (
	"cmp"
	"maps"
	"slices"
	"strconv"

	"github.com/google/uuid"
	"github.com/valyala/fasthttp"

	"github.com/skepmq/skep/broker"
	"github.com/skepmq/skep/server/codec"
)

// About what a row takes in the answer beside its texts, and each bucket of it.
const (
	workBytes       = 900
	workBucketBytes = 60
)

// workload answers GET /api/v1/analytics/workload: what queues have had and what they have, by
// namespace, task or name, and the same of all the tenant's queues, whatever the query names.
func (r *request) workload() {
	r.abandonBody()
	q, ok := r.filters()
	if !ok {
		return
	}
	by := cmp.Or(q.text("groupBy"), "namespace")
	label, ok := labelOf(by)
	if !ok {
		r.sendText(fasthttp.StatusBadRequest, badGroupBy)
		return
	}
	t, ok := r.timeRange(q, seriesTime, 0)
	if !ok {
		return
	}
	w, ok := r.sumWork(t, q.named(), label)
	if !ok || !r.makeRoom(w.room()) {
		return
	}
	b := appendText(appendTimeRange(append(r.answer(), '{'), &w.timeRange), "groupBy", by)
	b = append(w.appendBuckets(b), `,"rows":[`...)
	for i, key := range slices.Sorted(maps.Keys(w.groups)) {
		g := w.groups[key]
		b = appendText(append(appendComma(b, i), '{'), "key", key)
		if by == "queue" {
			b = appendText(b, "namespace", g.namespace)
			b = appendText(b, "task", g.task)
		}
		b = append(w.append(b, g, w.of(workKey(key))), '}')
	}
	b = append(w.append(append(b, `],"tenant":{`...), &w.all, w.merged()), "}}"...)
	r.settle(b)
	r.send(fasthttp.StatusOK, b)
}

// workload is what queues have had, as series by workKey, and what they have.
type workload struct {
	*series
	groups map[string]*work // by label
	all    work
}

// workKey is the key of a label's series. What is under "" counts for the tenant alone.
func workKey(label string) string { return "=" + label }

// sumWork sums up the tenant's queues, and by label those that are named, or answers 400.
func (r *request) sumWork(t timeRange, named func(*broker.QueueTraffic) bool, label func(*broker.QueueTraffic) string) (*workload, bool) {
	w, touched := r.walk(t, filters{new(codec.Values)}, &r.tenant), map[uuid.UUID]bool{}
	s, ok := r.series(w, func(is *broker.QueueTraffic) string {
		touched[is.ID] = true
		if !named(is) {
			return ""
		}
		return workKey(label(is))
	})
	if !ok {
		return nil, false
	}
	queues, err := r.broker.Queues(r.tenant)
	if err != nil {
		r.fail(err)
		return nil, false
	}
	sum, active := &workload{series: s, groups: map[string]*work{}}, r.activeQueues(w)
	for i := range queues {
		q := &queues[i]
		is := w.queues[q.ID]
		if is == nil {
			continue // just made
		}
		sum.all.add(q, touched[q.ID], active[q.ID])
		if named(is) {
			entry(sum.groups, label(is)).add(q, touched[q.ID], active[q.ID])
		}
	}
	for sum.room() > answerReserve {
		if !sum.widened() {
			r.sendError(fasthttp.StatusBadRequest, "", tooManyQueues)
			return nil, false
		}
	}
	return sum, true
}

// activeQueues returns the queues of the walk in which something has happened, or was waited
// for, in the last minutes.
func (r *request) activeQueues(w *walk) map[uuid.UUID]bool {
	active := map[uuid.UUID]bool{}
	now := r.server.opts.Now()
	var minute queueMinute
	for i := range w.traffic {
		if r.server.minutes.newestOf(&w.traffic[i], now, &minute) {
			active[w.traffic[i].ID] = true
		}
	}
	return active
}

// work is what queues have at the moment.
type work struct {
	namespace, task               string // of one of them
	queues, touched, active       int64
	pending, processing, letters  int64
	retainedBytes, partitions     int64
	groups, unread, unreadPending int64 // unread are queues without a group
}

func (g *work) add(q *broker.QueueInfo, touched, active bool) {
	g.namespace, g.task = q.Options.Namespace, q.Options.Task
	g.queues++
	g.touched += one(touched)
	g.active += one(active)
	g.pending += q.Pending
	g.processing += q.Processing
	g.letters += q.DeadLetters
	g.retainedBytes += q.RetainedBytes
	g.partitions += int64(q.Partitions)
	g.groups += int64(q.Groups)
	if q.Groups == 0 {
		g.unread++
		g.unreadPending += q.Pending
	}
}

func one(is bool) int64 {
	if is {
		return 1
	}
	return 0
}

func (g *work) append(b []byte) []byte {
	b = append(appendKey(b, "now"), '{')
	b = appendNumber(b, "pending", g.pending)
	b = appendNumber(b, "processing", g.processing)
	b = appendNumber(b, "deadLetter", g.letters)
	b = appendNumber(b, "retainedBytes", g.retainedBytes)
	b = appendNumber(b, "partitions", g.partitions)
	b = appendNumber(b, "groups", g.groups)
	b = appendNumber(b, "queuesWithoutGroup", g.unread)
	b = appendNumber(b, "pendingWithoutGroup", g.unreadPending)
	b = appendNumber(b, "queuesTouched", g.touched)
	return append(appendNumber(b, "queuesActive", g.active), '}')
}

// room is about how long the answer is.
func (w *workload) room() int {
	room := workBytes + int(w.points())*workBucketBytes*(len(w.groups)+2)
	for key, g := range w.groups {
		room += workBytes + len(key) + len(g.namespace) + len(g.task)
	}
	return room
}

func (w *workload) appendBuckets(b []byte) []byte {
	b = append(appendKey(b, "buckets"), '[')
	for i := range w.points() {
		b = codec.AppendTimeSeconds(appendComma(b, int(i)), w.firstMs()+i*w.widthMs)
	}
	return append(b, ']')
}

// of returns the buckets of a key, in order; nil: nothing was written.
func (w *workload) of(key string) []*bucket {
	found := make([]*bucket, w.points())
	for i := range found {
		found[i] = w.rows[row{w.firstMs() + int64(i)*w.widthMs, key}]
	}
	return found
}

// merged returns the buckets of all keys together.
func (w *workload) merged() []*bucket {
	found := make([]*bucket, w.points())
	for at, b := range w.rows {
		i := (at.ms - w.firstMs()) / w.widthMs
		if found[i] == nil {
			found[i] = new(bucket)
		}
		found[i].merge(b)
	}
	return found
}

// append appends what a group of queues has had, in all and by bucket, and what it has.
func (w *workload) append(b []byte, g *work, buckets []*bucket) []byte {
	var sum bucket
	var covered int64
	for _, had := range buckets {
		if had != nil {
			sum.merge(had)
		}
	}
	for _, ms := range w.covered {
		covered += ms
	}
	b = append(appendKey(appendNumber(b, "queues", g.queues), "window"), '{')
	for _, c := range workCounters {
		b = appendNumber(b, c.name, sum.Traffic[c.counter])
	}
	b = appendRate(b, "parkedAvg", float64(sum.parkedMs)/float64(max(covered, 1)))
	b = append(appendLags(b, &sum), '}')
	return g.append(w.appendSeries(b, buckets))
}

var workCounters = [...]struct {
	name    string
	counter broker.Counter
}{
	{"pushMessages", broker.PushedMessages}, {"pushRequests", broker.PushRequests},
	{"popMessages", broker.PoppedMessages}, {"popEmpty", broker.EmptyPops},
	{"ackRequests", broker.AckRequests}, {"ackSuccess", broker.AckedMessages}, {"ackFailed", broker.FailedAcks},
	{"transactions", broker.Transactions}, {"conflated", broker.Conflated},
	{"partitionsCreated", broker.PartitionsCreated}, {"partitionsDeleted", broker.PartitionsRemoved},
}

// workSeries are the series of a row: the value of a bucket that has records of so many
// milliseconds, if it has one.
var workSeries = [...]struct {
	name     string
	decimals int
	of       func(had *bucket, coveredMs int64) (v float64, known bool)
}{
	{"push", 0, counted(broker.PushedMessages)}, {"pop", 0, counted(broker.PoppedMessages)},
	{"popEmpty", 0, counted(broker.EmptyPops)}, {"ackFailed", 0, counted(broker.FailedAcks)},
	{"parked", 2, func(had *bucket, coveredMs int64) (float64, bool) {
		return float64(had.parkedMs) / float64(max(coveredMs, 1)), true
	}},
	{"avgLagMs", 0, func(had *bucket, _ int64) (float64, bool) {
		popped := had.Traffic[broker.PoppedMessages]
		return float64(had.Traffic[broker.LagMs] / max(popped, 1)), popped > 0
	}},
	{"maxLagMs", 0, func(had *bucket, _ int64) (float64, bool) {
		return float64(had.maxLagMs), had.Traffic[broker.PoppedMessages] > 0
	}},
}

func counted(c broker.Counter) func(*bucket, int64) (float64, bool) {
	return func(had *bucket, _ int64) (float64, bool) { return float64(had.Traffic[c]), true }
}

// appendSeries appends each series of a row, aligned to the buckets.
func (w *workload) appendSeries(b []byte, buckets []*bucket) []byte {
	b = append(appendKey(b, "series"), '{')
	for _, c := range workSeries {
		b = append(appendKey(b, c.name), '[')
		for i, had := range buckets {
			b = appendComma(b, i)
			known := had != nil
			var v float64
			if known {
				v, known = c.of(had, w.covered[w.firstMs()+int64(i)*w.widthMs])
			}
			if known {
				b = strconv.AppendFloat(b, v, 'f', c.decimals, 64)
			} else {
				b = append(b, "null"...)
			}
		}
		b = append(b, ']')
	}
	return append(b, '}')
}
