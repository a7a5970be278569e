package server

import (
	"bytes"
	"strings"
	"testing"
)

// G-011, G-012, M-007.
func TestUnrouted(t *testing.T) {
	const notFound = `{"error":"Not Found","code":"no_such_route"}`
	const notAllowed = `{"error":"Method Not Allowed","code":"method_not_allowed"}`
	c := startMemory(t, newFake(), Options{})
	for _, tt := range []struct {
		method, target string
		status         int
		body, allow    string
	}{
		{"GET", "/api/v1/nope", 404, notFound, ""},
		{"POST", "/api/v1/push/", 404, notFound, ""},
		{"POST", "/api/v1//push", 404, notFound, ""},
		{"POST", "/api//v1/push", 404, notFound, ""},
		{"POST", "/API/v1/push", 404, notFound, ""},
		{"POST", "/api/v1/p%75sh", 404, notFound, ""},
		{"POST", "/api/v1/x/../push", 404, notFound, ""},
		{"DELETE", "/api/v1/queues/q/clear", 404, notFound, ""},
		{"GET", "/api/v1/messages/x", 404, notFound, ""},
		{"GET", "/api/" + strings.Repeat("x/", 40), 404, notFound, ""},
		{"GET", "/api", 404, notFound, ""},
		{"GET", "/streams/v1/queries", 404, notFound, ""},
		{"GET", "/internal/api/notify/x", 404, notFound, ""},
		{"GET", "/auth/me", 404, notFound, ""},
		{"GET", "/metrics/x", 404, notFound, ""},
		{"GET", "/status/x", 404, notFound, ""},
		{"POST", "/", 404, notFound, ""},
		{"PATCH", "/somewhere", 404, notFound, ""},
		{"GET", "/api/v1/push", 405, notAllowed, "POST"},
		{"HEAD", "/api/v1/pop/queue/q", 405, "", "GET"},
		{"PUT", "/api/v1/resources/queues/q", 405, notAllowed, "GET, HEAD, DELETE"},
		{"DELETE", "/api/v1/resources/queues", 405, notAllowed, "GET, HEAD"},
		{"POST", "/health", 405, notAllowed, "GET, HEAD"},
		{"PUT", "/api/v1/consumer-groups/lagging", 405, notAllowed, "GET, HEAD, DELETE"},
		{"OPTIONS", "/api/v1/ack", 405, notAllowed, "POST"},
		{"GET", "/api/v1/pop/queue/%ff", 400, `{"error":"bad path: invalid UTF-8 in \"\ufffd\""}`, ""},
	} {
		status, body, header := rawCall(t, c, tt.method, tt.target)
		body = strings.ReplaceAll(body, "\uFFFD", `\ufffd`)
		if status != tt.status || body != tt.body || header.Get("Allow") != tt.allow {
			t.Errorf("%s %s: got %d %s Allow %q", tt.method, tt.target, status, body, header.Get("Allow"))
		}
	}
}

// G-011: a browser gets a page, on any path that belongs to no program.
func TestPage(t *testing.T) {
	c := startMemory(t, newFake(), Options{})
	for _, path := range []string{"/", "/queues/x", "/favicon.ico"} {
		status, body, header := rawCall(t, c, "GET", path)
		if status != 200 || !strings.Contains(body, "curl") || header.Get("Content-Type") != "text/html; charset=utf-8" {
			t.Errorf("%s: got %d %s %v", path, status, body, header)
		}
		if status, body, _ := rawCall(t, c, "HEAD", path); status != 200 || body != "" {
			t.Errorf("HEAD %s: got %d %q", path, status, body)
		}
	}
}

func TestHead(t *testing.T) {
	f := newFake()
	testQueues(f)
	for range 20 { // so that the answer to GET would leave in two pieces
		f.queues = append(f.queues, f.queues[0])
	}
	c := startMemory(t, f, Options{})
	for _, path := range []string{"/health", "/status", "/api/v1/resources/queues", "/api/v1/dlq", "/api/v1/system/maintenance", "/internal/api/shared-state/stats"} {
		_, want, _ := call(t, c, "GET", path, "")
		status, body, header := call(t, c, "HEAD", path, "")
		if status != 200 || body != "" || header.Get("Content-Length") == "" {
			t.Errorf("HEAD %s: got %d %q %v, GET gives %s", path, status, body, header, want)
		}
	}
}

// M-016: every route has the access level of the table that operators plan with.
func TestAccess(t *testing.T) {
	want := map[string]access{
		"POST /api/v1/push": writeOnly, "GET /api/v1/pop": readWrite, "GET /api/v1/pop/queue/:queue": readWrite,
		"GET /api/v1/pop/queue/:queue/partition/:partition": readWrite, "POST /api/v1/ack": readWrite,
		"POST /api/v1/ack/batch": readWrite, "POST /api/v1/lease/:leaseId/extend": readWrite, "POST /api/v1/configure": readWrite,
		"GET /api/v1/resources/queues": readOnly, "GET /api/v1/resources/queues/:queue": readOnly,
		"GET /api/v1/resources/queues/:queue/depth": readOnly, "DELETE /api/v1/resources/queues/:queue": adminOnly,
		"POST /api/v1/transaction":    readWrite,
		"GET /api/v1/consumer-groups": readOnly, "GET /api/v1/consumer-groups/lagging": readOnly, "GET /api/v1/consumer-groups/:group": readOnly,
		"DELETE /api/v1/consumer-groups/:group": adminOnly, "DELETE /api/v1/consumer-groups/:group/queues/:queue": adminOnly,
		"POST /api/v1/consumer-groups/:group/subscription": readWrite, "POST /api/v1/consumer-groups/:group/queues/:queue/seek": readWrite,
		"POST /api/v1/consumer-groups/:group/queues/:queue/partitions/:partition/seek": readWrite,

		"GET /api/v1/dlq": readOnly, "DELETE /api/v1/dlq": adminOnly, "POST /api/v1/dlq/:id/replay": readWrite,
		"GET /api/v1/messages": readOnly, "GET /api/v1/messages/:partitionId/:transactionId": readOnly,
		"DELETE /api/v1/messages/:partitionId/:transactionId":     readWrite,
		"POST /api/v1/messages/:partitionId/:transactionId/retry": readWrite,
		"GET /api/v1/system/maintenance":                          adminOnly, "POST /api/v1/system/maintenance": adminOnly,
		"GET /api/v1/system/maintenance/pop": adminOnly, "POST /api/v1/system/maintenance/pop": adminOnly,
		"POST /api/v1/system/snapshot":    adminOnly,
		"GET /api/v1/system/shared-state": adminOnly, "GET /api/v1/status/buffers": readOnly,
		"GET /internal/api/shared-state/stats": adminOnly, "GET /internal/api/inter-instance/stats": adminOnly,
		"GET /health": public, "GET /status": readOnly, "GET /metrics": public, "GET /metrics/prometheus": public, "GET /openapi.json": public,
		"POST /api/v1/traces": readWrite, "GET /api/v1/traces/names": readOnly, "GET /api/v1/traces/by-name/:traceName": readOnly,
		"GET /api/v1/traces/:partitionId/:transactionId": readOnly,
		"GET /api/v1/system/config":                      adminOnly, "POST /internal/api/notify": adminOnly,

		"GET /api/v1/status/queues": readOnly, "GET /api/v1/status/queues/:queue": readOnly, "POST /api/v1/stats/refresh": adminOnly,
		"GET /api/v1/status": readOnly, "GET /api/v1/status/analytics": readOnly,
		"GET /api/v1/analytics/queue-lag": readOnly, "GET /api/v1/analytics/queue-ops": readOnly,
		"GET /api/v1/analytics/queue-parked-replicas": readOnly, "GET /api/v1/analytics/retention": readOnly,
		"GET /api/v1/resources/overview": readOnly, "GET /api/v1/resources/namespaces": readOnly,
		"GET /api/v1/resources/tasks": readOnly, "GET /api/v1/resources/partitions": readOnly,
		"GET /api/v1/analytics/dlq-signatures": readOnly, "GET /api/v1/analytics/partition-liveness": readOnly,
		"GET /api/v1/analytics/postgres-stats": readOnly, "GET /api/v1/analytics/system-metrics": readOnly,
		"GET /api/v1/analytics/worker-metrics": readOnly, "GET /api/v1/analytics/workload": readOnly,
	}
	for _, r := range routes {
		key := r.method + " " + r.pattern
		if level, ok := want[key]; !ok || level != r.access {
			t.Errorf("%s: access %d, want %d (known: %t)", key, r.access, level, ok)
		}
		delete(want, key)
	}
	if len(want) > 0 {
		t.Errorf("missing routes: %v", want)
	}
}

func TestSplitPath(t *testing.T) {
	for raw, want := range map[string]string{
		"": "", "/": "", "/a": "a", "/a/": "a|", "//": "|", "/a//b": "a||b", "/a%2Fb/c": "a%2Fb|c", "x": "x",
		"/1/2/3/4/5/6/7/8/9/10":    "1|2|3|4|5|6|7|8|9|10",
		"/1/2/3/4/5/6/7/8/9/10/11": "too long",
	} {
		p := splitPath([]byte(raw))
		got := "too long"
		if p.n <= maxSegments {
			var parts []string
			for _, s := range p.segments[:p.n] {
				parts = append(parts, string(s))
			}
			got = strings.Join(parts, "|")
		}
		if got != want {
			t.Errorf("%q: got %q want %q", raw, got, want)
		}
	}
}

// Splitting loses nothing, and no path upsets the table.
func FuzzSplitPath(f *testing.F) {
	for _, r := range routes {
		f.Add(r.method, r.pattern)
	}
	f.Add("GET", "//%2f/")
	f.Fuzz(func(t *testing.T, method, raw string) {
		p := splitPath([]byte(raw))
		if found, allowed := find([]byte(method), &p); found != nil && allowed != "" {
			t.Errorf("%s %q is both served and refused", method, raw)
		}
		if p.n > maxSegments {
			return
		}
		joined := bytes.Join(p.segments[:p.n], slash)
		if want := strings.TrimPrefix(raw, "/"); string(joined) != want {
			t.Errorf("got %q want %q", joined, want)
		}
	})
}
