package server

import (
	"fmt"
	"io"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/skepmq/skep/broker"
)

// M-005: the bytes of a 204.

func TestNoContent(t *testing.T) {
	addr, _ := startTCP(t, newFake(), Options{})
	c := dial(t, addr)
	for range 2 { // and the connection goes on
		c.send(get("/api/v1/pop/queue/q"))
		if got, want := c.head(), "HTTP/1.1 204 No Content\r\n\r\n"; got != want {
			t.Fatalf("got %q want %q", got, want)
		}
	}
	c.send(post("/api/v1/push", `{"items":[]}`))
	head, body := c.response()
	if want := "HTTP/1.1 201 Created\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n"; head != want || body != "[]" {
		t.Fatalf("got %q %q want %q", head, body, want)
	}
}

// echoPush answers each item with the hash of nothing: it only counts payload bytes.

// pushOf returns a push whose payload is a string of n bytes.

// Bodies of all sizes around the buffers, in both framings, one after the other on

// one connection.

// A body that the client announces with Expect is asked for, or refused unsent.

// G-013: the client sees the 413 although it writes all of its body before it reads.

// Routes that leave a large body unread answer first and read on for a while.

// A body that is announced reserves nothing.

// Who makes progress gets more time: the deadline moves on with each 256 KiB.

// deadlineListener counts the read deadlines that are set.

// A body that gets no budget is answered, and served once there is some.

// Requests that two parsers could read in two ways are refused, and what follows

// them on the connection is never served.

func TestSmuggling(t *testing.T) {
	f := newFake()
	f.popFn = func(*broker.PopRequest) (*broker.PopResult, error) {
		t.Error("the hidden request was served")
		return &broker.PopResult{}, nil
	}
	addr, _ := startTCP(t, f, Options{})
	hidden := get("/api/v1/pop/queue/hidden")
	for name, head := range map[string]string{
		"two lengths":         "Content-Length: 12\r\nContent-Length: 0\r\n",
		"signed length":       "Content-Length: +0\r\n",
		"space before colon":  "Content-Length : 0\r\n",
		"odd encoding":        "Transfer-Encoding: xchunked\r\n",
		"two encodings":       "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n",
		"two hosts":           "Host: y\r\nContent-Length: 0\r\n",
		"length and encoding": "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n",
		"encoding and length": "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n",
		"identity":            "Transfer-Encoding: identity\r\n",
		"signed zero":         "Content-Length: -0\r\n",
		"hexadecimal length":  "Content-Length: 0x0\r\n",
		"two in one":          "Content-Length: 0, 0\r\n",
		"no digits":           "Content-Length: \r\n",
		"beyond 64 bits":      "Content-Length: 18446744073709551616\r\n",
		"folded":              "X-A: b\r\n c\r\nContent-Length: 0\r\n",
		"folded length":       "Content-Length:\r\n 0\r\n",
		"hidden in a fold":    "X-A: b\r\n\tTransfer-Encoding: chunked\r\nContent-Length: 0\r\n",
		"folded first line":   " X-A: b\r\nContent-Length: 0\r\n",
		"bare line feed":      "X-A: b\nContent-Length: 0\r\n",
		"bare return":         "X-A: b\rX-B: c\r\nContent-Length: 0\r\n",
		"zero byte":           "X-A: b\x00c\r\nContent-Length: 0\r\n",
		"space in a name":     "X A: b\r\nContent-Length: 0\r\n",
		"no name":             ": b\r\nContent-Length: 0\r\n",
		"no colon":            "X-A\r\nContent-Length: 0\r\n",
		"vertical tab":        "Transfer-Encoding: \vchunked\r\n",
	} {
		body := ""
		if strings.Contains(head, ": chunked") {
			body = "0\r\n\r\n"
		}
		c := dial(t, addr)
		c.send("POST /api/v1/push HTTP/1.1\r\nHost: x\r\n" + head + "\r\n" + body + hidden)
		if got, _ := c.response(); !strings.HasPrefix(got, "HTTP/1.1 400") || !strings.Contains(got, "Connection: close\r\n") {
			t.Errorf("%s: got %q", name, got)
		}
		c.closed()
	}
}

// Chunks are read strictly, too.
func TestSmugglingInChunks(t *testing.T) {
	f := newFake()
	f.popFn = func(*broker.PopRequest) (*broker.PopResult, error) {
		t.Error("the hidden request was served")
		return &broker.PopResult{}, nil
	}
	addr, _ := startTCP(t, f, Options{})
	const items = `{"items":[]}`
	for name, body := range map[string]string{
		"hexadecimal prefix":       "0xc\r\n" + items + "\r\n0\r\n\r\n",
		"signed":                   "+c\r\n" + items + "\r\n0\r\n\r\n",
		"negative":                 "-1\r\n" + items + "\r\n0\r\n\r\n",
		"space before":             " c\r\n" + items + "\r\n0\r\n\r\n",
		"beyond 64 bits":           "1000000000000000c\r\n" + items + "\r\n0\r\n\r\n",
		"line feed":                "c\n" + items + "\r\n0\r\n\r\n",
		"line feed in extension":   "c;a\n0\r\n\r\n" + items + "\r\n0\r\n\r\n",
		"line feed after the data": "c\r\n" + items + "\n0\r\n\r\n",
		"longer than said":         "5\r\n" + items + "\r\n0\r\n\r\n",
		"length as a trailer":      "c\r\n" + items + "\r\n0\r\nContent-Length: 3\r\n\r\n",
	} {
		c := dial(t, addr)
		c.send("POST /api/v1/push HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n" + body + get("/api/v1/pop/queue/hidden"))
		if got, _ := c.response(); !strings.HasPrefix(got, "HTTP/1.1 400") || !strings.Contains(got, "Connection: close\r\n") {
			t.Errorf("%s: got %q", name, got)
		}
		c.closed()
	}
}

// Nothing is decompressed.
func TestCompressedBodies(t *testing.T) {
	f := newFake()
	f.pushFn = func([]broker.PushItem, []broker.PushResult) error {
		t.Error("pushed")
		return nil
	}
	addr, _ := startTCP(t, f, Options{})
	for _, encoding := range []string{"gzip", "zstd", "br", "deflate", "identity, gzip", "x"} {
		c := dial(t, addr)
		c.send("POST /api/v1/push HTTP/1.1\r\nHost: x\r\ncontent-encoding: " + encoding + "\r\nContent-Length: 12\r\n\r\n" + `{"items":[]}`)
		if head, body := c.response(); !strings.HasPrefix(head, "HTTP/1.1 415") || body != `{"error":"compressed request bodies are not taken"}` {
			t.Errorf("%s: got %q %s", encoding, head, body)
		}
		c.closed()
	}
	c := dial(t, addr)
	c.send("POST /api/v1/push HTTP/1.1\r\nHost: x\r\nContent-Encoding: Identity\r\nContent-Length: 12\r\n\r\n" + `{"items":[]}`)
	if head, _ := c.response(); !strings.HasPrefix(head, "HTTP/1.1 201") {
		t.Errorf("identity: got %q", head)
	}
}

func TestMalformed(t *testing.T) {
	addr, _ := startTCP(t, newFake(), Options{})
	for name, tt := range map[string]struct{ text, status, body string }{
		"header too large": {"GET / HTTP/1.1\r\nHost: x\r\nAuthorization: " + strings.Repeat("x", 8<<20) + "\r\n\r\n", "431", `{"error":"request header too large"}`},
		"path too large":   {get("/" + strings.Repeat("x", 8<<20)), "431", `{"error":"request header too large"}`},
		"no http":          {"hello\r\n\r\n", "400", `{"error":"malformed request"}`},
	} {
		c := dial(t, addr)
		c.send(tt.text)
		if head, body := c.response(); !strings.HasPrefix(head, "HTTP/1.1 "+tt.status) || body != tt.body ||
			!strings.Contains(head, "Content-Type: application/json\r\n") {
			t.Errorf("%s: got %q %s", name, head, body)
		}
		c.closed()
	}
}

func TestPipelining(t *testing.T) {
	f := newFake()
	f.popFn = func(req *broker.PopRequest) (*broker.PopResult, error) {
		return &broker.PopResult{Parts: []broker.PopPart{{Queue: req.Queue, PartitionID: testID(1)}}}, nil
	}
	f.messages[testID(1)] = []broker.Message{{ID: testID(2), Payload: []byte("1")}}
	addr, _ := startTCP(t, f, Options{})
	c := dial(t, addr)
	const n = 2000
	go func() {
		var b strings.Builder
		for i := range n {
			b.WriteString(get(fmt.Sprintf("/api/v1/pop/queue/%d", i)))
			b.WriteString(post("/api/v1/push", pushOf(i%50*300+2)))
		}
		_, _ = io.WriteString(c, b.String())
	}()
	for i := range n {
		if _, body := c.response(); !strings.Contains(body, fmt.Sprintf(`"queue":"%d"`, i)) {
			t.Fatalf("request %d: got %s", i, body)
		}
		if head, _ := c.response(); !strings.HasPrefix(head, "HTTP/1.1 201") {
			t.Fatalf("push %d: got %q", i, head)
		}
	}
}

// Between the requests of a pipeline others have their turn.
func TestPipelineGivesWay(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	var served atomic.Int64
	f := newFake()
	f.popFn = func(*broker.PopRequest) (*broker.PopResult, error) {
		served.Add(1)
		return &broker.PopResult{}, nil
	}
	addr, _ := startTCP(t, f, Options{})
	c := dial(t, addr)
	const n = 4000
	longest := make(chan int64)
	go func() {
		var most, last int64
		for last < n {
			runtime.Gosched()
			now := served.Load()
			most, last = max(most, now-last), now
		}
		longest <- most
	}()
	go func() { _, _ = io.WriteString(c, strings.Repeat(get("/api/v1/pop/queue/q"), n)) }()
	for range n {
		c.head()
	}
	if got := <-longest; got > 300 {
		t.Errorf("%d requests without a break", got)
	}
}

// A client that closes its sending side still gets the answer to what it has sent.

func TestHalfClosed(t *testing.T) {
	addr, _ := startTCP(t, newFake(), Options{})
	c := dial(t, addr)
	c.send(post("/api/v1/push", `{"items":[]}`))
	if err := c.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if head, body := c.response(); !strings.HasPrefix(head, "HTTP/1.1 201") || body != "[]" {
		t.Fatalf("got %q %s", head, body)
	}
	c.closed()
}

// R9: a parked pop knows whether its client is there.

// R9: a lease whose answer cannot be written goes back at once.

// A lease whose answer was written stays, however the connection goes on.

// An answer that exceeds the write buffer leaves at once, in one piece.

// brokenConn fails every write.

// G-017: parked pops are answered empty, requests in flight finish, new ones find nobody.

// A request that outlasts the patience of Shutdown loses its connection.

// While stopping, /health says so to those who are still connected.

// What a request gave to the broker as strings is unchanged when its buffers serve others.

func TestBorrowedMemory(t *testing.T) {
	f := newFake()
	var pops []*broker.PopRequest
	var names []string
	f.popFn = func(req *broker.PopRequest) (*broker.PopResult, error) {
		pops = append(pops, req)
		return &broker.PopResult{}, nil
	}
	addr, _ := startTCP(t, f, Options{})
	c := dial(t, addr)
	const n = 50
	for i := range n {
		name := fmt.Sprintf("queue-%04d", i)
		names = append(names, name)
		c.send(get(fmt.Sprintf("/api/v1/pop/queue/%s/partition/p%s?consumerGroup=g%s&subscriptionMode=m%s&subscriptionFrom=f%s", name, name, name, name, name)))
		c.head()
		c.send(get(fmt.Sprintf("/api/v1/pop?namespace=n%s&task=t%%20%s", name, name)))
		c.head()
		c.send(post("/api/v1/push", pushOf(500))) // poison
		c.response()
	}
	for i, name := range names {
		pinned, found := pops[2*i], pops[2*i+1]
		want := broker.PopRequest{Queue: name, Partition: "p" + name, Pinned: true, Group: "g" + name, SubscriptionMode: "m" + name, SubscriptionFrom: "f" + name, Batch: 200, Partitions: 1, DefaultPartitions: true}
		if !samePop(*pinned, want) {
			t.Fatalf("got %+v want %+v", *pinned, want)
		}
		if found.Namespace != "n"+name || found.Task != "t "+name {
			t.Fatalf("got %+v", *found)
		}
	}
}
