package codec

import "strconv"

// The methods below walk the envelope of a body: the objects and arrays whose members
// a route reads. Like the rest of scanner they take and return indexes, and -1 means
// that s.err says why. The loop around them is always this one:
//
//	at, more := s.enter(at)
//	for more {
//		... at = the index behind the member or element at at
//		at, more = s.next(at, '}')
//	}
//
// A body has two ways to be wrong. Syntax ends the scan at once. What its route does
// not take, such as a missing field, is only noted as the complaint: the rest of the
// body must be looked at first, because a later duplicate of a key replaces it.

// begin enters the object that a body should be.
func (s *scanner) begin() (at int, more bool) {
	at = int(skipSpace(s.body, 0))
	if s.peek(at) == '{' {
		return s.enter(at)
	}
	s.complain("the body is not an object")
	return s.skip(at, 0), false
}

// finish checks that nothing but white space follows the value that ended before at,
// and returns what is wrong with the body: syntax first, then the complaint.
func (s *scanner) finish(at int) error {
	if at >= 0 {
		if n := skipSpace(s.body, uint(at)); n < uint(len(s.body)) {
			s.fail(unexpected(s.body, int(n)))
		}
	}
	switch {
	case s.err != nil:
		return s.err
	case s.complaint != nil:
		return s.complaint
	}
	return nil
}

// peek returns the byte at i, or 0 at the end of the body.
func (s *scanner) peek(i int) byte {
	if uint(i) < uint(len(s.body)) {
		return s.body[i]
	}
	return 0
}

// enter steps into the object or array at i. more is false if it is empty; at is then
// behind it.
func (s *scanner) enter(i int) (at int, more bool) {
	closer := s.body[i] + 2 // both pairs of brackets are two apart in ASCII
	at = int(skipSpace(s.body, uint(i+1)))
	if s.peek(at) == closer {
		return at + 1, false
	}
	return at, true
}

// next steps over the comma or the closer behind the member or element that ended
// before i.
func (s *scanner) next(i int, closer byte) (at int, more bool) {
	if i < 0 {
		return -1, false
	}
	i = int(skipSpace(s.body, uint(i)))
	switch s.peek(i) {
	case ',':
		return int(skipSpace(s.body, uint(i+1))), true
	case closer:
		return i + 1, false
	}
	return s.fail(unexpected(s.body, i)), false
}

// name reads the name of the member at i, with its escapes resolved, and steps to the
// value of that member.
func (s *scanner) name(i int) (name []byte, at int) {
	if s.peek(i) != '"' {
		return nil, s.fail(unexpected(s.body, i))
	}
	f := s.string(i)
	if f.to < 0 {
		return nil, -1
	}
	at = int(skipSpace(s.body, uint(f.to)))
	if s.peek(at) != ':' {
		return nil, s.fail(unexpected(s.body, at))
	}
	return s.text(f), int(skipSpace(s.body, uint(at+1)))
}

// field is where a value stands in the body. The zero field is absent.
type field struct {
	from, to int
	escaped  bool // a string that has escapes
}

// field validates the value at i, with depth as in skip. Its to is -1 if s.err is set.
func (s *scanner) field(i, depth int) field {
	if s.peek(i) == '"' {
		return s.string(i)
	}
	return field{from: i, to: s.skip(i, depth)}
}

// string is field for the string at i.
func (s *scanner) string(i int) field {
	s.escaped = false
	end := int(s.quoted(uint(i + 1)))
	return field{from: i, to: end, escaped: s.escaped}
}

// members reads an object behind enter, to behind its closing brace. It notes where
// the value of each of names stands in the field of the same place; of duplicates the
// last stays. depth counts the object itself.
func (s *scanner) members(at int, more bool, depth int, names []string, fields []field) int {
	for more {
		var name []byte
		if name, at = s.name(at); at < 0 {
			return -1
		}
		if i := indexOf(names, name); i >= 0 {
			fields[i] = s.field(at, depth)
			at = fields[i].to
		} else {
			at = s.skip(at, depth)
		}
		at, more = s.next(at, '}')
	}
	return at
}

// indexOf returns the place of name in names, or -1. The lists are short.
func indexOf(names []string, name []byte) int {
	for i, known := range names {
		if string(name) == known {
			return i
		}
	}
	return -1
}

// raw returns the bytes of a value as they were sent.
func (s *scanner) raw(f field) []byte {
	return s.body[f.from:f.to:f.to]
}

// text returns what a field that is a string means. Unless it has escapes, that is a
// part of the body.
func (s *scanner) text(f field) []byte {
	inside := s.body[f.from+1 : f.to-1 : f.to-1]
	if !f.escaped {
		return inside
	}
	start := len(s.scratch)
	s.scratch = appendUnescaped(s.scratch, inside)
	return s.scratch[start:len(s.scratch):len(s.scratch)]
}

// absent reports whether a field was not sent, or is null.
func (s *scanner) absent(f field) bool {
	return f.to == 0 || s.body[f.from] == 'n'
}

// isString reports whether a field is there and a string.
func (s *scanner) isString(f field) bool {
	return f.to > 0 && s.body[f.from] == '"'
}

// optional returns the text of a field that may be absent or null, then nil. ok is
// false if it is anything else than a string.
func (s *scanner) optional(f field) (text []byte, ok bool) {
	switch {
	case s.absent(f):
		return nil, true
	case s.isString(f):
		return s.text(f), true
	}
	return nil, false
}

// complain notes what the route cannot take. The first complaint is kept.
func (s *scanner) complain(text string) {
	if s.complaint == nil {
		s.complaint = &Error{Text: text, Offset: -1}
	}
}

// complainAt is complain about one element of an array, as in "items[3].queue is missing".
func (s *scanner) complainAt(array string, index int, text string) {
	if s.complaint == nil {
		s.complain(array + "[" + strconv.Itoa(index) + "]" + text)
	}
}
