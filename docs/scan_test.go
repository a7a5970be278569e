package docs_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// testFunc is a test of the module, as its source shows it.
type testFunc struct {
	name string
	dir  string // from the root
	own  string // the rule in its name, "" for none
	// ids are the rules that its text or comment names.
	ids []string
}

var (
	nameID = regexp.MustCompile(`^Test([MGTR])(\d{1,3})\p{Lu}`)
	textID = regexp.MustCompile(`\b([MGT]-\d{2,3}|R\d{1,2})\b`)
)

// testPackages parses the test files of every package of the module.
func testPackages(t *testing.T) map[string]*testPackage {
	t.Helper()
	packages := map[string]*testPackage{}
	err := filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		dir, err := filepath.Rel(root, filepath.Dir(path))
		if err != nil || dir == "docs" {
			return err
		}
		source, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		p := packages[dir]
		if p == nil {
			p = newTestPackage(dir)
			packages[dir] = p
		}
		return p.add(path, string(source))
	})
	if err != nil {
		t.Fatal(err)
	}
	return packages
}

// testPackage is what the test files of a package declare.
type testPackage struct {
	dir       string
	tests     []testFunc
	functions map[string]*ast.FuncDecl // by name
	methods   map[string][]*ast.FuncDecl
	values    map[string]ast.Expr // of package variables and constants
}

func newTestPackage(dir string) *testPackage {
	return &testPackage{
		dir: filepath.ToSlash(dir), functions: map[string]*ast.FuncDecl{},
		methods: map[string][]*ast.FuncDecl{}, values: map[string]ast.Expr{},
	}
}

func (p *testPackage) add(path, source string) error {
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, path, source, parser.ParseComments)
	if err != nil {
		return err
	}
	for _, decl := range file.Decls {
		switch d := decl.(type) {
		case *ast.GenDecl:
			p.addValues(d)
		case *ast.FuncDecl:
			name := d.Name.Name
			if d.Recv != nil {
				p.methods[name] = append(p.methods[name], d)
				continue
			}
			p.functions[name] = d
			if !strings.HasPrefix(name, "Test") || name == "TestMain" {
				continue
			}
			from := d.Pos()
			if d.Doc != nil {
				from = d.Doc.Pos()
			}
			p.addTest(name, source[files.Position(from).Offset:files.Position(d.End()).Offset])
		}
	}
	return nil
}

func (p *testPackage) addValues(d *ast.GenDecl) {
	for _, spec := range d.Specs {
		v, ok := spec.(*ast.ValueSpec)
		if !ok {
			continue
		}
		for i, name := range v.Names {
			if i < len(v.Values) {
				p.values[name.Name] = v.Values[i]
			}
		}
	}
}

func (p *testPackage) addTest(name, text string) {
	f := testFunc{name: name, dir: p.dir}
	if m := nameID.FindStringSubmatch(name); m != nil {
		if f.own = m[1] + "-" + m[2]; m[1] == "R" {
			f.own = m[1] + m[2]
		}
	}
	set := map[string]bool{}
	for _, m := range textID.FindAllString(text, -1) {
		set[m] = true
	}
	f.ids = slices.Sorted(maps.Keys(set))
	p.tests = append(p.tests, f)
}

// request is a call that a test file makes: "" is a method that its place does not tell,
// and hole stands in the path for what only a run of the test knows.
type request struct{ method, path string }

const hole = "\x00"

var (
	methodName  = regexp.MustCompile(`^(GET|POST|PUT|DELETE|PATCH|HEAD)$`)
	requestLine = regexp.MustCompile(`^(GET|POST|PUT|DELETE|PATCH) (/[^ ?]*)`)
	verb        = regexp.MustCompile(`%[a-z]`)
)

// requests returns the calls that stand in a piece of source.
func (p *testPackage) requests(node ast.Node) (found []request) {
	known := map[ast.Expr]bool{} // paths whose method is known
	ast.Inspect(node, func(n ast.Node) bool {
		var list []ast.Expr
		switch n := n.(type) {
		case *ast.CallExpr:
			list = n.Args
		case *ast.CompositeLit:
			list = n.Elts
		case ast.Expr:
			if text := p.text(n); !known[n] && requestLine.MatchString(text) {
				m := requestLine.FindStringSubmatch(text)
				found = append(found, request{m[1], m[2]})
				return false
			} else if strings.HasPrefix(text, "/") {
				if !known[n] {
					found = append(found, request{"", text})
				}
				return false
			}
		}
		method := ""
		for _, e := range list {
			if text := p.text(e); methodName.MatchString(text) {
				method = text
			} else if method != "" && strings.HasPrefix(text, "/") {
				known[e] = true
				found = append(found, request{method, text})
			}
		}
		return true
	})
	return found
}

// text evaluates an expression as far as the source tells, with holes for the rest.
func (p *testPackage) text(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.BasicLit:
		if s, err := strconv.Unquote(e.Value); err == nil && e.Kind == token.STRING {
			return s
		}
	case *ast.ParenExpr:
		return p.text(e.X)
	case *ast.BinaryExpr:
		if e.Op == token.ADD {
			return p.text(e.X) + p.text(e.Y)
		}
	case *ast.Ident:
		if v := p.values[e.Name]; v != nil {
			return p.text(v)
		}
	case *ast.CallExpr:
		return p.textOfCall(e)
	}
	return hole
}

// textOfCall evaluates a call of Sprintf, or of a function that only returns a text.
func (p *testPackage) textOfCall(e *ast.CallExpr) string {
	switch fun := e.Fun.(type) {
	case *ast.SelectorExpr:
		if fun.Sel.Name == "Sprintf" && len(e.Args) > 0 {
			return verb.ReplaceAllString(p.text(e.Args[0]), hole)
		}
	case *ast.Ident:
		if f := p.functions[fun.Name]; f != nil {
			if result := returned(f); result != nil {
				return p.text(result)
			}
		}
	}
	return hole
}

// returned returns the result of a function that consists of it and is a text put
// together, or nil.
func returned(f *ast.FuncDecl) ast.Expr {
	if len(f.Body.List) != 1 {
		return nil
	}
	r, ok := f.Body.List[0].(*ast.ReturnStmt)
	if !ok || len(r.Results) != 1 {
		return nil
	}
	if sum, ok := r.Results[0].(*ast.BinaryExpr); ok && sum.Op == token.ADD {
		return sum
	}
	return nil
}

// mentioned returns what a piece of source calls or refers to within its package.
func (p *testPackage) mentioned(node ast.Node) (found []ast.Node) {
	ast.Inspect(node, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.SelectorExpr:
			for _, m := range p.methods[n.Sel.Name] {
				found = append(found, m)
			}
		case *ast.Ident:
			if f := p.functions[n.Name]; f != nil && f.Name != n {
				found = append(found, f)
			}
			if v := p.values[n.Name]; v != nil {
				found = append(found, v)
			}
		}
		return true
	})
	return found
}

// reached returns the calls that a test makes, each with the number of helpers that lie
// between the test and the call.
func (p *testPackage) reached(test string) map[request]int {
	calls := map[request]int{}
	seen := map[ast.Node]bool{}
	next := []ast.Node{p.functions[test]}
	for depth := 0; len(next) > 0; depth++ {
		var after []ast.Node
		for _, node := range next {
			if seen[node] {
				continue
			}
			seen[node] = true
			if f, ok := node.(*ast.FuncDecl); ok && returned(f) != nil {
				continue // its text stands where it is called
			}
			for _, r := range p.requests(node) {
				if _, ok := calls[r]; !ok {
					calls[r] = depth
				}
			}
			after = append(after, p.mentioned(node)...)
		}
		next = after
	}
	return calls
}
