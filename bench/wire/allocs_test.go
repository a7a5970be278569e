//go:build !race

package wire

import "testing"

func TestReaderAllocatesNothing(t *testing.T) {
	answer := []byte("HTTP/1.1 201 Created\r\nContent-Type: application/json\r\nContent-Length: 4\r\n\r\n[{}]")
	r := NewReader(&endless{answer: answer})
	if n := testing.AllocsPerRun(1000, func() {
		if status, _, err := r.Next(); status != 201 || err != nil {
			t.Fatal(status, err)
		}
	}); n != 0 {
		t.Errorf("got %v allocations an answer", n)
	}
}

// endless repeats an answer.
type endless struct {
	answer []byte
	at     int
}

func (e *endless) Read(p []byte) (n int, err error) {
	for n < len(p) {
		m := copy(p[n:], e.answer[e.at:])
		n, e.at = n+m, (e.at+m)%len(e.answer)
	}
	return n, nil
}
