package broker

import (
	"slices"
	"strings"
	"testing"

	"github.com/skepmq/skep/log/fsck"
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
