//go:build !unix

package server

// socketOpen cannot look here: every open connection counts as alive.
func socketOpen(int, bool) bool { return true }
