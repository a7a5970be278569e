package catalog

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/skepmq/skep/log/record"
	"github.com/skepmq/skep/segment/vfs"
	"github.com/skepmq/skep/segment/vfs/faultfs"
)

func load(t *testing.T, fsys vfs.FS) (*Catalog, []string) {
	t.Helper()
	var got []string
	c, err := Open(Options{FS: fsys, Dir: "catalog"}, func(k record.Kind, body []byte) error {
		if k == record.KindPartition {
			p, err := record.DecodePartition(body)
			got = append(got, p.Name)
			return err
		}
		got = append(got, fmt.Sprint(k))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return c, got
}

func frames(names ...string) (b []byte) {
	for i, name := range names {
		b = record.AppendPartition(b, &record.Partition{Number: uint64(i + 1), Queue: 1, Name: name})
	}
	return b
}

func emitOnce(frames []byte) func(func([]byte) ([]byte, error)) error {
	return func(emit func([]byte) ([]byte, error)) error {
		_, err := emit(frames)
		return err
	}
}

func TestCommitIsDurable(t *testing.T) {
	fsys := faultfs.New()
	c, _ := load(t, fsys)
	var want []string
	for i := range 5 {
		names := []string{fmt.Sprint(i, "a"), fmt.Sprint(i, "b")}
		if err := c.Commit(emitOnce(frames(names...))); err != nil {
			t.Fatal(err)
		}
		want = append(want, names...)
		if _, got := load(t, fsys.CrashStrict()); !slices.Equal(got, want) {
			t.Fatalf("a power cut leaves %v, want %v", got, want)
		}
	}
}

// A rewrite cut off by a power cut at any call leaves the old catalogue or the new one.
func TestRewrite(t *testing.T) {
	for n := 0; ; n++ {
		fsys := faultfs.New()
		c, _ := load(t, fsys)
		if err := c.Commit(emitOnce(frames("old"))); err != nil {
			t.Fatal(err)
		}
		base := fsys.Calls()
		fsys.FailAt(base+n, faultfs.Fault{Err: faultfs.EIO, Sticky: true})
		err := c.Rewrite(func(emit func([]byte) ([]byte, error)) error {
			buf, err := emit(frames("new", "newer"))
			if err != nil {
				return err
			}
			for len(buf) < 3*entryBytes/2 {
				buf = append(buf, frames("filler")...)
			}
			buf, err = emit(buf)
			if err == nil {
				_, err = emit(append(buf, frames("last")...))
			}
			return err
		})
		calls := fsys.Calls() - base
		_, got := load(t, fsys.CrashStrict())
		switch {
		case slices.Equal(got, []string{"old"}):
			if err == nil {
				t.Fatalf("call %d: the rewrite succeeded and the old catalogue is back", n)
			}
		case got[0] == "new" && got[1] == "newer" && got[len(got)-1] == "last":
		default:
			t.Fatalf("call %d: %d frames from %q to %q", n, len(got), got[0], got[len(got)-1])
		}
		if n > calls {
			if err != nil {
				t.Fatal(err)
			}
			return
		}
	}
}

func TestLoadError(t *testing.T) {
	fsys := faultfs.New()
	c, _ := load(t, fsys)
	if err := c.Commit(emitOnce(frames("a"))); err != nil {
		t.Fatal(err)
	}
	stop := errors.New("stop")
	_, err := Open(Options{FS: fsys.CrashStrict(), Dir: "catalog"}, func(record.Kind, []byte) error { return stop })
	if !errors.Is(err, stop) {
		t.Fatalf("got %v, want the error of load", err)
	}
}
