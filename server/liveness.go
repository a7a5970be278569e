package server

import (
	"github.com/valyala/fasthttp"

	"github.com/skepmq/skep/broker"
)

const (
	defaultLivenessLimit = 20
	maxLivenessLimit     = 200
	livenessBytes        = 400 // about what a row takes, beside its texts
)

// partitionLiveness answers GET /api/v1/analytics/partition-liveness: how many partitions of
// the queues that have most are written to.
func (r *request) partitionLiveness() {
	r.abandonBody()
	q, ok := r.filters()
	if !ok {
		return
	}
	queue, namespace, task := q.text("queue"), q.label("namespace"), q.label("task")
	limit := min(max(q.number("limit", defaultLivenessLimit), 0), maxLivenessLimit)
	rows := r.broker.Liveness(r.tenant, func(name string, o *broker.QueueOptions) bool {
		return (queue == "" || name == queue) && (namespace == nil || o.Namespace == *namespace) && (task == nil || o.Task == *task)
	}, int(limit))
	room := 0
	for i := range rows {
		room += livenessBytes + len(rows[i].Queue) + len(rows[i].Namespace) + len(rows[i].Task)
	}
	if !r.makeRoom(room) {
		return
	}
	b := appendInstant(append(r.answer(), '{'), "capturedAt", r.server.opts.Now())
	b = append(appendKey(b, "rows"), '[')
	for i := range rows {
		b = appendLiveness(appendComma(b, i), &rows[i])
	}
	b = append(b, "]}"...)
	r.settle(b)
	r.send(fasthttp.StatusOK, b)
}

func appendLiveness(b []byte, l *broker.Liveness) []byte {
	b = appendText(append(b, '{'), "queue", l.Queue)
	b = appendText(b, "namespace", l.Namespace)
	b = appendText(b, "task", l.Task)
	b = appendNumber(b, "partitions", int64(l.Partitions))
	b = appendNumber(b, "live1h", int64(l.LastHour))
	b = appendNumber(b, "live24h", int64(l.LastDay))
	b = appendNumber(b, "live7d", int64(l.LastWeek))
	b = appendNumber(b, "created24h", int64(l.CreatedLastDay))
	b = appendTime(appendKey(b, "oldestWriteAt"), l.OldestWriteMs)
	b = appendTime(appendKey(b, "newestWriteAt"), l.NewestWriteMs)
	return append(appendNumber(b, "pending", l.Pending), '}')
}
