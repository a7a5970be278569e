package wal

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"testing"

	"github.com/rs/zerolog"

	"github.com/skepmq/skep/segment/vfs"
	"github.com/skepmq/skep/segment/vfs/faultfs"
)

const testID = 0x1122334455667788

// notOS is vfs.OS under another type, so that the log uses its own appender on it.
type notOS struct{ vfs.FS }

// each runs a test over both appenders.
func each(t *testing.T, test func(t *testing.T, o Options)) {
	systems := map[string]func(t *testing.T) Options{
		"tidwall": func(t *testing.T) Options { return Options{FS: vfs.OS, Dir: filepath.Join(t.TempDir(), "log")} },
		"files":   func(*testing.T) Options { return Options{FS: faultfs.New(), Dir: "/data/log"} },
	}
	for name, make := range systems {
		t.Run(name, func(t *testing.T) {
			o := make(t)
			o.LogID = testID
			o.Logger = zerolog.Nop()
			test(t, o)
			if f, ok := o.FS.(*faultfs.FS); ok && f.Handles() != 0 {
				t.Errorf("%d handles left open", f.Handles())
			}
		})
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// payload is the data of entry seq: of many lengths, the empty one included.
func payload(seq int) []byte {
	return bytes.Repeat([]byte{byte('a' + seq%26)}, seq*37%113)
}

// reopen opens a log and returns it with the entries found.
func reopen(t testing.TB, o Options) (*Log, Recovery, [][]byte) {
	t.Helper()
	var got [][]byte
	l, r, err := Open(o, collect(t, &got))
	must(t, err)
	return l, r, got
}

func collect(t testing.TB, into *[][]byte) func(uint64, []byte) error {
	return func(seq uint64, data []byte) error {
		if want := uint64(len(*into) + 1); seq != want {
			t.Errorf("seq %d, want %d", seq, want)
		}
		*into = append(*into, slices.Clone(data))
		return nil
	}
}

// appendN appends payload from up to to.
func appendN(t testing.TB, l *Log, from, to int) {
	t.Helper()
	for i := from; i <= to; i++ {
		seq, err := l.Append(payload(i))
		must(t, err)
		if seq != uint64(i) {
			t.Fatalf("Append: got seq %d, want %d", seq, i)
		}
	}
}

func wantN(t testing.TB, got [][]byte, n int) {
	t.Helper()
	if len(got) != n {
		t.Fatalf("%d entries, want %d", len(got), n)
	}
	for i, b := range got {
		if !bytes.Equal(b, payload(i+1)) {
			t.Fatalf("entry %d: got %q, want %q", i+1, b, payload(i+1))
		}
	}
}

// build makes a log of n entries and closes it.
func build(t testing.TB, o Options, n int) {
	t.Helper()
	l, _, _ := reopen(t, o)
	appendN(t, l, 1, n)
	must(t, l.Close())
}

func readFile(t testing.TB, fsys vfs.FS, name string) []byte {
	t.Helper()
	f, err := fsys.Open(name)
	must(t, err)
	size, err := f.Size()
	must(t, err)
	b := make([]byte, size)
	if _, err := f.ReadAt(b, 0); err != nil && !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
	must(t, f.Close())
	return b
}

func writeFile(t testing.TB, fsys vfs.FS, name string, b []byte) {
	t.Helper()
	f, err := fsys.Create(name)
	must(t, err)
	_, err = f.WriteAt(b, 0)
	must(t, err)
	must(t, f.Sync())
	must(t, f.Close())
}

// files returns the content of a log's directory by name.
func files(t testing.TB, o Options) map[string][]byte {
	t.Helper()
	names, err := o.FS.List(o.Dir)
	must(t, err)
	out := map[string][]byte{}
	for _, name := range names {
		out[name] = readFile(t, o.FS, filepath.Join(o.Dir, name))
	}
	return out
}

// segmentPath returns the path of a segment.
func segmentPath(o Options, index uint64) string {
	return filepath.Join(o.Dir, segmentName(index))
}

func TestAppendAndReopen(t *testing.T) {
	each(t, func(t *testing.T, o Options) {
		total := 0
		for round, n := range []int{0, 5, 0, 30} {
			l, r, got := reopen(t, o)
			wantN(t, got, total)
			if r.Entries != total || r.LastSeq != uint64(total) || r.CutBytes != 0 || r.CutPath != "" || r.Segments != 1 {
				t.Errorf("round %d: %+v", round, r)
			}
			appendN(t, l, total+1, total+n)
			total += n
			if l.LastSeq() != uint64(total) {
				t.Errorf("LastSeq %d, want %d", l.LastSeq(), total)
			}
			must(t, l.Sync())
			if l.DurableSeq() != uint64(total) {
				t.Errorf("DurableSeq %d, want %d", l.DurableSeq(), total)
			}
			if got, want := l.Size(), int64(len(readFile(t, o.FS, segmentPath(o, 1)))); got != want {
				t.Errorf("Size %d, want %d", got, want)
			}
			must(t, l.Close())
		}
		var got [][]byte
		must(t, Scan(o, collect(t, &got)))
		wantN(t, got, total)
	})
}

func TestRollAndReopen(t *testing.T) {
	for _, limit := range []int{1, 200, 1000} {
		each(t, func(t *testing.T, o Options) {
			o.SegmentBytes = limit
			l, _, _ := reopen(t, o)
			for i := 1; i <= 60; i++ {
				appendN(t, l, i, i)
				if i%7 == 0 {
					must(t, l.Close())
					var got [][]byte
					l, _, got = reopen(t, o)
					wantN(t, got, i)
				}
			}
			want := l.Size()
			must(t, l.Close())
			l, r, got := reopen(t, o)
			wantN(t, got, 60)
			if r.Segments < 4 || l.Size() != want {
				t.Errorf("%d segments of %d bytes, want several of %d", r.Segments, l.Size(), want)
			}
			must(t, l.Close())
		})
	}
}

// TestSmallerLimit opens a log whose tail is already too long: it rolls before a write.
func TestSmallerLimit(t *testing.T) {
	each(t, func(t *testing.T, o Options) {
		build(t, o, 40)
		o.SegmentBytes = 150
		l, r, _ := reopen(t, o)
		if r.Segments != 1 {
			t.Fatalf("%d segments", r.Segments)
		}
		appendN(t, l, 41, 60)
		must(t, l.Close())
		l, r, got := reopen(t, o)
		wantN(t, got, 60)
		if r.Segments < 3 {
			t.Errorf("%d segments, want several", r.Segments)
		}
		must(t, l.Close())
	})
}

// TestRollSyncs shows that a full segment and its successor's name are durable without
// a Sync.
func TestRollSyncs(t *testing.T) {
	fsys := faultfs.New()
	o := Options{FS: fsys, Dir: "/log", LogID: testID, SegmentBytes: 300}
	l, _, _ := reopen(t, o)
	rolled := 0
	for i := 1; i <= 50; i++ {
		before := l.DurableSeq()
		appendN(t, l, i, i)
		if l.DurableSeq() == before {
			continue
		}
		rolled++
		if l.DurableSeq() != uint64(i) {
			t.Fatalf("entry %d filled a segment, and %d is durable", i, l.DurableSeq())
		}
		after := o
		after.FS = fsys.CrashStrict()
		a, r, got := reopen(t, after)
		wantN(t, got, i)
		if r.Segments != rolled+1 {
			t.Errorf("%d segments after %d rolls", r.Segments, rolled)
		}
		must(t, a.Close())
	}
	if rolled < 5 {
		t.Errorf("%d rolls", rolled)
	}
	must(t, l.Close())
}

// TestAppendersWriteTheSameBytes drives both with one script and compares the files.
func TestAppendersWriteTheSameBytes(t *testing.T) {
	for _, limit := range []int{1, 100, 333, 5000, DefaultSegmentBytes} {
		var results []map[string][]byte
		for _, fsys := range []vfs.FS{vfs.OS, notOS{vfs.OS}} {
			o := Options{FS: fsys, Dir: filepath.Join(t.TempDir(), "log"), LogID: testID, SegmentBytes: limit}
			l, _, _ := reopen(t, o)
			if _, ours := l.app.(*fileAppender); ours != (fsys != vfs.OS) {
				t.Fatalf("%T got %T", fsys, l.app)
			}
			o.Direct = !o.Direct && fsys == vfs.OS // each reopening takes the other one
			for i := 1; i <= 100; i++ {
				appendN(t, l, i, i)
				if i%10 == 0 {
					must(t, l.Sync())
				}
				if i%40 == 0 {
					must(t, l.Close())
					l, _, _ = reopen(t, o)
				}
			}
			must(t, l.Close())
			o.SegmentBytes /= 2
			l, _, _ = reopen(t, o)
			appendN(t, l, 101, 120)
			must(t, l.Close())
			results = append(results, files(t, o))
		}
		if len(results[0]) != len(results[1]) {
			t.Errorf("limit %d: %d and %d files", limit, len(results[0]), len(results[1]))
		}
		for name, b := range results[0] {
			if !bytes.Equal(b, results[1][name]) {
				t.Errorf("limit %d: %s differs", limit, name)
			}
		}
	}
}

func TestRollsAgreesWithTidwall(t *testing.T) {
	tests := []struct {
		name           string
		size, n, limit int64
		before, after  bool
	}{
		{"fits", 10, 10, 100, false, false},
		{"one short", 10, 89, 100, false, false},
		{"fills exactly", 10, 90, 100, false, true},
		{"overfills", 10, 900, 100, false, true},
		{"full when opened", 100, 1, 100, false, true},
		{"overfull when opened", 101, 1, 100, true, false},
		{"overfull and large", 101, 100, 100, true, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if before, after := rolls(tt.size, tt.n, tt.limit); before != tt.before || after != tt.after {
				t.Errorf("got %t, %t, want %t, %t", before, after, tt.before, tt.after)
			}
		})
	}
}

func TestAppendFramed(t *testing.T) {
	each(t, func(t *testing.T, o Options) {
		l, _, _ := reopen(t, o)
		buf := append(bytes.Repeat([]byte{0xff}, Headroom), payload(1)...)
		seq, err := l.AppendFramed(buf)
		must(t, err)
		if seq != 1 || !bytes.Equal(buf[Headroom:], payload(1)) {
			t.Errorf("seq %d, data %q", seq, buf[Headroom:])
		}
		if _, err := l.AppendFramed(make([]byte, Headroom-1)); !errors.Is(err, ErrSize) {
			t.Errorf("short buffer: got %v, want ErrSize", err)
		}
		appendN(t, l, 2, 2) // a refused buffer does no harm
		must(t, l.Close())
		l, _, got := reopen(t, o)
		wantN(t, got, 2)
		must(t, l.Close())
	})
}

func TestClosed(t *testing.T) {
	each(t, func(t *testing.T, o Options) {
		l, _, _ := reopen(t, o)
		must(t, l.Close())
		_, err := l.Append(nil)
		for what, err := range map[string]error{"Append": err, "Sync": l.Sync(), "Close": l.Close()} {
			if !errors.Is(err, ErrClosed) {
				t.Errorf("%s: got %v, want ErrClosed", what, err)
			}
		}
	})
}

func TestCallbackError(t *testing.T) {
	each(t, func(t *testing.T, o Options) {
		build(t, o, 5)
		stop := errors.New("stop")
		fn := func(seq uint64, _ []byte) error {
			if seq == 3 {
				return stop
			}
			return nil
		}
		if _, r, err := Open(o, fn); !errors.Is(err, stop) || r.Entries != 3 {
			t.Errorf("Open: got %d entries, %v, want 3, stop", r.Entries, err)
		}
		if err := Scan(o, fn); !errors.Is(err, stop) {
			t.Errorf("Scan: got %v, want stop", err)
		}
	})
}

func ExampleLog_AppendFramed() {
	l, _, err := Open(Options{FS: faultfs.New(), Dir: "log", LogID: 7}, nil)
	if err != nil {
		panic(err)
	}
	buf := append(make([]byte, Headroom), "two requests, one entry"...)
	seq, err := l.AppendFramed(buf)
	if err == nil {
		err = l.Sync()
	}
	fmt.Println(seq, l.DurableSeq(), err)
	// Output: 1 1 <nil>
}
