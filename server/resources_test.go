package server

import (
	"net/http"
	"strings"
	"testing"

	"github.com/skepmq/skep/broker"
)

const (
	plainOptions = `"priority":0,"leaseTime":300,"retryLimit":3,"retryDelay":1000,"maxSize":0,"ttl":3600,"deadLetterQueue":true,"dlqAfterMaxRetries":true,` +
		`"delayedProcessing":0,"windowBuffer":0,"retentionSeconds":0,"completedRetentionSeconds":0,"retentionEnabled":false,"encryptionEnabled":false,` +
		`"maxWaitTimeSeconds":0,"minPopWaitTime":0,"dedupWindowSeconds":3600,"retentionSinkHold":"","retentionSinkHoldMaxSeconds":604800}`
	configured = `{"configured":true,"queueId":` + id1 + `,"partitionId":null,"queue":"q","namespace":"","task":"","storage":"segments","options":{`
)

func TestConfigure(t *testing.T) {
	f := newFake()
	c := startMemory(t, f, Options{})
	check(t, c, "POST", "/api/v1/configure", `{"queue":"q"}`, 200, configured+plainOptions+`}`)

	all := `"priority":5,"leaseTime":120,"retryLimit":0,"retryDelay":5,"maxSize":7,"ttl":8,"deadLetterQueue":false,"dlqAfterMaxRetries":false,` +
		`"delayedProcessing":9,"windowBuffer":10,"retentionSeconds":11,"completedRetentionSeconds":12,"retentionEnabled":true,"encryptionEnabled":false,` +
		`"maxWaitTimeSeconds":13,"minPopWaitTime":14,"dedupWindowSeconds":15,"retentionSinkHold":"a-B_9.","retentionSinkHoldMaxSeconds":60}`
	check(t, c, "POST", "/api/v1/configure", `{"queue":"q","namespace":"n","task":"t","options":{`+all+`}`, 200,
		strings.Replace(configured, `"namespace":"","task":""`, `"namespace":"n","task":"t"`, 1)+all+`}`)

	// G-824.
	_, body, _ := call(t, c, "POST", "/api/v1/configure", `{"queue":"q","options":{"encryptionEnabled":true}}`)
	if !strings.Contains(body, `"warning":"encryptionEnabled is set but no encryption key is loaded; payloads are stored as plaintext"`) {
		t.Errorf("no warning in %s", body)
	}
	f.noKey = true
	_, body, _ = call(t, c, "POST", "/api/v1/configure", `{"queue":"q","options":{"encryptionEnabled":true}}`)
	if !strings.Contains(body, `"warning":"encryptionEnabled is set but no encryption key is loaded; pushes are refused"`) {
		t.Errorf("no warning in %s", body)
	}
}

// M-502, M-503: what is left out, under each mode; what is sent as null.
func TestConfigureModes(t *testing.T) {
	tests := []struct {
		name, body string
		exists     bool
		want       func(*broker.QueueOptions)
	}{
		{"replace by default", `{"queue":"q","options":{"retryLimit":9}}`, true, func(o *broker.QueueOptions) { o.RetryLimit = 9 }},
		{"replace", `{"queue":"q","mode":"replace","options":{}}`, true, func(*broker.QueueOptions) {}},
		{"merge", `{"queue":"q","mode":"merge","options":{"retryLimit":9,"task":null}}`, true, func(o *broker.QueueOptions) {
			o.RetryLimit, o.LeaseTime, o.Namespace = 9, 77, "kept"
		}},
		{"merge, null", `{"queue":"q","mode":"merge","options":{"leaseTime":null}}`, true, func(o *broker.QueueOptions) {
			o.Namespace, o.Task = "kept", "kept"
		}},
		{"merge, unknown queue", `{"queue":"q","mode":"merge"}`, false, func(*broker.QueueOptions) {}},
		{"M-506 clamp above", `{"queue":"q","minPopWaitTime":90000,"dedupWindowSeconds":-1}`, true, func(o *broker.QueueOptions) {
			o.MinPopWaitTime, o.DedupWindowSeconds = 60000, 0
		}},
		{"M-506 clamp below", `{"queue":"q","minPopWaitTime":-5}`, true, func(o *broker.QueueOptions) { o.MinPopWaitTime = 0 }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := newFake()
			if tt.exists {
				current := broker.ConfigureDefaults()
				current.LeaseTime, current.Namespace, current.Task = 77, "kept", "kept"
				f.current = &current
			}
			c := startMemory(t, f, Options{})
			if status, body, _ := call(t, c, "POST", "/api/v1/configure", tt.body); status != 200 {
				t.Fatalf("got %d %s", status, body)
			}
			want := broker.ConfigureDefaults()
			tt.want(&want)
			if got := f.configured[0]; got != want {
				t.Errorf("got %+v\nwant %+v", got, want)
			}
		})
	}
}

func TestConfigureRefused(t *testing.T) {
	f := newFake()
	c := startMemory(t, f, Options{})
	for body, prefix := range map[string]string{
		`{`:                                `{"error":"bad body: `,
		`{"x":1}`:                          `{"error":"queue is required"}`,
		`{"queue":1}`:                      `{"error":"queue is required"}`,
		`{"queue":"q","mode":"x"}`:         `{"error":"mode must be \"merge\" or \"replace\", got `,
		`{"queue":"q","leaseTime":"soon"}`: `{"error":"configure failed: option leaseTime`,
		`{"queue":"q","retentionSinkHold":"a b"}`:                             `{"error":"configure failed: configure: invalid`,
		`{"queue":"q","retentionSinkHold":"` + strings.Repeat("x", 65) + `"}`: `{"error":"configure failed: configure: invalid`,
		`{"queue":"q","retentionSinkHoldMaxSeconds":59}`:                      `{"error":"configure failed: configure: invalid`,
		`{"queue":"q","retentionSinkHoldMaxSeconds":31536001}`:                `{"error":"configure failed: configure: invalid`,
		`{"queue":"q","task":"` + strings.Repeat("x", 1<<16) + `"}`:           `{"error":"configure failed: configure: namespace or task`,
		`{"queue":"` + strings.Repeat("x", 1<<16) + `"}`:                      `{"error":"bad body: queue exceeds 65535 bytes"}`,
	} {
		status, answer, _ := call(t, c, "POST", "/api/v1/configure", body)
		if status != 400 || !strings.HasPrefix(answer, prefix) {
			t.Errorf("%.60s: got %d %s", body, status, answer)
		}
	}
	if len(f.configured) > 0 {
		t.Errorf("%d refused configurations were written", len(f.configured))
	}
}

func testQueues(f *fake) {
	options := broker.ConfigureDefaults()
	options.Namespace, options.Task = "billing", "invoice"
	f.queues = []broker.QueueInfo{
		{ID: testID(1), Name: "old", CreatedAtMs: 1785402761118, Options: options, Partitions: 2, RetainedBytes: 100, Segments: 3, Total: 10, Pending: 4, Processing: 2, DeadLetters: 1},
		{ID: testID(2), Name: "new", CreatedAtMs: 1785402761119, Options: broker.ConfigureDefaults()},
	}
	f.partitions = []broker.PartitionInfo{
		{ID: testID(4), Name: "b", CreatedAtMs: 1785402761119, Total: 0},
		{ID: testID(3), Name: "a", CreatedAtMs: 1785402761118, Total: 10, Pending: 4, Processing: 2, DeadLetters: 1, OldestMs: 1785402761118, NewestMs: 1785402761120},
	}
}

const (
	oldQueue = `{"id":` + id1 + `,"name":"old","namespace":"billing","task":"invoice","createdAt":"2026-07-30T09:12:41.118Z","partitions":2,"retainedBytes":100,"segments":{"segments":3,"messages":10},"messages":{"total":10,"pending":4,"processing":2}}`
	newQueue = `{"id":` + id2 + `,"name":"new","namespace":"","task":"","createdAt":"2026-07-30T09:12:41.119Z","partitions":0,"retainedBytes":0,"segments":{"segments":0,"messages":0},"messages":{"total":0,"pending":0,"processing":0}}`
)

func TestListQueues(t *testing.T) {
	f := newFake()
	c := startMemory(t, f, Options{})
	check(t, c, "GET", "/api/v1/resources/queues", "", 200, `{"queues":[]}`)
	testQueues(f)
	for query, want := range map[string]string{
		"":                                newQueue + "," + oldQueue,
		"?stats=cached&limit=x":           newQueue + "," + oldQueue,
		"?namespace=&task=":               newQueue + "," + oldQueue,
		"?namespace=billing":              oldQueue,
		"?task=invoice&namespace=billing": oldQueue,
		"?task=other":                     "",
		"?limit=1":                        newQueue,
		"?offset=1":                       oldQueue,
		"?offset=5&limit=5":               "",
		"?offset=-1&limit=-1":             newQueue + "," + oldQueue,
		"?limit=0":                        "",
	} {
		check(t, c, "GET", "/api/v1/resources/queues"+query, "", 200, `{"queues":[`+want+`]}`)
	}
	check(t, c, "GET", "/api/v1/resources/queues?namespace=%zz", "", 400, `{"error":"bad query: invalid escape \"%zz\""}`)
}

func TestDescribeQueue(t *testing.T) {
	f := newFake()
	testQueues(f)
	c := startMemory(t, f, Options{})
	const (
		head = `{"id":` + id1 + `,"name":"old","namespace":"billing","task":"invoice","createdAt":"2026-07-30T09:12:41.118Z","partitions":[`
		a    = `{"id":` + id3 + `,"name":"a","createdAt":"2026-07-30T09:12:41.118Z","stats":{"total":10,"pending":4,"processing":2,"completed":4,"failed":null,"deadLetter":1},"oldestMessage":"2026-07-30T09:12:41.118Z","newestMessage":"2026-07-30T09:12:41.120Z"}`
		b    = `{"id":` + id4 + `,"name":"b","createdAt":"2026-07-30T09:12:41.119Z","stats":{"total":0,"pending":0,"processing":0,"completed":0,"failed":null,"deadLetter":0},"oldestMessage":null,"newestMessage":null}`
		tail = `],"totals":{"total":10,"pending":4,"processing":2,"completed":4,"failed":null,"deadLetter":1},"retainedBytes":100,"segments":{"segments":3,"messages":10},"options":{"namespace":"billing","task":"invoice",` + plainOptions + `,"partitionCount":2`
	)
	check(t, c, "GET", "/api/v1/resources/queues/old", "", 200, head+a+","+b+tail+`}`)
	check(t, c, "GET", "/api/v1/resources/queues/old?partitionLimit=1", "", 200, head+a+tail+`,"partitionsTruncated":true}`)
	check(t, c, "GET", "/api/v1/resources/queues/old?partitionOffset=1", "", 200, head+b+tail+`,"partitionsTruncated":true}`)
	check(t, c, "GET", "/api/v1/resources/queues/nope", "", 404, `{"error":"Queue not found"}`)
}

func TestDepth(t *testing.T) {
	f := newFake()
	testQueues(f)
	c := startMemory(t, f, Options{})
	check(t, c, "GET", "/api/v1/resources/queues/old/depth", "", 200,
		`{"queue":"old","group":null,"pending":6,"processing":2,"ready":4,"partitionsPending":1,"partitionsReady":1,"conflation":false,"effectivePending":6,"effectiveReady":4,`+
			`"partitions":[{"partition":"a","pending":6,"processing":2,"ready":4},{"partition":"b","pending":0,"processing":0,"ready":0}]}`)
	check(t, c, "GET", "/api/v1/resources/queues/nope/depth", "", 404, `{"error":"Queue not found"}`)
	check(t, c, "GET", "/api/v1/resources/queues/old/depth?group=g", "", 200,
		`{"queue":"old","group":"g","pending":6,"processing":2,"ready":4,"partitionsPending":1,"partitionsReady":1,"conflation":false,"effectivePending":6,"effectiveReady":4,`+
			`"partitions":[{"partition":"a","pending":6,"processing":2,"ready":4},{"partition":"b","pending":0,"processing":0,"ready":0}]}`)
	f.conflation = true
	check(t, c, "GET", "/api/v1/resources/queues/old/depth?group=g", "", 200,
		`{"queue":"old","group":"g","pending":6,"processing":2,"ready":4,"partitionsPending":1,"partitionsReady":1,"conflation":true,"effectivePending":1,"effectiveReady":1,`+
			`"partitions":[{"partition":"a","pending":6,"processing":2,"ready":4},{"partition":"b","pending":0,"processing":0,"ready":0}]}`)
}

func TestDeleteQueue(t *testing.T) {
	f := newFake()
	c := startMemory(t, f, Options{})
	check(t, c, "DELETE", "/api/v1/resources/queues/no%2Fpe", "", 200, `{"deleted":false,"queue":"no/pe","existed":false,"message":"Queue not found, nothing was deleted"}`)
	f.existed = true
	check(t, c, "DELETE", "/api/v1/resources/queues/q", "", 200, `{"deleted":true,"queue":"q","existed":true}`)
}

func TestDeadLetters(t *testing.T) {
	f := newFake()
	c := startMemory(t, f, Options{})
	check(t, c, "GET", "/api/v1/dlq", "", 200, `{"messages":[],"pagination":{"limit":100,"offset":0},"total":0}`)
	f.letters = []broker.DeadLetter{{ID: testID(1), TransactionID: "t", MessageID: testID(2), PartitionID: testID(3), Queue: "q", Partition: "p", Group: "g",
		Error: "why", RetryCount: 3, Payload: []byte(`{"amount": 41}`), CreatedAtMs: 1785402761118, FailedAtMs: 1785402761119}}
	check(t, c, "GET", "/api/v1/dlq?queue=q&consumerGroup=g&partition=p&limit=5&offset=2&from=2026-07-30T09:12:41.118Z&to=2026-07-31", "", 200,
		`{"messages":[{"id":`+id1+`,"transactionId":"t","partitionId":`+id3+`,"queue":"q","partition":"p","consumerGroup":"g","errorMessage":"why","retryCount":3,"data":{"amount": 41},"producerSub":null,`+
			`"createdAt":"2026-07-30T09:12:41.118Z","failedAt":"2026-07-30T09:12:41.119Z"}],"pagination":{"limit":5,"offset":2},"total":1}`)
	want := broker.DeadLetterFilter{Queue: "q", Group: "g", Partition: "p", Limit: 5, Offset: 2, FromMs: 1785402761118, ToMs: 1785456000000}
	if f.filter != want {
		t.Errorf("got %+v want %+v", f.filter, want)
	}
	check(t, c, "GET", "/api/v1/dlq?from=yesterday", "", 400, `{"error":"invalid timestamp: yesterday"}`)
}

func TestDeadLetterRemoval(t *testing.T) {
	f := newFake()
	c := startMemory(t, f, Options{})
	letter := "/api/v1/messages/0198f2c1-4d3a-7c10-9f2b-000000000001/a%2Fb"
	const address = `"partitionId":` + id1 + `,"transactionId":"a/b"`
	const gone = `{"success":false,` + address + `,"error":"Message not found","message":"No dead letter with this address"}`
	check(t, c, "DELETE", letter, "", 404, gone)
	f.err = broker.ErrDeadLetterNotFound
	check(t, c, "DELETE", letter, "", 404, gone)
	check(t, c, "POST", letter+"/retry", "{}", 404, gone)
	f.err, f.removed = nil, 2
	check(t, c, "DELETE", letter, "", 200, `{"success":true,`+address+`,"message":"Message deleted successfully"}`)
	check(t, c, "DELETE", "/api/v1/messages/7/x", "", 404, `{"success":false,"partitionId":"7","transactionId":"x","error":"Message not found","message":"No dead letter with this address"}`)

	check(t, c, "DELETE", "/api/v1/dlq", "", 400, `{"error":"queue is required"}`)
	check(t, c, "DELETE", "/api/v1/dlq?queue=q", "", 200, `{"success":true,"deleted":2,"queue":"q","consumerGroup":null}`)
	check(t, c, "DELETE", "/api/v1/dlq?queue=q&consumerGroup=g", "", 200, `{"success":true,"deleted":2,"queue":"q","consumerGroup":"g"}`)
	f.err, f.removed = broker.ErrQueueNotFound, 0
	check(t, c, "DELETE", "/api/v1/dlq?queue=q", "", 200, `{"success":true,"deleted":0,"queue":"q","consumerGroup":null}`)
}

func TestReplay(t *testing.T) {
	f := newFake()
	f.replay = broker.ReplayResult{DeadLetter: broker.DeadLetter{ID: testID(1), TransactionID: "t", Group: "g"}, Queue: "q", Partition: "p",
		TransactionID: "dlq:1", Push: broker.PushResult{MessageID: testID(2), Offset: 7}, Removed: true}
	c := startMemory(t, f, Options{})
	const (
		head  = `{"success":true,"result":"moved","queue":"q","partition":"p","consumerGroup":"g","dlqId":` + id1 + `,"originalTransactionId":"t","replayedAs":`
		moved = head + `{"index":0,"message_id":` + id2 + `,"transaction_id":"dlq:1","queueName":"q","status":"queued","offset":7},"dlqRowRemoved":true}`
		byID  = "/api/v1/dlq/0198f2c1-4d3a-7c10-9f2b-000000000001/replay"
	)
	check(t, c, "POST", "/api/v1/messages/0198f2c1-4d3a-7c10-9f2b-000000000001/t/retry", "not even json", 200, moved)
	check(t, c, "POST", byID, "", 200, moved)
	if f.queue != nil || f.part != nil {
		t.Error("a replay without a body names a target")
	}
	check(t, c, "POST", byID, `{"queue":" q2 ","partition":"p2"}`, 200, moved)
	if f.queue == nil || *f.queue != "q2" || f.part == nil || *f.part != "p2" {
		t.Errorf("got %v %v", f.queue, f.part)
	}
	check(t, c, "POST", byID, `{"queue":"  "}`, 400, `{"error":"bad body: queue is blank"}`)
	check(t, c, "POST", byID, `{"partition":""}`, 400, `{"error":"bad body: partition is blank"}`)
	check(t, c, "POST", "/api/v1/dlq/7/replay", "", 404, `{"success":false,"result":"gone","dlqId":"7","error":"Message not found","message":"No dead letter with this id"}`)

	// G-312.
	f.replay.Push, f.replay.Removed = broker.PushResult{MessageID: testID(2), Status: broker.Duplicate, Offset: 5}, false
	check(t, c, "POST", byID, "", 200, strings.Replace(head, "moved", "duplicate", 1)+
		`{"index":0,"message_id":"00000000-0000-0000-0000-000000000000","transaction_id":"dlq:1","queueName":"q","status":"duplicate","offset":5},"dlqRowRemoved":false}`)
	f.err = broker.ErrDeadLetterNotFound
	check(t, c, "POST", byID, "", 404, `{"success":false,"result":"gone","dlqId":`+id1+`,"error":"Message not found","message":"No dead letter with this id"}`)
}

func TestHealth(t *testing.T) {
	f := newFake()
	c := startMemory(t, f, Options{Version: "1.2.3"})
	check(t, c, "GET", "/health", "", 200, `{"status":"healthy","database":"connected","engine":"skep","version":"1.2.3"}`)
	check(t, c, "GET", "/status", "", 200, `{"status":"ok","engine":"skep"}`)
	f.ready = broker.ErrStorageFailed
	check(t, c, "GET", "/health", "", 503, `{"status":"unhealthy","database":"disconnected","engine":"skep","version":"1.2.3"}`)
	check(t, c, "GET", "/status", "", 200, `{"status":"ok","engine":"skep"}`)
}

// G-102: the listener may be up before the broker is.
func TestRecovering(t *testing.T) {
	ln := newMemoryListener()
	s := start(t, ln, nil, Options{Version: "1"})
	c := memoryClient(t, ln)
	check(t, c, "GET", "/health", "", 503, `{"status":"unhealthy","database":"disconnected","engine":"skep","version":"1","recovering":true}`)
	check(t, c, "GET", "/status", "", 200, `{"status":"ok","engine":"skep"}`)
	for i := range routes {
		if r := &routes[i]; strings.HasPrefix(r.pattern, "/api/") {
			status, body, header := call(t, c, r.method, r.pattern, "{}")
			if status != http.StatusServiceUnavailable || body != `{"error":"recovering","code":"recovering"}` || header.Get("Retry-After") != "1" {
				t.Errorf("%s %s: got %d %s %v", r.method, r.pattern, status, body, header)
			}
		}
	}
	s.SetBroker(newFake())
	check(t, c, "GET", "/health", "", 200, `{"status":"healthy","database":"connected","engine":"skep","version":"1"}`)
	check(t, c, "GET", "/api/v1/resources/queues", "", 200, `{"queues":[]}`)
}
