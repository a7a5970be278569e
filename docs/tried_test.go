package docs_test

import (
	"strings"
	"testing"
)

// TestEveryRouteIsTried wants a command to try for each route on the page that describes them.
func TestEveryRouteIsTried(t *testing.T) {
	c := &coverage{}
	c.readRoutes(t)
	tried := map[int]bool{}
	r := &reader{t: t}
	for _, block := range tryBlock.FindAllStringSubmatch(read(t, "docs", "http-api.md"), -1) {
		for _, words := range r.commands(block[1]) {
			method, url, _, _, err := parseCurl(words)
			if err != nil {
				t.Fatalf("%q: %v", words, err)
			}
			tried[c.route(request{method, strings.TrimPrefix(url, address)})] = true
		}
	}
	for i, route := range c.routes {
		if !tried[i] {
			t.Errorf("no command in http-api.md tries %s %s", route.method, route.pattern)
		}
	}
}
