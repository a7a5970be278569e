package server

import (
	"errors"
	"strconv"

	"github.com/valyala/fasthttp"

	"github.com/skepmq/skep/broker"
	"github.com/skepmq/skep/server/codec"
)

// moveSubscription answers POST /api/v1/consumer-groups/:group/subscription.
func (r *request) moveSubscription() {
	body, ok := r.readBody()
	if !ok {
		return
	}
	text, err := codec.DecodeSubscription(body)
	if err != nil {
		r.badBody(err.Error())
		return
	}
	if text == "" {
		r.sendError(fasthttp.StatusBadRequest, "", "subscriptionTimestamp is required")
		return
	}
	instant, ok := r.instant(text)
	if !ok {
		return
	}
	n, err := r.broker.MoveSubscription(r.tenant, r.groupParam(), instant)
	if err != nil {
		r.fail(err)
		return
	}
	b := r.appendGroupName(append(r.answer(), `{"success":true`...))
	b = append(b, `,"newTimestamp":`...)
	b = codec.AppendString(b, text)
	b = append(b, `,"rowsUpdated":`...)
	b = strconv.AppendInt(b, int64(n), 10)
	r.send(fasthttp.StatusOK, append(b, '}'))
}

const invalidTimestamp = "invalid timestamp: "

// instant reads a time in a body, or answers 400.
func (r *request) instant(text string) (unixMs int64, ok bool) {
	unixMs, ok = codec.ParseTime(text)
	if !ok {
		r.sendError(fasthttp.StatusBadRequest, invalidTimestamp, text)
	}
	return unixMs, ok
}

// seekTarget reads the body of a seek, or answers 400. orEnd: an empty one means the end.
func (r *request) seekTarget(orEnd bool) (to broker.SeekTarget, text string, ok bool) {
	body, ok := r.readBody()
	if !ok {
		return to, "", false
	}
	seek, err := codec.DecodeSeek(body)
	switch {
	case err != nil:
		r.badBody(err.Error())
	case seek.ToEnd, orEnd && seek.Empty:
		return broker.SeekTarget{ToEnd: true}, "", true
	case seek.Timestamp == "":
		r.sendError(fasthttp.StatusBadRequest, "", "Must specify toEnd=true or a timestamp")
	default:
		ms, ok := r.instant(seek.Timestamp)
		return broker.SeekTarget{TimestampMs: ms}, seek.Timestamp, ok
	}
	return to, "", false
}

// seekQueue answers POST /api/v1/consumer-groups/:group/queues/:queue/seek.
func (r *request) seekQueue() {
	to, text, ok := r.seekTarget(false)
	if !ok {
		return
	}
	n, err := r.broker.Seek(r.tenant, r.groupParam(), r.param(1), to)
	status := fasthttp.StatusOK
	var b []byte
	switch {
	case errors.Is(err, broker.ErrQueueNotFound):
		status = fasthttp.StatusNotFound
		b = append(r.answer(), `{"success":false,"error":"Queue not found or has no partitions"`...)
		b = r.appendQueueName(r.appendGroupName(b))
	case err != nil:
		r.fail(err)
		return
	default:
		b = r.appendQueueName(r.appendGroupName(append(r.answer(), `{"success":true`...)))
		b = appendTarget(b, to, text)
	}
	b = append(b, `,"partitionsUpdated":`...)
	b = strconv.AppendInt(b, int64(n), 10)
	r.send(status, append(b, '}'))
}

// seekPartition answers POST
// /api/v1/consumer-groups/:group/queues/:queue/partitions/:partition/seek. An empty body
// means to the end.
func (r *request) seekPartition() {
	to, text, ok := r.seekTarget(true)
	if !ok {
		return
	}
	if err := r.broker.SeekPartition(r.tenant, r.groupParam(), r.param(1), r.param(2), to); err != nil {
		r.fail(err)
		return
	}
	b := r.appendQueueName(r.appendGroupName(append(r.answer(), `{"success":true`...)))
	b = append(b, `,"partitionName":`...)
	b = codec.AppendString(b, r.params[2])
	b = appendTarget(b, to, text)
	r.send(fasthttp.StatusOK, append(b, `,"updated":true}`...))
}

// appendTarget echoes a seek's target, a timestamp as it was sent.
func appendTarget(b []byte, to broker.SeekTarget, text string) []byte {
	b = append(b, `,"seekToEnd":`...)
	b = strconv.AppendBool(b, to.ToEnd)
	b = append(b, `,"targetTimestamp":`...)
	return appendStringOrNull(b, text)
}
