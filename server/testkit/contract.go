package testkit

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/valyala/fasthttp/fasthttputil"

	"github.com/skepmq/skep/server"
)

// Contract is the OpenAPI document of the server, made ready to compare answers with. Safe
// for concurrent use.
type Contract struct {
	Document map[string]any

	operations []*described
	loose      *jsonschema.Compiler // as the document stands
	strict     *jsonschema.Compiler // objects have no members that are not described

	mu       sync.Mutex // guards the compilers and
	compiled map[string]*jsonschema.Schema
	seen     map[kind]int
}

// described is an operation of the document.
type described struct {
	method   string // upper case
	path     string // with parameters in braces
	segments []string
	at       string // its place in the document, as a JSON pointer
	body     bool
	answers  map[string][]string // by status: the media types
}

// TheContract is that of the server in this module. It asks a server for the document.
var TheContract = sync.OnceValues(func() (*Contract, error) {
	ln := fasthttputil.NewInmemoryListener()
	stop := Serve(server.New(server.Options{}), ln)
	client := NewClient(ln.Dial)
	a, err := Call(client, http.MethodGet, "/openapi.json", "", nil)
	client.CloseIdleConnections()
	if err = errors.Join(err, stop(context.Background())); err != nil {
		return nil, err
	}
	if a.Status != http.StatusOK || a.Header.Get("Content-Type") != "application/json" {
		return nil, fmt.Errorf("the document: %d %v", a.Status, a.Header)
	}
	return NewContract(a.Body)
})

// NewContract reads a document.
func NewContract(document []byte) (*Contract, error) {
	c := &Contract{loose: newCompiler(), strict: newCompiler(), compiled: map[string]*jsonschema.Schema{}, seen: map[kind]int{}}
	for _, to := range []struct {
		compiler *jsonschema.Compiler
		closed   bool
	}{{c.loose, false}, {c.strict, true}} {
		d, err := jsonschema.UnmarshalJSON(bytes.NewReader(document))
		if err != nil {
			return nil, err
		}
		if to.closed {
			closeObjects(d)
		} else {
			c.Document, _ = d.(map[string]any)
		}
		if err := to.compiler.AddResource(resource, d); err != nil {
			return nil, err
		}
	}
	for path, item := range child(c.Document, "paths") {
		for method, o := range item.(map[string]any) {
			if method == "parameters" {
				continue
			}
			c.operations = append(c.operations, c.describe(method, path, o.(map[string]any)))
		}
	}
	// As in the server a fixed segment goes before a parameter in its place.
	slices.SortFunc(c.operations, func(a, b *described) int { return strings.Compare(b.fixed(), a.fixed()) })
	return c, nil
}

const resource = "openapi.json"

func newCompiler() *jsonschema.Compiler {
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	c.AssertFormat()
	return c
}

// closeObjects lets objects that describe their members have no others.
func closeObjects(v any) {
	switch v := v.(type) {
	case map[string]any:
		if _, ok := v["properties"].(map[string]any); ok && v["additionalProperties"] == nil {
			v["additionalProperties"] = false
		}
		for _, m := range v {
			closeObjects(m)
		}
	case []any:
		for _, e := range v {
			closeObjects(e)
		}
	}
}

func child(v any, names ...string) map[string]any {
	for _, name := range names {
		m, _ := v.(map[string]any)
		v = m[name]
	}
	m, _ := v.(map[string]any)
	return m
}

func (c *Contract) describe(method, path string, o map[string]any) *described {
	d := &described{
		method: strings.ToUpper(method), path: path, segments: strings.Split(path, "/"),
		at:   "/paths/" + escape(path) + "/" + method,
		body: o["requestBody"] != nil, answers: map[string][]string{},
	}
	for status, answer := range child(o, "responses") {
		a := answer.(map[string]any)
		if ref, ok := a["$ref"].(string); ok {
			a = child(c.Document, strings.Split(strings.TrimPrefix(ref, "#/"), "/")...)
		}
		d.answers[status] = []string{}
		for media := range child(a, "content") {
			d.answers[status] = append(d.answers[status], media)
		}
	}
	return d
}

// escape makes a name a part of a JSON pointer.
func escape(name string) string {
	return strings.NewReplacer("~", "~0", "/", "~1").Replace(name)
}

// fixed is larger the earlier a path has text where another has a parameter.
func (d *described) fixed() string {
	var b strings.Builder
	for _, s := range d.segments {
		if strings.HasPrefix(s, "{") {
			b.WriteByte('0')
		} else {
			b.WriteByte('1')
		}
	}
	return b.String()
}

func (d *described) matches(segments []string) bool {
	return slices.EqualFunc(d.segments, segments, func(want, got string) bool {
		return want == got || strings.HasPrefix(want, "{")
	})
}

func (c *Contract) find(method, target string) *described {
	path, _, _ := strings.Cut(target, "?")
	segments := strings.Split(path, "/")
	for _, d := range c.operations {
		if d.method == method && d.matches(segments) {
			return d
		}
	}
	return nil
}

// unread are the statuses of requests that could not be read, and of faults of ours: any
// operation may give them, and lists them as its default.
var unread = []int{408, 413, 415, 431, 500}

// takesAnything is the path whose body may be no JSON at all.
const takesAnything = "/api/v1/lease/{leaseId}/extend"

// Check compares an answer with what the document says of the request: its status, the
// type, and every member of the body. What has succeeded has to have been a request as it is
// described, too.
func (c *Contract) Check(method, target, body string, a Answer) error {
	d := c.find(method, target)
	if d == nil {
		return c.checkUnrouted(method, target, a)
	}
	status := strconv.Itoa(a.Status)
	media, ok := d.answers[status]
	if !ok && slices.Contains(unread, a.Status) {
		status = "default"
		media, ok = d.answers[status]
	}
	if !ok {
		return fmt.Errorf("%s %s: the status %d is not described", d.method, d.path, a.Status)
	}
	if d.method == http.MethodHead {
		return nil
	}
	if err := c.checkBody(d.at+"/responses/"+status, media, a); err != nil {
		return fmt.Errorf("the %s of %s %s is not as described: %w", status, d.method, d.path, err)
	}
	if a.Status < 300 && d.body && body != "" && d.path != takesAnything {
		at := d.at + "/requestBody/content/application~1json/schema"
		if err := c.validate(c.loose, at, []byte(body)); err != nil {
			return fmt.Errorf("the request of %s %s was taken, and is not as described: %w", d.method, d.path, err)
		}
	}
	return nil
}

// checkUnrouted compares what a request that no operation takes is answered.
func (c *Contract) checkUnrouted(method, target string, a Answer) error {
	if method == http.MethodHead || a.Status == http.StatusOK && a.Header.Get("Content-Type") == "text/html; charset=utf-8" {
		return nil
	}
	at := "/x-unrouted/" + strconv.Itoa(a.Status)
	if child(c.Document, "x-unrouted", strconv.Itoa(a.Status)) == nil {
		if a.Status < 400 {
			return fmt.Errorf("%s %s is not described", method, target)
		}
		at = "/components/responses/Unread"
	}
	return c.checkBody(at, []string{"application/json"}, a)
}

func (c *Contract) checkBody(at string, media []string, a Answer) error {
	if len(media) == 0 {
		if len(a.Body) > 0 {
			return fmt.Errorf("it has a body: %.200s", a.Body)
		}
		return nil
	}
	got := a.Header.Get("Content-Type")
	if !slices.Contains(media, got) {
		return fmt.Errorf("it is %q", got)
	}
	if got != "application/json" {
		return nil
	}
	if ref, ok := c.at(at)["$ref"].(string); ok {
		at = strings.TrimPrefix(ref, "#")
	}
	return c.validate(c.strict, at+"/content/application~1json/schema", a.Body)
}

// at returns what stands in a place of the document.
func (c *Contract) at(pointer string) map[string]any {
	names := strings.Split(strings.TrimPrefix(pointer, "/"), "/")
	for i, name := range names {
		names[i] = strings.NewReplacer("~1", "/", "~0", "~").Replace(name)
	}
	return child(c.Document, names...)
}

func (c *Contract) validate(with *jsonschema.Compiler, at string, text []byte) error {
	schema, err := c.compile(with, at)
	if err != nil {
		return err
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return err
	}
	if err := schema.Validate(value); err != nil {
		return fmt.Errorf("%w\n%.500s", err, text)
	}
	return nil
}

func (c *Contract) compile(with *jsonschema.Compiler, at string) (*jsonschema.Schema, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	key := fmt.Sprintf("%t %s", with == c.strict, at)
	if schema := c.compiled[key]; schema != nil {
		return schema, nil
	}
	schema, err := with.Compile(resource + "#" + at)
	if err != nil {
		return nil, err
	}
	c.compiled[key] = schema
	return schema, nil
}

// Examples validates every example of the document. It returns how many there are.
func (c *Contract) Examples() (n int, err error) {
	var walk func(v any, at string)
	walk = func(v any, at string) {
		switch v := v.(type) {
		case map[string]any:
			if example, ok := v["example"]; ok && v["schema"] != nil {
				n++
				text, encodeErr := json.Marshal(example)
				if e := errors.Join(encodeErr, c.validate(c.strict, at+"/schema", text)); e != nil {
					err = errors.Join(err, fmt.Errorf("%s: %w", at, e))
				}
			}
			for name, m := range v {
				walk(m, at+"/"+escape(name))
			}
		case []any:
			for i, e := range v {
				walk(e, at+"/"+strconv.Itoa(i))
			}
		}
	}
	walk(c.Document, "")
	return n, err
}
