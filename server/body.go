package server

import (
	"errors"
	"io"
	"net"
	"time"

	"github.com/valyala/fasthttp"
)

const (
	// readAhead is how much of a body of known length fasthttp reads before the
	// handler runs. A body of that size needs no budget and no further read.
	readAhead = 8 << 10

	// smallBody is how long a body may be to be counted with the small ones, which have a
	// quarter of the budget for themselves: large ones that hardly move do not stop them.
	smallBody = 1 << 20

	// bodyStep is the progress that earns a body another ReadTimeout: slower clients
	// than one step per timeout are cut off.
	bodyStep = 256 << 10

	// defaultBodyPatience is how long a request waits for the budget of bodies.
	defaultBodyPatience = 30 * time.Second

	// pressedTimeout is what a body has for a step while others wait for the budget.
	pressedTimeout = time.Second

	// drainable is how much of an unread body fasthttp skips by itself to keep a
	// connection; beyond that it closes it.
	drainable = 256 << 10
)

// Why a body could not be had.
var (
	errBodyTooLarge  = errors.New("server: request body too large")
	errBodyTimeout   = errors.New("server: timeout while reading the request body")
	errBodyTruncated = errors.New("server: request body ended early")
	errBodyFraming   = errors.New("server: malformed request body framing")
	errAnswerBudget  = errors.New("server: too many large answers under way")
	errBodyBudget    = errors.New("server: too many large requests in flight")
)

// readBody returns the whole body of r, or answers for it and returns false. The
// bytes belong to r and last until it is released.
func (r *request) readBody() ([]byte, bool) {
	body, err := r.receive()
	if err != nil {
		// Where the body ends is unknown, so the connection cannot go on.
		r.ctx.SetConnectionClose()
		r.conn.lingering.Store(errors.Is(err, errBodyTooLarge) || errors.Is(err, errBodyBudget))
		r.fail(err)
		return nil, false
	}
	return body, true
}

func (r *request) receive() ([]byte, error) {
	stream := r.ctx.Request.BodyStream()
	if stream == nil {
		return nil, nil
	}
	length := int64(r.ctx.Request.Header.ContentLength())
	if length < 0 || length > readAhead {
		return r.receiveLarge(stream, length)
	}
	r.body = getBuffer(int(length))
	b := r.body.b[:length]
	// Already in memory, and read to its end: fasthttp finds nothing to drain.
	if _, err := io.ReadFull(stream, b); err != nil {
		return nil, bodyError(err)
	}
	return b, nil
}

// receiveLarge reads a body of more than readAhead, or of unknown length (-1), into
// a buffer that grows with what has arrived.
func (r *request) receiveLarge(stream io.Reader, length int64) ([]byte, error) {
	s := r.server
	limit := s.opts.MaxBodyBytes + 1 // one more byte tells too large from just fitting
	if length >= 0 {
		limit = length
	}
	r.body = getBuffer(readAhead)
	all := r.body.b[:0]
	b := all[:0:readAhead] // what fits into that waits for nobody, also in a longer buffer
	defer func() { r.body.b = all[:len(b)] }()
	if length < 0 || length > smallBody {
		r.work.budget = s.bodies
	}
	var renewed int64 = -bodyStep
	for {
		if int64(len(b)) == limit && length >= 0 {
			return b, nil
		}
		if len(b) == cap(b) {
			grown := min(2*int64(cap(b)), limit)
			renewed = -bodyStep // waiting for the budget is no slowness of the client
			if !r.work.wait(grown-int64(cap(b)), s.bodyPatience) {
				return nil, errBodyBudget
			}
			if int64(cap(all)) < grown {
				all = append(make([]byte, 0, grown), b...)
			}
			b = all[:len(b):grown]
		}
		if int64(len(b))-renewed >= bodyStep {
			renewed = int64(len(b))
			if err := r.conn.SetReadDeadline(time.Now().Add(r.stepTimeout())); err != nil {
				return nil, errBodyTruncated
			}
		}
		room := b[len(b):min(int64(cap(b)), limit)]
		n, err := stream.Read(room)
		b = b[:len(b)+n]
		switch {
		case int64(len(b)) > s.opts.MaxBodyBytes:
			return nil, errBodyTooLarge
		case err == io.EOF && (length < 0 || int64(len(b)) == length):
			return b, nil
		case err != nil:
			return nil, bodyError(err)
		}
	}
}

// stepTimeout is how long the next step of a body may take. Who holds memory that others
// wait for has to hurry.
func (r *request) stepTimeout() time.Duration {
	if r.work.budget.pressed() {
		return min(pressedTimeout, r.server.opts.ReadTimeout)
	}
	return r.server.opts.ReadTimeout
}

func bodyError(err error) error {
	var netErr net.Error
	switch {
	case errors.As(err, &netErr) && netErr.Timeout():
		return errBodyTimeout
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.As(err, &netErr):
		return errBodyTruncated
	}
	return errBodyFraming
}

// abandonBody prepares the connection for an answer that leaves the body unread.
func (r *request) abandonBody() {
	length := r.ctx.Request.Header.ContentLength()
	if r.ctx.Request.BodyStream() == nil || (length >= 0 && length <= drainable) {
		return // fasthttp skips it
	}
	r.ctx.SetConnectionClose()
	r.conn.lingering.Store(true)
}

// expect answers "Expect: 100-continue": a body that is too large need not be sent.
func (s *Server) expect(ctx *fasthttp.RequestCtx) int {
	if int64(ctx.Request.Header.ContentLength()) <= s.opts.MaxBodyBytes {
		return fasthttp.StatusContinue
	}
	ctx.Response.Header.SetContentTypeBytes(jsonType)
	ctx.Response.SetBodyString(bodyTooLarge)
	if c, ok := ctx.Conn().(*conn); ok {
		c.lingering.Store(true) // it may send without waiting
	}
	return fasthttp.StatusRequestEntityTooLarge
}
