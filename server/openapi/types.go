package openapi

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// object is a JSON object whose members keep their order.
type object []member

type member struct {
	name  string
	value any
}

func (o object) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	for i, m := range o {
		b.WriteByte("{,"[min(i, 1)])
		name, err := json.Marshal(m.name)
		if err != nil {
			return nil, err
		}
		value, err := json.Marshal(m.value)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", m.name, err)
		}
		b.Write(name)
		b.WriteByte(':')
		b.Write(value)
	}
	if len(o) == 0 {
		b.WriteByte('{')
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

// with returns o with one more member, unless the value is an empty text.
func (o object) with(name string, value any) object {
	if value == "" {
		return o
	}
	return append(o, member{name, value})
}

// field is a member of an object or a parameter; see the package comment.
type field struct{ name, typ, text string }

// key returns the name without its mark, and whether it has to be there.
func (f *field) key() (name string, required bool) {
	name, optional := strings.CutSuffix(f.name, "?")
	return name, !optional
}

// objectOf returns the schema of an object with these members.
func objectOf(fields []field) object {
	var required []string
	properties := object{}
	for i := range fields {
		name, always := fields[i].key()
		if always {
			required = append(required, name)
		}
		properties = properties.with(name, typeOf(fields[i].typ).with("description", fields[i].text))
	}
	o := object{{"type", "object"}}
	if len(required) > 0 {
		o = o.with("required", required)
	}
	return o.with("properties", properties)
}

// words are the types that have no schema of their own.
var words = map[string]object{
	"any":     {},
	"boolean": {{"type", "boolean"}},
	"count":   {{"type", "integer"}, {"format", "int64"}, {"minimum", 0}},
	"integer": {{"type", "integer"}, {"format", "int64"}},
	"number":  {{"type", "number"}},
	"string":  {{"type", "string"}},
	"time":    {{"type", "string"}, {"format", "date-time"}},
	"uuid":    {{"type", "string"}, {"format", "uuid"}},
}

// typeOf returns the schema of a type. A text that is none makes one that refers to nothing:
// the tests resolve every reference.
func typeOf(typ string) object {
	typ, def, defaulted := strings.Cut(typ, " = ")
	typ, bounds, bounded := strings.Cut(typ, " ")
	var o object
	if of, ok := strings.CutSuffix(typ, "[]"); ok {
		o = arrayOf(union(strings.Split(of, "|")))
	} else {
		o = union(strings.Split(typ, "|"))
	}
	if bounded {
		low, high, _ := strings.Cut(bounds, "..")
		o = o.bound("minimum", low).bound("maximum", high)
	}
	if defaulted {
		o = o.with("default", json.RawMessage(strings.ReplaceAll(def, "'", `"`)))
	}
	return o
}

// bound returns a copy of o with a limit; "" is none.
func (o object) bound(name, limit string) object {
	if limit == "" {
		return o
	}
	copied := object{}
	for _, m := range o {
		if m.name != name {
			copied = append(copied, m)
		}
	}
	return copied.with(name, json.RawMessage(limit))
}

// union returns the schema of what is of one of the types.
func union(types []string) object {
	var of []object
	var texts []any
	nullable := false
	for _, t := range types {
		switch {
		case t == "null":
			nullable = true
		case strings.HasPrefix(t, "'"):
			texts = append(texts, strings.Trim(t, "'"))
		default:
			of = append(of, single(t))
		}
	}
	if len(texts) > 0 {
		of = append(of, object{{"type", "string"}, {"enum", texts}})
	}
	if nullable {
		of = append(of, object{{"type", "null"}})
	}
	if len(of) == 1 {
		return of[0]
	}
	if o, ok := merged(of); ok {
		return o
	}
	return object{{"anyOf", of}}
}

// merged writes a union of types without more as a list of them; one of them may have more,
// as a format or an array's items, if the other is null.
func merged(of []object) (object, bool) {
	var names []any
	for i, o := range of {
		if len(o) == 0 || o[0].name != "type" || len(o) > 1 && (i > 0 || len(of) != 2 || of[1][0].value != "null") {
			return nil, false
		}
		names = append(names, o[0].value)
	}
	o := object{{"type", names}}
	for _, m := range of[0][1:] {
		if texts, ok := m.value.([]any); ok && m.name == "enum" {
			m.value = append(slices.Clone(texts), nil) // what is not in the list is none of them
		}
		o = append(o, m)
	}
	return o, true
}

func single(t string) object {
	if of, ok := strings.CutSuffix(t, "[]"); ok {
		return arrayOf(single(of))
	}
	if of, ok := strings.CutPrefix(t, "map["); ok {
		return object{{"type", "object"}, {"additionalProperties", single(strings.TrimSuffix(of, "]"))}}
	}
	if o, ok := words[t]; ok {
		return append(object{}, o...)
	}
	return reference("schemas", t)
}

func arrayOf(of object) object { return object{{"type", "array"}, {"items", of}} }

func reference(kind, name string) object {
	return object{{"$ref", "#/components/" + kind + "/" + name}}
}
