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

// depth answers GET /api/v1/resources/queues/:queue/depth, for autoscalers: what the
// slowest group has left, or the one that is asked for.
func (r *request) depth() {
	r.abandonBody()
	q, ok := r.filters()
	if !ok {
		return
	}
	d := depth{queue: r.param(0), group: q.text("group")}
	var err error
	if d.group == "" {
		_, d.partitions, err = r.broker.Queue(r.tenant, d.queue)
	} else {
		d.partitions, d.conflation, err = r.broker.Depth(r.tenant, d.queue, d.group)
	}
	if err != nil {
		r.fail(err)
		return
	}
	sortPartitions(d.partitions)
	if !r.makeRoom(partitionsBytes(d.partitions, backlogBytes)) {
		return
	}
	b := d.append(r.answer())
	r.settle(b)
	r.send(fasthttp.StatusOK, b)
}

// depth is the answer of the route of that name.
type depth struct {
	queue, group string // no group: the slowest
	conflation   bool
	partitions   []broker.PartitionInfo
}

func (d *depth) append(b []byte) []byte {
	var sum backlog
	var pending, ready int64
	for i := range d.partitions {
		of := backlogOf(&d.partitions[i])
		sum.pending += of.pending
		sum.processing += of.processing
		if of.pending > 0 {
			pending++
		}
		if of.ready() > 0 {
			ready++
		}
	}
	// A group that conflates is owed one message for each partition.
	effective := backlog{sum.pending, sum.processing}
	if d.conflation {
		effective = backlog{pending, pending - ready}
	}
	b = append(b, `{"queue":`...)
	b = codec.AppendString(b, d.queue)
	b = append(b, `,"group":`...)
	b = appendStringOrNull(b, d.group)
	b = append(b, ',')
	b = sum.append(b)
	b = append(b, `,"partitionsPending":`...)
	b = strconv.AppendInt(b, pending, 10)
	b = append(b, `,"partitionsReady":`...)
	b = strconv.AppendInt(b, ready, 10)
	b = append(b, `,"conflation":`...)
	b = strconv.AppendBool(b, d.conflation)
	b = append(b, `,"effectivePending":`...)
	b = strconv.AppendInt(b, effective.pending, 10)
	b = append(b, `,"effectiveReady":`...)
	b = strconv.AppendInt(b, effective.ready(), 10)
	b = append(b, `,"partitions":[`...)
	for i := range d.partitions {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, `{"partition":`...)
		b = codec.AppendString(b, d.partitions[i].Name)
		b = append(b, ',')
		b = backlogOf(&d.partitions[i]).append(b)
		b = append(b, '}')
	}
	return append(b, `]}`...)
}
