package codec

import (
	"bytes"
	"strconv"
	"unicode/utf8"
)

// QueryError says what is wrong with a query string or a path segment.
type QueryError struct {
	Text string
}

func (e *QueryError) Error() string { return e.Text }

// Values are the parameters of one query. The zero value is ready, and reusing one
// costs no allocation once it has seen queries of that size. Not safe for concurrent
// use.
type Values struct {
	pairs   []pair
	scratch []byte // what escapes were decoded to
}

type pair struct {
	name, value []byte
}

// maxKeptPairs bounds the pairs that reused Values keep room for.
const maxKeptPairs = 64

// Reset forgets the last query.
func (v *Values) Reset() {
	clear(v.pairs)
	if v.pairs = v.pairs[:0]; cap(v.pairs) > maxKeptPairs {
		v.pairs = nil
	}
	if v.scratch = v.scratch[:0]; cap(v.scratch) > maxKeptScratch {
		v.scratch = nil
	}
}

// ParseQuery is Values.Parse for callers who keep no Values to reuse.
func ParseQuery(raw []byte) (Values, error) {
	var v Values
	err := v.Parse(raw)
	return v, err
}

// Parse reads the query raw, without its question mark. A plus sign is a space, and of
// equal names the last one counts. An escape that is not one, or bytes that are not
// UTF-8, make a *QueryError, whatever the parameter. The values hold until the next
// Parse or Reset, or until raw changes.
func (v *Values) Parse(raw []byte) error {
	v.Reset()
	for len(raw) > 0 {
		part := raw
		if n := bytes.IndexByte(raw, '&'); n >= 0 {
			part, raw = raw[:n:n], raw[n+1:]
		} else {
			raw = nil
		}
		if len(part) == 0 {
			continue
		}
		name, value, _ := bytes.Cut(part, []byte{'='})
		var p pair
		var err error
		if p.name, err = v.decode(name); err != nil {
			return err
		}
		if p.value, err = v.decode(value); err != nil {
			return err
		}
		v.pairs = append(v.pairs, p)
	}
	return nil
}

// decode resolves the escapes of a name or a value, into scratch if there are any.
func (v *Values) decode(raw []byte) ([]byte, error) {
	if bytes.IndexByte(raw, '%') < 0 && bytes.IndexByte(raw, '+') < 0 {
		return raw, validText(raw)
	}
	start := len(v.scratch)
	var err error
	if v.scratch, err = appendQueryDecoded(v.scratch, raw); err != nil {
		return nil, err
	}
	out := v.scratch[start:len(v.scratch):len(v.scratch)]
	return out, validText(out)
}

// Get returns the value of a parameter, and whether it is there.
func (v *Values) Get(name string) ([]byte, bool) {
	for i := len(v.pairs) - 1; i >= 0; i-- {
		if string(v.pairs[i].name) == name {
			return v.pairs[i].value, true
		}
	}
	return nil, false
}

// String returns a copy of the value of a parameter, or def if it is not there.
func (v *Values) String(name, def string) string {
	if value, ok := v.Get(name); ok {
		return string(value)
	}
	return def
}

// Int returns the value of a parameter, or def if it is not there. A value that is not
// a decimal integer of 64 bits makes a *QueryError.
func (v *Values) Int(name string, def int64) (int64, error) {
	value, ok := v.Get(name)
	if !ok {
		return def, nil
	}
	n, err := strconv.ParseInt(string(value), 10, 64)
	if err != nil {
		return 0, &QueryError{Text: name + ": " + quote(value) + " is not an integer"}
	}
	return n, nil
}

// Bool returns the value of a parameter, or def if it is not there. Anything but true
// and false makes a *QueryError.
func (v *Values) Bool(name string, def bool) (bool, error) {
	value, ok := v.Get(name)
	switch {
	case !ok:
		return def, nil
	case string(value) == "true":
		return true, nil
	case string(value) == "false":
		return false, nil
	}
	return false, &QueryError{Text: name + ": " + quote(value) + " is not true or false"}
}

// quote shows a value in an error text.
func quote(value []byte) string {
	return string(AppendString(nil, excerpt(value)))
}

// PathSegment decodes one segment of a path, once: %2F is a slash inside of a name,
// and a plus sign is a plus sign. Any text is a name, NUL included, but bytes that are
// not UTF-8 make a *QueryError. A percent sign that begins no escape is one, because
// there are clients that escape no names: they could not reach a queue named "50%".
// Without percent signs the result is raw itself, otherwise a copy.
func PathSegment(raw []byte) ([]byte, error) {
	if bytes.IndexByte(raw, '%') < 0 {
		return raw, validText(raw)
	}
	out := make([]byte, 0, len(raw))
	for i := 0; i < len(raw); i++ {
		c := raw[i]
		if escaped, ok := unescape(raw[i:]); ok {
			c = escaped
			i += 2
		}
		out = append(out, c)
	}
	return out, validText(out)
}

// appendQueryDecoded appends raw to dst with its escapes resolved and each plus sign a
// space.
func appendQueryDecoded(dst, raw []byte) ([]byte, error) {
	for i := 0; i < len(raw); i++ {
		switch c := raw[i]; c {
		case '+':
			dst = append(dst, ' ')
		case '%':
			escaped, ok := unescape(raw[i:])
			if !ok {
				return dst, &QueryError{Text: "invalid escape " + quote(raw[i:min(i+3, len(raw))])}
			}
			dst = append(dst, escaped)
			i += 2
		default:
			dst = append(dst, c)
		}
	}
	return dst, nil
}

// unescape resolves the percent escape that b begins with.
func unescape(b []byte) (c byte, ok bool) {
	if len(b) < 3 || b[0] != '%' {
		return 0, false
	}
	high, low := unhex(b[1]), unhex(b[2])
	return byte(high<<4 | low), high >= 0 && low >= 0
}

// validText refuses what could not be written as JSON again.
func validText(b []byte) error {
	if !utf8.Valid(b) {
		return &QueryError{Text: "invalid UTF-8 in " + quote(b)}
	}
	return nil
}
