package acceptance

import (
	"regexp"
	"testing"
	"time"
)

var (
	anID   = regexp.MustCompile(`"[0-9a-f]{8}-[0-9a-f-]{27}"`)
	aTime  = regexp.MustCompile(`"\d{4}-\d\d-\d\dT[0-9:.]+Z"`)
	aDelay = regexp.MustCompile(`"durationMs":\d+`)
)

// shape is a body with its ids and times blotted out.
func (a answer) shape() string {
	b := anID.ReplaceAll(a.body, []byte(`"id"`))
	b = aTime.ReplaceAll(b, []byte(`"T"`))
	return string(aDelay.ReplaceAll(b, []byte(`"durationMs":0`)))
}

func (w *world) wantShape(method, target string, status int, want string) {
	w.t.Helper()
	if a := w.call(method, target, ""); a.status != status || a.shape() != want {
		w.t.Errorf("%s %s\n got %d %s\nwant %d %s", method, target, a.status, a.shape(), status, want)
	}
}

// stocked opens a broker with a queue of which one message of five is done, one leased and
// one set aside, and an empty one with labels.
func stocked(t *testing.T) *world {
	w := open(t)
	w.configure("q", `{"retryLimit":0}`)
	w.clock.advance(time.Second)
	w.configureRaw(`{"queue":"labelled","namespace":"n","task":"t","options":{}}`)
	w.queued(numbered("q", "a", "m", 4)...)
	w.queued(msg("q", "b", "x"))
	w.ok(true, w.ack("", w.popFrom("q", "a", "batch=1").Messages[0].as("completed")))
	w.buried(w.ack("", w.popFrom("q", "a", "batch=1").Messages[0].as("failed")))
	w.want(w.popFrom("q", "a", "batch=1"), "m2")
	w.clock.advance(10 * time.Second)
	return w
}

func TestG125StatusOfQueues(t *testing.T) {
	w := stocked(t)
	const q = `{"id":"id","name":"q","namespace":"","task":"","createdAt":"T","partitions":2,"messages":{"total":5,"pending":2,"processing":1,"completed":2,"failed":null,"deadLetter":1}}`
	const labelled = `{"id":"id","name":"labelled","namespace":"n","task":"t","createdAt":"T","partitions":0,"messages":{"total":0,"pending":0,"processing":0,"completed":0,"failed":null,"deadLetter":0}}`
	w.wantShape("GET", "/api/v1/status/queues", 200, `{"queues":[`+labelled+","+q+`],"pagination":{"limit":100,"offset":0}}`)
	for target, want := range map[string]string{
		"?limit=1&offset=1": q + `],"pagination":{"limit":1,"offset":1}`,
		"?queue=q":          q + `],"pagination":{"limit":100,"offset":0}`,
		"?namespace=n":      labelled + `],"pagination":{"limit":100,"offset":0}`,
		"?task=other":       `],"pagination":{"limit":100,"offset":0}`,
	} {
		w.wantShape("GET", "/api/v1/status/queues"+target, 200, `{"queues":[`+want+`}`)
	}
}

func TestG126StatusOfAQueue(t *testing.T) {
	w := stocked(t)
	w.wantShape("GET", "/api/v1/status/queues/none", 404, `{"error":"Queue not found"}`)
	const (
		queue = `{"queue":{"id":"id","name":"q","namespace":"","task":"","createdAt":"T","priority":0,"config":{"leaseTime":300,"retryLimit":0,"retryDelay":1000,"ttl":3600,"maxQueueSize":0,"deadLetterQueue":true}},"partitions":[`
		a     = `{"total":4,"pending":1,"processing":1,"completed":2,"failed":null,"deadLetter":1}`
		b     = `{"total":1,"pending":1,"processing":0,"completed":0,"failed":null,"deadLetter":0}`
		all   = `"total":5,"pending":2,"processing":1,"completed":2,"failed":null,"deadLetter":1}`
		lane  = `{"id":"id","name":"a","createdAt":"T","messages":` + a + `,"stats":` + a + `,"cursor":{"totalConsumed":2,"batchesConsumed":0},"lastActivity":"T","oldestMessage":"T","newestMessage":"T"}`
		other = `{"id":"id","name":"b","createdAt":"T","messages":` + b + `,"stats":` + b + `,"cursor":{"totalConsumed":0,"batchesConsumed":0},"lastActivity":null,"oldestMessage":"T","newestMessage":"T"}`
	)
	w.wantShape("GET", "/api/v1/status/queues/q?includePartitions=no", 200,
		queue+lane+","+other+`],"totals":{"messages":{`+all+`,`+all+`,"partitionCount":2}`)
	// G-127: totals cover what the cut leaves out.
	w.wantShape("GET", "/api/v1/status/queues/q?partitionLimit=1&partitionOffset=1", 200,
		queue+other+`],"totals":{"messages":{`+all+`,`+all+`,"partitionCount":2,"partitionsTruncated":true}`)
}

func TestG160Overview(t *testing.T) {
	w := stocked(t)
	const before = `{"queues":2,"partitions":2,"namespaces":2,"tasks":2,"messages":{"total":5,"pending":2,"processing":1,"completed":1,"failed":1,"deadLetter":1},` +
		`"lag":{"time":{"avg":10,"median":10,"min":0,"max":10},"offset":{"avg":3,"median":3,"min":0,"max":3}},"throughput":{`
	w.wantShape("GET", "/api/v1/resources/overview", 200, before+`"ingestedPerSecond":0.02,"processedPerSecond":0.00},"timestamp":"T","statsAge":0}`)
	for range 6 {
		w.rolled()
	}
	a := w.call("GET", "/api/v1/resources/overview", "")
	if want := regexp.MustCompile(`"ingestedPerSecond":0.00`); !want.Match(a.body) {
		t.Errorf("six minutes later: %s", a.body)
	}
}

func TestG161Labels(t *testing.T) {
	w := stocked(t)
	w.wantShape("GET", "/api/v1/resources/namespaces", 200, `{"namespaces":[{"namespace":"","queues":1,"partitions":2,"messages":{"total":5,"pending":2}},{"namespace":"n","queues":1,"partitions":0,"messages":{"total":0,"pending":0}}]}`)
	w.wantShape("GET", "/api/v1/resources/tasks", 200, `{"tasks":[{"task":"","queues":1,"partitions":2,"messages":{"total":5,"pending":2}},{"task":"t","queues":1,"partitions":0,"messages":{"total":0,"pending":0}}]}`)
}

func TestG169PartitionsOfAQueue(t *testing.T) {
	w := stocked(t)
	w.wantShape("GET", "/api/v1/resources/partitions", 400, `{"error":"queue is required"}`)
	w.wantShape("GET", "/api/v1/resources/partitions?queue=none", 404, `{"error":"Queue not found"}`)
	const a = `{"id":"id","queue":"q","name":"a","lastOffset":3,"logStart":0,"pending":1,"lastWriteAt":"T"}`
	const b = `{"id":"id","queue":"q","name":"b","lastOffset":0,"logStart":0,"pending":1,"lastWriteAt":"T"}`
	w.wantShape("GET", "/api/v1/resources/partitions?queue=q", 200, `{"partitions":[`+a+`,`+b+`],"total":2}`)
	w.wantShape("GET", "/api/v1/resources/partitions?queue=q&limit=1&offset=1", 200, `{"partitions":[`+b+`],"total":2}`)
}

// G-420: a refresh changes no counter.
func TestG420Refresh(t *testing.T) {
	w := stocked(t)
	before := w.call("GET", "/api/v1/resources/queues", "")
	for _, body := range []string{"", "{}"} {
		if a := w.call("POST", "/api/v1/stats/refresh", body); a.shape() != `{"refreshed":true,"engine":"skep","queues":2,"segPartitions":3,"durationMs":0}` {
			t.Errorf("refresh: %d %s", a.status, a.body)
		}
	}
	if after := w.call("GET", "/api/v1/resources/queues", ""); string(after.body) != string(before.body) {
		t.Errorf("after a refresh: %s\nbefore: %s", after.body, before.body)
	}
}
