package server

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"

	"github.com/google/uuid"
	"github.com/valyala/fasthttp"

	"github.com/skepmq/skep/broker"
	"github.com/skepmq/skep/server/codec"
)

const defaultMessageLimit = 200

// listMessages answers GET /api/v1/messages, newest first. total is the length of this
// page. truncated is there only when the broker came to the end of what one call may do.
func (r *request) listMessages() {
	r.abandonBody()
	filter, ok := r.messageFilter()
	if !ok {
		return
	}
	page, err := r.broker.Messages(r.tenant, filter)
	if err != nil {
		r.fail(err)
		return
	}
	b := append(r.answer(), `{"messages":[`...)
	for i := range page.Messages {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendStored(b, r.broker, &page.Messages[i])
	}
	b = append(b, `],"mode":`...)
	b = appendConsumption(b, page.Consumption)
	b = append(b, `,"total":`...)
	b = strconv.AppendInt(b, int64(len(page.Messages)), 10)
	if page.Truncated {
		b = append(b, `,"truncated":true`...)
	}
	r.send(fasthttp.StatusOK, append(b, '}'))
}

// messageFilter reads the query, or answers 400.
func (r *request) messageFilter() (f broker.MessageFilter, ok bool) {
	q, ok := r.filters()
	if !ok {
		return f, false
	}
	f = broker.MessageFilter{
		Queue:     q.text("queue"),
		Partition: q.text("partition"),
		Namespace: q.values.String("namespace", q.text("ns")),
		Task:      q.text("task"),
		Status:    broker.MessageStatus(q.text("status")),
		Limit:     int(q.number("limit", defaultMessageLimit)),
		Offset:    int(q.number("offset", 0)),
	}
	for _, bound := range [...]struct {
		name string
		to   **int64
	}{{"from", &f.FromMs}, {"to", &f.ToMs}} {
		text := q.text(bound.name)
		if text == "" {
			continue
		}
		at, ok := codec.ParseTime(text)
		if !ok {
			r.sendError(fasthttp.StatusBadRequest, "invalid timestamp: ", text)
			return f, false
		}
		*bound.to = &at
	}
	return f, true
}

func appendStored(b []byte, br Broker, m *broker.StoredMessage) []byte {
	b = append(b, `{"id":`...)
	b = appendIDOrNull(b, m.ID)
	b = append(b, `,"transactionId":`...)
	b = appendTransactionID(b, m)
	b = append(b, `,"txnHash":`...)
	b = appendTransactionHash(b, m)
	b = append(b, `,"partitionId":`...)
	b = codec.AppendUUID(b, m.PartitionID)
	b = append(b, `,"queuePath":`...)
	b = codec.AppendString(b, m.Queue+"/"+m.Partition)
	b = append(b, `,"queue":`...)
	b = codec.AppendString(b, m.Queue)
	b = append(b, `,"partition":`...)
	b = codec.AppendString(b, m.Partition)
	b = appendLabels(b, m)
	b = append(b, `,"status":"`...)
	b = append(b, m.Status...)
	b = append(b, `","queueStatus":"`...)
	b = append(b, m.QueueStatus...)
	b = append(b, `","busStatus":{"consumedBy":`...)
	b = strconv.AppendInt(b, int64(m.DoneBy), 10)
	b = append(b, `,"totalGroups":`...)
	b = strconv.AppendInt(b, int64(m.Groups), 10)
	b = append(b, `},"traceId":`...)
	b = appendIDOrNull(b, m.TraceID)
	b = append(b, `,"producerSub":`...)
	b = appendSub(b, m.ProducerSub)
	b = append(b, `,"payloadAvailable":`...)
	b = strconv.AppendBool(b, m.Available)
	// seq is the offset: of all that names a place it alone never changes.
	b = append(b, `,"segment":{"seq":`...)
	b = strconv.AppendInt(b, m.Offset, 10)
	b = append(b, `,"frameIdx":0},"isEncrypted":`...)
	b = strconv.AppendBool(b, m.Encrypted)
	b = append(b, `,"createdAt":`...)
	b = appendTime(b, m.CreatedAtMs)
	b = append(b, `,"leaseExpiresAt":`...)
	b = appendTime(b, m.LeaseMs)
	b = appendPayloads(b, br, m)
	return append(b, '}')
}

// appendPayloads appends the payload under both its names.
func appendPayloads(b []byte, br Broker, m *broker.StoredMessage) []byte {
	b = append(b, `,"data":`...)
	from := len(b)
	b, _ = appendPayload(b, br, m.Payload, m.Encrypted)
	to := len(b)
	b = append(b, `,"payload":`...)
	return append(b, b[from:to]...)
}

func appendLabels(b []byte, m *broker.StoredMessage) []byte {
	b = append(b, `,"namespace":`...)
	b = codec.AppendString(b, m.Namespace)
	b = append(b, `,"task":`...)
	return codec.AppendString(b, m.Task)
}

func appendIDOrNull(b []byte, id uuid.UUID) []byte {
	if id == uuid.Nil {
		return append(b, "null"...)
	}
	return codec.AppendUUID(b, id)
}

func appendTransactionID(b []byte, m *broker.StoredMessage) []byte {
	if m.TransactionID == nil {
		return appendIDOrNull(b, m.ID)
	}
	return codec.AppendString(b, borrow(m.TransactionID))
}

// appendTransactionHash appends the first half of the SHA-256 of the transaction id.
func appendTransactionHash(b []byte, m *broker.StoredMessage) []byte {
	if !m.Available {
		return append(b, "null"...)
	}
	id := m.TransactionID
	if id == nil {
		id = []byte(m.ID.String())
	}
	sum := sha256.Sum256(id)
	b = append(b, '"')
	b = hex.AppendEncode(b, sum[:16])
	return append(b, '"')
}

// appendConsumption says who consumes, and with what to call that.
func appendConsumption(b []byte, c broker.Consumption) []byte {
	kind := "none"
	switch {
	case c.QueueMode && c.Groups > 0:
		kind = "hybrid"
	case c.QueueMode:
		kind = "queue"
	case c.Groups > 0:
		kind = "bus"
	}
	b = append(b, `{"hasQueueMode":`...)
	b = strconv.AppendBool(b, c.QueueMode)
	b = append(b, `,"busGroupsCount":`...)
	b = strconv.AppendInt(b, int64(c.Groups), 10)
	b = append(b, `,"type":"`...)
	b = append(b, kind...)
	return append(b, `"}`...)
}

// describeMessage answers GET /api/v1/messages/:partitionId/:transactionId.
func (r *request) describeMessage() {
	r.abandonBody()
	err := broker.ErrMessageNotFound
	var m broker.MessageDetail
	if id, ok := codec.ParseUUID(r.params[0]); ok {
		m, err = r.broker.Message(r.tenant, id, r.param(1))
	}
	if err != nil {
		r.fail(err)
		return
	}
	r.send(fasthttp.StatusOK, appendDetail(r.answer(), r.broker, &m))
}

func appendDetail(b []byte, br Broker, m *broker.MessageDetail) []byte {
	b = append(b, `{"id":`...)
	b = codec.AppendUUID(b, m.ID)
	b = append(b, `,"transactionId":`...)
	b = appendTransactionID(b, &m.StoredMessage)
	b = appendPayloads(b, br, &m.StoredMessage)
	b = append(b, `,"traceId":`...)
	b = appendIDOrNull(b, m.TraceID)
	b = append(b, `,"producerSub":`...)
	b = appendSub(b, m.ProducerSub)
	b = append(b, `,"createdAt":`...)
	b = appendTime(b, m.CreatedAtMs)
	b = append(b, `,"partitionId":`...)
	b = codec.AppendUUID(b, m.PartitionID)
	b = append(b, `,"partition":`...)
	b = codec.AppendString(b, m.Partition)
	b = append(b, `,"isEncrypted":`...)
	b = strconv.AppendBool(b, m.Encrypted)
	b = append(b, `,"queue":`...)
	b = codec.AppendString(b, m.Queue)
	b = append(b, `,"queuePath":`...)
	b = codec.AppendString(b, m.Queue+"/"+m.Partition)
	b = appendLabels(b, &m.StoredMessage)
	b = append(b, `,"status":"`...)
	b = append(b, m.Status...)
	b = append(b, `","errorMessage":`...)
	if m.Dead {
		b = codec.AppendString(b, m.Error)
	} else {
		b = append(b, "null"...)
	}
	b = append(b, `,"retryCount":`...)
	b = strconv.AppendInt(b, m.RetryCount, 10)
	b = append(b, `,"leaseExpiresAt":`...)
	b = appendTime(b, m.LeaseMs)
	b = append(b, `,"consumerGroups":[`...)
	b = appendConsumers(b, m.Consumers)
	b = append(b, `],"mode":`...)
	b = appendConsumption(b, m.Consumption)
	b = append(b, `,"queueConfig":`...)
	b = appendOptions(b, &m.Options, true)
	return append(b, '}')
}

func appendConsumers(b []byte, consumers []broker.MessageConsumer) []byte {
	for i := range consumers {
		c := &consumers[i]
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, `{"name":`...)
		b = codec.AppendString(b, c.Group)
		b = append(b, `,"group":`...)
		b = codec.AppendString(b, c.Group)
		b = append(b, `,"consumed":`...)
		b = strconv.AppendBool(b, c.Done)
		b = append(b, `,"leaseExpiresAt":`...)
		b = appendTime(b, c.LeaseMs)
		b = append(b, '}')
	}
	return b
}
