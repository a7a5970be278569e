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

// TestPlaceIsStoredOnceAnswered lets a pinned pop meet a place or a policy that another
// request has just given its group. The answer rests on it, so it is to be on disk; from
// then on a pinned pop waits for nothing.
func TestPlaceIsStoredOnceAnswered(t *testing.T) {
	pinned := PopRequest{Tenant: DefaultTenant, Queue: "q", Pinned: true, Partition: "p", Group: "g", SubscriptionMode: "new"}
	for name, tt := range map[string]struct {
		before bool // the group has its place already
		first  PopRequest
	}{
		"the place of a pinned pop":       {false, pinned},
		"the place of a lease":            {false, PopRequest{SubscriptionMode: "all"}},
		"the place of an empty queue pop": {false, PopRequest{SubscriptionMode: "new"}},
		"the policy":                      {true, PopRequest{Conflation: true}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				fsys := &gateFS{FS: faultfs.New()}
				b, err := Open(Options{FS: fsys, Dir: "data", DiskHighPercent: 100})
				if err != nil {
					t.Fatal(err)
				}
				w := newWitness(b)
				if err := w.push("p", "m"); err != nil {
					t.Fatal(err)
				}
				var answered atomic.Int32
				pop := func(r PopRequest) {
					r.Tenant, r.Queue, r.Group = pinned.Tenant, pinned.Queue, pinned.Group
					if _, err := b.Pop(&r); err != nil {
						t.Errorf("%+v: %v", r, err)
					}
					answered.Add(1)
				}
				if tt.before {
					pop(pinned)
				}
				answered.Store(0)
				open := fsys.shut()
				for _, r := range []PopRequest{tt.first, pinned} {
					go pop(r)
					synctest.Wait()
				}
				if n := answered.Load(); n != 0 {
					t.Errorf("%d answered before anything was on disk", n)
				}
				open()
				synctest.Wait()
				open = fsys.shut()
				go func() {
					if err := w.push("p", "n"); err != nil {
						t.Error(err)
					}
				}()
				synctest.Wait()
				go pop(pinned)
				synctest.Wait()
				if n := answered.Load(); n != 3 {
					t.Errorf("%d answered, want the third beside a push that waits for the disk", n)
				}
				open()
				synctest.Wait()
				if err := b.Close(); err != nil {
					t.Error(err)
				}
			})
		})
	}
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
	if err := b.rewriteAlone(); err != nil {
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
