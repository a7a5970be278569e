package codec

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"
)

// TestJSONTestSuite sends every file of the suite as the payload of a push, and as a
// value by itself.
func TestJSONTestSuite(t *testing.T) {
	files, err := filepath.Glob("testdata/jsontestsuite/*.json")
	if err != nil || len(files) < 300 {
		t.Fatalf("got %d files, err %v", len(files), err)
	}
	var push Push
	for _, path := range files {
		name := filepath.Base(path)
		value, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		accept := suiteVerdict(t, name, value)
		if err := Valid(value); (err == nil) != accept {
			t.Errorf("%s: Valid: got %v, want accept %t", name, err, accept)
		}
		body := []byte(`{"items":[{"queue":"q","payload":` + string(value) + `}]}`)
		err = push.Decode(body)
		if (err == nil) != accept {
			t.Errorf("%s: push: got %v, want accept %t", name, err, accept)
			continue
		}
		if want := bytes.Trim(value, " \t\r\n"); accept && !bytes.Equal(push.Items[0].Payload, want) {
			t.Errorf("%s: got payload %q, want %q", name, push.Items[0].Payload, want)
		}
	}
}

// suiteVerdict says what to do with a file. No n_ file becomes valid inside of a push,
// so there are no exceptions to the first letter. Of the i_ files we accept what is
// JSON by its grammar and UTF-8: lone surrogate escapes and numbers of any size, which
// are kept as they were sent; not what is in other encodings or begins with a mark.
func suiteVerdict(t *testing.T, name string, value []byte) bool {
	switch {
	case strings.HasPrefix(name, "y_"):
		return true
	case strings.HasPrefix(name, "n_"):
		return false
	case strings.HasPrefix(name, "i_"):
		return utf8.Valid(value) && json.Valid(value)
	}
	t.Fatalf("%s: unknown kind", name)
	return false
}

// TestJSONTestSuiteUndecided pins the verdicts that the suite leaves open.
func TestJSONTestSuiteUndecided(t *testing.T) {
	want := map[string]bool{
		"i_number_double_huge_neg_exp":                true,
		"i_number_huge_exp":                           true,
		"i_string_1st_surrogate_but_2nd_missing":      true,
		"i_string_lone_second_surrogate":              true,
		"i_string_inverted_surrogates_U+1D11E":        true,
		"i_structure_500_nested_arrays":               true,
		"i_string_UTF-16LE_with_BOM":                  false,
		"i_string_UTF8_surrogate_U+D800":              false,
		"i_string_invalid_utf-8":                      false,
		"i_string_overlong_sequence_2_bytes":          false,
		"i_string_not_in_unicode_range":               false,
		"i_structure_UTF-8_BOM_empty_object":          false,
		"i_string_truncated-utf-8":                    false,
		"i_string_iso_latin_1":                        false,
		"i_string_lone_utf8_continuation_byte":        false,
		"i_string_overlong_sequence_6_bytes_null":     false,
		"i_string_utf16BE_no_BOM":                     false,
		"i_number_too_big_pos_int":                    true,
		"i_object_key_lone_2nd_surrogate":             true,
		"i_string_incomplete_surrogates_escape_valid": true,
	}
	for name, accept := range want {
		value, err := os.ReadFile("testdata/jsontestsuite/" + name + ".json")
		if err != nil {
			t.Fatal(err)
		}
		if err := Valid(value); (err == nil) != accept {
			t.Errorf("%s: got %v, want accept %t", name, err, accept)
		}
	}
}
