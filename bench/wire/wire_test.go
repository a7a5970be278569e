package wire

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"testing/iotest"
)

// readAll returns every answer of src as "status body", and the error that ended it.
func readAll(src io.Reader) (answers []string, err error) {
	r := NewReader(src)
	for {
		status, body, err := r.Next()
		if err != nil {
			return answers, err
		}
		answers = append(answers, fmt.Sprintf("%d %s", status, body))
	}
}

func TestReader(t *testing.T) {
	const created = "HTTP/1.1 201 Created\r\nContent-Type: application/json\r\nContent-Length: 4\r\n\r\n[{}]"
	long := strings.Repeat("x", 100_000)
	for _, tt := range []struct {
		name, input string
		want        []string
		err         error
	}{
		{"one", created, []string{"201 [{}]"}, io.EOF},
		{"several", created + created, []string{"201 [{}]", "201 [{}]"}, io.EOF},
		{"no content", "HTTP/1.1 204 No Content\r\n\r\n" + created, []string{"204 ", "201 [{}]"}, io.EOF},
		{"empty", "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n" + created, []string{"200 ", "201 [{}]"}, io.EOF},
		{"any case", "HTTP/1.1 200 OK\r\ncontent-LENGTH:2\r\nX: y\r\n\r\nok", []string{"200 ok"}, io.EOF},
		{"blank lines within the body", "HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\n\r\n\r\n\r\n\r\n" + created,
			[]string{"200 \r\n\r\n\r\n\r\n", "201 [{}]"}, io.EOF},
		{"longer than the buffer", "HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n" + long + created,
			[]string{"200 " + long, "201 [{}]"}, io.EOF},
		{"nothing", "", nil, io.EOF},
		{"cut in the head", created[:30], nil, io.ErrUnexpectedEOF},
		{"cut in the body", created + created[:len(created)-1], []string{"201 [{}]"}, io.ErrUnexpectedEOF},
		{"cut before the body", created[:len(created)-4], nil, io.ErrUnexpectedEOF},
		{"no length", "HTTP/1.1 200 OK\r\nX: y\r\n\r\n", nil, ErrAnswer},
		{"chunks", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", nil, ErrAnswer},
		{"not a length", "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", nil, ErrAnswer},
		{"absurd length", "HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\n", nil, ErrAnswer},
		{"blank length", "HTTP/1.1 200 OK\r\nContent-Length: \r\n\r\n", nil, ErrAnswer},
		{"not HTTP", "SSH-2.0-OpenSSH_9.9\r\n\r\n", nil, ErrAnswer},
		{"not a status", "HTTP/1.1 2x0 OK\r\n\r\n", nil, ErrAnswer},
		{"endless head", "HTTP/1.1 200 OK\r\nX: " + long, nil, ErrAnswer},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for how, src := range map[string]io.Reader{
				"whole":        strings.NewReader(tt.input),
				"byte by byte": iotest.OneByteReader(strings.NewReader(tt.input)),
				"end with data": iotest.DataErrReader(
					strings.NewReader(tt.input)),
			} {
				got, err := readAll(src)
				if strings.Join(got, "|") != strings.Join(tt.want, "|") || !errors.Is(err, tt.err) {
					t.Errorf("%s: got %d answers, %v; want %d, %v", how, len(got), err, len(tt.want), tt.err)
				}
			}
		})
	}
}

func TestDo(t *testing.T) {
	client, server := net.Pipe()
	defer server.Close()
	c := New(client)
	defer c.Close()
	request := []byte("GET / HTTP/1.1\r\n\r\n")
	go func() {
		got := make([]byte, len(request))
		if _, err := io.ReadFull(server, got); err != nil || !bytes.Equal(got, request) {
			t.Errorf("got the request %q, %v", got, err)
		}
		if _, err := io.WriteString(server, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"); err != nil {
			t.Error(err)
		}
	}()
	status, body, err := c.Do(request)
	if status != 200 || string(body) != "ok" || err != nil {
		t.Errorf("got %d %q, %v", status, body, err)
	}
}

func FuzzReader(f *testing.F) {
	f.Add([]byte("HTTP/1.1 201 Created\r\nContent-Length: 4\r\n\r\n[{}]HTTP/1.1 204 No Content\r\n\r\n"))
	f.Add([]byte("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n[{}"))
	f.Fuzz(func(t *testing.T, input []byte) {
		whole, wholeErr := readAll(bytes.NewReader(input))
		pieces, piecesErr := readAll(iotest.OneByteReader(bytes.NewReader(input)))
		if strings.Join(whole, "|") != strings.Join(pieces, "|") || (errors.Is(wholeErr, io.EOF)) != errors.Is(piecesErr, io.EOF) {
			t.Errorf("got %d answers and %v at once, %d and %v byte by byte", len(whole), wholeErr, len(pieces), piecesErr)
		}
	})
}
