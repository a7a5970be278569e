package acceptance

import (
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// dialTCP connects to a world that serves on loopback.
func (w *world) dialTCP() *net.TCPConn {
	w.t.Helper()
	c, err := w.running.dial()
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { c.Close() })
	return c.(*net.TCPConn)
}

// Fifty polls that were closed, by an end of file or a reset, take nothing: one that is
// alive gets all, at once and uncharged.
func TestP17ClosedPollsTakeNothing(t *testing.T) {
	w := open(t, onLoopback)
	const n = 50
	for i := range n {
		c := w.dialTCP()
		if _, err := io.WriteString(c, "GET /api/v1/pop/queue/q?wait=true&timeout=60000&leaseSeconds=30&batch=1 HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		w.parked(i + 1)
		var err error
		if i%2 == 0 {
			err = c.SetLinger(0) // a reset
		}
		if err = errors.Join(err, c.Close()); err != nil {
			t.Fatal(err)
		}
	}
	for i := range n {
		w.queued(msg("q", fmt.Sprint("p", i), fmt.Sprint("m", i)))
	}
	seen := map[string]bool{}
	for len(seen) < n {
		p := w.pop("q", "wait=true", "timeout=2000", "partitions=10")
		if p == nil {
			t.Fatalf("%d of %d delivered", len(seen), n)
		}
		for _, m := range p.Messages {
			seen[m.TransactionID] = true
		}
	}
	w.parked(0)
}

// A client that goes while its answer is written has had nothing of it.
func TestP17AnswerCutOff(t *testing.T) {
	w := open(t, onLoopback, func(w *world) { w.server.DeliveryDetails = true })
	payload := quote(strings.Repeat("x", 5<<20))
	w.call("POST", "/api/v1/push", `{"items":[{"queue":"q","payload":`+payload+`}]}`)
	c := w.dialTCP()
	if err := c.SetReadBuffer(4096); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(c, "GET /api/v1/pop/queue/q?leaseSeconds=30 HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(c, make([]byte, 1000)); err != nil { // it has begun
		t.Fatal(err)
	}
	if err := errors.Join(c.SetLinger(0), c.Close()); err != nil {
		t.Fatal(err)
	}
	a := w.call("GET", "/api/v1/pop/queue/q?wait=true&timeout=2000", "")
	if a.status != http.StatusOK || !strings.Contains(string(a.body), payload) {
		t.Fatalf("got %d, %d bytes", a.status, len(a.body))
	}
	if !strings.Contains(string(a.body), `"deliveryAttempt":1,`) {
		t.Error("the answer that was cut off counts as an attempt")
	}
}

// incompressible returns a JSON string of n bytes.
func incompressible(t *testing.T, n int) string {
	t.Helper()
	b := make([]byte, n*3/4)
	if _, err := rand.Read(b); err != nil {
		t.Fatal(err)
	}
	text := `"` + base64.StdEncoding.EncodeToString(b)
	return text[:n-1] + `"`
}

var pushedID = regexp.MustCompile(`"transactionId":"m\d+"`)

// Large messages, asked for by the thousand: answers are shortened, and all arrive.
func TestP23LargeAnswersAreShortened(t *testing.T) {
	w := open(t, onLoopback)
	const messages, size, clients, most = 24, 1 << 20, 6, 9 << 20
	payload := incompressible(t, size)
	for i := range messages {
		w.queued(item{"q", fmt.Sprint("p", i), fmt.Sprint("m", i), []byte(payload)})
	}
	var mu sync.Mutex
	var seen []string
	together(clients, func(int) {
		for {
			a := w.call("GET", "/api/v1/pop/queue/q?batch=1000&partitions=1000&autoAck=true", "")
			if a.status == http.StatusNoContent {
				return
			}
			if a.status != http.StatusOK || len(a.body) > most {
				t.Errorf("got %d, %d bytes", a.status, len(a.body))
				return
			}
			ids := pushedID.FindAllString(string(a.body), -1)
			mu.Lock()
			seen = append(seen, ids...)
			mu.Unlock()
			if len(ids) == 0 {
				t.Error("an answer without a message")
			}
		}
	})
	slices.Sort(seen)
	if got := slices.Compact(slices.Clone(seen)); len(seen) != messages || len(got) != messages {
		t.Errorf("%d delivered, %d different, want %d", len(seen), len(got), messages)
	}
}

// A body at the limit is stored for good, one byte more is refused.
func TestP23BodyAtTheLimit(t *testing.T) {
	const limit = 1 << 20
	w := open(t, onLoopback, func(w *world) { w.server.MaxBodyBytes = limit })
	const envelope = `{"items":[{"queue":"q","payload":}]}`
	payload := incompressible(t, limit-len(envelope))
	body := strings.Replace(envelope, "}]}", payload+"}]}", 1)
	if a := w.call("POST", "/api/v1/push", body+" "); len(body) != limit || a.status != http.StatusRequestEntityTooLarge {
		t.Fatalf("%d bytes: got %d", len(body)+1, a.status)
	}
	w.pushRaw(body)
	w.crash()
	p := w.pop("q", "autoAck=true")
	if p == nil || len(p.Messages) != 1 || string(p.Messages[0].Data) != payload {
		t.Fatal("the message is not what was pushed")
	}
	w.nothing(w.pop("q"))
}

// Consumers that do not read what they asked for cost those nothing who do.
func TestSlowReadersStarveNobody(t *testing.T) {
	w := open(t, onLoopback, func(w *world) { w.server.AnswerBytes = 64<<20 + 4<<20 })
	payload := []byte(incompressible(t, 1<<20))
	for i := range 10 {
		w.queued(item{"large", fmt.Sprint("p", i), "", payload})
	}
	slow := make([]*net.TCPConn, 20)
	for i := range slow {
		slow[i] = w.dialTCP()
		if err := slow[i].SetReadBuffer(4096); err != nil {
			t.Fatal(err)
		}
		target := fmt.Sprintf("/api/v1/pop/queue/large?batch=100&partitions=100&consumerGroup=g%d&subscriptionMode=all", i)
		if _, err := fmt.Fprintf(slow[i], "GET %s HTTP/1.1\r\nHost: x\r\n\r\n", target); err != nil {
			t.Fatal(err)
		}
		head := make([]byte, 12)
		if _, err := io.ReadFull(slow[i], head); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 20 { // small messages come and go
		id := fmt.Sprint("m", i)
		w.queued(msg("small", "p", id))
		w.ackAll("", w.want(w.pop("small"), id))
	}
	for _, c := range slow {
		if err := errors.Join(c.SetLinger(0), c.Close()); err != nil {
			t.Fatal(err)
		}
	}
	// When they are gone, large ones do, too.
	await(t, "room", func() bool {
		return w.call("GET", "/api/v1/pop/queue/large?consumerGroup=late&subscriptionMode=all", "").status == http.StatusOK
	})
}

// A header or a body that does not come is given up, and so is an idle connection;
// others go on.
func TestSlowClientsAreCutOff(t *testing.T) {
	w := open(t, onLoopback, func(w *world) {
		w.server.ReadTimeout, w.server.IdleTimeout = 3*time.Second, 3*time.Second // those that are quick are never so slow
	})
	w.client.Transport.(*http.Transport).DisableKeepAlives = true // its own would be cut off too
	conns := map[string]*net.TCPConn{}
	for begin, name := range map[string]string{
		"": "nothing", "G": "a letter", "GET /health HTTP/1.1\r\nHost: x\r\nX-": "a header",
		"POST /api/v1/push HTTP/1.1\r\nHost: x\r\nContent-Length: 67108864\r\n\r\n{":     "a body",
		"POST /api/v1/push HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5;a": "a chunk",
		"GET /health HTTP/1.1\r\nHost: x\r\n\r\n":                                        "a request",
	} {
		for i := range 10 {
			c := w.dialTCP()
			if _, err := io.WriteString(c, begin); err != nil {
				t.Fatal(err)
			}
			conns[fmt.Sprint(name, i)] = c
		}
	}
	for i := range 20 {
		w.queued(msg("q", "p", fmt.Sprint("m", i)))
	}
	for name, c := range conns {
		if err := c.SetReadDeadline(time.Now().Add(20 * time.Second)); err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, c); err != nil && strings.Contains(err.Error(), "timeout") {
			t.Errorf("after %s the connection stayed open", name)
		}
	}
}

// A hundred thousand items in a push are as many messages.
func TestPushOfManyItems(t *testing.T) {
	w := open(t)
	const n = 100_000
	body := strings.Repeat(`{"queue":"q","payload":0},`, n)
	a := w.call("POST", "/api/v1/push", `{"items":[`+body[:len(body)-1]+`]}`)
	if a.status != http.StatusCreated || strings.Count(string(a.body), `"status":"queued"`) != n {
		t.Fatalf("got %d", a.status)
	}
	if total := w.queue("q").Totals.Total; total != n {
		t.Errorf("%d stored", total)
	}
	if a := w.call("POST", "/api/v1/push", `{"items":[`+body+body+`{"queue":"q","payload":0}]}`); a.status != http.StatusBadRequest {
		t.Errorf("200,001 items: got %d", a.status)
	}
}
