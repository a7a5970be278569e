package vfs_test

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/skepmq/skep/segment/vfs"
	"github.com/skepmq/skep/segment/vfs/faultfs"
)

// each runs a test over the real file system and the one that stands in for it, so
// that neither can drift from what FS promises.
func each(t *testing.T, test func(t *testing.T, fsys vfs.FS, dir string)) {
	t.Run("os", func(t *testing.T) { test(t, vfs.OS, t.TempDir()) })
	t.Run("faultfs", func(t *testing.T) {
		fsys := faultfs.New()
		must(t, fsys.MkdirAll("/tmp/x"))
		test(t, fsys, "/tmp/x")
		if n := fsys.Handles(); n != 0 {
			t.Errorf("%d handles left open", n)
		}
	})
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func content(t *testing.T, fsys vfs.FS, name string) string {
	t.Helper()
	f, err := fsys.Open(name)
	must(t, err)
	size, err := f.Size()
	must(t, err)
	b := make([]byte, size)
	if _, err := f.ReadAt(b, 0); err != nil && err != io.EOF {
		t.Fatal(err)
	}
	must(t, f.Close())
	return string(b)
}

func write(t *testing.T, fsys vfs.FS, name, text string) {
	t.Helper()
	f, err := fsys.Create(name)
	must(t, err)
	_, err = f.WriteAt([]byte(text), 0)
	must(t, err)
	must(t, f.Sync())
	must(t, f.Close())
}

func TestFile(t *testing.T) {
	each(t, func(t *testing.T, fsys vfs.FS, dir string) {
		name := filepath.Join(dir, "a")
		f, err := fsys.Create(name)
		must(t, err)
		_, err = f.WriteAt([]byte("abc"), 4)
		must(t, err)
		_, err = f.WriteAt([]byte("XY"), 0)
		must(t, err)
		must(t, f.Sync())
		if got, want := content(t, fsys, name), "XY\x00\x00abc"; got != want {
			t.Errorf("content: got %q, want %q", got, want)
		}
		must(t, f.Truncate(5))
		must(t, f.Truncate(8))
		if got, want := content(t, fsys, name), "XY\x00\x00a\x00\x00\x00"; got != want {
			t.Errorf("content after truncations: got %q, want %q", got, want)
		}
		b := make([]byte, 4)
		if n, err := f.ReadAt(b, 6); n != 2 || err != io.EOF {
			t.Errorf("ReadAt across the end: got %d, %v, want 2, EOF", n, err)
		}
		if size, err := f.Size(); size != 8 || err != nil {
			t.Errorf("File.Size: got %d, %v, want 8", size, err)
		}
		if size, err := fsys.Size(name); size != 8 || err != nil {
			t.Errorf("FS.Size: got %d, %v, want 8", size, err)
		}
		must(t, f.Close())
		for what, err := range map[string]error{
			"write": second(f.WriteAt([]byte("x"), 0)), "read": second(f.ReadAt(b, 0)),
			"sync": f.Sync(), "truncate": f.Truncate(0), "close": f.Close(),
		} {
			if !errors.Is(err, fs.ErrClosed) {
				t.Errorf("%s after Close: got %v, want ErrClosed", what, err)
			}
		}
	})
}

func second(_ int, err error) error { return err }

func TestOpenModes(t *testing.T) {
	each(t, func(t *testing.T, fsys vfs.FS, dir string) {
		name := filepath.Join(dir, "a")
		for what, open := range map[string]func(string) (vfs.File, error){"Open": fsys.Open, "OpenReadWrite": fsys.OpenReadWrite} {
			if f, err := open(name); !errors.Is(err, fs.ErrNotExist) || f != nil {
				t.Errorf("%s of a missing file: got %v, %v, want nil, ErrNotExist", what, f, err)
			}
		}
		write(t, fsys, name, "text")
		r, err := fsys.Open(name)
		must(t, err)
		if _, err := r.WriteAt([]byte("x"), 0); err == nil {
			t.Error("writing through Open succeeded")
		}
		w, err := fsys.OpenReadWrite(name)
		must(t, err)
		_, err = w.WriteAt([]byte("TE"), 0)
		must(t, err)
		if got := content(t, fsys, name); got != "TExt" {
			t.Errorf("OpenReadWrite: got %q, want the rest of the file as it was", got)
		}
		c, err := fsys.Create(name)
		must(t, err)
		if size, _ := c.Size(); size != 0 {
			t.Errorf("Create left %d bytes", size)
		}
		must(t, errors.Join(r.Close(), w.Close(), c.Close()))
	})
}

func TestNames(t *testing.T) {
	each(t, func(t *testing.T, fsys vfs.FS, dir string) {
		in := func(name string) string { return filepath.Join(dir, name) }
		must(t, fsys.MkdirAll(in("d/e")))
		must(t, fsys.MkdirAll(in("d/e")))
		write(t, fsys, in("d/e/2"), "two")
		write(t, fsys, in("d/e/1"), "one")
		must(t, fsys.SyncDir(in("d/e")))
		if err := fsys.Remove(in("d/e")); err == nil {
			t.Error("Remove of a directory that is not empty succeeded")
		}
		must(t, fsys.Rename(in("d/e/1"), in("d/e/2")))
		if got := content(t, fsys, in("d/e/2")); got != "one" {
			t.Errorf("rename over a file: got %q, want one", got)
		}
		must(t, fsys.Rename(in("d/e"), in("f")))
		write(t, fsys, in("f/0"), "zero")
		if got, err := fsys.List(in("f")); err != nil || !slices.Equal(got, []string{"0", "2"}) {
			t.Errorf("List: got %q, %v, want 0 and 2", got, err)
		}
		must(t, fsys.Remove(in("f/0")))
		must(t, fsys.RemoveAll(in("f")))
		must(t, fsys.RemoveAll(in("f")))
		if got, err := fsys.List(dir); err != nil || !slices.Equal(got, []string{"d"}) {
			t.Errorf("List at the end: got %q, %v, want d", got, err)
		}
		for what, err := range map[string]error{
			"Remove": fsys.Remove(in("x")), "Rename": fsys.Rename(in("x"), in("y")), "SyncDir": fsys.SyncDir(in("x")),
		} {
			if !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("%s of a missing name: got %v, want ErrNotExist", what, err)
			}
		}
		if _, err := fsys.List(in("x")); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("List of a missing name: got %v, want ErrNotExist", err)
		}
		if _, err := fsys.Create(in("x/y")); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("Create in a missing directory: got %v, want ErrNotExist", err)
		}
	})
}

func TestLock(t *testing.T) {
	each(t, func(t *testing.T, fsys vfs.FS, dir string) {
		name := filepath.Join(dir, "LOCK")
		first, err := fsys.Lock(name)
		must(t, err)
		if second, err := fsys.Lock(name); !errors.Is(err, vfs.ErrLocked) || second != nil {
			t.Fatalf("second Lock: got %v, %v, want nil, ErrLocked", second, err)
		}
		must(t, first.Close())
		third, err := fsys.Lock(name)
		must(t, err)
		must(t, third.Close())
		if err := third.Close(); !errors.Is(err, fs.ErrClosed) {
			t.Errorf("second Close: got %v, want ErrClosed", err)
		}
	})
}

func TestFree(t *testing.T) {
	each(t, func(t *testing.T, fsys vfs.FS, dir string) {
		free, total, err := fsys.Free(dir)
		must(t, err)
		if free <= 0 || total < free {
			t.Errorf("got %d of %d bytes", free, total)
		}
		if _, _, err := fsys.Free(filepath.Join(dir, "x")); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("missing directory: got %v, want ErrNotExist", err)
		}
	})
}

func TestPermissions(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "d")
	must(t, vfs.MakeDir(vfs.OS, dir))
	write(t, vfs.OS, filepath.Join(dir, "f"), "x")
	for name, want := range map[string]fs.FileMode{dir: 0o750, filepath.Join(dir, "f"): 0o640} {
		info, err := os.Stat(name)
		must(t, err)
		if got := info.Mode().Perm(); got&^want != 0 {
			t.Errorf("%s: got %o, want at most %o", name, got, want)
		}
	}
}

// TestMakeDir kills the process at each call and lets it try again: what the second
// run finds there may be no more durable than what it creates.
func TestMakeDir(t *testing.T) {
	for n := 0; ; n++ {
		fsys := faultfs.New()
		fsys.FailAt(n, faultfs.Fault{})
		err := vfs.MakeDir(fsys, "/a/b/c")
		met := fsys.Calls() > n
		if met != errors.Is(err, faultfs.EIO) {
			t.Errorf("call %d, met %t: %v", n, met, err)
		}
		fsys.FailAt(-1, faultfs.Fault{})
		must(t, vfs.MakeDir(fsys, "/a/b/c"))
		if _, err := fsys.CrashStrict().List("/a/b/c"); err != nil {
			t.Errorf("call %d: not durable: %v", n, err)
		}
		if !met {
			return
		}
	}
}

func TestMakeDirBelowAFile(t *testing.T) {
	fsys := faultfs.New()
	write(t, fsys, "/file", "x")
	if err := vfs.MakeDir(fsys, "/file/d"); err == nil {
		t.Error("MakeDir below a file succeeded")
	}
}

func TestMakeDirOnDisk(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "b")
	must(t, vfs.MakeDir(vfs.OS, dir))
	must(t, vfs.MakeDir(vfs.OS, dir))
	write(t, vfs.OS, filepath.Join(dir, "f"), "x")
	if content(t, vfs.OS, filepath.Join(dir, "f")) != "x" {
		t.Error("file in the new directory is not what was written")
	}
}
