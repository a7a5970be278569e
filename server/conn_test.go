package server

import (
	"bytes"
	"errors"
	"io"
	"net"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/skepmq/skep/broker"
)

func TestAlive(t *testing.T) {
	f := newFake()
	parked := make(chan *broker.PopRequest, 1)
	f.popFn = f.park(parked)
	addr, _ := startTCP(t, f, Options{ReadTimeout: 20 * time.Millisecond})
	for name, tt := range map[string]struct {
		then  func(*wire) error
		alive bool
	}{
		"waiting":   {func(*wire) error { return nil }, true},
		"pipelined": {func(c *wire) error { _, err := io.WriteString(c, get("/health")); return err }, true},
		"closed":    {func(c *wire) error { return c.Close() }, false},
		"half closed behind a stray byte": {func(c *wire) error {
			_, err := io.WriteString(c, "G")
			return errors.Join(err, c.CloseWrite())
		}, runtime.GOOS != "linux"},
		"half closed": {func(c *wire) error { return c.CloseWrite() }, false},
		"reset":       {func(c *wire) error { return errors.Join(c.SetLinger(0), c.Close()) }, false},
	} {
		c := dial(t, addr)
		c.send(get("/api/v1/pop/queue/q?wait=true"))
		req := <-parked
		if !req.Alive() {
			t.Errorf("%s: gone before", name)
		}
		// Past the read deadline of the request, which must not matter.
		deadline := time.NewTimer(40 * time.Millisecond)
		<-deadline.C
		if err := tt.then(c); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		got := req.Alive()
		for give := time.Now().Add(5 * time.Second); got != tt.alive && time.Now().Before(give); {
			runtime.Gosched() // the kernel delivers in its own time
			got = req.Alive()
		}
		if got != tt.alive {
			t.Errorf("%s: alive %t, want %t", name, got, tt.alive)
		}
	}
}

func TestLeaseOfLostAnswer(t *testing.T) {
	f := newFake()
	f.messages[testID(2)] = []broker.Message{{ID: testID(3), Payload: bytes.Repeat([]byte("1"), 32<<20)}}
	popped := make(chan struct{}, 1)
	f.popFn = func(*broker.PopRequest) (*broker.PopResult, error) {
		popped <- struct{}{}
		return &broker.PopResult{LeaseID: testID(9), Parts: []broker.PopPart{{PartitionID: testID(2)}}}, nil
	}
	addr, _ := startTCP(t, f, Options{})
	c := dial(t, addr)
	c.send(get("/api/v1/pop/queue/q"))
	<-popped
	c.head() // the answer has begun
	if err := errors.Join(c.SetLinger(0), c.Close()); err != nil {
		t.Fatal(err)
	}
	select {
	case lease := <-f.released:
		if lease != testID(9) {
			t.Errorf("released %s", lease)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("the lease was not released")
	}
}

func TestLeaseOfDeliveredAnswer(t *testing.T) {
	f := newFake()
	f.messages[testID(2)] = []broker.Message{{ID: testID(3), Payload: bytes.Repeat([]byte("1"), 1<<20)}}
	f.popFn = func(*broker.PopRequest) (*broker.PopResult, error) {
		return &broker.PopResult{LeaseID: testID(9), Parts: []broker.PopPart{{PartitionID: testID(2)}}}, nil
	}
	addr, s := startTCP(t, f, Options{})
	for _, closing := range []string{"", "Connection: close\r\n"} {
		c := dial(t, addr)
		c.send("GET /api/v1/pop/queue/q HTTP/1.1\r\nHost: x\r\n" + closing + "\r\n")
		c.response()
		c.Close()
	}
	shutDown(t, s)
	select {
	case lease := <-f.released:
		t.Errorf("released %s", lease)
	default:
	}
}

func TestLongAnswerIsOneWrite(t *testing.T) {
	raw := &recordingConn{}
	c := &conn{Conn: raw, server: New(Options{})}
	long := &buffer{b: bytes.Repeat([]byte("x"), writeBufferBytes)}
	c.lend(long, false)
	if n, err := c.Write([]byte("head")); n != 4 || err != nil || len(raw.writes) > 0 {
		t.Fatalf("first piece: %d, %v, written %q", n, err, raw.writes)
	}
	if n, err := c.Write([]byte("tail")); n != 4 || err != nil || strings.Join(raw.writes, "") != "headtail" {
		t.Fatalf("second piece: %d, %v, written %q", n, err, raw.writes)
	}
	c.lend(long, true) // the answer to HEAD has no second piece
	c.Write([]byte("h"))
	c.lend(&buffer{b: []byte("short")}, false)
	c.Write([]byte("s"))
	if got := strings.Join(raw.writes[len(raw.writes)-2:], "|"); got != "h|s" {
		t.Errorf("got %q", got)
	}
}

// The answers of a pipeline pass through the write buffer together, in pieces that begin
// and end anywhere in them.
func TestLongAnswersOfPipeline(t *testing.T) {
	const requests = 4
	for n := 0; n < 2*writeBufferBytes; n += 37 {
		f := newFake()
		f.messages[testID(2)] = []broker.Message{{ID: testID(3), Payload: bytes.Repeat([]byte("1"), n)}}
		f.popFn = func(*broker.PopRequest) (*broker.PopResult, error) {
			return &broker.PopResult{Parts: []broker.PopPart{{PartitionID: testID(2)}}}, nil
		}
		addr, _ := startTCP(t, f, Options{})
		c := dial(t, addr)
		c.send(strings.Repeat(get("/api/v1/pop/queue/q"), requests))
		var first string
		for i := range requests {
			head, body := c.response()
			if first == "" {
				first = body
			}
			if !strings.HasPrefix(head, "HTTP/1.1 200") || body != first || !strings.HasSuffix(body, "}") {
				t.Fatalf("payload of %d bytes, answer %d: got %q %q", n, i, head, body)
			}
		}
	}
}

type recordingConn struct {
	net.Conn
	writes []string
}

func (c *recordingConn) Write(p []byte) (int, error) {
	c.writes = append(c.writes, string(p))
	return len(p), nil
}

type brokenConn struct {
	net.Conn
	err error
}

func (c *brokenConn) Write([]byte) (int, error) { return 0, c.err }

func (c *brokenConn) Read([]byte) (int, error) { return 0, io.EOF }

func (c *brokenConn) Close() error { return nil }

func (c *brokenConn) SetReadDeadline(time.Time) error { return nil }

func TestConnLeases(t *testing.T) {
	f := newFake()
	s := New(Options{Broker: f})
	released := func() (n int) {
		for {
			select {
			case <-f.released:
				n++
			default:
				return n
			}
		}
	}
	down := errors.New("down")
	tests := []struct {
		name string
		do   func(c *conn, raw *brokenConn)
		want int
	}{
		{"never written", func(c *conn, _ *brokenConn) { c.Close() }, 2},
		{"write failed", func(c *conn, raw *brokenConn) { raw.err = down; c.Write(nil); c.Close() }, 2},
		{"second write failed", func(c *conn, raw *brokenConn) { c.Write(nil); raw.err = down; c.Write(nil); c.Close() }, 2},
		{"written", func(c *conn, _ *brokenConn) { c.Write(nil); c.Close() }, 0},
		{"written, then idle", func(c *conn, raw *brokenConn) { c.Write(nil); c.Read(nil); raw.err = down; c.Write(nil); c.Close() }, 0},
	}
	// The first answer of a pipeline has left before the second is lost.
	raw := &brokenConn{}
	c := &conn{Conn: raw, server: s}
	c.owe(testID(1))
	c.Write(nil)
	c.owe(testID(2))
	raw.err = down
	c.Write(nil)
	if got := released(); got != 1 {
		t.Errorf("pipeline: released %d leases, want that of the lost answer alone", got)
	}
	for _, tt := range tests {
		raw := &brokenConn{}
		c := &conn{Conn: raw, server: s}
		for _, lease := range []uuid.UUID{testID(1), testID(2)} {
			c.owe(lease)
		}
		tt.do(c, raw)
		if got := released(); got != tt.want {
			t.Errorf("%s: released %d, want %d", tt.name, got, tt.want)
		}
	}
}
