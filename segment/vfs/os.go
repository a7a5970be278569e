package vfs

import (
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// Permissions of what OS creates: messages are nobody else's business.
const (
	dirPerm  = 0o750
	filePerm = 0o640
)

// OS is the file system of the operating system.
var OS FS = osFS{}

type osFS struct{}

func (osFS) Open(name string) (File, error) {
	return wrap(os.Open(name))
}

func (osFS) Create(name string) (File, error) {
	return wrap(os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_TRUNC, filePerm))
}

func (osFS) OpenReadWrite(name string) (File, error) {
	return wrap(os.OpenFile(name, os.O_RDWR, 0))
}

func (osFS) Remove(name string) error     { return os.Remove(name) }
func (osFS) RemoveAll(name string) error  { return os.RemoveAll(name) }
func (osFS) Rename(from, to string) error { return os.Rename(from, to) }
func (osFS) MkdirAll(name string) error   { return os.MkdirAll(name, dirPerm) }

func (osFS) List(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir) // sorted
	if err != nil {
		return nil, err
	}
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = e.Name()
	}
	return names, nil
}

func (osFS) Size(name string) (int64, error) {
	info, err := os.Stat(name)
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

func (osFS) SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// Lock uses flock: the kernel drops it with the last descriptor, so no stale lock
// survives a crash. The file is left in place when the lock is released; removing it
// would let two processes lock two files of one name.
func (osFS) Lock(name string) (io.Closer, error) {
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, filePerm)
	if err != nil {
		return nil, err
	}
	err = retry(func() error { return unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) })
	if err == nil {
		return f, nil
	}
	if errors.Is(err, unix.EWOULDBLOCK) {
		err = ErrLocked
	}
	return nil, errors.Join(fmt.Errorf("lock %s: %w", name, err), f.Close())
}

func (osFS) Free(dir string) (free, total int64, err error) {
	var st unix.Statfs_t
	if err := retry(func() error { return unix.Statfs(dir, &st) }); err != nil {
		return 0, 0, &os.PathError{Op: "statfs", Path: dir, Err: err}
	}
	free, total = room(&st)
	return free, total, nil
}

const (
	// minFiles and maxFiles bound how many files must be possible for there to be room at
	// all. A checkpoint makes one of the journal and one for each queue with new messages.
	minFiles = 32
	maxFiles = 1024
)

// room returns what Free does. A file system that counts no files has Files 0.
func room(st *unix.Statfs_t) (free, total int64) {
	block := int64(st.Bsize) //nolint:unconvert // of another type on other systems
	total = int64(st.Blocks) * block
	// Signed elsewhere. Some, Ceph among them, answer -1 here for no end of files.
	files, left := uint64(st.Files), uint64(st.Ffree) //nolint:unconvert // likewise
	if files > 0 && left < max(minFiles, min(files/16, maxFiles)) {
		return 0, total
	}
	return int64(st.Bavail) * block, total
}

// osFile adds to os.File what File asks for beyond it.
type osFile struct{ *os.File }

func wrap(f *os.File, err error) (File, error) {
	if err != nil {
		return nil, err // not a File holding a nil *os.File
	}
	return osFile{f}, nil
}

func (f osFile) Sync() error {
	if err := datasync(f.File); err != nil {
		return &os.PathError{Op: "fdatasync", Path: f.Name(), Err: err}
	}
	return nil
}

func (f osFile) Size() (int64, error) {
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

// retry repeats a system call that a signal has interrupted before it began.
func retry(call func() error) error {
	for {
		if err := call(); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}
