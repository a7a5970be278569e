package acceptance

import (
	"net/http"
	"runtime"
	"strings"
	"testing"
)

// With memory above its bound nothing new is made, whole requests are refused, and
// everything that exists is served.
func TestMemoryBound(t *testing.T) {
	w := open(t)
	w.queued(msg("q", "p", "a"), msg("q", "p", "b"))
	w.nothing(w.pop("q", "consumerGroup=g", "subscriptionMode=new"))
	w.stop()
	runtime.GC() // what is live is known from it
	w.broker.MaxHeapBytes = 1
	w.start()
	transaction := func(queue, partition string) string {
		return `{"operations":[{"type":"push","items":[{"queue":"` + queue + `","partition":"` + partition + `","payload":0}]}]}`
	}
	for _, tt := range []struct{ method, path, body string }{
		{"POST", "/api/v1/push", `{"items":[{"queue":"q","partition":"p","payload":0},{"queue":"q","partition":"new","payload":0}]}`},
		{"POST", "/api/v1/push", `{"items":[{"queue":"new","partition":"p","payload":0}]}`},
		{"POST", "/api/v1/transaction", transaction("new", "p")},
		{"POST", "/api/v1/transaction", transaction("q", "new")},
		{"POST", "/api/v1/configure", `{"queue":"new"}`},
		{"GET", "/api/v1/pop/queue/new", ""},
		{"GET", "/api/v1/pop/queue/q?consumerGroup=new", ""},
		{"GET", "/api/v1/pop/queue/q/partition/p?consumerGroup=new", ""},
		{"GET", "/api/v1/pop?namespace=q&consumerGroup=new", ""},
		{"POST", "/api/v1/consumer-groups/new/queues/q/seek", `{"toEnd":true}`},
		{"POST", "/api/v1/consumer-groups/new/queues/q/partitions/p/seek", `{"toEnd":true}`},
	} {
		a := w.call(tt.method, tt.path, tt.body)
		if a.status != http.StatusServiceUnavailable || !strings.Contains(string(a.body), `"code":"memory_high"`) || a.header.Get("Retry-After") != "1" {
			t.Errorf("%s %s: got %d %s", tt.method, tt.path, a.status, a.body)
		}
	}
	w.queued(msg("q", "p", "c"))
	w.configure("q", `{"leaseTime":7}`)
	w.ackAll("g", w.want(w.pop("q", "consumerGroup=g"), "c"))
	w.ackAll("", w.want(w.pop("q"), "a", "b", "c"))
	w.call("POST", "/api/v1/transaction", transaction("q", "p"))
	w.deleteQueue("q")
	if got := w.queues(); len(got) != 0 {
		t.Errorf("left %v", got)
	}
	w.broker.MaxHeapBytes = 1 << 40
	w.restart()
	w.queued(msg("new", "new", "a"))
}
