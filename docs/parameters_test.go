package docs_test

import (
	"go/ast"
	"go/constant"
	"go/parser"
	"go/token"
	"go/types"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/skepmq/skep/server/testkit"
)

const (
	serverPath = "github.com/skepmq/skep/server"
	codecPath  = serverPath + "/codec"
)

// passedOver are parameters that the code on the way of a route reads for others alone.
var passedOver = map[string][]string{
	"GET /api/v1/pop/queue/:queue":                      {"namespace", "task"},
	"GET /api/v1/pop/queue/:queue/partition/:partition": {"namespace", "task"},
	"GET /api/v1/analytics/system-metrics":              {"queue", "namespace", "task"},
}

// TestParameters compares the query parameters that the handler of each route reads, as the
// source shows it, with those that GET /openapi.json and http-api.md describe.
func TestParameters(t *testing.T) {
	contract, err := testkit.TheContract()
	if err != nil {
		t.Fatal(err)
	}
	described := map[string][]string{}
	for path, item := range contract.Document["paths"].(map[string]any) {
		for method, o := range item.(map[string]any) {
			operation, ok := o.(map[string]any)
			if !ok {
				continue
			}
			route := strings.ToUpper(method) + " " + strings.NewReplacer("{", ":", "}", "").Replace(path)
			parameters, _ := operation["parameters"].([]any)
			for _, p := range parameters {
				if p := p.(map[string]any); p["in"] == "query" {
					described[route] = append(described[route], p["name"].(string))
				}
			}
		}
	}
	page := read(t, "docs", "http-api.md")
	source := newTypedServer(t)
	total := 0
	for route, handler := range source.routes(t) {
		got := slices.DeleteFunc(source.reads(t, handler), func(name string) bool {
			return slices.Contains(passedOver[route], name)
		})
		total += len(got)
		for _, name := range got {
			if !slices.Contains(described[route], name) {
				t.Errorf("%s reads %s, which is not described", route, name)
			}
			if !strings.Contains(page, "`"+name+"`") && !strings.Contains(page, "`"+name+"=") {
				t.Errorf("parameter %s of %s is not in http-api.md", name, route)
			}
		}
		for _, name := range described[route] {
			if !slices.Contains(got, name) {
				t.Errorf("%s does not read %s, which is described", route, name)
			}
		}
	}
	if total < 60 {
		t.Errorf("%d parameters found in the source", total)
	}
}

// typedServer is package server, with the types that it and package codec declare. Nothing
// else is looked at, so much of the rest has no type.
type typedServer struct {
	info  types.Info
	funcs map[*types.Func]*ast.FuncDecl
	vars  map[string]ast.Expr // values of package variables
	// readers are the functions that read the parameter which one of their own names.
	readers map[*types.Func]int
}

func newTypedServer(t *testing.T) *typedServer {
	t.Helper()
	s := &typedServer{
		info:  types.Info{Uses: map[*ast.Ident]types.Object{}, Defs: map[*ast.Ident]types.Object{}, Types: map[ast.Expr]types.TypeAndValue{}},
		funcs: map[*types.Func]*ast.FuncDecl{}, vars: map[string]ast.Expr{}, readers: map[*types.Func]int{},
	}
	files := token.NewFileSet()
	codec := check(t, files, "codec", codecPath, nil, &types.Info{})
	values := codec.Scope().Lookup("Values").Type().(*types.Named)
	for m := range values.Methods() {
		if p := m.Signature().Params(); p.Len() > 0 && types.Identical(p.At(0).Type(), types.Typ[types.String]) {
			s.readers[m] = 0
		}
	}
	var parsed []*ast.File
	check(t, files, ".", serverPath, map[string]*types.Package{codecPath: codec}, &s.info, &parsed)
	for _, f := range parsed {
		for _, d := range f.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				if f, ok := s.info.Defs[d.Name].(*types.Func); ok {
					s.funcs[f] = d
				}
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					if v, ok := spec.(*ast.ValueSpec); ok && len(v.Values) == 1 {
						s.vars[v.Names[0].Name] = v.Values[0]
					}
				}
			}
		}
	}
	s.findReaders()
	return s
}

// imports gives packages that were checked, and else such as have nothing in them.
type imports map[string]*types.Package

func (known imports) Import(path string) (*types.Package, error) {
	if p := known[path]; p != nil {
		return p, nil
	}
	p := types.NewPackage(path, path[strings.LastIndex(path, "/")+1:])
	p.MarkComplete()
	return p, nil
}

var _ types.Importer = imports{}

// check gives types to the source of a package in a directory below server.
func check(t *testing.T, files *token.FileSet, dir, path string, known imports, info *types.Info, parsed ...*[]*ast.File) *types.Package {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(root, "server", dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	var all []*ast.File
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(files, name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, f)
	}
	config := types.Config{Importer: known, Error: func(error) {}} // what is not known has no type
	p, _ := config.Check(path, files, all, info)
	for _, to := range parsed {
		*to = all
	}
	return p
}

// findReaders adds the functions that hand a parameter of theirs on to a reader.
func (s *typedServer) findReaders() {
	for grown := true; grown; {
		grown = false
		for f, d := range s.funcs {
			if _, known := s.readers[f]; known {
				continue
			}
			for _, name := range s.named(d) {
				if i := s.parameter(f, name); i >= 0 {
					s.readers[f], grown = i, true
				}
			}
		}
	}
}

// named returns the expressions that name what a function reads.
func (s *typedServer) named(d *ast.FuncDecl) (names []ast.Expr) {
	ast.Inspect(d, func(n ast.Node) bool {
		if call, ok := n.(*ast.CallExpr); ok {
			if f := s.callee(call); f != nil {
				if i, ok := s.readers[f]; ok && i < len(call.Args) {
					names = append(names, call.Args[i])
				}
			}
		}
		return true
	})
	return names
}

func (s *typedServer) callee(call *ast.CallExpr) *types.Func {
	var name *ast.Ident
	switch fun := call.Fun.(type) {
	case *ast.Ident:
		name = fun
	case *ast.SelectorExpr:
		name = fun.Sel
	default:
		return nil
	}
	f, _ := s.info.Uses[name].(*types.Func)
	return f
}

// parameter returns which parameter of f an expression is, or -1.
func (s *typedServer) parameter(f *types.Func, x ast.Expr) int {
	if name, ok := x.(*ast.Ident); ok {
		for i := range f.Signature().Params().Len() {
			if s.info.Uses[name] == f.Signature().Params().At(i) {
				return i
			}
		}
	}
	return -1
}

// routes returns the handlers of the table.
func (s *typedServer) routes(t *testing.T) map[string]ast.Expr {
	t.Helper()
	table, ok := s.vars["routes"].(*ast.CompositeLit)
	if !ok {
		t.Fatal("no table of routes")
	}
	found := map[string]ast.Expr{}
	for _, line := range table.Elts {
		elements := line.(*ast.CompositeLit).Elts
		var texts []string
		for _, x := range elements[:2] {
			text, err := strconv.Unquote(x.(*ast.BasicLit).Value)
			if err != nil {
				t.Fatal(err)
			}
			texts = append(texts, text)
		}
		found[strings.Join(texts, " ")] = &ast.CallExpr{Fun: &ast.Ident{Name: "handler"}, Args: elements[2:]}
	}
	return found
}

// reads returns the parameters that a handler and all it calls read.
func (s *typedServer) reads(t *testing.T, handler ast.Node) []string {
	t.Helper()
	names := map[string]bool{}
	seen := map[*types.Func]bool{}
	next := []ast.Node{handler}
	for len(next) > 0 {
		node := next[0]
		next = next[1:]
		ast.Inspect(node, func(n ast.Node) bool {
			name, ok := n.(*ast.Ident)
			if !ok {
				return true
			}
			f, ok := s.info.Uses[name].(*types.Func)
			if d := s.funcs[f]; ok && d != nil && !seen[f] {
				seen[f] = true
				next = append(next, d)
				for _, name := range s.read(t, f, d) {
					names[name] = true
				}
			}
			return true
		})
	}
	return slices.Sorted(maps.Keys(names))
}

// read returns the parameters that a function names itself. A name that a loop takes from a
// list is any text of the list.
func (s *typedServer) read(t *testing.T, f *types.Func, d *ast.FuncDecl) (names []string) {
	t.Helper()
	for _, x := range s.named(d) {
		if v := s.info.Types[x].Value; v != nil && v.Kind() == constant.String {
			names = append(names, constant.StringVal(v))
			continue
		}
		if s.parameter(f, x) >= 0 {
			continue // its callers say
		}
		listed := s.listed(d, x)
		if len(listed) == 0 {
			t.Errorf("%s reads a parameter, and nobody can tell which", f.Name())
		}
		names = append(names, listed...)
	}
	return names
}

func (s *typedServer) listed(d *ast.FuncDecl, x ast.Expr) (texts []string) {
	ast.Inspect(d, func(n ast.Node) bool {
		loop, ok := n.(*ast.RangeStmt)
		if !ok || x.Pos() < loop.Body.Pos() || x.End() > loop.Body.End() {
			return true
		}
		ast.Inspect(loop.X, func(n ast.Node) bool {
			if l, ok := n.(*ast.BasicLit); ok && l.Kind == token.STRING {
				if text, err := strconv.Unquote(l.Value); err == nil {
					texts = append(texts, text)
				}
			}
			return true
		})
		return true
	})
	return texts
}
