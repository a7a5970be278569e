//go:build unix

package server

import "syscall"

// socketOpen looks at the socket without taking anything from it. End of file and
// errors mean that the peer is gone; nothing to read, or data, that it is there. Behind
// data that nobody has read an end of file does not show, so there the state is asked.
// What waits on a TLS connection may be its end as well.
func socketOpen(fd int, tls bool) bool {
	var b [5]byte // the head of a TLS record
	for {
		n, _, err := syscall.Recvfrom(fd, b[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		switch err {
		case nil:
			return n > 0 && !peerClosed(fd) && !(tls && closeNotify(b[:n]))
		case syscall.EAGAIN:
			return true
		case syscall.EINTR:
		default:
			return false
		}
	}
}
