package server

import (
	"maps"
	"slices"

	"github.com/valyala/fasthttp"

	"github.com/skepmq/skep/broker"
)

// About what a point, and a queue beside its name, take in the answer.
const (
	workerPointBytes = 700
	workerQueueBytes = 90
)

// workerMetrics answers GET /api/v1/analytics/worker-metrics: what the one worker that there
// is has done, the newest bucket first.
func (r *request) workerMetrics() {
	r.abandonBody()
	q, queues, w, ok := r.survey()
	if !ok {
		return
	}
	points, popped := map[int64]*point{}, map[string]*bucket{}
	if r.isReplica(q) {
		for m := range w.minutes() {
			entry(points, w.bucket(m.StartMs)).add(w, m, q.narrowed())
			for had, is := range w.had(m) {
				if had.Traffic[broker.PoppedMessages] > 0 {
					entry(popped, is.Name).add(m, had)
				}
			}
		}
	}
	room := len(points) * workerPointBytes
	for name := range popped {
		room += workerQueueBytes + len(name)
	}
	if !r.makeRoom(room) {
		return
	}
	b := appendTimeRange(append(r.answer(), '{'), &w.timeRange)
	b = append(appendNumber(b, "pointCount", int64(len(points))), `,"timeSeries":[`...)
	for i, ms := range slices.Backward(slices.Sorted(maps.Keys(points))) {
		b = appendComma(b, len(points)-1-i)
		b = appendWorkerPoint(b, &w.timeRange, ms, points[ms])
	}
	b = append(b, `],"workers":[`...)
	if r.isReplica(q) {
		b = r.appendWorkerLately(b, w)
	}
	b = append(b, `],"queues":[`...)
	for i, name := range slices.Sorted(maps.Keys(popped)) {
		b = appendText(append(appendComma(b, i), '{'), "queueName", name)
		b = appendNumber(b, "popCount", popped[name].Traffic[broker.PoppedMessages])
		b = append(appendLags(b, popped[name]), '}')
	}
	b = append(appendWorkerSummary(append(b, ']'), points, w.pending(queues)), '}')
	r.settle(b)
	r.send(fasthttp.StatusOK, b)
}

// pending adds up what is left to do in the queues of the walk.
func (w *walk) pending(queues []broker.QueueInfo) (n int64) {
	for i := range queues {
		if w.queues[queues[i].ID] != nil {
			n += queues[i].Pending
		}
	}
	return n
}

// appendWorkerPoint appends what a bucket had. There is no pool of connections, and no queue
// of jobs in front of one: a push is a job that is done when it is answered.
func appendWorkerPoint(b []byte, t *timeRange, ms int64, p *point) []byte {
	had := &p.traffic
	acked := had[broker.AckedMessages] + had[broker.FailedAcks]
	b = appendBucket(append(b, '{'), "timestamp", ms)
	b = appendNumber(b, "pushMessages", had[broker.PushedMessages])
	b = appendNumber(b, "popMessages", had[broker.PoppedMessages])
	b = appendNumber(b, "ackMessages", acked)
	b = appendNumber(b, "pushRequests", had[broker.PushRequests])
	b = appendNumber(b, "popRequests", had[broker.PopRequests])
	b = appendNumber(b, "ackRequests", had[broker.AckRequests])
	b = appendNumber(b, "jobsDone", had[broker.PushRequests])
	b = appendRate(b, "pushPerSecond", t.perSecond(had[broker.PushedMessages]))
	b = appendRate(b, "popPerSecond", t.perSecond(had[broker.PoppedMessages]))
	b = appendRate(b, "ackPerSecond", t.perSecond(acked))
	b = appendRate(b, "avgEventLoopLagMs", p.mean(p.schedLagUs)/1000)
	b = appendRate(b, "maxEventLoopLagMs", float64(p.maxSchedLagUs)/1000)
	b = append(b, `,"avgFreeSlots":0,"minFreeSlots":0,"dbConnections":0,"avgJobQueueSize":0,"maxJobQueueSize":0,"backoffSize":0`...)
	b = appendLags(b, &bucket{Traffic: *had, maxLagMs: p.maxLagMs})
	b = appendNumber(b, "lagCount", had[broker.PoppedMessages])
	b = appendNumber(b, "dbErrors", p.all[broker.StorageErrors])
	b = appendNumber(b, "ackSuccess", had[broker.AckedMessages])
	b = appendNumber(b, "ackFailed", had[broker.FailedAcks])
	return append(appendNumber(b, "dlqCount", had[broker.DeadLettered]), '}')
}

// appendWorkerLately appends the worker as it was in the last latelySpan.
func (r *request) appendWorkerLately(b []byte, w *walk) []byte {
	now := r.server.opts.Now()
	latest, lately := *w, process{}
	latest.timeRange = timeRange{fromMs: now.Add(-latelySpan).UnixMilli(), toMs: now.UnixMilli() + 1, widthMs: minuteMs}
	for m := range latest.minutes() {
		lately.add(m)
	}
	had := r.server.minutes.lately(now, w.stats.Traffic, minuteEnd.ofAll)
	b = r.appendReplica(append(b, '{'))
	b = appendRate(b, "avgEventLoopLagMs", lately.mean(lately.schedLagUs)/1000)
	b = appendRate(b, "maxEventLoopLagMs", float64(lately.maxSchedLagUs)/1000)
	b = append(b, `,"freeSlots":0,"dbConnections":0,"jobQueueSize":0,"backoffSize":0`...)
	b = appendNumber(b, "messagesProcessed", had[broker.PushedMessages]+had[broker.PoppedMessages]+had[broker.AckedMessages])
	return append(appendInstant(b, "lastSeen", now), '}')
}

func appendWorkerSummary(b []byte, points map[int64]*point, pending int64) []byte {
	var had, all broker.Traffic
	for _, p := range points {
		had.Add(&p.traffic)
		all.Add(&p.all)
	}
	b = append(appendKey(b, "summary"), '{')
	b = appendNumber(b, "totalPushMessages", had[broker.PushedMessages])
	b = appendNumber(b, "totalPopMessages", had[broker.PoppedMessages])
	b = appendNumber(b, "totalAckMessages", had[broker.AckedMessages]+had[broker.FailedAcks])
	b = appendNumber(b, "totalPushRequests", had[broker.PushRequests])
	b = appendNumber(b, "totalPopRequests", had[broker.PopRequests])
	b = appendNumber(b, "totalAckRequests", had[broker.AckRequests])
	b = appendNumber(b, "totalDbErrors", all[broker.StorageErrors])
	b = appendNumber(b, "totalAckFailed", had[broker.FailedAcks])
	b = appendNumber(b, "totalDlq", had[broker.DeadLettered])
	return append(appendNumber(b, "pendingMessages", pending), '}')
}
