package server

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/skepmq/skep/server/auth"
)

var tokenSecret = []byte("a secret of more than thirty-two bytes")

var tokenKey = sync.OnceValues(func() (*rsa.PrivateKey, []byte) {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		panic(err)
	}
	der, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		panic(err)
	}
	return key, pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
})

func tokenOf(t testing.TB, method jwt.SigningMethod, key any, claims ...any) string {
	t.Helper()
	all := jwt.MapClaims{"iss": "us", "aud": "skep", "sub": "someone"}
	for i := 0; i < len(claims); i += 2 {
		all[claims[i].(string)] = claims[i+1]
	}
	s, err := jwt.NewWithClaims(method, all).SignedString(key)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// withAuth are options under which tokens of both kinds of key are taken.
func withAuth(t testing.TB, skip ...string) Options {
	t.Helper()
	_, pem := tokenKey()
	v, err := auth.New(auth.Options{
		Algorithm: "auto", Secret: tokenSecret, PublicKey: pem, Issuer: "us", Audience: "skep", SkipPaths: skip,
	})
	if err != nil {
		t.Fatal(err)
	}
	return Options{Auth: v}
}

// ask sends a request with headers, given in pairs.
func ask(t testing.TB, c *http.Client, method, target, body string, headers ...string) (int, string, http.Header) {
	t.Helper()
	req := &http.Request{
		Method: method, URL: &url.URL{Scheme: "http", Host: "skep", Opaque: target}, Host: "skep",
		Header: http.Header{}, Body: io.NopCloser(strings.NewReader(body)), ContentLength: int64(len(body)),
	}
	for i := 0; i < len(headers); i += 2 {
		if headers[i] == "Host" {
			req.Host = headers[i+1]
		}
		req.Header.Add(headers[i], headers[i+1])
	}
	res, err := c.Do(req)
	if err != nil {
		t.Fatalf("%s %s: %v", method, target, err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(b), res.Header
}

// levels is the table of docs/security.md, by hand: who may call what.
var levels = map[string][]string{
	"public": {"GET /health", "HEAD /health", "GET /metrics", "HEAD /metrics", "GET /metrics/prometheus", "HEAD /metrics/prometheus", "GET /openapi.json", "HEAD /openapi.json"},
	"read-only": {
		"GET /status", "GET /api/v1/status/buffers", "GET /api/v1/status/queues", "GET /api/v1/status/queues/:queue",
		"GET /api/v1/status", "GET /api/v1/status/analytics", "GET /api/v1/analytics/queue-lag", "GET /api/v1/analytics/queue-ops",
		"GET /api/v1/analytics/queue-parked-replicas", "GET /api/v1/analytics/retention",
		"GET /api/v1/resources/overview", "GET /api/v1/resources/namespaces", "GET /api/v1/resources/tasks", "GET /api/v1/resources/partitions",
		"GET /api/v1/resources/queues", "GET /api/v1/resources/queues/:queue", "GET /api/v1/resources/queues/:queue/depth",
		"GET /api/v1/consumer-groups", "GET /api/v1/consumer-groups/lagging", "GET /api/v1/consumer-groups/:group",
		"GET /api/v1/analytics/system-metrics", "GET /api/v1/analytics/worker-metrics", "GET /api/v1/analytics/workload",
		"GET /api/v1/analytics/postgres-stats", "GET /api/v1/analytics/dlq-signatures", "GET /api/v1/analytics/partition-liveness",
		"GET /api/v1/traces/names", "GET /api/v1/traces/by-name/:traceName", "GET /api/v1/traces/:partitionId/:transactionId",
		"GET /api/v1/dlq", "GET /api/v1/messages", "GET /api/v1/messages/:partitionId/:transactionId",
	},
	"write-only": {"POST /api/v1/push"},
	"read-write": {
		"GET /api/v1/pop", "GET /api/v1/pop/queue/:queue", "GET /api/v1/pop/queue/:queue/partition/:partition",
		"POST /api/v1/ack", "POST /api/v1/ack/batch", "POST /api/v1/transaction", "POST /api/v1/lease/:leaseId/extend", "POST /api/v1/configure", "POST /api/v1/traces",
		"POST /api/v1/consumer-groups/:group/subscription", "POST /api/v1/consumer-groups/:group/queues/:queue/seek",
		"POST /api/v1/consumer-groups/:group/queues/:queue/partitions/:partition/seek",
		"POST /api/v1/dlq/:id/replay", "DELETE /api/v1/messages/:partitionId/:transactionId", "POST /api/v1/messages/:partitionId/:transactionId/retry",
	},
	"admin": {
		"DELETE /api/v1/resources/queues/:queue", "DELETE /api/v1/consumer-groups/:group", "DELETE /api/v1/consumer-groups/:group/queues/:queue",
		"DELETE /api/v1/dlq", "POST /api/v1/stats/refresh",
		"GET /api/v1/system/maintenance", "POST /api/v1/system/maintenance", "GET /api/v1/system/maintenance/pop", "POST /api/v1/system/maintenance/pop",
		"GET /api/v1/system/shared-state", "GET /api/v1/system/config", "POST /internal/api/notify", "GET /internal/api/shared-state/stats", "GET /internal/api/inter-instance/stats",
		"POST /api/v1/system/snapshot",
	},
}

// passes says which roles open which level.
var passes = map[string][]string{
	"read-only":  {"read-only", "read-write", "admin"},
	"write-only": {"write-only", "read-write", "admin"},
	"read-write": {"read-write", "admin"},
	"admin":      {"admin"},
}

// Every route with every method, and paths that are none, against every kind of token.
// G-801, G-802, G-803, G-804, G-811.
func TestP27EveryRouteWithEveryToken(t *testing.T) {
	key, pem := tokenKey()
	now := float64(time.Now().Unix())
	hs := jwt.SigningMethodHS256
	good := map[string]string{}
	bad := map[string]struct{ token, want string }{
		"none":                  {"", "Authentication required"},
		"expired":               {tokenOf(t, hs, tokenSecret, "role", "admin", "exp", now-3600), "Token has expired"},
		"not yet valid":         {tokenOf(t, hs, tokenSecret, "role", "admin", "nbf", now+3600), "Token not yet valid"},
		"issued later":          {tokenOf(t, hs, tokenSecret, "role", "admin", "iat", now+3600), "Token issued in the future"},
		"alg none":              {tokenOf(t, jwt.SigningMethodNone, jwt.UnsafeAllowNoneSignatureType, "role", "admin"), "Unsupported token algorithm"},
		"alg PS256":             {tokenOf(t, jwt.SigningMethodPS256, key, "role", "admin"), "Unsupported token algorithm"},
		"HS256 with public key": {tokenOf(t, hs, pem, "role", "admin"), "Invalid token signature"},
		"wrong audience":        {tokenOf(t, hs, tokenSecret, "role", "admin", "aud", "other"), "Invalid token audience"},
		"wrong issuer":          {tokenOf(t, hs, tokenSecret, "role", "admin", "iss", "them"), "Invalid token issuer"},
		"garbage":               {"garbage", "Bad token header"},
		"basic":                 {"Basic YTpi", "Bad token header"},
	}
	for _, role := range []string{"read-only", "write-only", "read-write", "admin", "other"} {
		good[role] = tokenOf(t, jwt.SigningMethodRS256, key, "role", role)
		good[role+" in the list"] = tokenOf(t, hs, tokenSecret, "roles", []string{"x", role})
	}
	level := map[string]string{}
	for l, of := range levels {
		for _, route := range of {
			level[route] = l
			if method, pattern, _ := strings.Cut(route, " "); method == "GET" && !strings.Contains(pattern, "/pop") || l == "public" {
				level["HEAD "+pattern] = l
			}
		}
	}
	level["DELETE /api/v1/consumer-groups/lagging"] = "admin" // a group of that name
	patterns := map[string]bool{}
	for i := range routes {
		r := &routes[i]
		patterns[r.pattern] = true
		if level[r.method+" "+r.pattern] == "" {
			t.Errorf("%s %s is not in the table", r.method, r.pattern)
		}
	}
	// What no route has, or not with this method.
	for _, p := range []string{
		"/api", "/api/v1", "/api/v1/", "/api/v1/nope", "/api/v1/push/", "/api//v1/push", "/API/v1/push", "/api/v1/p%75sh", "/api/v2/push",
		"/streams/v1/queries", "/auth/x", "/queues/x", "/anything", "/healthx", "/health/x", "/metrics/x", "/assets", "/api/v1/systemx/y",
	} {
		patterns[p] = true
	}
	forAdmins := []string{"/api/v1/system/nope", "/api/v1/system/", "/internal/api/notify", "/internal/x"}
	forAll := []string{"/", "/metrics", "/metrics/prometheus", "/favicon.ico", "/assets/app.js"}
	for _, p := range slices.Concat(forAdmins, forAll) {
		patterns[p] = true
	}
	levelOf := func(method, pattern string) string {
		if l := level[method+" "+pattern]; l != "" {
			return l
		}
		switch {
		case slices.Contains(forAll, pattern), pattern == "/health":
			return "public"
		case strings.HasPrefix(pattern, "/api/v1/system/"), strings.HasPrefix(pattern, "/internal/"):
			return "admin"
		}
		return "read-write"
	}
	c := startMemory(t, nil, withAuth(t)) // no broker: what passes is not served
	tried := 0
	for _, pattern := range slices.Sorted(maps.Keys(patterns)) {
		for _, method := range []string{"GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "get"} {
			want := levelOf(method, pattern)
			target := strings.ReplaceAll(pattern, ":", "x")
			for name, tt := range bad {
				var header []string
				if tt.token != "" {
					header = []string{"Authorization", tt.token}
				}
				status, body, got := ask(t, c, method, target, "", header...)
				if denied := status == 401 || status == 403; denied != (want != "public") {
					t.Errorf("%s %s with %s: %d %s", method, target, name, status, body)
				}
				if want != "public" && (status != 401 || method != "HEAD" && body != `{"error":"`+tt.want+`"}` || got.Get("WWW-Authenticate") != "Bearer" || got.Get("Allow") != "") {
					t.Errorf("%s %s with %s: %d %s, want %s", method, target, name, status, body, tt.want)
				}
				tried++
			}
			for name, token := range good {
				role, _, _ := strings.Cut(name, " in ")
				status, body, _ := ask(t, c, method, target, "", "Authorization", "Bearer "+token)
				switch open := want == "public" || slices.Contains(passes[want], role); {
				case open && (status == 401 || status == 403),
					!open && (status != 403 || method != "HEAD" && body != `{"error":"Insufficient permissions"}`):
					t.Errorf("%s %s (%s) with %s: %d %s", method, target, want, name, status, body)
				}
				tried++
			}
		}
	}
	if tried < 5000 {
		t.Errorf("%d requests were tried", tried)
	}
}

// G-801, G-805: a path of the list is open whatever its route is, and whatever is sent.
func TestG805SkippedPaths(t *testing.T) {
	f := newFake()
	c := startMemory(t, f, withAuth(t, "/api/v1/resources/queues", "/api/v1/consumer-groups/"))
	for target, want := range map[string]int{
		"/api/v1/resources/queues": 200, "/api/v1/resources/queues?a=b": 200, "/api/v1/consumer-groups/lagging": 200,
		"/api/v1/resources/queues/": 401, "/api/v1/consumer-groups": 401, "/api/v1/dlq": 401, "/health": 200,
		"/api/v1/consumer-groups/../dlq": 404,
	} {
		if status, body, _ := ask(t, c, "GET", target, "", "Authorization", "garbage"); status != want {
			t.Errorf("%s: %d %s, want %d", target, status, body, want)
		}
	}
}

// Two credentials are none.
func TestG801TwoCredentials(t *testing.T) {
	c := startMemory(t, newFake(), withAuth(t))
	token := tokenOf(t, jwt.SigningMethodHS256, tokenSecret, "role", "admin")
	status, body, _ := ask(t, c, "GET", "/status", "", "Authorization", token, "Authorization", token)
	if status != 401 || body != `{"error":"Bad token header"}` {
		t.Errorf("%d %s", status, body)
	}
}

// G-811: faults of the configuration are ours.
func TestG811KeyFaults(t *testing.T) {
	key, pem := tokenKey()
	for want, tt := range map[string]struct {
		o     auth.Options
		token string
	}{
		"HS secret not configured":  {auth.Options{Algorithm: "auto", PublicKey: pem}, tokenOf(t, jwt.SigningMethodHS256, tokenSecret)},
		"invalid Ed public key PEM": {auth.Options{Algorithm: "auto", PublicKey: pem}, edToken(t)},
	} {
		v, err := auth.New(tt.o)
		if err != nil {
			t.Fatal(err)
		}
		c := startMemory(t, newFake(), Options{Auth: v})
		if status, body, _ := ask(t, c, "GET", "/status", "", "Authorization", tt.token); status != 500 || body != `{"error":"`+want+`"}` {
			t.Errorf("%d %s, want %s", status, body, want)
		}
	}
	v, err := auth.New(auth.Options{Algorithm: "auto", Secret: tokenSecret})
	if err != nil {
		t.Fatal(err)
	}
	c := startMemory(t, newFake(), Options{Auth: v})
	if status, body, _ := ask(t, c, "GET", "/status", "", "Authorization", tokenOf(t, jwt.SigningMethodRS256, key)); status != 401 || body != `{"error":"Unknown key ID"}` {
		t.Errorf("%d %s", status, body)
	}
}

// A page of another site can make a browser send requests, and may not.
func TestRequestsOfOtherSites(t *testing.T) {
	c := startMemory(t, newFake(), Options{})
	const refused = `{"error":"requests of other sites are refused","code":"cross_site"}`
	for _, tt := range []struct {
		method, target, site string
		refused              bool
	}{
		{"GET", "/api/v1/pop/queue/q?autoAck=true", "cross-site", true}, {"GET", "/api/v1/pop/queue/q", "same-site", true},
		{"POST", "/api/v1/push", "cross-site", true}, {"GET", "/internal/api/shared-state/stats", "cross-site", true},
		{"GET", "/api/v1/nope", "cross-site", true}, {"OPTIONS", "/api/v1/push", "cross-site", true},
		{"GET", "/api/v1/pop/queue/q", "same-origin", false}, {"GET", "/api/v1/pop/queue/q", "none", false}, {"GET", "/api/v1/pop/queue/q", "", false},
		{"GET", "/", "cross-site", false},
	} {
		var header []string
		if tt.site != "" {
			header = []string{"Sec-Fetch-Site", tt.site}
		}
		status, body, _ := ask(t, c, tt.method, tt.target, "", header...)
		if got := status == 403 && body == refused; got != tt.refused {
			t.Errorf("%s %s, %s: %d %s", tt.method, tt.target, tt.site, status, body)
		}
	}
}

// A name that is made to lead here is refused, if names are asked for.
func TestHostNames(t *testing.T) {
	names := newHostNames([]string{"Broker.example", "port.example:6632", "dot.example.", "[FD00:0::1]"})
	for host, want := range map[string]bool{
		"": true, "127.0.0.1:6632": true, "127.0.0.1": true, "127.8.8.8": true, "localhost": true, "LocalHost:80": true, "localhost.": true, "x.localhost": true,
		"[::1]:6632": true, "[::1]": true, "broker.example": true, "BROKER.example:6632": true,
		"port.example:80": true, "dot.example": true, "dot.example.:80": true, "[fd00::1]:6632": true, "[fd00::2]:6632": false, "example": false,
		"evil.example": false, "evil.example:6632": false, "192.168.0.1": false, "localhost.evil": false, "127.0.0.1.evil:1": false, "notlocalhost": false,
		"0.0.0.0:6632": false, "[::]:1": false, "broker.example.evil": false, "evil:127.0.0.1": false, "::": false, ":1": false,
	} {
		if got := names.allow([]byte(host)); got != want {
			t.Errorf("%q: %t", host, got)
		}
		if !newHostNames(nil).allow([]byte(host)) {
			t.Errorf("%q is refused where none is", host)
		}
	}
	c := startMemory(t, newFake(), Options{AllowedHosts: []string{}})
	for host, want := range map[string]int{"localhost": 204, "evil.example": 403} {
		status, body, _ := ask(t, c, "GET", "/api/v1/pop/queue/q", "", "Host", host)
		if status != want || want == 403 && !strings.Contains(body, `"code":"unknown_host"`) {
			t.Errorf("%s: %d %s", host, status, body)
		}
	}
}

func edToken(t *testing.T) string {
	t.Helper()
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return tokenOf(t, jwt.SigningMethodEdDSA, key)
}
