//go:build !race

package server

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/skepmq/skep/broker"
)

// loop is a client that sends one request over and over and reads answers of one length.
type loop struct {
	conn    net.Conn
	request []byte
	answer  []byte
}

func newLoop(t testing.TB, f *fake, opts Options, request string) *loop {
	ln := newMemoryListener()
	start(t, ln, f, opts)
	c, err := ln.Dial()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	l := &loop{conn: c, request: []byte(request)}
	if _, err := c.Write(l.request); err != nil {
		t.Fatal(err)
	}
	w := &wire{t: t}
	w.r = bufio.NewReader(c)
	head, body := w.response()
	l.answer = make([]byte, len(head)+len(body))
	return l
}

func (l *loop) once(t testing.TB) {
	if _, err := l.conn.Write(l.request); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(l.conn, l.answer); err != nil {
		t.Fatal(err)
	}
}

// hotRequests are those that must cost next to no allocations.
func hotRequests(f *fake) []struct {
	name, request string
	allocs        float64
} {
	f.pushFn = func(items []broker.PushItem, results []broker.PushResult) error {
		for i := range results {
			results[i] = broker.PushResult{MessageID: testID(1)}
		}
		return nil
	}
	result := &broker.PopResult{LeaseID: testID(1), Group: "billing"}
	popAnswer(f, result)
	f.popFn = func(*broker.PopRequest) (*broker.PopResult, error) { return result, nil }
	f.ackFn = func(_ string, _ []broker.Ack, results []broker.AckResult) error {
		for i := range results {
			results[i] = broker.AckResult{Success: true, LeaseReleased: true}
		}
		return nil
	}
	const item = `{"queue":"orders.created","partition":"customer-42","transactionId":"0198f2c1-4d3a-7c10-9f2b-6a1e5d0c7b83","payload":{"orderId":8891,"total":12.5,"items":["a","b"]}}`
	const ack = `{"transactionId":"0198f2c1-4d3a-7c10-9f2b-6a1e5d0c7b83","partitionId":"0198f2c1-4d3a-7c10-9f2b-6a1e5d0c7b83","leaseId":"0198f2c1-4d3a-7c10-9f2b-6a1e5d0c7b83","status":"completed"}`
	repeat := func(s string, n int) string { return strings.TrimSuffix(strings.Repeat(s+",", n), ",") }
	return []struct {
		name, request string
		allocs        float64
	}{
		// fasthttp makes one, of 24 bytes, a request with a body: it discards the rest
		// through an io.LimitedReader even when nothing is left.
		{"push/items=1", post("/api/v1/push", `{"items":[`+item+`]}`), 1},
		{"push/items=100", post("/api/v1/push", `{"items":[`+repeat(item, 100)+`]}`), 1},
		// The request, and the fake's iterators over its two parts.
		{"pop/messages=4", get("/api/v1/pop/queue/orders.created?batch=100&wait=true&timeout=30000&consumerGroup=billing"), 3},
		{"ack/acks=1", post("/api/v1/ack", ack), 1},
		{"ack/acks=100", post("/api/v1/ack/batch", `{"acknowledgments":[`+repeat(ack, 100)+`]}`), 1},
	}
}

func TestAllocations(t *testing.T) {
	f := newFake()
	for _, tt := range hotRequests(f) {
		t.Run(tt.name, func(t *testing.T) {
			l := newLoop(t, f, Options{}, tt.request)
			// Both ends of the connection are counted. A collection may empty the pools,
			// so a fraction is not a leak.
			got := testing.AllocsPerRun(2000, func() { l.once(t) })
			if got > tt.allocs {
				t.Errorf("%v allocations a request, want at most %v", got, tt.allocs)
			}
		})
	}
}

// guarded returns options that ask for everything there is, and a request that has it.
func guarded(t testing.TB, request string) (Options, string) {
	key, _ := tokenKey()
	opts := withAuth(t)
	opts.AllowedHosts, opts.TenancyHeader = []string{}, true
	token := tokenOf(t, jwt.SigningMethodRS256, key, "role", "read-write", "exp", time.Now().Unix()+3600)
	return opts, strings.Replace(request, "Host: x\r\n", "Host: 127.0.0.1:6632\r\nX-Queen-Tenant: "+aTenant+"\r\nAuthorization: Bearer "+token+"\r\n", 1)
}

// A token that is known costs no allocation either, nor does the name of a tenant.
func TestAllocationsWithToken(t *testing.T) {
	f := newFake()
	for _, tt := range hotRequests(f) {
		opts, request := guarded(t, tt.request)
		l := newLoop(t, f, opts, request)
		if got := testing.AllocsPerRun(1000, func() { l.once(t) }); got > tt.allocs {
			t.Errorf("%s: %v allocations a request, want at most %v", tt.name, got, tt.allocs)
		}
	}
}

func BenchmarkRequestWithToken(b *testing.B) {
	f := newFake()
	push := hotRequests(f)[0].request
	opts, request := guarded(b, push)
	for _, bb := range []struct {
		name, request string
		opts          Options
	}{{"token=no", push, Options{}}, {"token=RS256", request, opts}} {
		b.Run(bb.name, func(b *testing.B) {
			l := newLoop(b, f, bb.opts, bb.request)
			b.ReportAllocs()
			for b.Loop() {
				l.once(b)
			}
		})
	}
}

func BenchmarkRequestOfTenant(b *testing.B) {
	f := newFake()
	push := hotRequests(f)[0].request
	named := strings.Replace(push, "Host: x\r\n", "Host: x\r\nX-Queen-Tenant: "+aTenant+"\r\n", 1)
	for _, on := range []bool{false, true} {
		b.Run(fmt.Sprintf("tenants=%t", on), func(b *testing.B) {
			l := newLoop(b, f, Options{TenancyHeader: on}, named)
			b.ReportAllocs()
			for b.Loop() {
				l.once(b)
			}
		})
	}
}

func BenchmarkRequest(b *testing.B) {
	f := newFake()
	for _, bb := range hotRequests(f) {
		b.Run(bb.name, func(b *testing.B) {
			l := newLoop(b, f, Options{}, bb.request)
			b.SetBytes(int64(len(bb.request)))
			b.ReportAllocs()
			for b.Loop() {
				l.once(b)
			}
		})
	}
}

// A parked poll holds its connection and little else: ten thousand of them stay
// below 200 MB.
func TestParkedMemory(t *testing.T) {
	f := newFake()
	parked := make(chan *broker.PopRequest, 1)
	f.popFn = func(req *broker.PopRequest) (*broker.PopResult, error) {
		if req.Wait == 0 { // first a large answer, whose buffers must not stay
			return &broker.PopResult{Parts: []broker.PopPart{{PartitionID: testID(2)}}}, nil
		}
		return f.park(parked)(req)
	}
	f.messages[testID(2)] = []broker.Message{{ID: testID(3), Payload: bytes.Repeat([]byte("1"), 100_000)}}
	addr, _ := startTCP(t, f, Options{})
	const n = 1000
	before := memoryInUse()
	answer := make([]byte, 256<<10)
	bigAck := post("/api/v1/ack", `{"error":"`+strings.Repeat("x", 8000)+`"}`)
	for range n {
		c, err := net.Dial("tcp", addr) // without a reader: only the server is measured
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		io.WriteString(c, bigAck+get("/api/v1/pop/queue/q"))
		for got := 0; !bytes.HasSuffix(answer[:got], []byte(`"partitionsClaimed":1}`)); {
			n, err := c.Read(answer[got:])
			if err != nil {
				t.Fatal(err)
			}
			got += n
		}
		io.WriteString(c, get("/api/v1/pop/queue/q?wait=true"))
		<-parked
	}
	used := (memoryInUse() - before) / n
	t.Logf("%d bytes a parked poll", used)
	if used > 20_000 {
		t.Errorf("%d bytes a parked poll", used)
	}
	f.StopWaiting()
}

func memoryInUse() int64 {
	for range 3 {
		runtime.GC() // pools are emptied by the second
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapInuse + m.StackInuse)
}
