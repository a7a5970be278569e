package codec

import (
	"bytes"
	"encoding/binary"
	"math/bits"
	"unicode/utf16"
	"unicode/utf8"
)

// Constants to look at eight bytes at once: the same byte in each lane of a word.
const (
	lanes    = 0x0101010101010101
	highBits = lanes * 0x80
	quotes   = lanes * '"'
	slashes  = lanes * '\\'
	spaces   = lanes * ' '
)

// special marks, by the high bit of its lane, every byte of w that ends or
// interrupts a run of plain text: quotes, backslashes, control characters, and all
// bytes of characters beyond ASCII. Lanes above the lowest mark may be marked
// wrongly, because the subtractions borrow from them; the lowest mark never is.
// After Bit Twiddling Hacks, "Determine if a word has a byte equal to n".
func special(w uint64) uint64 {
	q, s := w^quotes, w^slashes
	return ((q-lanes)&^q | (s-lanes)&^s | (w - spaces) | w) & highBits
}

// quoted steps over a string and returns the index behind its closing quote; the
// opening one is the byte before i.
func (s *scanner) quoted(i uint) uint {
	b := s.body
	for {
		for i+8 <= uint(len(b)) {
			m := special(binary.LittleEndian.Uint64(b[i:]))
			if m == 0 {
				i += 8
				continue
			}
			i += uint(bits.TrailingZeros64(m)) >> 3
			break
		}
		if i >= uint(len(b)) {
			return uint(s.fail(unexpected(b, len(b))))
		}
		switch c := b[i]; {
		case c == '"':
			return i + 1
		case c == '\\':
			i = s.escape(i)
		case c >= utf8.RuneSelf:
			i = s.runes(i)
		case c < ' ':
			return uint(s.fail(&Error{Text: "unescaped " + quoteByte(c) + " in a string", Offset: int(i)}))
		default:
			i++ // one of the last seven bytes of the body
		}
		if i > uint(len(b)) {
			return i
		}
	}
}

// escape steps over the escape sequence at i, and notes that there was one.
func (s *scanner) escape(i uint) uint {
	b := s.body
	s.escaped = true
	i++
	if i >= uint(len(b)) {
		return uint(s.fail(unexpected(b, len(b))))
	}
	switch b[i] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return i + 1
	case 'u':
		for range 4 {
			if i++; i >= uint(len(b)) {
				return uint(s.fail(unexpected(b, len(b))))
			}
			if unhex(b[i]) < 0 {
				return uint(s.fail(badEscape(b, i)))
			}
		}
		return i + 1
	}
	return uint(s.fail(badEscape(b, i)))
}

func badEscape(b []byte, i uint) *Error {
	return &Error{Text: "unexpected " + quoteByte(b[i]) + " in an escape", Offset: int(i)}
}

// runes steps over the run of characters beyond ASCII that begins at i.
func (s *scanner) runes(i uint) uint {
	b := s.body
	for i < uint(len(b)) && b[i] >= utf8.RuneSelf {
		// Two and three bytes are most of the world's writing. The first is never
		// an overlong form from 0xc2 on; 0xe0 and 0xed have rules of their own.
		if c := b[i]; c >= 0xc2 && c < 0xe0 && i+1 < uint(len(b)) && b[i+1]&0xc0 == 0x80 {
			i += 2
			continue
		} else if c > 0xe0 && c < 0xf0 && c != 0xed && i+2 < uint(len(b)) && b[i+1]&0xc0 == 0x80 && b[i+2]&0xc0 == 0x80 {
			i += 3
			continue
		}
		_, n := utf8.DecodeRune(b[i:])
		if n == 1 {
			return uint(s.fail(&Error{Text: "invalid UTF-8", Offset: int(i)}))
		}
		i += uint(n)
	}
	return i
}

// appendUnescaped appends the inside of a valid string to dst, with its escapes
// resolved. Half of a surrogate pair means nothing and becomes U+FFFD, as it does in
// encoding/json.
func appendUnescaped(dst, raw []byte) []byte {
	for {
		n := bytes.IndexByte(raw, '\\')
		if n < 0 {
			return append(dst, raw...)
		}
		dst = append(dst, raw[:n]...)
		c := raw[n+1]
		raw = raw[n+2:]
		switch c {
		case 'b':
			c = '\b'
		case 'f':
			c = '\f'
		case 'n':
			c = '\n'
		case 'r':
			c = '\r'
		case 't':
			c = '\t'
		case 'u':
			r := hex4(raw)
			raw = raw[4:]
			if utf16.IsSurrogate(r) && len(raw) >= 6 && raw[0] == '\\' && raw[1] == 'u' {
				if pair := utf16.DecodeRune(r, hex4(raw[2:])); pair != utf8.RuneError {
					r, raw = pair, raw[6:]
				}
			}
			dst = utf8.AppendRune(dst, r) // U+FFFD for a lone surrogate
			continue
		}
		dst = append(dst, c)
	}
}

// hex4 reads four hexadecimal digits.
func hex4(b []byte) rune {
	return unhex(b[0])<<12 | unhex(b[1])<<8 | unhex(b[2])<<4 | unhex(b[3])
}

// unhex gives the value of a hexadecimal digit, or -1.
func unhex(c byte) rune {
	switch {
	case c >= '0' && c <= '9':
		return rune(c - '0')
	case c >= 'a' && c <= 'f':
		return rune(c-'a') + 10
	case c >= 'A' && c <= 'F':
		return rune(c-'A') + 10
	}
	return -1
}
