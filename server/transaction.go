package server

import (
	"errors"
	"strconv"
	"sync"

	"github.com/google/uuid"
	"github.com/valyala/fasthttp"

	"github.com/skepmq/skep/broker"
	"github.com/skepmq/skep/server/codec"
)

// transactionScratch is what one transaction needs beside its body.
type transactionScratch struct {
	decoded codec.Transaction
	in      broker.Transaction
}

var transactions = sync.Pool{New: func() any { return new(transactionScratch) }}

func (x *transactionScratch) release() {
	large := cap(x.in.Pushes)+cap(x.in.Acks)+cap(x.in.Leases) > keptItems
	x.decoded.Reset()
	clear(x.in.Pushes)
	clear(x.in.Acks)
	clear(x.in.Groups)
	clear(x.in.Leases)
	x.in.Sub = nil
	if large {
		x.in = broker.Transaction{}
	}
	transactions.Put(x)
}

// badRequest is the reason of a transaction that cannot be read.
const badRequest = "bad_request"

// transact answers POST /api/v1/transaction: 200 whether it has committed or was rolled
// back. Success and failure have one shape, a body that cannot be read included.
func (r *request) transact() {
	body, ok := r.readBody()
	if !ok {
		return
	}
	if !r.reserveItems(body) {
		return
	}
	id := uuid.Must(uuid.NewV7()) // names this call and nothing else
	x := transactions.Get().(*transactionScratch)
	defer x.release()
	if err := x.decoded.Decode(body); err != nil {
		text := err.Error()
		if !errors.Is(err, codec.ErrOperationType) {
			text = "bad body: " + text
		}
		r.sendRollback(fasthttp.StatusBadRequest, id, badRequest, text)
		return
	}
	if !r.reserve(len(x.decoded.Order), handledItem) {
		return
	}
	if tooLong := x.prepare(); tooLong != "" {
		r.sendRollback(fasthttp.StatusBadRequest, id, badRequest, "bad body: "+tooLong+nameTooLong)
		return
	}
	x.in.Sub = r.sub
	result, err := r.broker.Transact(r.tenant, &x.in)
	if err != nil {
		r.fail(err)
		return
	}
	if back := result.Rollback; back != nil {
		r.sendRollback(fasthttp.StatusOK, id, back.Reason, back.Text)
		return
	}
	r.sendCommitted(id, x, &result)
}

// prepare turns what was decoded into what the broker takes. tooLong names the member
// that is.
func (x *transactionScratch) prepare() (tooLong string) {
	in := &x.in
	in.Pushes, in.Acks, in.Groups, in.Leases = in.Pushes[:0], in.Acks[:0], in.Groups[:0], in.Leases[:0]
	for i := range x.decoded.Pushes {
		p := &x.decoded.Pushes[i]
		partition := p.Partition
		if !p.HasPartition {
			partition = defaultPartition
		}
		switch {
		case len(p.Queue) > maxName:
			return "queue"
		case len(partition) > maxName:
			return "partition"
		}
		in.Pushes = append(in.Pushes, broker.PushItem{
			Queue: p.Queue, Partition: partition, TransactionID: p.TransactionID, Payload: p.Payload, TraceID: p.TraceID,
		})
	}
	for i := range x.decoded.Acks {
		a := &x.decoded.Acks[i]
		if len(a.ConsumerGroup) > maxName {
			return "consumerGroup"
		}
		in.Acks = append(in.Acks, toAck(a))
		in.Groups = append(in.Groups, groupOrQueueMode(borrow(a.ConsumerGroup)))
	}
	for _, lease := range x.decoded.Leases {
		in.Leases = append(in.Leases, borrow(lease))
	}
	return ""
}

// sendRollback answers that nothing was changed.
func (r *request) sendRollback(status int, id uuid.UUID, reason, text string) {
	b := appendTransaction(r.answer(), id, false)
	b = append(b, `,"reason":`...)
	b = codec.AppendString(b, reason)
	b = append(b, `,"error":`...)
	b = codec.AppendString(b, text)
	r.send(status, append(b, `,"results":[]}`...))
}

// sendCommitted answers with a verdict on each operation, in the order of the body.
func (r *request) sendCommitted(id uuid.UUID, x *transactionScratch, result *broker.TransactionResult) {
	b := append(appendTransaction(r.answer(), id, true), `,"results":[`...)
	pushes, acks := 0, 0
	for i, kind := range x.decoded.Order {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, `{"index":`...)
		b = strconv.AppendInt(b, int64(i), 10)
		if kind == codec.OperationPush {
			b = appendTransactionPush(b, &x.in.Pushes[pushes], &result.Pushed[pushes])
			pushes++
		} else {
			b = appendTransactionAck(b, &x.in.Acks[acks], &result.Acked[acks])
			acks++
		}
	}
	r.send(fasthttp.StatusOK, append(b, `]}`...))
}

func appendTransaction(b []byte, id uuid.UUID, success bool) []byte {
	b = append(b, `{"transactionId":`...)
	b = codec.AppendUUID(b, id)
	b = append(b, `,"success":`...)
	return strconv.AppendBool(b, success)
}

// appendTransactionPush appends the verdict on one message behind its index.
func appendTransactionPush(b []byte, item *broker.PushItem, result *broker.PushResult) []byte {
	b = append(b, `,"type":"push","success":true,"transactionId":`...)
	if result.Minted {
		b = codec.AppendUUID(b, result.MessageID)
	} else {
		b = codec.AppendString(b, item.TransactionID)
	}
	b = append(b, `,"messageId":`...)
	b = codec.AppendUUID(b, result.MessageID)
	b = append(b, `,"queueName":`...)
	b = codec.AppendString(b, item.Queue)
	if result.Status == broker.Duplicate {
		b = append(b, `,"duplicate":true`...)
	}
	return append(b, '}')
}

// appendTransactionAck appends the verdict on one acknowledgement behind its index.
func appendTransactionAck(b []byte, ack *broker.Ack, result *broker.AckResult) []byte {
	b = append(b, `,"type":"ack","success":true,"transactionId":`...)
	b = codec.AppendString(b, ack.TransactionID)
	b = append(b, `,"error":null,"dlq":`...)
	b = strconv.AppendBool(b, result.DeadLetter)
	return append(b, '}')
}
