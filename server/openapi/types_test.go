package openapi

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestTypes(t *testing.T) {
	for typ, want := range map[string]string{
		"string":                   `{"type":"string"}`,
		"any":                      `{}`,
		"count":                    `{"type":"integer","format":"int64","minimum":0}`,
		"integer -1..":             `{"type":"integer","format":"int64","minimum":-1}`,
		"count 1..1000 = 200":      `{"type":"integer","format":"int64","minimum":1,"maximum":1000,"default":200}`,
		"integer ..9":              `{"type":"integer","format":"int64","maximum":9}`,
		"boolean = false":          `{"type":"boolean","default":false}`,
		"string = 'a'":             `{"type":"string","default":"a"}`,
		"uuid|null":                `{"type":["string","null"],"format":"uuid"}`,
		"number|string|null":       `{"type":["number","string","null"]}`,
		"count|string":             `{"anyOf":[{"type":"integer","format":"int64","minimum":0},{"type":"string"}]}`,
		"'a'|'b'":                  `{"type":"string","enum":["a","b"]}`,
		"'a'|'b'|null = 'a'":       `{"type":["string","null"],"enum":["a","b",null],"default":"a"}`,
		"Thing":                    `{"$ref":"#/components/schemas/Thing"}`,
		"Thing|null":               `{"anyOf":[{"$ref":"#/components/schemas/Thing"},{"type":"null"}]}`,
		"Thing[]":                  `{"type":"array","items":{"$ref":"#/components/schemas/Thing"}}`,
		"Thing[]|null":             `{"type":["array","null"],"items":{"$ref":"#/components/schemas/Thing"}}`,
		"Thing|Other[]":            `{"type":"array","items":{"anyOf":[{"$ref":"#/components/schemas/Thing"},{"$ref":"#/components/schemas/Other"}]}}`,
		"map[Thing]":               `{"type":"object","additionalProperties":{"$ref":"#/components/schemas/Thing"}}`,
		"map[uuid]":                `{"type":"object","additionalProperties":{"type":"string","format":"uuid"}}`,
		"Nothing of the sort here": `{"$ref":"#/components/schemas/Nothing","minimum":of the sort here}`,
	} {
		b, err := json.Marshal(typeOf(typ))
		if strings.Contains(want, ":of") { // what is no type does not pass
			if err == nil {
				t.Errorf("%s: %s", typ, b)
			}
		} else if err != nil || string(b) != want {
			t.Errorf("%s: %s, want %s, %v", typ, b, want, err)
		}
	}
}

func TestObjects(t *testing.T) {
	got, err := json.Marshal(objectOf([]field{{"b", "string", "Of it."}, {"a?", "any", ""}, {"c", "null", ""}}))
	want := `{"type":"object","required":["b","c"],"properties":{"b":{"type":"string","description":"Of it."},"a":{},"c":{"type":"null"}}}`
	if err != nil || string(got) != want {
		t.Errorf("got %s, want %s, %v", got, want, err)
	}
}

// A route that nobody has described, and a description without a route, make no document.
func TestEveryRouteIsDescribed(t *testing.T) {
	var all []Route
	for _, a := range areas {
		for _, o := range a.operations {
			method, pattern, _ := strings.Cut(o.route, " ")
			all = append(all, Route{Method: method, Pattern: pattern, Level: "public"})
		}
	}
	if _, err := Document(all, "v1"); err != nil {
		t.Error(err)
	}
	if _, err := Document(all[1:], "v1"); err == nil || !strings.Contains(err.Error(), all[0].Pattern+" is described and is no route") {
		t.Errorf("without a route: %v", err)
	}
	if _, err := Document(append(all, Route{Method: "PUT", Pattern: "/new", Level: "public"}), "v1"); err == nil || !strings.Contains(err.Error(), "PUT /new is not described") {
		t.Errorf("with one more: %v", err)
	}
}
