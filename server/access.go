package server

import (
	"bytes"
	"net"
	"strings"

	"github.com/valyala/fasthttp"

	"github.com/skepmq/skep/server/auth"
)

// access says whose token opens a route: a set of roles, not a ladder.
type access uint8

const (
	public    access = iota // everyone
	readOnly                // read-only, read-write, admin
	writeOnly               // write-only, read-write, admin
	readWrite               // read-write, admin
	adminOnly               // admin
)

// openTo are the roles that open a level, one of them each.
var openTo = [...]auth.Roles{
	readOnly:  auth.ReadOnly | auth.ReadWrite | auth.Admin,
	writeOnly: auth.WriteOnly | auth.ReadWrite | auth.Admin,
	readWrite: auth.ReadWrite | auth.Admin,
	adminOnly: auth.Admin,
}

// admit reports whether the request may have what its path and method lead to, and who
// sent it, or answers. found is nil where no route is.
func (r *request) admit(found *splitRoute, p *path) bool {
	if !r.checkSite(p) {
		return false
	}
	verifier := r.server.opts.Auth
	if verifier == nil || verifier.Skips(r.ctx.URI().PathOriginal()) {
		return true
	}
	level := unroutedAccess(p)
	if found != nil {
		level = found.access
	}
	if level == public {
		return true
	}
	principal, err := verifier.Verify(r.credential())
	if err == nil && principal.Roles&openTo[level] == 0 {
		err = errForbidden
	}
	if err != nil {
		r.fail(err)
		return false
	}
	r.sub = principal.Sub
	return true
}

// credential returns the Authorization header. Two of them are none that can be read:
// which one counts would be for each program on the way to say.
func (r *request) credential() []byte {
	all := r.ctx.Request.Header.PeekAll(fasthttp.HeaderAuthorization)
	switch len(all) {
	case 0:
		return nil
	case 1:
		return all[0]
	}
	return ambiguous
}

var ambiguous = []byte("ambiguous")

// unroutedAccess is the level of a path that no route has, or not with this method: what
// there is may be learnt only by who may use it.
func unroutedAccess(p *path) access {
	first := p.segments[0]
	switch {
	case p.n == 1 && (len(first) == 0 || string(first) == "health" || string(first) == "metrics"),
		p.n == 2 && string(first) == "metrics" && string(p.segments[1]) == "prometheus",
		p.n > 1 && string(first) == "assets", bytes.HasPrefix(first, favicon):
		return public
	case string(first) == "internal" && p.n > 1,
		p.n > 3 && string(first) == "api" && string(p.segments[1]) == "v1" && string(p.segments[2]) == "system":
		return adminOnly
	}
	return readWrite
}

var favicon = []byte("favicon")

// checkSite refuses what a page of another site makes a browser send. Such a request gets
// past a firewall, and past the loopback: a pop is a GET, and consumes, and a push needs no
// header that a page could not set. Where a page has no way to learn the answer it still
// has done its harm.
func (r *request) checkSite(p *path) bool {
	h := &r.ctx.Request.Header
	if !r.server.hosts.allow(h.Host()) {
		r.fail(errForeignHost)
		return false
	}
	switch string(h.Peek("Sec-Fetch-Site")) {
	case "cross-site", "same-site":
		if ofAPI(p.segments[0]) {
			r.fail(errForeignSite)
			return false
		}
	}
	return true
}

// hostNames are the names under which clients may call the server; nil: any. A page whose
// own name is made to lead here, by DNS, is of this site to its browser, but the browser
// tells that name.
type hostNames map[string]struct{}

func newHostNames(allowed []string) hostNames {
	if allowed == nil {
		return nil
	}
	names := hostNames{}
	for _, name := range allowed {
		names[hostName(name)] = struct{}{}
	}
	return names
}

// allow reports whether host, with a port or without, is a name of the loopback or one of
// names. What sends none is no browser.
func (names hostNames) allow(host []byte) bool {
	if names == nil || len(host) == 0 {
		return true
	}
	if colon := bytes.LastIndexByte(host, ':'); colon > 0 && string(host[:colon]) == "127.0.0.1" {
		return true // as most say it, without an allocation
	}
	name := hostName(string(host))
	if name == "localhost" || strings.HasSuffix(name, ".localhost") {
		return true
	}
	if ip := net.ParseIP(name); ip != nil && ip.IsLoopback() {
		return true
	}
	_, ok := names[name]
	return ok
}

// hostName is the one spelling of a host: without port, brackets and the last dot, in lower
// case, and an address as short as it can be.
func hostName(host string) string {
	name := strings.ToLower(host)
	if h, _, err := net.SplitHostPort(name); err == nil {
		name = h
	}
	name = strings.TrimSuffix(strings.TrimSuffix(strings.TrimPrefix(name, "["), "]"), ".")
	if ip := net.ParseIP(name); ip != nil {
		return ip.String()
	}
	return name
}
