package faultfs

import "syscall"

// Errors a Fault usually carries.
const (
	EIO    = syscall.EIO
	ENOSPC = syscall.ENOSPC
)

// Fault is what happens to a mutating call: a write, sync, create, rename, remove,
// mkdir, truncate or syncdir.
type Fault struct {
	Err    error // what the call returns; nil stands for EIO
	Short  bool  // a write writes the first half of its bytes before it fails
	Sticky bool  // every later mutating call fails too, with nothing written
}

func (f Fault) err() error {
	if f.Err == nil {
		return EIO
	}
	return f.Err
}

// FailAt arms one fault, replacing any before it, for mutating call n. Calls count
// from 0 since New or the crash that made this FS, so Calls()+i is i calls from now.
// A negative n disarms.
func (f *FS) FailAt(n int, fault Fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.faultAt, f.fault = n, fault
}

// Calls returns how many mutating calls were made, failed ones included. The fault
// armed for n has been met once Calls() > n.
func (f *FS) Calls() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.calls
}

// step counts a mutating call and returns the fault that meets it, if any.
func (f *FS) step() (fault Fault, failed bool) {
	n := f.calls
	f.calls++
	switch {
	case f.faultAt < 0 || n < f.faultAt:
		return Fault{}, false
	case n == f.faultAt:
		return f.fault, true
	}
	fault = f.fault
	fault.Short = false
	return fault, fault.Sticky
}
