package acceptance

import (
	"fmt"
	"maps"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
)

// withTenants reads the header of tenants.
func withTenants(w *world) { w.server.TenancyHeader = true }

// as returns w as a tenant sees it.
func (w *world) as(tenant string) *world {
	v := *w
	v.tenant = tenant
	return &v
}

// household is what a tenant has. All have the same: the same names, groups and transaction
// ids. Payloads and errors tell whose they are.
type household struct {
	*world
	mark string
	ids  map[string]string // of partition, lease, letter and message, by placeholder
}

func newHousehold(w *world, mark string) *household {
	h := &household{world: w.as(uuid.NewString()), mark: mark, ids: map[string]string{}}
	h.configureRaw(`{"queue":"q","namespace":"n","task":"t","options":{"retryLimit":0}}`)
	var items []item
	for _, i := range append(numbered("q", "a", "m", 3), msg("q", "b", "x")) {
		i.Payload = []byte(quote(mark + " " + i.TransactionID))
		items = append(items, i)
	}
	h.ids["$message"] = h.queued(items...)[1]
	first := h.pop("q", "consumerGroup=g", "partitions=1", "batch=1").Messages[0]
	h.buried(h.ack("g", first.as("failed").because("because of "+mark)))
	h.ids["$letter"] = h.deadLetters()[0].ID
	leased := h.popFrom("q", "a", "consumerGroup=g", "batch=1").Messages[0]
	h.ids["$partition"], h.ids["$lease"] = leased.PartitionID, leased.LeaseID
	h.ok(true, h.ack("", h.popFrom("q", "a", "batch=1").Messages[0].as("completed")))
	for _, address := range []string{h.ids["$partition"], uuid.NewString()} { // the second is nobody's
		trace := fmt.Sprintf(`{"partitionId":%q,"transactionId":"m1","data":%q,"traceNames":["label"]}`, address, mark)
		if a := h.call("POST", "/api/v1/traces", trace); a.status != http.StatusCreated {
			h.t.Fatalf("trace: %d %s", a.status, a.body)
		}
	}
	return h
}

// aging are parts of answers that change by themselves: a checkpoint may run. When a lease ends is told to the
// millisecond, by a clock that nobody can set and one that everybody can.
var aging = regexp.MustCompile(`"(timestamp|from|to|capturedAt|leaseExpiresAt|maxTimeLag|timeLagSeconds|time_lag_seconds|lag_hours|retainedBytes|segments)":("[^"]*"|[0-9.]+)|"time":\{[^}]*\}`)

// sight is all that a tenant can see of what he has.
type sight struct {
	lines    []string
	leaseEnd time.Time
}

// differs says in what the sight differs from an earlier one; "": in nothing.
func (s sight) differs(earlier sight) string {
	var changes strings.Builder
	for i, line := range s.lines {
		if line != earlier.lines[i] {
			fmt.Fprintf(&changes, "from %s\n  to %s\n", earlier.lines[i], line)
		}
	}
	if d := s.leaseEnd.Sub(earlier.leaseEnd); d.Abs() > time.Second {
		fmt.Fprintf(&changes, "the lease ends at %v, not %v\n", s.leaseEnd, earlier.leaseEnd)
	}
	return changes.String()
}

func (h *household) look() (s sight) {
	for _, target := range []string{
		"/api/v1/status/queues", "/api/v1/status/queues/q", "/api/v1/resources/overview",
		"/api/v1/resources/namespaces", "/api/v1/resources/tasks", "/api/v1/resources/partitions?queue=q",
		"/api/v1/resources/queues", "/api/v1/resources/queues/q", "/api/v1/resources/queues/q/depth", "/api/v1/resources/queues/q/depth?group=g",
		"/api/v1/consumer-groups", "/api/v1/consumer-groups/g", "/api/v1/dlq", "/api/v1/messages",
		"/api/v1/messages/$partition/m0", "/api/v1/messages/$partition/m1",
		"/api/v1/analytics/dlq-signatures?queue=q", "/api/v1/analytics/partition-liveness",
		"/api/v1/traces/$partition/m1", "/api/v1/traces/by-name/label", "/api/v1/traces/names",
	} {
		a := h.call("GET", h.fill(target, h.ids), "")
		s.lines = append(s.lines, fmt.Sprint(target, ": ", a.status, " ", aging.ReplaceAllString(string(a.body), "")))
		if m := leaseEnd.FindSubmatch(a.body); m != nil {
			if err := s.leaseEnd.UnmarshalText(m[1]); err != nil {
				h.t.Fatal(err)
			}
		}
	}
	return s
}

var leaseEnd = regexp.MustCompile(`"leaseExpiresAt":"([^"]*)"`)

// fill puts ids in the place of their placeholders.
func (h *household) fill(text string, ids map[string]string) string {
	for name, id := range ids {
		text = strings.ReplaceAll(text, name, id)
	}
	return text
}

// probe is a request that every tenant may make about what he has; ids are placeholders.
type probe struct {
	target string // "": the path of the route
	body   string
	status int // of the answer to who has it
}

// tenantProbes are requests of every route. Parameters of a path are q, g and a, and ids of
// the household.
var tenantProbes = map[string][]probe{
	"POST /api/v1/push":                                 {{"", `{"items":[{"queue":"q","partition":"a","transactionId":"m1","payload":1},{"queue":"q","partition":"a","transactionId":"new","payload":1}]}`, 201}},
	"GET /api/v1/pop":                                   {{"/api/v1/pop?namespace=n&consumerGroup=h&batch=9&partitions=9", "", 200}, {"/api/v1/pop?task=t&autoAck=true&consumerGroup=i&batch=9", "", 200}},
	"GET /api/v1/pop/queue/:queue":                      {{"/api/v1/pop/queue/q?consumerGroup=h&batch=9&partitions=9", "", 200}, {"/api/v1/pop/queue/q?consumerGroup=g&batch=9&partitions=9&autoAck=true", "", 200}, {"/api/v1/pop/queue/q?consumerGroup=k&conflation=true", "", 200}},
	"GET /api/v1/pop/queue/:queue/partition/:partition": {{"/api/v1/pop/queue/q/partition/b?consumerGroup=g", "", 200}, {"/api/v1/pop/queue/q/partition/a?consumerGroup=h", "", 200}},
	"POST /api/v1/ack": {
		{"", `{"partitionId":"$partition","transactionId":"m1","leaseId":"$lease","consumerGroup":"g","status":"failed","error":"e"}`, 200},
		{"", `{"partitionId":"$partition","transactionId":"m2","status":"completed"}`, 200},
	},
	"POST /api/v1/ack/batch": {{"", `{"consumerGroup":"g","acknowledgments":[{"partitionId":"$partition","transactionId":"m1","leaseId":"$lease","status":"completed"}]}`, 200}},
	"POST /api/v1/transaction": {
		{"", `{"operations":[{"type":"ack","partitionId":"$partition","transactionId":"m1","consumerGroup":"g","leaseId":"$lease","status":"completed"},{"type":"push","items":[{"queue":"q","partition":"a","payload":1}]}],"requiredLeases":["$lease"]}`, 200},
	},
	"POST /api/v1/lease/:leaseId/extend": {{"/api/v1/lease/$lease/extend", `{"seconds":1000}`, 200}},
	"POST /api/v1/configure":             {{"", `{"queue":"q","namespace":"m","options":{"retryLimit":7,"retentionSeconds":1,"retentionEnabled":true}}`, 200}},

	"GET /api/v1/status/queues":                                                    {{"", "", 200}, {"/api/v1/status/queues?queue=q&namespace=n", "", 200}},
	"GET /api/v1/status/queues/:queue":                                             {{"", "", 200}},
	"GET /api/v1/resources/overview":                                               {{"", "", 200}},
	"GET /api/v1/resources/namespaces":                                             {{"", "", 200}},
	"GET /api/v1/resources/tasks":                                                  {{"", "", 200}},
	"GET /api/v1/resources/partitions":                                             {{"/api/v1/resources/partitions?queue=q", "", 200}},
	"GET /api/v1/resources/queues":                                                 {{"", "", 200}},
	"GET /api/v1/resources/queues/:queue":                                          {{"", "", 200}},
	"DELETE /api/v1/resources/queues/:queue":                                       {{"", "", 200}},
	"GET /api/v1/resources/queues/:queue/depth":                                    {{"", "", 200}, {"/api/v1/resources/queues/q/depth?group=g", "", 200}},
	"GET /api/v1/consumer-groups":                                                  {{"", "", 200}},
	"GET /api/v1/consumer-groups/lagging":                                          {{"/api/v1/consumer-groups/lagging?minLagSeconds=-1", "", 200}},
	"GET /api/v1/consumer-groups/:group":                                           {{"", "", 200}},
	"DELETE /api/v1/consumer-groups/:group":                                        {{"", "", 200}},
	"POST /api/v1/consumer-groups/:group/subscription":                             {{"", `{"subscriptionTimestamp":"2020-01-01T00:00:00Z"}`, 200}},
	"DELETE /api/v1/consumer-groups/:group/queues/:queue":                          {{"", "", 200}},
	"POST /api/v1/consumer-groups/:group/queues/:queue/seek":                       {{"", `{"toEnd":true}`, 200}, {"", `{"timestamp":"1970-01-01T00:00:00Z"}`, 200}},
	"POST /api/v1/consumer-groups/:group/queues/:queue/partitions/:partition/seek": {{"", `{"toEnd":true}`, 200}},

	"GET /api/v1/dlq":                                  {{"", "", 200}, {"/api/v1/dlq?queue=q&consumerGroup=g", "", 200}},
	"DELETE /api/v1/dlq":                               {{"/api/v1/dlq?queue=q", "", 200}},
	"POST /api/v1/dlq/:id/replay":                      {{"/api/v1/dlq/$letter/replay", `{"queue":"q","partition":"b"}`, 200}},
	"GET /api/v1/messages":                             {{"", "", 200}, {"/api/v1/messages?queue=q&partition=a&status=pending", "", 200}},
	"GET /api/v1/messages/:partitionId/:transactionId": {{"/api/v1/messages/$partition/m1", "", 200}, {"/api/v1/messages/$partition/m0", "", 200}},
	"GET /api/v1/status/analytics":                     {{"", "", 200}, {"/api/v1/status/analytics?queue=q", "", 200}},
	"GET /api/v1/analytics/queue-lag":                  {{"", "", 200}},
	"GET /api/v1/analytics/queue-ops":                  {{"", "", 200}, {"/api/v1/analytics/queue-ops?queue=q", "", 200}},
	"GET /api/v1/analytics/queue-parked-replicas":      {{"", "", 200}},
	"GET /api/v1/analytics/retention":                  {{"", "", 200}},
	"GET /api/v1/analytics/workload":                   {{"", "", 200}, {"/api/v1/analytics/workload?groupBy=queue", "", 200}},
	"GET /api/v1/analytics/dlq-signatures":             {{"/api/v1/analytics/dlq-signatures?queue=q", "", 200}},
	"GET /api/v1/analytics/partition-liveness":         {{"", "", 200}},
	"POST /api/v1/traces":                              {{"", `{"partitionId":"$partition","transactionId":"m1","data":1,"traceNames":["label","other"]}`, 201}},
	"GET /api/v1/traces/:partitionId/:transactionId":   {{"/api/v1/traces/$partition/m1", "", 200}},
	"GET /api/v1/traces/by-name/:traceName":            {{"/api/v1/traces/by-name/label", "", 200}},
	"GET /api/v1/traces/names":                         {{"", "", 200}},
	"POST /internal/api/notify":                        {{"", `{"queue":"q","partition":"a"}`, 200}},

	"DELETE /api/v1/messages/:partitionId/:transactionId":     {{"/api/v1/messages/$partition/m0", "", 200}},
	"POST /api/v1/messages/:partitionId/:transactionId/retry": {{"/api/v1/messages/$partition/m0/retry", "", 200}},
}

// brokerProbes are requests of the routes that are about the whole broker. They may count
// what all tenants have, and name queues in metrics; they show no message.
var brokerProbes = map[string][]probe{
	"POST /api/v1/stats/refresh":             {{"", "", 200}},
	"GET /api/v1/system/maintenance":         {{"", "", 200}},
	"POST /api/v1/system/maintenance":        {{"", `{"enabled":false}`, 200}},
	"GET /api/v1/system/maintenance/pop":     {{"", "", 200}},
	"POST /api/v1/system/maintenance/pop":    {{"", `{"enabled":false}`, 200}},
	"GET /api/v1/system/shared-state":        {{"", "", 200}},
	"GET /api/v1/status/buffers":             {{"", "", 200}},
	"GET /internal/api/shared-state/stats":   {{"", "", 200}},
	"GET /internal/api/inter-instance/stats": {{"", "", 200}},
	"GET /api/v1/status":                     {{"", "", 200}},
	"GET /api/v1/analytics/system-metrics":   {{"", "", 200}},
	"GET /api/v1/analytics/worker-metrics":   {{"", "", 200}},
	"GET /api/v1/analytics/postgres-stats":   {{"", "", 200}},
	"GET /api/v1/system/config":              {{"", "", 200}},
	"GET /openapi.json":                      {{"", "", 200}},
	"GET /health":                            {{"", "", 200}},
	"GET /status":                            {{"", "", 200}},
	"GET /metrics":                           {{"", "", 200}},
	"GET /metrics/prometheus":                {{"", "", 200}},
}

// quiet are routes that change nothing, and have nothing to tell of a household.
var quiet = []string{"POST /internal/api/notify", "GET /api/v1/analytics/retention", "GET /api/v1/analytics/queue-parked-replicas"}

// routeNames reads the table of routes.
func routeNames(t *testing.T) (names []string) {
	t.Helper()
	source, err := os.ReadFile("../routes.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile(`\{"([A-Z]+)", "(/[^"]*)", `).FindAllStringSubmatch(string(source), -1) {
		names = append(names, m[1]+" "+m[2])
	}
	return names
}

// G-832: of two tenants who have the same, whatever one does changes nothing of the other's,
// and shows nothing of it. An id of the other's is answered as one that nobody has.
func TestG832EveryRoute(t *testing.T) {
	w := open(t, withTenants)
	probes := maps.Clone(tenantProbes)
	maps.Copy(probes, brokerProbes)
	routes := routeNames(t)
	for name := range probes {
		if !slices.Contains(routes, name) {
			t.Errorf("there is no route %s", name)
		}
	}
	for _, name := range routes {
		if name == "POST /api/v1/system/snapshot" {
			continue // what it is for is to hold everything of everybody
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if len(probes[name]) == 0 {
				t.Fatal("say in tenantProbes or brokerProbes what a tenant can do with it")
			}
			one, other := newHousehold(w.on(t), "alpha"), newHousehold(w.on(t), "beta")
			before := one.look()
			for _, p := range probes[name] {
				other.tries(name, p, one)
				if changes := one.look().differs(before); changes != "" {
					t.Errorf("%s %s %s of another has changed\n%s", name, p.target, p.body, changes)
				}
			}
		})
	}
}

// tries makes the request about what other has, and then about what h has.
func (h *household) tries(route string, p probe, other *household) {
	h.t.Helper()
	method, pattern, _ := strings.Cut(route, " ")
	if p.target == "" {
		p.target = strings.NewReplacer(":queue", "q", ":group", "g", ":partition", "a").Replace(pattern)
	}
	names := slices.DeleteFunc(slices.Sorted(maps.Keys(h.ids)), func(name string) bool { return !strings.Contains(p.target+p.body, name) })
	for which := 1; which < 1<<len(names); which++ { // any of the ids
		foreign, nobodys := maps.Clone(h.ids), maps.Clone(h.ids)
		for i, name := range names {
			if which>>i&1 == 1 {
				foreign[name], nobodys[name] = other.ids[name], uuid.NewString()
			}
		}
		got, want := h.asks(method, p, foreign), h.asks(method, p, nobodys)
		if got != want {
			h.t.Errorf("%s %s %s with ids of another: %s\nwith ids of nobody: %s", method, p.target, p.body, got, want)
		}
	}
	before := h.look()
	a := h.call(method, h.fill(p.target, h.ids), h.fill(p.body, h.ids))
	if a.status != p.status {
		h.t.Errorf("%s %s %s: %d %s, want %d", method, p.target, p.body, a.status, a.body, p.status)
	}
	if _, whole := brokerProbes[route]; !whole && !slices.Contains(quiet, route) {
		h.hasMeaning(method, p, a, before)
	}
	for _, secret := range append(slices.Collect(maps.Values(other.ids)), other.mark) {
		if strings.Contains(string(a.body), secret) {
			h.t.Errorf("%s %s shows %q of another: %s", method, p.target, secret, a.body)
		}
	}
}

// hasMeaning checks that a request was about the tenant who has made it: that he has another
// answer than who has nothing, or has something else now.
func (h *household) hasMeaning(method string, p probe, a answer, before sight) {
	h.t.Helper()
	if method != "GET" {
		if h.look().differs(before) == "" {
			h.t.Errorf("%s %s %s: %s: nothing has happened", method, p.target, p.body, a.body)
		}
		return
	}
	stranger := h.as(uuid.NewString()).call(method, h.fill(p.target, h.ids), "")
	if aging.ReplaceAllString(string(stranger.body), "") == aging.ReplaceAllString(string(a.body), "") || strings.Contains(string(stranger.body), h.mark) || strings.Contains(string(stranger.body), `"q"`) {
		h.t.Errorf("GET %s: who has nothing is answered %s, who has something %s", p.target, stranger.body, a.body)
	}
}

// asks makes the request with ids, and puts placeholders into the answer.
func (h *household) asks(method string, p probe, ids map[string]string) string {
	h.t.Helper()
	a := h.call(method, h.fill(p.target, ids), h.fill(p.body, ids))
	text := string(a.body)
	for name, id := range ids {
		text = strings.ReplaceAll(text, id, name)
	}
	return fmt.Sprint(a.status, " ", anID.ReplaceAllString(text, `"id"`)) // that of a transaction is its own
}
