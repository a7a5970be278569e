package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"
)

// patience is how long one answer may take, beyond what the request asks for. A broker
// that needs longer is stuck: its syncs are bounded by the disk, and this is generous.
const patience = 20 * time.Second

// errLost says that the broker may have done what was asked.
var errLost = errors.New("answer lost")

// conn is one worker's connection to one life of the broker. http.Client would send a
// pop again by itself when a connection breaks, and so hide what the checker must know.
type conn struct {
	net.Conn
	life   int
	reader *bufio.Reader
}

func dial(ctx context.Context, address string, life int) (*conn, error) {
	var d net.Dialer
	nc, err := d.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("connect to the broker: %w", err)
	}
	return &conn{Conn: nc, life: life, reader: bufio.NewReader(nc)}, nil
}

// do sends a request and reads the answer. Its error is errLost.
func (c *conn) do(method, path string, body []byte, wait time.Duration) (status int, answer []byte, err error) {
	req, err := http.NewRequest(method, "http://localhost"+path, bytes.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	if err := c.SetDeadline(time.Now().Add(wait + patience)); err != nil {
		return 0, nil, fmt.Errorf("%w: %w", errLost, err)
	}
	if err := req.Write(c); err != nil {
		return 0, nil, fmt.Errorf("%w: %w", errLost, err)
	}
	resp, err := http.ReadResponse(c.reader, req)
	if err != nil {
		return 0, nil, fmt.Errorf("%w: %w", errLost, err)
	}
	answer, err = io.ReadAll(resp.Body)
	if err = errors.Join(err, resp.Body.Close()); err != nil {
		return 0, nil, fmt.Errorf("%w: %w", errLost, err)
	}
	return resp.StatusCode, answer, nil
}
