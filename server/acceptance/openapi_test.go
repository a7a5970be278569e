package acceptance

import (
	"net/http"
	"testing"
)

// The document describes itself, to GET and HEAD; other methods are 405, as of any path.
func TestOpenAPI(t *testing.T) {
	w := open(t)
	if a := w.call("GET", "/openapi.json", ""); a.status != http.StatusOK || len(a.body) < 1000 {
		t.Errorf("%d, %d bytes", a.status, len(a.body))
	}
	if a := w.call("HEAD", "/openapi.json", ""); a.status != http.StatusOK || len(a.body) > 0 {
		t.Errorf("HEAD: %d, %d bytes", a.status, len(a.body))
	}
	w.expect("POST", "/openapi.json", "{}", http.StatusMethodNotAllowed, `{"error":"Method Not Allowed","code":"method_not_allowed"}`)
}
