package wal

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"github.com/skepmq/skep/segment/vfs"
	"github.com/skepmq/skep/segment/vfs/faultfs"
)

// image is a small log: n entries, synced after each whose number is in synced.
type image struct {
	bytes  []byte
	starts []int // of the header and each entry, and the end
}

func newImage(t testing.TB, n int, synced ...int) image {
	t.Helper()
	o := Options{FS: faultfs.New(), Dir: "/log", LogID: testID}
	l, _, _ := reopen(t, o)
	img := image{starts: []int{0, int(l.Size())}}
	for i := 1; i <= n; i++ {
		appendN(t, l, i, i)
		img.starts = append(img.starts, int(l.Size()))
		if slices.Contains(synced, i) {
			must(t, l.Sync())
		}
	}
	must(t, l.Close())
	img.bytes = readFile(t, o.FS, segmentPath(o, 1))
	return img
}

// plant makes a log of one segment with the given bytes.
func plant(t testing.TB, o Options, b []byte) {
	t.Helper()
	must(t, o.FS.RemoveAll(o.Dir))
	must(t, o.FS.MkdirAll(o.Dir))
	writeFile(t, o.FS, segmentPath(o, 1), b)
}

// wantUsable reopens a log that recovered n entries, appends, and reads all again.
func wantUsable(t testing.TB, o Options, l *Log, n int) {
	t.Helper()
	appendN(t, l, n+1, n+3)
	must(t, l.Sync())
	must(t, l.Close())
	l, r, got := reopen(t, o)
	wantN(t, got, n+3)
	if r.CutBytes != 0 {
		t.Errorf("%d bytes cut once more", r.CutBytes)
	}
	must(t, l.Close())
}

func TestEveryCut(t *testing.T) {
	img := newImage(t, 8)
	each(t, func(t *testing.T, o Options) {
		for size := range len(img.bytes) + 1 {
			if o.FS == vfs.OS && size%16 != 0 && !slices.Contains(img.starts, size) {
				continue // real syncs are slow, and the walk is the same
			}
			plant(t, o, img.bytes[:size])
			whole := -1 // entries, after the header
			for _, end := range img.starts[1:] {
				if end <= size {
					whole++
				}
			}
			l, r, got := reopen(t, o)
			wantN(t, got, max(0, whole))
			valid := 0
			if whole >= 0 {
				valid = img.starts[whole+1]
			}
			if r.CutBytes != int64(size-valid) {
				t.Fatalf("size %d: %d bytes cut, want %d", size, r.CutBytes, size-valid)
			}
			if r.CutBytes > 0 {
				kept := readFile(t, o.FS, segmentPath(o, 1)+"."+strconv.Itoa(valid)+".broken")
				if !bytes.Equal(kept, img.bytes[valid:size]) || r.CutPath != segmentPath(o, 1) {
					t.Fatalf("size %d: kept %d bytes of %s", size, len(kept), r.CutPath)
				}
			}
			wantUsable(t, o, l, max(0, whole))
		}
	})
}

// TestEveryCutOfALaterSegment cuts the tail of a log with several segments.
func TestEveryCutOfALaterSegment(t *testing.T) {
	o := Options{FS: faultfs.New(), Dir: "/log", LogID: testID, SegmentBytes: 500}
	build(t, o, 12)
	segments, err := listSegments(o.FS, o.Dir)
	must(t, err)
	tail := segments[len(segments)-1]
	whole := readFile(t, o.FS, segmentPath(o, tail))
	if len(segments) < 2 || len(whole) == 0 {
		t.Fatalf("segments %d, tail of %d bytes", segments, len(whole))
	}
	original := files(t, o)
	for size := range len(whole) {
		must(t, o.FS.RemoveAll(o.Dir))
		must(t, o.FS.MkdirAll(o.Dir))
		for name, b := range original {
			writeFile(t, o.FS, filepath.Join(o.Dir, name), b)
		}
		writeFile(t, o.FS, segmentPath(o, tail), whole[:size])
		l, _, got := reopen(t, o)
		if n := len(got); n < int(tail)-2 || n >= 12 {
			t.Fatalf("size %d: %d entries", size, n)
		}
		wantUsable(t, o, l, len(got))
	}
}

func TestZeroTail(t *testing.T) {
	img := newImage(t, 8, 8)
	each(t, func(t *testing.T, o Options) {
		for _, n := range []int{1, 100, 512, 4096} {
			plant(t, o, append(slices.Clone(img.bytes), make([]byte, n)...))
			l, r, got := reopen(t, o)
			wantN(t, got, 8)
			if r.CutBytes != int64(n) {
				t.Errorf("%d zeros: %d bytes cut", n, r.CutBytes)
			}
			wantUsable(t, o, l, 8)
			plant(t, o, make([]byte, n)) // the first segment, created and never written
			l, _, got = reopen(t, o)
			wantN(t, got, 0)
			wantUsable(t, o, l, 0)
		}
	})
}

// TestEveryBitFlip flips each bit of a log of which half was synced when the other half
// was written. A flip in what was vouched for is refused with its position, any other
// cuts the log there; no wrong byte is ever handed out.
func TestEveryBitFlip(t *testing.T) {
	const n, vouched = 8, 5
	img := newImage(t, n, vouched)
	for bit := range len(img.bytes) * 8 {
		o := Options{FS: faultfs.New(), Dir: "/log", LogID: testID}
		b := slices.Clone(img.bytes)
		b[bit/8] ^= 1 << (bit % 8)
		hit := 0 // the entry, 0 for the header
		for img.starts[hit+1] <= bit/8 {
			hit++
		}
		plant(t, o, b)
		var got [][]byte
		l, _, err := Open(o, collect(t, &got))
		var corrupt *CorruptError
		switch {
		case hit <= vouched:
			if !errors.As(err, &corrupt) || corrupt.Position != int64(img.starts[hit]) || corrupt.Path != segmentPath(o, 1) {
				t.Fatalf("bit %d, entry %d: got %v, want a CorruptError at %d", bit, hit, err, img.starts[hit])
			}
			if !bytes.Equal(readFile(t, o.FS, segmentPath(o, 1)), b) {
				t.Fatalf("bit %d: a damaged file was changed", bit)
			}
			wantN(t, got, max(0, hit-1))
		case err != nil:
			t.Fatalf("bit %d, entry %d: %v", bit, hit, err)
		default:
			wantN(t, got, hit-1)
			must(t, l.Close())
		}
		plant(t, o, b)
		if err := Scan(o, nil); !errors.As(err, &corrupt) || corrupt.Position != int64(img.starts[hit]) {
			t.Fatalf("bit %d: Scan: got %v, want a CorruptError at %d", bit, err, img.starts[hit])
		}
	}
}

// TestVoucherWithTornData: the header of a later entry vouches though its data is torn.
func TestVoucherWithTornData(t *testing.T) {
	img := newImage(t, 3, 2)
	o := Options{FS: faultfs.New(), Dir: "/log", LogID: testID}
	b := img.bytes[:len(img.bytes)-1]
	b[img.starts[2]+40] ^= 1
	plant(t, o, b)
	var corrupt *CorruptError
	if _, _, err := Open(o, nil); !errors.As(err, &corrupt) || corrupt.Position != int64(img.starts[2]) {
		t.Errorf("got %v, want a CorruptError at %d", err, img.starts[2])
	}
}

// TestHoleInUnsynced: a valid entry behind a hole proves nothing if neither was synced.
func TestHoleInUnsynced(t *testing.T) {
	img := newImage(t, 6, 2)
	o := Options{FS: faultfs.New(), Dir: "/log", LogID: testID}
	clear(img.bytes[img.starts[4]:img.starts[5]])
	plant(t, o, img.bytes)
	l, _, got := reopen(t, o)
	wantN(t, got, 3)
	wantUsable(t, o, l, 3)
}

// TestCopyOfTheLogInsideData: data may hold this very log's bytes.
func TestCopyOfTheLogInsideData(t *testing.T) {
	img := newImage(t, 6, 1, 2, 3, 4, 5, 6)
	o := Options{FS: faultfs.New(), Dir: "/log", LogID: testID}
	plant(t, o, img.bytes)
	l, _, _ := reopen(t, o)
	_, err := l.Append(append([]byte(magic+magic), img.bytes...))
	must(t, err)
	must(t, l.Close())
	b := readFile(t, o.FS, segmentPath(o, 1))
	plant(t, o, b[:len(b)-1])
	l, _, got := reopen(t, o)
	wantN(t, got, 6)
	wantUsable(t, o, l, 6)
}

// TestMagicAcrossTheSearch: a checksum may look like the beginning of the magic.
func TestMagicAcrossTheSearch(t *testing.T) {
	w := walker{seed: seedOf(testID)}
	w.found.next = 5
	for pad := range 6 {
		buf := make([]byte, Headroom)
		frame(buf, w.seed, kindData, 9, 8)
		b := append([]byte("....SKW"+magic[:pad%4]), buf...)
		if seq, ok := w.voucher(b); !ok || seq != 9 {
			t.Errorf("pad %d: got %d, %t, want 9", pad, seq, ok)
		}
	}
	for name, h := range map[string][2]uint64{"too old": {9, 4}, "impossible": {8, 8}} {
		buf := make([]byte, Headroom)
		frame(buf, w.seed, kindData, h[0], h[1])
		if _, ok := w.voucher(buf); ok {
			t.Errorf("%s: seq %d, durable %d vouches", name, h[0], h[1])
		}
	}
}

func TestSegmentFiles(t *testing.T) {
	tests := []struct {
		name   string
		change func(t *testing.T, o Options, segments []uint64)
		wantAt int // which segment is at fault; -1: none, the log opens
	}{
		{"nothing", func(*testing.T, Options, []uint64) {}, -1},
		{"first missing", func(t *testing.T, o Options, s []uint64) { must(t, o.FS.Remove(segmentPath(o, s[0]))) }, 0},
		{"middle missing", func(t *testing.T, o Options, s []uint64) { must(t, o.FS.Remove(segmentPath(o, s[1]))) }, 1},
		{"middle empty", func(t *testing.T, o Options, s []uint64) { writeFile(t, o.FS, segmentPath(o, s[1]), nil) }, 1},
		{"first short", func(t *testing.T, o Options, s []uint64) {
			b := readFile(t, o.FS, segmentPath(o, s[0]))
			writeFile(t, o.FS, segmentPath(o, s[0]), b[:len(b)-1])
		}, 0},
		{"middle longer by zeros", func(t *testing.T, o Options, s []uint64) {
			b := readFile(t, o.FS, segmentPath(o, s[1]))
			writeFile(t, o.FS, segmentPath(o, s[1]), append(b, 0, 0))
		}, 1},
		{"middle replaced by the first", func(t *testing.T, o Options, s []uint64) {
			writeFile(t, o.FS, segmentPath(o, s[1]), readFile(t, o.FS, segmentPath(o, s[0])))
		}, 1},
		{"tail empty", func(t *testing.T, o Options, s []uint64) { writeFile(t, o.FS, segmentPath(o, s[len(s)-1]), nil) }, -1},
		{"tail never created", func(t *testing.T, o Options, s []uint64) { must(t, o.FS.Remove(segmentPath(o, s[len(s)-1]))) }, -1},
		{"files of others", func(t *testing.T, o Options, s []uint64) {
			for _, name := range []string{"README", "00000000000000000000", "0000000000000000000x", segmentName(1) + ".7.broken"} {
				writeFile(t, o.FS, filepath.Join(o.Dir, name), []byte("x"))
			}
		}, -1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			each(t, func(t *testing.T, o Options) {
				o.SegmentBytes = 150
				build(t, o, 20)
				segments, err := listSegments(o.FS, o.Dir)
				must(t, err)
				tt.change(t, o, segments)
				var corrupt *CorruptError
				var got [][]byte
				l, _, err := Open(o, collect(t, &got))
				if tt.wantAt < 0 {
					must(t, err)
					wantN(t, got, len(got))
					wantUsable(t, o, l, len(got))
					return
				}
				// What is missing is named by the segment that should be there.
				if !errors.As(err, &corrupt) || !errors.Is(err, ErrCorrupt) {
					t.Fatalf("got %v, want a CorruptError", err)
				}
				if want := segmentPath(o, segments[tt.wantAt]); corrupt.Path != want {
					t.Errorf("got %s, want %s", corrupt.Path, want)
				}
			})
		})
	}
}

// TestTruncationMarks: tidwall would delete segments because of such files, or take a
// directory that holds nothing else for a new log.
func TestTruncationMarks(t *testing.T) {
	for _, suffix := range []string{".START", ".END", ".TEMP", ".START.TEMP"} {
		each(t, func(t *testing.T, o Options) {
			build(t, o, 3)
			name := segmentPath(o, 2) + suffix
			writeFile(t, o.FS, name, nil)
			before := files(t, o)
			var corrupt *CorruptError
			if _, _, err := Open(o, nil); !errors.As(err, &corrupt) || corrupt.Path != name {
				t.Errorf("%s: got %v, want a CorruptError of it", suffix, err)
			}
			if after := files(t, o); len(after) != len(before) {
				t.Errorf("%s: %d files, want %d", suffix, len(after), len(before))
			}
		})
	}
}

func TestForeignLog(t *testing.T) {
	each(t, func(t *testing.T, o Options) {
		build(t, o, 3)
		before := files(t, o)
		o.LogID++
		var corrupt *CorruptError
		if _, _, err := Open(o, nil); !errors.Is(err, ErrForeign) || !errors.As(err, &corrupt) {
			t.Errorf("Open: got %v, want ErrForeign", err)
		}
		if err := Scan(o, nil); !errors.Is(err, ErrForeign) {
			t.Errorf("Scan: got %v, want ErrForeign", err)
		}
		for name, b := range files(t, o) {
			if !bytes.Equal(b, before[name]) {
				t.Errorf("%s was changed", name)
			}
		}
	})
}

func TestScan(t *testing.T) {
	img := newImage(t, 8)
	o := Options{FS: faultfs.New(), Dir: "/log", LogID: testID}
	if err := Scan(o, nil); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("missing directory: got %v, want ErrNotExist", err)
	}
	must(t, o.FS.MkdirAll(o.Dir))
	for _, size := range []int{-1, 0, 10, img.starts[4] + 1, len(img.bytes) - 1} {
		if size >= 0 {
			plant(t, o, img.bytes[:size])
		}
		calls := o.FS.(*faultfs.FS).Calls()
		var corrupt *CorruptError
		if err := Scan(o, nil); !errors.As(err, &corrupt) {
			t.Errorf("size %d: got %v, want a CorruptError", size, err)
		}
		if o.FS.(*faultfs.FS).Calls() != calls {
			t.Errorf("size %d: Scan wrote", size)
		}
	}
}

// TestCutWithoutRoomToKeep: a full disk must not keep a log from opening.
func TestCutWithoutRoomToKeep(t *testing.T) {
	img := newImage(t, 8)
	for call := range 3 { // create, write and sync of the .broken file
		fsys := faultfs.New()
		o := Options{FS: fsys, Dir: "/log", LogID: testID}
		plant(t, o, img.bytes[:len(img.bytes)-1])
		fsys.FailAt(fsys.Calls()+call, faultfs.Fault{Err: faultfs.ENOSPC, Short: true})
		l, _, got := reopen(t, o)
		wantN(t, got, 7)
		if len(files(t, o)) != 1 {
			t.Errorf("call %d: a part of the kept bytes is left", call)
		}
		wantUsable(t, o, l, 7)
	}
}

// TestRenewWithoutRoom: nor must it when the end of the log cannot be written once more.
func TestRenewWithoutRoom(t *testing.T) {
	img := newImage(t, 8)
	for call := range 4 { // create, write, sync and rename of the copy
		fsys := faultfs.New()
		o := Options{FS: fsys, Dir: "/log", LogID: testID}
		plant(t, o, img.bytes)
		fsys.FailAt(fsys.Calls()+1+call, faultfs.Fault{Err: faultfs.ENOSPC, Short: true}) // the first one syncs a name
		l, _, got := reopen(t, o)
		wantN(t, got, 8)
		wantUsable(t, o, l, 8)
		if n := len(files(t, o)); n != 1 {
			t.Errorf("call %d: %d files are left", call, n)
		}
	}
}

func TestCutIsLogged(t *testing.T) {
	img := newImage(t, 2)
	var out bytes.Buffer
	o := Options{FS: faultfs.New(), Dir: "/log", LogID: testID, Logger: zerolog.New(&out)}
	plant(t, o, img.bytes[:len(img.bytes)-1])
	l, _, _ := reopen(t, o)
	must(t, l.Close())
	for _, want := range []string{`"level":"warn"`, `"message":"torn tail cut"`, `"path":"/log/` + segmentName(1) + `"`, `"cut_bytes":`, `"position":`} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%s lacks %s", out.String(), want)
		}
	}
}

func TestCheckHeader(t *testing.T) {
	id := binary.LittleEndian.AppendUint64(nil, testID)
	tests := []struct {
		name string
		next uint64
		e    entry
		want error
	}{
		{"header", 0, entry{kind: kindHeader, data: id}, nil},
		{"data", 3, entry{kind: kindData, seq: 3}, nil},
		{"data first", 0, entry{kind: kindData}, ErrCorrupt},
		{"header later", 3, entry{kind: kindHeader, seq: 3, data: id}, ErrCorrupt},
		{"gap", 3, entry{kind: kindData, seq: 4}, ErrCorrupt},
		{"short header", 0, entry{kind: kindHeader, data: id[:7]}, ErrCorrupt},
		{"other id", 0, entry{kind: kindHeader, data: make([]byte, 8)}, ErrForeign},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := walker{logID: testID, found: found{next: tt.next}}
			if err := w.check(tt.e); !errors.Is(err, tt.want) {
				t.Errorf("got %v, want %v", err, tt.want)
			}
		})
	}
}
