package fsck

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/skepmq/skep/segment/vfs"
)

const (
	// copyBytes is how much is copied at a time.
	copyBytes  = 1 << 20
	reportName = "report.json"
)

// keptDir returns the directory of this repair, relative to the data directory; it is made
// with the first file. Numbers are never used twice.
func (r *repairer) keptDir() string {
	if r.kept == "" {
		names, _ := r.o.FS.List(filepath.Join(r.o.Dir, RepairsName)) // none: the first
		last := 0
		for _, name := range names {
			if n, err := strconv.Atoi(name); err == nil {
				last = max(last, n)
			}
		}
		r.kept = fmt.Sprintf("%s/%04d", RepairsName, last+1)
	}
	return r.kept
}

// keptName is a new name, relative to the data directory, for a copy of bytes of a file.
func (r *repairer) keptName(path string, position int64) string {
	return r.unused(fmt.Sprintf("%s.%d", r.flatName(path), position))
}

// movedName is a new name for a file or directory that is taken away.
func (r *repairer) movedName(path string) string { return r.unused(r.flatName(path)) }

func (r *repairer) flatName(path string) string {
	rel, err := filepath.Rel(r.o.Dir, path)
	if err != nil {
		rel = filepath.Base(path)
	}
	return r.keptDir() + "/" + strings.ReplaceAll(filepath.ToSlash(rel), "/", "-")
}

// unused makes a name one that nothing bears yet: bytes may be replaced more than once.
func (r *repairer) unused(name string) string {
	for free, n := name, 2; ; n++ {
		if !r.used[free] {
			r.used[free] = true
			return free
		}
		free = fmt.Sprintf("%s-%d", name, n)
	}
}

// makeKept makes the directory of this repair.
func (r *repairer) makeKept() error {
	r.report.Kept = r.keptDir()
	if err := vfs.MakeDir(r.o.FS, filepath.Join(r.o.Dir, RepairsName)); err != nil {
		return err
	}
	return vfs.MakeDir(r.o.FS, filepath.Join(r.o.Dir, r.keptDir()))
}

// keep copies bytes of a file, as many of them as there are, and makes the copy durable.
func (r *repairer) keep(path string, position, length int64, name string) (err error) {
	if err := r.makeKept(); err != nil {
		return err
	}
	from, err := r.o.FS.Open(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, from.Close()) }()
	to, err := r.o.FS.Create(filepath.Join(r.o.Dir, name))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, to.Close()) }()
	b := make([]byte, min(length, copyBytes))
	for at := int64(0); at < length; {
		n, readErr := from.ReadAt(b[:min(int64(len(b)), length-at)], position+at)
		if _, err := to.WriteAt(b[:n], at); err != nil {
			return err
		}
		at += int64(n)
		if errors.Is(readErr, io.EOF) {
			break
		}
		if readErr != nil {
			return readErr
		}
	}
	if err := to.Sync(); err != nil {
		return err
	}
	return r.o.FS.SyncDir(filepath.Join(r.o.Dir, r.keptDir()))
}

// move takes a file or directory away.
func (r *repairer) move(path, what string) error {
	size, _ := r.o.FS.Size(path) // 0 of a directory, or of what will not be there either
	to := r.movedName(path)
	return r.step(Step{File: path, Bytes: size, What: what, Kept: to}, func() error {
		if err := r.makeKept(); err != nil {
			return err
		}
		if err := r.o.FS.Rename(path, filepath.Join(r.o.Dir, to)); err != nil {
			return err
		}
		return errors.Join(r.o.FS.SyncDir(filepath.Dir(path)), r.o.FS.SyncDir(filepath.Join(r.o.Dir, r.keptDir())))
	})
}

// writeReport writes what was done so far beside the copies, in the place of what it wrote
// before.
func (r *repairer) writeReport() error {
	if !r.apply || len(r.report.Steps) == 0 {
		return nil
	}
	if err := r.makeKept(); err != nil {
		return err
	}
	b, err := json.MarshalIndent(r.report, "", "  ")
	if err != nil {
		return err
	}
	path := filepath.Join(r.o.Dir, r.keptDir(), reportName)
	f, err := r.o.FS.Create(path + ".new")
	if err != nil {
		return err
	}
	_, err = f.WriteAt(append(b, '\n'), 0)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err := r.o.FS.Rename(path+".new", path); err != nil {
		return err
	}
	return r.o.FS.SyncDir(filepath.Dir(path))
}
