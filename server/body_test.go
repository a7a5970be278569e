package server

import (
	"fmt"
	"net"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/valyala/fasthttp/fasthttputil"

	"github.com/skepmq/skep/broker"
)

func countPush(total *atomic.Int64) func([]broker.PushItem, []broker.PushResult) error {
	return func(items []broker.PushItem, _ []broker.PushResult) error {
		for i := range items {
			total.Add(int64(len(items[i].Payload)))
		}
		return nil
	}
}

func pushOf(n int) string {
	return `{"items":[{"queue":"q","payload":"` + strings.Repeat("x", n-2) + `"}]}`
}

func TestBodies(t *testing.T) {
	var total atomic.Int64
	f := newFake()
	f.pushFn = countPush(&total)
	addr, s := startTCP(t, f, Options{})
	c := dial(t, addr)
	for _, n := range []int{2, 100, 4000, 8140, 8144, 8145, 8146, 8147, 8148, 8149, 8150, 8192, 8193, 16000, 65536, 300_000, 3 << 20} {
		body := pushOf(n)
		for name, request := range map[string]string{
			"length":  post("/api/v1/push", body),
			"chunked": "POST /api/v1/push HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n" + chunked(body, 5000) + "0\r\n\r\n",
		} {
			total.Store(0)
			go func() { _, _ = c.Write([]byte(request)) }()
			head, _ := c.response()
			if !strings.HasPrefix(head, "HTTP/1.1 201") || total.Load() != int64(n) {
				t.Fatalf("%s, payload of %d: got %q, %d bytes", name, n, head, total.Load())
			}
		}
	}
	for name, b := range map[string]*budget{"large": s.bodies, "small": s.smallBodies} {
		b.mu.Lock()
		if b.free != b.total || b.reserved {
			t.Errorf("%s bodies: %d free of %d, reserve taken: %t", name, b.free, b.total, b.reserved)
		}
		b.mu.Unlock()
	}
}

func chunked(body string, size int) string {
	var b strings.Builder
	for len(body) > 0 {
		n := min(size, len(body))
		fmt.Fprintf(&b, "%x\r\n%s\r\n", n, body[:n])
		body = body[n:]
	}
	return b.String()
}

func TestExpectContinue(t *testing.T) {
	var total atomic.Int64
	f := newFake()
	f.pushFn = countPush(&total)
	addr, _ := startTCP(t, f, Options{MaxBodyBytes: 1 << 20})
	for _, n := range []int{100, 20_000} {
		c := dial(t, addr)
		body := pushOf(n)
		c.send(fmt.Sprintf("POST /api/v1/push HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: %d\r\n\r\n", len(body)))
		if got := c.head(); got != "HTTP/1.1 100 Continue\r\n\r\n" {
			t.Fatalf("got %q", got)
		}
		c.send(body)
		if head, _ := c.response(); !strings.HasPrefix(head, "HTTP/1.1 201") {
			t.Fatalf("got %q", head)
		}
	}
	c := dial(t, addr)
	c.send(fmt.Sprintf("POST /api/v1/push HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: %d\r\n\r\n", 2<<20))
	if head, body := c.response(); !strings.HasPrefix(head, "HTTP/1.1 413") || body != bodyTooLarge {
		t.Fatalf("got %q %q", head, body)
	}
	c.closed()
}

func TestBodyTooLarge(t *testing.T) {
	f := newFake()
	f.pushFn = func([]broker.PushItem, []broker.PushResult) error {
		t.Error("the broker was asked")
		return nil
	}
	addr, _ := startTCP(t, f, Options{MaxBodyBytes: 1 << 20})
	big := pushOf(8 << 20)
	for name, request := range map[string]string{
		"length":  post("/api/v1/push", big),
		"chunked": "POST /api/v1/push HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n" + chunked(big, 50_000) + "0\r\n\r\n",
		"get":     "GET /health HTTP/1.1\r\nHost: x\r\nContent-Length: 8388608\r\n\r\n" + big[:8<<20],
	} {
		t.Run(name, func(t *testing.T) {
			c := dial(t, addr)
			c.send(request)
			head, body := c.response()
			if !strings.HasPrefix(head, "HTTP/1.1 413") || !strings.Contains(head, "Connection: close\r\n") || body != bodyTooLarge {
				t.Fatalf("got %q %q", head, body)
			}
			c.closed()
		})
	}
	exact := pushOf(1<<20 - len(pushOf(2)) + 2)
	f.pushFn = nil
	c := dial(t, addr)
	c.send(post("/api/v1/push", exact))
	if head, _ := c.response(); len(exact) != 1<<20 || !strings.HasPrefix(head, "HTTP/1.1 201") {
		t.Fatalf("a body of exactly the limit (%d): got %q", len(exact), head)
	}
}

func TestUnreadBody(t *testing.T) {
	addr, _ := startTCP(t, newFake(), Options{})
	body := strings.Repeat("x", 4<<20)
	for _, path := range []string{"/api/v1/nope", "/api/v1/messages/p/t/retry"} {
		c := dial(t, addr)
		c.send(post(path, body))
		if head, _ := c.response(); !strings.HasPrefix(head, "HTTP/1.1 404") {
			t.Fatalf("%s: got %q", path, head)
		}
		c.closed()
	}
	c := dial(t, addr) // a small one does not cost the connection
	for range 2 {
		c.send(post("/api/v1/nope", body[:100_000]))
		if head, _ := c.response(); !strings.HasPrefix(head, "HTTP/1.1 404") || strings.Contains(head, "close") {
			t.Fatalf("got %q", head)
		}
	}
}

func TestSlowBodies(t *testing.T) {
	addr, _ := startTCP(t, newFake(), Options{})
	before := heapInUse()
	const n = 100
	for range n {
		c := dial(t, addr)
		c.send("POST /api/v1/push HTTP/1.1\r\nHost: x\r\nContent-Length: 67108864\r\n\r\n{")
	}
	chunk := dial(t, addr) // and none that is not announced
	chunk.send("POST /api/v1/push HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n4000000\r\n{")
	probe := dial(t, addr)
	probe.send(get("/health"))
	probe.response()
	if grown := heapInUse() - before; grown > 16<<20 {
		t.Errorf("%d slow bodies hold %d MiB", n, grown>>20)
	}
}

// Nobody reads the body of a pop, also not before it waits.
func TestBodyOfPop(t *testing.T) {
	f := newFake()
	parked := make(chan *broker.PopRequest, 1)
	f.popFn = f.park(parked)
	addr, _ := startTCP(t, f, Options{ReadTimeout: time.Minute})
	for name, part := range map[string]string{
		"endless": "Transfer-Encoding: chunked\r\n\r\n4000000\r\n{",
		"large":   "Content-Length: 1000000\r\n\r\n" + strings.Repeat(" ", readAhead),
		"short":   "Content-Length: 2\r\n\r\n{}",
		"empty":   "Content-Length: 0\r\n\r\n",
	} {
		c := dial(t, addr)
		c.send("GET /api/v1/pop/queue/q?wait=true HTTP/1.1\r\nHost: x\r\n" + part)
		select {
		case <-parked:
		case <-time.After(10 * time.Second):
			t.Errorf("%s: not asked for messages", name)
		}
	}
	f.StopWaiting()
}

func heapInUse() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapInuse)
}

func TestBodyTimeout(t *testing.T) {
	addr, _ := startTCP(t, newFake(), Options{ReadTimeout: 50 * time.Millisecond})
	for name, part := range map[string]string{
		"read ahead": "Content-Length: 100\r\n\r\n{",
		"streamed":   "Content-Length: 20000\r\n\r\n" + strings.Repeat(" ", 10_000),
		"chunked":    "Transfer-Encoding: chunked\r\n\r\n5\r\n{",
	} {
		c := dial(t, addr)
		c.send("POST /api/v1/push HTTP/1.1\r\nHost: x\r\n" + part)
		if head, _ := c.response(); !strings.HasPrefix(head, "HTTP/1.1 408") {
			t.Errorf("%s: got %q", name, head)
		}
		c.closed()
	}
}

func TestBodyTruncated(t *testing.T) {
	addr, _ := startTCP(t, newFake(), Options{})
	for name, part := range map[string]string{
		"read ahead":    "Content-Length: 100\r\n\r\n{",
		"streamed":      "Content-Length: 20000\r\n\r\n" + strings.Repeat(" ", 10_000),
		"chunked":       "Transfer-Encoding: chunked\r\n\r\n5\r\n{",
		"no last chunk": "Transfer-Encoding: chunked\r\n\r\n5\r\n12345\r\n",
		"bad chunk":     "Transfer-Encoding: chunked\r\n\r\nzz\r\n12345\r\n",
	} {
		c := dial(t, addr)
		c.send("POST /api/v1/push HTTP/1.1\r\nHost: x\r\n" + part)
		if err := c.CloseWrite(); err != nil {
			t.Fatal(err)
		}
		if head, body := c.response(); !strings.HasPrefix(head, "HTTP/1.1 400") {
			t.Errorf("%s: got %q %s", name, head, body)
		}
		c.closed()
	}
}

func TestBodyDeadline(t *testing.T) {
	ln := &deadlineListener{InmemoryListener: newMemoryListener()}
	start(t, ln, newFake(), Options{})
	c := memoryClient(t, ln.InmemoryListener)
	set := func(n int) int64 {
		before := ln.deadlines.Load()
		if status, body, _ := call(t, c, "POST", "/api/v1/push", pushOf(n)); status != 201 {
			t.Fatalf("got %d %s", status, body)
		}
		return ln.deadlines.Load() - before
	}
	set(10)
	short := set(10)
	if long := set(2 << 20); long < short+4 {
		t.Errorf("%d deadlines for 2 MiB, %d for a short body", long, short)
	}
}

type deadlineListener struct {
	*fasthttputil.InmemoryListener
	deadlines atomic.Int64
}

func (l *deadlineListener) Accept() (net.Conn, error) {
	c, err := l.InmemoryListener.Accept()
	return &deadlineConn{c, &l.deadlines}, err
}

type deadlineConn struct {
	net.Conn
	deadlines *atomic.Int64
}

func (c *deadlineConn) SetReadDeadline(t time.Time) error {
	c.deadlines.Add(1)
	return c.Conn.SetReadDeadline(t)
}

func TestBodyBudget(t *testing.T) {
	ln := newMemoryListener()
	s := start(t, ln, newFake(), Options{InFlightBytes: 1, MaxBodyBytes: 1 << 20})
	c := memoryClient(t, ln)
	s.bodyPatience = time.Millisecond
	var holder grant
	s.smallBodies.take(&holder, 1, 0)
	status, body, header := call(t, c, "POST", "/api/v1/push", pushOf(100_000))
	if status != 503 || body != `{"error":"too many large requests in flight","code":"overloaded"}` || header.Get("Retry-After") != "1" {
		t.Errorf("got %d %s %v", status, body, header)
	}
	if status, _, _ := call(t, c, "POST", "/api/v1/push", pushOf(4000)); status != 201 {
		t.Errorf("a small body needs no budget: got %d", status)
	}
	s.smallBodies.giveBack(&holder)
	if status, body, _ := call(t, c, "POST", "/api/v1/push", pushOf(100_000)); status != 201 {
		t.Errorf("got %d %s", status, body)
	}
}
