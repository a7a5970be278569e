//go:build unix

package server

import "syscall"

// socketOpen looks at the socket without taking anything from it. End of file and
// errors mean that the peer is gone; nothing to read, or data, that it is there. Behind
// data that nobody has read an end of file does not show, so there the state is asked.
func socketOpen(fd int) bool {
	var b [1]byte
	for {
		n, _, err := syscall.Recvfrom(fd, b[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		switch err {
		case nil:
			return n > 0 && !peerClosed(fd)
		case syscall.EAGAIN:
			return true
		case syscall.EINTR:
		default:
			return false
		}
	}
}
