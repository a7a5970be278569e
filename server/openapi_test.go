package server

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
)

// Every route is described with its method, HEAD included, and the level that the table of
// levels says; what is no route is not described.
func TestOpenAPIRoutes(t *testing.T) {
	c := startMemory(t, nil, withAuth(t)) // no broker: the document is there while one recovers
	status, text, header := ask(t, c, http.MethodGet, "/openapi.json", "")
	if status != 200 || header.Get("Content-Type") != "application/json" {
		t.Fatalf("%d %v", status, header)
	}
	var document struct {
		Paths map[string]map[string]json.RawMessage
	}
	if err := json.Unmarshal([]byte(text), &document); err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for path, item := range document.Paths {
		for method, o := range item {
			var operation struct {
				Level string `json:"x-level"`
			}
			if method == "parameters" {
				continue
			}
			if err := json.Unmarshal(o, &operation); err != nil {
				t.Fatalf("%s %s: %v", method, path, err)
			}
			got[strings.ToUpper(method)+" "+strings.NewReplacer("{", ":", "}", "").Replace(path)] = operation.Level
		}
	}
	want := map[string]string{}
	for level, of := range levels {
		for _, route := range of {
			want[route] = level
			if method, pattern, _ := strings.Cut(route, " "); method == "GET" && level != "read-write" { // those are pops
				want["HEAD "+pattern] = level
			}
		}
	}
	for route, level := range want {
		if got[route] != level {
			t.Errorf("%s is described as of level %q, and is %s", route, got[route], level)
		}
		delete(got, route)
	}
	for route := range got {
		t.Errorf("%s is described and is no route", route)
	}

	status, text, header = ask(t, c, http.MethodHead, "/openapi.json", "")
	if status != 200 || text != "" || header.Get("Content-Type") != "application/json" {
		t.Errorf("HEAD: %d %q %v", status, text, header)
	}
}

// The document says of which version it is.
func TestOpenAPIVersion(t *testing.T) {
	for version, want := range map[string]string{"": `"version":"unknown"`, "v1.2.3": `"version":"v1.2.3"`} {
		c := startMemory(t, nil, Options{Version: version})
		if _, text, _ := ask(t, c, http.MethodGet, "/openapi.json", ""); !strings.Contains(text, want) {
			t.Errorf("%q: no %s in %.300s", version, want, text)
		}
	}
}

// The header that names a tenant is a parameter of the routes that read it.
func TestOpenAPITenant(t *testing.T) {
	c := startMemory(t, nil, Options{})
	_, text, _ := ask(t, c, http.MethodGet, "/openapi.json", "")
	var document struct {
		Paths map[string]struct {
			Parameters []struct {
				Ref string `json:"$ref"`
			}
		}
	}
	if err := json.Unmarshal([]byte(text), &document); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]bool{
		"/api/v1/push": true, "/api/v1/consumer-groups/{group}": true, "/health": false, "/api/v1/system/maintenance": false, "/api/v1/status/buffers": false,
	} {
		got := false
		for _, p := range document.Paths[path].Parameters {
			got = got || p.Ref == "#/components/parameters/tenant"
		}
		if got != want {
			t.Errorf("%s reads the header: %t", path, got)
		}
	}
}
