package server

import (
	"github.com/valyala/fasthttp"

	"github.com/skepmq/skep/server/openapi"
)

// openAPI answers GET /openapi.json. The document is one for the process, so no answer holds
// memory of its own.
func (r *request) openAPI() {
	r.abandonBody()
	response := &r.ctx.Response
	response.SetStatusCode(fasthttp.StatusOK)
	response.Header.SetContentTypeBytes(jsonType)
	response.SetBodyRaw(r.server.document())
}

// document makes what openAPI answers out of the table of routes.
func document(version string) []byte {
	described := make([]openapi.Route, len(routes))
	for i := range routes {
		r := &routes[i]
		described[i] = openapi.Route{Method: r.method, Pattern: r.pattern, Level: levelNames[r.access], Head: r.answersHead(), Tenant: ofTenant(r.pattern)}
	}
	b, err := openapi.Document(described, version)
	if err != nil {
		panic("BUG: " + err.Error())
	}
	return b
}

// levelNames are the words of docs/security.md.
var levelNames = [...]string{
	public: "public", readOnly: "read-only", writeOnly: "write-only", readWrite: "read-write", adminOnly: "admin",
}
