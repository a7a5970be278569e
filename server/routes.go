package server

import (
	"bytes"
	"strings"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/skepmq/skep/server/codec"
)

// route is one line of the table. Segments of the pattern that begin with ':' are
// parameters.
type route struct {
	method  string
	pattern string
	access  access
	handle  func(*request)
}

// routes is every route there is. Where two match, the first wins, so a fixed
// segment stands before a parameter in its place. GET routes that only read answer
// HEAD as well.
var routes = [...]route{
	{"POST", "/api/v1/push", writeOnly, (*request).push},
	{"GET", "/api/v1/pop", readWrite, (*request).popDiscovery},
	{"GET", "/api/v1/pop/queue/:queue", readWrite, (*request).popQueue},
	{"GET", "/api/v1/pop/queue/:queue/partition/:partition", readWrite, (*request).popPinned},
	{"POST", "/api/v1/ack", readWrite, (*request).ack},
	{"POST", "/api/v1/ack/batch", readWrite, (*request).ackBatch},
	{"POST", "/api/v1/transaction", readWrite, (*request).transact},
	{"POST", "/api/v1/lease/:leaseId/extend", readWrite, (*request).extend},
	{"POST", "/api/v1/configure", readWrite, (*request).configure},

	{"GET", "/api/v1/status", readOnly, listed((*request).aggregateStatus)},
	{"GET", "/api/v1/status/analytics", readOnly, listed((*request).statusAnalytics)},
	{"GET", "/api/v1/status/queues", readOnly, listed((*request).statusQueues)},
	{"GET", "/api/v1/status/queues/:queue", readOnly, listed((*request).statusQueue)},
	{"GET", "/api/v1/analytics/system-metrics", readOnly, listed((*request).systemMetrics)},
	{"GET", "/api/v1/analytics/worker-metrics", readOnly, listed((*request).workerMetrics)},
	{"GET", "/api/v1/analytics/workload", readOnly, listed((*request).workload)},
	{"GET", "/api/v1/analytics/postgres-stats", readOnly, (*request).postgresStats},
	{"GET", "/api/v1/analytics/dlq-signatures", readOnly, listed((*request).deadLetterSignatures)},
	{"GET", "/api/v1/analytics/partition-liveness", readOnly, listed((*request).partitionLiveness)},
	{"POST", "/api/v1/stats/refresh", adminOnly, (*request).refreshStats},

	{"GET", "/api/v1/analytics/queue-lag", readOnly, listed((*request).queueLag)},
	{"GET", "/api/v1/analytics/queue-ops", readOnly, listed((*request).queueOps)},
	{"GET", "/api/v1/analytics/queue-parked-replicas", readOnly, listed((*request).queueParkedReplicas)},
	{"GET", "/api/v1/analytics/retention", readOnly, listed((*request).retention)},

	{"GET", "/api/v1/resources/overview", readOnly, listed((*request).overview)},
	{"GET", "/api/v1/resources/namespaces", readOnly, listed((*request).namespaces)},
	{"GET", "/api/v1/resources/tasks", readOnly, listed((*request).tasks)},
	{"GET", "/api/v1/resources/partitions", readOnly, listed((*request).partitions)},
	{"GET", "/api/v1/resources/queues", readOnly, listed((*request).listQueues)},
	{"GET", "/api/v1/resources/queues/:queue", readOnly, listed((*request).describeQueue)},
	{"DELETE", "/api/v1/resources/queues/:queue", adminOnly, (*request).deleteQueue},
	{"GET", "/api/v1/resources/queues/:queue/depth", readOnly, listed((*request).depth)},

	{"GET", "/api/v1/consumer-groups", readOnly, listed((*request).listGroups)},
	{"GET", "/api/v1/consumer-groups/lagging", readOnly, listed((*request).listLagging)},
	{"GET", "/api/v1/consumer-groups/:group", readOnly, listed((*request).describeGroup)},
	{"DELETE", "/api/v1/consumer-groups/:group", adminOnly, (*request).deleteGroup},
	{"POST", "/api/v1/consumer-groups/:group/subscription", readWrite, (*request).moveSubscription},
	{"DELETE", "/api/v1/consumer-groups/:group/queues/:queue", adminOnly, (*request).deleteQueueGroup},
	{"POST", "/api/v1/consumer-groups/:group/queues/:queue/seek", readWrite, (*request).seekQueue},
	{"POST", "/api/v1/consumer-groups/:group/queues/:queue/partitions/:partition/seek", readWrite, (*request).seekPartition},

	{"GET", "/api/v1/dlq", readOnly, listed((*request).listDeadLetters)},
	{"DELETE", "/api/v1/dlq", adminOnly, (*request).purgeDeadLetters},
	{"POST", "/api/v1/dlq/:id/replay", readWrite, (*request).replayDeadLetter},
	{"GET", "/api/v1/messages", readOnly, listed((*request).listMessages)},
	{"GET", "/api/v1/messages/:partitionId/:transactionId", readOnly, listed((*request).describeMessage)},
	{"DELETE", "/api/v1/messages/:partitionId/:transactionId", readWrite, (*request).deleteDeadLetter},
	{"POST", "/api/v1/messages/:partitionId/:transactionId/retry", readWrite, (*request).retryDeadLetter},

	{"POST", "/api/v1/traces", readWrite, (*request).addTrace},
	{"GET", "/api/v1/traces/names", readOnly, listed((*request).traceNames)},
	{"GET", "/api/v1/traces/by-name/:traceName", readOnly, listed((*request).namedTraces)},
	{"GET", "/api/v1/traces/:partitionId/:transactionId", readOnly, listed((*request).messageTraces)},

	{"GET", "/api/v1/system/maintenance", adminOnly, (*request).maintenance},
	{"POST", "/api/v1/system/maintenance", adminOnly, (*request).setMaintenance},
	{"GET", "/api/v1/system/maintenance/pop", adminOnly, (*request).popMaintenance},
	{"POST", "/api/v1/system/maintenance/pop", adminOnly, (*request).setPopMaintenance},
	{"POST", "/api/v1/system/snapshot", adminOnly, (*request).snapshot},
	{"GET", "/api/v1/system/shared-state", adminOnly, (*request).sharedState},
	{"GET", "/api/v1/system/config", adminOnly, (*request).config},
	{"POST", "/internal/api/notify", adminOnly, (*request).notify},
	{"GET", "/api/v1/status/buffers", readOnly, (*request).buffers},
	{"GET", "/internal/api/shared-state/stats", adminOnly, (*request).sharedStateStats},
	{"GET", "/internal/api/inter-instance/stats", adminOnly, (*request).sharedStateStats},

	{"GET", "/health", public, (*request).health},
	{"GET", "/status", readOnly, (*request).status},
	{"GET", "/metrics", public, (*request).metrics},
	{"GET", "/metrics/prometheus", public, listed((*request).prometheus)},
	{"GET", "/openapi.json", public, (*request).openAPI},
}

const (
	maxSegments = 10 // of any pattern, and one to notice more
	maxParams   = 3
)

// byLength holds the patterns of the table, split, by their number of segments.
var byLength = func() (table [maxSegments + 1][]splitRoute) {
	for i := range routes {
		segments := strings.Split(routes[i].pattern[1:], "/")
		table[len(segments)] = append(table[len(segments)], splitRoute{&routes[i], segments, operationOf(segments), ofTenant(routes[i].pattern)})
	}
	return table
}()

type splitRoute struct {
	*route
	segments []string
	op       operation
	ofTenant bool // it reads the tenant
}

// path is a raw path, split at '/'.
type path struct {
	segments [maxSegments][]byte
	n        int // more than maxSegments: too long for any route
}

// splitPath splits the raw path, from behind its first '/'. Nothing is cleaned: an
// empty segment is an empty name, and an escaped slash is part of one.
func splitPath(raw []byte) (p path) {
	if len(raw) > 0 && raw[0] == '/' {
		raw = raw[1:]
	}
	for more := true; more; p.n++ {
		if p.n == maxSegments {
			p.n++
			return p
		}
		p.segments[p.n], raw, more = bytes.Cut(raw, slash)
	}
	return p
}

var slash = []byte("/")

func (r *splitRoute) matches(p *path) bool {
	for i, want := range r.segments {
		if (want == "" || want[0] != ':') && string(p.segments[i]) != want {
			return false
		}
	}
	return true
}

// serves reports whether the route answers method.
func (r *route) serves(method []byte) bool {
	return string(method) == r.method || string(method) == "HEAD" && r.answersHead()
}

// answersHead: of what GET answers only pops do more than read. They would consume.
func (r *route) answersHead() bool {
	return r.method == "GET" && r.access != readWrite
}

// find returns the route of method and p, or the methods that p has, or neither.
func find(method []byte, p *path) (found *splitRoute, allowed string) {
	if p.n > maxSegments {
		return nil, ""
	}
	candidates := byLength[p.n]
	for i := range candidates {
		c := &candidates[i]
		if !c.matches(p) {
			continue
		}
		if c.serves(method) {
			return c, ""
		}
		allowed = appendAllowed(allowed, c.route)
	}
	return nil, allowed
}

// appendAllowed adds what r answers, unless another route of the path has.
func appendAllowed(allowed string, r *route) string {
	if strings.Contains(allowed, r.method) {
		return allowed
	}
	if allowed != "" {
		allowed += ", "
	}
	allowed += r.method
	if r.answersHead() {
		allowed += ", HEAD"
	}
	return allowed
}

// handle serves one request.
func (s *Server) handle(ctx *fasthttp.RequestCtx) {
	began := time.Now()
	r := requests.Get().(*request)
	r.ctx, r.server = ctx, s
	r.work.budget, r.room.budget = s.smallBodies, s.answers
	r.conn = ctx.Conn().(*conn)
	r.conn.reclaim()
	r.conn.giveWay()
	if b := s.broker.Load(); b != nil {
		r.broker = *b
	}
	if handler := r.route(); handler != nil {
		handler(r)
	}
	s.requests.count(r.op, ctx.Response.StatusCode(), time.Since(began))
	r.release()
}

// route finds the handler and decodes the parameters, or answers and returns nil. It
// does not call the handler itself: the split path would lie on the stack of every
// parked poll.
func (r *request) route() func(*request) {
	if !r.checkFraming() {
		return nil
	}
	if int64(r.ctx.Request.Header.ContentLength()) > r.server.opts.MaxBodyBytes {
		r.abandonBody()
		r.sendText(fasthttp.StatusRequestEntityTooLarge, bodyTooLarge)
		return nil
	}
	p := splitPath(r.ctx.URI().PathOriginal())
	found, allowed := find(r.ctx.Method(), &p)
	switch {
	case !r.admit(found, &p):
		r.abandonBody()
	case found == nil:
		r.abandonBody()
		r.unrouted(allowed, &p)
	case r.broker == nil && string(p.segments[0]) == "api":
		r.abandonBody()
		r.sendText(fasthttp.StatusServiceUnavailable, recovering)
	case r.findTenant(found) && r.decodeParams(found, &p):
		r.op = found.op
		return found.handle
	default:
		r.abandonBody()
	}
	return nil
}

// decodeParams resolves the escapes of the parameters, once, or answers 400.
func (r *request) decodeParams(found *splitRoute, p *path) bool {
	n := 0
	for i, name := range found.segments {
		if name[0] != ':' {
			continue
		}
		value, err := codec.PathSegment(p.segments[i])
		if err != nil {
			r.sendError(fasthttp.StatusBadRequest, "bad path: ", err.Error())
			return false
		}
		if len(value) > maxName {
			r.sendError(fasthttp.StatusBadRequest, "bad path: ", name[1:]+nameTooLong)
			return false
		}
		r.params[n] = value
		n++
	}
	return true
}

// unrouted answers a request that no route takes. An API client must never get HTML
// with a 200; a browser gets the page.
func (r *request) unrouted(allowed string, p *path) {
	method := string(r.ctx.Method())
	switch {
	case allowed != "":
		r.ctx.Response.Header.Set(fasthttp.HeaderAllow, allowed)
		r.sendText(fasthttp.StatusMethodNotAllowed, methodNotAllowed)
	case ofAPI(p.segments[0]), method != "GET" && method != "HEAD":
		r.sendText(fasthttp.StatusNotFound, noSuchRoute)
	default:
		r.ctx.Response.Header.SetContentTypeBytes(htmlType)
		r.ctx.Response.SetBodyString(page)
	}
}

// ofAPI reports whether paths that begin with first belong to programs.
func ofAPI(first []byte) bool {
	switch string(first) {
	case "api", "streams", "internal", "auth", "health", "status", "metrics":
		return true
	}
	return false
}

// page is what a browser sees.
const page = `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Skep</title></head><body>
<p>This is Skep, a message broker that speaks the Queen MQ HTTP API. Try it:</p>
<pre>
curl -d '{"items":[{"queue":"hello","payload":{"n":1}}]}' http://localhost:6632/api/v1/push
curl 'http://localhost:6632/api/v1/pop/queue/hello?autoAck=true'
curl http://localhost:6632/api/v1/resources/queues
</pre>
</body></html>
`
