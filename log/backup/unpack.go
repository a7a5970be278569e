package backup

import (
	"errors"
	"fmt"
	"io"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/skepmq/skep/segment/vfs"
)

const (
	lockName = "LOCK" // of a data directory
	// partName is the name of a catalogue that is not whole yet.
	partName = catalogName + ".partial"
)

// Save makes a directory of an archive. It has to be missing or empty. Errors: ErrNotEmpty,
// those of Read and of the file system: then what was made is removed.
func Save(fsys vfs.FS, dir string, r io.Reader) (*Manifest, error) {
	return unpack(fsys, dir, func(put Put) (*Manifest, error) { return Read(r, put) }, true)
}

// Restore makes a data directory of an archive. It has to be missing or empty, and is locked
// meanwhile. Errors: ErrNotEmpty, vfs.ErrLocked, those of Read and of the file system: then
// what was made is removed.
func Restore(fsys vfs.FS, dir string, r io.Reader) (*Manifest, error) {
	return restore(fsys, dir, func(put Put) (*Manifest, error) { return Read(r, put) })
}

// RestoreDir is Restore of a backup that is a directory.
func RestoreDir(fsys vfs.FS, dir, from string) (*Manifest, error) {
	return restore(fsys, dir, func(put Put) (*Manifest, error) { return ReadDir(fsys, from, put) })
}

func restore(fsys vfs.FS, dir string, read func(Put) (*Manifest, error)) (m *Manifest, err error) {
	if err := vfs.MakeDir(fsys, dir); err != nil {
		return nil, err
	}
	if err := checkEmpty(fsys, dir); err != nil {
		return nil, err // before there is a lock file in it
	}
	lock, err := fsys.Lock(filepath.Join(dir, lockName))
	if err != nil {
		return nil, fmt.Errorf("lock %s: %w", dir, err)
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	return unpack(fsys, dir, read, false)
}

// checkEmpty tolerates what the root of a file system has, and a lock.
func checkEmpty(fsys vfs.FS, dir string) error {
	names, err := fsys.List(dir)
	if err != nil {
		return err
	}
	for _, name := range names {
		if name != "lost+found" && name != lockName {
			return fmt.Errorf("%w: there is %s in %s", ErrNotEmpty, name, dir)
		}
	}
	return nil
}

// unpacker writes the files of a backup into a directory.
type unpacker struct {
	fs   vfs.FS
	dir  string
	made []string // directories, each behind the one it is in
	buf  []byte
}

func unpack(fsys vfs.FS, dir string, read func(Put) (*Manifest, error), keepManifest bool) (*Manifest, error) {
	if err := vfs.MakeDir(fsys, dir); err != nil {
		return nil, err
	}
	if err := checkEmpty(fsys, dir); err != nil {
		return nil, err
	}
	u := &unpacker{fs: fsys, dir: dir, buf: make([]byte, copyBytes)}
	var m *Manifest
	err := u.begin()
	if err == nil {
		m, err = read(u.put)
	}
	if err == nil {
		err = u.finish(m, keepManifest)
	}
	if err != nil {
		return nil, errors.Join(err, u.abort())
	}
	return m, nil
}

// begin makes what a broker looks for that finds no catalogue: beside a journal it does not
// take the directory for a new one, however little there is of the rest.
func (u *unpacker) begin() error {
	if err := u.makeDir(journalName); err != nil {
		return err
	}
	return u.fs.SyncDir(u.dir)
}

func (u *unpacker) put(name string, r io.Reader) error {
	if rest, ok := strings.CutPrefix(name, catalogName+"/"); ok {
		name = partName + "/" + rest
	}
	if err := u.makeDir(path.Dir(name)); err != nil {
		return err
	}
	return u.write(filepath.Join(u.dir, filepath.FromSlash(name)), r)
}

// makeDir makes a directory below dir, and those that it is in.
func (u *unpacker) makeDir(name string) error {
	if name == "." || slices.Contains(u.made, name) {
		return nil
	}
	if err := u.makeDir(path.Dir(name)); err != nil {
		return err
	}
	if err := u.fs.MkdirAll(filepath.Join(u.dir, filepath.FromSlash(name))); err != nil {
		return err
	}
	u.made = append(u.made, name)
	return nil
}

// write makes a file and syncs it.
func (u *unpacker) write(path string, r io.Reader) (err error) {
	f, err := u.fs.Create(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	w := io.NewOffsetWriter(f, 0)
	// Without the methods of an OffsetWriter, which would copy less at a time.
	if _, err := io.CopyBuffer(struct{ io.Writer }{w}, r, u.buf); err != nil {
		return err
	}
	return f.Sync()
}

// finish makes all names durable, and then the catalogue what it is.
func (u *unpacker) finish(m *Manifest, keepManifest bool) error {
	for _, name := range slices.Backward(u.made) {
		if err := u.fs.SyncDir(filepath.Join(u.dir, filepath.FromSlash(name))); err != nil {
			return err
		}
	}
	if keepManifest {
		b, err := m.encode()
		if err == nil {
			err = u.write(filepath.Join(u.dir, ManifestName), strings.NewReader(string(b)))
		}
		if err != nil {
			return err
		}
	}
	if err := u.fs.SyncDir(u.dir); err != nil {
		return err
	}
	if err := u.fs.Rename(filepath.Join(u.dir, partName), filepath.Join(u.dir, catalogName)); err != nil {
		return err
	}
	return u.fs.SyncDir(u.dir)
}

// abort removes what was made, the journal last, as begin makes it first.
func (u *unpacker) abort() error {
	var errs []error
	for _, name := range append([]string{partName, ManifestName}, parts...) {
		if name != journalName {
			errs = append(errs, u.fs.RemoveAll(filepath.Join(u.dir, name)))
		}
	}
	return errors.Join(append(errs, u.fs.SyncDir(u.dir), u.fs.RemoveAll(filepath.Join(u.dir, journalName)))...)
}
