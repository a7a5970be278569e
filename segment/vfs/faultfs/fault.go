package faultfs

import (
	"math/bits"
	"syscall"
)

// Errors a Fault usually carries.
const (
	EIO    = syscall.EIO
	ENOSPC = syscall.ENOSPC
)

// Kinds is a set of kinds of calls.
type Kinds uint16

// The kinds of calls. Open is that of a file for reading, or for writing as it is; one that
// creates it is a Create.
const (
	Write Kinds = 1 << iota
	Sync
	Truncate
	Create
	Rename
	Remove
	Mkdir
	SyncDir
	Open
	Read

	// Mutating are those that change the disk.
	Mutating = Write | Sync | Truncate | Create | Rename | Remove | Mkdir | SyncDir
)

var kindNames = [...]string{"write", "sync", "truncate", "create", "rename", "remove", "mkdir", "syncdir", "open", "read"}

// String returns the name of a single kind, and of a set that of its first.
func (k Kinds) String() string {
	if k == Mutating {
		return "mutating call"
	}
	return kindNames[bits.TrailingZeros16(uint16(k))]
}

// Fault is what happens to a call.
type Fault struct {
	Kinds  Kinds // of the calls that count and may fail; 0 stands for Mutating
	Err    error // what the call returns; nil stands for EIO
	Short  bool  // a write writes the first half of its bytes before it fails
	Sticky bool  // every later call of these kinds fails too, with nothing written
}

func (f Fault) err() error {
	if f.Err == nil {
		return EIO
	}
	return f.Err
}

func (f Fault) kinds() Kinds {
	if f.Kinds == 0 {
		return Mutating
	}
	return f.Kinds
}

// FailAt arms one fault, replacing any before it, for call n of its kinds. Calls count
// from 0 since New or the crash that made this FS, so Calls()+i is i mutating calls from
// now. A negative n disarms.
func (f *FS) FailAt(n int, fault Fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.faultAt, f.fault = n, fault
}

// Calls returns how many mutating calls were made, failed ones included. The fault
// armed for n has been met once Calls() > n.
func (f *FS) Calls() int { return f.CallsOf(Mutating) }

// CallsOf returns how many calls of these kinds were made.
func (f *FS) CallsOf(k Kinds) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.callsOf(k)
}

func (f *FS) callsOf(k Kinds) (n int) {
	for ; k != 0; k &= k - 1 {
		n += f.calls[bits.TrailingZeros16(uint16(k))]
	}
	return n
}

// Observe has fn called before each mutating call reaches the disk, with the name that the
// call is about. No lock is held: fn may look at the disk, Crash it, and take its time.
func (f *FS) Observe(fn func(kind Kinds, name string)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.observer = fn
}

// Quietly calls fn. Until it returns calls are not observed, do not count and do not fail:
// it may look at what is there.
func (f *FS) Quietly(fn func()) {
	f.setQuiet(true)
	defer f.setQuiet(false)
	fn()
}

func (f *FS) setQuiet(quiet bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.quiet = quiet
}

func (f *FS) observe(k Kinds, name string) {
	f.mu.Lock()
	fn, quiet := f.observer, f.quiet
	f.mu.Unlock()
	if fn != nil && !quiet {
		fn(k, name)
	}
}

// step counts a call of one kind and returns the fault that meets it, if any.
func (f *FS) step(k Kinds) (fault Fault, failed bool) {
	if f.quiet {
		return Fault{}, false
	}
	n := f.callsOf(f.fault.kinds())
	f.calls[bits.TrailingZeros16(uint16(k))]++
	switch {
	case f.fault.kinds()&k == 0 || f.faultAt < 0 || n < f.faultAt:
		return Fault{}, false
	case n == f.faultAt:
		return f.fault, true
	}
	fault = f.fault
	fault.Short = false
	return fault, fault.Sticky
}
