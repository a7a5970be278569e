package server

import (
	"unsafe"

	"github.com/skepmq/skep/broker"
)

// maxName is the longest name of a queue, a partition or a group, in bytes: lengths
// of names are stored in 16 bits. Any valid UTF-8 is a name.
const (
	maxName     = 1<<16 - 1
	nameTooLong = " exceeds 65535 bytes"
)

// defaultPartition is the partition of a message that names none.
var defaultPartition = []byte("Default")

// borrow views b as a string, for calls that keep nothing of it.
func borrow(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

// borrowBytes views s as bytes, for calls that write nothing to it.
func borrowBytes(s string) []byte { return unsafe.Slice(unsafe.StringData(s), len(s)) }

// remember returns a string equal to b: last, if that is one.
func remember(last *string, b []byte) string {
	if *last != string(b) {
		*last = string(b)
	}
	return *last
}

// groupOrQueueMode resolves the group that a request names: none is queue mode.
func groupOrQueueMode(group string) string {
	if group == "" {
		return broker.QueueMode
	}
	return group
}
