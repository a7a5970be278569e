package openapi

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Route is a line of the table of routes, as far as the document tells it.
type Route struct {
	Method  string
	Pattern string // "/queues/:queue"
	Level   string // "public", or the role that is the least to open it
	Head    bool   // HEAD is answered as well
	Tenant  bool   // it reads the header that names a tenant
}

// area is a part of the API, and a tag of the document.
type area struct {
	tag, text  string
	operations []operation
	schemas    []schema
}

// operation describes a route.
type operation struct {
	route   string // method and pattern, as in the table of routes
	id      string // what generated clients call it
	summary string
	text    string
	query   []field
	body    *body // nil: none is read
	answers []answer
}

// body is what a request sends.
type body struct {
	typ, text, example string
	optional           bool
}

// answer is one that only some routes give, or give in a way of their own.
type answer struct {
	status int
	// typ is the type of a JSON answer, the media type of another, "" for no body, or a
	// shared answer, "@name" of shared.
	typ, text, example string
}

// schema is a type with a name: an object with fields, or what is says.
type schema struct {
	name, text string
	fields     []field
	is         string
}

// Document returns the document of a broker of some version, as JSON. It fails if routes
// and operations are not the same.
func Document(routes []Route, version string) ([]byte, error) {
	paths, err := pathsOf(routes)
	if err != nil {
		return nil, err
	}
	if version == "" {
		version = "unknown"
	}
	var tags []object
	for i := range areas {
		tags = append(tags, object{{"name", areas[i].tag}, {"description", areas[i].text}})
	}
	return json.Marshal(object{
		{"openapi", "3.1.0"},
		{"info", object{
			{"title", "Skep"}, {"version", version}, {"summary", "A durable message broker that speaks the Queen MQ HTTP API."},
			{"description", about}, {"license", object{{"name", "Apache-2.0"}, {"identifier", "Apache-2.0"}}},
		}},
		{"servers", []object{{{"url", "/"}, {"description", "where this document comes from"}}}},
		{"tags", tags},
		{"paths", paths},
		{"components", object{
			{"schemas", schemasOf()},
			{"parameters", parametersOf(routes)},
			{"responses", sharedAnswers()},
			{"securitySchemes", object{{"token", object{
				{"type", "http"}, {"scheme", "bearer"}, {"bearerFormat", "JWT"}, {"description", aboutTokens},
			}}}},
		}},
		// What no route answers: any client may meet it, and no operation lists it.
		{"x-unrouted", object{{"404", noSuchRoute.object()}, {"405", methodNotAllowed.object()}}},
	})
}

// pathsOf describes the routes, in the order of their table.
func pathsOf(routes []Route) (object, error) {
	known := map[string]described{}
	var faults []error
	for i := range areas {
		for j := range areas[i].operations {
			o := &areas[i].operations[j]
			if _, twice := known[o.route]; twice {
				faults = append(faults, fmt.Errorf("openapi: %s is described twice", o.route))
			}
			known[o.route] = described{o, areas[i].tag}
		}
	}
	var paths object
	for i := range routes {
		r := &routes[i]
		d, ok := known[r.Method+" "+r.Pattern]
		if !ok {
			faults = append(faults, fmt.Errorf("openapi: %s %s is not described", r.Method, r.Pattern))
			continue
		}
		delete(known, r.Method+" "+r.Pattern)
		path := template(r.Pattern)
		at := slices.IndexFunc(paths, func(m member) bool { return m.name == path })
		if at < 0 {
			at = len(paths)
			paths = paths.with(path, pathItem(r))
		}
		item := paths[at].value.(object).with(strings.ToLower(r.Method), d.of(r))
		if r.Head {
			item = item.with("head", d.headOf(r))
		}
		paths[at].value = item
	}
	for route := range known {
		faults = append(faults, fmt.Errorf("openapi: %s is described and is no route", route))
	}
	return paths, errors.Join(faults...)
}

// template turns /queues/:queue into /queues/{queue}.
func template(pattern string) string {
	segments := strings.Split(pattern, "/")
	for i, s := range segments {
		if name, ok := strings.CutPrefix(s, ":"); ok {
			segments[i] = "{" + name + "}"
		}
	}
	return strings.Join(segments, "/")
}

// pathItem begins with the parameters of the path.
func pathItem(r *Route) object {
	var parameters []object
	for _, s := range strings.Split(r.Pattern, "/") {
		if name, ok := strings.CutPrefix(s, ":"); ok {
			parameters = append(parameters, reference("parameters", name))
		}
	}
	if r.Tenant {
		parameters = append(parameters, reference("parameters", "tenant"))
	}
	if len(parameters) == 0 {
		return object{}
	}
	return object{{"parameters", parameters}}
}

// parametersOf describes those of paths, and the header that most routes read.
func parametersOf(routes []Route) (all object) {
	for i := range pathParameters {
		p := &pathParameters[i]
		if slices.ContainsFunc(routes, func(r Route) bool { return strings.Contains(r.Pattern+"/", "/:"+p.name+"/") }) {
			all = all.with(p.name, object{
				{"name", p.name}, {"in", "path"}, {"required", true}, {"description", p.text}, {"schema", typeOf(p.typ)},
			})
		}
	}
	if slices.ContainsFunc(routes, func(r Route) bool { return r.Tenant }) {
		all = all.with("tenant", object{
			{"name", "x-queen-tenant"}, {"in", "header"}, {"description", aboutTenants}, {"schema", typeOf("uuid")},
		})
	}
	return all
}

// described is an operation before it is known how its route is opened.
type described struct {
	o   *operation
	tag string
}

// of returns the operation of a route.
func (d described) of(r *Route) object {
	o := object{{"operationId", d.o.id}}
	o = append(o, d.common(d.o.summary, d.o.text, r)...)
	if b := d.o.body; b != nil {
		content := object{{"schema", typeOf(b.typ)}}.withExample(b.example)
		o = o.with("requestBody", object{}.with("description", b.text).with("required", !b.optional).
			with("content", object{{"application/json", content}}))
	}
	responses := object{}
	for _, a := range d.all(r) {
		responses = responses.with(strconv.Itoa(a.status), a.object())
	}
	return o.with("responses", responses.with("default", reference("responses", "Unread")))
}

var asOfGet = object{{"description", "As of GET."}}

// headOf returns the operation of HEAD, which answers as GET does, without a body.
func (d described) headOf(r *Route) object {
	o := object{{"operationId", d.o.id + "Head"}}
	o = append(o, d.common("Head of: "+d.o.summary, "As GET, without the body.", r)...)
	responses := object{}
	for _, a := range d.all(r) {
		responses = responses.with(strconv.Itoa(a.status), asOfGet)
	}
	return o.with("responses", responses.with("default", asOfGet))
}

// common returns what GET and HEAD of a route have alike.
func (d described) common(summary, text string, r *Route) object {
	o := object{{"tags", []string{d.tag}}, {"summary", summary}}.with("description", text).with("x-level", r.Level)
	if r.Level == "public" {
		o = o.with("security", []object{})
	} else {
		// Without authentication, which is the default, everyone may: hence the second.
		o = o.with("security", []object{{{"token", []string{r.Level}}}, {}})
	}
	if len(d.o.query) == 0 {
		return o
	}
	var parameters []object
	for i := range d.o.query {
		name, required := d.o.query[i].key()
		p := object{{"name", name}, {"in", "query"}}
		if required {
			p = p.with("required", true)
		}
		p = p.with("description", d.o.query[i].text).with("schema", typeOf(d.o.query[i].typ))
		parameters = append(parameters, p)
	}
	return o.with("parameters", parameters)
}

// all returns the answers of a route, those that every route gives included.
func (d described) all(r *Route) []answer {
	all := slices.Clone(d.o.answers)
	add := func(status int, name string) {
		if !slices.ContainsFunc(all, func(a answer) bool { return a.status == status }) {
			all = append(all, answer{status: status, typ: "@" + name})
		}
	}
	add(400, "BadRequest")
	if r.Level != "public" {
		add(401, "Unauthorized")
	}
	add(403, "Forbidden")
	if d.o.body != nil {
		add(408, "Timeout")
		add(413, "TooLarge")
		add(415, "Compressed")
	}
	add(503, "Unavailable")
	slices.SortFunc(all, func(a, b answer) int { return a.status - b.status })
	return all
}

func (a answer) object() object {
	if name, ok := strings.CutPrefix(a.typ, "@"); ok {
		return reference("responses", name)
	}
	o := object{{"description", a.text}}
	switch {
	case a.typ == "":
		return o
	case strings.Contains(a.typ, "/"):
		of := "any" // bytes
		if strings.HasPrefix(a.typ, "text/") {
			of = "string"
		}
		return o.with("content", object{{a.typ, object{{"schema", typeOf(of)}}}})
	}
	return o.with("content", object{{"application/json", object{{"schema", typeOf(a.typ)}}.withExample(a.example)}})
}

func (o object) withExample(text string) object {
	if text == "" {
		return o
	}
	return o.with("example", json.RawMessage(text))
}

func sharedAnswers() (all object) {
	for _, a := range shared {
		o := a.object()
		if a.status == 503 {
			o = o.with("headers", object{{"Retry-After", object{{"description", "Seconds: 1."}, {"schema", typeOf("count")}}}})
		}
		all = all.with(a.name, o)
	}
	return all
}

func schemasOf() (all object) {
	for i := range areas {
		for j := range areas[i].schemas {
			s := &areas[i].schemas[j]
			var o object
			if s.is != "" {
				o = typeOf(s.is)
			} else {
				o = objectOf(s.fields)
			}
			all = all.with(s.name, o.with("description", s.text))
		}
	}
	return all
}
