package codec

import (
	"encoding/binary"
	"math/bits"
	"unicode/utf8"
	"unsafe"
)

// AppendString appends s to dst as a JSON string, quotes included. It escapes only
// what JSON demands, keeps other text as it is, and writes U+FFFD for each byte that
// is not part of valid UTF-8. It allocates only if dst lacks room.
func AppendString[T string | []byte](dst []byte, s T) []byte {
	b := bytesOf(s)
	dst = append(dst, '"')
	for {
		n := plainLen(b)
		dst = append(dst, b[:n]...)
		if n == len(b) {
			return append(dst, '"')
		}
		b = b[n:]
		if b[0] >= utf8.RuneSelf {
			r, size := utf8.DecodeRune(b)
			dst, b = utf8.AppendRune(dst, r), b[size:]
			continue
		}
		dst, b = appendEscaped(dst, b[0]), b[1:]
	}
}

// bytesOf returns the bytes of s without a copy. Nobody may write to them.
func bytesOf[T string | []byte](s T) []byte {
	if len(s) == 0 {
		return nil
	}
	switch s := any(s).(type) {
	case string:
		return unsafe.Slice(unsafe.StringData(s), len(s))
	case []byte:
		return s
	}
	return nil
}

// plainLen returns how many bytes at the front of b are ASCII and need no escape.
func plainLen(b []byte) int {
	i := 0
	for ; i+8 <= len(b); i += 8 {
		if m := special(binary.LittleEndian.Uint64(b[i:])); m != 0 {
			return i + bits.TrailingZeros64(m)>>3
		}
	}
	for i < len(b) && b[i] >= ' ' && b[i] < utf8.RuneSelf && b[i] != '"' && b[i] != '\\' {
		i++
	}
	return i
}

// appendEscaped appends the escape of a quote, a backslash or a control character.
func appendEscaped(dst []byte, c byte) []byte {
	switch c {
	case '"', '\\':
		return append(dst, '\\', c)
	case '\b':
		return append(dst, '\\', 'b')
	case '\f':
		return append(dst, '\\', 'f')
	case '\n':
		return append(dst, '\\', 'n')
	case '\r':
		return append(dst, '\\', 'r')
	case '\t':
		return append(dst, '\\', 't')
	}
	return append(dst, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
}

const hexDigits = "0123456789abcdef"
