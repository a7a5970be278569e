package server

import (
	"sync"

	"github.com/valyala/fasthttp"

	"github.com/skepmq/skep/broker"
	"github.com/skepmq/skep/server/codec"
)

const (
	firstBuffer = 1 << 10 // the room of a new buffer
	shortBuffer = 2 * freeAnswer
	keptBuffer  = 1 << 20 // the largest that goes back to a pool
)

var (
	jsonType = []byte("application/json")
	htmlType = []byte("text/html; charset=utf-8")
)

// request is one request on its way through its handler. A parked pop holds one for
// the length of its wait, so the large parts are taken only when needed.
type request struct {
	ctx    *fasthttp.RequestCtx
	server *Server
	conn   *conn
	broker Broker
	tenant broker.Tenant
	sub    []byte // who sent it, by the token; nil: nobody knows

	params [maxParams][]byte // path parameters, decoded; borrowed
	values codec.Values      // of the query; borrowed

	body *buffer // nil: not read
	work share   // of the budget of its body
	out  *buffer // nil: no answer begun

	op      operation
	room    share // of the budget of answers
	listing bool  // it has a turn to make a list

	part       partWriter
	addMessage func(broker.Message) bool // part.add, bound once
}

var requests = sync.Pool{New: func() any {
	r := new(request)
	r.addMessage = r.part.add
	return r
}}

// release gives back what r holds. The response keeps what it was lent.
func (r *request) release() {
	r.work.GiveBack()
	r.room.GiveBack()
	if r.listing {
		<-r.server.listC
	}
	if r.body != nil {
		r.body.release()
	}
	if r.out != nil {
		r.out.release()
	}
	r.values.Reset()
	*r = request{values: r.values, addMessage: r.addMessage} // both keep their room
	requests.Put(r)
}

// param returns path parameter i as a string of its own.
func (r *request) param(i int) string { return string(r.params[i]) }

// answer returns the empty buffer to append the answer to; send takes it.
func (r *request) answer() []byte {
	if r.out == nil {
		r.out = getBuffer(firstBuffer)
	}
	return r.out.b[:0]
}

// send answers with status and the JSON text b, which grew out of answer. A 503 asks the
// client to come back in a second.
func (r *request) send(status int, b []byte) {
	if !r.hasRoom(b) {
		r.out = nil // with its memory
		status, b = fasthttp.StatusServiceUnavailable, append(r.answer(), answerOverloaded...)
	}
	r.out.b = b
	response := &r.ctx.Response
	response.SetStatusCode(status)
	response.Header.SetContentTypeBytes(jsonType)
	response.SetBodyRaw(b)
	if status == fasthttp.StatusServiceUnavailable {
		response.Header.Set(fasthttp.HeaderRetryAfter, "1")
	}
	if status == fasthttp.StatusUnauthorized {
		response.Header.Set(fasthttp.HeaderWWWAuthenticate, "Bearer")
	}
	r.conn.lend(r.out, r.ctx.IsHead())
	r.out = nil
	if r.room.grant != (grant{}) {
		held := r.room
		r.room.grant = grant{}
		r.conn.room.Store(&held)
	}
}

// sendText answers with a fixed JSON text.
func (r *request) sendText(status int, text string) {
	r.send(status, append(r.answer(), text...))
}

// nothing answers 204: no body, no Content-Type, no Content-Length.
func (r *request) nothing() {
	r.ctx.Response.SetStatusCode(fasthttp.StatusNoContent)
}

// buffer is a pooled byte slice.
type buffer struct{ b []byte }

// Short requests and answers have buffers of their own: they are not counted, and a long
// one in their hands would be memory that nobody knows of.
var buffers, longBuffers = sync.Pool{New: newBuffer}, sync.Pool{New: newBuffer}

func newBuffer() any { return new(buffer) }

// getBuffer returns a buffer with room for size bytes. Its content is garbage.
func getBuffer(size int) *buffer {
	pool := &buffers
	if size > shortBuffer {
		pool = &longBuffers
	}
	b := pool.Get().(*buffer)
	if cap(b.b) < size {
		b.b = make([]byte, 0, max(size, firstBuffer))
	}
	return b
}

func (b *buffer) release() {
	switch {
	case cap(b.b) <= shortBuffer:
		buffers.Put(b)
	case cap(b.b) <= keptBuffer:
		longBuffers.Put(b)
	}
}
