package server

import (
	"bytes"
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/skepmq/skep/broker"
)

// tenantHeader names whose queues a request is about, see Options.TenancyHeader.
const tenantHeader = "X-Queen-Tenant"

// wholeBroker are the routes, and with a slash at the end all below them, that are about
// the whole broker: they do not read the header. A probe or a scraper that has it wrong is
// answered all the same.
var wholeBroker = []string{
	"/api/v1/status", "/api/v1/status/buffers", "/api/v1/stats/refresh", "/api/v1/system/",
	"/api/v1/analytics/system-metrics", "/api/v1/analytics/worker-metrics", "/api/v1/analytics/postgres-stats",
	"/internal/api/shared-state/", "/internal/api/inter-instance/",
}

// ofTenant reports whether what a route does depends on the tenant. One that is not known
// does, so that a new route cannot be forgotten.
func ofTenant(pattern string) bool {
	switch first, _, _ := strings.Cut(pattern[1:], "/"); first {
	case "api", "internal", "streams":
	default:
		return false
	}
	return !slices.ContainsFunc(wholeBroker, func(known string) bool {
		return pattern == known || strings.HasSuffix(known, "/") && strings.HasPrefix(pattern, known)
	})
}

// findTenant finds whose queues the request is about, or answers 400. The header is believed
// as it is; but two of them are none that can be read: one may be the client's, and the
// other that of the proxy that means to replace it.
func (r *request) findTenant(found *splitRoute) bool {
	r.tenant = broker.DefaultTenant
	if !r.server.opts.TenancyHeader || !found.ofTenant {
		return true
	}
	all := r.ctx.Request.Header.PeekAll(tenantHeader)
	if len(all) == 0 {
		return true
	}
	value := bytes.Trim(all[0], " \t")
	if len(all) == 1 && len(value) == 0 {
		return true
	}
	t, err := uuid.ParseBytes(value)
	if len(all) > 1 || len(value) != canonicalUUID || err != nil {
		r.fail(errTenant)
		return false
	}
	r.tenant = t
	return true
}

// canonicalUUID is the length of the one form of a UUID that is taken, of several that are
// parsed.
const canonicalUUID = 36
