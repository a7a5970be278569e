// Package wire is the cheapest HTTP/1.1 client that can still tell a wrong answer from a
// right one. Load generator and broker share the processor, so what the generator saves is
// what the broker is measured with.
//
// A Conn is one TCP connection. Do writes the bytes of a request as they are and reads one
// answer: status and body, framed by Content-Length; an answer in chunks is an error. The
// body lies in the connection's buffer until the next Do. Nothing is allocated unless an
// answer is longer than all before it.
package wire
