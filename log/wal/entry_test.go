package wal

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"flag"
	"math"
	"os"
	"strings"
	"testing"

	"github.com/skepmq/skep/segment/vfs/faultfs"
)

var update = flag.Bool("update", false, "rewrite golden files")

// TestGolden pins the bytes of a log: header, data, empty data, mark.
func TestGolden(t *testing.T) {
	o := Options{FS: faultfs.New(), Dir: "/log", LogID: testID}
	l, _, _ := reopen(t, o)
	for _, data := range []string{"first", ""} {
		if _, err := l.Append([]byte(data)); err != nil {
			t.Fatal(err)
		}
		must(t, l.Sync())
	}
	must(t, l.append(kindMark, make([]byte, Headroom)))
	must(t, l.Close())
	got := hex.Dump(readFile(t, o.FS, segmentPath(o, 1)))
	const name = "testdata/log.golden"
	if *update {
		must(t, os.WriteFile(name, []byte(got), 0o644))
	}
	want, err := os.ReadFile(name)
	must(t, err)
	if got != string(want) {
		t.Errorf("the format on disk has changed:\n%swant:\n%s", got, want)
	}
}

// framed returns an entry as it stands in a file.
func framed(seed uint32, e entry) []byte {
	buf := append(make([]byte, Headroom), e.data...)
	frame(buf, seed, e.kind, e.seq, e.durable)
	return append(binary.AppendUvarint(nil, uint64(len(buf))), buf...)
}

func TestDecodeEntry(t *testing.T) {
	seed := seedOf(testID)
	good := framed(seed, entry{kindData, 7, 5, []byte("data")})
	change := func(pos int, b byte) []byte {
		out := bytes.Clone(good)
		out[pos] = b
		return out
	}
	// reseal puts the checksum right again, so that the check behind it is met.
	reseal := func(pos int, b byte) []byte {
		out := change(pos, b)
		binary.LittleEndian.PutUint32(out[1:], headerCRC(out[1:], seed))
		return out
	}
	tests := []struct {
		name string
		b    []byte
		want string // part of the error; empty for none
	}{
		{"good", good, ""},
		{"followed by more", append(bytes.Clone(good), 1, 2, 3), ""},
		{"nothing", nil, "no frame"},
		{"zeros", make([]byte, 100), "no frame"},
		{"frame too small", []byte{Headroom - 1}, "no frame"},
		{"frame too large", binary.AppendUvarint(nil, Headroom+MaxData+1), "no frame"},
		{"frame not in its shortest form", append([]byte{good[0] | 0x80, 0}, good[1:]...), "no frame"},
		{"frame without end", bytes.Repeat([]byte{0xff}, 20), "no frame"},
		{"one byte short", good[:len(good)-1], "35 bytes where 36 belong"},
		{"seq", change(9, 1), "checksum of the header"},
		{"magic", reseal(5, 'X'), "checksum of the header"},
		{"kind 0", reseal(8, 0), "checksum of the header"},
		{"kind 4", reseal(8, 4), "checksum of the header"},
		{"length", reseal(25, 3), "length 3"},
		{"data", change(len(good)-1, 'A'), "checksum of the data"},
		{"other log", framed(seedOf(1), entry{kindData, 7, 5, []byte("data")}), "checksum of the header"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			e, n, err := decodeEntry(tt.b, seed)
			if tt.want == "" {
				must(t, err)
				if e.kind != kindData || e.seq != 7 || e.durable != 5 || string(e.data) != "data" || n != len(good) {
					t.Errorf("got %+v, %d", e, n)
				}
				return
			}
			if !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), tt.want) || n != 0 {
				t.Errorf("got %d, %v, want %q", n, err, tt.want)
			}
		})
	}
}

func TestFrameLen(t *testing.T) {
	for _, size := range []uint64{0, 1, 127, 128, 1<<14 - 1, 1 << 14, 1 << 30, math.MaxUint64} {
		if got, want := frameLen(size), len(binary.AppendUvarint(nil, size)); got != want {
			t.Errorf("%d: got %d, want %d", size, got, want)
		}
	}
}

// FuzzDecodeEntry: no panic, and what decodes encodes to the same bytes.
func FuzzDecodeEntry(f *testing.F) {
	seed := seedOf(testID)
	for _, data := range []string{"", "data", strings.Repeat("x", 200)} {
		f.Add(framed(seed, entry{kindData, 7, 5, []byte(data)}))
	}
	f.Add(framed(seed, entry{kindHeader, 0, 0, make([]byte, 8)}))
	f.Add(make([]byte, 100))
	f.Fuzz(func(t *testing.T, b []byte) {
		e, n, err := decodeEntry(b, seed)
		if err != nil {
			if !errors.Is(err, ErrCorrupt) || n != 0 {
				t.Errorf("%d, %v", n, err)
			}
			return
		}
		if again := framed(seed, e); !bytes.Equal(again, b[:n]) {
			t.Errorf("% x encodes to % x", b[:n], again)
		}
	})
}

// FuzzOpen: a log of any bytes opens or is refused, and one that opens can be used.
func FuzzOpen(f *testing.F) {
	img := newImage(f, 4, 2)
	f.Add(img.bytes)
	f.Add(img.bytes[:len(img.bytes)-3])
	f.Add(append(bytes.Clone(img.bytes), make([]byte, 50)...))
	f.Fuzz(func(t *testing.T, b []byte) {
		o := Options{FS: faultfs.New(), Dir: "/log", LogID: testID}
		plant(t, o, b)
		l, r, err := Open(o, nil)
		if err != nil {
			var corrupt *CorruptError
			if !errors.As(err, &corrupt) {
				t.Fatal(err)
			}
			return
		}
		_, err = l.Append([]byte("more"))
		must(t, err)
		must(t, l.Close())
		entries := 0
		must(t, Scan(o, func(uint64, []byte) error { entries++; return nil }))
		if entries != r.Entries+1 {
			t.Errorf("%d entries, want %d", entries, r.Entries+1)
		}
	})
}
