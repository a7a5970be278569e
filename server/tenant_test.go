package server

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/skepmq/skep/broker"
)

// tenantSpy notes whose queues were asked for.
type tenantSpy struct {
	*fake
	asked []broker.Tenant
}

func (s *tenantSpy) Queues(t broker.Tenant) ([]broker.QueueInfo, error) {
	s.asked = append(s.asked, t)
	return nil, nil
}

const aTenant = "6ba7b810-9dad-11d1-80b4-00c04fd430c8"

// G-830, G-831: which tenant a header names. Two headers are none, whatever they say: a
// proxy that adds its own does not let through the client's.
func TestG831Header(t *testing.T) {
	const invalid = `{"error":"invalid x-queen-tenant header (must be a UUID)"}`
	for name, tt := range map[string]struct {
		values []string
		want   string // "" is 400
	}{
		"none":              {nil, broker.DefaultTenant.String()},
		"empty":             {[]string{""}, broker.DefaultTenant.String()},
		"blank":             {[]string{" \t "}, broker.DefaultTenant.String()},
		"the default":       {[]string{broker.DefaultTenant.String()}, broker.DefaultTenant.String()},
		"a tenant":          {[]string{aTenant}, aTenant},
		"upper case":        {[]string{strings.ToUpper(aTenant)}, aTenant},
		"white space":       {[]string{" " + aTenant + "\t"}, aTenant},
		"zeros":             {[]string{uuid.Nil.String()}, uuid.Nil.String()},
		"all ones":          {[]string{"FFFFFFFF-ffff-FFFF-ffff-FFFFFFFFFFFF"}, "ffffffff-ffff-ffff-ffff-ffffffffffff"},
		"a word":            {[]string{"acme"}, ""},
		"no hyphens":        {[]string{strings.ReplaceAll(aTenant, "-", "")}, ""},
		"braces":            {[]string{"{" + aTenant + "}"}, ""},
		"urn":               {[]string{"urn:uuid:" + aTenant}, ""},
		"a digit short":     {[]string{aTenant[1:]}, ""},
		"no hex":            {[]string{"g" + aTenant[1:]}, ""},
		"hyphens elsewhere": {[]string{"6ba7b8109-dad-11d1-80b4-00c04fd430c8"}, ""},
		"two in one":        {[]string{aTenant + ", " + aTenant}, ""},
		"two":               {[]string{aTenant, aTenant}, ""},
		"one and a blank":   {[]string{aTenant, ""}, ""},
		"two blanks":        {[]string{"", ""}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			var header []string
			for _, v := range tt.values {
				header = append(header, "x-queen-tenant", v)
			}
			for _, on := range []bool{true, false} {
				spy := &tenantSpy{fake: newFake()}
				c := startMemory(t, nil, Options{Broker: spy, TenancyHeader: on})
				status, body, _ := ask(t, c, "GET", "/api/v1/resources/queues", "", header...)
				want := tt.want
				if !on {
					want = broker.DefaultTenant.String()
				}
				if want == "" {
					if status != 400 || body != invalid || len(spy.asked) > 0 {
						t.Errorf("on=%t: %d %s, asked for %v", on, status, body, spy.asked)
					}
				} else if status != 200 || len(spy.asked) != 1 || spy.asked[0].String() != want {
					t.Errorf("on=%t: %d %s, asked for %v, want %s", on, status, body, spy.asked, want)
				}
			}
		})
	}
}

// tenantless are the routes that are about the whole broker, by hand. All others depend on
// the tenant.
var tenantless = []string{
	"/health", "/status", "/metrics", "/metrics/prometheus", "/openapi.json",
	"/api/v1/status", "/api/v1/analytics/system-metrics", "/api/v1/analytics/worker-metrics", "/api/v1/analytics/postgres-stats",
	"/api/v1/status/buffers", "/api/v1/stats/refresh",
	"/api/v1/system/maintenance", "/api/v1/system/maintenance/pop", "/api/v1/system/shared-state", "/api/v1/system/config", "/api/v1/system/snapshot",
	"/internal/api/shared-state/stats", "/internal/api/inter-instance/stats",
}

// G-831: a route that depends on the tenant refuses a header that names none, and every
// other one does not read it. A token is asked for first: who has none learns nothing.
func TestG831Routes(t *testing.T) {
	patterns := map[string]bool{}
	opts := withAuth(t)
	opts.TenancyHeader = true
	guarded := startMemory(t, newFake(), opts)
	c := startMemory(t, newFake(), Options{TenancyHeader: true})
	for i := range routes {
		r := &routes[i]
		patterns[r.pattern] = true
		target := strings.ReplaceAll(r.pattern, ":", "x")
		status, body, _ := ask(t, c, r.method, target, "", "x-queen-tenant", "acme")
		refused := status == 400 && strings.Contains(body, "x-queen-tenant")
		if want := !slices.Contains(tenantless, r.pattern); refused != want {
			t.Errorf("%s %s: %d %s, want a refusal: %t", r.method, r.pattern, status, body, want)
		}
		if status, body, _ := ask(t, guarded, r.method, target, "", "x-queen-tenant", "acme"); status == 400 {
			t.Errorf("%s %s without a token: %d %s", r.method, r.pattern, status, body)
		}
	}
	for _, pattern := range tenantless {
		if !patterns[pattern] {
			t.Errorf("there is no route %s", pattern)
		}
	}
	for _, pattern := range slices.Sorted(maps.Keys(patterns)) {
		if strings.Contains(pattern, ":") && !ofTenant(pattern) {
			t.Errorf("%s names something, and does not depend on the tenant", pattern)
		}
	}
	if status, body, _ := ask(t, c, "GET", "/api/v1/nope", "", "x-queen-tenant", "acme"); status != 404 {
		t.Errorf("no route: %d %s", status, body)
	}
}
