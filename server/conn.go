package server

import (
	"io"
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/google/uuid"
)

// A connection that is closed while its client still sends gets a reset, and the
// client may lose the answer that explains why. So such a connection lingers: its
// sending side is closed, and what arrives is thrown away, within these bounds.
const (
	lingerTime  = time.Second
	lingerBytes = 64 << 20
)

// conn is a client's connection. fasthttp reads and writes it from one goroutine;
// Alive may be asked from any, and Close may come from Shutdown.
type conn struct {
	net.Conn // speaks TLS, if the server does
	server   *Server
	socket   net.Conn        // below Conn, or the same
	raw      syscall.RawConn // of socket; nil: not a socket, alive until closed

	alive func() bool   // isAlive, bound once: a pop passes it on
	peek  func(uintptr) // peekSocket, bound once

	peekMu sync.Mutex
	peeked bool // the verdict of the last peek

	// lingering is set when the client may still be sending a body that nobody reads.
	lingering atomic.Bool

	// leases are those of answers that may not have left yet. They are settled by the
	// next read: fasthttp flushes all answers before it waits for a request.
	owing   atomic.Bool // leases is not empty
	leaseMu sync.Mutex
	leases  []uuid.UUID
	written bool // something was written since the last lease was added

	// lent is the buffer of an answer that may still be on its way out. hold says
	// that the next write is a piece of that answer, and another piece follows.
	lent   *buffer
	room   atomic.Pointer[share] // of that answer; nil: it is not counted
	hold   bool
	held   *buffer // that piece
	pieces [2][]byte
	vector net.Buffers // of pieces

	// handled counts the requests since the last read: beyond the first they are those
	// of a pipeline.
	handled int

	// The names of the last pop. Consumers poll the same queue for ever, so their
	// strings are made once a connection.
	queue, partition, group string
}

// isAlive reports whether the client can still take an answer. A client that has
// closed its sending side counts as gone: HTTP libraries do that only when they hang
// up. Waiting data is the next request of a pipeline, so its sender is there.
func (c *conn) isAlive() bool {
	if c.raw == nil {
		return true
	}
	c.peekMu.Lock()
	defer c.peekMu.Unlock()
	c.peeked = false
	// Control, not Read: Read refuses once the read deadline of the request has
	// passed, which it has for every long poll.
	if err := c.raw.Control(c.peek); err != nil {
		return false
	}
	return c.peeked
}

func (c *conn) peekSocket(fd uintptr) {
	// A TLS client says that it hangs up before it does, perhaps long before.
	c.peeked = socketOpen(int(fd), c.Conn != c.socket)
}

const (
	recordAlert     = 21 // of TLS up to 1.2
	recordData      = 23 // of TLS 1.3, whatever is inside
	closeNotifySize = 19 // of that record: an alert of 2 bytes, its type, a tag of 16
)

// closeNotify reports whether waiting bytes of a TLS client begin with the record that ends
// its sending. In TLS 1.3 only the length tells: requests are longer, key updates too. Where
// it is hidden behind other records, it shows when they have been read.
func closeNotify(b []byte) bool {
	const head = 5
	if len(b) < head {
		return false
	}
	return b[0] == recordAlert || b[0] == recordData && int(b[3])<<8|int(b[4]) == closeNotifySize
}

// owe notes that the answer being written carries a lease.
func (c *conn) owe(lease uuid.UUID) {
	c.leaseMu.Lock()
	if c.written {
		c.leases = c.leases[:0] // the answers of a pipeline before this one have left
	}
	c.leases = append(c.leases, lease)
	c.written = false
	c.leaseMu.Unlock()
	c.owing.Store(true)
}

// settle forgets the leases, and gives them back when their answer was not written.
// It releases outside the lock.
func (c *conn) settle(delivered bool) {
	c.leaseMu.Lock()
	lost := c.leases
	if delivered {
		lost, c.leases = nil, c.leases[:0]
	} else {
		c.leases = nil
	}
	c.owing.Store(false)
	c.leaseMu.Unlock()

	for _, lease := range lost {
		(*c.server.broker.Load()).Release(lease) // it granted the lease, so it is there
	}
}

// lend keeps the buffer of an answer until that has been written: fasthttp writes
// each answer before it reads on, and before the next request is handled.
func (c *conn) lend(b *buffer, isHead bool) {
	c.lent = b
	// With its header such an answer does not fit into the write buffer.
	c.hold = len(b.b) >= writeBufferBytes && !isHead
}

func (c *conn) reclaim() {
	c.leaveRoom()
	if c.lent != nil {
		c.lent.release()
		c.lent = nil
	}
}

// leaveRoom is called by whoever comes first, the next request or Close.
func (c *conn) leaveRoom() {
	if held := c.room.Swap(nil); held != nil {
		held.GiveBack()
	}
}

// giveWay lets others run between the requests of a pipeline. A goroutine that never
// waits is interrupted only after 10 ms, and a few clients that send thousands of requests
// at once would make everybody wait for as long at each of their steps.
func (c *conn) giveWay() {
	if c.handled++; c.handled > 1 {
		runtime.Gosched()
	}
}

func (c *conn) Read(p []byte) (int, error) {
	c.handled = 0
	c.reclaim()
	if c.owing.Load() {
		c.settle(true)
	}
	return c.Conn.Read(p)
}

// Write writes p, or keeps the first piece of a long answer until the next one
// comes: the write buffer of a connection is small, and without this each answer that
// exceeds it would leave in two packets.
func (c *conn) Write(p []byte) (int, error) {
	hold := c.hold && c.held == nil // of a pipeline a piece of the answer before may still be here
	c.hold = false
	if hold {
		c.held = getBuffer(len(p))
		c.held.b = append(c.held.b[:0], p...)
		return len(p), nil
	}
	var n int
	var err error
	if c.held == nil {
		n, err = c.Conn.Write(p)
	} else {
		n, err = c.writeHeld(p)
	}
	if c.owing.Load() {
		c.leaseMu.Lock()
		c.written = true
		c.leaseMu.Unlock()
		if err != nil {
			c.settle(false)
		}
	}
	return n, err
}

// writeHeld writes the piece that was held and p at once.
func (c *conn) writeHeld(p []byte) (int, error) {
	c.pieces[0], c.pieces[1] = c.held.b, p
	c.vector = c.pieces[:]
	n, err := c.vector.WriteTo(c.Conn)
	c.pieces[0], c.pieces[1] = nil, nil
	held := len(c.held.b)
	c.held.release()
	c.held = nil
	return max(int(n)-held, 0), err
}

func (c *conn) Close() error {
	if c.owing.Load() {
		c.leaseMu.Lock()
		written := c.written
		c.leaseMu.Unlock()
		c.settle(written)
	}
	if c.lingering.Swap(false) {
		c.linger()
	}
	c.leaveRoom()
	c.server.conns.remove(c) // before the number of the socket is used again
	return c.Conn.Close()
}

// linger tells the client that nothing follows the answer and gives it time to read.
func (c *conn) linger() {
	half, ok := c.Conn.(interface{ CloseWrite() error })
	if !ok {
		return
	}
	if half.CloseWrite() != nil || c.SetReadDeadline(time.Now().Add(lingerTime)) != nil {
		return // gone already
	}
	_, _ = io.CopyN(io.Discard, c.Conn, lingerBytes) // until it hangs up, or a bound
}

// connSet knows the open connections, for a shutdown that runs out of time.
type connSet struct {
	mu   sync.Mutex
	open map[*conn]struct{}
}

func (s *connSet) add(c *conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open == nil {
		s.open = make(map[*conn]struct{})
	}
	s.open[c] = struct{}{}
}

func (s *connSet) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.open)
}

func (s *connSet) remove(c *conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.open, c)
}

// closeAll closes the sockets under the connections; their goroutines then end by
// themselves, with the error of a failed read or write.
func (s *connSet) closeAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.open {
		_ = c.socket.Close() // without the last words of TLS, which could block
	}
}
