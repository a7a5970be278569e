package broker

import (
	"errors"
	"maps"
	"path"
	"slices"
	"testing"

	"github.com/skepmq/skep/log/fsck"
	"github.com/skepmq/skep/segment/vfs"
	"github.com/skepmq/skep/segment/vfs/faultfs"
)

// lengths returns the lengths of the files in a directory.
func lengths(t *testing.T, fsys vfs.FS, dir string) map[string]int64 {
	t.Helper()
	names, err := fsys.List(dir)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]int64{}
	for _, name := range names {
		if all[name], err = fsys.Size(path.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	return all
}

// A catalogue that has lost its end looks like one with a torn tail. The segments that it
// does not know any more must not be removed as left-overs: the journal tells that it is
// older than what was filed.
func TestCatalogThatHasLostItsEnd(t *testing.T) {
	const log = "data/catalog/00000000000000000001/00000000000000000001"
	fsys := faultfs.New()
	b := mustOpen(t, fsys, nil)
	w := newWitness(b)
	var ends []int64 // of the catalogue after each checkpoint
	for _, id := range []string{"a", "b", "c"} {
		if err := errors.Join(w.push("p-"+id, id), w.checkpoint()); err != nil {
			t.Fatal(err)
		}
		size, err := fsys.Size(log)
		if err != nil {
			t.Fatal(err)
		}
		ends = append(ends, size)
	}
	disk := fsys.CrashStrict()
	for cut := ends[0]; cut < ends[2]; cut += 7 {
		fsys := disk.CrashStrict()
		f, err := fsys.OpenReadWrite(log)
		if err == nil {
			err = errors.Join(f.Truncate(cut), f.Sync(), f.Close())
		}
		if err != nil {
			t.Fatal(err)
		}
		before := lengths(t, fsys, "data/segments")
		_, err = openOn(fsys)
		if err == nil {
			t.Fatalf("cut at %d of %d: the broker has started", cut, ends[2])
		}
		if now := lengths(t, fsys, "data/segments"); !maps.Equal(before, now) {
			t.Fatalf("cut at %d of %d: segments were %v and are %v", cut, ends[2], before, slices.Sorted(maps.Keys(now)))
		}
	}
}

// Offsets that are cut down to nothing look like those of a broker that has never run. Once
// a checkpoint has been made they are not: every group would start over.
func TestOffsetsThatAreGone(t *testing.T) {
	const log = "data/offsets/00000000000000000001/00000000000000000001"
	for name, spoil := range map[string]func(*faultfs.FS) error{
		"emptied": func(fsys *faultfs.FS) error {
			f, err := fsys.OpenReadWrite(log)
			if err != nil {
				return err
			}
			return errors.Join(f.Truncate(0), f.Close())
		},
		"file removed":       func(fsys *faultfs.FS) error { return fsys.Remove(log) },
		"generation removed": func(fsys *faultfs.FS) error { return fsys.RemoveAll(path.Dir(log)) },
		"directory removed":  func(fsys *faultfs.FS) error { return fsys.RemoveAll("data/offsets") },
	} {
		t.Run(name, func(t *testing.T) {
			fsys := faultfs.New()
			b := mustOpen(t, fsys, nil)
			w := newWitness(b)
			if err := errors.Join(w.push("p", "a", "b"), w.consume("p", 1, AckCompleted), w.checkpoint()); err != nil {
				t.Fatal(err)
			}
			disk := fsys.CrashStrict()
			if err := spoil(disk); err != nil {
				t.Fatal(err)
			}
			if _, err := openOn(disk); err == nil {
				t.Fatal("the broker has started")
			}
			if r, err := fsck.Verify(fsck.Options{FS: disk, Dir: "data"}); err != nil || r.Clean {
				t.Errorf("verify: got %+v, %v, want a finding", r, err)
			}
		})
	}
}
