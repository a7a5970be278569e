package codec

import (
	"errors"
	"strconv"
)

// Error says why a body was refused, in words meant for the client. It never quotes
// more of the body than one byte, so it is safe to log and short to send.
type Error struct {
	Text   string // what is wrong
	Offset int    // of the first offending byte of the body, from 0; -1 when no byte is to blame
}

// Error gives the text and, where one byte is to blame, its place.
func (e *Error) Error() string {
	if e.Offset < 0 {
		return e.Text
	}
	return e.Text + " at byte " + strconv.Itoa(e.Offset)
}

// ErrQueueRequired refuses a configuration that names no queue. The body itself was
// valid JSON.
var ErrQueueRequired = errors.New("queue is required")

// unexpected describes the byte at b[i], or the end of b.
func unexpected(b []byte, i int) *Error {
	if i >= len(b) {
		return &Error{Text: "unexpected end", Offset: len(b)}
	}
	return &Error{Text: "unexpected " + quoteByte(b[i]), Offset: i}
}

// quoteByte shows c as a client would type it, or in hexadecimal where it has no
// shape of its own.
func quoteByte(c byte) string {
	if c > ' ' && c < 0x7f {
		return "'" + string(rune(c)) + "'"
	}
	return "0x" + string([]byte{hexDigits[c>>4], hexDigits[c&15]})
}
