package backup

import (
	"archive/tar"
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/skepmq/skep/segment/vfs"
	"github.com/skepmq/skep/segment/vfs/faultfs"
)

var update = flag.Bool("update", false, "write the golden files anew")

var content = map[string]string{
	"catalog/00000000000000000001/00000000000000000001": "what there is",
	"dedup/seed": "a seed",
	"journal/00000000000000000001/00000000000000000001": strings.Repeat("newest ", 200),
	"journal/00000000000000000002/00000000000000000001": "",
	"metrics/00000000000000000001.minutes":              "how much",
	"offsets/00000000000000000001/00000000000000000001": "places",
	"segments/00000001.seg":                             strings.Repeat("m", 2*copyBytes+7),
	"traces/00000000000000000001.traces":                "notes",
}

// memory is a Source.
type memory struct {
	*strings.Reader
	closed *int
}

func (m memory) Close() error { *m.closed++; return nil }

// archiveOf is an archive of files, and counts those that it closes.
func archiveOf(files map[string]string) (a *Archive, closed *int) {
	a, closed = &Archive{Version: "v1.2.3", Commit: "abcdef", CreatedAt: time.Date(2031, 2, 3, 4, 5, 6, 789e6, time.UTC)}, new(int)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		text := files[name]
		a.Files = append(a.Files, File{Name: name, Size: int64(len(text)), Open: func() (Source, error) {
			return memory{strings.NewReader(text + "what follows is not part of it"), closed}, nil
		}})
	}
	return a, closed
}

func encoded(t testing.TB, files map[string]string) []byte {
	t.Helper()
	a, closed := archiveOf(files)
	var b bytes.Buffer
	n, err := a.WriteTo(&b)
	size, sizeErr := a.Size()
	if err := errors.Join(err, sizeErr); err != nil {
		t.Fatal(err)
	}
	if n != size || int64(b.Len()) != size {
		t.Errorf("%d bytes written, %d told, %d expected", b.Len(), n, size)
	}
	if *closed != len(files) {
		t.Errorf("%d of %d files closed", *closed, len(files))
	}
	return b.Bytes()
}

// collect returns a Put that fills files.
func collect(files map[string]string) Put {
	return func(name string, r io.Reader) error {
		b, err := io.ReadAll(r)
		files[name] = string(b)
		return err
	}
}

func TestArchive(t *testing.T) {
	b := encoded(t, content)
	got := map[string]string{}
	m, err := Read(bytes.NewReader(b), collect(got))
	if err != nil {
		t.Fatal(err)
	}
	if !maps.Equal(got, content) || len(m.Files) != len(content) || m.Version != "v1.2.3" || m.Commit != "abcdef" ||
		!m.CreatedAt.Equal(time.Date(2031, 2, 3, 4, 5, 6, 789e6, time.UTC)) {
		t.Errorf("read %v of %+v", slices.Sorted(maps.Keys(got)), m)
	}
	if again, err := Read(bytes.NewReader(b), nil); err != nil || again.Bytes() != m.Bytes() {
		t.Errorf("without taking: %v, %v", again, err)
	}
}

// A file of any size has a header of one block.
func TestLargeFile(t *testing.T) {
	const size = 9 << 30
	a, _ := archiveOf(nil)
	var b bytes.Buffer
	if err := a.header(tar.NewWriter(&b), "dedup/00000000000000000001.sorted", size); err != nil {
		t.Fatal(err)
	}
	h, err := tar.NewReader(&b).Next()
	if err != nil || h.Size != size || b.Len() != 0 || tarSize(size) != size+tarBlock {
		t.Errorf("%+v, %d bytes left, %v", h, b.Len(), err)
	}
}

// The bytes of a format stay readable.
func TestGolden(t *testing.T) {
	small := map[string]string{"catalog/00000000000000000001/00000000000000000001": "c", "segments/00000001.seg": "s"}
	path := filepath.Join("testdata", "backup.tar")
	b := encoded(t, small)
	if *update {
		if err := os.WriteFile(path, b, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	golden, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(golden, b) {
		t.Error("the archive is not what it was: give the format another number, and go on reading this one")
	}
	if _, err := Read(bytes.NewReader(golden), nil); err != nil {
		t.Error(err)
	}
}

// Every beginning of an archive is told from a whole one, and so is every flipped bit in what
// it says.
func TestEveryCutAndFlip(t *testing.T) {
	b := encoded(t, map[string]string{"catalog/1/1": "what there is", "dedup/seed": "a seed"})
	end := bytes.LastIndexByte(b, '\n') + 1 // of the manifest; zeros follow
	for n := range end {
		if _, err := Read(bytes.NewReader(b[:n]), nil); !errors.Is(err, ErrIncomplete) && !errors.Is(err, ErrDamaged) {
			t.Errorf("cut at %d: %v", n, err)
		}
	}
	whole, err := Read(bytes.NewReader(b), nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := range end {
		c := slices.Clone(b)
		c[i] ^= 1 << (i % 8)
		m, err := Read(bytes.NewReader(c), nil)
		if err == nil && !slices.Equal(m.Files, whole.Files) {
			t.Errorf("bit flipped at %d: other files", i)
		}
		if err == nil && bytes.Contains(b[i:min(i+14, len(b))], []byte("what there is")) {
			t.Errorf("bit flipped at %d: not noticed", i)
		}
	}
	for _, at := range []int{tarBlock, 3 * tarBlock} { // in the two files
		c := slices.Clone(b)
		c[at] ^= 1
		if _, err := Read(bytes.NewReader(c), nil); !errors.Is(err, ErrDamaged) {
			t.Errorf("another byte at %d: %v", at, err)
		}
	}
}

// tarOf is an archive as anybody could make it.
func tarOf(t *testing.T, headers []tar.Header, manifest string) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, h := range headers {
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
	}
	if manifest != "" {
		err := w.WriteHeader(&tar.Header{Name: ManifestName, Size: int64(len(manifest)), Mode: 0o600})
		if _, werr := w.Write([]byte(manifest)); err != nil || werr != nil {
			t.Fatal(err, werr)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// Nothing in a backup leads out of the directory it is unpacked into, and nothing else comes
// in with it.
func TestForeignArchives(t *testing.T) {
	const empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
	listing := func(names ...string) string {
		var files []string
		for _, n := range names {
			files = append(files, fmt.Sprintf(`{"name":%q,"size":0,"sha256":%q}`, n, empty))
		}
		return `{"format":1,"files":[` + strings.Join(files, ",") + `]}`
	}
	good := tar.Header{Name: "catalog/1"}
	for _, tt := range []struct {
		name     string
		headers  []tar.Header
		manifest string
		want     error
	}{
		{"good", []tar.Header{good}, listing("catalog/1"), nil},
		{"nothing", nil, "", ErrIncomplete},
		{"no manifest", []tar.Header{good}, "", ErrIncomplete},
		{"up and out", []tar.Header{{Name: "catalog/../../x"}}, listing("catalog/1"), ErrDamaged},
		{"absolute", []tar.Header{{Name: "/etc/x"}}, listing("catalog/1"), ErrDamaged},
		{"another place", []tar.Header{{Name: "LOCK"}}, listing("catalog/1"), ErrDamaged},
		{"what was repaired", []tar.Header{{Name: "repairs/1"}}, listing("catalog/1"), ErrDamaged},
		{"a directory", []tar.Header{{Name: "catalog/", Typeflag: tar.TypeDir}}, listing("catalog/1"), ErrDamaged},
		{"a link", []tar.Header{{Name: "catalog/1", Typeflag: tar.TypeSymlink, Linkname: "/etc/passwd"}}, listing("catalog/1"), ErrDamaged},
		{"a hard link", []tar.Header{{Name: "catalog/1", Typeflag: tar.TypeLink, Linkname: "/etc/passwd"}}, listing("catalog/1"), ErrDamaged},
		{"twice", []tar.Header{good, good}, listing("catalog/1", "catalog/1"), ErrDamaged},
		{"one more", []tar.Header{good, {Name: "catalog/2"}}, listing("catalog/1"), ErrDamaged},
		{"one less", []tar.Header{good}, listing("catalog/1", "catalog/2"), ErrDamaged},
		{"another", []tar.Header{good}, listing("catalog/2"), ErrDamaged},
		{"no catalogue", []tar.Header{{Name: "segments/1"}}, listing("segments/1"), ErrDamaged},
		{"a newer format", []tar.Header{good}, `{"format":2}`, ErrFormat},
		{"no JSON", []tar.Header{good}, `format 1`, ErrDamaged},
	} {
		fsys := faultfs.New()
		_, err := Save(fsys, "/b", bytes.NewReader(tarOf(t, tt.headers, tt.manifest)))
		if !errors.Is(err, tt.want) {
			t.Errorf("%s: got %v, want %v", tt.name, err, tt.want)
		}
		if names, _ := fsys.List("/b"); tt.want != nil && len(names) > 0 {
			t.Errorf("%s: left %v", tt.name, names)
		}
	}
	if _, err := Read(strings.NewReader(strings.Repeat("no tar at all", 100)), nil); !errors.Is(err, ErrDamaged) {
		t.Errorf("no tar: %v", err)
	}
	if _, err := Read(bytes.NewReader(append(encoded(t, content), 1)), nil); err != nil {
		t.Errorf("a byte behind the end: %v", err)
	}
}

// A file that is shorter than it was, one that cannot be opened, and a reason not to go on
// end an archive, and leave no file open.
func TestArchiveFails(t *testing.T) {
	stop := errors.New("stop")
	for name, spoil := range map[string]func(*Archive){
		"short":        func(a *Archive) { a.Files[1].Size += 1 << 20 },
		"not there":    func(a *Archive) { a.Files[1].Open = func() (Source, error) { return nil, stop } },
		"not to go on": func(a *Archive) { a.Proceed = func() error { return stop } },
	} {
		a, closed := archiveOf(content)
		opened := 0
		spoil(a)
		for i := range a.Files {
			open := a.Files[i].Open
			a.Files[i].Open = func() (Source, error) {
				s, err := open()
				if err == nil {
					opened++
				}
				return s, err
			}
		}
		var b bytes.Buffer
		_, err := a.WriteTo(&b)
		if err == nil || opened != *closed {
			t.Errorf("%s: %v, %d opened and %d closed", name, err, opened, *closed)
		}
		if _, err := Read(&b, nil); !errors.Is(err, ErrIncomplete) {
			t.Errorf("%s: reading what was written: %v", name, err)
		}
	}
}

// tree reads all files below a directory.
func tree(t *testing.T, fsys vfs.FS, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	names, err := fsys.List(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		path := filepath.Join(dir, name)
		if _, err := fsys.List(path); err == nil {
			for n, text := range tree(t, fsys, path) {
				all[name+"/"+n] = text
			}
			continue
		}
		b, err := readFile(fsys, path)
		if err != nil {
			t.Fatal(err)
		}
		all[name] = string(b)
	}
	return all
}

// A backup becomes a directory, and a data directory either way. All of it is on disk then.
func TestSaveAndRestore(t *testing.T) {
	fsys := faultfs.New()
	b := encoded(t, content)
	if _, err := Save(fsys, "/kept/b", bytes.NewReader(b)); err != nil {
		t.Fatal(err)
	}
	fsys = fsys.CrashStrict()
	saved := tree(t, fsys, "/kept/b")
	if saved[ManifestName] == "" {
		t.Error("no manifest")
	}
	delete(saved, ManifestName)
	if !maps.Equal(saved, content) {
		t.Errorf("saved %v", slices.Sorted(maps.Keys(saved)))
	}
	if _, err := RestoreDir(fsys, "/one", "/kept/b"); err != nil {
		t.Fatal(err)
	}
	if _, err := Restore(fsys, "/two", bytes.NewReader(b)); err != nil {
		t.Fatal(err)
	}
	fsys = fsys.CrashStrict()
	for _, dir := range []string{"/one", "/two"} {
		restored := tree(t, fsys, dir)
		delete(restored, lockName)
		if !maps.Equal(restored, content) {
			t.Errorf("%s: restored %v", dir, slices.Sorted(maps.Keys(restored)))
		}
	}
}

// A directory that has something in it is left alone, and so is one that a broker serves.
func TestRestoreRefuses(t *testing.T) {
	b := encoded(t, content)
	fsys := faultfs.New()
	if _, err := Restore(fsys, "/d", bytes.NewReader(b)); err != nil {
		t.Fatal(err)
	}
	before := tree(t, fsys, "/d")
	for what, err := range map[string]error{
		"restore": second(Restore(fsys, "/d", bytes.NewReader(b))),
		"save":    second(Save(fsys, "/d", bytes.NewReader(b))),
		"from":    second(RestoreDir(fsys, "/d", "/d")),
	} {
		if !errors.Is(err, ErrNotEmpty) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if !maps.Equal(before, tree(t, fsys, "/d")) {
		t.Error("something has changed")
	}
	if err := fsys.MkdirAll("/e/lost+found"); err != nil { // a file system of its own
		t.Fatal(err)
	}
	lock, err := fsys.Lock("/e/LOCK")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Restore(fsys, "/e", bytes.NewReader(b)); !errors.Is(err, vfs.ErrLocked) {
		t.Errorf("under a broker: %v", err)
	}
	if err := lock.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := Restore(fsys, "/e", bytes.NewReader(b)); err != nil {
		t.Errorf("beside lost+found: %v", err)
	}
}

func second[T any](_ T, err error) error { return err }

// What is wrong with a backup that is a directory is told.
func TestDamagedDirectory(t *testing.T) {
	for name, tt := range map[string]struct {
		spoil func(fsys *faultfs.FS) error
		want  error
	}{
		"no manifest":    {func(f *faultfs.FS) error { return f.Remove("/b/" + ManifestName) }, ErrIncomplete},
		"a file missing": {func(f *faultfs.FS) error { return f.Remove("/b/dedup/seed") }, ErrDamaged},
		"another byte":   {func(f *faultfs.FS) error { return overwrite(f, "/b/dedup/seed", "A", 0) }, ErrDamaged},
		"a byte more":    {func(f *faultfs.FS) error { return overwrite(f, "/b/dedup/seed", "x", 6) }, ErrDamaged},
	} {
		fsys := faultfs.New()
		if _, err := Save(fsys, "/b", bytes.NewReader(encoded(t, content))); err != nil {
			t.Fatal(err)
		}
		if err := tt.spoil(fsys); err != nil {
			t.Fatal(err)
		}
		if _, err := RestoreDir(fsys, "/d", "/b"); !errors.Is(err, tt.want) {
			t.Errorf("%s: %v", name, err)
		}
		if got := tree(t, fsys, "/d"); len(got) != 1 { // the lock
			t.Errorf("%s: left %v", name, slices.Sorted(maps.Keys(got)))
		}
	}
}

func overwrite(fsys vfs.FS, path, text string, at int64) error {
	f, err := fsys.OpenReadWrite(path)
	if err != nil {
		return err
	}
	_, err = f.WriteAt([]byte(text), at)
	return errors.Join(err, f.Close())
}

// A disk that fails leaves nothing of a restore; one that loses its power in the middle leaves
// no catalogue and a journal, with which no broker starts, or all, or nothing.
func TestRestoreFaultAtEveryCall(t *testing.T) {
	b := encoded(t, content)
	rng := rand.New(rand.NewPCG(1, 2))
	for n := 0; ; n++ {
		fsys := faultfs.New()
		var cuts []*faultfs.FS
		fsys.Observe(func(faultfs.Kinds, string) { cuts = append(cuts, fsys.CrashStrict(), fsys.Crash(rng)) })
		fsys.FailAt(n, faultfs.Fault{Err: faultfs.ENOSPC})
		_, err := Restore(fsys, "/d", bytes.NewReader(b))
		met := fsys.Calls() > n
		fsys.Observe(nil)
		if met && err != nil {
			if names, _ := fsys.List("/d"); len(names) > 1 {
				t.Errorf("call %d: %v, and left %v", n, err, names)
			}
		} else if err != nil {
			t.Fatal(err)
		}
		for i, cut := range cuts {
			names, _ := cut.List("/d")
			if !slices.Contains(names, catalogName) {
				names = slices.DeleteFunc(names, func(name string) bool { return name == lockName })
				if len(names) > 0 && !slices.Contains(names, journalName) {
					t.Errorf("call %d, power cut at %d: a broker would begin anew beside %v", n, i, names)
				}
				continue
			}
			if got := tree(t, cut, "/d"); len(got) < len(content) {
				t.Errorf("call %d, power cut at %d: only %v", n, i, slices.Sorted(maps.Keys(got)))
			}
		}
		if n := fsys.Handles(); n > 0 {
			t.Errorf("%d files open", n)
		}
		if !met {
			return
		}
	}
}
