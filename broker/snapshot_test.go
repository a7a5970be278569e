package broker

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/skepmq/skep/log/backup"
	partlog "github.com/skepmq/skep/log/partition"
	"github.com/skepmq/skep/segment/vfs/faultfs"
)

func mustSnapshot(t *testing.T, b *Broker) *Snapshot {
	t.Helper()
	s, err := b.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// written copies a snapshot.
func (s *Snapshot) written(w io.Writer) error {
	a := backup.Archive{CreatedAt: s.At, Files: s.Files, Proceed: s.Proceed}
	_, err := a.WriteTo(w)
	return err
}

// comesTo waits until the checkpoint that a snapshot has started is over.
func comesTo(t *testing.T, what string, want int, got func() int) {
	t.Helper()
	tick := time.NewTicker(100 * time.Microsecond)
	defer tick.Stop()
	for deadline := time.Now().Add(20 * time.Second); got() != want; <-tick.C {
		if time.Now().After(deadline) {
			t.Fatalf("waited 20 s for %d %s, there are %d", want, what, got())
		}
	}
}

// G-904: there is one snapshot at a time, and none of a broker that stops. A snapshot that is
// given up, at any time, leaves no file open.
func TestSnapshotEnds(t *testing.T) {
	fsys := faultfs.New()
	b := mustOpen(t, fsys, nil)
	w := newWitness(b)
	if err := errors.Join(w.push("a", "a0"), w.checkpoint(), w.push("b", "b0"), w.checkpoint(), w.checkpoint()); err != nil {
		t.Fatal(err)
	}
	open := fsys.Handles()
	for _, copied := range []int{0, 1, 5, -1} {
		s := mustSnapshot(t, b)
		if _, err := b.Snapshot(); !errors.Is(err, ErrSnapshotRunning) {
			t.Errorf("a second one: %v", err)
		}
		left := copied
		a := backup.Archive{Files: s.Files, Proceed: func() error {
			if left--; left == -1 {
				return io.EOF
			}
			return nil
		}}
		if _, err := a.WriteTo(io.Discard); (err != nil) != (copied >= 0) {
			t.Errorf("after %d pieces: %v", copied, err)
		}
		s.Close()
		comesTo(t, "files that are open", open, fsys.Handles)
	}
	s := mustSnapshot(t, b)
	b.StopWaiting()
	if err := s.written(io.Discard); !errors.Is(err, ErrClosed) {
		t.Errorf("while the broker stops: %v", err)
	}
	s.Close()
	if _, err := b.Snapshot(); !errors.Is(err, ErrClosed) {
		t.Errorf("of a broker that stops: %v", err)
	}
}

// G-904: however many snapshots there are of a broker at rest, no generations of the journal
// pile up behind them.
func TestSnapshotsOfIdleBroker(t *testing.T) {
	fsys := faultfs.New()
	b := mustOpen(t, fsys, nil)
	for range 5 {
		mustSnapshot(t, b).Close()
		comesTo(t, "generations", 1, func() int {
			names, err := fsys.List("data/journal")
			if err != nil {
				t.Fatal(err)
			}
			return len(names)
		})
	}
}

// R4: a snapshot does not keep the disk full. As long as it holds nothing that would be gone
// otherwise, it goes on.
func TestSnapshotGivesWay(t *testing.T) {
	fsys := faultfs.New()
	b := mustOpen(t, fsys, func(o *Options) { o.DiskHighPercent = 85 })
	w := newWitness(b)
	if err := errors.Join(w.push("a", "a0", "a1"), w.checkpoint()); err != nil {
		t.Fatal(err)
	}
	s := mustSnapshot(t, b)
	defer s.Close()
	fsys.SetFree(1<<20, 100<<20)
	b.checkSpace()
	if err := s.Proceed(); err != nil {
		t.Errorf("full: %v", err)
	}
	if _, err := b.DeleteQueue(DefaultTenant, "q"); err != nil {
		t.Fatal(err)
	}
	if err := w.checkpoint(); err != nil {
		t.Fatal(err)
	}
	if err := s.Proceed(); !errors.Is(err, ErrStorageFull) {
		t.Errorf("full, with a segment that was deleted: %v", err)
	}
	fsys.SetFree(enoughFree, 100*enoughFree)
	b.checkSpace()
	if err := s.written(io.Discard); err != nil {
		t.Errorf("with room again: %v", err)
	}
	if names, err := fsys.List("data/segments"); err != nil || len(names) > 0 {
		t.Errorf("after it there is %v, %v", names, err)
	}
}

// R6: a snapshot of a segment that is not there begins with an error that says so, and not
// with an archive.
func TestSnapshotOfDamage(t *testing.T) {
	fsys := faultfs.New()
	b := mustOpen(t, fsys, nil)
	w := newWitness(b)
	if err := errors.Join(w.push("a", "a0", "a1"), w.checkpoint()); err != nil {
		t.Fatal(err)
	}
	const name = "data/segments/00000001.seg"
	if err := fsys.Remove(name); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Snapshot(); !errors.Is(err, partlog.ErrMissing) || !strings.Contains(err.Error(), name) {
		t.Errorf("got %v", err)
	}
	if _, err := b.Snapshot(); errors.Is(err, ErrSnapshotRunning) {
		t.Error("the one that failed is running still")
	}
}

// G-904: a disk that fails at any call fails the snapshot at most, unless the journal itself
// could not be written; then another one, or what was stored, is whole.
func TestSnapshotFaultAtEveryCall(t *testing.T) {
	for _, kinds := range []faultfs.Kinds{faultfs.Mutating, faultfs.Open | faultfs.Read} {
		for n := 0; ; n++ {
			fsys := faultfs.New()
			b := mustOpen(t, fsys, nil)
			w := newWitness(b)
			if err := errors.Join(w.push("a", "a0"), w.checkpoint(), w.push("b", "b0")); err != nil {
				t.Fatal(err)
			}
			at := fsys.CallsOf(kinds) + n
			fsys.FailAt(at, faultfs.Fault{Kinds: kinds})
			s, err := b.Snapshot()
			if err == nil {
				err = s.written(io.Discard)
				s.Close()
			}
			met := fsys.CallsOf(kinds) > at
			fsys.FailAt(-1, faultfs.Fault{})
			if !met && err != nil {
				t.Fatalf("call %d: %v", n, err)
			}
			if b.journal.Err() == nil && b.Ready() == nil {
				var tar bytes.Buffer
				s := mustSnapshot(t, b)
				if err := s.written(&tar); err != nil {
					t.Errorf("call %d, the next one: %v", n, err)
				}
				s.Close()
				if m, err := backup.Read(&tar, nil); err != nil || m.Bytes() == 0 {
					t.Errorf("call %d, reading the next one: %v", n, err)
				}
			}
			if !met {
				break
			}
		}
	}
}
