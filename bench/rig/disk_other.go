//go:build !linux

package rig

// Disk is a file system of its own. Only Linux has them here.
type Disk struct{ Path string }

// OpenDisk says that only Linux can do this.
func OpenDisk(string, DiskOptions) (*Disk, error) { return nil, Lacking("not Linux") }

// Cut does nothing.
func (d *Disk) Cut(*Process) error { return nil }

// Close does nothing.
func (d *Disk) Close(bool) error { return nil }
