package wal

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"testing"

	"github.com/skepmq/skep/segment/vfs"
	"github.com/skepmq/skep/segment/vfs/faultfs"
)

// progress is what a script knows when the disk lets it down.
type progress struct {
	appended int // handed to Append, whatever it answered
	synced   int // promised by Sync
}

// script appends n entries, syncs every third time and reopens once.
func script(o Options, n int) (p progress, err error) {
	l, _, err := Open(o, nil)
	if err != nil {
		return p, err
	}
	for i := 1; i <= n; i++ {
		p.appended = i
		if _, err := l.Append(payload(i)); err != nil {
			return p, errors.Join(err, l.Close())
		}
		if i%3 == 0 {
			if err := l.Sync(); err != nil {
				return p, errors.Join(err, l.Close())
			}
			p.synced = i
		}
		if i != n/2 {
			continue
		}
		if err := l.Close(); err != nil {
			return p, err
		}
		if l, _, err = Open(o, nil); err != nil {
			return p, err
		}
		p.synced = i
	}
	return p, l.Close()
}

var faults = map[string]faultfs.Fault{
	"EIO":           {Err: faultfs.EIO},
	"ENOSPC":        {Err: faultfs.ENOSPC, Short: true},
	"sticky EIO":    {Err: faultfs.EIO, Sticky: true},
	"sticky ENOSPC": {Err: faultfs.ENOSPC, Short: true, Sticky: true},
}

// TestFaultAtEveryCall fails each mutating call in turn, then looks at what the process
// and what several power cuts leave: synced ⊆ recovered ⊆ appended, in order, usable.
func TestFaultAtEveryCall(t *testing.T) {
	for name, fault := range faults {
		t.Run(name, func(t *testing.T) {
			for n := 0; ; n++ {
				fsys := faultfs.New()
				fsys.FailAt(n, fault)
				o := Options{FS: fsys, Dir: "/data/log", LogID: testID, SegmentBytes: 400}
				p, err := script(o, 24)
				met := fsys.Calls() > n
				if !met {
					must(t, err)
				}
				if fsys.Handles() != 0 {
					t.Fatalf("call %d: %d handles left open", n, fsys.Handles())
				}
				fsys.FailAt(-1, faultfs.Fault{})
				wantBetween(t, fmt.Sprintf("call %d, strict", n), o, fsys.CrashStrict(), p)
				for seed := range uint64(8) {
					wantBetween(t, fmt.Sprintf("call %d, seed %d", n, seed), o, fsys.Crash(rand.New(rand.NewPCG(seed, uint64(n)))), p)
				}
				if !met {
					return
				}
				wantBetween(t, fmt.Sprintf("call %d, kill", n), o, fsys, p)
			}
		})
	}
}

// wantBetween opens a log on what is left of a file system.
func wantBetween(t *testing.T, when string, o Options, fsys *faultfs.FS, p progress) {
	t.Helper()
	o.FS = fsys
	var got [][]byte
	l, _, err := Open(o, collect(t, &got))
	if err != nil {
		t.Fatalf("%s: %v", when, err)
	}
	if len(got) < p.synced || len(got) > p.appended {
		t.Fatalf("%s: %d recovered, %d synced, %d appended", when, len(got), p.synced, p.appended)
	}
	wantN(t, got, len(got))
	wantUsable(t, o, l, len(got))
}

// TestCrashDuringRecovery cuts the power at each call of an Open that repairs.
func TestCrashDuringRecovery(t *testing.T) {
	img := newImage(t, 8, 6)
	for n := 0; ; n++ {
		fsys := faultfs.New()
		o := Options{FS: fsys, Dir: "/log", LogID: testID}
		plant(t, o, img.bytes[:len(img.bytes)-1])
		must(t, errors.Join(fsys.SyncDir("/"), fsys.SyncDir("/log")))
		before := fsys.Calls()
		fsys.FailAt(before+n, faultfs.Fault{Sticky: true})
		l, _, err := Open(o, nil)
		if err == nil {
			err = l.Close()
		}
		met := fsys.Calls() > before+n
		if met != (err != nil) {
			t.Fatalf("call %d, met %t: %v", n, met, err)
		}
		for seed := range uint64(20) {
			wantBetween(t, fmt.Sprintf("call %d, seed %d", n, seed), o, fsys.Crash(rand.New(rand.NewPCG(seed, 0))), progress{7, 7})
		}
		if !met {
			return
		}
	}
}

// TestRecoveredIsDurable: what a killed process left in the kernel, the next Open puts
// on the disk before anybody acts on it.
func TestRecoveredIsDurable(t *testing.T) {
	fsys := faultfs.New()
	o := Options{FS: fsys, Dir: "/log", LogID: testID}
	l, _, _ := reopen(t, o)
	appendN(t, l, 1, 9)
	must(t, l.closeFiles()) // killed: no sync
	l, _, got := reopen(t, o)
	wantN(t, got, 9)
	if l.DurableSeq() != 9 {
		t.Errorf("DurableSeq %d, want 9", l.DurableSeq())
	}
	wantBetween(t, "power cut", o, fsys.CrashStrict(), progress{9, 9})
	must(t, l.Close())
}

// TestFailureIsSticky: after each kind of failed call nothing works and nothing more is
// written, though the disk is well again.
func TestFailureIsSticky(t *testing.T) {
	for name, call := range map[string]func(l *Log, fsys *faultfs.FS) error{
		"write": func(l *Log, fsys *faultfs.FS) error { _, err := l.Append(payload(3)); return err },
		"sync":  func(l *Log, fsys *faultfs.FS) error { return l.Sync() },
		"sync of a roll": func(l *Log, fsys *faultfs.FS) error {
			fsys.FailAt(fsys.Calls()+1, faultfs.Fault{})
			_, err := l.Append(make([]byte, 1000))
			return err
		},
		"create of a roll": func(l *Log, fsys *faultfs.FS) error {
			fsys.FailAt(fsys.Calls()+2, faultfs.Fault{})
			_, err := l.Append(make([]byte, 1000))
			return err
		},
		"syncdir of a roll": func(l *Log, fsys *faultfs.FS) error {
			fsys.FailAt(fsys.Calls()+3, faultfs.Fault{})
			_, err := l.Append(make([]byte, 1000))
			return err
		},
		"close": func(l *Log, fsys *faultfs.FS) error { return l.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			fsys := faultfs.New()
			o := Options{FS: fsys, Dir: "/log", LogID: testID, SegmentBytes: 500}
			l, _, _ := reopen(t, o)
			appendN(t, l, 1, 2)
			fsys.FailAt(fsys.Calls(), faultfs.Fault{})
			if err := call(l, fsys); !errors.Is(err, ErrFailed) || !errors.Is(err, faultfs.EIO) {
				t.Fatalf("got %v, want ErrFailed and EIO", err)
			}
			durable, calls := l.DurableSeq(), fsys.Calls()
			_, err := l.Append(payload(4))
			errs := []error{err, l.Sync(), l.Sync(), l.Close()}
			want := ErrFailed
			if name == "close" {
				want = ErrClosed
			}
			for i, err := range errs {
				if !errors.Is(err, want) {
					t.Errorf("call %d after it: got %v, want %v", i, err, want)
				}
			}
			if l.DurableSeq() != durable || fsys.Calls() != calls || fsys.Handles() != 0 {
				t.Errorf("durable %d then %d, calls %d then %d, %d handles", durable, l.DurableSeq(), calls, fsys.Calls(), fsys.Handles())
			}
		})
	}
}

// TestTidwallFailureIsSticky does the same with the real thing: its directory is gone
// when it rolls.
func TestTidwallFailureIsSticky(t *testing.T) {
	o := Options{FS: vfs.OS, Dir: filepath.Join(t.TempDir(), "log"), LogID: testID, SegmentBytes: 500}
	l, _, _ := reopen(t, o)
	appendN(t, l, 1, 2)
	must(t, vfs.OS.RemoveAll(o.Dir))
	if _, err := l.Append(make([]byte, 1000)); !errors.Is(err, ErrFailed) {
		t.Fatalf("got %v, want ErrFailed", err)
	}
	_, err := l.Append(nil)
	for i, err := range []error{err, l.Sync(), l.Close()} {
		if !errors.Is(err, ErrFailed) {
			t.Errorf("call %d after it: got %v, want ErrFailed", i, err)
		}
	}
}

func TestTidwallPanicIsAnError(t *testing.T) {
	a := &tidwallAppender{} // a nil log panics
	if err := a.write(1, nil); err == nil {
		t.Error("write: no error")
	}
	if err := a.close(); err == nil {
		t.Error("close: no error")
	}
}

// After a sync that has failed the kernel shows bytes that it will never write again, and
// says that all is well. Who opens the log in the same kernel finds them; then they must
// be on disk.
func TestReopenAfterFailedSync(t *testing.T) {
	for n := 1; n < 6; n++ {
		o := Options{FS: faultfs.New(), Dir: "log", LogID: 7}
		fsys := o.FS.(*faultfs.FS)
		l, _, err := Open(o, nil)
		if err != nil {
			t.Fatal(err)
		}
		fsys.FailAt(fsys.CallsOf(faultfs.Sync)+n-1, faultfs.Fault{Kinds: faultfs.Sync})
		for i := 1; err == nil; i++ {
			if _, err = l.Append(payload(i)); err == nil {
				err = l.Sync()
			}
		}
		if closeErr := l.Close(); !errors.Is(err, ErrFailed) || closeErr == nil {
			t.Fatalf("%v, and at the end %v", err, closeErr)
		}
		l, found, err := Open(o, nil)
		if err != nil || found.Entries != n {
			t.Fatalf("in the same kernel: %d entries of %d, %v", found.Entries, n, err)
		}
		for seed := range uint64(20) {
			o.FS = fsys.Crash(rand.New(rand.NewPCG(seed, uint64(n))))
			after, again, err := Open(o, nil)
			if err != nil || again.Entries != n {
				t.Fatalf("seed %d: %d entries of %d after a power cut, %v", seed, again.Entries, n, err)
			}
			if err := after.Close(); err != nil {
				t.Fatal(err)
			}
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
