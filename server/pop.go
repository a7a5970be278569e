package server

import (
	"errors"
	"strconv"
	"time"

	"github.com/google/uuid"
	"github.com/valyala/fasthttp"

	"github.com/skepmq/skep/broker"
	"github.com/skepmq/skep/server/codec"
)

const (
	defaultBatch      = 200
	defaultPartitions = 1
	maxPopTimeout     = 10 * time.Minute
)

// popDiscovery answers GET /api/v1/pop: from any queue with these labels.
func (r *request) popDiscovery() {
	r.pop(&broker.PopRequest{Discovery: true})
}

// popQueue answers GET /api/v1/pop/queue/:queue: the broker picks the partitions.
func (r *request) popQueue() {
	r.pop(&broker.PopRequest{Queue: remember(&r.conn.queue, r.params[0])})
}

// popPinned answers GET /api/v1/pop/queue/:queue/partition/:partition.
func (r *request) popPinned() {
	r.pop(&broker.PopRequest{
		Queue:     remember(&r.conn.queue, r.params[0]),
		Partition: remember(&r.conn.partition, r.params[1]),
		Pinned:    true,
	})
}

// pop completes req from the query, asks the broker, possibly for long, and answers.
func (r *request) pop(req *broker.PopRequest) {
	r.abandonBody()
	if err := r.readPopQuery(req); err != nil {
		r.badQuery(err)
		return
	}
	if req.Discovery && req.Namespace == "" && req.Task == "" {
		r.fail(broker.ErrNoLabel)
		return
	}
	req.Tenant, req.Alive, req.Room = r.tenant, r.conn.alive, &r.room
	if req.Wait > 0 {
		r.shed()
	}
	result, err := r.broker.Pop(req)
	switch {
	case err != nil:
		r.fail(err)
	case len(result.Parts) == 0:
		r.nothingPopped(result)
	default:
		if result.LeaseID != uuid.Nil {
			r.conn.owe(result.LeaseID)
		}
		r.out = getBuffer(popBytes(result))
		b := r.appendPop(r.answer(), req, result)
		r.settle(b)
		r.send(fasthttp.StatusOK, b)
	}
}

// popBytes returns about how long the answer with result is. Growing into it would take
// more than twice of that.
func popBytes(result *broker.PopResult) int {
	n := int64(firstBuffer)
	for i := range result.Parts {
		n += result.Parts[i].Bytes()
	}
	return int(n)
}

// shed frees what a parked poll would keep for the length of its wait: fasthttp keeps
// room with each connection for bodies like those of its earlier requests. A body that has
// not been read stays where it is: fasthttp would read all of it first.
func (r *request) shed() {
	if r.ctx.Request.BodyStream() != nil && r.ctx.Request.Header.ContentLength() != 0 {
		return
	}
	room := r.ctx.Request.SwapBody(nil)
	if cap(room) <= firstBuffer {
		r.ctx.Request.SwapBody(room)
	}
}

var errGroupTooLong = errors.New("consumerGroup" + nameTooLong)

// readPopQuery reads the parameters that all pops share. One value that does not
// parse rejects the request; unknown parameters are ignored. It copies.
func (r *request) readPopQuery(req *broker.PopRequest) error {
	v := &r.values
	if err := v.Parse(r.ctx.URI().QueryString()); err != nil {
		return err
	}
	p := popQuery{values: v}
	req.Batch = p.int("batch", defaultBatch)
	req.Partitions = p.int("partitions", defaultPartitions)
	_, given := v.Get("partitions")
	req.DefaultPartitions = !given
	req.LeaseSeconds = p.int("leaseSeconds", 0)
	req.AutoAck = p.bool("autoAck")
	timeout := p.int("timeout", int(r.server.opts.PopTimeout.Milliseconds()))
	if p.bool("wait") {
		req.Wait = min(time.Duration(max(timeout, 0)), maxPopTimeout/time.Millisecond) * time.Millisecond
	}
	if req.SubscriptionMode = v.String("subscriptionMode", ""); req.SubscriptionMode == "" {
		req.SubscriptionMode = r.server.opts.DefaultSubscriptionMode
	}
	req.SubscriptionFrom = v.String("subscriptionFrom", "")
	if req.Discovery {
		req.Namespace, req.Task = v.String("namespace", ""), v.String("task", "")
	}
	group, _ := v.Get("consumerGroup")
	if len(group) > maxName {
		return errGroupTooLong
	}
	req.Group = remember(&r.conn.group, group)
	if req.Conflation = p.bool("conflation"); req.Conflation && p.err == nil {
		return checkConflation(req)
	}
	return p.err
}

// popQuery reads typed parameters and keeps the first error.
type popQuery struct {
	values *codec.Values
	err    error
}

func (p *popQuery) int(name string, def int) int {
	n, err := p.values.Int(name, int64(def))
	if p.err == nil {
		p.err = err
	}
	return int(n)
}

func (p *popQuery) bool(name string) bool {
	b, err := p.values.Bool(name, false)
	if p.err == nil {
		p.err = err
	}
	return b
}

// appendPop appends the answer with everything that was leased.
func (r *request) appendPop(b []byte, req *broker.PopRequest, result *broker.PopResult) []byte {
	group := result.Group
	if group == "" {
		group = groupOrQueueMode(req.Group)
	}
	first := &result.Parts[0]
	b = append(b, `{"success":true,"queue":`...)
	b = codec.AppendString(b, req.Queue)
	b = append(b, `,"partition":`...)
	b = codec.AppendString(b, first.Partition)
	b = append(b, `,"partitionId":`...)
	b = codec.AppendUUID(b, first.PartitionID)
	b = appendLeaseAndGroup(b, result.LeaseID, group)
	b = append(b, `,"messages":[`...)
	for i := range result.Parts {
		if i > 0 {
			b = append(b, ',')
		}
		b = r.appendPart(b, &result.Parts[i], result.LeaseID, group)
	}
	b = append(b, `],"partitionsClaimed":`...)
	b = strconv.AppendInt(b, int64(len(result.Parts)), 10)
	return append(appendConflation(b, result), '}')
}

// appendLeaseAndGroup appends two keys that stand at the top and in each message.
func appendLeaseAndGroup(b []byte, lease uuid.UUID, group string) []byte {
	if lease == uuid.Nil {
		b = append(b, `,"leaseId":""`...)
	} else {
		b = append(b, `,"leaseId":`...)
		b = codec.AppendUUID(b, lease)
	}
	b = append(b, `,"consumerGroup":`...)
	return codec.AppendString(b, group)
}

// appendPart appends the messages of one partition, separated by commas.
func (r *request) appendPart(b []byte, part *broker.PopPart, lease uuid.UUID, group string) []byte {
	r.part = partWriter{b: b, broker: r.broker, part: part, lease: lease, group: group, details: r.server.opts.DeliveryDetails}
	r.server.messages(part)(r.addMessage)
	b = r.part.b
	r.part = partWriter{}
	return b
}

// partWriter appends the messages of one partition. All of them end with the same
// keys, and most share their time, so both are rendered once and then copied from
// where they stand in b.
type partWriter struct {
	b       []byte
	broker  Broker
	part    *broker.PopPart
	lease   uuid.UUID
	group   string
	details bool

	tail, created span
	createdMs     int64
}

// span is a range of the answer.
type span struct{ from, end int }

// add appends m. It is what the broker's iterator yields to.
func (w *partWriter) add(m broker.Message) bool {
	b := w.b
	if w.tail.end > 0 {
		b = append(b, ',')
	}
	b = w.appendMessage(b, &m)
	if w.tail.end > 0 && m.CreatedAtMs == w.createdMs {
		b = append(b, b[w.created.from:w.created.end]...)
	} else {
		w.created.from, w.createdMs = len(b), m.CreatedAtMs
		b = codec.AppendTimeMs(b, m.CreatedAtMs)
		w.created.end = len(b)
	}
	if w.tail.end > 0 {
		b = append(b, b[w.tail.from:w.tail.end]...)
	} else {
		w.tail.from = len(b)
		b = w.appendTail(b)
		w.tail.end = len(b)
	}
	if w.details {
		b = append(b, `,"offset":`...)
		b = strconv.AppendInt(b, m.Offset, 10)
	}
	w.b = append(b, '}')
	return true
}

// appendTail appends what follows the time of a message and is the same for all of a
// partition.
func (w *partWriter) appendTail(b []byte) []byte {
	b = append(b, `,"partitionId":`...)
	b = codec.AppendUUID(b, w.part.PartitionID)
	b = append(b, `,"partition":`...)
	b = codec.AppendString(b, w.part.Partition)
	b = appendLeaseAndGroup(b, w.lease, w.group)
	if w.details {
		b = append(b, `,"deliveryAttempt":`...)
		b = strconv.AppendInt(b, int64(w.part.Attempt), 10)
	}
	return b
}

// appendMessage appends a message up to its time.
func (w *partWriter) appendMessage(b []byte, m *broker.Message) []byte {
	b = append(b, `{"id":`...)
	b = codec.AppendUUID(b, m.ID)
	b = append(b, `,"transactionId":`...)
	if m.TransactionID == nil {
		b = codec.AppendUUID(b, m.ID)
	} else {
		b = codec.AppendString(b, m.TransactionID)
	}
	b = append(b, `,"traceId":`...)
	if m.TraceID == uuid.Nil {
		b = append(b, `null`...)
	} else {
		b = codec.AppendUUID(b, m.TraceID)
	}
	b = append(b, `,"data":`...)
	b, _ = appendPayload(b, w.broker, m.Payload, m.Encrypted)
	b = append(b, `,"producerSub":`...)
	b = appendSub(b, m.ProducerSub)
	return append(b, `,"createdAt":`...)
}

// appendPayload appends a stored payload as it was pushed. It is decrypted into the answer, for
// which there is room: it is shorter than what is stored.
func appendPayload(b []byte, br Broker, stored []byte, encrypted bool) (_ []byte, decrypted bool) {
	if len(stored) == 0 {
		return append(b, "null"...), false
	}
	return br.AppendPayload(b, stored, encrypted)
}

func appendSub(b, sub []byte) []byte {
	if len(sub) == 0 {
		return append(b, "null"...)
	}
	return codec.AppendString(b, sub)
}
