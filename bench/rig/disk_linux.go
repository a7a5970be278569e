package rig

import (
	"errors"
	"fmt"
	"os"
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

// Disk is a file system of its own, on a loop device.
type Disk struct {
	Path string // where it is mounted

	image string
	o     DiskOptions
}

// OpenDisk makes a file system under root and mounts it. Its error is a Lacking if the
// machine cannot do that.
func OpenDisk(root string, o DiskOptions) (*Disk, error) {
	if os.Geteuid() != 0 {
		return nil, Lacking("not root")
	}
	if err := needed("mkfs."+o.Kind, "mount", "umount"); err != nil {
		return nil, err
	}
	if _, err := os.Stat("/dev/loop-control"); err != nil && o.Device == "" {
		return nil, Lacking("no loop devices")
	}
	if o.Bytes == 0 {
		o.Bytes = imageBytes
	}
	d := &Disk{image: filepath.Join(root, "disk.img"), Path: filepath.Join(root, "disk"), o: o}
	if err := d.make(); err != nil {
		return nil, err
	}
	if err := d.mount(); err != nil { // a container may be denied it, a kernel lack the file system
		if o.Device == "" {
			err = errors.Join(Lacking(strings.TrimSpace(err.Error())), os.Remove(d.image))
		}
		return nil, err
	}
	return d, nil
}

func (d *Disk) make() error {
	if err := os.Mkdir(d.Path, 0o700); err != nil {
		return err
	}
	if d.o.Device != "" {
		return d.mkfs(d.o.Device)
	}
	f, err := os.Create(d.image)
	if err != nil {
		return err
	}
	if err := errors.Join(f.Truncate(d.o.Bytes), f.Close()); err != nil {
		return err
	}
	return d.mkfs(d.image)
}

func (d *Disk) mkfs(on string) error {
	return command("mkfs."+d.o.Kind, append(append([]string{"-q"}, d.o.Make...), on)...)
}

func (d *Disk) mount() error {
	if d.o.Device != "" {
		return command("mount", "-o", "defaults,"+d.o.Mount, d.o.Device, d.Path)
	}
	return command("mount", "-o", "loop,"+d.o.Mount, d.image, d.Path)
}

// unmount tries for a while: the kernel may still be busy with a process that it has
// already reported dead.
func (d *Disk) unmount() error { return unmount(d.Path) }

func unmount(path string) (err error) {
	for range 50 {
		if err = command("umount", path); err == nil {
			return nil
		}
		time.Sleep(20 * time.Millisecond)
	}
	return err
}

// Cut cuts the power under the process p, and brings the disk back. What is answered once
// it has begun may be lost.
func (d *Disk) Cut(p *Process) error {
	err := d.shutdown()
	p.Kill()
	if err = errors.Join(err, d.unmount()); err != nil {
		return fmt.Errorf("cut the power: %w", err)
	}
	return d.mount()
}

func (d *Disk) shutdown() (err error) {
	f, err := os.Open(d.Path)
	if errors.Is(err, unix.EIO) {
		return nil // an XFS that has given up by itself
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	return unix.IoctlSetPointerInt(int(f.Fd()), fsShutdown, noLogFlush)
}

// Close unmounts the disk. With keep its image is left.
func (d *Disk) Close(keep bool) error {
	if err := d.unmount(); err != nil || keep {
		return err
	}
	if d.o.Device != "" {
		return os.Remove(d.Path)
	}
	return errors.Join(os.Remove(d.image), os.Remove(d.Path))
}
