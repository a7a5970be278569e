package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// fsShutdown is FS_IOC_SHUTDOWN, which fstests call "godown": the file system stops
	// at once and forgets what is not on disk. With noLogFlush that includes what its own
	// journal has not written.
	fsShutdown = 0x8004587d
	noLogFlush = 2

	imageBytes = 4 << 30 // sparse
)

// powerStore is an ext4 file system of its own, on a loop device.
type powerStore struct {
	image, mount string
}

// openPowerStore makes one under root. why says what the machine lacks, if it lacks
// something.
func openPowerStore(root string) (s store, why string, err error) {
	if os.Geteuid() != 0 {
		return nil, "not root", nil
	}
	for _, tool := range []string{"mkfs.ext4", "mount", "umount"} {
		if _, err := exec.LookPath(tool); err != nil {
			return nil, tool + " is missing", nil
		}
	}
	if _, err := os.Stat("/dev/loop-control"); err != nil {
		return nil, "no loop devices", nil
	}
	p := &powerStore{image: filepath.Join(root, "disk.img"), mount: filepath.Join(root, "disk")}
	if err := p.make(); err != nil {
		return nil, "", err
	}
	if err := p.mountIt(); err != nil {
		return nil, strings.TrimSpace(err.Error()), os.Remove(p.image) // a container may be denied it
	}
	return p, "", nil
}

func (s *powerStore) make() error {
	if err := os.Mkdir(s.mount, 0o700); err != nil {
		return err
	}
	f, err := os.Create(s.image)
	if err != nil {
		return err
	}
	if err := errors.Join(f.Truncate(imageBytes), f.Close()); err != nil {
		return err
	}
	return command("mkfs.ext4", "-q", "-F", s.image)
}

func command(name string, args ...string) error {
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", name, err, out)
	}
	return nil
}

func (s *powerStore) mountIt() error { return command("mount", "-o", "loop", s.image, s.mount) }

// unmountIt tries for a while: the kernel may still be busy with a process that it has
// already reported dead.
func (s *powerStore) unmountIt() (err error) {
	for range 50 {
		if err = command("umount", s.mount); err == nil {
			return nil
		}
		time.Sleep(20 * time.Millisecond)
	}
	return err
}

func (s *powerStore) dir() string { return filepath.Join(s.mount, "data") }

// crash cuts the power. What is answered from cut on may be lost.
func (s *powerStore) crash(p *process, cut func()) (string, error) {
	cut()
	err := s.shutdown()
	p.kill()
	if err = errors.Join(err, s.unmountIt()); err != nil {
		return "", fmt.Errorf("cut the power: %w", err)
	}
	return "power cut", s.mountIt()
}

func (s *powerStore) shutdown() (err error) {
	f, err := os.Open(s.mount)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	return unix.IoctlSetPointerInt(int(f.Fd()), fsShutdown, noLogFlush)
}

func (s *powerStore) close(keep bool) error {
	if err := s.unmountIt(); err != nil || keep {
		return err
	}
	return errors.Join(os.Remove(s.image), os.Remove(s.mount))
}
