package docs_test

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/skepmq/skep/cmd/skep/config"
)

// root is the directory of the module.
const root = ".."

// read returns the text of a file of the module.
func read(t *testing.T, path ...string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(append([]string{root}, path...)...))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// pages returns the paths of all documents, from the root.
func pages(t *testing.T) []string {
	t.Helper()
	found, err := filepath.Glob("*.md")
	more, moreErr := filepath.Glob("operations/*.md")
	if err := errors.Join(err, moreErr); err != nil || len(found) == 0 {
		t.Fatalf("%d documents, %v", len(found), err)
	}
	found = append(found, more...)
	all := []string{"README.md", "CHANGELOG.md"}
	for _, name := range found {
		all = append(all, "docs/"+name)
	}
	return all
}

// section returns the part of a page below a heading of the second level.
func section(t *testing.T, page, heading string) string {
	t.Helper()
	_, rest, ok := strings.Cut(page, "\n## "+heading+"\n")
	if !ok {
		t.Fatalf("no section %q", heading)
	}
	text, _, _ := strings.Cut(rest, "\n## ")
	return text
}

// firsts returns what the first group of pattern matches in text, without repeats.
func firsts(text, pattern string) []string {
	set := map[string]bool{}
	for _, m := range regexp.MustCompile(pattern).FindAllStringSubmatch(text, -1) {
		set[m[1]] = true
	}
	return slices.Sorted(maps.Keys(set))
}

// wantSame compares what the source has with what a page says.
func wantSame(t *testing.T, what string, source, page []string) {
	t.Helper()
	if len(source) == 0 {
		t.Fatalf("no %s found in the source", what)
	}
	for _, s := range source {
		if !slices.Contains(page, s) {
			t.Errorf("%s %s is not documented", what, s)
		}
	}
	for _, s := range page {
		if !slices.Contains(source, s) {
			t.Errorf("%s %s is documented and does not exist", what, s)
		}
	}
}

// TestSettings compares the table of settings with the one that the broker reads.
func TestSettings(t *testing.T) {
	const begin, end = "<!-- settings: go test ./docs -update -->\n", "<!-- end of settings -->\n"
	page := read(t, "docs", "configuration.md")
	before, rest, ok := strings.Cut(page, begin)
	table, after, closed := strings.Cut(rest, end)
	if !ok || !closed {
		t.Fatal("configuration.md has no place for the table of settings")
	}
	if table == config.Markdown() {
		return
	}
	if !*update {
		t.Fatal("the settings in configuration.md are not what the source says: go test ./docs -update")
	}
	if err := os.WriteFile("configuration.md", []byte(before+begin+config.Markdown()+end+after), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestVariables(t *testing.T) {
	page := read(t, "docs", "configuration.md")
	clients := section(t, page, "Environment of skep push, skep consume and skep backup")
	wantSame(t, "variable", firsts(read(t, "cmd", "skep", "connect.go"), `Getenv\("([A-Z_]+)"\)`),
		firsts(clients, "(?m)^\\| `([A-Z_]+)` \\|"))
	for _, name := range firsts(read(t, "cmd", "skep", "exec.go"), `"(SKEP_[A-Z_]+)="`) {
		if !strings.Contains(clients, "`"+name+"`") {
			t.Errorf("variable %s of a command is not documented", name)
		}
	}
}

func TestRoutes(t *testing.T) {
	var source []string
	for _, m := range regexp.MustCompile(`\{"([A-Z]+)", "(/[^"]*)", `).FindAllStringSubmatch(read(t, "server", "routes.go"), -1) {
		source = append(source, m[1]+" "+m[2])
	}
	wantSame(t, "route", source, firsts(read(t, "docs", "http-api.md"), "`((?:GET|POST|PUT|DELETE|PATCH) /[^` ?]*)`"))
}

// TestOptions asks for each option of a queue by name.
func TestOptions(t *testing.T) {
	page := section(t, read(t, "docs", "http-api.md"), "Configure")
	names := firsts(serverSource(t), `e\.(?:text|number|flag)\("(\w+)"`)
	if len(names) < 20 {
		t.Fatalf("%d options found in the source", len(names))
	}
	for _, name := range names {
		if !strings.Contains(page, "`"+name+"`") {
			t.Errorf("option %s is not documented", name)
		}
	}
}

// serverSource returns the text of package server: which file encodes the options is none
// of our business.
func serverSource(t *testing.T) string {
	t.Helper()
	return sources(t, filepath.Join(root, "server"), func(name string) bool {
		return strings.HasSuffix(name, ".go") && !strings.HasSuffix(name, "_test.go")
	})
}

// sources returns the text of all files below dir whose name is wanted.
func sources(t *testing.T, dir string, wanted func(name string) bool) string {
	t.Helper()
	var text strings.Builder
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() || !wanted(d.Name()) {
			return err
		}
		b, err := os.ReadFile(path)
		text.Write(b)
		text.WriteByte('\n')
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return text.String()
}

func TestMakeTargets(t *testing.T) {
	targets := firsts(read(t, "Makefile"), `(?m)^([a-z-]+):`)
	for _, path := range pages(t) {
		for _, name := range firsts(read(t, path), "`make ([a-z-]+)[ `]") {
			if !slices.Contains(targets, name) {
				t.Errorf("%s: make %s does not exist", path, name)
			}
		}
	}
}

// TestRules compares rules.md and reports.md with the tests of the module: a number that a
// test names is explained, a test that a page names exists.
func TestRules(t *testing.T) {
	tests := sources(t, root, func(name string) bool {
		return strings.HasSuffix(name, "_test.go") && name != "docs_test.go"
	})
	rules := firsts(read(t, "docs", "rules.md")+read(t, "docs", "reports.md"), `(?m)^\| ([MGTPR]-?\d+) \|`)
	for _, m := range regexp.MustCompile(`\bfunc Test([MGTP])(\d{2,3})\p{Lu}|\b([MGTP])-(\d{2,3})\b|// (R)(\d{1,2})\b`).FindAllStringSubmatch(tests, -1) {
		id := m[1] + m[3] + "-" + m[2] + m[4]
		if m[5] != "" {
			id = m[5] + m[6]
		}
		if !slices.Contains(rules, id) {
			t.Errorf("rule %s is not in rules.md", id)
		}
	}
	functions := firsts(tests, `\bfunc (Test\w+)\(`)
	for _, path := range pages(t) {
		for _, name := range firsts(read(t, path), "`(Test\\w+)`") {
			if !slices.Contains(functions, name) {
				t.Errorf("%s: %s does not exist", path, name)
			}
		}
	}
}

var (
	fence = regexp.MustCompile("(?ms)^```.*?^```$")
	link  = regexp.MustCompile(`\]\(([^)\s]+)\)`)
)

// TestLinks follows every link that stays in the module, to its heading if it names one.
func TestLinks(t *testing.T) {
	for _, path := range pages(t) {
		for _, m := range link.FindAllStringSubmatch(fence.ReplaceAllString(read(t, path), ""), -1) {
			if strings.Contains(m[1], "://") {
				continue
			}
			target, anchor, _ := strings.Cut(m[1], "#")
			if target == "" {
				target = filepath.Base(path)
			}
			target = filepath.Join(filepath.Dir(path), target)
			if _, err := os.Stat(filepath.Join(root, target)); err != nil {
				t.Errorf("%s: broken link %s: %v", path, m[1], err)
			} else if anchor != "" && !slices.Contains(anchors(read(t, target)), anchor) {
				t.Errorf("%s: no heading for link %s", path, m[1])
			}
		}
	}
}

// anchors returns what headings of a page are linked to by.
func anchors(page string) (found []string) {
	for _, heading := range firsts(fence.ReplaceAllString(page, ""), `(?m)^#+ (.+)$`) {
		slug := strings.ReplaceAll(strings.ToLower(heading), " ", "-")
		found = append(found, regexp.MustCompile(`[^\p{L}\p{N}_-]`).ReplaceAllString(slug, ""))
	}
	return found
}
