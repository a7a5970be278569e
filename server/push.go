package server

import (
	"strconv"
	"sync"

	"github.com/valyala/fasthttp"

	"github.com/skepmq/skep/broker"
	"github.com/skepmq/skep/server/codec"
)

// pushScratch is what one push needs beside its body. keptItems bounds what stays
// in the pool after a very large one.
type pushScratch struct {
	decoded codec.Push
	items   []broker.PushItem
	results []broker.PushResult
}

const keptItems = 4096

var pushes = sync.Pool{New: func() any { return new(pushScratch) }}

func (p *pushScratch) release() {
	p.decoded.Reset()
	clear(p.items)
	if cap(p.items) > keptItems {
		p.items, p.results = nil, nil
	}
	pushes.Put(p)
}

// push answers POST /api/v1/push: 201 with one verdict an item.
func (r *request) push() {
	body, ok := r.readBody()
	if !ok {
		return
	}
	if !r.reserveItems(body) {
		return
	}
	p := pushes.Get().(*pushScratch)
	defer p.release()
	if err := p.decoded.Decode(body); err != nil {
		r.badBody(err.Error())
		return
	}
	if !r.reserve(len(p.decoded.Items), handledItem) {
		return
	}
	if tooLong := p.prepare(); tooLong != "" {
		r.badBody(tooLong + nameTooLong)
		return
	}
	if len(p.items) > 0 {
		if err := r.broker.Push(r.tenant, p.items, r.sub, p.results); err != nil {
			r.fail(err)
			return
		}
	}
	details := r.server.opts.DeliveryDetails
	b := append(r.answer(), '[')
	for i := range p.items {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendPushResult(b, i, p.items[i].Queue, p.items[i].TransactionID, &p.results[i], details)
	}
	r.send(fasthttp.StatusCreated, append(b, ']'))
}

// prepare turns the decoded items into those of the broker and makes room for the
// results. tooLong names the field that is.
func (p *pushScratch) prepare() (tooLong string) {
	n := len(p.decoded.Items)
	if cap(p.items) < n {
		p.items = make([]broker.PushItem, n)
		p.results = make([]broker.PushResult, n)
	}
	p.items, p.results = p.items[:n], p.results[:n]
	clear(p.results)
	for i := range p.decoded.Items {
		in := &p.decoded.Items[i]
		partition := in.Partition
		if !in.HasPartition {
			partition = defaultPartition
		}
		switch {
		case len(in.Queue) > maxName:
			return "queue"
		case len(partition) > maxName:
			return "partition"
		}
		p.items[i] = broker.PushItem{
			Queue: in.Queue, Partition: partition, TransactionID: in.TransactionID, Payload: in.Payload,
		}
	}
	return ""
}

// appendPushResult appends the verdict on one item; a nil transaction id was minted.
func appendPushResult(b []byte, index int, queue, transactionID []byte, result *broker.PushResult, withOffset bool) []byte {
	b = append(b, `{"index":`...)
	b = strconv.AppendInt(b, int64(index), 10)
	b = append(b, `,"message_id":`...)
	b = codec.AppendUUID(b, result.MessageID)
	b = append(b, `,"transaction_id":`...)
	if result.Minted || len(transactionID) == 0 {
		b = codec.AppendUUID(b, result.MessageID)
	} else {
		b = codec.AppendString(b, transactionID)
	}
	b = append(b, `,"queueName":`...)
	b = codec.AppendString(b, queue)
	switch result.Status {
	case broker.Queued:
		b = append(b, `,"status":"queued"`...)
	case broker.Duplicate:
		b = append(b, `,"status":"duplicate"`...)
	case broker.Buffered:
		b = append(b, `,"status":"buffered"`...)
	default:
		return append(b, `,"status":"failed","error":"the message could not be stored"}`...)
	}
	if withOffset && result.Offset >= 0 {
		b = append(b, `,"offset":`...)
		b = strconv.AppendInt(b, result.Offset, 10)
	}
	return append(b, '}')
}
