package partition

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/skepmq/skep/index"
	"github.com/skepmq/skep/segment"
	"github.com/skepmq/skep/segment/vfs/faultfs"
)

// rewriter is a world whose partitions lose their oldest messages, and whose segments are
// rewritten. Pointers of earlier times stay in use.
type rewriter struct {
	*world
	rng   *rand.Rand
	start map[uint64]int64
	views map[uint64][]lane // of each partition, as it was
}

func newRewriter(t testing.TB, seed uint64) *rewriter {
	return &rewriter{
		world: newWorld(t), rng: newRand(seed), start: map[uint64]int64{}, views: map[uint64][]lane{},
	}
}

// holey is the partition of which only every third message is needed.
const holey = 150

func needed(offset int64) bool { return offset%3 == 0 }

func (r *rewriter) Holes(partition uint64) bool { return partition == holey }

func (r *rewriter) Keep(partition uint64, extents []index.Located) []index.Located {
	if partition != holey {
		return extents[index.FindOffset(extents, r.start[partition]):]
	}
	return slices.DeleteFunc(extents, func(e index.Located) bool {
		for o := e.BaseOffset; o < e.EndOffset(); o++ {
			if needed(o) {
				return false
			}
		}
		return true
	})
}

func pace(int64) error { return nil }

// grow pushes, files and moves starts.
func (r *rewriter) grow() {
	r.t.Helper()
	r.pushSome(r.rng)
	r.push(holey, 1, 1+r.rng.IntN(300))
	tails := r.tails()
	for i := range tails {
		tails[i].Own = tails[i].Partition == holey
	}
	filed, infos, err := r.store.File(tails)
	if err != nil {
		r.t.Fatal(err)
	}
	r.record(filed, infos)
	for partition, l := range r.parts {
		if partition != holey && r.rng.IntN(3) == 0 {
			last := header(l.batches[l.filed-1])
			r.start[partition] += r.rng.Int64N(last.BaseOffset - r.start[partition] + 1)
		}
		r.views[partition] = append(r.views[partition], *l)
	}
}

// choose retires some segments of one owner.
func (r *rewriter) choose() (ids []uint32) {
	r.t.Helper()
	all := r.store.Aged()
	first := all[r.rng.IntN(len(all))]
	for _, s := range all {
		if s.owner() != first.owner() || r.rng.IntN(2) == 0 {
			continue
		}
		if !r.store.Retire(s.ID, s.Length) {
			r.t.Fatalf("segment %d is not retired", s.ID)
		}
		ids = append(ids, s.ID)
	}
	return ids
}

// take makes the catalogue hold a rewritten segment.
func (r *rewriter) take(n *Rewritten) {
	for _, id := range n.Replaces {
		delete(r.catalog, id)
	}
	r.catalog[n.ID] = n.SegmentInfo
}

func (r *rewriter) rewrite() {
	r.t.Helper()
	n, err := r.store.Rewrite(r.choose(), r, pace)
	if err != nil {
		r.t.Fatal(err)
	}
	if n == nil {
		return
	}
	r.take(n)
	if err := r.store.Replace(n); err != nil {
		r.t.Fatal(err)
	}
	if r.rng.IntN(2) == 0 {
		return // the old pointers are as good
	}
	for _, p := range n.Newest {
		if l := r.parts[p.Partition]; slices.Contains(n.Replaces, l.newest.Segment) {
			l.newest = p.At
		}
	}
}

func (l *lane) filedEnd() int64 {
	if l.filed == 0 {
		return 0
	}
	h := header(l.batches[l.filed-1])
	return h.EndOffset()
}

// kept returns the batches of a view that are to be there, from an offset on.
func (r *rewriter) kept(partition uint64, l *lane, from int64) (want [][]byte) {
	for _, b := range l.batches[:l.filed] {
		if h := header(b); h.EndOffset() > max(from, r.start[partition]) && (partition != holey || needed(h.BaseOffset)) {
			want = append(want, b)
		}
	}
	return want
}

// checkViews reads every partition, and as of an earlier moment, in all ways.
func (r *rewriter) checkViews() {
	r.t.Helper()
	for _, partition := range slices.Sorted(maps.Keys(r.parts)) {
		views := r.views[partition]
		for _, l := range []*lane{r.parts[partition], &views[r.rng.IntN(len(views))]} {
			r.checkView(partition, l)
		}
	}
}

func (r *rewriter) checkView(partition uint64, l *lane) {
	r.t.Helper()
	end := l.filedEnd()
	from := r.start[partition]
	if from < end && r.rng.IntN(2) == 0 {
		from += r.rng.Int64N(end - from)
	}
	want := r.kept(partition, l, from)
	got, back, err := readBoth(r.store, partition, l, from)
	if err != nil || !slices.EqualFunc(got, want, bytes.Equal) || !slices.EqualFunc(back, want, bytes.Equal) {
		r.t.Fatalf("partition %d from %d to %d: %d batches, %d backwards, want %d: %v", partition, from, end, len(got), len(back), len(want), err)
	}
	if partition == holey {
		return
	}
	bytes := int64(0)
	for _, b := range want {
		bytes += int64(len(b))
	}
	if n, err := r.store.Bytes(l.newest, partition, from, end); err != nil || n != bytes {
		r.t.Fatalf("partition %d from %d to %d: %d bytes, want %d: %v", partition, from, end, n, bytes, err)
	}
	if len(want) == 0 {
		return
	}
	h := header(want[r.rng.IntN(len(want))])
	offset, ok, err := r.store.OffsetAt(l.newest, partition, h.TimestampMs)
	if first := header(want[0]); err != nil || !ok || offset > h.BaseOffset || first.TimestampMs < h.TimestampMs && offset <= first.BaseOffset {
		r.t.Fatalf("partition %d at %d ms: offset %d, %v, %v; want about %d", partition, h.TimestampMs, offset, ok, err, h.BaseOffset)
	}
	if ms, ok, err := r.store.TimeAt(l.newest, partition, h.BaseOffset); err != nil || !ok || ms > h.TimestampMs || ms < h.TimestampMs-exactMs {
		r.t.Fatalf("partition %d offset %d: %d ms, %v, %v; want %d", partition, h.BaseOffset, ms, ok, err, h.TimestampMs)
	}
}

// checkFiles compares the files with those that are known, and the index of each with what
// its batches make. Pointers are left out: old ones are as good.
func (r *rewriter) checkFiles() {
	r.t.Helper()
	names, err := r.fs.List(testDir)
	if err != nil || len(names) != len(r.catalog) {
		r.t.Fatalf("files %v, %v want %d", names, err, len(r.catalog))
	}
	for id, info := range r.catalog {
		file, err := segment.OpenReader(r.fs, r.store.path(id))
		if err != nil {
			r.t.Fatal(err)
		}
		rebuilt, err := index.Rebuild(file, info.Length)
		var written []index.Located
		for end := info.Length; end > segment.FileHeaderLen; {
			var run []index.Located
			var indexErr error
			if run, end, indexErr = index.ReadIndex(file, end); indexErr != nil {
				r.t.Fatal(indexErr)
			}
			written = append(run, written...)
		}
		for i := range written {
			written[i].Prev = index.Pointer{}
		}
		if err = errors.Join(err, file.Close()); err != nil || !slices.Equal(rebuilt, written) {
			r.t.Fatalf("segment %d: index has %d entries, its batches make %d: %v", id, len(written), len(rebuilt), err)
		}
	}
}

// Whatever is rewritten, again and again, what is needed is found by every pointer that was
// ever given out, after a restart too, and nothing is left of what was replaced.
func TestRewrite(t *testing.T) {
	for seed := range uint64(6) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			r := newRewriter(t, seed)
			if seed%2 == 1 {
				r.o.CacheBytes = 2000 // chains are cut
				r.reopen()
			}
			for i := range 60 {
				r.grow()
				if i%3 == 0 {
					r.checkViews() // caches what is going to be moved
				}
				r.rewrite()
				r.checkViews()
				if i%7 == 0 {
					r.reopen()
					r.checkViews()
				}
			}
			r.checkFiles()
		})
	}
}

// A chain of very many small extents in as many segments becomes a few of full size.
func TestRewriteGathers(t *testing.T) {
	r := newRewriter(t, 1)
	var ids []uint32
	for range 30 {
		r.push(100, 1, 20)
		r.push(101, 1, 20)
		r.file()
		s := r.store.Aged()[len(ids)]
		r.store.Retire(s.ID, s.Length)
		ids = append(ids, s.ID)
	}
	n, err := r.store.Rewrite(ids, r, pace)
	if err != nil {
		t.Fatal(err)
	}
	r.take(n)
	if err := r.store.Replace(n); err != nil {
		t.Fatal(err)
	}
	r.check(r.rng)
	if got := len(r.extents(n.ID)); got > 16 {
		t.Errorf("%d extents", got)
	}
	r.checkFiles()
}

// A batch that fails its checksum is not copied, and nothing has changed.
func TestRewriteDamaged(t *testing.T) {
	r := newRewriter(t, 1)
	r.push(100, 1, 300)
	r.push(101, 1, 300)
	r.file()
	s := r.store.Aged()[0]
	r.store.Retire(s.ID, s.Length)
	r.flipByte(s.ID, segment.FileHeaderLen+500)
	n, err := r.store.Rewrite([]uint32{s.ID}, r, pace)
	var corrupt *segment.CorruptError
	if n != nil || !errors.As(err, &corrupt) || corrupt.Path != r.store.path(s.ID) || corrupt.Position < 300 {
		t.Fatalf("got %v, %v", n, err)
	}
	if names, err := r.fs.List(testDir); len(names) != 1 || err != nil {
		t.Fatalf("files %v, %v", names, err)
	}
	r.wantRead(r.parts[100], 100, 0, r.parts[100].batches)
	if got, err := r.read(r.parts[101].newest, 101, 0, 2); len(got) != 0 || !errors.As(err, &corrupt) {
		t.Fatalf("the damaged one: %d batches, %v", len(got), err)
	}
	r.start[101] = 1 // then it need not be copied
	if n, err = r.store.Rewrite([]uint32{s.ID}, r, pace); n == nil || err != nil {
		t.Fatalf("without it: %v, %v", n, err)
	}
}

func (r *rewriter) flipByte(id uint32, position int64) {
	r.t.Helper()
	f, err := r.fs.OpenReadWrite(r.store.path(id))
	if err != nil {
		r.t.Fatal(err)
	}
	var b [1]byte
	if _, err := f.ReadAt(b[:], position); err != nil {
		r.t.Fatal(err)
	}
	b[0] ^= 0x20
	if _, err := f.WriteAt(b[:], position); err != nil {
		r.t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		r.t.Fatal(err)
	}
}

// A Rewrite stops when pace says so, a queue may be dropped before, during and after, and
// what is not needed at all is not written.
func TestRewriteEnds(t *testing.T) {
	errEnough := errors.New("enough")
	for name, tc := range map[string]struct {
		pace func(r *rewriter) error
		want error
	}{
		"told to":       {func(*rewriter) error { return errEnough }, errEnough},
		"queue dropped": {func(r *rewriter) error { return r.store.Drop(1) }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRewriter(t, 1)
			r.o.SegmentBytes, r.o.OwnBytes = 8<<20, 8<<20
			r.reopen()
			r.push(100, 1, rewriteChunk)
			r.push(101, 1, rewriteChunk)
			r.file()
			s := r.store.Aged()[0]
			r.store.Retire(s.ID, s.Length)
			n, err := r.store.Rewrite([]uint32{s.ID}, r, func(int64) error { return tc.pace(r) })
			if n != nil || err == nil || tc.want != nil && !errors.Is(err, tc.want) {
				t.Fatalf("got %v, %v", n, err)
			}
			if tc.want == nil {
				clear(r.catalog)
				clear(r.parts)
			}
			r.checkFiles()
			r.check(r.rng)
		})
	}
	t.Run("queue dropped before Replace", func(t *testing.T) {
		r := newRewriter(t, 1)
		r.push(100, 1, 10)
		r.file()
		s := r.store.Aged()[0]
		r.store.Retire(s.ID, s.Length)
		n, err := r.store.Rewrite([]uint32{s.ID}, r, pace)
		if err = errors.Join(err, r.store.Drop(1)); err != nil {
			t.Fatal(err)
		}
		if n2, err := r.store.Rewrite([]uint32{s.ID}, r, pace); n2 != nil || err != nil {
			t.Fatalf("of a dropped queue: %v, %v", n2, err)
		}
		if err := r.store.Replace(n); err != nil {
			t.Fatal(err)
		}
		clear(r.catalog)
		r.checkFiles()
		r.wantRead(r.parts[100], 100, 0, nil)
	})
	t.Run("nothing needed", func(t *testing.T) {
		r := newRewriter(t, 1)
		r.push(100, 1, 10)
		r.file()
		r.start[100] = 1
		s := r.store.Aged()[0]
		r.store.Retire(s.ID, s.Length)
		if n, err := r.store.Rewrite([]uint32{s.ID}, r, pace); n != nil || err != nil {
			t.Fatalf("got %v, %v", n, err)
		}
		r.checkFiles()
	})
}

// No more than a chunk and a batch is written at a time, the index of very many small
// extents included.
func TestRewritePaces(t *testing.T) {
	r := newRewriter(t, 1)
	r.o.SegmentBytes, r.o.OwnBytes = 64<<20, 64<<20
	r.reopen()
	for partition := range uint64(40_000) {
		r.push(1000+partition, 1, 10)
	}
	r.file()
	s := r.store.Aged()[0]
	r.store.Retire(s.ID, s.Length)
	var paced, most int64
	n, err := r.store.Rewrite([]uint32{s.ID}, r, func(bytes int64) error {
		paced, most = paced+bytes, max(most, bytes)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if most > rewriteChunk+1000 || n.Length-paced > rewriteChunk {
		t.Errorf("%d of %d bytes were paced, %d at a time", paced, n.Length, most)
	}
}

// Whatever call of a Rewrite fails, or where the power is cut around it: what is needed is
// there, by the list that the caller has recorded.
func TestRewriteFaults(t *testing.T) {
	for name, fault := range map[string]faultfs.Fault{
		"error":    {Err: faultfs.ENOSPC, Short: true},
		"all fail": {Sticky: true, Short: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for n := 0; rewriteWithFault(t, n, fault); n++ {
			}
		})
	}
}

func rewriteWithFault(t *testing.T, n int, fault faultfs.Fault) (met bool) {
	r := newRewriter(t, 5)
	for range 8 {
		r.grow()
	}
	r.rewrite() // one of the sources is one that replaces others
	r.grow()
	ids := r.choose()
	at := r.fs.Calls() + n
	r.fs.FailAt(at, fault)
	made, err := r.store.Rewrite(ids, r, pace)
	met = r.fs.Calls() > at
	if met != (err != nil) {
		t.Fatalf("call %d: met %v, %v", n, met, err)
	}
	r.powerCuts()
	if err == nil {
		r.take(made)
		r.powerCuts() // recorded, and not replaced
		err = r.store.Replace(made)
		if met = r.fs.Calls() > at; met != (err != nil) {
			t.Fatalf("call %d: met %v, Replace %v", n, met, err)
		}
		r.powerCuts()
	}
	r.fs.FailAt(-1, faultfs.Fault{})
	r.checkViews()
	r.reopen()
	r.checkViews()
	r.checkFiles()
	return met
}

// powerCuts opens what power cuts now would leave.
func (r *rewriter) powerCuts() {
	r.t.Helper()
	for _, disk := range []*faultfs.FS{r.fs.CrashStrict(), r.fs.Crash(r.rng)} {
		c := *r
		c.world, c.start, c.views = r.cloneOn(disk), maps.Clone(r.start), maps.Clone(r.views)
		c.open()
		c.checkViews()
		c.checkFiles()
		c.grow()
		c.checkViews()
	}
}

// Readers, each with what was known when it started, beside File, Rewrite and Replace.
func TestRewriteConcurrent(t *testing.T) {
	r := newRewriter(t, 3)
	r.grow()
	var mu sync.Mutex // guards r but for its store
	var stop atomic.Bool
	var wg sync.WaitGroup
	for i := range uint64(4) {
		wg.Go(func() {
			rng := newRand(i)
			for !stop.Load() {
				mu.Lock()
				partition := slices.Sorted(maps.Keys(r.parts))[rng.IntN(len(r.parts))]
				views := r.views[partition]
				l, start := views[rng.IntN(len(views))], r.start[partition]
				batches := r.kept(partition, &l, start)
				mu.Unlock()
				got, back, err := readBoth(r.store, partition, &l, start)
				mu.Lock()
				least := r.kept(partition, &l, start)
				mu.Unlock()
				if err != nil || !between(got, least, batches) || !between(back, least, batches) {
					t.Errorf("partition %d from %d to %d: %v and backwards %v, at least %v, at most %v: %v", partition, start,
						l.filedEnd(), offsets(got), offsets(back), offsets(least), offsets(batches), err)
					return
				}
			}
		})
	}
	for range 80 {
		mu.Lock()
		r.grow()
		ids := r.choose()
		mu.Unlock()
		n, err := r.store.Rewrite(ids, r, pace)
		if err != nil {
			t.Fatal(err)
		}
		if n == nil {
			continue
		}
		r.take(n)
		if err := r.store.Replace(n); err != nil {
			t.Fatal(err)
		}
	}
	stop.Store(true)
	wg.Wait()
	if err := r.store.Close(); err != nil {
		t.Fatal(err)
	}
	if n := r.fs.Handles(); n != 0 {
		t.Errorf("%d handles left open", n)
	}
}

// readBoth reads in both directions what was needed of a view.
func readBoth(s *Store, partition uint64, l *lane, from int64) (got, back [][]byte, err error) {
	collect := func(list *[][]byte) func(b []byte) bool {
		return func(b []byte) bool {
			h := header(b)
			// An earlier pointer may by now find what came later, and in a partition with
			// holes there is more than what is needed.
			if h.EndOffset() > from && h.EndOffset() <= l.filedEnd() && (partition != holey || needed(h.BaseOffset)) {
				*list = append(*list, b)
			}
			return true
		}
	}
	err = errors.Join(
		s.Read(l.newest, partition, from, collect(&got)),
		s.ReadBackward(l.newest, partition, l.filedEnd(), collect(&back)))
	slices.Reverse(back)
	return got, back, err
}

// between reports whether list has all of least, and nothing but what most has, in order.
func between(list, least, most [][]byte) bool {
	for _, b := range most {
		switch {
		case len(list) > 0 && bytes.Equal(list[0], b):
			list = list[1:]
		case slices.ContainsFunc(least, func(x []byte) bool { return bytes.Equal(x, b) }):
			return false
		}
	}
	return len(list) == 0
}

func offsets(list [][]byte) (all []int64) {
	for _, b := range list {
		all = append(all, header(b).BaseOffset)
	}
	return all
}
