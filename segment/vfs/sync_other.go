//go:build !linux

package vfs

import "os"

// datasync falls back on fsync where fdatasync is missing or, as on Darwin, does not
// reach the disk.
func datasync(f *os.File) error { return f.Sync() }
