package broker

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/skepmq/skep/log/fsck"
	"github.com/skepmq/skep/segment/vfs"
	"github.com/skepmq/skep/segment/vfs/faultfs"
)

// wantClean verifies the directory "data", which no broker serves. It may be that no power
// was left to make it.
func wantClean(t *testing.T, what string, fsys vfs.FS) *fsck.Report {
	t.Helper()
	return wantCleanAt(t, what, fsys, nil)
}

func wantCleanAt(t *testing.T, what string, fsys vfs.FS, now func() time.Time) *fsck.Report {
	t.Helper()
	r, err := fsck.Verify(fsck.Options{FS: fsys, Dir: "data", Now: now})
	if errors.Is(err, fsck.ErrNoDirectory) {
		return &fsck.Report{Clean: true} // the power went before there was one
	}
	if err != nil {
		t.Fatalf("%s: verify: %v", what, err)
	}
	if !r.Clean {
		t.Fatalf("%s: not clean: %+v", what, r.Findings)
	}
	return r
}

// fullDirectory is the disk of a closed broker with something of everything: segments shared
// and of one partition, several runs in one, dead letters, cursors, transaction ids, and a
// journal of several generations.
func fullDirectory(t *testing.T) (*faultfs.FS, *witness) {
	t.Helper()
	fsys := faultfs.New()
	b, err := openOn(fsys)
	if err != nil {
		t.Fatal(err)
	}
	w := newWitness(b)
	if err := script(w); err != nil {
		t.Fatal(err)
	}
	if _, err := b.journal.Rotate(); err != nil {
		t.Fatal(err)
	}
	if err := w.push("b", "b3"); err != nil {
		t.Fatal(err)
	}
	if err := w.consume("a", 1, AckCompleted); err != nil {
		t.Fatal(err)
	}
	closeBroker(t, b)
	return fsys, w
}

// files lists the files below dir that have bytes.
func files(t *testing.T, fsys vfs.FS, dir string) (paths []string) {
	t.Helper()
	names, err := fsys.List(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		path := filepath.Join(dir, name)
		if size, err := fsys.Size(path); err != nil {
			paths = append(paths, files(t, fsys, path)...)
		} else if size > 0 {
			paths = append(paths, path)
		}
	}
	return paths
}

// flip changes one bit of a file.
func flip(t *testing.T, fsys vfs.FS, path string, position int64, bit uint) {
	t.Helper()
	f, err := fsys.OpenReadWrite(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var b [1]byte
	if _, err := f.ReadAt(b[:], position); err != nil {
		t.Fatal(err)
	}
	b[0] ^= 1 << bit
	if _, err := f.WriteAt(b[:], position); err != nil {
		t.Fatal(err)
	}
	if err := f.Sync(); err != nil {
		t.Fatal(err)
	}
}

// Whatever bit of whatever file is changed, Verify names the file, and a place at or before
// the bit.
func TestVerifyEveryByte(t *testing.T) {
	t.Parallel()
	fsys, _ := fullDirectory(t)
	want := wantClean(t, "whole", fsys)
	s := want.Summary
	if s.Queues != 1 || s.Partitions != 3 || s.DeadLetters != 2 || s.Segments < 2 || s.Generations < 2 || s.IDs == 0 || s.Cursors < 2 || s.Messages != 10 {
		t.Fatalf("too little in the directory, or not seen: %+v", s)
	}
	bits := 0
	for _, path := range files(t, fsys, "data") {
		size, err := fsys.Size(path)
		if err != nil {
			t.Fatal(err)
		}
		for at := int64(0); at < size; at++ {
			for _, bit := range []uint{uint(at) % 8, uint(at+3) % 8} {
				flip(t, fsys, path, at, bit)
				r, err := fsck.Verify(fsck.Options{FS: fsys, Dir: "data"})
				flip(t, fsys, path, at, bit)
				if err != nil {
					t.Fatalf("%s, bit %d of byte %d: %v", path, bit, at, err)
				}
				if !names(r, path, at) {
					t.Errorf("%s, bit %d of byte %d: not told: %+v", path, bit, at, r.Findings)
				}
				bits++
			}
		}
	}
	wantClean(t, "whole again", fsys)
	t.Logf("%d bits", bits)
}

// names reports whether a finding is about a file, at or before a position.
func names(r *fsck.Report, path string, position int64) bool {
	for i := range r.Findings {
		f := &r.Findings[i]
		if "data/"+f.File == path && f.Position <= position {
			return true
		}
	}
	return false
}

// harms are what may become of a whole file.
var harms = []struct {
	name string
	do   func(fsys vfs.FS, path, other string, size int64) error
}{
	{"removed", func(fsys vfs.FS, path, _ string, _ int64) error { return fsys.Remove(path) }},
	{"emptied", func(fsys vfs.FS, path, _ string, _ int64) error { return write(fsys, path, nil) }},
	{"halved", func(fsys vfs.FS, path, _ string, size int64) error {
		b, err := read(fsys, path)
		if err != nil {
			return err
		}
		return write(fsys, path, b[:size/2])
	}},
	{"shorter by one", func(fsys vfs.FS, path, _ string, size int64) error {
		b, err := read(fsys, path)
		if err != nil {
			return err
		}
		return write(fsys, path, b[:size-1])
	}},
	{"zeroed", func(fsys vfs.FS, path, _ string, size int64) error { return write(fsys, path, make([]byte, size)) }},
	{"zeros in the middle", func(fsys vfs.FS, path, _ string, size int64) error {
		b, err := read(fsys, path)
		if err != nil {
			return err
		}
		clear(b[size/3 : size/3+min(size/3, 512)])
		return write(fsys, path, b)
	}},
	{"another's", func(fsys vfs.FS, path, other string, _ int64) error {
		b, err := read(fsys, other)
		if err != nil {
			return err
		}
		return write(fsys, path, b)
	}},
	{"swapped", func(fsys vfs.FS, path, other string, _ int64) error {
		err := fsys.Rename(path, path+".x")
		if err == nil {
			err = fsys.Rename(other, path)
		}
		if err == nil {
			err = fsys.Rename(path+".x", other)
		}
		return err
	}},
}

// harmed calls fn with a copy of the disk for each harm to each file.
func harmed(t *testing.T, fsys *faultfs.FS, fn func(what, path string, disk *faultfs.FS)) {
	t.Helper()
	all := files(t, fsys, "data")
	for _, harm := range harms {
		for i, path := range all {
			disk := fsys.CrashStrict()
			size, err := disk.Size(path)
			if err != nil {
				t.Fatal(err)
			}
			other := all[(i+1)%len(all)] // of the same kind, but for the last of each
			if err := harm.do(disk, path, other, size); err != nil {
				t.Fatal(err)
			}
			fn(path+" "+harm.name, path, disk)
		}
	}
}

// A file that is gone, empty, shorter, all zeros, or another's is found.
func TestVerifyFiles(t *testing.T) {
	t.Parallel()
	fsys, _ := fullDirectory(t)
	harmed(t, fsys, func(what, path string, disk *faultfs.FS) {
		r, err := fsck.Verify(fsck.Options{FS: disk, Dir: "data"})
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		// A log that ends before what nothing vouches for is one that was written no further.
		if len(r.Findings) == 0 && !strings.Contains(path, "/journal/") {
			t.Errorf("%s: nothing is told", what)
		}
	})
}

func read(fsys vfs.FS, path string) ([]byte, error) {
	f, err := fsys.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return nil, err
	}
	b := make([]byte, size)
	if size > 0 {
		_, err = f.ReadAt(b, 0)
	}
	return b, err
}

func write(fsys vfs.FS, path string, b []byte) error {
	f, err := fsys.Create(path)
	if err != nil {
		return err
	}
	if _, err := f.WriteAt(b, 0); err != nil {
		return fmt.Errorf("write: %w", err)
	}
	if err := f.Sync(); err != nil {
		return err
	}
	return f.Close()
}

// Verify refuses a directory that a broker serves, and leaves every file as it was.
func TestVerifyChangesNothing(t *testing.T) {
	t.Parallel()
	fsys := faultfs.New()
	b, err := openOn(fsys)
	if err != nil {
		t.Fatal(err)
	}
	w := newWitness(b)
	if err := script(w); err != nil {
		t.Fatal(err)
	}
	if _, err := fsck.Verify(fsck.Options{FS: fsys, Dir: "data"}); err == nil {
		t.Error("verified under a running broker")
	}
	crashed := fsys.CrashStrict()
	closeBroker(t, b)
	calls := crashed.Calls()
	wantClean(t, "crashed", crashed)
	if crashed.Calls() != calls || crashed.Handles() != 0 {
		t.Errorf("%d changes, %d open files", crashed.Calls()-calls, crashed.Handles())
	}
	if _, err := fsck.Verify(fsck.Options{FS: faultfs.New(), Dir: "data"}); err == nil {
		t.Error("verified where there is nothing")
	}
}
