package faultfs_test

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/skepmq/skep/segment/vfs"
	"github.com/skepmq/skep/segment/vfs/faultfs"
)

const block = 4096

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func create(t *testing.T, fsys vfs.FS, name string) vfs.File {
	t.Helper()
	f, err := fsys.Create(name)
	must(t, err)
	return f
}

func put(t *testing.T, f vfs.File, pos int64, b []byte) {
	t.Helper()
	_, err := f.WriteAt(b, pos)
	must(t, err)
}

// read returns a file's bytes, nil if it is missing.
func read(t *testing.T, fsys vfs.FS, name string) []byte {
	t.Helper()
	f, err := fsys.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	must(t, err)
	size, err := f.Size()
	must(t, err)
	b := make([]byte, size)
	if _, err := f.ReadAt(b, 0); err != nil && err != io.EOF {
		t.Fatal(err)
	}
	must(t, f.Close())
	return b
}

func fill(c byte, n int) []byte { return bytes.Repeat([]byte{c}, n) }

// TestCrashStrict has a row for each thing that is or is not durable.
func TestCrashStrict(t *testing.T) {
	tests := []struct {
		name   string
		script func(t *testing.T, fsys *faultfs.FS)
		want   map[string]string // of every file that may be left; absent: missing
	}{
		{"nothing synced", func(t *testing.T, fsys *faultfs.FS) {
			put(t, create(t, fsys, "/a"), 0, []byte("x"))
		}, nil},
		{"bytes without name", func(t *testing.T, fsys *faultfs.FS) {
			f := create(t, fsys, "/a")
			put(t, f, 0, []byte("x"))
			must(t, f.Sync())
		}, nil},
		{"name without bytes", func(t *testing.T, fsys *faultfs.FS) {
			put(t, create(t, fsys, "/a"), 0, []byte("x"))
			must(t, fsys.SyncDir("/"))
		}, map[string]string{"/a": ""}},
		{"both, then more", func(t *testing.T, fsys *faultfs.FS) {
			f := create(t, fsys, "/a")
			put(t, f, 0, []byte("abc"))
			must(t, f.Sync())
			must(t, fsys.SyncDir("/"))
			put(t, f, 1, []byte("XYZ"))
		}, map[string]string{"/a": "abc"}},
		{"synced by another handle", func(t *testing.T, fsys *faultfs.FS) {
			put(t, create(t, fsys, "/a"), 0, []byte("abc"))
			g, err := fsys.OpenReadWrite("/a")
			must(t, err)
			must(t, g.Sync())
			must(t, fsys.SyncDir("/"))
		}, map[string]string{"/a": "abc"}},
		{"truncation not synced", func(t *testing.T, fsys *faultfs.FS) {
			f := create(t, fsys, "/a")
			put(t, f, 0, []byte("abc"))
			must(t, f.Sync())
			must(t, fsys.SyncDir("/"))
			create(t, fsys, "/a")
		}, map[string]string{"/a": "abc"}},
		{"truncation synced", func(t *testing.T, fsys *faultfs.FS) {
			f := create(t, fsys, "/a")
			put(t, f, 0, []byte("abc"))
			must(t, f.Truncate(1))
			must(t, f.Truncate(2))
			must(t, f.Sync())
			must(t, fsys.SyncDir("/"))
		}, map[string]string{"/a": "a\x00"}},
		{"rename and remove not synced", func(t *testing.T, fsys *faultfs.FS) {
			create(t, fsys, "/a")
			create(t, fsys, "/b")
			must(t, fsys.SyncDir("/"))
			must(t, fsys.Rename("/a", "/c"))
			must(t, fsys.Remove("/b"))
		}, map[string]string{"/a": "", "/b": ""}},
		{"rename and remove synced", func(t *testing.T, fsys *faultfs.FS) {
			create(t, fsys, "/a")
			create(t, fsys, "/b")
			must(t, fsys.Rename("/a", "/c"))
			must(t, fsys.Remove("/b"))
			must(t, fsys.SyncDir("/"))
		}, map[string]string{"/c": ""}},
		{"directory not synced", func(t *testing.T, fsys *faultfs.FS) {
			must(t, fsys.MkdirAll("/d"))
			create(t, fsys, "/d/a")
			must(t, fsys.SyncDir("/d"))
		}, nil},
		{"rename between directories, old one synced", func(t *testing.T, fsys *faultfs.FS) {
			must(t, fsys.MkdirAll("/d"))
			must(t, fsys.SyncDir("/"))
			create(t, fsys, "/a")
			must(t, fsys.Rename("/a", "/d/a"))
			must(t, fsys.SyncDir("/"))
		}, map[string]string{"/d/a": ""}},
		{"rename between directories, new one synced", func(t *testing.T, fsys *faultfs.FS) {
			must(t, fsys.MkdirAll("/d"))
			must(t, fsys.SyncDir("/"))
			create(t, fsys, "/a")
			must(t, fsys.Rename("/a", "/d/a"))
			must(t, fsys.SyncDir("/d"))
		}, map[string]string{"/d/a": ""}},
		{"failed sync, then a good one", func(t *testing.T, fsys *faultfs.FS) {
			f := create(t, fsys, "/a")
			must(t, fsys.SyncDir("/"))
			put(t, f, 0, []byte("lost"))
			fsys.FailAt(fsys.Calls(), faultfs.Fault{})
			if err := f.Sync(); !errors.Is(err, faultfs.EIO) {
				t.Errorf("got %v, want EIO", err)
			}
			put(t, f, 4, []byte("kept"))
			must(t, f.Sync())
		}, map[string]string{"/a": "\x00\x00\x00\x00kept"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			fsys := faultfs.New()
			tt.script(t, fsys)
			after := fsys.CrashStrict()
			for _, name := range []string{"/a", "/b", "/c", "/d/a"} {
				got := read(t, after, name)
				want, ok := tt.want[name]
				if (got != nil) != ok || string(got) != want {
					t.Errorf("%s: got %q (there: %t), want %q (%t)", name, got, got != nil, want, ok)
				}
			}
			again := after.CrashStrict()
			for name, want := range tt.want {
				if got := read(t, again, name); got == nil || string(got) != want {
					t.Errorf("%s after a second crash: got %q, want %q", name, got, want)
				}
			}
		})
	}
}

// TestCrashUnits sees every mixture of old, new and zero blocks, blocks that are torn
// between sectors and inside of one, and no other bytes.
func TestCrashUnits(t *testing.T) {
	fsys := faultfs.New()
	f := create(t, fsys, "/a")
	put(t, f, 0, fill('o', 2*block))
	must(t, f.Sync())
	must(t, fsys.SyncDir("/"))
	put(t, f, 0, fill('n', 4*block))
	seen := map[string]bool{}
	torn, tornSectors := 0, 0
	for seed := range uint64(4000) {
		b := read(t, fsys.Crash(rand.New(rand.NewPCG(seed, 1))), "/a")
		if len(b) < 2*block || len(bytes.Trim(b, "on\x00")) > 0 {
			t.Fatalf("seed %d: %d bytes, others than were written", seed, len(b))
		}
		if key, ok := uniform(b, block); ok {
			seen[key] = true
		} else if _, ok := uniform(b, 512); ok {
			torn++
		} else {
			tornSectors++
		}
	}
	// Two blocks old or new; the others new, zero or, at the end, absent.
	if want := 2 * 2 * (1 + 2 + 4); len(seen) != want {
		t.Errorf("%d mixtures, want %d", len(seen), want)
	}
	if torn == 0 || tornSectors == 0 {
		t.Errorf("%d torn between sectors, %d inside of one", torn, tornSectors)
	}
}

// uniform returns the first byte of each unit of b, if all of a unit are the same.
func uniform(b []byte, unit int) (first string, ok bool) {
	for u := range slices.Chunk(b, unit) {
		if len(u) != unit || !bytes.Equal(u, fill(u[0], unit)) {
			return "", false
		}
		first += string(u[0])
	}
	return first, true
}

// TestCrashNames sees every subset of independent changes of names.
func TestCrashNames(t *testing.T) {
	fsys := faultfs.New()
	create(t, fsys, "/gone")
	put(t, create(t, fsys, "/from"), 0, []byte("x"))
	must(t, fsys.SyncDir("/"))
	create(t, fsys, "/new")
	must(t, fsys.Remove("/gone"))
	must(t, fsys.Rename("/from", "/to"))
	seen := map[[4]bool]bool{}
	for seed := range uint64(500) {
		after := fsys.Crash(rand.New(rand.NewPCG(seed, 2)))
		var there [4]bool
		for i, name := range []string{"/new", "/gone", "/from", "/to"} {
			there[i] = read(t, after, name) != nil
		}
		if there[2] == there[3] {
			t.Fatalf("seed %d: half a rename", seed)
		}
		seen[there] = true
	}
	if len(seen) != 8 {
		t.Errorf("%d outcomes, want 8", len(seen))
	}
}

// TestCrashAfterHalfSyncedRename: a rename that is durable through its new directory
// has decided the fate of the old name too.
func TestCrashAfterHalfSyncedRename(t *testing.T) {
	fsys := faultfs.New()
	must(t, fsys.MkdirAll("/d"))
	must(t, fsys.SyncDir("/"))
	create(t, fsys, "/a")
	must(t, fsys.Rename("/a", "/d/a"))
	must(t, fsys.SyncDir("/d"))
	for seed := range uint64(50) {
		after := fsys.Crash(rand.New(rand.NewPCG(seed, 3)))
		if read(t, after, "/a") != nil || read(t, after, "/d/a") == nil {
			t.Fatalf("seed %d: the rename is undone or half done", seed)
		}
	}
}

func TestCrashIsDeterministic(t *testing.T) {
	fsys := faultfs.New()
	for _, name := range []string{"/a", "/b", "/c", "/d"} {
		f := create(t, fsys, name)
		must(t, fsys.SyncDir("/"))
		put(t, f, 0, fill('x', 3*block))
	}
	one, two := fsys.Crash(rand.New(rand.NewPCG(7, 7))), fsys.Crash(rand.New(rand.NewPCG(7, 7)))
	for _, name := range []string{"/a", "/b", "/c", "/d"} {
		if !bytes.Equal(read(t, one, name), read(t, two, name)) {
			t.Errorf("%s differs under one seed", name)
		}
	}
}

func TestCrashCloneStandsAlone(t *testing.T) {
	fsys := faultfs.New()
	f := create(t, fsys, "/a")
	put(t, f, 0, []byte("old"))
	must(t, f.Sync())
	must(t, fsys.SyncDir("/"))
	l, err := fsys.Lock("/LOCK")
	must(t, err)
	fsys.FailAt(1000, faultfs.Fault{})
	after := fsys.CrashStrict()
	if after.Calls() != 0 || after.Handles() != 0 {
		t.Errorf("the clone has %d calls and %d handles", after.Calls(), after.Handles())
	}
	other, err := after.Lock("/LOCK")
	must(t, err)
	put(t, f, 0, []byte("new"))
	must(t, f.Sync())
	if got := read(t, after, "/a"); string(got) != "old" {
		t.Errorf("the clone sees %q, written after the crash", got)
	}
	must(t, errors.Join(l.Close(), other.Close(), f.Close()))
}

// TestFailAt meets each kind of mutating call with a fault.
func TestFailAt(t *testing.T) {
	var f vfs.File
	calls := []struct {
		name string
		call func(fsys *faultfs.FS) error
	}{
		{"mkdir", func(fsys *faultfs.FS) error { return fsys.MkdirAll("/d") }},
		{"create", func(fsys *faultfs.FS) (err error) { f, err = fsys.Create("/d/a"); return err }},
		{"write", func(*faultfs.FS) error { _, err := f.WriteAt([]byte("abcd"), 0); return err }},
		{"sync", func(*faultfs.FS) error { return f.Sync() }},
		{"truncate", func(*faultfs.FS) error { return f.Truncate(1) }},
		{"rename", func(fsys *faultfs.FS) error { return fsys.Rename("/d/a", "/d/b") }},
		{"syncdir", func(fsys *faultfs.FS) error { return fsys.SyncDir("/d") }},
		{"remove", func(fsys *faultfs.FS) error { return fsys.Remove("/d/b") }},
		{"removeall", func(fsys *faultfs.FS) error { return fsys.RemoveAll("/d") }},
		{"lock", func(fsys *faultfs.FS) error { _, err := fsys.Lock("/l"); return err }},
	}
	for n, failing := range calls {
		for _, sticky := range []bool{false, true} {
			fsys := faultfs.New()
			for i, c := range calls[:n] {
				must(t, c.call(fsys))
				if fsys.Calls() != i+1 {
					t.Fatalf("%s: %d calls counted, want %d", c.name, fsys.Calls(), i+1)
				}
			}
			fsys.FailAt(n, faultfs.Fault{Err: faultfs.ENOSPC, Sticky: sticky})
			if err := failing.call(fsys); !errors.Is(err, faultfs.ENOSPC) {
				t.Errorf("%s: got %v, want ENOSPC", failing.name, err)
			}
			err := failing.call(fsys)
			if (err != nil) != sticky {
				t.Errorf("%s again, sticky %t: got %v", failing.name, sticky, err)
			}
		}
	}
}

// TestKindsOfFaults: a fault counts and meets the calls of its kinds, and no other.
func TestKindsOfFaults(t *testing.T) {
	fsys := faultfs.New()
	f := create(t, fsys, "/a")
	put(t, f, 0, []byte("abc"))
	fail := func(k faultfs.Kinds) { fsys.FailAt(fsys.CallsOf(k), faultfs.Fault{Kinds: k, Sticky: true}) }
	open := func() error { return second(fsys.Open("/a")) }
	read := func() error { return second(f.ReadAt(make([]byte, 1), 0)) }
	write := func() error { return second(f.WriteAt([]byte("x"), 0)) }
	for _, tt := range []struct {
		kinds faultfs.Kinds
		fails map[string]bool
	}{
		{faultfs.Open, map[string]bool{"open": true}},
		{faultfs.Read, map[string]bool{"read": true}},
		{faultfs.Sync, map[string]bool{"sync": true}},
		{faultfs.Write | faultfs.Sync, map[string]bool{"write": true, "sync": true}},
		{0, map[string]bool{"write": true, "sync": true}},
	} {
		fail(cmp.Or(tt.kinds, faultfs.Mutating))
		for name, call := range map[string]func() error{"open": open, "read": read, "write": write, "sync": f.Sync} {
			if err := call(); (err != nil) != tt.fails[name] {
				t.Errorf("fault of kinds %b: %s says %v", tt.kinds, name, err)
			}
		}
	}
}

// TestObserve: who watches comes before the call, and may crash the disk there.
func TestObserve(t *testing.T) {
	fsys := faultfs.New()
	var seen []string
	fsys.Observe(func(k faultfs.Kinds, name string) {
		_, err := fsys.CrashStrict().Open("/a")
		seen = append(seen, fmt.Sprint(k, " ", name, " ", err == nil))
	})
	f := create(t, fsys, "/a")
	put(t, f, 0, []byte("x"))
	must(t, f.Sync())
	must(t, fsys.SyncDir("/"))
	fsys.FailAt(fsys.Calls(), faultfs.Fault{})
	fsys.Quietly(func() { must(t, f.Truncate(0)) })
	fsys.FailAt(-1, faultfs.Fault{})
	must(t, fsys.Remove("/a"))
	if want := []string{"create /a false", "write /a false", "sync /a false", "syncdir / false", "remove /a true"}; !slices.Equal(seen, want) {
		t.Errorf("saw %q, want %q", seen, want)
	}
}

func TestShortWrite(t *testing.T) {
	fsys := faultfs.New()
	f := create(t, fsys, "/a")
	fsys.FailAt(1, faultfs.Fault{Err: faultfs.ENOSPC, Short: true, Sticky: true})
	if n, err := f.WriteAt([]byte("abcd"), 0); n != 2 || !errors.Is(err, faultfs.ENOSPC) {
		t.Errorf("got %d, %v, want 2, ENOSPC", n, err)
	}
	if n, err := f.WriteAt([]byte("efgh"), 2); n != 0 || err == nil {
		t.Errorf("after it: got %d, %v, want 0 and an error", n, err)
	}
	if got := read(t, fsys, "/a"); string(got) != "ab" {
		t.Errorf("file holds %q, want ab", got)
	}
}

func TestRemovedFileLivesOn(t *testing.T) {
	fsys := faultfs.New()
	f := create(t, fsys, "/a")
	put(t, f, 0, []byte("x"))
	must(t, fsys.Remove("/a"))
	b := make([]byte, 1)
	if _, err := f.ReadAt(b, 0); err != nil || b[0] != 'x' {
		t.Errorf("got %q, %v, want x", b, err)
	}
	must(t, f.Close())
}

func TestSetFree(t *testing.T) {
	fsys := faultfs.New()
	fsys.SetFree(10, 20)
	for _, fsys := range []*faultfs.FS{fsys, fsys.CrashStrict()} {
		if free, total, err := fsys.Free("/"); free != 10 || total != 20 || err != nil {
			t.Errorf("got %d, %d, %v, want 10, 20", free, total, err)
		}
	}
}

func TestKindsOfNames(t *testing.T) {
	fsys := faultfs.New()
	must(t, fsys.MkdirAll("/d/e"))
	create(t, fsys, "/f")
	for what, err := range map[string]error{
		"open a directory":          second(fsys.Open("/d")),
		"create over a directory":   second(fsys.Create("/d")),
		"mkdir over a file":         fsys.MkdirAll("/f"),
		"mkdir below a file":        fsys.MkdirAll("/f/g"),
		"list a file":               second(fsys.List("/f")),
		"open below a file":         second(fsys.Open("/f/g")),
		"file over directory":       fsys.Rename("/f", "/d"),
		"directory over file":       fsys.Rename("/d", "/f"),
		"remove the root":           fsys.Remove("/"),
		"directory over a full one": fsys.Rename("/d/e", "/d"),
	} {
		if err == nil {
			t.Errorf("%s succeeded", what)
		}
	}
}

func second[T any](_ T, err error) error { return err }
