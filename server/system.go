package server

import (
	"github.com/valyala/fasthttp"

	"github.com/skepmq/skep/server/codec"
)

// config answers GET /api/v1/system/config.
func (r *request) config() {
	r.abandonBody()
	b := append(r.answer(), r.server.opts.Config...)
	if len(b) == 0 {
		b = append(b, "{}"...)
	}
	r.send(fasthttp.StatusOK, b)
}

// notify answers POST /internal/api/notify, by which the nodes of a cluster tell each other of
// messages. Whoever waits here has been woken already.
func (r *request) notify() {
	body, ok := r.readBody()
	if !ok {
		return
	}
	queue, err := codec.DecodeNotify(body)
	switch {
	case err != nil:
		r.badBody(err.Error())
	case queue == "":
		r.sendError(fasthttp.StatusBadRequest, "", codec.ErrQueueRequired.Error())
	case r.broker == nil:
		r.sendText(fasthttp.StatusServiceUnavailable, recovering)
	default:
		r.broker.Notify(r.tenant, queue)
		r.sendText(fasthttp.StatusOK, `{"status":"ok"}`)
	}
}
