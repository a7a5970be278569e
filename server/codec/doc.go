// Package codec is JSON on the wire: it reads the bodies, queries and paths of requests
// and writes the strings, times and ids of answers. It knows the shapes of the HTTP API
// and nothing of the broker behind it.
//
// # The life of a body
//
// A handler takes a [Push] or an [AckBatch] from a pool and gives it the whole body.
// Decode walks the envelope, the objects and arrays whose members the route reads, and
// skips every other value. Both are one pass: skipping is validating, so at the end
// the body is known to be JSON in valid UTF-8 to its last byte. What it hands out are
// parts of the body, and where a name had escapes, scratch memory of the decoder. So a
// payload is the bytes that were sent, and nothing is copied until the broker does it.
// Reset, before the decoder goes back into its pool, lets go of the body.
//
// The decoders of rare requests ([DecodeConfigure], [DecodeReplay]) return copies.
//
// # What is accepted
//
// What encoding/json accepts, with these differences: bytes that are not UTF-8 are
// refused instead of replaced, and names of members count in their exact case. Names
// are compared with their escapes resolved, unknown ones are ignored, and the last of
// equal ones counts, even over an earlier one of a wrong type. Half of a surrogate pair
// is legal in a payload, which keeps it, and is U+FFFD in a name. Arrays and objects
// nest 10,000 deep, envelope included.
//
// # Errors
//
// A refused body makes an [*Error]. Syntax comes before everything else and names its
// byte; a body that is valid but not what its route takes names the member. The texts
// are meant for clients.
//
// # Design
//
// Validating is the dearest step of a push, so the scanner is ours. A push of 100
// orders, 42 KB, is read at 1.2 GB/s by one idle core and without an allocation: three
// times the speed of encoding/json's Valid alone, where the validators of gjson and
// fastjson reach not quite twice that speed. It looks at strings and digits eight bytes
// at a time in plain Go ("SWAR"), keeps its place in a register, has the kinds of open
// containers as bits of a word instead of a call stack, and does not look for white
// space where there is none. Vector instructions would be faster still, at the price of
// assembly for every architecture; a standard simd package would change our mind.
package codec
