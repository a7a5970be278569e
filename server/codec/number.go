package codec

import (
	"encoding/binary"
	"math"
	"math/bits"
)

// digits returns the index of the first byte from i on that is not a digit. Eight
// bytes at a time: a lane of w^'0' is above 9 for all others, so adding 0x76 sets its
// high bit. A carry can only spoil lanes above the first mark.
func digits(b []byte, i uint) uint {
	for i+8 <= uint(len(b)) {
		w := binary.LittleEndian.Uint64(b[i:]) ^ lanes*'0'
		m := (w | (w + lanes*0x76)) & highBits
		if m != 0 {
			return i + uint(bits.TrailingZeros64(m))>>3
		}
		i += 8
	}
	for i < uint(len(b)) && isDigit(b[i]) {
		i++
	}
	return i
}

// number steps over the number at i.
func (s *scanner) number(i uint) uint {
	b := s.body
	if b[i] == '-' {
		i++
	}
	first := i
	if i = digits(b, i); i == first {
		return uint(s.fail(unexpected(b, int(i))))
	}
	if b[first] == '0' && i > first+1 {
		return uint(s.fail(unexpected(b, int(first+1))))
	}
	if i < uint(len(b)) && b[i] == '.' {
		first = i + 1
		if i = digits(b, first); i == first {
			return uint(s.fail(unexpected(b, int(i))))
		}
	}
	if i < uint(len(b)) && b[i]|0x20 == 'e' {
		i++
		if i < uint(len(b)) && (b[i] == '+' || b[i] == '-') {
			i++
		}
		first = i
		if i = digits(b, first); i == first {
			return uint(s.fail(unexpected(b, int(i))))
		}
	}
	return i
}

// wholeNumber gives the value of a valid JSON value that is a number, whole, and fits
// int64.
func wholeNumber(value []byte) (int64, bool) {
	if c := value[0]; c != '-' && !isDigit(c) {
		return 0, false
	}
	return integer(value)
}

// integer gives the value of a valid JSON number if it is whole and fits int64, however it is written: 5, 5.0, 50e-1 and 0.5e1 are all 5.
func integer(num []byte) (int64, bool) {
	negative := num[0] == '-'
	if negative {
		num = num[1:]
	}
	var (
		value uint64
		exp   int64 // what is left to multiply by: 10^exp
		zeros int64 // trailing zeros of the mantissa, held back from value
		i     int
		point bool
	)
	for ; i < len(num) && num[i]|0x20 != 'e'; i++ {
		c := num[i]
		if c == '.' {
			point = true
			continue
		}
		if point {
			exp--
		}
		if zeros++; c == '0' {
			continue
		}
		var ok bool
		if value, ok = shift(value, zeros); !ok || value > math.MaxUint64-9 {
			return 0, false
		}
		value += uint64(c - '0')
		zeros = 0
	}
	if i < len(num) {
		exp += exponent(num[i+1:])
	}
	if value, ok := shift(value, zeros+exp); ok {
		return signed(value, negative)
	}
	return 0, false
}

// exponent reads the digits behind an e. It stops growing where no mantissa that
// fits a body could balance it.
func exponent(b []byte) (exp int64) {
	negative := b[0] == '-'
	if negative || b[0] == '+' {
		b = b[1:]
	}
	for _, c := range b {
		if exp = exp*10 + int64(c-'0'); exp > math.MaxInt32*10 {
			break
		}
	}
	if negative {
		return -exp
	}
	return exp
}

// shift multiplies value by 10^n, and reports whether the result is whole and fits.
func shift(value uint64, n int64) (uint64, bool) {
	if value == 0 {
		return 0, true
	}
	if n < 0 {
		return 0, false // value does not end in zeros: integer holds them back
	}
	for ; n > 0; n-- {
		high, low := bits.Mul64(value, 10)
		if high != 0 {
			return 0, false
		}
		value = low
	}
	return value, true
}

// signed gives value its sign, where int64 has room for it.
func signed(value uint64, negative bool) (int64, bool) {
	if negative {
		return -int64(value), value <= 1<<63
	}
	return int64(value), value <= math.MaxInt64
}
