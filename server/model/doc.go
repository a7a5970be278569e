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
// Retention comes with every start, when it is known what it drops, and in between, when the
// broker tells how far it went and may not have gone too far.
//
// Half of the histories have two tenants who take turns, with a model each: what one does is
// nothing to the model of the other, who tries the ids of the first as well. The clock,
// maintenance and restarts are everybody's. One of the two has the id of zeros.
//
// A failing history is printed with one line an operation, shortened as far as it still
// fails, and the seed that makes it again. What a broker does not offer yet, histories
// leave out: they ask it first.
//
// # Many clients at once
//
// TestConcurrentHistories has clients contend for a few cursors and then asks package
// linear for an order of their requests that the model agrees with. What the broker decides
// as one is a step: a push to a partition, the acks of one partition and lease, the claim of
// one partition by a pop, a transaction. A request that is several decisions is several
// steps with the same instants.
//
// The clock stands still but for jumps, each a step of the history, so a lease has ended
// for everybody or for nobody, and what two requests make of a deadline tells in which
// order they came. The disk is in memory and takes its time to sync. A power cut copies
// what of it was synced, and any part of the rest, while requests are on their way: what was
// not answered by then has happened before the cut, as the broker would have answered, or
// never. Leases may be as they were before; see Crash.
//
// A pop waits for no other request: one that was under way with others may pass over what
// they are at, and only then. A list of dead letters may lack those on their way to disk.
// What has become of messages is compared when nobody else is at work, since it may be told
// before it is on disk.
package model
