package docs_test

import (
	"cmp"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write coverage.md and the settings of configuration.md anew")

// Scenarios are T-01 to T-50, reports P-01 to P-28.
const (
	scenarios = 50
	reports   = 28
)

// shown is how many tests a line names at most.
const shown = 5

// TestCoverage compares coverage.md with the source, and wants a test for each route, each
// rule of rules.md, each scenario and each report of reports.md.
func TestCoverage(t *testing.T) {
	c := newCoverage(t)
	page := c.page(t)
	path := filepath.Join(root, "docs", "coverage.md")
	if *update {
		if err := os.WriteFile(path, []byte(page), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if read(t, "docs", "coverage.md") != page {
		t.Error("coverage.md is not what the source says: go test ./docs -update")
	}
}

// coverage knows which tests hold what.
type coverage struct {
	rules  map[string][]testFunc // those named after a rule first
	routes []coveredRoute
}

type coveredRoute struct {
	method, pattern string
	tests           []reachingTest
}

// reachingTest is a test that calls a route, through so many helpers.
type reachingTest struct {
	name  string
	depth int
}

func newCoverage(t *testing.T) *coverage {
	packages := testPackages(t)
	c := &coverage{rules: map[string][]testFunc{}}
	byName := map[string][]testFunc{}
	for _, p := range packages {
		for _, f := range p.tests {
			byName[f.name] = append(byName[f.name], f)
			for _, id := range f.ids {
				if id != f.own {
					c.rules[id] = append(c.rules[id], f)
				}
			}
			if f.own != "" {
				c.rules[f.own] = append(c.rules[f.own], f)
			}
		}
	}
	for id, names := range alsoHeldBy {
		for _, name := range names {
			if byName[name] == nil {
				t.Errorf("%s is held by %s, which does not exist", id, name)
			}
			c.rules[id] = append(c.rules[id], byName[name]...)
		}
	}
	for id, tests := range c.rules {
		slices.SortFunc(tests, func(a, b testFunc) int {
			return cmp.Or(-compareBools(a.own == id, b.own == id), cmp.Compare(a.dir, b.dir), cmp.Compare(a.name, b.name))
		})
		c.rules[id] = slices.CompactFunc(tests, func(a, b testFunc) bool { return a.name == b.name })
	}
	c.findRoutes(t, packages["server/acceptance"])
	return c
}

func compareBools(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	}
	return -1
}

// findRoutes gives every route the tests over HTTP that call it.
func (c *coverage) findRoutes(t *testing.T, p *testPackage) {
	c.readRoutes(t)
	for _, f := range p.tests {
		depths := map[int]int{} // by route
		for r, depth := range p.reached(f.name) {
			i := c.route(r)
			if i < 0 {
				continue
			}
			if d, ok := depths[i]; !ok || depth < d {
				depths[i] = depth
			}
		}
		for i, depth := range depths {
			c.routes[i].tests = append(c.routes[i].tests, reachingTest{f.name, depth})
		}
	}
	for i := range c.routes {
		slices.SortFunc(c.routes[i].tests, func(a, b reachingTest) int {
			return cmp.Or(cmp.Compare(a.depth, b.depth), cmp.Compare(a.name, b.name))
		})
	}
}

// readRoutes reads the table of the server.
func (c *coverage) readRoutes(t *testing.T) {
	for _, m := range regexp.MustCompile(`\{"([A-Z]+)", "(/[^"]*)", `).FindAllStringSubmatch(read(t, "server", "routes.go"), -1) {
		c.routes = append(c.routes, coveredRoute{method: m[1], pattern: m[2]})
	}
}

// route returns the index of the route that serves r, or -1. As in the server, the first
// one that matches counts. Where the method is not known a GET is what most helpers send;
// a path without one leaves little choice.
func (c *coverage) route(r request) int {
	path, _, _ := strings.Cut(r.path, "?")
	found := -1
	for i := range c.routes {
		if !matches(c.routes[i].pattern, path) {
			continue
		}
		if method := c.routes[i].method; r.method == method || r.method == "" && method == "GET" {
			return i
		}
		if r.method == "" && found < 0 {
			found = i
		}
	}
	return found
}

func matches(pattern, path string) bool {
	want, got := strings.Split(pattern, "/"), strings.Split(path, "/")
	if len(want) != len(got) {
		return false
	}
	for i := range want {
		if want[i] != got[i] && !strings.HasPrefix(want[i], ":") {
			return false
		}
	}
	return true
}

const coverageIntro = `# Coverage

Which tests hold what. This page is generated: ` + "`go test ./docs -update`" + ` writes it from
[rules.md](rules.md) and [reports.md](reports.md), from the names and comments of the tests, and
from the calls they make; ` + "`go test ./docs`" + ` fails when it is stale, and when a route, a rule, a
scenario or a report has no test.

A test named after a rule stands before those that check it on their way. The tests of a route
are those over HTTP that call it most directly.

`

// page renders coverage.md.
func (c *coverage) page(t *testing.T) string {
	var b strings.Builder
	b.WriteString(coverageIntro)
	c.writeRoutes(t, &b)
	seen := map[string]bool{}
	for _, part := range strings.Split(read(t, "docs", "rules.md"), "\n## ")[1:] {
		heading, body, _ := strings.Cut(part, "\n")
		fmt.Fprintf(&b, "## %s\n\n| | | tests |\n|---|---|---|\n", heading)
		for _, m := range regexp.MustCompile(`(?m)^\| ([MGTR]-?\d+) \| (.*?) \|`).FindAllStringSubmatch(body, -1) {
			seen[m[1]] = true
			c.writeRule(t, &b, m[1], m[2])
		}
		b.WriteByte('\n')
	}
	c.writeReports(t, &b, seen)
	for n := 1; n <= scenarios; n++ {
		if id := fmt.Sprintf("T-%02d", n); !seen[id] {
			t.Errorf("scenario %s is not in rules.md", id)
		}
	}
	for n := 1; n <= reports; n++ {
		if id := fmt.Sprintf("P-%02d", n); !seen[id] {
			t.Errorf("report %s is not in reports.md", id)
		}
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// writeReports writes which tests hold what reports.md says. A command that it names for a
// report holds it as well: TestMakeTargets knows whether there is such a target.
func (c *coverage) writeReports(t *testing.T, b *strings.Builder, seen map[string]bool) {
	b.WriteString("## Reports\n\n| | | tests |\n|---|---|---|\n")
	for _, m := range regexp.MustCompile(`(?m)^\| (P-\d+) \| (.*?) \| .* \|([^|]*)\|$`).FindAllStringSubmatch(read(t, "docs", "reports.md"), -1) {
		id, symptom, also := m[1], m[2], m[3]
		seen[id] = true
		if len(c.rules[id]) == 0 && !strings.Contains(also, "`make ") && !strings.Contains(also, "`go run ") {
			t.Errorf("nothing holds %s", id)
		}
		var held []string
		if names := c.names(id); len(names) > 0 {
			held = append(held, listed(names))
		}
		held = append(held, firsts(also, "(`(?:make|go run) [^`]*`)")...)
		fmt.Fprintf(b, "| %s | %s | %s |\n", id, symptom, strings.Join(held, ", "))
	}
	b.WriteByte('\n')
}

func (c *coverage) writeRoutes(t *testing.T, b *strings.Builder) {
	b.WriteString("## Routes\n\n| | tests over HTTP | |\n|---|---|---|\n")
	for _, r := range c.routes {
		if len(r.tests) == 0 {
			t.Errorf("no test over HTTP calls %s %s", r.method, r.pattern)
		}
		var names []string
		for _, f := range r.tests {
			names = append(names, f.name)
		}
		fmt.Fprintf(b, "| `%s %s` | %d | %s |\n", r.method, r.pattern, len(names), listed(names))
	}
	b.WriteByte('\n')
}

func (c *coverage) writeRule(t *testing.T, b *strings.Builder, id, text string) {
	if len(c.rules[id]) == 0 {
		t.Errorf("no test holds %s", id)
	}
	fmt.Fprintf(b, "| %s | %s | %s |\n", id, text, listed(c.names(id)))
}

// names returns the names of the tests that hold a rule.
func (c *coverage) names(id string) (names []string) {
	for _, f := range c.rules[id] {
		names = append(names, f.name)
	}
	return names
}

// listed names the first tests of a list.
func listed(names []string) string {
	text := "`" + strings.Join(names[:min(len(names), shown)], "`, `") + "`"
	if more := len(names) - shown; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}
