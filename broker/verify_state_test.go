package broker

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/skepmq/skep/log/catalog"
	"github.com/skepmq/skep/log/fsck"
	"github.com/skepmq/skep/log/record"
)

// A directory of the data directory that is gone as a whole is told, whatever it is.
func TestVerifyDirectories(t *testing.T) {
	t.Parallel()
	fsys, _ := fullDirectory(t)
	for name, code := range map[string]string{
		"catalog": fsck.CatalogueMissing, "offsets": fsck.OffsetsMissing, "journal": fsck.JournalMissing,
		"segments": fsck.SegmentMissing, "dedup": fsck.DedupMissing,
	} {
		disk := fsys.CrashStrict()
		if err := disk.Rename("data/"+name, "data/away"); err != nil {
			t.Fatal(err)
		}
		r, err := fsck.Verify(fsck.Options{FS: disk, Dir: "data"})
		told := func(f fsck.Finding) bool { return f.Code == code && strings.HasPrefix(f.File, name) }
		if err != nil || !slices.ContainsFunc(r.Findings, told) {
			t.Errorf("without %s: %v, %+v", name, err, r)
		}
	}
}

// The catalogue may know of deletions and nothing of what was deleted. What belongs to a
// queue of which it knows neither is damage. Verify and a start agree on both.
func TestVerifyDeletionsOfTheUnknown(t *testing.T) {
	t.Parallel()
	fsys, _ := fullDirectory(t)
	deleted := record.AppendQueueDeleted(nil, 77)
	lost := record.AppendPartition(nil, &record.Partition{Number: 99, Queue: 77, Name: "p"})
	for name, c := range map[string]struct {
		frames []byte
		clean  bool
	}{
		"a deletion":                   {deleted, true},
		"a partition":                  {lost, false},
		"a partition and the deletion": {append(slices.Clone(lost), deleted...), true},
		"the deletion and a partition": {append(slices.Clone(deleted), lost...), true},
	} {
		disk := fsys.CrashStrict()
		home, err := catalog.Open(catalog.Options{FS: disk, Dir: "data/catalog"}, func(record.Kind, []byte) error { return nil })
		if err == nil {
			err = errors.Join(home.Commit(func(emit func([]byte) ([]byte, error)) error {
				_, err := emit(c.frames)
				return err
			}), home.Close())
		}
		if err != nil {
			t.Fatal(err)
		}
		r, err := fsck.Verify(fsck.Options{FS: disk, Dir: "data"})
		if err != nil || r.Clean != c.clean {
			t.Errorf("%s: %v, %+v", name, err, r)
		}
		b, err := openOn(disk)
		if (err == nil) != c.clean {
			t.Errorf("%s: opened: %v", name, err)
		}
		if err == nil {
			closeBroker(t, b)
		}
	}
}
