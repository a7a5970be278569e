package wire

import (
	"bytes"
	"errors"
	"fmt"
	"io"
)

const (
	firstBuffer = 16 << 10
	maxAnswer   = 256 << 20
)

// ErrAnswer says that an answer is not HTTP/1.1 with a Content-Length.
var ErrAnswer = errors.New("wire: malformed answer")

// Reader splits a stream into answers. Not safe for concurrent use.
type Reader struct {
	src        io.Reader
	buf        []byte
	start, end int // of what was read and not returned
}

// NewReader returns a Reader of src.
func NewReader(src io.Reader) *Reader {
	return &Reader{src: src, buf: make([]byte, firstBuffer)}
}

// Next reads one answer. The body is valid until the next call. At the end of the stream,
// between two answers, the error is io.EOF; within one, io.ErrUnexpectedEOF.
func (r *Reader) Next() (status int, body []byte, err error) {
	headLen, err := r.head()
	if err != nil {
		return 0, nil, err
	}
	head := r.buf[r.start : r.start+headLen]
	status, length, err := parseHead(head)
	if err != nil {
		return 0, nil, err
	}
	if err := r.fill(headLen + length); err != nil {
		return 0, nil, unexpected(err)
	}
	from := r.start + headLen
	r.start = from + length
	return status, r.buf[from:r.start], nil
}

var endOfHead = []byte("\r\n\r\n")

// head reads until the buffer holds a whole head, and returns its length with the blank line.
func (r *Reader) head() (int, error) {
	if r.start == r.end {
		r.start, r.end = 0, 0
	}
	for seen := 0; ; {
		// The blank line may begin in what was searched before.
		from := max(seen-len(endOfHead)+1, 0)
		if i := bytes.Index(r.buf[r.start+from:r.end], endOfHead); i >= 0 {
			return from + i + len(endOfHead), nil
		}
		seen = r.end - r.start
		if seen > firstBuffer {
			return 0, fmt.Errorf("%w: head of more than %d bytes", ErrAnswer, firstBuffer)
		}
		if err := r.fill(seen + 1); err != nil {
			if seen > 0 {
				err = unexpected(err)
			}
			return 0, err
		}
	}
}

// fill reads until n bytes are there.
func (r *Reader) fill(n int) error {
	if r.start+n > len(r.buf) {
		r.makeRoom(n)
	}
	for r.end-r.start < n {
		m, err := r.src.Read(r.buf[r.end:])
		r.end += m
		if err != nil && r.end-r.start < n {
			return err
		}
	}
	return nil
}

// makeRoom moves what is unread to the front of the buffer, which is made longer if n
// bytes do not fit.
func (r *Reader) makeRoom(n int) {
	to := r.buf
	if n > len(to) {
		to = make([]byte, max(n, 2*len(to)))
	}
	r.end = copy(to, r.buf[r.start:r.end])
	r.start, r.buf = 0, to
}

func unexpected(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

var contentLength = []byte("content-length:")

// parseHead returns the status and the length of the body.
func parseHead(head []byte) (status, length int, err error) {
	const statusAt = len("HTTP/1.1 ")
	line, rest, _ := bytes.Cut(head, endOfHead[:2])
	if len(line) < statusAt+3 || string(line[:statusAt]) != "HTTP/1.1 " {
		return 0, 0, fmt.Errorf("%w: %q", ErrAnswer, line)
	}
	if status, err = number(line[statusAt : statusAt+3]); err != nil {
		return 0, 0, err
	}
	if status < 200 || status == 204 || status == 304 {
		return status, 0, nil
	}
	for len(rest) > 0 {
		line, rest, _ = bytes.Cut(rest, endOfHead[:2])
		if n := len(contentLength); len(line) > n && bytes.EqualFold(line[:n], contentLength) {
			length, err = number(bytes.TrimSpace(line[n:]))
			return status, length, err
		}
	}
	return 0, 0, fmt.Errorf("%w: status %d without Content-Length", ErrAnswer, status)
}

func number(digits []byte) (n int, err error) {
	for _, d := range digits {
		if d < '0' || d > '9' || n > maxAnswer {
			return 0, fmt.Errorf("%w: %q is not a number", ErrAnswer, digits)
		}
		n = n*10 + int(d-'0')
	}
	if len(digits) == 0 || n > maxAnswer {
		return 0, fmt.Errorf("%w: %q is no length", ErrAnswer, digits)
	}
	return n, nil
}
