package broker

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"testing"
	"testing/synctest"

	"github.com/skepmq/skep/segment/vfs/faultfs"
)

// M-904: the power is cut at every call of a recovery, which itself follows a power cut.
// The next one finds all that was answered.
func TestPowerCutDuringRecovery(t *testing.T) {
	t.Parallel()
	fsys := faultfs.New()
	b, err := openOn(fsys)
	if err != nil {
		t.Fatal(err)
	}
	w := newWitness(b)
	if err := script(w); err != nil {
		t.Fatal(err)
	}
	defer closeBroker(t, b)
	for n := 0; ; n++ {
		met := false
		for seed := range uint64(2) {
			crashed := fsys.Crash(rand.New(rand.NewPCG(seed, uint64(n))))
			base := crashed.Calls()
			crashed.FailAt(base+n, faultfs.Fault{Err: faultfs.EIO, Sticky: true})
			half, err := openOn(crashed)
			met = crashed.Calls() > base+n
			again := crashed.Crash(rand.New(rand.NewPCG(seed, uint64(n)+1)))
			if err == nil {
				closeBroker(t, half)
			} else if !met {
				t.Fatalf("no fault and yet: %v", err)
			}
			w.checkRecovery(t, fmt.Sprintf("call %d seed %d", n, seed), again)
		}
		if !met {
			return
		}
	}
}

// slowIDs holds back whoever opens the index of transaction ids.
type slowIDs struct {
	*faultfs.FS
	goC chan struct{}
}

func (f *slowIDs) SyncDir(dir string) error {
	if filepath.Base(dir) == "dedup" {
		<-f.goC
	}
	return f.FS.SyncDir(dir)
}

// An open that fails while transaction ids are still being loaded closes them too before it
// gives the directory away.
func TestFailedRecoveryWaitsForIDs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fsys := faultfs.New()
		b := mustOpen(t, fsys, nil)
		if err := errors.Join(newWitness(b).push("p", "m"), b.Close(), fsys.RemoveAll("data/catalog")); err != nil {
			t.Fatal(err)
		}
		slow := &slowIDs{fsys, make(chan struct{})}
		done := false
		go func() {
			if _, err := Open(Options{FS: slow, Dir: "data"}); err == nil {
				t.Error("opened without a catalogue")
			}
			done = true
		}()
		synctest.Wait()
		if done {
			t.Error("ended before the index was loaded")
		}
		close(slow.goC)
		synctest.Wait()
		if n := fsys.Handles(); !done || n != 0 {
			t.Errorf("ended: %t, %d files are open", done, n)
		}
	})
}
