package offsets

import (
	"errors"
	"fmt"
	"testing"

	"github.com/skepmq/skep/log/record"
	"github.com/skepmq/skep/segment/vfs"
	"github.com/skepmq/skep/segment/vfs/faultfs"
)

type key struct {
	partition uint64
	group     uint32
}

func load(t *testing.T, fsys vfs.FS) (*Log, map[key]record.Cursor) {
	t.Helper()
	got := map[key]record.Cursor{}
	l, err := Open(Options{FS: fsys, Dir: "offsets", LogID: 9}, func(c record.Cursor) {
		got[key{c.Partition, c.Group}] = c
	})
	if err != nil {
		t.Fatal(err)
	}
	return l, got
}

// The last record of a key wins, across reopening, a power cut and a rewrite.
func TestFold(t *testing.T) {
	fsys := faultfs.New()
	l, _ := load(t, fsys)
	want := map[key]record.Cursor{}
	for round := range 5 {
		var cursors []record.Cursor
		for p := range uint64(20_000) { // more than one entry of a commit holds
			if round > 0 && p%3 == 0 {
				continue
			}
			c := record.Cursor{Partition: p, Group: 1, Committed: int64(round)}
			cursors = append(cursors, c)
			want[key{p, 1}] = c
		}
		if err := l.Commit(cursors); err != nil {
			t.Fatal(err)
		}
	}
	check := func(what string, fsys vfs.FS) {
		t.Helper()
		l, got := load(t, fsys)
		if len(got) != len(want) {
			t.Fatalf("%s: %d cursors, want %d", what, len(got), len(want))
		}
		for k, w := range want {
			if got[k] != w {
				t.Fatalf("%s: %v is %+v, want %+v", what, k, got[k], w)
			}
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	}
	check("after a power cut", fsys.CrashStrict())
	before := l.Size()
	err := l.Rewrite(func(emit func([]record.Cursor) error) error {
		var all []record.Cursor
		for _, c := range want {
			all = append(all, c)
		}
		return emit(all)
	})
	if err != nil {
		t.Fatal(err)
	}
	if l.Size() >= before {
		t.Fatalf("the rewrite left %d bytes of %d", l.Size(), before)
	}
	check("after a rewrite and a power cut", fsys.CrashStrict())
	if l.WantsRewrite() {
		t.Fatal("a fresh snapshot wants to be rewritten")
	}
}

func TestRewriteFails(t *testing.T) {
	fsys := faultfs.New()
	l, _ := load(t, fsys)
	if err := l.Commit([]record.Cursor{{Partition: 1, Group: 1, Committed: 5}}); err != nil {
		t.Fatal(err)
	}
	stop := errors.New("stop")
	if err := l.Rewrite(func(func([]record.Cursor) error) error { return stop }); !errors.Is(err, stop) {
		t.Fatalf("got %v, want the error of the callback", err)
	}
	if err := l.Commit([]record.Cursor{{Partition: 2, Group: 1, Committed: 6}}); err != nil {
		t.Fatal(err)
	}
	_, got := load(t, fsys.CrashStrict())
	if fmt.Sprint(got[key{1, 1}].Committed, got[key{2, 1}].Committed) != "5 6" {
		t.Fatalf("got %v", got)
	}
}
