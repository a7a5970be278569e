package server

import (
	"strconv"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/skepmq/skep/server/codec"
)

// extend answers POST /api/v1/lease/:leaseId/extend: always 200, the body is the
// verdict, whatever the request's body was.
func (r *request) extend() {
	body, ok := r.readBody()
	if !ok {
		return
	}
	leaseID := borrow(r.params[0])
	renewed, earliest, err := r.broker.Extend(r.tenant, leaseID, codec.DecodeExtend(body))
	if err != nil {
		r.fail(err)
		return
	}
	b := append(r.answer(), `{"leaseId":`...)
	b = codec.AppendString(b, leaseID)
	b = append(b, `,"success":`...)
	b = strconv.AppendBool(b, renewed > 0)
	b = append(b, `,"renewed":`...)
	b = strconv.AppendInt(b, int64(renewed), 10)
	// Three names of one value: which of them a client reads depends on its age.
	for _, key := range [...]string{`,"newExpiresAt":`, `,"expiresAt":`, `,"lease_expires_at":`} {
		b = append(b, key...)
		b = appendExpiry(b, renewed, earliest)
	}
	r.send(fasthttp.StatusOK, append(b, '}'))
}

func appendExpiry(b []byte, renewed int, at time.Time) []byte {
	if renewed == 0 {
		return append(b, "null"...)
	}
	return codec.AppendTimeMicro(b, at.UnixMicro())
}
