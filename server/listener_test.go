package server

import (
	"net"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
)

// A system that has no room for another connection does not end the broker.
func TestAcceptOutlivesShortage(t *testing.T) {
	for name, short := range map[string]error{
		"of the process": syscall.EMFILE, "of the system": syscall.ENFILE, "memory": syscall.ENOBUFS,
	} {
		t.Run(name, func(t *testing.T) {
			ln, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			start(t, &shortListener{Listener: ln, err: short}, newFake(), Options{})
			c := dial(t, ln.Addr().String())
			c.send(get("/health"))
			if head, _ := c.response(); !strings.HasPrefix(head, "HTTP/1.1 200") {
				t.Fatalf("got %q", head)
			}
		})
	}
}

// shortListener fails twice before it accepts, as the operating system does.
type shortListener struct {
	net.Listener
	err    error
	failed atomic.Int64
}

func (l *shortListener) Accept() (net.Conn, error) {
	if l.failed.Add(1) <= 2 {
		return nil, &net.OpError{Op: "accept", Net: "tcp", Err: os.NewSyscallError("accept4", l.err)}
	}
	return l.Listener.Accept()
}

func TestTooManyConnections(t *testing.T) {
	const most = 3
	addr, _ := startTCP(t, newFake(), Options{MaxConns: most})
	served := make([]*wire, most)
	for i := range served {
		served[i] = dial(t, addr)
		served[i].send(get("/health"))
		served[i].response()
	}
	over := dial(t, addr)
	head, body := over.response()
	if !strings.HasPrefix(head, "HTTP/1.1 503") || !strings.Contains(head, "Retry-After: 1\r\n") ||
		!strings.Contains(head, "Content-Type: application/json\r\n") || body != tooManyConns {
		t.Errorf("got %q %s", head, body)
	}
	over.closed()
	for _, c := range served { // they are served on
		c.send("GET /health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
		c.response()
		c.closed()
	}
	c := dial(t, addr) // and leave room behind
	c.send(get("/health"))
	if head, _ := c.response(); !strings.HasPrefix(head, "HTTP/1.1 200") {
		t.Errorf("got %q", head)
	}
}
