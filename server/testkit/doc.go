// Package testkit is what the tests of a whole broker have in common: server/acceptance and
// server/model serve one, speak to it, and copy its directory as a kill leaves it. Only tests
// import it.
//
// A world of theirs begins with Serve, which lets a server answer on a listener, and a
// NewClient that dials it; Call makes one request and reads the answer to its end. To kill the
// broker they read its directory with ReadStill, write that elsewhere, and open the copy.
//
// A Contract compares what is answered with what GET /openapi.json says. The tests of docs and
// of server/openapi use it as well.
package testkit
