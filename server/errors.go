package server

import (
	"errors"
	"net"

	"github.com/valyala/fasthttp"

	"github.com/skepmq/skep/broker"
	"github.com/skepmq/skep/server/auth"
	"github.com/skepmq/skep/server/codec"
	"github.com/skepmq/skep/server/trace"
)

// Fixed bodies.
const (
	bodyTooLarge     = `{"error":"request body too large"}`
	answerOverloaded = `{"error":"too many large answers under way","code":"overloaded"}`
	noSuchRoute      = `{"error":"Not Found","code":"no_such_route"}`
	malformedRequest = `{"error":"malformed request"}`
	methodNotAllowed = `{"error":"Method Not Allowed","code":"method_not_allowed"}`
	recovering       = `{"error":"recovering","code":"recovering"}`
)

// Why a request may not have what it asks for.
var (
	errForbidden   = errors.New("server: the roles of the token do not open this")
	errForeignSite = errors.New("server: sent by a page of another site")
	errForeignHost = errors.New("server: not a name of this server")
	errTenant      = errors.New("server: header that names no tenant")
)

// failures is the one place where an error becomes a status and a body. Routes whose
// answer to an error has a shape of its own look for that error before they come here.
var failures = [...]struct {
	err    error
	status int
	body   string
}{
	{auth.ErrNoToken, fasthttp.StatusUnauthorized, `{"error":"Authentication required"}`},
	{auth.ErrMalformed, fasthttp.StatusUnauthorized, `{"error":"Bad token header"}`},
	{auth.ErrAlgorithm, fasthttp.StatusUnauthorized, `{"error":"Unsupported token algorithm"}`},
	{auth.ErrSignature, fasthttp.StatusUnauthorized, `{"error":"Invalid token signature"}`},
	{auth.ErrExpired, fasthttp.StatusUnauthorized, `{"error":"Token has expired"}`},
	{auth.ErrNotYetValid, fasthttp.StatusUnauthorized, `{"error":"Token not yet valid"}`},
	{auth.ErrIssuedLater, fasthttp.StatusUnauthorized, `{"error":"Token issued in the future"}`},
	{auth.ErrIssuer, fasthttp.StatusUnauthorized, `{"error":"Invalid token issuer"}`},
	{auth.ErrAudience, fasthttp.StatusUnauthorized, `{"error":"Invalid token audience"}`},
	{auth.ErrUnknownKey, fasthttp.StatusUnauthorized, `{"error":"Unknown key ID"}`},
	{auth.ErrNoSecret, fasthttp.StatusInternalServerError, `{"error":"HS secret not configured"}`},
	{auth.ErrNotRSAKey, fasthttp.StatusInternalServerError, `{"error":"invalid RSA public key PEM"}`},
	{auth.ErrNotEdKey, fasthttp.StatusInternalServerError, `{"error":"invalid Ed public key PEM"}`},
	{errForbidden, fasthttp.StatusForbidden, `{"error":"Insufficient permissions"}`},
	{errForeignSite, fasthttp.StatusForbidden, `{"error":"requests of other sites are refused","code":"cross_site"}`},
	{errForeignHost, fasthttp.StatusForbidden, `{"error":"unknown host name; see --allowed-hosts","code":"unknown_host"}`},

	{errTenant, fasthttp.StatusBadRequest, `{"error":"invalid x-queen-tenant header (must be a UUID)"}`},

	{broker.ErrStorageFull, fasthttp.StatusInsufficientStorage, `{"error":"storage is full","code":"storage_full"}`},
	{trace.ErrFailed, fasthttp.StatusServiceUnavailable, `{"error":"the trace was not kept","code":"trace_failed"}`},
	{broker.ErrStorageFailed, fasthttp.StatusServiceUnavailable, `{"error":"storage has failed; the outcome of the request is unknown","code":"storage_failed"}`},
	{broker.ErrClosed, fasthttp.StatusServiceUnavailable, `{"error":"the broker is stopping","code":"stopping"}`},
	{broker.ErrTooManyParked, fasthttp.StatusServiceUnavailable, `{"error":"too many waiting requests","code":"overloaded"}`},
	{broker.ErrMemoryHigh, fasthttp.StatusServiceUnavailable, `{"error":"memory is short: no new queues, partitions and groups","code":"memory_high"}`},
	{broker.ErrNoRoom, fasthttp.StatusServiceUnavailable, answerOverloaded},
	{errAnswerBudget, fasthttp.StatusServiceUnavailable, answerOverloaded},
	{broker.ErrSnapshotRunning, fasthttp.StatusConflict, `{"error":"another snapshot is being copied","code":"snapshot_running"}`},
	{broker.ErrPartitionDamaged, fasthttp.StatusInternalServerError, `{"error":"partition damaged","code":"partition_damaged"}`},
	{broker.ErrQueueNotFound, fasthttp.StatusNotFound, `{"error":"Queue not found"}`},
	{broker.ErrPartitionNotFound, fasthttp.StatusNotFound, `{"success":false,"error":"Partition not found"}`},
	{broker.ErrDeadLetterNotFound, fasthttp.StatusNotFound, `{"error":"Message not found"}`},
	{broker.ErrMessageNotFound, fasthttp.StatusNotFound, `{"error":"Message not found"}`},
	{broker.ErrNoLabel, fasthttp.StatusBadRequest, `{"success":false,"error":"namespace or task is required","messages":[]}`},

	{errFraming, fasthttp.StatusBadRequest, malformedRequest},
	{errCompressed, fasthttp.StatusUnsupportedMediaType, `{"error":"compressed request bodies are not taken"}`},
	{errBodyTooLarge, fasthttp.StatusRequestEntityTooLarge, bodyTooLarge},
	{errBodyTimeout, fasthttp.StatusRequestTimeout, `{"error":"timeout while reading the request body"}`},
	{errBodyTruncated, fasthttp.StatusBadRequest, `{"error":"bad body: ended early"}`},
	{errBodyFraming, fasthttp.StatusBadRequest, `{"error":"bad body: malformed chunk"}`},
	{errBodyBudget, fasthttp.StatusServiceUnavailable, `{"error":"too many large requests in flight","code":"overloaded"}`},
}

// fail answers with what failures says about err. An error that it does not know is
// a defect of ours: it is logged, and the client learns its text.
func (r *request) fail(err error) { r.failWith(err, "") }

// failWith is fail with more members of the object, each behind a comma.
func (r *request) failWith(err error, members string) {
	for i := range failures {
		f := &failures[i]
		if !errors.Is(err, f.err) {
			continue
		}
		b := append(r.answer(), f.body[:len(f.body)-1]...)
		r.send(f.status, append(append(b, members...), '}'))
		return
	}
	r.server.log.Error().Err(err).Bytes("path", r.ctx.URI().PathOriginal()).Msg("request failed")
	b := codec.AppendString(append(r.answer(), `{"error":`...), err.Error())
	r.send(fasthttp.StatusInternalServerError, append(append(b, members...), '}'))
}

// badBody answers 400 to a body that is not what the route takes.
func (r *request) badBody(reason string) {
	r.sendError(fasthttp.StatusBadRequest, "bad body: ", reason)
}

// badQuery answers 400 to a query parameter that cannot be read.
func (r *request) badQuery(err error) {
	r.sendError(fasthttp.StatusBadRequest, "bad query: ", err.Error())
}

// sendError answers {"error":"<prefix><reason>"}.
func (r *request) sendError(status int, prefix, reason string) {
	b := append(r.answer(), `{"error":`...)
	b = codec.AppendString(b, prefix+reason)
	r.send(status, append(b, '}'))
}

// handleError answers requests that fasthttp could not read. It closes the
// connection afterwards.
func (s *Server) handleError(ctx *fasthttp.RequestCtx, err error) {
	status, body := fasthttp.StatusBadRequest, malformedRequest
	var small *fasthttp.ErrSmallBuffer
	var netErr net.Error
	switch {
	case errors.As(err, &small):
		status, body = fasthttp.StatusRequestHeaderFieldsTooLarge, `{"error":"request header too large"}`
	case errors.As(err, &netErr) && netErr.Timeout():
		status, body = fasthttp.StatusRequestTimeout, `{"error":"request timeout"}`
	case errors.Is(err, fasthttp.ErrBodyTooLarge):
		status, body = fasthttp.StatusRequestEntityTooLarge, bodyTooLarge
	}
	if c, ok := ctx.Conn().(*conn); ok && status != fasthttp.StatusRequestTimeout {
		c.lingering.Store(true) // it may not have sent all of it yet
	}
	ctx.Response.Reset()
	ctx.SetStatusCode(status)
	ctx.Response.Header.SetContentTypeBytes(jsonType)
	ctx.Response.SetBodyString(body)
}
