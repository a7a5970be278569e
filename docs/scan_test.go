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
	nameID = regexp.MustCompile(`^Test([MGTPR])(\d{1,3})\p{Lu}`)
	textID = regexp.MustCompile(`\b([MGTP]-\d{2,3}|R\d{1,2})\b`)
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
	e := evaluator{p, map[string][]string{}}
	known := map[ast.Expr]bool{} // paths whose method is known
	ast.Inspect(node, func(n ast.Node) bool {
		var list []ast.Expr
		switch n := n.(type) {
		case *ast.AssignStmt:
			e.assign(n)
		case *ast.CallExpr:
			list = n.Args
		case *ast.CompositeLit:
			list = n.Elts
		case ast.Expr:
			calls, ends := e.alone(n)
			if !known[n] {
				found = append(found, calls...)
			}
			return !ends
		}
		var methods []string
		for _, arg := range list {
			for _, text := range e.texts(arg) {
				if methodName.MatchString(text) {
					methods = append(methods, text)
				} else if strings.HasPrefix(text, "/") && len(methods) > 0 {
					known[arg] = true
					found = append(found, request{methods[len(methods)-1], text})
				}
			}
		}
		return true
	})
	return found
}

// evaluator tells the texts that expressions may have, as far as the source shows, with
// holes for the rest.
type evaluator struct {
	p      *testPackage
	locals map[string][]string // of the variables of the function
}

// maxTexts bounds the texts that one expression is taken to have.
const maxTexts = 8

// assign notes what a statement makes of a variable; which of several values it has where
// it is used nobody follows.
func (e *evaluator) assign(a *ast.AssignStmt) {
	if len(a.Lhs) != len(a.Rhs) {
		return
	}
	for i := range a.Lhs {
		name, ok := a.Lhs[i].(*ast.Ident)
		if !ok {
			continue
		}
		texts := e.texts(a.Rhs[i])
		if a.Tok == token.ADD_ASSIGN {
			texts = sums(e.locals[name.Name], texts)
		}
		for _, text := range texts {
			if (strings.HasPrefix(text, "/") || methodName.MatchString(text)) && len(e.locals[name.Name]) < maxTexts {
				e.locals[name.Name] = append(e.locals[name.Name], text)
			}
		}
	}
}

// alone returns the calls that an expression stands for outside of a list with a method.
// ends says that nothing inside of it is looked at.
func (e *evaluator) alone(n ast.Expr) (calls []request, ends bool) {
	for _, text := range e.texts(n) {
		if m := requestLine.FindStringSubmatch(text); m != nil {
			calls, ends = append(calls, request{m[1], m[2]}), true
		} else if strings.HasPrefix(text, "/") {
			calls, ends = append(calls, request{"", text}), true
		}
	}
	return calls, ends
}

func (e *evaluator) texts(x ast.Expr) []string {
	switch x := x.(type) {
	case *ast.BasicLit:
		if s, err := strconv.Unquote(x.Value); err == nil && x.Kind == token.STRING {
			return []string{s}
		}
	case *ast.ParenExpr:
		return e.texts(x.X)
	case *ast.BinaryExpr:
		if x.Op == token.ADD {
			return sums(e.texts(x.X), e.texts(x.Y))
		}
	case *ast.Ident:
		if texts := e.locals[x.Name]; len(texts) > 0 {
			return texts
		}
		if v := e.p.values[x.Name]; v != nil {
			return e.texts(v)
		}
	case *ast.CallExpr:
		return e.textsOfCall(x)
	}
	return []string{hole}
}

// sums returns every text of a with every text of b behind it.
func sums(a, b []string) (all []string) {
	for _, x := range a {
		for _, y := range b {
			if len(all) < maxTexts {
				all = append(all, x+y)
			}
		}
	}
	return all
}

// textsOfCall evaluates a call of Sprintf, or of a function that only returns a text.
func (e *evaluator) textsOfCall(x *ast.CallExpr) []string {
	switch fun := x.Fun.(type) {
	case *ast.SelectorExpr:
		if fun.Sel.Name == "Sprintf" && len(x.Args) > 0 {
			texts := slices.Clone(e.texts(x.Args[0]))
			for i := range texts {
				texts[i] = verb.ReplaceAllString(texts[i], hole)
			}
			return texts
		}
	case *ast.Ident:
		if f := e.p.functions[fun.Name]; f != nil {
			if result := returned(f); result != nil {
				inner := evaluator{e.p, nil}
				return inner.texts(result)
			}
		}
	}
	return []string{hole}
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
