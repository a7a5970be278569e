package server

import (
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/skepmq/skep/broker"
	"github.com/skepmq/skep/server/codec"
	"github.com/skepmq/skep/server/history"
)

// aggregateStatus answers GET /api/v1/status. Queues, and what is counted of them, are the
// tenant's; the signals of the process are there for everybody.
func (r *request) aggregateStatus() {
	r.abandonBody()
	q, queues, w, ok := r.survey()
	if !ok {
		return
	}
	points, shown := w.throughput(q.narrowed()), w.named(queues)
	n := len(points) * throughputBytes
	for i := range shown {
		n += consumedBytes + len(shown[i].Name)
	}
	if !r.makeRoom(n) {
		return
	}
	b := appendTimeRange(append(r.answer(), '{'), &w.timeRange)
	b = appendThroughput(appendNumber(b, "pointCount", int64(len(points))), &w.timeRange, points)
	b = append(b, `,"queues":[`...)
	for i := range shown {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendConsumed(b, &shown[i])
	}
	lifetime := r.server.minutes.lifetime(&w.stats)
	b = appendMessages(append(b, ']'), queues, &lifetime)
	b = appendLeases(b, queues)
	b = r.appendWorker(append(b, `,"workers":[`...), w)
	var all broker.Traffic
	for _, p := range points {
		all.Add(&p.all)
	}
	b = append(b, `],"errors":{"dbErrors":`...)
	b = strconv.AppendInt(b, all[broker.StorageErrors], 10)
	b = appendNumber(b, "ackFailed", all[broker.FailedAcks])
	b = append(appendNumber(b, "dlqMessages", all[broker.DeadLettered]), '}')
	b = append(appendNumber(b, "statsAge", 0), '}')
	r.settle(b)
	r.send(fasthttp.StatusOK, b)
}

// About what a point, and a queue beside its name, take in that answer.
const (
	throughputBytes = 520
	consumedBytes   = 150
)

// named keeps the queues of the walk that hold messages.
func (w *walk) named(queues []broker.QueueInfo) (kept []broker.QueueInfo) {
	for i := range queues {
		if w.queues[queues[i].ID] != nil && queues[i].Total > 0 {
			kept = append(kept, queues[i])
		}
	}
	return kept
}

// point is what a bucket has of the broker.
type point struct {
	traffic  broker.Traffic // of the queues that were asked for
	all      broker.Traffic
	maxLagMs int64
	process
}

// process sums up what minutes say of the process.
type process struct {
	lengthMs, userNs, systemNs int64
	rss, schedLagUs            int64 // each times the length of its minute
	maxSchedLagUs              int64
}

func (p *process) add(m *history.Minute) {
	p.lengthMs += m.LengthMs
	p.userNs += m.Process.UserNs
	p.systemNs += m.Process.SystemNs
	p.rss += m.Process.RSS * m.LengthMs
	p.schedLagUs += m.Process.SchedLagUs * m.LengthMs
	p.maxSchedLagUs = max(p.maxSchedLagUs, m.Process.SchedLagUs)
}

// mean is a sum over the minutes as a mean.
func (p *process) mean(sum int64) float64 { return float64(sum) / float64(max(p.lengthMs, 1)) }

// add adds a minute of the walk: everything that went through, or what of it the queues had.
func (p *point) add(w *walk, m *history.Minute, narrowed bool) {
	p.process.add(m)
	p.all.Add(&m.Traffic)
	if narrowed {
		for had := range w.had(m) {
			p.traffic.Add(&had.Traffic)
			p.maxLagMs = max(p.maxLagMs, had.MaxLagMs)
		}
		return
	}
	p.traffic.Add(&m.Traffic)
	for i := range m.Queues {
		p.maxLagMs = max(p.maxLagMs, m.Queues[i].MaxLagMs)
	}
}

// throughput sums up the walk.
func (w *walk) throughput(narrowed bool) map[int64]*point {
	points := map[int64]*point{}
	for m := range w.minutes() {
		entry(points, w.bucket(m.StartMs)).add(w, m, narrowed)
	}
	return points
}

// appendThroughput appends the points, the newest first. There is no store with connections,
// and no pool.
func appendThroughput(b []byte, t *timeRange, points map[int64]*point) []byte {
	b = append(b, `,"throughput":[`...)
	for i, ms := range slices.Backward(slices.Sorted(maps.Keys(points))) {
		if i < len(points)-1 {
			b = append(b, ',')
		}
		p := points[ms]
		pushed, acked, popped := p.traffic[broker.PushedMessages], p.traffic[broker.AckedMessages], p.traffic[broker.PoppedMessages]
		b = appendBucket(append(b, '{'), "timestamp", ms)
		b = appendNumber(b, "ingested", pushed)
		b = appendNumber(b, "processed", acked)
		b = appendNumber(b, "popMessages", popped)
		b = appendRate(b, "ingestedPerSecond", t.perSecond(pushed))
		b = appendRate(b, "processedPerSecond", t.perSecond(acked))
		b = appendRate(b, "popPerSecond", t.perSecond(popped))
		b = appendLags(b, &bucket{Traffic: p.traffic, maxLagMs: p.maxLagMs})
		b = appendRate(b, "avgEventLoopLagMs", p.mean(p.schedLagUs)/1000)
		b = appendRate(b, "maxEventLoopLagMs", float64(p.maxSchedLagUs)/1000)
		b = appendNumber(append(b, `,"minFreeSlots":0`...), "dbErrors", p.all[broker.StorageErrors])
		b = appendNumber(b, "ackFailed", p.all[broker.FailedAcks])
		b = appendNumber(b, "dlqCount", p.all[broker.DeadLettered])
		b = appendRate(b, "queenCpuUserPct", p.mean(p.userNs)/nsPerMs*100)
		b = appendRate(b, "queenCpuSysPct", p.mean(p.systemNs)/nsPerMs*100)
		b = appendRate(b, "queenRssMb", p.mean(p.rss)/(1<<20))
		b = append(b, `,"dbPoolActive":null,"dbPoolIdle":null,"dbPoolSize":null}`...)
	}
	return append(b, ']')
}

const nsPerMs = 1e6

func appendConsumed(b []byte, q *broker.QueueInfo) []byte {
	b = codec.AppendUUID(appendKey(append(b, '{'), "id"), q.ID)
	b = appendText(b, "name", q.Name)
	b = appendText(b, "namespace", q.Options.Namespace)
	b = appendText(b, "task", q.Options.Task)
	b = appendNumber(b, "partitions", int64(q.Partitions))
	return append(appendNumber(b, "totalConsumed", q.Consumed), '}')
}

// appendMessages appends what went through since the directory was made, and what of it is
// left to do.
func appendMessages(b []byte, queues []broker.QueueInfo, all *broker.Traffic) []byte {
	c, _ := totalled(queues)
	b = append(appendKey(b, "messages"), '{')
	b = appendNumber(b, "total", all[broker.PushedMessages])
	b = appendNumber(b, "pending", c.pending)
	b = appendNumber(b, "processing", c.processing)
	b = appendNumber(b, "completed", all[broker.AckedMessages])
	b = appendNumber(b, "failed", all[broker.FailedAcks])
	b = appendNumber(b, "deadLetter", all[broker.DeadLettered])
	b = append(b, `,"requests":{`...)
	b = appendNumber(b, "push", all[broker.PushRequests])
	b = appendNumber(b, "pop", all[broker.PopRequests])
	b = appendNumber(b, "ack", all[broker.AckRequests])
	b = append(b, `},"batchEfficiency":{`...)
	b = appendRate(b, "push", ratio(all[broker.PushedMessages], all[broker.PushRequests]))
	b = appendRate(b, "pop", ratio(all[broker.PoppedMessages], all[broker.PopRequests]))
	b = appendRate(b, "ack", ratio(all[broker.AckedMessages]+all[broker.FailedAcks], all[broker.AckRequests]))
	return append(b, "}}"...)
}

func ratio(n, of int64) float64 {
	if of == 0 {
		return 0
	}
	return float64(n) / float64(of)
}

// appendLeases appends what is leased and what has been set aside.
func appendLeases(b []byte, queues []broker.QueueInfo) []byte {
	var l broker.LeaseCounts
	var letters, affected int64
	for i := range queues {
		l.Add(&queues[i].Leases)
		letters += queues[i].DeadLetters
		affected += int64(queues[i].DeadLetterPartitions)
	}
	b = append(b, `,"leases":{`...)
	b = appendNumber(b, "active", l.Leases)
	b = appendNumber(b, "partitionsWithLeases", l.Partitions)
	b = appendNumber(b, "totalBatchSize", l.Messages)
	b = appendNumber(b, "totalAcked", l.Acked)
	b = append(b, `},"deadLetterQueue":{`...)
	b = appendNumber(b, "totalMessages", letters)
	b = appendNumber(b, "affectedPartitions", affected)
	return append(b, `,"topErrors":[]}`...)
}

// appendWorker appends the one process that there is, in the minute that runs.
func (r *request) appendWorker(b []byte, w *walk) []byte {
	t, lag := &w.stats.Traffic, float64(w.running.Process.SchedLagUs)/1000
	b = r.appendReplica(append(b, '{'))
	b = appendRate(b, "avgEventLoopLagMs", lag)
	b = appendRate(b, "maxEventLoopLagMs", lag)
	b = append(b, `,"freeSlots":0,"dbConnections":0,"jobQueueSize":0`...)
	return append(appendNumber(b, "messagesProcessed", t[broker.PushedMessages]+t[broker.PoppedMessages]+t[broker.AckedMessages]), '}')
}

// intervals are those of points of the status in time, in minutes.
var intervals = map[string]int64{"minute": 1, "hour": 60, "day": 24 * 60}

// statusAnalytics answers GET /api/v1/status/analytics: how many messages were stored in each
// interval, the oldest first.
func (r *request) statusAnalytics() {
	r.abandonBody()
	q, ok := r.filters()
	if !ok {
		return
	}
	interval := q.text("interval")
	if intervals[interval] == 0 {
		interval = "hour"
	}
	t, ok := r.timeRange(q, 24*time.Hour, intervals[interval]*minuteMs)
	if !ok {
		return
	}
	w := r.walk(t, q, &r.tenant)
	stored := make([]int64, t.points())
	for m := range w.minutes() {
		for had := range w.had(m) {
			stored[(m.StartMs-t.firstMs())/t.widthMs] += had.Traffic[broker.PushedMessages]
		}
	}
	if !r.makeRoom(len(stored) * pointBytes) {
		return
	}
	b := append(r.answer(), `{"dataPoints":[`...)
	for i, n := range stored {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendBucket(append(b, '{'), "timestamp", t.firstMs()+int64(i)*t.widthMs)
		b = append(appendNumber(b, "messages", n), '}')
	}
	b = appendText(append(b, ']'), "interval", interval)
	b = codec.AppendTimeMs(appendKey(b, "from"), t.fromMs)
	b = append(codec.AppendTimeMs(appendKey(b, "to"), t.toMs), '}')
	r.settle(b)
	r.send(fasthttp.StatusOK, b)
}

// pointBytes is about what a point takes in that answer.
const pointBytes = 60
