// Package model is a second, small broker: the rules of the message plane on plain maps
// and slices, one operation at a time, written to be obviously right. Only tests import
// it.
//
// The test of this package lives through random histories with a real broker, over HTTP
// and on a real directory, and does the same to a Model. Whatever the broker answers has
// to be what the model says, field by field. In between the broker is restarted, left
// behind for a copy of its directory as a killed process is, or made to file everything
// at once.
//
// # Choices
//
// Some answers are the broker's to choose: message ids, lease ids, which partitions a pop
// claims. A method of Model that meets a choice gets the answer, checks that it is
// allowed, and takes it over. Where a broker may or may not have noticed that time has
// passed, or forgotten an old transaction id, both are allowed, and the answer tells.
//
// # Time
//
// The clock is the test's. It moves on by a millisecond before each operation, so that the
// time of a message says which operation stored it, and otherwise by what a history says:
// often to the very moment at which a lease, a window or a delay ends, a millisecond
// before it, or one after.
//
// # Histories
//
// A failing history is printed with one line an operation, shortened as far as it still
// fails, and the seed that makes it again. What a broker does not offer yet, histories
// leave out: they ask it first.
package model
