package server

import (
	"os"
	"runtime/metrics"
	"strconv"
	"sync"

	"github.com/valyala/fasthttp"

	"github.com/skepmq/skep/broker"
)

// metrics answers GET /metrics. The block of a database that there is not stays, for those
// who look for it.
func (r *request) metrics() {
	r.abandonBody()
	var st broker.Stats
	if r.broker != nil {
		st = r.broker.Stats()
	}
	t, u := &st.Traffic, readUsage()
	total, used := heap()
	b := r.answer()
	for _, part := range [...]struct {
		key   string
		value int64
	}{
		{`{"uptime":`, int64(r.server.opts.Now().Sub(r.server.started).Seconds())},
		{`,"requests":{"total":`, t[broker.PushRequests] + t[broker.PopRequests] + t[broker.AckRequests]},
		{`,"rate":0},"messages":{"total":`, t[broker.PushedMessages] + t[broker.PoppedMessages] + t[broker.AckedMessages]},
		{`,"rate":0},"database":{"poolSize":0,"idleConnections":0,"waitingRequests":0},"storage":{"queues":`, int64(st.Queues)},
		{`,"partitions":`, int64(st.Partitions)},
		{`,"segments":`, int64(st.Segments)},
		{`,"bytes":`, st.SegmentBytes + st.Journal.Unfiled},
		{`,"fsyncs":`, st.Journal.Syncs},
		{`},"memory":{"rss":`, u.rss},
		{`,"heapTotal":`, total},
		{`,"heapUsed":`, used},
		{`,"external":0,"arrayBuffers":0},"cpu":{"user":`, u.user.Microseconds()},
		{`,"system":`, u.system.Microseconds()},
	} {
		b = append(b, part.key...)
		b = strconv.AppendInt(b, part.value, 10)
	}
	r.send(fasthttp.StatusOK, append(b, `}}`...))
}

// hostname is what series call the one process that there is; "": nobody knows.
var hostname = sync.OnceValue(func() string {
	name, _ := os.Hostname()
	return name
})

// heap returns the bytes that the runtime holds for objects, and those that objects take.
func heap() (total, used int64) {
	s := []metrics.Sample{
		{Name: "/memory/classes/heap/objects:bytes"}, {Name: "/memory/classes/heap/unused:bytes"}, {Name: "/memory/classes/heap/free:bytes"},
	}
	metrics.Read(s)
	used = int64(s[0].Value.Uint64())
	return used + int64(s[1].Value.Uint64()+s[2].Value.Uint64()), used
}

// schedLatency returns how many goroutines have waited for a processor, and for how many
// seconds in all, by the middle of the runtime's buckets.
func schedLatency() (count uint64, seconds float64) {
	s := []metrics.Sample{{Name: "/sched/latencies:seconds"}}
	metrics.Read(s)
	h := s[0].Value.Float64Histogram()
	for i, n := range h.Counts {
		low, high := max(h.Buckets[i], 0), h.Buckets[i+1]
		if high > 1e6 {
			high = low
		}
		count += n
		seconds += float64(n) * (low + high) / 2
	}
	return count, seconds
}
