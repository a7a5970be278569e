package server

import (
	"net/http"
	"slices"
	"strings"
	"testing"
)

// Whatever method and path the table does not have is refused: one that was forgotten, or
// that is spelled in another way, opens nothing. Who may call what the table has is for
// authentication to say, which is still to come; TestAccess holds the levels.
func TestP27UnknownRoutesAndMethodsAreDenied(t *testing.T) {
	c := startMemory(t, nil, Options{}) // a request that reached a broker would end the test
	served := map[string][]string{}     // methods by pattern
	for i := range routes {
		r := &routes[i]
		served[r.pattern] = append(served[r.pattern], r.method)
		if r.answersHead() {
			served[r.pattern] = append(served[r.pattern], "HEAD")
		}
	}
	// matching returns the methods of every pattern that a path of segments fits.
	matching := func(target string) (methods []string) {
		for pattern, of := range served {
			want, got := strings.Split(pattern, "/"), strings.Split(target, "/")
			if slices.EqualFunc(want, got, func(w, g string) bool { return w == g || strings.HasPrefix(w, ":") }) {
				methods = append(methods, of...)
			}
		}
		return methods
	}
	methods := []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "get", "PROPFIND"}
	refused := 0
	for pattern := range served {
		path := strings.ReplaceAll(pattern, ":", "x")
		for _, target := range []string{
			path, path + "/", path + "/x", path + "/.", path + "/..", path + ";", path + "%00", path + "%2f",
			"/x/.." + path, strings.ToUpper(path), strings.Replace(path, "/api/", "/api//", 1), strings.Replace(path, "v1", "v%31", 1),
			path[:strings.LastIndex(path, "/")], strings.Replace(path, "/v1/", "/v2/", 1),
		} {
			allowed := matching(target)
			for _, method := range methods {
				if slices.Contains(allowed, method) {
					continue
				}
				status, body, _ := rawCall(t, c, method, target)
				want := http.StatusNotFound
				if len(allowed) > 0 {
					want = http.StatusMethodNotAllowed
				}
				first, _, _ := strings.Cut(strings.TrimPrefix(target, "/"), "/")
				if !ofAPI([]byte(first)) && (method == "GET" || method == "HEAD") {
					want = http.StatusOK // the page that browsers get
				}
				if status != want {
					t.Errorf("%s %s: %d %s, want %d", method, target, status, body, want)
				}
				refused++
			}
		}
	}
	if refused < 1000 {
		t.Errorf("%d requests were tried", refused)
	}
}
