package broker

import (
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/skepmq/skep/segment/vfs"
	"github.com/skepmq/skep/segment/vfs/faultfs"
)

// gateFS keeps every sync of a file waiting while it is shut.
type gateFS struct {
	*faultfs.FS
	gate atomic.Pointer[chan struct{}]
}

func (f *gateFS) shut() (open func()) {
	c := make(chan struct{})
	f.gate.Store(&c)
	return func() { f.gate.Store(nil); close(c) }
}

func (f *gateFS) Create(name string) (vfs.File, error) {
	file, err := f.FS.Create(name)
	return gatedFile{file, f}, err
}

func (f *gateFS) OpenReadWrite(name string) (vfs.File, error) {
	file, err := f.FS.OpenReadWrite(name)
	return gatedFile{file, f}, err
}

type gatedFile struct {
	vfs.File
	fs *gateFS
}

func (f gatedFile) Sync() error {
	if c := f.fs.gate.Load(); c != nil {
		<-*c
	}
	return f.File.Sync()
}

// TestPolicyIsToldOnceStored lets two pops be the first of a group. The one that comes
// second says what the first has registered, and must not before that is on disk.
func TestPolicyIsToldOnceStored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fsys := &gateFS{FS: faultfs.New()}
		b, err := Open(Options{FS: fsys, Dir: "data", DiskHighPercent: 100})
		if err != nil {
			t.Fatal(err)
		}
		open := fsys.shut()
		var answered atomic.Int32
		for _, ask := range []bool{true, false} {
			go func() {
				res, err := b.Pop(&PopRequest{Tenant: DefaultTenant, Queue: "q", Group: "g", Conflation: ask})
				if err != nil || !res.Conflation {
					t.Errorf("asked %t: %+v, %v", ask, res, err)
				}
				answered.Add(1)
			}()
			synctest.Wait()
			if n := answered.Load(); n != 0 {
				t.Errorf("%d answered before anything was on disk", n)
			}
		}
		open()
		synctest.Wait()
		if n := answered.Load(); n != 2 {
			t.Errorf("%d answered", n)
		}
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
}

// A queue without a partition, and who has subscribed to it, outlives the journal and a
// rewriting of the catalogue.
func TestRewriteKeepsEmptyQueue(t *testing.T) {
	fsys := faultfs.New()
	b := mustOpen(t, fsys, nil)
	_, err := b.Configure(DefaultTenant, "q", func(o QueueOptions, _ bool) (QueueOptions, error) {
		o.LeaseTime = 77
		return o, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	popAll(t, b, PopRequest{Group: "g", SubscriptionMode: "new"})
	if _, err := b.checkpoint(); err != nil {
		t.Fatal(err)
	}
	if err := b.rewriteCatalog(); err != nil {
		t.Fatal(err)
	}
	q := mustOpen(t, fsys.CrashStrict(), nil).queue(DefaultTenant, "q")
	if q == nil || q.options.Load().LeaseTime != 77 {
		t.Fatal("the queue is lost")
	}
	if g := q.group("g"); g == nil || g.sub.Load().mode != modeNew {
		t.Fatal("the group is lost")
	}
}

// A partition that comes after a subscription was moved follows it, also where a crash has
// taken another one that had its number.
func TestPlacedNumbersAreNotUsedAgain(t *testing.T) {
	fsys := faultfs.New()
	b := mustOpen(t, fsys, nil)
	if err := newWitness(b).push("p", "p0"); err != nil {
		t.Fatal(err)
	}
	q := b.queue(DefaultTenant, "q")
	if err := b.register(b.ensureGroup(q, "g"), "all", "", false).Wait(); err != nil {
		t.Fatal(err)
	}
	b.ensurePartition(q, []byte("of a push that has not come so far"))
	if _, err := b.MoveSubscription(DefaultTenant, "g", 1<<50); err != nil {
		t.Fatal(err)
	}
	after := mustOpen(t, fsys.CrashStrict(), nil)
	if err := newWitness(after).push("new", "n0"); err != nil {
		t.Fatal(err)
	}
	if lag := lagOf(after); lag != 1 {
		t.Errorf("the group owes %d, want 1: the new partition is not where it begins", lag)
	}
}
