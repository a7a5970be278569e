package main

import (
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// pause halts the process without its noticing; resume lets it go on.
func (p *process) pause() error  { return p.cmd.Process.Signal(syscall.SIGSTOP) }
func (p *process) resume() error { return p.cmd.Process.Signal(syscall.SIGCONT) }

// syncData makes what was appended to f durable in the way the broker does.
func syncData(f *os.File) error {
	for {
		if err := unix.Fdatasync(int(f.Fd())); err != unix.EINTR {
			return err
		}
	}
}

// alarm wakes a goroutine on time. A timer of an idle Go program is up to a millisecond
// late, which would be most of what we measure; a sleep in the kernel is not, but keeps one
// of the few processors of the scheduler from the other goroutines. The descriptor of a
// kernel timer, read through the poller, does neither.
type alarm struct{ f *os.File }

func newAlarm() (*alarm, error) {
	fd, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("make a timer: %w", err)
	}
	return &alarm{os.NewFile(uintptr(fd), "timer")}, nil
}

// wait returns at t, or at once if it has passed.
func (a *alarm) wait(t time.Time) error {
	left := time.Until(t)
	if left <= 0 {
		return nil
	}
	raw, err := a.f.SyscallConn() // Fd would make the descriptor block
	if err != nil {
		return err
	}
	spec := unix.ItimerSpec{Value: unix.NsecToTimespec(int64(left))}
	var setErr error
	if err := raw.Control(func(fd uintptr) { setErr = unix.TimerfdSettime(int(fd), 0, &spec, nil) }); err != nil {
		return err
	}
	if setErr != nil {
		return fmt.Errorf("set a timer: %w", setErr)
	}
	var expired [8]byte
	_, err = a.f.Read(expired[:])
	return err
}

func (a *alarm) close() error { return a.f.Close() }

func fileSystemOf(dir string) string {
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		return err.Error()
	}
	switch s.Type {
	case unix.EXT4_SUPER_MAGIC:
		return "ext4"
	case unix.XFS_SUPER_MAGIC:
		return "xfs"
	case unix.BTRFS_SUPER_MAGIC:
		return "btrfs"
	case unix.TMPFS_MAGIC:
		return "tmpfs: a sync costs nothing here, so these numbers mean little"
	case unix.OVERLAYFS_SUPER_MAGIC:
		return "overlay"
	}
	return fmt.Sprintf("type %#x", s.Type)
}

// raiseOpenFiles allows as many open files as the machine does, and returns how many.
// The processes we start inherit it.
func raiseOpenFiles() (int, error) {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return 0, err
	}
	limit.Cur = limit.Max
	err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit)
	return int(limit.Cur), err
}

// bytesWritten returns what a process that has ended had sent to the disk in all its life.
func bytesWritten(state *os.ProcessState) (int64, error) {
	used, ok := state.SysUsage().(*syscall.Rusage)
	if !ok {
		return 0, errors.ErrUnsupported
	}
	const block = 512 // the unit of getrusage
	return used.Oublock * block, nil
}
