package codec

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestValid(t *testing.T) {
	rows := []struct{ name, value, want string }{
		{"number", `-12.5e+3`, ""},
		{"zero", `0`, ""},
		{"white space around", " \t\r\n[ ]\n", ""},
		{"long digits", strings.Repeat("9", 40) + "." + strings.Repeat("0", 40), ""},
		{"all escapes", `"\"\\\/\b\f\n\r\t\u0aF9"`, ""},
		{"delete is no control character", "\"\x7f\"", ""},
		{"last code point", "\"\U0010ffff\"", ""},
		{"lone surrogates", `"\udc00\ud800\ud800x"`, ""},

		{"empty", ``, "unexpected end at byte 0"},
		{"vertical tab is no space", "\v1", "unexpected 0x0b at byte 0"},
		{"no-break space is no space", "\u00a01", "unexpected 0xc2 at byte 0"},
		{"word", `nul`, "unexpected end at byte 3"},
		{"word with a typo", `[trUe]`, "unexpected 'U' at byte 3"},
		{"word cut", `fals]`, "unexpected ']' at byte 4"},
		{"word and more", `nulls`, "unexpected 's' at byte 4"},
		{"other word", `undefined`, "unexpected 'u' at byte 0"},
		{"leading zero", `[012]`, "unexpected '1' at byte 2"},
		{"minus", `-`, "unexpected end at byte 1"},
		{"minus word", `-x`, "unexpected 'x' at byte 1"},
		{"plus", `+1`, "unexpected '+' at byte 0"},
		{"no digit behind the point", `1.`, "unexpected end at byte 2"},
		{"no digit before the point", `.5`, "unexpected '.' at byte 0"},
		{"no exponent", `1e+`, "unexpected end at byte 3"},
		{"bad exponent", `[1e]`, "unexpected ']' at byte 3"},
		{"hexadecimal", `0x1`, "unexpected 'x' at byte 1"},
		{"slash and colon are no digits", `[1/2]`, "unexpected '/' at byte 2"},
		{"string cut", `"abcdefgh`, "unexpected end at byte 9"},
		{"string cut in an escape", `"\`, "unexpected end at byte 2"},
		{"string cut in a code", `"\u00`, "unexpected end at byte 5"},
		{"bad code", `"\u00g0"`, "unexpected 'g' in an escape at byte 5"},
		{"bad escape", `"\a"`, "unexpected 'a' in an escape at byte 2"},
		{"line feed", "\"a\nb\"", "unescaped 0x0a in a string at byte 2"},
		{"NUL among eight", "\"abcdefg\x00\"", "unescaped 0x00 in a string at byte 8"},
		{"last control character", "\"abcdefg\x1f........\"", "unescaped 0x1f in a string at byte 8"},
		{"overlong two", "\"\xc0\xaf\"", "invalid UTF-8 at byte 1"},
		{"overlong three", "\"\xe0\x80\xaf\"", "invalid UTF-8 at byte 1"},
		{"surrogate", "\"\xed\xa0\x80\"", "invalid UTF-8 at byte 1"},
		{"above the last code point", "\"\xf4\x90\x80\x80\"", "invalid UTF-8 at byte 1"},
		{"overlong four", "\"\xf0\x80\x80\xaf\"", "invalid UTF-8 at byte 1"},
		{"cut character", "\"\xe2\x82\"", "invalid UTF-8 at byte 1"},
		{"stray continuation", "\"ab\x80cd\"", "invalid UTF-8 at byte 3"},
		{"invalid UTF-8 outside of a string", "[\xff]", "unexpected 0xff at byte 1"},
		{"two values", `1 2`, "unexpected '2' at byte 2"},
		{"comma first", `[,1]`, "unexpected ',' at byte 1"},
		{"comma last", `[1,]`, "unexpected ']' at byte 3"},
		{"comma last in an object", `{"a":1,}`, "unexpected '}' at byte 7"},
		{"no comma", `[1 2]`, "unexpected '2' at byte 3"},
		{"crossed", `[{]}`, "unexpected ']' at byte 2"},
		{"crossed behind a value", `{"a":1]`, "unexpected ']' at byte 6"},
		{"crossed array", `[1}`, "unexpected '}' at byte 2"},
		{"colon in an array", `["a":1]`, "unexpected ':' at byte 4"},
		{"no value", `{"a"}`, "unexpected '}' at byte 4"},
		{"number as name", `{1:1}`, "unexpected '1' at byte 1"},
		{"single quotes", `'a'`, "unexpected ''' at byte 0"},
		{"comment", `[1/*x*/]`, "unexpected '/' at byte 2"},
		{"open", `[[1`, "unexpected end at byte 3"},
		{"close", `]`, "unexpected ']' at byte 0"},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			err := Valid([]byte(row.value))
			if got := text(err); got != row.want {
				t.Errorf("got %q want %q", got, row.want)
			}
			if accept := json.Valid([]byte(row.value)) && utf8.ValidString(row.value); accept != (row.want == "") {
				t.Errorf("encoding/json accepts: %t", accept)
			}
		})
	}
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// TestValidEveryAlignment moves a special byte through all lanes of a word, and the
// end of the body behind it.
func TestValidEveryAlignment(t *testing.T) {
	for before := range 20 {
		for after := range 20 {
			for _, mid := range []string{"", `\n`, `\u00e4`, "ä", "順", "😀", "\x7f", "!#[]~"} {
				value := `"` + strings.Repeat("x", before) + mid + strings.Repeat("y", after) + `"`
				if err := Valid([]byte(value)); err != nil {
					t.Fatalf("%q: %v", value, err)
				}
				if err := Valid([]byte(value[:len(value)-1])); err == nil {
					t.Fatalf("accepted without the closing quote: %q", value)
				}
			}
			for _, mid := range []string{`"`, "\x00", "\x1f", "\n", "\x80", "\xff", "\xe2\x82", `\x`} {
				value := `"` + strings.Repeat("x", before) + mid + strings.Repeat("y", after) + `"`
				if err := Valid([]byte(value)); err == nil {
					t.Fatalf("accepted %q", value)
				}
			}
		}
	}
}

// TestValidEveryByte compares the whole of special and digits with encoding/json: each
// byte, alone in a string and inside of a number.
func TestValidEveryByte(t *testing.T) {
	for c := range 256 {
		for _, value := range []string{
			`"` + string([]byte{byte(c)}) + `"`,
			`"abcd` + string([]byte{byte(c)}) + `efghijkl"`,
			`[12` + string([]byte{byte(c)}) + `345678901]`,
			`[` + string([]byte{byte(c)}) + `]`,
		} {
			want := json.Valid([]byte(value)) && utf8.ValidString(value)
			if err := Valid([]byte(value)); (err == nil) != want {
				t.Errorf("%q: got %v, want accept %t", value, err, want)
			}
		}
	}
}

func TestDepth(t *testing.T) {
	nested := func(open, inner, closer string, n int) []byte {
		return []byte(strings.Repeat(open, n) + inner + strings.Repeat(closer, n))
	}
	for _, n := range []int{1, 63, 64, 65, 127, 128, 129, 1000, maxDepth - 1, maxDepth, maxDepth + 1} {
		want := ""
		if n > maxDepth {
			want = "nested deeper than 10000 at byte 10000"
		}
		if got := text(Valid(nested("[", "", "]", n))); got != want {
			t.Errorf("%d arrays: got %q want %q", n, got, want)
		}
		if err := Valid(nested(`{"a":`, "1", "}", n)); (err == nil) != (n <= maxDepth) {
			t.Errorf("%d objects: got %v", n, err)
		}
		// Kinds alternate, so that a lost bit is a wrong closer.
		if err := Valid(nested(`[{"a":`, "[]", "}]", n/2)); (err == nil) != (n/2*2+1 <= maxDepth) {
			t.Errorf("%d alternating: got %v", n, err)
		}
	}
	for _, n := range []int{65, 129, 200} {
		value := nested("[", "", "]", n)
		value[len(value)-3] = '}'
		if err := Valid(value); err == nil {
			t.Errorf("%d arrays: accepted a wrong closer", n)
		}
	}
}

// TestDepthCountsTheEnvelope checks that a body is as deep as encoding/json says, and
// that an abyss is refused at the edge.
func TestDepthCountsTheEnvelope(t *testing.T) {
	var p Push
	for _, n := range []int{maxDepth - 3, maxDepth - 2, 100_000} {
		for _, member := range []string{`"payload":1,"x":`, `"payload":`} {
			body := []byte(`{"items":[{"queue":"q",` + member + strings.Repeat("[", n) + strings.Repeat("]", n) + `}]}`)
			if err := p.Decode(body); (err == nil) != json.Valid(body) || (err == nil) != (n <= maxDepth-3) {
				t.Errorf("%d: got %v, encoding/json says %t", n, err, json.Valid(body))
			}
		}
	}
	if err := p.Decode([]byte(strings.Repeat("[", 100_000))); text(err) != "nested deeper than 10000 at byte 10000" {
		t.Errorf("got %v", err)
	}
	// A failure deep inside leaves nothing behind for the next body.
	if err := p.Decode([]byte(`{"items":[{"queue":"q","payload":` + strings.Repeat(`{"a":[`, 100) + strings.Repeat(`]}`, 100) + `}]}`)); err != nil {
		t.Errorf("got %v", err)
	}
}

func TestWholeNumber(t *testing.T) {
	rows := []struct {
		value string
		want  int64
		ok    bool
	}{
		{"0", 0, true}, {"-0", 0, true}, {"-0.0e5", 0, true}, {"0e99999999999999999999", 0, true},
		{"7", 7, true}, {"-7", -7, true}, {"5.0", 5, true}, {"1e2", 100, true}, {"1E+2", 100, true},
		{"1.5e1", 15, true}, {"50e-1", 5, true}, {"120.00", 120, true}, {"1000e-3", 1, true},
		{"100200300", 100200300, true}, {"0.001e3", 1, true}, {"1.20e2", 120, true},
		{"9223372036854775807", 1<<63 - 1, true}, {"-9223372036854775808", -1 << 63, true},
		{"9223372036854775808", 0, false}, {"-9223372036854775809", 0, false},
		{"18446744073709551615", 0, false}, {"18446744073709551616", 0, false}, {"184467440737095516160", 0, false},
		{"9.223372036854775807e18", 1<<63 - 1, true}, {"1e18", 1_000_000_000_000_000_000, true}, {"1e19", 0, false},
		{"5.5", 0, false}, {"1e-1", 0, false}, {"15e-1", 0, false}, {"0.1", 0, false},
		{"1e99999999999999999999", 0, false}, {"1e-99999999999999999999", 0, false},
		{"1" + strings.Repeat("0", 50) + "e-50", 1, true},
		{"true", 0, false}, {"null", 0, false}, {`"5"`, 0, false}, {"[5]", 0, false}, {"{}", 0, false},
	}
	for _, row := range rows {
		got, ok := wholeNumber([]byte(row.value))
		if ok != row.ok || ok && got != row.want {
			t.Errorf("%s: got %d %t want %d %t", row.value, got, ok, row.want, row.ok)
		}
	}
}

func FuzzValid(f *testing.F) {
	for _, seed := range []string{`{"a":[1,-2.5e+3,true,false,null,"\u00e9\"x"]}`, " [ ] ", "\"\xf0\x9f\x98\x80\xc3\"", `[[[{"a":{}}]]]`, "123456789.0123456789e99"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, value []byte) {
		want := json.Valid(value) && utf8.Valid(value)
		err := Valid(value)
		if (err == nil) != want {
			t.Fatalf("got %v, want accept %t", err, want)
		}
		if e, ok := err.(*Error); ok && (e.Offset < 0 || e.Offset > len(value)) {
			t.Fatalf("offset %d of %d bytes", e.Offset, len(value))
		}
		if err == nil {
			checkNumber(t, value)
		}
	})
}

// checkNumber compares wholeNumber with encoding/json where both are exact.
func checkNumber(t *testing.T, value []byte) {
	var n int64
	value = []byte(strings.Trim(string(value), " \t\r\n"))
	if string(value) == "null" || json.Unmarshal(value, &n) != nil {
		return
	}
	if got, ok := wholeNumber(value); !ok || got != n {
		t.Fatalf("%s: got %d %t want %d", value, got, ok, n)
	}
}

func ExampleValid() {
	fmt.Println(Valid([]byte(`{"a":tru}`)))
	// Output: unexpected '}' at byte 8
}
