package journal

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/skepmq/skep/log/wal"
	"github.com/skepmq/skep/segment/vfs"
	"github.com/skepmq/skep/segment/vfs/faultfs"
)

type replayed struct {
	generation uint64
	frames     string
}

// open opens a journal over fsys and returns it with what it replayed.
func open(t *testing.T, fsys vfs.FS, change func(*Options)) (*Journal, []replayed, error) {
	t.Helper()
	o := Options{FS: fsys, Dir: "journal", LogID: 7}
	if change != nil {
		change(&o)
	}
	var got []replayed
	j, err := Open(o, func(generation uint64, frames []byte) error {
		got = append(got, replayed{generation, string(frames)})
		return nil
	})
	if err == nil {
		t.Cleanup(func() {
			if err := j.Close(); err != nil && !errors.Is(err, vfs.ErrLocked) && j.Err() == nil {
				t.Errorf("close: %v", err)
			}
		})
	}
	return j, got, err
}

func mustOpen(t *testing.T, fsys vfs.FS, change func(*Options)) (*Journal, []replayed) {
	t.Helper()
	j, got, err := open(t, fsys, change)
	if err != nil {
		t.Fatal(err)
	}
	return j, got
}

func appendWait(t *testing.T, j *Journal, frames string) {
	t.Helper()
	stored, ticket := j.Append([]byte(frames), false)
	if err := ticket.Wait(); err != nil {
		t.Fatalf("append %q: %v", frames, err)
	}
	if string(stored) != frames {
		t.Fatalf("stored %q, want %q", stored, frames)
	}
}

func TestReplay(t *testing.T) {
	tests := []struct {
		name  string
		steps func(t *testing.T, j *Journal)
		filed uint64 // of the second Open
		want  []replayed
	}{
		{"nothing", func(*testing.T, *Journal) {}, 0, nil},
		{"in order", func(t *testing.T, j *Journal) {
			appendWait(t, j, "a")
			appendWait(t, j, "b")
		}, 0, []replayed{{1, "a"}, {1, "b"}}},
		{"across a rotation", func(t *testing.T, j *Journal) {
			appendWait(t, j, "a")
			mustRotate(t, j, 1)
			appendWait(t, j, "b")
		}, 0, []replayed{{1, "a"}, {2, "b"}}},
		{"dropped", func(t *testing.T, j *Journal) {
			appendWait(t, j, "a")
			mustRotate(t, j, 1)
			appendWait(t, j, "b")
			if err := j.Drop(1); err != nil {
				t.Fatal(err)
			}
		}, 1, []replayed{{2, "b"}}},
		{"filed and not yet dropped", func(t *testing.T, j *Journal) {
			appendWait(t, j, "a")
			mustRotate(t, j, 1)
			appendWait(t, j, "b")
		}, 1, []replayed{{2, "b"}}},
		{"unwaited", func(t *testing.T, j *Journal) {
			j.Append([]byte("lazy"), true)
			if err := j.Close(); err != nil {
				t.Fatal(err)
			}
		}, 0, []replayed{{1, "lazy"}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			fsys := faultfs.New()
			j, _ := mustOpen(t, fsys, nil)
			tt.steps(t, j)
			if err := j.Close(); err != nil {
				t.Fatal(err)
			}
			next, got := mustOpen(t, fsys, func(o *Options) { o.Filed = tt.filed })
			if fmt.Sprint(got) != fmt.Sprint(tt.want) {
				t.Fatalf("replayed %v, want %v", got, tt.want)
			}
			appendWait(t, next, "after")
		})
	}
}

func mustRotate(t *testing.T, j *Journal, want uint64) {
	t.Helper()
	sealed, err := j.Rotate()
	if err != nil || sealed != want {
		t.Fatalf("rotate: generation %d, %v; want %d", sealed, err, want)
	}
}

// What Wait returned for is on disk at that moment, not only after Close.
func TestWaitMeansSynced(t *testing.T) {
	fsys := faultfs.New()
	j, _ := mustOpen(t, fsys, nil)
	for i := range 20 {
		appendWait(t, j, fmt.Sprint(i))
		_, got := mustOpen(t, fsys.CrashStrict(), nil)
		if len(got) != i+1 || got[i].frames != fmt.Sprint(i) {
			t.Fatalf("after %d appends a power cut leaves %v", i+1, got)
		}
	}
}

func TestSyncModes(t *testing.T) {
	tests := []struct {
		mode   SyncMode
		synced bool // by Wait
	}{{SyncGroup, true}, {SyncInterval, false}, {SyncNever, false}}
	for _, tt := range tests {
		t.Run(fmt.Sprint(tt.mode), func(t *testing.T) {
			fsys := faultfs.New()
			j, _ := mustOpen(t, fsys, func(o *Options) { o.Sync, o.Interval = tt.mode, time.Hour })
			appendWait(t, j, "a")
			if _, got := mustOpen(t, fsys.CrashStrict(), nil); (len(got) == 1) != tt.synced {
				t.Fatalf("after Wait a power cut leaves %d entries", len(got))
			}
			if err := j.Flush(); err != nil {
				t.Fatal(err)
			}
			if _, got := mustOpen(t, fsys.CrashStrict(), nil); len(got) != 1 {
				t.Fatal("after Flush a power cut loses the entry")
			}
		})
	}
}

func TestLazyIsCommittedByItself(t *testing.T) {
	j, _ := mustOpen(t, faultfs.New(), nil)
	_, ticket := j.Append([]byte("nobody waits for me"), true)
	if err := ticket.Wait(); err != nil {
		t.Fatal(err)
	}
}

// gate is a file system whose syncs wait to be let through, once it is shut.
type gate struct {
	vfs.FS
	mu      sync.Mutex
	shut    chan struct{} // nil: open
	waiting chan struct{} // a sync has come
}

type gatedFile struct {
	vfs.File
	g *gate
}

func (g *gate) wrap(f vfs.File, err error) (vfs.File, error) {
	if err != nil {
		return nil, err
	}
	return &gatedFile{f, g}, nil
}

func (g *gate) Create(name string) (vfs.File, error)        { return g.wrap(g.FS.Create(name)) }
func (g *gate) OpenReadWrite(name string) (vfs.File, error) { return g.wrap(g.FS.OpenReadWrite(name)) }

func (f *gatedFile) Sync() error {
	f.g.mu.Lock()
	shut := f.g.shut
	f.g.mu.Unlock()
	if shut != nil {
		f.g.waiting <- struct{}{}
		<-shut
	}
	return f.File.Sync()
}

// What arrives while a sync runs is one group, and takes one sync.
func TestGroupCommit(t *testing.T) {
	fsys := faultfs.New()
	g := &gate{FS: fsys, waiting: make(chan struct{})}
	j, _ := mustOpen(t, g, nil)
	g.mu.Lock()
	g.shut = make(chan struct{})
	g.mu.Unlock()
	_, first := j.Append([]byte("first"), false)
	<-g.waiting // its sync has begun
	const writers = 50
	var tickets []Ticket
	for i := range writers {
		_, ticket := j.Append([]byte{byte(i)}, false)
		tickets = append(tickets, ticket)
	}
	before := j.Stats().Syncs
	g.mu.Lock()
	close(g.shut)
	g.shut = nil
	g.mu.Unlock()
	for _, ticket := range append(tickets, first) {
		if err := ticket.Wait(); err != nil {
			t.Fatal(err)
		}
	}
	if n := j.Stats().Syncs - before; n != 2 {
		t.Fatalf("%d appends behind a running sync took %d syncs, that one included; want 2", writers, n)
	}
	_, got := mustOpen(t, fsys.CrashStrict(), nil)
	if len(got) != 2 || got[0].frames != "first" || len(got[1].frames) != writers {
		t.Fatalf("recovered %d entries", len(got))
	}
}

// Many appenders at once: each gets its own bytes, in its own order.
func TestConcurrentAppends(t *testing.T) {
	fsys := faultfs.New()
	j, _ := mustOpen(t, fsys, nil)
	const writers, each = 32, 50
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for i := range each {
				frames := bytes.Repeat([]byte{byte(w), byte(i)}, 100+w)
				stored, ticket := j.Append(frames, false)
				if err := ticket.Wait(); err != nil || !bytes.Equal(stored, frames) {
					t.Errorf("writer %d: %v, bytes equal: %v", w, err, bytes.Equal(stored, frames))
				}
			}
		})
	}
	wg.Wait()
	_, got := mustOpen(t, fsys.CrashStrict(), nil)
	total := 0
	next := map[byte]byte{}
	for _, r := range got {
		for b := []byte(r.frames); len(b) > 0; {
			w, i := b[0], b[1]
			if next[w] != i {
				t.Fatalf("writer %d: entry %d follows %d", w, i, next[w])
			}
			next[w]++
			total++
			b = b[2*(100+int(w)):]
		}
	}
	if total != writers*each {
		t.Fatalf("%d appends recovered, want %d", total, writers*each)
	}
}

// Frames larger than a chunk, and a group that outgrows its chunk, keep their bytes.
func TestLargeFrames(t *testing.T) {
	fsys := faultfs.New()
	j, _ := mustOpen(t, fsys, nil)
	var want []byte
	var last Ticket
	for i := range 5 {
		frames := bytes.Repeat([]byte{byte('a' + i)}, chunkBytes/2+i)
		want = append(want, frames...)
		stored, ticket := j.Append(frames, true)
		if !bytes.Equal(stored, frames) {
			t.Fatalf("frames %d are not stored as they were", i)
		}
		last = ticket
	}
	if err := last.Wait(); err != nil {
		t.Fatal(err)
	}
	_, got := mustOpen(t, fsys.CrashStrict(), nil)
	var all []byte
	for _, r := range got {
		all = append(all, r.frames...)
	}
	if !bytes.Equal(all, want) {
		t.Fatal("recovered bytes differ")
	}
}

func TestAdmit(t *testing.T) {
	j, _ := mustOpen(t, faultfs.New(), func(o *Options) { o.MaxUnfiled = 10 })
	appendWait(t, j, "0123456789")
	mustRotate(t, j, 1)
	admitted := make(chan error, 1)
	go func() { admitted <- j.Admit() }()
	select {
	case err := <-admitted:
		t.Fatalf("admitted above the bound: %v", err)
	default:
	}
	if err := j.Drop(1); err != nil {
		t.Fatal(err)
	}
	if err := <-admitted; err != nil {
		t.Fatal(err)
	}
	if n := j.Unfiled(); n != 0 {
		t.Fatalf("%d bytes unfiled after the drop", n)
	}
}

// While nothing can be filed, whoever would wait is told so, and waits again later.
func TestRefuse(t *testing.T) {
	j, _ := mustOpen(t, faultfs.New(), func(o *Options) { o.MaxUnfiled = 4 })
	full := errors.New("no room")
	j.Refuse(full)
	if err := j.Admit(); err != nil {
		t.Fatalf("refused below the bound: %v", err)
	}
	appendWait(t, j, "full")
	if err := j.Admit(); !errors.Is(err, full) {
		t.Fatalf("got %v, want the refusal", err)
	}
	j.Refuse(nil)
	mustRotate(t, j, 1)
	if err := j.Drop(1); err != nil {
		t.Fatal(err)
	}
	if err := j.Admit(); err != nil {
		t.Fatal(err)
	}
}

func TestAdmitEnds(t *testing.T) {
	fsys := faultfs.New()
	j, _ := mustOpen(t, fsys, func(o *Options) { o.MaxUnfiled = 1 })
	appendWait(t, j, "full")
	admitted := make(chan error, 1)
	go func() { admitted <- j.Admit() }()
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-admitted; !errors.Is(err, ErrClosed) {
		t.Fatalf("got %v, want ErrClosed", err)
	}
	if _, ticket := j.Append([]byte("late"), false); !errors.Is(ticket.Wait(), ErrClosed) {
		t.Fatal("an append after Close was taken")
	}
}

// The n-th call fails, for every n until none does: nothing that Wait confirmed is lost,
// nothing appears that was not appended, and after the first failure all is refused.
func TestFaultAtEveryCall(t *testing.T) {
	for n := 0; ; n++ {
		fsys := faultfs.New()
		j, _ := mustOpen(t, fsys, nil)
		base := fsys.Calls()
		fsys.FailAt(base+n, faultfs.Fault{Err: faultfs.EIO})
		acked := 0
		failed := false
		for i := range 6 {
			_, ticket := j.Append([]byte{byte(i)}, false)
			switch err := ticket.Wait(); {
			case err == nil && failed:
				t.Fatalf("call %d: append %d succeeded after a failure", n, i)
			case err == nil:
				acked++
			case !errors.Is(err, ErrFailed):
				t.Fatalf("call %d: %v, want ErrFailed", n, err)
			default:
				failed = true
			}
			if i == 2 && !failed {
				if _, err := j.Rotate(); err != nil {
					failed = j.Err() != nil // a generation that cannot be made is no failed write
				}
			}
		}
		if failed {
			<-j.Failed()
		}
		calls := fsys.Calls() - base
		fsys.FailAt(-1, faultfs.Fault{})
		_, got := mustOpen(t, fsys.Crash(rand.New(rand.NewPCG(1, uint64(n)))), nil)
		for i, r := range got {
			if r.frames != string([]byte{byte(i)}) {
				t.Fatalf("call %d: entry %d recovered as %x", n, i, r.frames)
			}
		}
		if len(got) < acked {
			t.Fatalf("call %d: %d appends confirmed, %d recovered", n, acked, len(got))
		}
		if n > calls {
			return
		}
	}
}

// Rotate makes the next directory while the committer still writes: a power cut then
// leaves a torn generation that is not the newest.
func TestCrashDuringRotate(t *testing.T) {
	cuts := 0
	for seed := range uint64(50) {
		fsys := faultfs.New()
		j, _ := mustOpen(t, fsys, func(o *Options) { o.Sync = SyncNever })
		appendWait(t, j, "durable")
		if err := j.Flush(); err != nil {
			t.Fatal(err)
		}
		appendWait(t, j, strings.Repeat("torn", 5000))
		l, err := j.create(2)
		if err != nil {
			t.Fatal(err)
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		crashed := fsys.Crash(rand.New(rand.NewPCG(seed, 1)))
		next, got := mustOpen(t, crashed, nil)
		if len(got) == 0 || got[0].frames != "durable" || len(got) > 2 {
			t.Fatalf("seed %d: recovered %d entries", seed, len(got))
		}
		if cut := next.Stats().Cut; cut > 0 {
			if cuts++; len(got) == 2 || cut > 21_000 {
				t.Errorf("seed %d: %d bytes cut, %d entries recovered", seed, cut, len(got))
			}
		}
		appendWait(t, next, "after")
		if _, again := mustOpen(t, crashed.CrashStrict(), nil); len(again) != len(got)+1 {
			t.Fatalf("seed %d: %d entries after the next crash, want %d", seed, len(again), len(got)+1)
		}
	}
	if cuts == 0 {
		t.Error("no cut is told of")
	}
}

// A generation that could not be made is made anew by the next attempt: after a sync that
// has failed, one that succeeds says nothing of the bytes that were written before.
func TestRotateAgain(t *testing.T) {
	for n := 0; ; n++ {
		fsys := faultfs.New()
		j, _ := mustOpen(t, fsys, nil)
		appendWait(t, j, "a")
		fsys.FailAt(fsys.Calls()+n, faultfs.Fault{})
		sealed, err := j.Rotate()
		fsys.FailAt(-1, faultfs.Fault{})
		if err == nil {
			if n < 5 || sealed != 1 {
				t.Fatalf("sealed %d, after %d faults", sealed, n)
			}
			return
		}
		if j.Err() != nil {
			continue // met by the generation that ends
		}
		mustRotate(t, j, 1)
		appendWait(t, j, "b")
		for seed := range uint64(4) {
			_, got := mustOpen(t, fsys.Crash(rand.New(rand.NewPCG(seed, uint64(n)))), nil)
			if want := []replayed{{1, "a"}, {2, "b"}}; !slices.Equal(got, want) {
				t.Fatalf("call %d of Rotate failed, seed %d: got %v, want %v", n, seed, got, want)
			}
		}
	}
}

// Nor does the next attempt take over what the first has left, which it may have no room to
// write once more.
func TestRotateAgainWithoutRoom(t *testing.T) {
	fsys := faultfs.New()
	j, _ := mustOpen(t, fsys, nil)
	appendWait(t, j, "a")
	fsys.FailAt(fsys.CallsOf(faultfs.Sync), faultfs.Fault{Kinds: faultfs.Sync}) // of the header
	if _, err := j.Rotate(); err == nil || j.Err() != nil {
		t.Fatalf("%v, and the journal %v", err, j.Err())
	}
	fsys.FailAt(fsys.CallsOf(faultfs.Rename), faultfs.Fault{Kinds: faultfs.Rename, Err: faultfs.ENOSPC})
	mustRotate(t, j, 1)
	appendWait(t, j, "b")
	_, got := mustOpen(t, fsys.CrashStrict(), nil)
	if want := []replayed{{1, "a"}, {2, "b"}}; !slices.Equal(got, want) {
		t.Fatalf("got %v, want %v", got, want)
	}
}

func TestPoison(t *testing.T) {
	j, _ := mustOpen(t, faultfs.New(), nil)
	cause := errors.New("catalogue failed")
	j.Poison(cause)
	<-j.Failed()
	if _, ticket := j.Append([]byte("x"), false); !errors.Is(ticket.Wait(), ErrFailed) || !errors.Is(j.Err(), cause) {
		t.Fatalf("a poisoned journal took an append, or forgot why: %v", j.Err())
	}
}

// A group of many chunks keeps the memory it was given: what tails point into is what
// was allocated, once.
func TestGroupIsNotCopied(t *testing.T) {
	fsys := faultfs.New()
	j, _ := mustOpen(t, fsys, nil)
	frames := make([]byte, 300_000)
	var firstStored []byte
	var first, last Ticket
	for i := range 20 {
		frames[0] = byte(i)
		stored, ticket := j.Append(frames, true)
		if i == 0 {
			firstStored, first = stored, ticket
		}
		last = ticket
	}
	if err := last.Wait(); err != nil {
		t.Fatal(err)
	}
	if buffers := append(first.g.full, first.g.buf); &buffers[0][wal.Headroom] != &firstStored[0] {
		t.Fatal("the group was moved after its memory had been handed out")
	}
	_, got := mustOpen(t, fsys.CrashStrict(), nil)
	n := 0
	for _, r := range got {
		n += len(r.frames) / len(frames)
	}
	if n != 20 {
		t.Fatalf("%d of 20 appends recovered", n)
	}
}

func TestMissingGeneration(t *testing.T) {
	fsys := faultfs.New()
	j, _ := mustOpen(t, fsys, nil)
	for g := range uint64(3) {
		appendWait(t, j, "x")
		mustRotate(t, j, g+1)
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	for _, missing := range []uint64{2, 1} {
		if err := fsys.RemoveAll(filepath.Join("journal", fmt.Sprintf("%020d", missing))); err != nil {
			t.Fatal(err)
		}
		if _, _, err := open(t, fsys, nil); err == nil {
			t.Fatalf("opened with generation %d missing", missing)
		}
	}
	if _, _, err := open(t, faultfs.New(), func(o *Options) { o.Filed = 3 }); err == nil {
		t.Fatal("opened with everything after the filed generations missing")
	}
}

func BenchmarkAppend(b *testing.B) {
	for _, writers := range []int{1, 16, 64} {
		b.Run(fmt.Sprintf("size=300/writers=%d/sync=on", writers), func(b *testing.B) {
			j, err := Open(Options{Dir: filepath.Join(b.TempDir(), "journal"), LogID: 7}, nil)
			if err != nil {
				b.Fatal(err)
			}
			frames := make([]byte, 300)
			b.SetBytes(int64(len(frames)))
			b.ReportAllocs()
			b.SetParallelism(writers)
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					if _, ticket := j.Append(frames, false); ticket.Wait() != nil {
						b.Error("append failed")
					}
				}
			})
			b.ReportMetric(float64(j.Stats().Frames)/float64(max(1, j.Stats().Syncs)), "appends/sync")
			if err := j.Close(); err != nil {
				b.Fatal(err)
			}
		})
	}
}

// A commit counts once for each operation that it serves, and its appends one by one.
func TestOps(t *testing.T) {
	for _, mode := range []SyncMode{SyncGroup, SyncNever} {
		together := make(chan struct{})
		j, _ := mustOpen(t, faultfs.New(), func(o *Options) { o.Sync, o.Gather = mode, func() { <-together } })
		j.AppendFor(OpPush, []byte("a"), false)
		j.AppendFor(OpPush, []byte("b"), false)
		_, ticket := j.AppendFor(OpAck, []byte("c"), false)
		close(together)
		if err := ticket.Wait(); err != nil {
			t.Fatal(err)
		}
		appendWait(t, j, "d")
		if _, ticket = j.AppendFor(OpAck, []byte("e"), false); ticket.Wait() != nil {
			t.Fatal(j.Err())
		}
		st := j.Stats()
		for op, want := range [Ops][2]int64{OpOther: {1, 1}, OpPush: {1, 2}, OpAck: {2, 2}} {
			o := &st.Ops[op]
			var took int64
			for _, n := range o.Took {
				took += n
			}
			if o.Groups != want[0] || o.Frames != want[1] || took != o.Groups {
				t.Errorf("mode %v, operation %d: %d commits, %d of them timed, with %d appends, want %v", mode, op, o.Groups, took, o.Frames, want)
			}
		}
	}
}
