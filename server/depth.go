package server

import (
	"strconv"

	"github.com/valyala/fasthttp"

	"github.com/skepmq/skep/broker"
	"github.com/skepmq/skep/server/codec"
)

// backlog is what a queue or partition owes its slowest group. Other than in the
// resource routes, pending includes what is leased; ready does not.
type backlog struct{ pending, processing int64 }

func (d backlog) ready() int64 { return d.pending - d.processing }

func (d backlog) append(b []byte) []byte {
	b = append(b, `"pending":`...)
	b = strconv.AppendInt(b, d.pending, 10)
	b = append(b, `,"processing":`...)
	b = strconv.AppendInt(b, d.processing, 10)
	b = append(b, `,"ready":`...)
	return strconv.AppendInt(b, d.ready(), 10)
}

func backlogOf(p *broker.PartitionInfo) backlog {
	return backlog{p.Pending + p.Processing, p.Processing}
}

// depth answers GET /api/v1/resources/queues/:queue/depth, for autoscalers. The
// numbers of one group are not kept apart, so asking for them is refused rather than
// answered with those of another.
func (r *request) depth() {
	r.abandonBody()
	q, ok := r.filters()
	if !ok {
		return
	}
	if q.text("group") != "" {
		r.sendError(fasthttp.StatusBadRequest, "", "the depth of a single group is not available")
		return
	}
	queue, partitions, err := r.broker.Queue(r.tenant, r.param(0))
	if err != nil {
		r.fail(err)
		return
	}
	sortPartitions(partitions)
	r.send(fasthttp.StatusOK, appendDepth(r.answer(), queue.Name, partitions))
}

func appendDepth(b []byte, queue string, partitions []broker.PartitionInfo) []byte {
	var sum backlog
	var pending, ready int64
	for i := range partitions {
		d := backlogOf(&partitions[i])
		sum.pending += d.pending
		sum.processing += d.processing
		if d.pending > 0 {
			pending++
		}
		if d.ready() > 0 {
			ready++
		}
	}
	b = append(b, `{"queue":`...)
	b = codec.AppendString(b, queue)
	b = append(b, `,"group":null,`...)
	b = sum.append(b)
	b = append(b, `,"partitionsPending":`...)
	b = strconv.AppendInt(b, pending, 10)
	b = append(b, `,"partitionsReady":`...)
	b = strconv.AppendInt(b, ready, 10)
	b = append(b, `,"conflation":false,"effectivePending":`...)
	b = strconv.AppendInt(b, sum.pending, 10)
	b = append(b, `,"effectiveReady":`...)
	b = strconv.AppendInt(b, sum.ready(), 10)
	b = append(b, `,"partitions":[`...)
	for i := range partitions {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, `{"partition":`...)
		b = codec.AppendString(b, partitions[i].Name)
		b = append(b, ',')
		b = backlogOf(&partitions[i]).append(b)
		b = append(b, '}')
	}
	return append(b, `]}`...)
}
