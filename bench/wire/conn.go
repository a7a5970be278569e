package wire

import (
	"fmt"
	"net"
	"time"
)

// Conn is one connection that sends a request at a time.
type Conn struct {
	c net.Conn
	r *Reader
}

// Dial connects to address, HOST:PORT.
func Dial(address string) (*Conn, error) {
	c, err := net.DialTimeout("tcp", address, 10*time.Second)
	if err != nil {
		return nil, fmt.Errorf("connect: %w", err)
	}
	return New(c), nil
}

// New returns a Conn over c, which it closes with Close.
func New(c net.Conn) *Conn { return &Conn{c: c, r: NewReader(c)} }

// SetDeadline bounds all requests to come. It is meant to be set once for many: a timer
// for each would cost more than it is worth.
func (c *Conn) SetDeadline(t time.Time) error { return c.c.SetDeadline(t) }

// Send writes the bytes of a request.
func (c *Conn) Send(request []byte) error {
	_, err := c.c.Write(request)
	return err
}

// Receive reads an answer. The body is valid until the next one is read.
func (c *Conn) Receive() (status int, body []byte, err error) { return c.r.Next() }

// Do sends request and reads its answer. The body is valid until the next one is read.
func (c *Conn) Do(request []byte) (status int, body []byte, err error) {
	if err := c.Send(request); err != nil {
		return 0, nil, err
	}
	return c.Receive()
}

// Close closes the connection.
func (c *Conn) Close() error { return c.c.Close() }
