package openapi_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/skepmq/skep/server/testkit"
)

func contract(t *testing.T) *testkit.Contract {
	t.Helper()
	c, err := testkit.TheContract()
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestMetaSchema compares the document with the schema of OpenAPI 3.1 documents, which is
// https://spec.openapis.org/oas/3.1/schema/2022-10-07 (Apache-2.0), and each schema in it with
// that of JSON Schema.
func TestMetaSchema(t *testing.T) {
	f, err := os.Open("testdata/oas-3.1-2022-10-07.json")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	meta, err := jsonschema.UnmarshalJSON(f)
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("oas.json", meta); err != nil {
		t.Fatal(err)
	}
	document, err := c.Compile("oas.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := document.Validate(contract(t).Document); err != nil {
		t.Error(err)
	}
	draft, err := c.Compile("https://json-schema.org/draft/2020-12/schema")
	if err != nil {
		t.Fatal(err)
	}
	schemas := 0
	walk(contract(t).Document, "", func(at string, o map[string]any) {
		if strings.HasSuffix(at, "/schema") || regexp.MustCompile(`^/components/schemas/\w+$`).MatchString(at) {
			schemas++
			if err := draft.Validate(o); err != nil {
				t.Errorf("%s: %v", at, err)
			}
		}
	})
	if schemas < 100 {
		t.Errorf("%d schemas", schemas)
	}
}

// walk calls fn with every object below v.
func walk(v any, at string, fn func(at string, o map[string]any)) {
	switch v := v.(type) {
	case map[string]any:
		fn(at, v)
		for name, m := range v {
			if name != "example" {
				walk(m, at+"/"+name, fn)
			}
		}
	case []any:
		for _, e := range v {
			walk(e, at+"[]", fn)
		}
	}
}

// Every reference leads somewhere, everything shared is used, ids are those of one
// operation, and operations and parameters are described.
func TestReferences(t *testing.T) {
	document := contract(t).Document
	used, ids := map[string]bool{}, map[string]string{}
	walk(document, "", func(at string, o map[string]any) {
		if ref, ok := o["$ref"].(string); ok {
			used[ref] = true
			var to any = document
			for _, name := range strings.Split(strings.TrimPrefix(ref, "#/"), "/") {
				in, _ := to.(map[string]any)
				to = in[name]
			}
			if to == nil {
				t.Errorf("%s: %s leads nowhere", at, ref)
			}
		}
		if id, ok := o["operationId"].(string); ok {
			if before, twice := ids[id]; twice {
				t.Errorf("%s and %s are both %s", before, at, id)
			}
			ids[id] = at
			if o["summary"] == nil || o["description"] == nil {
				t.Errorf("%s is not described", at)
			}
		}
		if _, ok := o["default"]; ok && strings.HasPrefix(at, "/components/schemas") {
			t.Errorf("%s has a default", at) // see the package comment
		}
		if o["in"] != nil && o["description"] == nil {
			t.Errorf("%s: parameter %v is not described", at, o["name"])
		}
	})
	for kind, all := range document["components"].(map[string]any) {
		for name := range all.(map[string]any) {
			if ref := "#/components/" + kind + "/" + name; !used[ref] && kind != "securitySchemes" {
				t.Errorf("nothing refers to %s", ref)
			}
		}
	}
}

// Examples are as their schemas say.
func TestExamples(t *testing.T) {
	if n, err := contract(t).Examples(); err != nil || n < 40 {
		t.Errorf("%d examples, %v", n, err)
	}
}
