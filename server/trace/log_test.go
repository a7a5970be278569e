package trace

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/rs/zerolog"

	"github.com/skepmq/skep/segment/vfs"
	"github.com/skepmq/skep/segment/vfs/faultfs"
)

var us = uuid.UUID{2}

// openLog opens a log whose list of names is made in small slices.
func openLog(t testing.TB, fs vfs.FS, bytes int64, retention time.Duration) *Log {
	t.Helper()
	return New(Options{FS: fs, Dir: "/d/traces", Retention: retention, Logger: zerolog.Nop(), fileBytes: bytes, sliceLabels: 3})
}

func add(t testing.TB, l *Log, traces ...*Trace) {
	t.Helper()
	for _, tr := range traces {
		if err := l.Append(tr); err != nil {
			t.Fatal(err)
		}
	}
}

// byMessage lists when the traces of a message were made.
func byMessage(t testing.TB, l *Log, transaction string) (times []int64) {
	t.Helper()
	if err := l.ByMessage(us, uuid.UUID{3}, []byte(transaction), func(tr *Trace) bool {
		times = append(times, tr.CreatedMs)
		return true
	}); err != nil {
		t.Fatal(err)
	}
	return times
}

func everywhere(uuid.UUID) bool { return true }

func byName(t testing.TB, l *Log, name string, offset, limit int, exists func(uuid.UUID) bool) (times []int64, total int) {
	t.Helper()
	total, err := l.ByName(us, name, exists, offset, limit, func(tr *Trace) bool {
		times = append(times, tr.CreatedMs)
		return true
	})
	if err != nil {
		t.Fatal(err)
	}
	return times, total
}

func page[T any](all []T, offset, limit int) []T {
	all = all[min(offset, len(all)):]
	return all[:min(limit, len(all))]
}

// A log answers like a list, however many files it has and how often it was opened.
func TestLikeAList(t *testing.T) {
	for seed := range uint64(4) {
		r := rand.New(rand.NewPCG(seed, 1))
		fs := faultfs.New()
		fileBytes := []int64{1, 700, 4000, 1 << 20}[seed]
		l := openLog(t, fs, fileBytes, 0)
		var list []*Trace
		for step := range 150 {
			if r.IntN(25) == 0 {
				if r.IntN(2) == 0 {
					if err := l.Close(); err != nil {
						t.Fatal(err)
					}
				}
				l = openLog(t, fs, fileBytes, 0)
			}
			var names []string
			for range r.IntN(4) {
				if n := fmt.Sprint("n", r.IntN(12)); !slices.Contains(names, n) {
					names = append(names, n)
				}
			}
			tr := sample(int64(step), fmt.Sprint("t", r.IntN(20)), names...)
			if r.IntN(8) == 0 {
				tr.Tenant = uuid.UUID{9} // sees nothing of the others, nor they of it
			}
			if r.IntN(4) == 0 {
				tr.PartitionID = uuid.UUID{4}
			}
			add(t, l, tr)
			list = append(list, tr)
			if step%29 == 0 {
				compare(t, l, list, r)
			}
		}
		compare(t, l, list, r)
		compare(t, openLog(t, fs, fileBytes, 0), list, r)
	}
}

func compare(t *testing.T, l *Log, list []*Trace, r *rand.Rand) {
	t.Helper()
	offset, limit := r.IntN(5), 1+r.IntN(30)
	for n := range 21 {
		transaction := fmt.Sprint("t", n)
		var want []int64
		for _, tr := range list {
			if tr.Tenant == us && (tr.PartitionID == uuid.UUID{3}) && string(tr.TransactionID) == transaction {
				want = append(want, tr.CreatedMs)
			}
		}
		if got := byMessage(t, l, transaction); !slices.Equal(got, want) {
			t.Fatalf("%s: %v, want %v", transaction, got, want)
		}
	}
	var names []Name
	for n := range 13 {
		name := fmt.Sprint("n", n)
		sum := Name{Name: name, LastMs: -1}
		var all, there []int64
		ids := map[string]bool{}
		for _, tr := range list {
			if tr.Tenant != us || !slices.ContainsFunc(tr.Names, func(b []byte) bool { return string(b) == name }) {
				continue
			}
			all = append(all, tr.CreatedMs)
			if (tr.PartitionID != uuid.UUID{4}) {
				there = append(there, tr.CreatedMs)
			}
			ids[string(tr.TransactionID)] = true
			sum.LastMs = tr.CreatedMs
		}
		if sum.Traces, sum.Messages = len(all), len(ids); sum.Traces > 0 {
			names = append(names, sum)
		}
		got, total := byName(t, l, name, offset, limit, everywhere)
		if !slices.Equal(got, page(all, offset, limit)) || total != len(all) {
			t.Fatalf("%s: %v of %d, want %v of %d", name, got, total, page(all, offset, limit), len(all))
		}
		got, total = byName(t, l, name, offset, limit, func(p uuid.UUID) bool { return p != uuid.UUID{4} })
		if !slices.Equal(got, page(there, offset, limit)) || total != len(there) {
			t.Fatalf("%s, one partition gone: %v of %d, want %v of %d", name, got, total, page(there, offset, limit), len(there))
		}
	}
	slices.SortFunc(names, func(x, y Name) int { return cmp.Or(cmp.Compare(y.LastMs, x.LastMs), cmp.Compare(x.Name, y.Name)) })
	got, total, err := l.Names(us, offset, limit)
	if err != nil || total != len(names) || !reflect.DeepEqual(slices.Clip(got), page(names, offset, limit)) && len(got) > 0 {
		t.Fatalf("names %v of %d, %v, want %v of %d", got, total, err, page(names, offset, limit), len(names))
	}
}

func put(t testing.TB, fs vfs.FS, path string, content []byte) {
	t.Helper()
	err := fs.MkdirAll(filepath.Dir(path))
	if err != nil {
		t.Fatal(err)
	}
	f, err := fs.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt(content, 0); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

// At every length that the newest file may be cut to, and with every bit of it flipped, what
// is whole is found, and more can be added and found after another start.
func TestTornOrDamaged(t *testing.T) {
	traces := []*Trace{sample(1, "t", "a"), sample(2, "t", "a"), sample(3, "t", "a")}
	whole, length := []byte{}, 0
	for _, tr := range traces {
		whole = AppendTrace(whole, tr)
		length = len(whole) / int(tr.CreatedMs)
	}
	try := func(what string, content []byte, want []int64) {
		t.Helper()
		fs := faultfs.New()
		put(t, fs, openLog(t, fs, 0, 0).path(0, dataSuffix), content)
		for again := range int64(3) {
			l := openLog(t, fs, 0, 0)
			if got := byMessage(t, l, "t"); !slices.Equal(got, want) {
				t.Fatalf("%s, start %d: %v, want %v", what, again, got, want)
			}
			if got, total := byName(t, l, "a", 0, 10, everywhere); !slices.Equal(got, want) || total != len(want) {
				t.Fatalf("%s, start %d: %v of %d by name, want %v", what, again, got, total, want)
			}
			add(t, l, sample(10+again, "t", "a"))
			want = append(want, 10+again)
			if err := l.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
	for n := range len(whole) + 1 {
		try(fmt.Sprint("cut to ", n), whole[:n], []int64{1, 2, 3}[:n/length])
	}
	try("zeros behind", append(slices.Clone(whole), make([]byte, 5000)...), []int64{1, 2, 3})
	for bit := 0; bit < 8*length; bit += 3 {
		flipped := slices.Clone(whole)
		flipped[length+bit/8] ^= 1 << (bit % 8)
		want := []int64{1, 3}
		if at := bit / 8; at >= 4 && at < 8 { // the length itself: nothing tells where the next frame is
			want = want[:1]
		}
		try(fmt.Sprint("bit ", bit, " of the second"), flipped, want)
	}
}

// A damaged index hides traces or counts wrongly, and is built again when it is removed.
func TestDamagedIndex(t *testing.T) {
	fs := faultfs.New()
	l := openLog(t, fs, 1, 0)
	add(t, l, sample(1, "t", "a"), sample(2, "t", "a"))
	l.settle(true)
	path := l.path(0, indexSuffix)
	whole := content(t, fs, path)
	for bit := range 8 * len(whole) {
		flipped := slices.Clone(whole)
		flipped[bit/8] ^= 1 << (bit % 8)
		put(t, fs, path, flipped)
		if got := byMessage(t, l, "t"); !slices.Equal(got, []int64{1, 2}) && !slices.Equal(got, []int64{2}) {
			t.Errorf("bit %d: %v", bit, got)
		}
		got, _ := byName(t, l, "a", 0, 10, everywhere)
		if !slices.Equal(got, []int64{1, 2}) && !slices.Equal(got, []int64{2}) {
			t.Errorf("bit %d: %v by name", bit, got)
		}
		if _, _, err := l.Names(us, 0, 10); err != nil {
			t.Errorf("bit %d: names: %v", bit, err)
		}
	}
	if err := fs.Remove(path); err != nil {
		t.Fatal(err)
	}
	if got := byMessage(t, openLog(t, fs, 1, 0), "t"); !slices.Equal(got, []int64{1, 2}) {
		t.Errorf("with the index built again: %v", got)
	}
	if !slices.Equal(content(t, fs, l.path(0, newSuffix)), whole) {
		t.Error("the index is another one")
	}
}

func content(t testing.TB, fs vfs.FS, path string) []byte {
	t.Helper()
	f, err := fs.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		t.Fatal(err)
	}
	b := make([]byte, size)
	if _, err := f.ReadAt(b, 0); err != nil {
		t.Fatal(err)
	}
	return b
}

// A power cut takes what was not synced, here and there, and nothing else: what is left are
// traces, in their order, the same after another start, and more can be kept.
func TestPowerCut(t *testing.T) {
	for seed := range uint64(60) {
		r := rand.New(rand.NewPCG(seed, 2))
		var fs vfs.FS = faultfs.New()
		next := int64(1)
		var left []int64
		for range 4 {
			l := openLog(t, fs, 400, 0)
			for range 1 + r.IntN(12) {
				add(t, l, sample(next, "t", "a"))
				left = append(left, next)
				next++
				if r.IntN(4) == 0 {
					l.Sweep(0)
				}
			}
			got := byMessage(t, l, "t")
			named, total := byName(t, l, "a", 0, 1000, everywhere)
			if !slices.Equal(got, left) || !slices.Equal(named, left) || total < len(left) {
				t.Fatalf("seed %d: %v, by name %v of %d, want %v", seed, got, named, total, left)
			}
			fs = fs.(*faultfs.FS).Crash(r)
			left = byMessage(t, openLog(t, fs, 400, 0), "t")
			if !slices.IsSorted(left) || len(left) > len(got) {
				t.Fatalf("seed %d: after a power cut %v, before %v", seed, left, got)
			}
		}
	}
}

// Whatever call fails: traces that were kept are found, those that were refused are not, and
// later ones are kept.
func TestFaultAtEveryCall(t *testing.T) {
	for _, fileBytes := range []int64{150, 1 << 20} { // one trace fills a file, or all fit into it
		for n, met := 0, true; met; n++ {
			fs := faultfs.New()
			l := openLog(t, fs, fileBytes, 0)
			add(t, l, sample(1, "t", "a"), sample(2, "t", "a"))
			before := fs.Calls()
			fs.FailAt(before+n, faultfs.Fault{Short: true})
			want := []int64{1, 2}
			for at := int64(3); at < 6; at++ {
				if l.Append(sample(at, "t", "a")) == nil {
					want = append(want, at)
				}
				l.Sweep(0)
			}
			met = fs.Calls()-before > n
			fs.FailAt(-1, faultfs.Fault{})
			add(t, l, sample(6, "t", "a"), sample(7, "t", "a"))
			want = append(want, 6, 7)
			for _, l := range []*Log{l, openLog(t, fs, fileBytes, 0)} {
				if got := byMessage(t, l, "t"); !slices.Equal(got, want) {
					t.Errorf("call %d fails: %v, want %v", n, got, want)
				}
				if got, total := byName(t, l, "a", 0, 100, everywhere); !slices.Equal(got, want) || total != len(want) {
					t.Errorf("call %d fails: %v of %d by name, want %v", n, got, total, want)
				}
			}
		}
	}
}

// While indexes cannot be written traces are refused, before they fill the memory: here, and
// when the directory is opened. Afterwards they are kept.
func TestG353IndexesCannotBeWritten(t *testing.T) {
	fs := noIndexes{FS: faultfs.New(), refused: true}
	l := openLog(t, &fs, 1, 0)
	var kept []int64
	for at := range int64(10) {
		if l.Append(sample(at, "t")) == nil {
			kept = append(kept, at)
		}
	}
	if len(kept) < 2 || len(kept) > maxPending+1 {
		t.Errorf("%d traces kept", len(kept))
	}
	if got := byMessage(t, l, "t"); !slices.Equal(got, kept) {
		t.Errorf("%v, want %v", got, kept)
	}
	again := openLog(t, &fs, 1, 0)
	if err := again.ByMessage(us, uuid.UUID{3}, []byte("t"), func(*Trace) bool { return true }); err == nil {
		t.Errorf("%d files are in memory", len(again.files))
	}
	fs.refused = false
	for _, l := range []*Log{l, again} {
		_ = l.Append(sample(20, "t")) // the first attempt writes the indexes
		add(t, l, sample(21, "t"))
		if got := byMessage(t, l, "t"); !slices.Equal(got[:len(kept)], kept) || got[len(got)-1] != 21 {
			t.Errorf("afterwards %v", got)
		}
	}
}

// noIndexes is a file system that refuses indexes.
type noIndexes struct {
	vfs.FS
	refused bool
}

func (fs *noIndexes) Create(name string) (vfs.File, error) {
	if fs.refused && strings.HasSuffix(name, newSuffix) {
		return nil, syscall.EIO
	}
	return fs.FS.Create(name)
}

// An index is synced when the kernel has had a minute to write it, or at the end, and only
// then is it one for the next process.
func TestIndexesSettle(t *testing.T) {
	for _, end := range []bool{false, true} {
		fs := faultfs.New()
		l := openLog(t, fs, 1, 0)
		add(t, l, sample(1, "t"), sample(2, "t"))
		syncs := 0
		fs.Observe(func(kind faultfs.Kinds, _ string) {
			if kind == faultfs.Sync {
				syncs++
			}
		})
		indexes := func() (names []string) {
			all, err := fs.List("/d/traces")
			if err != nil {
				t.Fatal(err)
			}
			return slices.DeleteFunc(all, func(n string) bool { return strings.HasSuffix(n, dataSuffix) })
		}
		fresh, settled := []string{filepath.Base(l.path(0, newSuffix))}, []string{filepath.Base(l.path(0, indexSuffix))}
		if l.Sweep(0); syncs > 0 || !slices.Equal(indexes(), fresh) {
			t.Errorf("after one sweep %d syncs, %v", syncs, indexes())
		}
		if end {
			if err := l.Close(); err != nil {
				t.Fatal(err)
			}
		} else {
			l.Sweep(0)
		}
		if syncs == 0 || !slices.Equal(indexes(), settled) {
			t.Errorf("settled: %d syncs, %v", syncs, indexes())
		}
		if got := byMessage(t, l, "t"); !slices.Equal(got, []int64{1, 2}) {
			t.Errorf("%v", got)
		}
	}
}

// A question that comes while an index gets its last name finds it.
func TestIndexSettlesMeanwhile(t *testing.T) {
	fs := renaming{FS: faultfs.New()}
	l := openLog(t, &fs, 1, 0)
	add(t, l, sample(1, "t"), sample(2, "t"))
	fs.before = func() { l.settle(true) }
	if got := byMessage(t, l, "t"); !slices.Equal(got, []int64{1, 2}) || fs.before != nil {
		t.Errorf("%v", got)
	}
}

// renaming is a file system on which something happens before an index of the first name is
// opened, once.
type renaming struct {
	vfs.FS
	before func()
}

func (fs *renaming) Open(name string) (vfs.File, error) {
	if before := fs.before; before != nil && strings.HasSuffix(name, newSuffix) {
		fs.before = nil
		before()
	}
	return fs.FS.Open(name)
}

// What was kept before Close no power cut takes.
func TestCloseSyncs(t *testing.T) {
	fs := faultfs.New()
	if err := vfs.MakeDir(fs, "/d"); err != nil {
		t.Fatal(err)
	}
	l := openLog(t, fs, 1<<20, 0)
	add(t, l, sample(1, "t"), sample(2, "t"))
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if got := byMessage(t, openLog(t, fs.CrashStrict(), 1<<20, 0), "t"); !slices.Equal(got, []int64{1, 2}) {
		t.Errorf("%v", got)
	}
}

// An index that is another file's shows nobody the traces of others.
func TestForeignIndex(t *testing.T) {
	fs := faultfs.New()
	l := openLog(t, fs, 1, 0)
	theirs := sample(2, "t", "a")
	theirs.Tenant = uuid.UUID{9}
	add(t, l, sample(1, "t", "a"), theirs, sample(3, "other", "b"), sample(4, "last"))
	l.settle(true)
	for _, number := range []int64{1, 2} {
		put(t, fs, l.path(number, indexSuffix), content(t, fs, l.path(0, indexSuffix)))
	}
	if got := byMessage(t, l, "t"); !slices.Equal(got, []int64{1}) {
		t.Errorf("%v", got)
	}
	if got, _ := byName(t, l, "a", 0, 10, everywhere); !slices.Equal(got, []int64{1}) {
		t.Errorf("%v by name", got)
	}
}

// Messages that are too many to be compared are estimated.
func TestG356ManyMessages(t *testing.T) {
	l := New(Options{FS: faultfs.New(), Dir: "/d/traces", Logger: zerolog.Nop(), fileBytes: 50_000, maxHashes: 800})
	for i := range int64(6000) {
		add(t, l, sample(i, fmt.Sprint(i%3000), "many"))
	}
	if names, _, err := l.Names(us, 0, 1); err != nil || names[0].Traces != 6000 || names[0].Messages < 2500 || names[0].Messages > 3500 {
		t.Errorf("%+v, %v, of 3000", names, err)
	}
}

const day = 24 * 60 * 60 * 1000

// Traces go a file at a time, when the newest of the file is too old; without a retention
// they stay.
func TestG353Retention(t *testing.T) {
	for _, keep := range []bool{false, true} {
		fs := faultfs.New()
		retention := 48 * time.Hour
		if keep {
			retention = 0
		}
		l := openLog(t, fs, 1<<20, retention)
		want := []int64{0, day - 1, day, 3 * day}
		for _, at := range want {
			add(t, l, sample(at, "t", "a"))
		}
		for _, step := range []struct {
			now  int64
			want []int64
		}{{3*day - 1, want}, {3 * day, want[2:]}, {3*day + 1, want[3:]}, {5 * day, want[3:]}, {5*day + 1, nil}} {
			if keep {
				step.want = want
			}
			l.Sweep(step.now)
			for _, l := range []*Log{l, openLog(t, fs, 1<<20, retention)} {
				if got := byMessage(t, l, "t"); !slices.Equal(got, step.want) {
					t.Errorf("at %d: %v, want %v", step.now, got, step.want)
				}
			}
		}
		add(t, l, sample(7*day, "t"))
		if got := byMessage(t, l, "t"); len(got) != len(want)+1 && (keep || !slices.Equal(got, []int64{7 * day})) {
			t.Errorf("after all: %v", got)
		}
		if !keep {
			if names, err := fs.List("/d/traces"); err != nil || len(names) != 1 {
				t.Errorf("left: %v %v", names, err)
			}
		}
	}
}

// A directory takes no memory for its traces, but for those of the newest file.
func TestG353IndexesAreOnTheDisk(t *testing.T) {
	l := New(Options{Dir: t.TempDir(), Logger: zerolog.Nop(), fileBytes: 20_000})
	for i := range int64(2000) {
		add(t, l, sample(i, fmt.Sprint(i), fmt.Sprint(i%7)))
	}
	for i, f := range l.files[:len(l.files)-1] {
		if f.memory != nil {
			t.Errorf("file %d of %d is in memory", i, len(l.files))
		}
	}
	if m := l.files[len(l.files)-1].memory; len(m.addresses) > 200 {
		t.Errorf("%d traces of the newest file", len(m.addresses))
	}
	// Short traces fill a file by their number.
	m := &memory{addresses: make([]address, maxTraces)}
	if m.uses = maxUses - 1; !m.full() {
		t.Error("a file with so many traces is not full")
	}
	if m.addresses = nil; m.full() {
		t.Error("a file with few traces is full")
	}
	if m.uses++; !m.full() {
		t.Error("a file with so many uses of names is not full")
	}
}

// Everything at once.
func TestConcurrent(t *testing.T) {
	l := New(Options{Dir: filepath.Join(t.TempDir(), "traces"), Retention: time.Hour, Logger: zerolog.Nop(), fileBytes: 3000})
	var wg sync.WaitGroup
	const each = 100
	for w := range 4 {
		wg.Go(func() {
			for i := range each {
				tr := sample(int64(i), fmt.Sprint(w), "a", fmt.Sprint("w", w))
				if err := l.Append(tr); err != nil {
					t.Error(err)
				}
				if got := byMessage(t, l, fmt.Sprint(w)); len(got) != i+1 {
					t.Errorf("writer %d: %d traces after %d", w, len(got), i+1)
				}
			}
		})
	}
	wg.Go(func() {
		before := 0
		for range 50 {
			l.Sweep(0)
			_, total := byName(t, l, "a", 0, 10, everywhere)
			if total < before {
				t.Errorf("%d traces, then %d", before, total)
			}
			before = total
			if _, _, err := l.Names(us, 0, 10); err != nil {
				t.Error(err)
			}
		}
	})
	wg.Wait()
	names, total, err := l.Names(us, 0, 10)
	if err != nil || total != 5 || len(names) != 5 {
		t.Fatalf("%v of %d, %v", names, total, err)
	}
	for _, n := range names {
		want := Name{Name: n.Name, Traces: each, Messages: 1, LastMs: each - 1}
		if n.Name == "a" {
			want.Traces, want.Messages = 4*each, 4
		}
		if n != want {
			t.Errorf("%+v, want %+v", n, want)
		}
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if l.Append(sample(1, "t")) == nil {
		t.Error("kept after Close")
	}
}

// What is held is not removed, however old it is.
func TestHold(t *testing.T) {
	fs := faultfs.New()
	l := openLog(t, fs, 1, time.Hour)
	add(t, l, &Trace{CreatedMs: 1}, &Trace{CreatedMs: 2})
	l.Sweep(0)
	l.Sweep(0) // which settles the index of the first
	paths, release := l.Hold()
	l.Sweep(1 << 50)
	for _, path := range paths {
		if _, err := fs.Size(path); err != nil {
			t.Error(err)
		}
	}
	if len(paths) != 3 {
		t.Errorf("held %v", paths)
	}
	release()
	l.Sweep(1 << 50)
	if names, err := fs.List("/d/traces"); err != nil || len(names) > 0 {
		t.Errorf("released, there is %v, %v", names, err)
	}
}
