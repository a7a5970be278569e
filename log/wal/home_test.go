package wal

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/skepmq/skep/segment/vfs"
	"github.com/skepmq/skep/segment/vfs/faultfs"
)

// list is the state the home tests keep: a list of words. A change adds one word; a
// snapshot entry holds one as well.
type list struct{ words []string }

func (l *list) load(data []byte) error {
	l.words = append(l.words, string(data))
	return nil
}

func openList(t testing.TB, o HomeOptions) (*Home, *list) {
	t.Helper()
	var l list
	h, err := OpenHome(o, l.load)
	must(t, err)
	return h, &l
}

// add appends words to the home and to the list.
func (l *list) add(h *Home, words ...string) error {
	for _, w := range words {
		if err := h.Append([]byte(w)); err != nil {
			return err
		}
		l.words = append(l.words, w)
	}
	return nil
}

// fold rewrites the home as one entry for every word, in upper case: the test sees
// which words came through a snapshot.
func (l *list) fold(h *Home) error {
	folded := make([]string, len(l.words))
	for i, w := range l.words {
		folded[i] = strings.ToUpper(w)
	}
	err := h.Rewrite(func(emit func([]byte) error) error {
		for _, w := range folded {
			if err := emit([]byte(w)); err != nil {
				return err
			}
		}
		return nil
	})
	if err == nil {
		l.words = folded
	}
	return err
}

func wantWords(t testing.TB, when string, l *list, want string) {
	t.Helper()
	if got := strings.Join(l.words, " "); got != want {
		t.Fatalf("%s: got %q, want %q", when, got, want)
	}
}

func eachHome(t *testing.T, test func(t *testing.T, o HomeOptions)) {
	each(t, func(t *testing.T, o Options) {
		test(t, HomeOptions{FS: o.FS, Dir: o.Dir, LogID: o.LogID, SegmentBytes: 200, Logger: o.Logger})
	})
}

func TestHome(t *testing.T) {
	eachHome(t, func(t *testing.T, o HomeOptions) {
		h, l := openList(t, o)
		wantWords(t, "new", l, "")
		if h.Size() != h.SnapshotSize() || h.Size() == 0 {
			t.Errorf("new: size %d, snapshot %d", h.Size(), h.SnapshotSize())
		}
		must(t, l.add(h, "a", "b", "c"))
		must(t, h.Sync())
		must(t, h.Close())

		h, l = openList(t, o)
		wantWords(t, "reopened", l, "a b c")
		must(t, l.fold(h))
		if h.Size() != h.SnapshotSize() {
			t.Errorf("rewritten: size %d, snapshot %d", h.Size(), h.SnapshotSize())
		}
		snapshot := h.SnapshotSize()
		must(t, l.add(h, "d"))
		must(t, l.fold(h))
		must(t, l.add(h, "e", "f"))
		must(t, h.Close())

		h, l = openList(t, o)
		wantWords(t, "rewritten twice", l, "A B C D e f")
		if h.SnapshotSize() <= snapshot || h.Size() <= h.SnapshotSize() {
			t.Errorf("size %d, snapshot %d, the one before %d", h.Size(), h.SnapshotSize(), snapshot)
		}
		must(t, h.Close())
		names, err := o.FS.List(o.Dir)
		must(t, err)
		if want := []string{segmentName(3)}; !slices.Equal(names, want) {
			t.Errorf("left in the directory: %q, want %q", names, want)
		}
	})
}

// TestHomeManySegments: both parts of a generation may be longer than a segment.
func TestHomeManySegments(t *testing.T) {
	eachHome(t, func(t *testing.T, o HomeOptions) {
		h, l := openList(t, o)
		for i := range 50 {
			must(t, l.add(h, fmt.Sprintf("word%d", i)))
			if i == 30 {
				must(t, l.fold(h))
			}
		}
		want := strings.Join(l.words, " ")
		must(t, h.Close())
		h, l = openList(t, o)
		wantWords(t, "reopened", l, want)
		must(t, h.Close())
	})
}

func TestHomeClosed(t *testing.T) {
	eachHome(t, func(t *testing.T, o HomeOptions) {
		h, l := openList(t, o)
		must(t, h.Close())
		for what, err := range map[string]error{"Append": l.add(h, "a"), "Sync": h.Sync(), "Rewrite": l.fold(h), "Close": h.Close()} {
			if !errors.Is(err, ErrClosed) {
				t.Errorf("%s: got %v, want ErrClosed", what, err)
			}
		}
	})
}

// TestRewriteRefused: an error of the caller leaves the home as it was.
func TestRewriteRefused(t *testing.T) {
	eachHome(t, func(t *testing.T, o HomeOptions) {
		h, l := openList(t, o)
		must(t, l.add(h, "a"))
		stop := errors.New("stop")
		err := h.Rewrite(func(emit func([]byte) error) error {
			return errors.Join(emit([]byte("never")), stop)
		})
		if !errors.Is(err, stop) || errors.Is(err, ErrFailed) {
			t.Errorf("got %v, want stop", err)
		}
		must(t, l.add(h, "b"))
		must(t, l.fold(h))
		must(t, l.add(h, "c"))
		must(t, h.Close())
		h, l = openList(t, o)
		wantWords(t, "reopened", l, "A B c")
		must(t, h.Close())
	})
}

// TestRewriteHidesNoError: emit may fail and write may look away.
func TestRewriteHidesNoError(t *testing.T) {
	fsys := faultfs.New()
	h, l := openList(t, HomeOptions{FS: fsys, Dir: "/home"})
	must(t, l.add(h, "a"))
	err := h.Rewrite(func(emit func([]byte) error) error {
		fsys.FailAt(fsys.Calls(), faultfs.Fault{Err: faultfs.ENOSPC})
		_ = emit([]byte("lost"))
		return nil
	})
	if !errors.Is(err, faultfs.ENOSPC) {
		t.Fatalf("got %v, want ENOSPC", err)
	}
	must(t, l.add(h, "b")) // a full disk during a rewrite is no failure of the home
	must(t, h.Close())
	h, l = openList(t, HomeOptions{FS: fsys, Dir: "/home"})
	wantWords(t, "reopened", l, "a b")
	must(t, h.Close())
}

// homeProgress is what a home script knows: the words promised, those handed over.
type homeProgress struct{ synced, appended int }

// homeScript uses a home with two rewrites. It goes on after a rewrite that failed
// without ending the home.
func homeScript(o HomeOptions) (p homeProgress, err error) {
	var l list
	h, err := OpenHome(o, l.load)
	if err != nil {
		return p, err
	}
	var met error
	for round := range 3 {
		p.appended += 2
		if err := l.add(h, fmt.Sprintf("w%d", 2*round), fmt.Sprintf("w%d", 2*round+1)); err != nil {
			return p, errors.Join(err, h.Close())
		}
		if err := h.Sync(); err != nil {
			return p, errors.Join(err, h.Close())
		}
		p.synced = p.appended
		if round == 2 {
			break
		}
		if err := l.fold(h); errors.Is(err, ErrFailed) {
			return p, errors.Join(err, h.Close())
		} else if err != nil {
			met = err
		}
	}
	return p, errors.Join(met, h.Close())
}

// TestHomeFaultAtEveryCall fails each call of a life with two rewrites, once or for
// good, and looks at what a kill and several power cuts leave.
func TestHomeFaultAtEveryCall(t *testing.T) {
	for name, fault := range faults {
		t.Run(name, func(t *testing.T) {
			for n := 0; ; n++ {
				fsys := faultfs.New()
				fsys.FailAt(n, fault)
				o := HomeOptions{FS: fsys, Dir: "/data/home", LogID: testID, SegmentBytes: 120}
				p, err := homeScript(o)
				met := fsys.Calls() > n
				if !met {
					must(t, err)
				} else if fault.Sticky && err == nil {
					t.Fatalf("call %d: no error of a dead disk", n)
				}
				if fsys.Handles() != 0 {
					t.Fatalf("call %d: %d handles left open after %v", n, fsys.Handles(), err)
				}
				fsys.FailAt(-1, faultfs.Fault{})
				wantHome(t, fmt.Sprintf("call %d, strict", n), o, fsys.CrashStrict(), p)
				for seed := range uint64(10) {
					wantHome(t, fmt.Sprintf("call %d, seed %d", n, seed), o, fsys.Crash(rand.New(rand.NewPCG(seed, uint64(n)))), p)
				}
				if !met {
					return
				}
				wantHome(t, fmt.Sprintf("call %d, kill", n), o, fsys, p)
			}
		})
	}
}

// wantHome opens what is left, checks it, uses it, and crashes once more.
func wantHome(t *testing.T, when string, o HomeOptions, fsys *faultfs.FS, p homeProgress) {
	t.Helper()
	o.FS = fsys
	h, l := openList(t, o)
	if n := len(l.words); n < p.synced || n > p.appended {
		t.Fatalf("%s: %q, with %d synced and %d appended", when, l.words, p.synced, p.appended)
	}
	for i, w := range l.words {
		if want := fmt.Sprintf("w%d", i); !strings.EqualFold(w, want) {
			t.Fatalf("%s: word %d is %q, want %q", when, i, w, want)
		}
	}
	must(t, l.fold(h))
	must(t, l.add(h, "more"))
	must(t, h.Sync())
	want := strings.Join(l.words, " ")
	o.FS = fsys.CrashStrict()
	must(t, h.Close())
	h, l = openList(t, o)
	wantWords(t, when+", crashed again", l, want)
	must(t, h.Close())
}

// TestHomeCrashDuringOpen cuts the power at each call of an open that has to tidy up.
func TestHomeCrashDuringOpen(t *testing.T) {
	// leftovers returns a home whose rewrite was cut just before the old generation lost
	// its number, with a torn one above it.
	leftovers := func() (*faultfs.FS, HomeOptions) {
		fsys := faultfs.New()
		o := HomeOptions{FS: fsys, Dir: "/home", LogID: testID}
		h, l := openList(t, o)
		must(t, l.add(h, "w0", "w1"))
		next, err := h.snapshotInto(2, func(emit func([]byte) error) error {
			return errors.Join(emit([]byte("W0")), emit([]byte("W1")))
		})
		must(t, err)
		must(t, h.log.Close())
		h.log = next
		must(t, h.finish())
		must(t, h.Close())
		torn := filepath.Join(o.Dir, segmentName(3))
		must(t, fsys.MkdirAll(torn))
		writeFile(t, fsys, filepath.Join(torn, segmentName(1)), []byte("torn"))
		must(t, errors.Join(fsys.SyncDir("/home"), fsys.SyncDir(torn)))
		return fsys, o
	}
	for n := 0; ; n++ {
		fsys, o := leftovers()
		before := fsys.Calls()
		fsys.FailAt(before+n, faultfs.Fault{Sticky: true})
		var l list
		h, err := OpenHome(o, l.load)
		if err == nil {
			err = h.Close()
		}
		met := fsys.Calls() > before+n
		if met != (err != nil) || fsys.Handles() != 0 {
			t.Fatalf("call %d, met %t: %v, %d handles", n, met, err, fsys.Handles())
		}
		for seed := range uint64(20) {
			wantHome(t, fmt.Sprintf("call %d, seed %d", n, seed), o, fsys.Crash(rand.New(rand.NewPCG(seed, 0))), homeProgress{2, 2})
		}
		if !met {
			return
		}
	}
}

// TestHomeDamage: what is damaged is refused; what never counted is removed.
func TestHomeDamage(t *testing.T) {
	first := func(o HomeOptions, number uint64) string {
		return filepath.Join(o.Dir, segmentName(number), segmentName(1))
	}
	tests := []struct {
		name    string
		rewrite bool
		change  func(t *testing.T, o HomeOptions)
		want    string // words recovered; empty: refused
	}{
		{"nothing", true, func(*testing.T, HomeOptions) {}, "A b"},
		{"bit in the snapshot", true, func(t *testing.T, o HomeOptions) { flip(t, o.FS, first(o, 2), 60) }, ""},
		{"bit in the header", true, func(t *testing.T, o HomeOptions) { flip(t, o.FS, first(o, 2), 5) }, ""},
		{"bit in the first mark", false, func(t *testing.T, o HomeOptions) { flip(t, o.FS, first(o, 1), 45) }, ""},
		{"cut before the mark", true, func(t *testing.T, o HomeOptions) {
			b := readFile(t, o.FS, first(o, 2))
			writeFile(t, o.FS, first(o, 2), b[:80])
		}, ""},
		{"segment gone", true, func(t *testing.T, o HomeOptions) { must(t, o.FS.Remove(first(o, 2))) }, ""},
		{"generation gone, replaced one left", true, func(t *testing.T, o HomeOptions) {
			must(t, o.FS.Rename(filepath.Join(o.Dir, segmentName(2)), filepath.Join(o.Dir, segmentName(1)+".old")))
		}, ""},
		{"generation of another home", true, func(t *testing.T, o HomeOptions) {
			o.Dir += "2"
			o.LogID++
			h, _ := openList(t, o)
			must(t, h.Close())
			must(t, o.FS.Rename(filepath.Join(o.Dir, segmentName(1)), filepath.Join(strings.TrimSuffix(o.Dir, "2"), segmentName(3))))
		}, ""},
		{"old one half removed", true, func(t *testing.T, o HomeOptions) {
			must(t, o.FS.MkdirAll(filepath.Join(o.Dir, segmentName(1)+".old")))
		}, "A b"},
		{"empty one above", true, func(t *testing.T, o HomeOptions) {
			must(t, o.FS.MkdirAll(filepath.Join(o.Dir, segmentName(3))))
		}, "A b"},
		{"files of others", true, func(t *testing.T, o HomeOptions) {
			writeFile(t, o.FS, filepath.Join(o.Dir, "README"), nil)
			writeFile(t, o.FS, filepath.Join(o.Dir, "0000000000000000000x"), nil)
		}, "A b"},
		{"first generation without a mark", false, func(t *testing.T, o HomeOptions) {
			b := readFile(t, o.FS, first(o, 1))
			writeFile(t, o.FS, first(o, 1), b[:50])
			must(t, o.FS.MkdirAll(o.Dir))
		}, "new"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			o := HomeOptions{FS: faultfs.New(), Dir: "/home", LogID: testID}
			h, l := openList(t, o)
			must(t, l.add(h, "a"))
			if tt.rewrite {
				must(t, l.fold(h))
			}
			must(t, l.add(h, "b"))
			must(t, h.Close())
			tt.change(t, o)
			var got list
			h, err := OpenHome(o, got.load)
			if tt.want == "" {
				var corrupt *CorruptError
				if !errors.As(err, &corrupt) {
					t.Fatalf("got %v, want a CorruptError", err)
				}
				return
			}
			must(t, err)
			wantWords(t, "opened", &got, strings.TrimPrefix(tt.want, "new"))
			must(t, h.Close())
		})
	}
}

func flip(t testing.TB, fsys vfs.FS, name string, pos int) {
	t.Helper()
	b := readFile(t, fsys, name)
	b[pos] ^= 1
	writeFile(t, fsys, name, b)
}

func TestHomeLoadError(t *testing.T) {
	eachHome(t, func(t *testing.T, o HomeOptions) {
		h, l := openList(t, o)
		must(t, l.add(h, "a"))
		must(t, h.Close())
		stop := errors.New("stop")
		if _, err := OpenHome(o, func([]byte) error { return stop }); !errors.Is(err, stop) {
			t.Errorf("got %v, want stop", err)
		}
	})
}

// TestRetiredLosesItsNumberFirst cuts the power at each call of a rewrite: a generation
// that still has its number is whole, or it could pass for a shorter, complete one.
func TestRetiredLosesItsNumberFirst(t *testing.T) {
	for n := 0; ; n++ {
		fsys := faultfs.New()
		o := HomeOptions{FS: fsys, Dir: "/home", LogID: testID, SegmentBytes: 120}
		h, l := openList(t, o)
		must(t, l.add(h, "a", "b", "c", "d", "e", "f"))
		must(t, h.Sync())
		before := fsys.Calls()
		fsys.FailAt(before+n, faultfs.Fault{Sticky: true})
		err := l.fold(h)
		met := fsys.Calls() > before+n
		if met && err == nil {
			t.Fatalf("call %d: no error", n)
		}
		images := []*faultfs.FS{fsys, fsys.CrashStrict()}
		for seed := range uint64(50) {
			images = append(images, fsys.Crash(rand.New(rand.NewPCG(seed, uint64(n)))))
		}
		for i, image := range images {
			dirs, err := listGenerations(image, o.Dir)
			must(t, err)
			if !slices.Contains(dirs.numbers, 1) {
				continue
			}
			old := h.generation(1)
			old.FS = image
			words := 0
			if err := Scan(old, func(uint64, []byte) error { words++; return nil }); err != nil || words != 6 {
				t.Fatalf("call %d, image %d: the old generation holds %d words, %v", n, i, words, err)
			}
		}
		if !met {
			must(t, h.Close())
			return
		}
	}
}

func TestGenerationsAreForeignToEachOther(t *testing.T) {
	h := &Home{o: HomeOptions{FS: faultfs.New(), Dir: "/home", LogID: testID}}
	one, two := h.generation(1), h.generation(2)
	build(t, one, 1)
	two.Dir = one.Dir
	if err := Scan(two, nil); !errors.Is(err, ErrForeign) {
		t.Errorf("got %v, want ErrForeign", err)
	}
}

// A home on the operating system with the default segment size goes on after a reopen:
// the wrapper and the log below it must have the same limit there too.
func TestHomeReopenedWithDefaults(t *testing.T) {
	o := HomeOptions{Dir: filepath.Join(t.TempDir(), "home"), LogID: 7}
	want := 0
	for range 3 {
		got := 0
		h, err := OpenHome(o, func([]byte) error { got++; return nil })
		if err != nil {
			t.Fatal(err)
		}
		if got != want {
			t.Fatalf("got %d change sets, want %d", got, want)
		}
		if err := errors.Join(h.Append([]byte("change")), h.Sync(), h.Close()); err != nil {
			t.Fatal(err)
		}
		want++
	}
}
