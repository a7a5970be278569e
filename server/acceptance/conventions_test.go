package acceptance

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/valyala/fasthttp/fasthttputil"

	"github.com/skepmq/skep/server"
	"github.com/skepmq/skep/server/testkit"
)

func TestM002ContentTypeDoesNotMatter(t *testing.T) {
	w := open(t)
	for i, contentType := range []string{"", "application/json", "text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "nonsense"} {
		header := http.Header{"Content-Type": {contentType}}
		if contentType == "" {
			header = http.Header{}
		}
		body := fmt.Sprintf(`{"extra":[1,{"a":null}],"items":[{"queue":"q","payload":%d,"unknown":{"x":[]},"priority":3}],"more":true}`, i)
		if a := w.callWith("POST", "/api/v1/push", body, header); a.status != 201 {
			t.Errorf("%q: %d %s", contentType, a.status, a.body)
		}
	}
	p := w.pop("q", "nobody=knows", "me=")
	if len(p.Messages) != 6 {
		t.Errorf("%d messages", len(p.Messages))
	}
	m := p.Messages[0]
	w.ok(false, w.ackRaw("/api/v1/ack", `{"x":1,"transactionId":`+quote(m.TransactionID)+`,"partitionId":"`+m.PartitionID+`","y":{"z":[]}}`, m.TransactionID)...)
}

func TestM003BadBodies(t *testing.T) {
	w := open(t)
	for _, row := range []struct{ path, body string }{
		{"push", ``}, {"push", `x`}, {"push", `{"items":[`}, {"push", `[]`}, {"push", `{}`}, {"push", `null`},
		{"push", `{"items":{}}`}, {"push", `{"items":null}`}, {"push", `{"items":[1]}`}, {"push", `{"items":[null]}`},
		{"push", `{"items":[{"payload":1}]}`}, {"push", `{"items":[{"queue":null,"payload":1}]}`},
		{"push", `{"items":[{"queue":1,"payload":1}]}`}, {"push", `{"items":[{"queue":"q"}]}`},
		{"push", `{"items":[{"queue":"q","payload":1,"partition":1}]}`},
		{"push", `{"items":[{"queue":"q","payload":1,"transactionId":{}}]}`},
		{"push", `{"items":[{"queue":"q","payload":1}]} trailing`}, {"push", "\xef\xbb\xbf{\"items\":[]}"},
		{"push", "{\"items\":[{\"queue\":\"q\",\"payload\":\"\xff\"}]}"}, {"push", "{\"items\":[{\"queue\":\"\xff\",\"payload\":1}]}"},
		{"ack", ``}, {"ack", `x`}, {"ack", `[]`}, {"ack", `{"transactionId":1}`}, {"ack", `{"partitionId":[]}`}, {"ack", `{"status":true}`},
		{"ack/batch", ``}, {"ack/batch", `{}`}, {"ack/batch", `{"acknowledgments":{}}`}, {"ack/batch", `{"acknowledgments":null}`},
		{"ack/batch", `{"acknowledgements":[]}`}, {"ack/batch", `{"acknowledgments":[1]}`},
		{"ack/batch", `{"acknowledgments":[{"leaseId":7}]}`}, {"ack/batch", `{"acknowledgments":[],"consumerGroup":7}`},
		{"configure", ``}, {"configure", `x`}, {"configure", `[]`},
	} {
		a := w.call("POST", "/api/v1/"+row.path, row.body)
		if e := decode[errorAnswer](t, a.body); a.status != 400 || !strings.HasPrefix(e.Error, "bad body: ") || len(e.Error) == len("bad body: ") {
			t.Errorf("%s %q: %d %s", row.path, row.body, a.status, a.body)
		}
	}
	if q := w.queues(); len(q) > 0 {
		t.Errorf("queues %+v", q)
	}
}

// An error text holds what the client sent, and is JSON nevertheless.
func TestM006ErrorsAreEscaped(t *testing.T) {
	w := open(t)
	a := w.call("GET", "/api/v1/pop/queue/q?batch=%22%0a%00%F0%9F%98%80", "")
	if e := decode[errorAnswer](t, a.body); a.status != 400 || !strings.Contains(e.Error, `😀`) {
		t.Errorf("%d %s", a.status, a.body)
	}
}

func TestM007UnknownRoutes(t *testing.T) {
	w := open(t)
	const notFound = `{"error":"Not Found","code":"no_such_route"}`
	for _, row := range []struct{ method, path string }{
		{"GET", "/api/"}, {"GET", "/api"}, {"GET", "/api/v1"}, {"GET", "/api/v2/pop"}, {"POST", "/api/v1/nope"}, {"DELETE", "/api/v1/push/x"},
		{"POST", "/"}, {"PUT", "/index.html"}, {"DELETE", "/x"}, {"GET", "/api/v1/pop/queue/q/partition/p/more"},
		{"GET", "/streams/v1/nope"}, {"GET", "/internal/api/nope"}, {"HEAD", "/api/v1/nope"},
	} {
		want := notFound
		if row.method == "HEAD" {
			want = ""
		}
		w.expect(row.method, row.path, "", 404, want)
	}
	for _, path := range []string{"/", "/index.html", "/some/page"} {
		a := w.call("GET", path, "")
		if a.status != 200 || !strings.HasPrefix(a.header.Get("Content-Type"), "text/html") {
			t.Errorf("GET %s: %d %s", path, a.status, a.header.Get("Content-Type"))
		}
	}
}

func TestG012WrongMethod(t *testing.T) {
	w := open(t)
	for _, row := range []struct{ method, path, allow string }{
		{"GET", "/api/v1/push", "POST"}, {"PUT", "/api/v1/ack", "POST"}, {"GET", "/api/v1/ack/batch", "POST"},
		{"POST", "/api/v1/pop", "GET"}, {"DELETE", "/api/v1/pop/queue/q", "GET"}, {"HEAD", "/api/v1/pop/queue/q", "GET"},
		{"GET", "/api/v1/lease/x/extend", "POST"}, {"GET", "/api/v1/configure", "POST"}, {"POST", "/health", "GET, HEAD"},
		{"POST", "/api/v1/resources/queues/q", "GET, HEAD, DELETE"}, {"POST", address("p", "t"), "GET, HEAD, DELETE"},
	} {
		a := w.call(row.method, row.path, "")
		want := `{"error":"Method Not Allowed","code":"method_not_allowed"}`
		if row.method == "HEAD" {
			want = ""
		}
		if a.status != 405 || string(a.body) != want {
			t.Errorf("%s %s: %d %s", row.method, row.path, a.status, a.body)
		}
		for _, method := range strings.Split(row.allow, ", ") {
			if !strings.Contains(a.header.Get("Allow"), method) {
				t.Errorf("%s %s: Allow %q, want %q", row.method, row.path, a.header.Get("Allow"), row.allow)
			}
		}
	}
}

// TestM009BodyTooLarge sends bodies of a known and of an unknown length, just fitting and
// one byte too long. The next request shows that the broker goes on.
func TestM009BodyTooLarge(t *testing.T) {
	const limit = 100_000
	w := open(t, onLoopback, func(w *world) { w.server = server.Options{MaxBodyBytes: limit} })
	body := func(n int) string {
		const frame = `{"items":[{"queue":"q","payload":""}]}`
		return strings.Replace(frame, `""`, `"`+strings.Repeat("x", n-len(frame))+`"`, 1)
	}
	for _, row := range []struct {
		size, status int
		chunked      bool
	}{{limit, 201, false}, {limit + 1, 413, false}, {limit, 201, true}, {limit + 1, 413, true}, {10 * limit, 413, false}, {10 * limit, 413, true}} {
		conn, err := w.running.dial()
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			b := body(row.size)
			if row.chunked {
				_, _ = fmt.Fprintf(conn, "POST /api/v1/push HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n", len(b), b)
			} else {
				_, _ = fmt.Fprintf(conn, "POST /api/v1/push HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", len(b), b)
			}
		}()
		res, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatalf("%+v: %v", row, err)
		}
		got, err := io.ReadAll(res.Body)
		if err != nil || res.StatusCode != row.status {
			t.Errorf("%+v: %d %s, %v", row, res.StatusCode, got, err)
		}
		if row.status == 413 && string(got) != `{"error":"request body too large"}` {
			t.Errorf("%+v: %s", row, got)
		}
		conn.Close()
	}
	if p := w.pop("q", "batch=100"); len(p.Messages) != 2 {
		t.Errorf("%d messages stored", len(p.Messages))
	}
}

func TestM014BadQueries(t *testing.T) {
	w := open(t)
	w.queued(msg("a.b", "p", "a"))
	for _, bad := range []string{
		"batch=abc", "batch=", "batch=1.5", "batch=0x1", "batch=99999999999999999999", "batch=%201", "partitions=x", "timeout=1s", "leaseSeconds=ten",
		"autoAck=1", "autoAck=TRUE", "autoAck=yes", "autoAck=", "conflation=maybe", "wait=0", "wait=True", "batch=1&batch=x", "wait=true&timeout=x",
	} {
		for _, path := range []string{"/api/v1/pop/queue/a.b?", "/api/v1/pop/queue/a.b/partition/p?", "/api/v1/pop?namespace=a&"} {
			a := w.call("GET", path+bad, "")
			if e := decode[errorAnswer](t, a.body); a.status != 400 || !strings.HasPrefix(e.Error, "bad query: ") {
				t.Errorf("%s%s: %d %s", path, bad, a.status, a.body)
			}
		}
	}
	w.want(w.pop("a.b", "autopilot=maybe", "unknown=%", "consumerGroup="), "a")
}

// A number that does not parse counts as absent on the routes of operators.
func TestG006LenientFilters(t *testing.T) {
	w := open(t)
	w.queued(msg("q", "", "a"))
	if q := w.queues("limit=x", "offset=-"); len(q) != 1 {
		t.Errorf("queues %+v", q)
	}
	w.expect("GET", "/api/v1/dlq?limit=x&offset=y", "", 200, `{"messages":[],"pagination":{"limit":100,"offset":0},"total":0}`)
}

func TestG100Probes(t *testing.T) {
	w := open(t, func(w *world) { w.server = server.Options{Version: "1.2.3"} })
	w.expect("GET", "/health", "", 200, `{"status":"healthy","database":"connected","engine":"skep","version":"1.2.3"}`)
	w.expect("GET", "/status", "", 200, `{"status":"ok","engine":"skep"}`)
	w.running.broker.StopWaiting() // what a stop does first
	w.expect("GET", "/health", "", 503, `{"status":"unhealthy","database":"disconnected","engine":"skep","version":"1.2.3"}`)
	w.expect("GET", "/status", "", 200, `{"status":"ok","engine":"skep"}`)
}

func TestG102RecoveringIsNotReady(t *testing.T) {
	w := open(t)
	s := server.New(server.Options{Version: "1"})
	ln := fasthttputil.NewInmemoryListener()
	stop := testkit.Serve(s, ln)
	v := w.on(t)
	v.client = testkit.NewClient(ln.Dial)
	v.expect("GET", "/health", "", 503, `{"status":"unhealthy","database":"disconnected","engine":"skep","version":"1","recovering":true}`)
	v.expect("POST", "/api/v1/push", `{"items":[]}`, 503, `{"error":"recovering","code":"recovering"}`)
	for _, target := range []string{"/health", "/api/v1/dlq"} {
		if retry := v.call("GET", target, "").header.Get("Retry-After"); retry != "1" {
			t.Errorf("%s: Retry-After %q", target, retry)
		}
	}
	s.SetBroker(w.running.broker)
	v.expect("GET", "/health", "", 200, `{"status":"healthy","database":"connected","engine":"skep","version":"1"}`)
	v.expect("POST", "/api/v1/push", `{"items":[]}`, 201, `[]`)
	v.client.CloseIdleConnections()
	if err := stop(context.Background()); err != nil {
		t.Error(err)
	}
}

func TestG017StopAnswersParkedPops(t *testing.T) {
	w := open(t)
	one := later(func() *popAnswer { return w.pop("q", "wait=true", "timeout=20000") })
	two := later(func() *popAnswer { return w.pop("q", "wait=true", "timeout=20000", "consumerGroup=g") })
	w.parked(2)
	w.stop()
	w.nothing(<-one)
	w.nothing(<-two)
}
