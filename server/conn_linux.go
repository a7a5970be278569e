package server

import "golang.org/x/sys/unix"

// tcpCloseWait is the state of a socket whose peer has closed its sending side.
const tcpCloseWait = 8

// peerClosed reports whether the peer of a TCP socket has sent an end of file, read or
// not.
func peerClosed(fd int) bool {
	info, err := unix.GetsockoptTCPInfo(fd, unix.IPPROTO_TCP, unix.TCP_INFO)
	return err == nil && info.State == tcpCloseWait
}
