package server

import (
	"errors"

	"github.com/valyala/fasthttp"

	"github.com/skepmq/skep/broker"
)

var (
	errConflationGroup   = errors.New("conflation needs a consumerGroup")
	errConflationAutoAck = errors.New("conflation and autoAck exclude each other")
)

// checkConflation refuses requests for conflation that could not mean anything: it is
// stored with a named group, and tells by an ack how much was passed over.
func checkConflation(req *broker.PopRequest) error {
	switch {
	case groupOrQueueMode(req.Group) == broker.QueueMode:
		return errConflationGroup
	case req.AutoAck:
		return errConflationAutoAck
	}
	return nil
}

// nothingPopped answers a pop that delivered nothing: 204, unless there is something to
// say about conflation. A client that asked for it takes an answer without an echo for
// that of a broker which does not know it, and stops.
func (r *request) nothingPopped(result *broker.PopResult) {
	if !result.Conflation && !result.ConflationConflict {
		r.nothing()
		return
	}
	b := append(r.answer(), `{"messages":[]`...)
	if result.Paused {
		b = append(b, `,"paused":true`...)
	}
	r.send(fasthttp.StatusOK, append(appendConflation(b, result), '}'))
}

// appendConflation appends the keys about conflation, which exist only when true.
func appendConflation(b []byte, result *broker.PopResult) []byte {
	if result.Conflation {
		b = append(b, `,"conflation":true`...)
	}
	if result.ConflationConflict {
		b = append(b, `,"conflationConflict":true`...)
	}
	return b
}
