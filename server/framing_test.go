package server

import (
	"bufio"
	"bytes"
	"net/http"
	"testing"

	"github.com/valyala/fasthttp"
)

// FuzzFraming reads a request with the parser of fasthttp and our checks, and with that of
// net/http. If both take it, both have to find the same body, so that no proxy in Go can
// be made to see another request than we do.
func FuzzFraming(f *testing.F) {
	for _, head := range []string{
		"Content-Length: 5\r\n", "Transfer-Encoding: chunked\r\n", "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
		"X-A: b\r\n c\r\n", "X-A: b\nContent-Length: 3\r\n", "Content-Length : 1\r\n", "transfer-encoding:identity\r\n",
		"Content-Encoding: gzip\r\n", "Connection: close\r\nContent-Length: 005\r\n", "Host: y\r\n",
	} {
		f.Add([]byte("POST /api/v1/push?a=b HTTP/1.1\r\nHost: x\r\n" + head + "\r\nhello"))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		var h fasthttp.RequestHeader
		ours := bufio.NewReaderSize(bytes.NewReader(raw), readBufferBytes)
		if h.Read(ours) != nil || checkFraming(h.RawHeaders(), h.ContentLength()) != nil {
			return
		}
		theirs := bufio.NewReader(bytes.NewReader(raw))
		req, err := http.ReadRequest(theirs)
		if err != nil {
			return
		}
		length := int64(h.ContentLength())
		if length == -2 {
			length = 0 // neither length nor encoding
		}
		chunked := len(req.TransferEncoding) > 0
		if chunked != (length == chunkedLength) || !chunked && length != req.ContentLength {
			t.Fatalf("length %d, theirs %d, chunked %t", length, req.ContentLength, chunked)
		}
		if string(h.Method()) != req.Method || string(h.RequestURI()) != req.RequestURI {
			t.Fatalf("%q of %q, theirs %q of %q", h.Method(), h.RequestURI(), req.Method, req.RequestURI)
		}
	})
}
