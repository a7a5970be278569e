package server

import (
	"bytes"
	"errors"
)

// What fasthttp takes and we do not: whatever another program on the way, a proxy or a
// load balancer, could read in another way. Where two parsers disagree about the end of a
// request, one client can put words into the mouth of the next.
var (
	errFraming    = errors.New("server: header that can be read in two ways")
	errCompressed = errors.New("server: compressed request body")
)

var (
	contentLength    = []byte("content-length")
	contentEncoding  = []byte("content-encoding")
	transferEncoding = []byte("transfer-encoding")
	identity         = []byte("identity")
)

// chunkedLength is the length that fasthttp gives a chunked body.
const chunkedLength = -1

// checkFraming looks through the header lines of a request as they were sent, with the
// empty one. length is what fasthttp made of them. Lines end with CRLF, none goes on on
// the next, names hold no white space, a body has one kind of length, and it is what it
// is: nothing is decompressed, so nothing has to be bounded that a few bytes grow into.
func checkFraming(raw []byte, length int) error {
	var lengths, encodings bool
	for len(raw) > 0 {
		n := bytes.IndexByte(raw, '\n')
		if n <= 0 || raw[n-1] != '\r' || raw[0] == ' ' || raw[0] == '\t' {
			return errFraming
		}
		name, value, _ := bytes.Cut(raw[:n-1], colon)
		raw = raw[n+1:]
		if bytes.IndexByte(name, ' ') >= 0 || bytes.IndexByte(name, '\t') >= 0 {
			return errFraming
		}
		switch {
		case len(name) == len(contentLength) && bytes.EqualFold(name, contentLength):
			lengths = true
		case len(name) == len(transferEncoding) && bytes.EqualFold(name, transferEncoding):
			encodings = true
		case len(name) == len(contentEncoding) && bytes.EqualFold(name, contentEncoding):
			if value = bytes.TrimSpace(value); len(value) > 0 && !bytes.EqualFold(value, identity) {
				return errCompressed
			}
		}
	}
	if encodings && (lengths || length != chunkedLength) {
		return errFraming
	}
	return nil
}

var colon = []byte(":")

// checkFraming answers a request that is not to be read further, and reports whether it
// was fine. Where such a request ends is anybody's guess, so the connection ends with it.
func (r *request) checkFraming() bool {
	h := &r.ctx.Request.Header
	err := checkFraming(h.RawHeaders(), h.ContentLength())
	if err == nil {
		return true
	}
	r.ctx.SetConnectionClose()
	r.conn.lingering.Store(true)
	r.fail(err)
	return false
}
