package main

import (
	"bytes"
	"math/rand/v2"
	"strconv"
)

// A payload begins with the number of its message. What follows would not survive a
// broker that decodes and encodes again: a space, an integer that no float holds, and
// escapes that need not be.
const (
	payloadStart  = `{"m":`
	payloadMiddle = `, "big":9007199254740993,"esc":"\u00e9\/","pad":"`
	payloadEnd    = `"}`
	payloadMin    = 64
	payloadMax    = 64 << 10
)

const padAlphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+-"

// payloads makes the payload of any message from its number alone, so that none has to
// be remembered.
type payloads struct{ seed uint64 }

// append appends the payload of message n: most are small, a few are large, and half
// can be compressed.
func (p payloads) append(dst []byte, n uint32) []byte {
	rng := rand.New(rand.NewPCG(p.seed, uint64(n)))
	size := payloadSize(rng)
	start := len(dst)
	dst = append(dst, payloadStart...)
	dst = strconv.AppendUint(dst, uint64(n), 10)
	dst = append(dst, payloadMiddle...)
	pad := size - (len(dst) - start) - len(payloadEnd)
	if rng.IntN(2) == 0 {
		return append(appendPad(dst, pad, rng.Uint64), payloadEnd...)
	}
	same := rng.Uint64()
	return append(appendPad(dst, pad, func() uint64 { return same }), payloadEnd...)
}

func payloadSize(rng *rand.Rand) int {
	switch n := rng.IntN(100); {
	case n < 85:
		return payloadMin + rng.IntN(1<<10-payloadMin)
	case n < 98:
		return 1<<10 + rng.IntN(15<<10)
	default:
		return 16<<10 + rng.IntN(payloadMax-16<<10+1)
	}
}

func appendPad(dst []byte, n int, next func() uint64) []byte {
	for n > 0 {
		word := next()
		for range min(n, 10) {
			dst = append(dst, padAlphabet[word&63])
			word >>= 6
		}
		n -= 10
	}
	return dst
}

// payloadNumber returns the number of the message that data claims to be.
func payloadNumber(data []byte) (n uint32, ok bool) {
	rest, ok := bytes.CutPrefix(data, []byte(payloadStart))
	if !ok {
		return 0, false
	}
	digits := bytes.IndexByte(rest, ',')
	if digits < 0 {
		return 0, false
	}
	v, err := strconv.ParseUint(string(rest[:digits]), 10, 32)
	return uint32(v), err == nil
}
