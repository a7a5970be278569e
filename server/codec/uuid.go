package codec

import "encoding/binary"

// uuidLen is the length of a UUID in its canonical form, 8-4-4-4-12 digits.
const uuidLen = 36

// uuidPairs is where the two digits of each byte of a UUID stand.
var uuidPairs = [16]uint8{0, 2, 4, 6, 9, 11, 14, 16, 19, 21, 24, 26, 28, 30, 32, 34}

// AppendUUID appends u to dst as a JSON string in canonical form, lower case.
func AppendUUID(dst []byte, u [16]byte) []byte {
	dst = append(dst, `"00000000-0000-0000-0000-000000000000"`...)
	text := (*[uuidLen]byte)(dst[len(dst)-uuidLen-1:])
	le := binary.LittleEndian
	second, third := hex8(le.Uint32(u[4:])), hex8(le.Uint32(u[8:]))
	le.PutUint64(text[0:], hex8(le.Uint32(u[0:])))
	le.PutUint32(text[9:], uint32(second))
	le.PutUint32(text[14:], uint32(second>>32))
	le.PutUint32(text[19:], uint32(third))
	le.PutUint32(text[24:], uint32(third>>32))
	le.PutUint64(text[28:], hex8(le.Uint32(u[12:])))
	return dst
}

// hex8 returns the eight hexadecimal digits of four bytes, in lanes of one word. First
// and lowest is the digit of the high half of the lowest byte.
func hex8(x uint32) uint64 {
	w := uint64(x)
	w = (w | w<<16) & 0x0000ffff0000ffff
	w = (w | w<<8) & 0x00ff00ff00ff00ff // one byte in each 16 bits
	w = (w>>4 | w<<8) & (lanes * 0x0f)  // one digit in each lane
	letters := (w + lanes*6) >> 4 & lanes
	return w + lanes*'0' + letters*('a'-'0'-10)
}

// ParseUUID reads a UUID in canonical form, in either case. Braces, prefixes and
// missing dashes are refused: an id has one spelling.
func ParseUUID(b []byte) (u [16]byte, ok bool) {
	if len(b) != uuidLen || b[8] != '-' || b[13] != '-' || b[18] != '-' || b[23] != '-' {
		return u, false
	}
	for i, at := range uuidPairs {
		high, low := unhex(b[at]), unhex(b[at+1])
		if high < 0 || low < 0 {
			return [16]byte{}, false
		}
		u[i] = byte(high<<4 | low)
	}
	return u, true
}
