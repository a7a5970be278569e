package server

import (
	"errors"
	"strconv"
	"strings"

	"github.com/google/uuid"
	"github.com/valyala/fasthttp"

	"github.com/skepmq/skep/broker"
	"github.com/skepmq/skep/server/codec"
)

const defaultDeadLetterLimit = 100

// listDeadLetters answers GET /api/v1/dlq, newest first. total is the length of this
// page.
func (r *request) listDeadLetters() {
	r.abandonBody()
	filter, ok := r.deadLetterFilter()
	if !ok {
		return
	}
	letters, err := r.broker.DeadLetters(r.tenant, filter)
	if err != nil {
		r.fail(err)
		return
	}
	b := append(r.answer(), `{"messages":[`...)
	for i := range letters {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendDeadLetter(b, r.broker, &letters[i])
	}
	b = append(b, `],"pagination":{"limit":`...)
	b = strconv.AppendInt(b, int64(filter.Limit), 10)
	b = append(b, `,"offset":`...)
	b = strconv.AppendInt(b, int64(filter.Offset), 10)
	b = append(b, `},"total":`...)
	b = strconv.AppendInt(b, int64(len(letters)), 10)
	r.send(fasthttp.StatusOK, append(b, '}'))
}

// deadLetterFilter reads the query, or answers 400.
func (r *request) deadLetterFilter() (f broker.DeadLetterFilter, ok bool) {
	q, ok := r.filters()
	if !ok {
		return f, false
	}
	f = broker.DeadLetterFilter{
		Queue:     q.text("queue"),
		Group:     q.text("consumerGroup"),
		Partition: q.text("partition"),
		Limit:     int(max(q.number("limit", defaultDeadLetterLimit), 0)),
		Offset:    int(max(q.number("offset", 0), 0)),
	}
	for _, bound := range [...]struct {
		name string
		to   *int64
	}{{"from", &f.FromMs}, {"to", &f.ToMs}} {
		text := q.text(bound.name)
		if text == "" {
			continue
		}
		if *bound.to, ok = codec.ParseTime(text); !ok {
			r.sendError(fasthttp.StatusBadRequest, "invalid timestamp: ", text)
			return f, false
		}
	}
	return f, true
}

func appendDeadLetter(b []byte, br Broker, d *broker.DeadLetter) []byte {
	b = append(b, `{"id":`...)
	b = codec.AppendUUID(b, d.ID)
	b = append(b, `,"transactionId":`...)
	b = codec.AppendString(b, d.TransactionID)
	b = append(b, `,"partitionId":`...)
	b = codec.AppendUUID(b, d.PartitionID)
	b = append(b, `,"queue":`...)
	b = codec.AppendString(b, d.Queue)
	b = append(b, `,"partition":`...)
	b = codec.AppendString(b, d.Partition)
	b = append(b, `,"consumerGroup":`...)
	b = codec.AppendString(b, d.Group)
	b = append(b, `,"errorMessage":`...)
	b = codec.AppendString(b, d.Error)
	b = append(b, `,"retryCount":`...)
	b = strconv.AppendInt(b, d.RetryCount, 10)
	b = append(b, `,"data":`...)
	b, decrypted := appendPayload(b, br, d.Payload, d.Encrypted)
	b = append(b, `,"producerSub":`...)
	b = appendSub(b, d.ProducerSub)
	b = append(b, `,"createdAt":`...)
	b = appendTime(b, d.CreatedAtMs)
	b = append(b, `,"failedAt":`...)
	b = appendTime(b, d.FailedAtMs)
	if decrypted {
		b = append(b, `,"isEncrypted":true`...)
	}
	if d.Damaged {
		b = append(b, `,"damaged":true`...)
	}
	return append(b, '}')
}

// purgeDeadLetters answers DELETE /api/v1/dlq?queue=&consumerGroup=. Without a group
// it purges those of every group.
func (r *request) purgeDeadLetters() {
	r.abandonBody()
	q, ok := r.filters()
	if !ok {
		return
	}
	queue, group := q.text("queue"), q.text("consumerGroup")
	if queue == "" {
		r.sendError(fasthttp.StatusBadRequest, "", "queue is required")
		return
	}
	n, err := r.broker.PurgeDeadLetters(r.tenant, queue, group)
	if err != nil && !errors.Is(err, broker.ErrQueueNotFound) {
		r.fail(err)
		return
	}
	b := append(r.answer(), `{"success":true,"deleted":`...)
	b = strconv.AppendInt(b, int64(n), 10)
	b = append(b, `,"queue":`...)
	b = codec.AppendString(b, queue)
	b = append(b, `,"consumerGroup":`...)
	b = appendStringOrNull(b, group)
	r.send(fasthttp.StatusOK, append(b, '}'))
}

// deleteDeadLetter answers DELETE /api/v1/messages/:partitionId/:transactionId: the
// dead letters of that address go, of all groups. A live message cannot be deleted.
func (r *request) deleteDeadLetter() {
	r.abandonBody()
	removed := 0
	if id, ok := codec.ParseUUID(r.params[0]); ok {
		var err error
		if removed, err = r.broker.DeleteDeadLetter(r.tenant, id, r.param(1)); err != nil && !errors.Is(err, broker.ErrDeadLetterNotFound) {
			r.fail(err)
			return
		}
	}
	if removed == 0 {
		r.noDeadLetter()
		return
	}
	b := r.appendAddress(append(r.answer(), `{"success":true`...))
	b = append(b, `,"message":"Message deleted successfully"}`...)
	r.send(fasthttp.StatusOK, b)
}

// appendAddress echoes the address in the path.
func (r *request) appendAddress(b []byte) []byte {
	b = append(b, `,"partitionId":`...)
	b = codec.AppendString(b, r.params[0])
	b = append(b, `,"transactionId":`...)
	return codec.AppendString(b, r.params[1])
}

// noDeadLetter answers 404 for an address with no dead letter.
func (r *request) noDeadLetter() {
	b := r.appendAddress(append(r.answer(), `{"success":false`...))
	b = append(b, `,"error":"Message not found","message":"No dead letter with this address"}`...)
	r.send(fasthttp.StatusNotFound, b)
}

// retryDeadLetter answers POST /api/v1/messages/:partitionId/:transactionId/retry: the
// newest dead letter of the address moves back to the end of its partition. The
// request's body means nothing.
func (r *request) retryDeadLetter() {
	r.abandonBody()
	err := broker.ErrDeadLetterNotFound
	var result broker.ReplayResult
	if id, ok := codec.ParseUUID(r.params[0]); ok {
		result, err = r.broker.ReplayDeadLetterAt(r.tenant, id, r.param(1))
	}
	switch {
	case errors.Is(err, broker.ErrDeadLetterNotFound):
		r.noDeadLetter()
	case errors.Is(err, broker.ErrMaintenance):
		r.replayRefused(r.appendAddress(append(r.answer(), `{"success":false,"result":"maintenance"`...)))
	case err != nil:
		r.failReplay(err)
	default:
		r.sendReplay(&result)
	}
}

// replayDeadLetter answers POST /api/v1/dlq/:id/replay, which may name another queue
// or partition.
func (r *request) replayDeadLetter() {
	body, ok := r.readBody()
	if !ok {
		return
	}
	where, err := codec.DecodeReplay(body)
	if err != nil {
		r.badBody(err.Error())
		return
	}
	queue, bad := replayTarget("queue", where.Queue)
	partition, bad2 := replayTarget("partition", where.Partition)
	if bad += bad2; bad != "" {
		r.badBody(bad)
		return
	}
	err = broker.ErrDeadLetterNotFound
	var result broker.ReplayResult
	if id, ok := codec.ParseUUID(r.params[0]); ok {
		result, err = r.broker.ReplayDeadLetter(r.tenant, id, queue, partition)
	}
	switch {
	case errors.Is(err, broker.ErrDeadLetterNotFound):
		b := append(r.answer(), `{"success":false,"result":"gone","dlqId":`...)
		b = codec.AppendString(b, r.params[0])
		b = append(b, `,"error":"Message not found","message":"No dead letter with this id"}`...)
		r.send(fasthttp.StatusNotFound, b)
	case errors.Is(err, broker.ErrMaintenance):
		b := append(r.answer(), `{"success":false,"result":"maintenance","dlqId":`...)
		r.replayRefused(codec.AppendString(b, r.params[0]))
	case err != nil:
		r.failReplay(err)
	default:
		r.sendReplay(&result)
	}
}

// replayTarget resolves one half of a new address: nil leaves it as it was. Blank is
// refused, since it is rarely meant.
func replayTarget(field string, name codec.OptString) (target *string, bad string) {
	if !name.Set {
		return nil, ""
	}
	trimmed := strings.TrimSpace(name.Value)
	switch {
	case trimmed == "":
		return nil, field + " is blank"
	case len(trimmed) > maxName:
		return nil, field + nameTooLong
	}
	return &trimmed, ""
}

// failReplay says with the error what became of the dead letter: it is still there, but
// for a write that failed, after which nobody knows.
func (r *request) failReplay(err error) {
	removed := `,"success":false,"dlqRowRemoved":false`
	if errors.Is(err, broker.ErrStorageFailed) {
		removed = `,"success":false,"dlqRowRemoved":null`
	}
	r.failWith(err, removed)
}

// sendReplay answers 200: the letter was moved, or its message is already back.
func (r *request) sendReplay(result *broker.ReplayResult) {
	push := result.Push
	outcome := "moved"
	if push.Status == broker.Duplicate {
		outcome, push.MessageID = "duplicate", uuid.Nil
	}
	b := append(r.answer(), `{"success":true,"result":"`...)
	b = append(b, outcome...)
	b = append(b, `","queue":`...)
	b = codec.AppendString(b, result.Queue)
	b = append(b, `,"partition":`...)
	b = codec.AppendString(b, result.Partition)
	b = append(b, `,"consumerGroup":`...)
	b = codec.AppendString(b, result.DeadLetter.Group)
	b = append(b, `,"dlqId":`...)
	b = codec.AppendUUID(b, result.DeadLetter.ID)
	b = append(b, `,"originalTransactionId":`...)
	b = codec.AppendString(b, result.DeadLetter.TransactionID)
	b = append(b, `,"replayedAs":`...)
	b = appendPushResult(b, 0, borrowBytes(result.Queue), borrowBytes(result.TransactionID), &push, push.Offset >= 0)
	b = append(b, `,"dlqRowRemoved":`...)
	b = strconv.AppendBool(b, result.Removed)
	r.send(fasthttp.StatusOK, append(b, '}'))
}
