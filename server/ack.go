package server

import (
	"strconv"
	"sync"

	"github.com/valyala/fasthttp"

	"github.com/skepmq/skep/broker"
	"github.com/skepmq/skep/server/codec"
)

// ackScratch is what one acknowledging request needs beside its body.
type ackScratch struct {
	decoded codec.AckBatch
	acks    []broker.Ack
	results []broker.AckResult
}

var ackings = sync.Pool{New: func() any { return new(ackScratch) }}

func (a *ackScratch) release() {
	a.decoded.Reset()
	clear(a.acks)
	clear(a.results)
	if cap(a.acks) > keptItems {
		a.acks, a.results = nil, nil
	}
	ackings.Put(a)
}

// ack answers POST /api/v1/ack: a batch of one whose group stands beside its fields.
func (r *request) ack() {
	body, ok := r.readBody()
	if !ok {
		return
	}
	one, err := codec.DecodeAck(body)
	if err != nil {
		r.badBody(err.Error())
		return
	}
	a := ackings.Get().(*ackScratch)
	defer a.release()
	a.resize(1)
	a.acks[0] = toAck(&one)
	r.acknowledge(a, one.ConsumerGroup)
}

// ackBatch answers POST /api/v1/ack/batch.
func (r *request) ackBatch() {
	body, ok := r.readBody()
	if !ok {
		return
	}
	if !r.reserveItems(body) {
		return
	}
	a := ackings.Get().(*ackScratch)
	defer a.release()
	if err := a.decoded.Decode(body); err != nil {
		r.badBody(err.Error())
		return
	}
	if !r.reserve(len(a.decoded.Items), handledItem) {
		return
	}
	a.resize(len(a.decoded.Items))
	for i := range a.decoded.Items {
		a.acks[i] = toAck(&a.decoded.Items[i])
	}
	r.acknowledge(a, a.decoded.ConsumerGroup)
}

func (a *ackScratch) resize(n int) {
	if cap(a.acks) < n {
		a.acks = make([]broker.Ack, n)
		a.results = make([]broker.AckResult, n)
	}
	a.acks, a.results = a.acks[:n], a.results[:n]
}

// toAck borrows the strings of in.
func toAck(in *codec.Ack) broker.Ack {
	return broker.Ack{
		TransactionID: borrow(in.TransactionID),
		PartitionID:   borrow(in.PartitionID),
		LeaseID:       borrow(in.LeaseID),
		Status:        ackStatus(in),
		Error:         borrow(in.Error),
	}
}

// ackStatus normalises a status: exactly these words, and everything else is a
// failure. It is never an error, since an ack that is refused redelivers.
func ackStatus(in *codec.Ack) broker.AckStatus {
	if !in.HasStatus {
		return broker.AckCompleted
	}
	switch string(in.Status) {
	case "completed", "success", "acked", "ok":
		return broker.AckCompleted
	case "retry":
		return broker.AckRetry
	case "dlq":
		return broker.AckDeadLetter
	}
	return broker.AckFailed
}

// acknowledge carries out a and answers 200 with one verdict an ack.
func (r *request) acknowledge(a *ackScratch, group []byte) {
	if len(group) > maxName {
		r.badBody("consumerGroup" + nameTooLong)
		return
	}
	if len(a.acks) > 0 {
		if err := r.broker.Acknowledge(r.tenant, groupOrQueueMode(borrow(group)), a.acks, a.results); err != nil {
			r.fail(err)
			return
		}
	}
	b := append(r.answer(), '[')
	for i := range a.acks {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendAckResult(b, i, &a.acks[i], &a.results[i])
	}
	r.send(fasthttp.StatusOK, append(b, ']'))
}

func appendAckResult(b []byte, index int, ack *broker.Ack, result *broker.AckResult) []byte {
	b = append(b, `{"index":`...)
	b = strconv.AppendInt(b, int64(index), 10)
	b = append(b, `,"transactionId":`...)
	b = codec.AppendString(b, ack.TransactionID)
	b = append(b, `,"success":`...)
	b = strconv.AppendBool(b, result.Success)
	b = append(b, `,"error":`...)
	b = appendStringOrNull(b, result.Error)
	b = append(b, `,"leaseReleased":`...)
	b = strconv.AppendBool(b, result.LeaseReleased)
	b = append(b, `,"dlq":`...)
	b = strconv.AppendBool(b, result.DeadLetter)
	b = append(b, `,"noop":`...)
	b = strconv.AppendBool(b, result.Noop)
	if result.Conflating {
		b = append(b, `,"conflated":`...)
		b = strconv.AppendInt(b, result.Conflated, 10)
	}
	return append(b, '}')
}

// appendStringOrNull appends a quoted string, or null for "".
func appendStringOrNull(b []byte, s string) []byte {
	if s == "" {
		return append(b, "null"...)
	}
	return codec.AppendString(b, s)
}
