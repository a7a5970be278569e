package server

import (
	"errors"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/rs/zerolog"

	"github.com/skepmq/skep/broker"
)

// call sends one request and returns status, body and Content-Type.
func call(t testing.TB, c *http.Client, method, target, body string) (int, string, http.Header) {
	t.Helper()
	req, err := http.NewRequest(method, "http://skep"+target, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	res, err := c.Do(req)
	if err != nil {
		t.Fatalf("%s %s: %v", method, target, err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatalf("%s %s: read body: %v", method, target, err)
	}
	return res.StatusCode, string(b), res.Header
}

// rawCall is call for targets that net/url would refuse or rewrite.
func rawCall(t testing.TB, c *http.Client, method, target string) (int, string, http.Header) {
	t.Helper()
	req := &http.Request{Method: method, URL: &url.URL{Scheme: "http", Host: "skep", Opaque: target}, Host: "skep", Header: http.Header{}}
	res, err := c.Do(req)
	if err != nil {
		t.Fatalf("%s %s: %v", method, target, err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatalf("%s %s: read body: %v", method, target, err)
	}
	return res.StatusCode, string(b), res.Header
}

func check(t *testing.T, c *http.Client, method, target, body string, status int, want string) {
	t.Helper()
	gotStatus, got, header := call(t, c, method, target, body)
	if got = withoutErrorID(got); gotStatus != status || got != want {
		t.Errorf("%s %s\n got %d %s\nwant %d %s", method, target, gotStatus, got, status, want)
	}
	if got != "" && header.Get("Content-Type") != "application/json" {
		t.Errorf("%s %s: Content-Type %q", method, target, header.Get("Content-Type"))
	}
	for _, name := range []string{"Server", "Date"} {
		if header.Get(name) != "" {
			t.Errorf("%s %s: header %s is sent", method, target, name)
		}
	}
}

const (
	id1 = `"0198f2c1-4d3a-7c10-9f2b-000000000001"`
	id2 = `"0198f2c1-4d3a-7c10-9f2b-000000000002"`
	id3 = `"0198f2c1-4d3a-7c10-9f2b-000000000003"`
	id4 = `"0198f2c1-4d3a-7c10-9f2b-000000000004"`
)

func TestPush(t *testing.T) {
	var got []broker.PushItem
	f := newFake()
	f.pushFn = func(items []broker.PushItem, results []broker.PushResult) error {
		got = got[:0]
		for i, item := range items {
			got = append(got, broker.PushItem{
				Queue: []byte(string(item.Queue)), Partition: []byte(string(item.Partition)),
				TransactionID: []byte(string(item.TransactionID)), Payload: []byte(string(item.Payload)),
			})
			results[i] = broker.PushResult{MessageID: testID(byte(i + 1)), Status: broker.PushStatus(i % 3), Offset: int64(i), Minted: len(item.TransactionID) == 0}
		}
		return nil
	}
	c := startMemory(t, f, Options{})

	check(t, c, "POST", "/api/v1/push",
		`{"items":[{"queue":"a","payload":{"n" : 1}},{"queue":"b\n","partition":"","transactionId":"t-2","payload":null},{"queue":"c","partition":"p","payload":[]}]}`,
		201, `[{"index":0,"message_id":`+id1+`,"transaction_id":`+id1+`,"queueName":"a","status":"queued"},`+
			`{"index":1,"message_id":`+id2+`,"transaction_id":"t-2","queueName":"b\n","status":"duplicate"},`+
			`{"index":2,"message_id":`+id3+`,"transaction_id":`+id3+`,"queueName":"c","status":"failed","error":"the message could not be stored"}]`)
	want := []string{"a|Default||" + `{"n" : 1}`, "b\n||t-2|null", "c|p||[]"}
	for i, item := range got {
		if text := string(item.Queue) + "|" + string(item.Partition) + "|" + string(item.TransactionID) + "|" + string(item.Payload); text != want[i] {
			t.Errorf("item %d: got %q want %q", i, text, want[i])
		}
	}

	// M-104: nothing to do is done without the broker.
	f.pushFn = func([]broker.PushItem, []broker.PushResult) error { return errors.New("called") }
	check(t, c, "POST", "/api/v1/push", `{"items":[]}`, 201, `[]`)

	for name, body := range map[string]string{
		"not json":            `{"items":[`,
		"no items":            `{}`,
		"empty":               ``,
		"M-101 data":          `{"items":[{"queue":"a","data":1}]}`,
		"mistyped partition":  `{"items":[{"queue":"a","partition":1,"payload":1}]}`,
		"D-26 transaction id": `{"items":[{"queue":"a","transactionId":"` + strings.Repeat("x", 1<<16) + `","payload":1}]}`,
		"long queue":          `{"items":[{"queue":"` + strings.Repeat("x", 1<<16) + `","payload":1}]}`,
		"long partition":      `{"items":[{"queue":"a","partition":"` + strings.Repeat("x", 1<<16) + `","payload":1}]}`,
	} {
		status, answer, _ := call(t, c, "POST", "/api/v1/push", body)
		if status != 400 || !strings.HasPrefix(answer, `{"error":"bad body: `) {
			t.Errorf("%s: got %d %s", name, status, answer)
		}
	}
}

func TestPushOffsets(t *testing.T) {
	f := newFake()
	f.pushFn = func(items []broker.PushItem, results []broker.PushResult) error {
		results[0] = broker.PushResult{MessageID: testID(1), Offset: 7}
		results[1] = broker.PushResult{MessageID: testID(2), Status: broker.Duplicate, Offset: -1}
		return nil
	}
	c := startMemory(t, f, Options{DeliveryDetails: true})
	check(t, c, "POST", "/api/v1/push", `{"items":[{"queue":"a","payload":1,"transactionId":"x"},{"queue":"a","payload":1,"transactionId":"y"}]}`,
		201, `[{"index":0,"message_id":`+id1+`,"transaction_id":"x","queueName":"a","status":"queued","offset":7},`+
			`{"index":1,"message_id":`+id2+`,"transaction_id":"y","queueName":"a","status":"duplicate"}]`)
}

// popAnswer lets f answer every pop with two partitions.
func popAnswer(f *fake, result *broker.PopResult) {
	f.messages[testID(2)] = []broker.Message{
		{ID: testID(3), TransactionID: []byte(`o"1`), Payload: []byte(`{"orderId": 8891}`), CreatedAtMs: 1785402761118},
		{ID: testID(4), TraceID: testID(1), ProducerSub: []byte("svc"), CreatedAtMs: 1785402761118},
		{ID: testID(4), Payload: []byte(`1`), CreatedAtMs: 1785402761119},
	}
	f.messages[testID(4)] = []broker.Message{{ID: testID(1), Payload: []byte(`[]`), CreatedAtMs: 1785402761120}}
	result.Parts = []broker.PopPart{
		{Queue: "q", Partition: "p 1", PartitionID: testID(2), Attempt: 1},
		{Queue: "q", Partition: "p2", PartitionID: testID(4), Attempt: 3},
	}
}

func TestPopAnswer(t *testing.T) {
	f := newFake()
	result := &broker.PopResult{LeaseID: testID(1), Group: "g"}
	popAnswer(f, result)
	f.popFn = func(*broker.PopRequest) (*broker.PopResult, error) { return result, nil }
	c := startMemory(t, f, Options{})

	const tail1 = `"partitionId":` + id2 + `,"partition":"p 1","leaseId":` + id1 + `,"consumerGroup":"g"}`
	check(t, c, "GET", "/api/v1/pop/queue/q%2Fx?partitions=2&consumerGroup=g", "", 200,
		`{"success":true,"queue":"q/x","partition":"p 1","partitionId":`+id2+`,"leaseId":`+id1+`,"consumerGroup":"g","messages":[`+
			`{"id":`+id3+`,"transactionId":"o\"1","traceId":null,"data":{"orderId": 8891},"producerSub":null,"createdAt":"2026-07-30T09:12:41.118Z",`+tail1+`,`+
			`{"id":`+id4+`,"transactionId":`+id4+`,"traceId":`+id1+`,"data":null,"producerSub":"svc","createdAt":"2026-07-30T09:12:41.118Z",`+tail1+`,`+
			`{"id":`+id4+`,"transactionId":`+id4+`,"traceId":null,"data":1,"producerSub":null,"createdAt":"2026-07-30T09:12:41.119Z",`+tail1+`,`+
			`{"id":`+id1+`,"transactionId":`+id1+`,"traceId":null,"data":[],"producerSub":null,"createdAt":"2026-07-30T09:12:41.120Z",`+
			`"partitionId":`+id4+`,"partition":"p2","leaseId":`+id1+`,"consumerGroup":"g"}],"partitionsClaimed":2}`)

	// M-210, M-212, M-214: discovery has no queue, autoAck no lease, no group is queue mode.
	result = &broker.PopResult{Parts: []broker.PopPart{{Queue: "q", Partition: "p2", PartitionID: testID(4)}}}
	check(t, c, "GET", "/api/v1/pop?task=t&autoAck=true", "", 200,
		`{"success":true,"queue":"","partition":"p2","partitionId":`+id4+`,"leaseId":"","consumerGroup":"__QUEUE_MODE__","messages":[`+
			`{"id":`+id1+`,"transactionId":`+id1+`,"traceId":null,"data":[],"producerSub":null,"createdAt":"2026-07-30T09:12:41.120Z",`+
			`"partitionId":`+id4+`,"partition":"p2","leaseId":"","consumerGroup":"__QUEUE_MODE__"}],"partitionsClaimed":1}`)

	result = &broker.PopResult{}
	check(t, c, "GET", "/api/v1/pop/queue/q", "", 204, "")

	// M-283: there is a body only where there is something to say about conflation.
	for body, r := range map[string]broker.PopResult{
		`{"messages":[],"conflation":true}`:                                         {Conflation: true},
		`{"messages":[],"conflationConflict":true}`:                                 {ConflationConflict: true},
		`{"messages":[],"conflation":true,"conflationConflict":true}`:               {Conflation: true, ConflationConflict: true},
		`{"messages":[],"paused":true,"conflation":true}`:                           {Conflation: true, Paused: true},
		`{"messages":[],"paused":true,"conflation":true,"conflationConflict":true}`: {Conflation: true, ConflationConflict: true, Paused: true},
	} {
		result = &r
		check(t, c, "GET", "/api/v1/pop/queue/q?consumerGroup=g&conflation=true", "", 200, body)
	}
	result = &broker.PopResult{Paused: true}
	check(t, c, "GET", "/api/v1/pop/queue/q", "", 204, "")
}

func TestPopRequest(t *testing.T) {
	var got broker.PopRequest
	f := newFake()
	f.popFn = func(req *broker.PopRequest) (*broker.PopResult, error) {
		got = *req
		got.Alive, got.Tenant = nil, uuid.Nil
		if req.Alive == nil || !req.Alive() || req.Tenant != broker.DefaultTenant {
			t.Error("the request has no tenant, or no live connection")
		}
		return &broker.PopResult{}, nil
	}
	c := startMemory(t, f, Options{})
	base := func(change func(*broker.PopRequest)) broker.PopRequest {
		req := broker.PopRequest{Queue: "q", Batch: 200, Partitions: 1, DefaultPartitions: true, SubscriptionMode: "all"}
		change(&req)
		return req
	}
	tests := []struct {
		target string
		want   broker.PopRequest
	}{
		{"/api/v1/pop/queue/q", base(func(*broker.PopRequest) {})},
		{"/api/v1/pop/queue/a%2Fb+%25c%00", base(func(r *broker.PopRequest) { r.Queue = "a/b+%c\x00" })},
		{"/api/v1/pop/queue/", base(func(r *broker.PopRequest) { r.Queue = "" })},
		{"/api/v1/pop/queue/q/partition/caf%C3%A9%0A", base(func(r *broker.PopRequest) { r.Partition, r.Pinned = "café\n", true })},
		{"/api/v1/pop?namespace=n&task=t", base(func(r *broker.PopRequest) {
			r.Queue, r.Discovery, r.Namespace, r.Task = "", true, "n", "t"
		})},
		{"/api/v1/pop/queue/q?namespace=n&unknown=1&conflation=false&autopilot=maybe", base(func(*broker.PopRequest) {})},
		{"/api/v1/pop/queue/q?conflation=true&consumerGroup=g", base(func(r *broker.PopRequest) { r.Conflation, r.Group = true, "g" })},
		{"/api/v1/pop/queue/q?batch=-3&partitions=0&leaseSeconds=9&autoAck=true&consumerGroup=a+b", base(func(r *broker.PopRequest) {
			r.Batch, r.Partitions, r.LeaseSeconds, r.AutoAck, r.Group = -3, 0, 9, true, "a b"
			r.DefaultPartitions = false
		})},
		{"/api/v1/pop/queue/q?consumerGroup=&subscriptionMode=new&subscriptionFrom=now", base(func(r *broker.PopRequest) {
			r.SubscriptionMode, r.SubscriptionFrom = "new", "now"
		})},
		{"/api/v1/pop/queue/q?timeout=500", base(func(*broker.PopRequest) {})},
		{"/api/v1/pop/queue/q?wait=true", base(func(r *broker.PopRequest) { r.Wait = 30 * time.Second })},
		{"/api/v1/pop/queue/q?wait=true&timeout=1500", base(func(r *broker.PopRequest) { r.Wait = 1500 * time.Millisecond })},
		{"/api/v1/pop/queue/q?wait=true&timeout=-5", base(func(*broker.PopRequest) {})},
		{"/api/v1/pop/queue/q?wait=true&timeout=9223372036854775807", base(func(r *broker.PopRequest) { r.Wait = 10 * time.Minute })},
	}
	for _, tt := range tests {
		status, body, _ := call(t, c, "GET", tt.target, "")
		if got.Alive = nil; status != 204 || got.Queue != tt.want.Queue || !samePop(got, tt.want) {
			t.Errorf("%s: %d %s\n got %+v\nwant %+v", tt.target, status, body, got, tt.want)
		}
	}
}

func samePop(a, b broker.PopRequest) bool {
	return a.Queue == b.Queue && a.Partition == b.Partition && a.Pinned == b.Pinned && a.Discovery == b.Discovery &&
		a.Namespace == b.Namespace && a.Task == b.Task && a.Group == b.Group && a.Batch == b.Batch &&
		a.Partitions == b.Partitions && a.DefaultPartitions == b.DefaultPartitions && a.Conflation == b.Conflation && a.LeaseSeconds == b.LeaseSeconds && a.AutoAck == b.AutoAck &&
		a.Wait == b.Wait && a.SubscriptionMode == b.SubscriptionMode && a.SubscriptionFrom == b.SubscriptionFrom
}

func TestPopRefused(t *testing.T) {
	f := newFake()
	f.popFn = func(*broker.PopRequest) (*broker.PopResult, error) {
		t.Error("the broker was asked")
		return &broker.PopResult{}, nil
	}
	c := startMemory(t, f, Options{})
	for _, query := range []string{"batch=abc", "batch=", "partitions=1.5", "wait=1", "autoAck=True", "timeout=x", "leaseSeconds=1s", "conflation=1", "x=%zz", "consumerGroup=%ff"} {
		status, body, _ := call(t, c, "GET", "/api/v1/pop/queue/q?"+query, "")
		if status != 400 || !strings.HasPrefix(body, `{"error":"bad query: `) {
			t.Errorf("%s: got %d %s", query, status, body)
		}
	}
	const noLabel = `{"success":false,"error":"namespace or task is required","messages":[]}`
	check(t, c, "GET", "/api/v1/pop", "", 400, noLabel)
	check(t, c, "GET", "/api/v1/pop?namespace=&task=", "", 400, noLabel)
}

func TestAck(t *testing.T) {
	var group string
	var got []broker.Ack
	f := newFake()
	f.ackFn = func(g string, acks []broker.Ack, results []broker.AckResult) error {
		group, got = strings.Clone(g), nil
		for i, a := range acks {
			got = append(got, broker.Ack{TransactionID: strings.Clone(a.TransactionID), PartitionID: strings.Clone(a.PartitionID),
				LeaseID: strings.Clone(a.LeaseID), Status: a.Status, Error: strings.Clone(a.Error)})
			results[i] = broker.AckResult{Success: true}
		}
		results[len(results)-1] = broker.AckResult{Error: "invalid or expired lease"}
		results[0].LeaseReleased, results[0].DeadLetter, results[0].Noop = true, true, true
		return nil
	}
	c := startMemory(t, f, Options{})
	check(t, c, "POST", "/api/v1/ack", `{"transactionId":"t","partitionId":"p","consumerGroup":"g","leaseId":"l","status":"retry","error":"why"}`,
		200, `[{"index":0,"transactionId":"t","success":false,"error":"invalid or expired lease","leaseReleased":true,"dlq":true,"noop":true}]`)
	if want := (broker.Ack{TransactionID: "t", PartitionID: "p", LeaseID: "l", Status: broker.AckRetry, Error: "why"}); group != "g" || got[0] != want {
		t.Errorf("got %q %+v, want %+v", group, got[0], want)
	}
	check(t, c, "POST", "/api/v1/ack/batch",
		`{"consumerGroup":null,"acknowledgments":[{"transactionId":"t1","partitionId":"p","consumerGroup":"other","status":null,"error":null},{"transactionId":"t2","partitionId":"p","leaseId":"l"}]}`,
		200, `[{"index":0,"transactionId":"t1","success":true,"error":null,"leaseReleased":true,"dlq":true,"noop":true},`+
			`{"index":1,"transactionId":"t2","success":false,"error":"invalid or expired lease","leaseReleased":false,"dlq":false,"noop":false}]`)
	if group != broker.QueueMode {
		t.Errorf("group %q", group)
	}
	check(t, c, "POST", "/api/v1/ack/batch", `{"acknowledgments":[]}`, 200, `[]`)
	for _, path := range []string{"/api/v1/ack", "/api/v1/ack/batch"} {
		status, body, _ := call(t, c, "POST", path, `{"acknowledgments":1`)
		if status != 400 || !strings.HasPrefix(body, `{"error":"bad body: `) {
			t.Errorf("%s: got %d %s", path, status, body)
		}
	}
}

// M-302.
func TestAckStatus(t *testing.T) {
	var got broker.AckStatus
	f := newFake()
	f.ackFn = func(_ string, acks []broker.Ack, _ []broker.AckResult) error {
		got = acks[0].Status
		return nil
	}
	c := startMemory(t, f, Options{})
	for sent, want := range map[string]broker.AckStatus{
		``: broker.AckCompleted, `,"status":null`: broker.AckCompleted,
		`,"status":"completed"`: broker.AckCompleted, `,"status":"success"`: broker.AckCompleted,
		`,"status":"acked"`: broker.AckCompleted, `,"status":"ok"`: broker.AckCompleted,
		`,"status":"retry"`: broker.AckRetry, `,"status":"dlq"`: broker.AckDeadLetter,
		`,"status":"failed"`: broker.AckFailed, `,"status":""`: broker.AckFailed,
		`,"status":"Completed"`: broker.AckFailed, `,"status":"nack"`: broker.AckFailed,
	} {
		call(t, c, "POST", "/api/v1/ack", `{"transactionId":"t"`+sent+`}`)
		if got != want {
			t.Errorf("%s: got %d want %d", sent, got, want)
		}
	}
}

func TestExtend(t *testing.T) {
	var got int64
	renewed := 2
	f := newFake()
	f.extendFn = func(leaseID string, seconds int64) (int, time.Time, error) {
		if leaseID != "l/1" {
			t.Errorf("lease %q", leaseID)
		}
		got = seconds
		return renewed, time.UnixMicro(1785409604512873), nil
	}
	c := startMemory(t, f, Options{})
	const at = `"2026-07-30T11:06:44.512873Z"`
	for body, want := range map[string]int64{`{"seconds":120}`: 120, ``: 60, `{}`: 60, `nonsense`: 60, `{"seconds":-4}`: 1, `{"seconds":"x"}`: 60} {
		check(t, c, "POST", "/api/v1/lease/l%2F1/extend", body, 200,
			`{"leaseId":"l/1","success":true,"renewed":2,"newExpiresAt":`+at+`,"expiresAt":`+at+`,"lease_expires_at":`+at+`}`)
		if got != want {
			t.Errorf("%q: got %d want %d", body, got, want)
		}
	}
	renewed = 0
	check(t, c, "POST", "/api/v1/lease/l%2F1/extend", "", 200,
		`{"leaseId":"l/1","success":false,"renewed":0,"newExpiresAt":null,"expiresAt":null,"lease_expires_at":null}`)
}

func TestFailures(t *testing.T) {
	tests := []struct {
		err        error
		status     int
		body       string
		retryAfter string
	}{
		{broker.ErrStorageFull, 507, `{"error":"storage is full","code":"storage_full"}`, ""},
		{broker.ErrStorageFailed, 503, `{"error":"storage has failed; the outcome of the request is unknown","code":"storage_failed"}`, "1"},
		{broker.ErrClosed, 503, `{"error":"the broker is stopping","code":"stopping"}`, "1"},
		{broker.ErrTooManyParked, 503, `{"error":"too many waiting requests","code":"overloaded"}`, "1"},
		{broker.ErrPartitionDamaged, 500, `{"error":"partition damaged","code":"partition_damaged"}`, ""},
		{errOdd, 500, internalError + `}`, ""},
	}
	f := newFake()
	logged := &lines{}
	c := startMemory(t, f, Options{Logger: zerolog.New(logged)})
	for _, tt := range tests {
		f.err = errors.Join(errors.New("wrapped"), tt.err)
		for _, r := range [][3]string{
			{"POST", "/api/v1/push", `{"items":[{"queue":"q","payload":1}]}`},
			{"GET", "/api/v1/pop/queue/q", ""},
			{"POST", "/api/v1/ack", `{"transactionId":"t"}`},
			{"POST", "/api/v1/transaction", `{"operations":[]}`},
			{"POST", "/api/v1/lease/l/extend", ""},
			{"POST", "/api/v1/configure", `{"queue":"q"}`},
			{"GET", "/api/v1/resources/queues", ""},
			{"DELETE", "/api/v1/resources/queues/q", ""},
			{"GET", "/api/v1/dlq", ""},
			{"DELETE", "/api/v1/dlq?queue=q", ""},
		} {
			status, body, header := call(t, c, r[0], r[1], r[2])
			if id := errorID.FindString(body); tt.err == errOdd {
				if line := logged.take(); id == "" || !strings.Contains(line, errOdd.Error()) || !strings.Contains(line, strings.TrimPrefix(id, `"errorId":`)) {
					t.Errorf("%s %s: %s logged as %s", r[0], r[1], id, line)
				}
			}
			if body = withoutErrorID(body); status != tt.status || body != tt.body || header.Get("Retry-After") != tt.retryAfter {
				t.Errorf("%s %s: got %d %s Retry-After %q", r[0], r[1], status, body, header.Get("Retry-After"))
			}
		}
	}
}

// errOdd is an error that nobody has foreseen. It names a file, which is nobody's affair.
var errOdd = errors.New("read /var/lib/skep/segments/1.seg: input/output error")

// internalError is the answer to it, but for a brace and with a fixed id.
const internalError = `{"error":"internal error","code":"internal","errorId":"-"`

var errorID = regexp.MustCompile(`"errorId":"[0-9a-f-]{36}"`)

func withoutErrorID(body string) string {
	return errorID.ReplaceAllString(body, `"errorId":"-"`)
}

// lines keeps what is logged.
type lines struct {
	mu   sync.Mutex
	text []byte
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text = append(l.text, p...)
	return len(p), nil
}

// take returns what was logged since it was last called.
func (l *lines) take() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	text := string(l.text)
	l.text = l.text[:0]
	return text
}
