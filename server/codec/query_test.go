package codec

import (
	"errors"
	"net/url"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestValues(t *testing.T) {
	rows := []struct{ name, raw, key, want string }{
		{"plain", "a=1&b=2", "b", "2"},
		{"absent", "a=1", "b", "default"},
		{"empty query", "", "a", "default"},
		{"empty value", "a=", "a", ""},
		{"no equals sign", "a&b=1", "a", ""},
		{"last wins", "a=1&a=2", "a", "2"},
		{"plus is a space", "a=x+y", "a", "x y"},
		{"escaped plus", "a=x%2By", "a", "x+y"},
		{"escapes", "a=%C3%a4%26%3D%00", "a", "ä&=\x00"},
		{"escaped name", "%61+b=1", "a b", "1"},
		{"raw beyond ASCII, M-801", "a=Größe/1", "a", "Größe/1"},
		{"second equals sign", "a=b=c", "a", "b=c"},
		{"empty parts", "&&a=1&", "a", "1"},
		{"semicolon separates nothing", "a=1;b=2", "a", "1;b=2"},
		{"names are case-sensitive", "A=1", "a", "default"},
		{"not decoded twice", "a=%2525", "a", "%25"},
	}
	var v Values
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			if err := v.Parse([]byte(row.raw)); err != nil {
				t.Fatal(err)
			}
			if got := v.String(row.key, "default"); got != row.want {
				t.Errorf("got %q want %q", got, row.want)
			}
		})
	}
}

func TestValuesRefuse(t *testing.T) {
	for raw, want := range map[string]string{
		"a=%":                             `invalid escape "%"`,
		"a=%4":                            `invalid escape "%4"`,
		"a=%4x":                           `invalid escape "%4x"`,
		"a=%+1":                           `invalid escape "%+1"`,
		"b=1&%zz=1":                       `invalid escape "%zz"`,
		"a=%ff":                           "invalid UTF-8 in \"\ufffd\"",
		"unknown=%c3+x":                   "invalid UTF-8 in \"\ufffd x\"",
		"a=\xff":                          "invalid UTF-8 in \"\ufffd\"",
		"a=" + strings.Repeat("\x98", 65): `invalid UTF-8 in "` + strings.Repeat("\ufffd", 60) + `..."`,
		"\x80=1":                          "invalid UTF-8 in \"\ufffd\"",
	} {
		_, err := ParseQuery([]byte(raw))
		var e *QueryError
		if !errors.As(err, &e) || err.Error() != want {
			t.Errorf("%q: got %v want %s", raw, err, want)
		}
	}
}

func TestValuesInt(t *testing.T) {
	rows := []struct {
		raw  string
		want int64
		err  string
	}{
		{"", 200, ""},
		{"batch=10", 10, ""},
		{"batch=-1", -1, ""},
		{"batch=0010", 10, ""},
		{"batch=abc", 0, `batch: "abc" is not an integer`},
		{"batch=", 0, `batch: "" is not an integer`},
		{"batch=1.5", 0, `batch: "1.5" is not an integer`},
		{"batch=1_000", 0, `batch: "1_000" is not an integer`},
		{"batch=0x10", 0, `batch: "0x10" is not an integer`},
		{"batch=+1", 0, `batch: " 1" is not an integer`},
		{"batch=9223372036854775808", 0, `batch: "9223372036854775808" is not an integer`},
		{"batch=%22", 0, `batch: "\"" is not an integer`},
	}
	for _, row := range rows {
		v, err := ParseQuery([]byte(row.raw))
		if err != nil {
			t.Fatal(err)
		}
		if got, err := v.Int("batch", 200); got != row.want || text(err) != row.err {
			t.Errorf("%s: got %d, %v want %d, %q", row.raw, got, err, row.want, row.err)
		}
	}
}

func TestValuesBool(t *testing.T) {
	rows := []struct {
		raw       string
		def, want bool
		err       string
	}{
		{"", true, true, ""},
		{"", false, false, ""},
		{"wait=true", false, true, ""},
		{"wait=false", true, false, ""},
		{"wait=1", true, false, `wait: "1" is not true or false`},
		{"wait=True", true, false, `wait: "True" is not true or false`},
		{"wait", true, false, `wait: "" is not true or false`},
	}
	for _, row := range rows {
		v, err := ParseQuery([]byte(row.raw))
		if err != nil {
			t.Fatal(err)
		}
		if got, err := v.Bool("wait", row.def); got != row.want || text(err) != row.err {
			t.Errorf("%s: got %t, %v want %t, %q", row.raw, got, err, row.want, row.err)
		}
	}
}

func TestPathSegment(t *testing.T) {
	rows := []struct{ raw, want, err string }{
		{"orders", "orders", ""},
		{"", "", ""},
		{"a%2Fb", "a/b", ""},
		{"a+b", "a+b", ""},
		{"a%20b+", "a b+", ""},
		{"%252F", "%2F", ""},
		{"%2e%2e", "..", ""},
		{"%00", "\x00", ""},
		{"Gr%C3%B6%C3%9Fe", "Größe", ""},
		{"Größe 😀", "Größe 😀", ""},
		{"a%", "a%", ""},
		{"a%2", "a%2", ""},
		{"%gg", "%gg", ""},
		{"50%%20off", "50% off", ""},
		{"%%%41", "%%A", ""},
		{"a%+", "a%+", ""},
		{"%ff", "", "invalid UTF-8 in \"\ufffd\""},
		{"\xff", "", "invalid UTF-8 in \"\ufffd\""},
	}
	for _, row := range rows {
		got, err := PathSegment([]byte(row.raw))
		if text(err) != row.err || err == nil && string(got) != row.want {
			t.Errorf("%s: got %q, %v want %q, %q", row.raw, got, err, row.want, row.err)
		}
	}
}

// escapeStray escapes the percent signs that begin no escape.
func escapeStray(s string) string {
	var b strings.Builder
	for i := range len(s) {
		b.WriteByte(s[i])
		if _, err := url.PathUnescape(s[i:min(i+3, len(s))]); s[i] == '%' && err != nil {
			b.WriteString("25")
		}
	}
	return b.String()
}

func FuzzQuery(f *testing.F) {
	f.Add([]byte("a=1&b=%20x+y&&c"))
	f.Add([]byte("%61=%ff&a=%"))
	f.Add([]byte("50%%20off%2"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		segment, err := PathSegment(raw)
		want, wantErr := url.PathUnescape(escapeStray(string(raw)))
		ok := wantErr == nil && utf8.ValidString(want)
		if (err == nil) != ok || ok && string(segment) != want {
			t.Fatalf("segment: got %q, %v want %q, %v", segment, err, want, wantErr)
		}
		v, err := ParseQuery(append([]byte("k="), raw...))
		if err != nil {
			return
		}
		for _, p := range v.pairs {
			if !utf8.Valid(p.name) || !utf8.Valid(p.value) {
				t.Fatalf("got %q=%q", p.name, p.value)
			}
		}
	})
}
