// Package acceptance holds the tests of the whole broker: they open a data directory,
// serve it, and speak to it as a client does, in requests and bytes. Nothing of the
// broker is faked and nothing inside of it is looked at.
//
// The package has no code but tests. Its life is that of a world (harness_test.go):
//
//   - open makes a data directory and serves it on a listener in memory, or on
//     loopback where a test is about sockets.
//   - restart closes the broker and opens its directory again; crash opens a copy of
//     the directory that was taken while the broker had it open, which is what a killed
//     process leaves behind.
//   - The end of the test stops the server and closes the broker; an error of either
//     fails the test.
//
// # Answers
//
// Every answer is decoded by type (wire_test.go): the keys of each object have to be the
// documented ones, in the documented order, and the JSON compact. What holds for every
// answer of a route is checked by the helper that makes the request (client_test.go), so
// that no test can forget it.
//
// # Time
//
// No test sleeps. The clock of a world is the real one plus what the test has advanced
// it by. Where the broker has to notice by itself that time has passed, leases last a
// second and a long poll waits for what follows.
package acceptance
