package codec

// maxDepth bounds how deep arrays and objects may nest, envelope included. It is the
// limit of encoding/json, so what we accept any Go consumer can decode.
const maxDepth = 10_000

// scanner steps through one body. Its methods take the index of a byte and return
// the index of the next byte to read, or -1 with err set: an index kept in a register
// is what makes the scan fast. The zero value is ready; reset makes it so again.
//
// Nothing here recurses. While a value is skipped, the kinds of the open arrays and
// objects are bits of one word, and words beyond the first 64 levels go to spill.
type scanner struct {
	body []byte
	err  *Error // of syntax; the scan is over

	complaint *Error // valid JSON, but not what the route takes
	escaped   bool   // the last strings had escapes; see string

	scratch []byte   // strings whose escapes were resolved, one after the other
	spill   []uint64 // kinds of outer levels, 64 a word; empty between values
}

// maxKeptScratch bounds the scratch bytes that a pooled scanner keeps: one unusual
// body must not pin its memory for ever.
const maxKeptScratch = 1 << 20

// reset prepares s for body and forgets the previous one.
func (s *scanner) reset(body []byte) {
	s.body = body
	s.err, s.complaint = nil, nil
	s.spill = s.spill[:0]
	if s.scratch = s.scratch[:0]; cap(s.scratch) > maxKeptScratch {
		s.scratch = nil
	}
}

// fail records the syntax error e and returns the index that stops every caller.
func (s *scanner) fail(e *Error) int {
	s.err = e
	return -1
}

// Kinds of an open container, as bits.
const (
	inArray  = 0
	inObject = 1
)

// skip validates the value that begins at i and returns the index behind it. depth is
// the number of arrays and objects that are open around it.
//
// It is a state machine of four labels instead of a set of functions because calls
// and their spilled registers cost more than the work between them. Compact JSON
// takes the first branch at every label; white space is looked for only where the
// byte is not the expected one.
func (s *scanner) skip(at, depth int) int {
	b, i := s.body, uint(at)
	var (
		kinds uint64 // the lowest bit is the innermost container
		open  int    // containers opened here and not closed yet
		c     byte
	)

value:
	if i >= uint(len(b)) {
		return s.fail(unexpected(b, len(b)))
	}
	switch c = b[i]; c {
	case '"':
		if i = s.quoted(i + 1); i > uint(len(b)) {
			return -1
		}
	case '-', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9':
		if i = s.number(i); i > uint(len(b)) {
			return -1
		}
	case '{':
		if s.push(kinds, open, depth, i) < 0 {
			return -1
		}
		kinds = kinds<<1 | inObject
		open++
		i = skipSpace(b, i+1)
		if i < uint(len(b)) && b[i] == '}' {
			goto closed
		}
		goto name
	case '[':
		if s.push(kinds, open, depth, i) < 0 {
			return -1
		}
		kinds = kinds<<1 | inArray
		open++
		i = skipSpace(b, i+1)
		if i < uint(len(b)) && b[i] == ']' {
			goto closed
		}
		goto value
	case ' ', '\t', '\r', '\n':
		i = skipSpace(b, i)
		goto value
	default:
		if i = s.literal(i); i > uint(len(b)) {
			return -1
		}
	}

after: // a value has ended before i
	if open == 0 {
		return int(i)
	}
	if i >= uint(len(b)) {
		return s.fail(unexpected(b, len(b)))
	}
	switch c = b[i]; {
	case c == ',':
		i++
		if kinds&1 == inArray {
			goto value
		}
	case c == ']' && kinds&1 == inArray, c == '}' && kinds&1 == inObject:
		goto closed
	case isSpace(c):
		i = skipSpace(b, i)
		goto after
	default:
		return s.fail(unexpected(b, int(i)))
	}

name: // of a member of an object
	if i >= uint(len(b)) || b[i] != '"' {
		if i = skipSpace(b, i); i >= uint(len(b)) || b[i] != '"' {
			return s.fail(unexpected(b, int(i)))
		}
	}
	if i = s.quoted(i + 1); i > uint(len(b)) {
		return -1
	}
	if i >= uint(len(b)) || b[i] != ':' {
		if i = skipSpace(b, i); i >= uint(len(b)) || b[i] != ':' {
			return s.fail(unexpected(b, int(i)))
		}
	}
	i++
	goto value

closed: // b[i] closes the innermost container
	i++
	kinds >>= 1
	if open--; open&63 == 0 && open > 0 {
		kinds = s.spill[len(s.spill)-1]
		s.spill = s.spill[:len(s.spill)-1]
	}
	goto after
}

// push checks the depth of a container that opens at i and saves kinds when its 64
// bits are used up.
func (s *scanner) push(kinds uint64, open, depth int, i uint) int {
	if open&63 == 0 && open > 0 {
		s.spill = append(s.spill, kinds)
	}
	if open+depth >= maxDepth {
		return s.fail(&Error{Text: "nested deeper than 10000", Offset: int(i)})
	}
	return 0
}

// literal steps over true, false or null at i.
func (s *scanner) literal(i uint) uint {
	rest := s.body[i:]
	if len(rest) >= 4 {
		if word := string(rest[:4]); word == "true" || word == "null" {
			return i + 4
		}
		if len(rest) >= 5 && string(rest[:5]) == "false" {
			return i + 5
		}
	}
	return s.badLiteral(i)
}

// badLiteral finds the byte at which the word at i stops being one of JSON's.
func (s *scanner) badLiteral(i uint) uint {
	var word string
	switch s.body[i] {
	case 't':
		word = "true"
	case 'f':
		word = "false"
	case 'n':
		word = "null"
	}
	for n := range len(word) {
		if i >= uint(len(s.body)) || s.body[i] != word[n] {
			break
		}
		i++
	}
	return uint(s.fail(unexpected(s.body, int(i))))
}

func isSpace(c byte) bool {
	return c == ' ' || c == '\n' || c == '\r' || c == '\t'
}

// skipSpace returns the index of the first byte from i on that is not white space.
func skipSpace(b []byte, i uint) uint {
	for i < uint(len(b)) && isSpace(b[i]) {
		i++
	}
	return i
}
