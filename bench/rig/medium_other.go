//go:build !linux

package rig

// Medium is a block device whose sectors can be made to fail. Only Linux has them here.
type Medium struct{ Path string }

// OpenMedium says that only Linux can do this.
func OpenMedium(int64) (*Medium, error) { return nil, Lacking("not Linux") }

// Fail does nothing.
func (m *Medium) Fail(bool) error { return nil }

// Close does nothing.
func (m *Medium) Close() error { return nil }
