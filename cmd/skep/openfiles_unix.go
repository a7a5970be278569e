//go:build unix

package main

import "syscall"

// openFileLimit returns how many files the process may have open, or 0 if that is not known.
// Go raises the soft limit to the hard one when it starts.
func openFileLimit() uint64 {
	var l syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &l); err != nil {
		return 0
	}
	return uint64(l.Cur) //nolint:unconvert // it is signed on some systems
}
