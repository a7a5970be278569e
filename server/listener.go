package server

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strconv"
	"syscall"
	"time"
)

const (
	// acceptPause is how long nothing is accepted after the system had no room for
	// another connection.
	acceptPause = 20 * time.Millisecond
	// complainEvery bounds the warnings about connections that were not taken.
	complainEvery = 10 * time.Second
	// refusalTime is how long writing a refusal may take: it fits into an empty socket.
	refusalTime = time.Second
)

const tooManyConns = `{"error":"too many open connections","code":"overloaded"}`

// refusal answers a connection beyond MaxConns, before a request was read from it.
var refusal = []byte("HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nContent-Length: " +
	strconv.Itoa(len(tooManyConns)) + "\r\nRetry-After: 1\r\nConnection: close\r\n\r\n" + tooManyConns)

// listener wraps what it accepts, and outlives what the system is short of: fasthttp ends
// its Serve, and with it the process, at the first error.
type listener struct {
	net.Listener
	server     *Server
	complained time.Time // when the last warning was logged; Accept's
}

// Accept waits for a connection. Go sets TCP_NODELAY on it.
func (l *listener) Accept() (net.Conn, error) {
	for {
		nc, err := l.Listener.Accept()
		switch {
		case err != nil && !passing(err):
			return nil, err // unwrapped: fasthttp asks for its text
		case err != nil:
			l.complain(err)
			time.Sleep(acceptPause)
		case l.server.conns.count() >= l.server.opts.MaxConns:
			l.complain(errTooManyConns)
			l.refuse(nc)
		default:
			return l.wrap(nc)
		}
	}
}

var errTooManyConns = errors.New("server: too many open connections")

// passing reports whether err says that there is no room for a connection now.
func passing(err error) bool {
	for _, e := range [...]error{syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM, syscall.ECONNABORTED} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

func (l *listener) complain(err error) {
	if now := time.Now(); now.Sub(l.complained) >= complainEvery {
		l.complained = now
		l.server.log.Warn().Err(err).Int("open", l.server.conns.count()).Msg("connection not taken")
	}
}

// refuse says why and closes. It does not linger: that would hold up all other clients. So
// would a handshake, and without one a TLS client understands nothing.
func (l *listener) refuse(nc net.Conn) {
	if l.server.opts.TLS == nil && nc.SetWriteDeadline(time.Now().Add(refusalTime)) == nil {
		_, _ = nc.Write(refusal) // a courtesy
	}
	_ = nc.Close()
}

func (l *listener) wrap(nc net.Conn) (net.Conn, error) {
	c := &conn{Conn: nc, socket: nc, server: l.server}
	if config := l.server.opts.TLS; config != nil {
		c.Conn = tls.Server(nc, config) // the first read shakes hands, within its deadline
	}
	c.alive = c.isAlive
	c.peek = c.peekSocket
	if sc, ok := nc.(syscall.Conn); ok {
		var err error
		if c.raw, err = sc.SyscallConn(); err != nil {
			return nil, closeAfter(nc, err)
		}
	}
	l.server.conns.add(c)
	return c, nil
}

func closeAfter(nc net.Conn, err error) error {
	_ = nc.Close() // the first error says more
	return fmt.Errorf("reach the socket of a connection: %w", err)
}
