package acceptance

import (
	"testing"
)

// defaults are the options of a configuration that names none.
var defaults = options{
	LeaseTime: 300, RetryLimit: 3, RetryDelay: 1000, TTL: 3600, DeadLetterQueue: true, DLQAfterMaxRetries: true,
	DedupWindowSeconds: 3600, RetentionSinkHoldMaxSeconds: 604800,
}

const allOptions = `{"leaseTime":120,"retryLimit":5,"retryDelay":2000,"maxSize":1000,"ttl":7200,` +
	`"priority":7,"deadLetterQueue":false,"dlqAfterMaxRetries":false,"delayedProcessing":3,"windowBuffer":4,` +
	`"retentionSeconds":60,"completedRetentionSeconds":61,"retentionEnabled":true,"maxWaitTimeSeconds":62,` +
	`"minPopWaitTime":63,"dedupWindowSeconds":64,"retentionSinkHold":"s3.main_1-a","retentionSinkHoldMaxSeconds":65}`

var all = options{
	LeaseTime: 120, RetryLimit: 5, RetryDelay: 2000, MaxSize: 1000, TTL: 7200,
	Priority: 7, DelayedProcessing: 3, WindowBuffer: 4,
	RetentionSeconds: 60, CompletedRetentionSeconds: 61, RetentionEnabled: true, MaxWaitTimeSeconds: 62,
	MinPopWaitTime: 63, DedupWindowSeconds: 64, RetentionSinkHold: "s3.main_1-a", RetentionSinkHoldMaxSeconds: 65,
}

func TestT41EchoOfAllOptions(t *testing.T) {
	w := open(t)
	c := w.configure("q", allOptions)
	if c.Options != all || c.Queue != "q" || c.Namespace != "" || c.Task != "" {
		t.Errorf("configured %+v", c)
	}
	if d := w.queue("q"); d.Options.options != all || d.ID != c.QueueID || len(d.Partitions) != 0 {
		t.Errorf("detail %+v", d)
	}
}

func TestT42ConfigureReplaces(t *testing.T) {
	w := open(t)
	first := w.configureRaw(`{"queue":"q","namespace":"n","task":"t","options":` + allOptions + `}`)
	second := w.configure("q", `{"retryLimit":9}`)
	want := defaults
	want.RetryLimit = 9
	if second.Options != want || second.QueueID != first.QueueID || second.Namespace != "" || second.Task != "" {
		t.Errorf("second answer %+v", second)
	}
}

func TestT43MinPopWaitTimeIsClamped(t *testing.T) {
	w := open(t)
	for in, want := range map[string]int64{"90000": 60000, "60000": 60000, "-5": 0, "17": 17} {
		if got := w.configure("q", `{"minPopWaitTime":`+in+`}`).Options.MinPopWaitTime; got != want {
			t.Errorf("minPopWaitTime %s: got %d, want %d", in, got, want)
		}
	}
}

func TestT44DeleteQueue(t *testing.T) {
	w := open(t)
	w.queued(msg("orders", "", "a"))
	w.expect("DELETE", "/api/v1/resources/queues/orders", "", 200, `{"deleted":true,"queue":"orders","existed":true}`)
	w.expect("DELETE", "/api/v1/resources/queues/orders", "", 200,
		`{"deleted":false,"queue":"orders","existed":false,"message":"Queue not found, nothing was deleted"}`)
	w.nothing(w.popFrom("orders", "Default"))
	if q := w.queues(); len(q) != 0 {
		t.Errorf("queues %+v", q)
	}
}
