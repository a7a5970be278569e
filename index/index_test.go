package index

import (
	"bytes"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/skepmq/skep/segment"
	"github.com/skepmq/skep/segment/vfs"
	"github.com/skepmq/skep/segment/vfs/faultfs"
)

var update = flag.Bool("update", false, "rewrite the golden files")

const testPath = "/00000001.seg"

var testEntry = Entry{
	Partition: 0x0102, Prev: Pointer{Segment: 3, Position: 0x0405}, BaseOffset: 6, Count: 7,
	Position: 0x0809, Length: 0x0a0b, FirstTimestampMs: 1_700_000_000_000, LastTimestampMs: 1_700_000_000_001,
}

func TestRunGolden(t *testing.T) {
	b := AppendEntry(nil, &testEntry)
	b = AppendTrailer(b, Trailer{Count: 1, RunStart: 32, IndexCRC: segment.Checksum(b)})
	var text strings.Builder
	for ; len(b) > 0; b = b[min(16, len(b)):] {
		fmt.Fprintln(&text, hex.EncodeToString(b[:min(16, len(b))]))
	}
	const path = "testdata/run.golden"
	if *update {
		if err := os.WriteFile(path, []byte(text.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if text.String() != string(want) {
		t.Errorf("got\n%swant\n%s", text.String(), want)
	}
}

func putCRC(b []byte) {
	crc := segment.Checksum(b[4:])
	b[0], b[1], b[2], b[3] = byte(crc), byte(crc>>8), byte(crc>>16), byte(crc>>24)
}

// Every bit of entry and trailer is guarded.
func TestFlipsAndCuts(t *testing.T) {
	entry := AppendEntry(nil, &testEntry)
	trailer := AppendTrailer(nil, Trailer{IndexCRC: 1, Count: 2, RunStart: 32})
	for name, tc := range map[string]struct {
		b      []byte
		decode func([]byte) error
	}{
		"entry":   {entry, func(b []byte) error { _, err := DecodeEntry(b); return err }},
		"trailer": {trailer, func(b []byte) error { _, err := DecodeTrailer(b); return err }},
	} {
		t.Run(name, func(t *testing.T) {
			for i := range tc.b {
				for bit := range 8 {
					tc.b[i] ^= 1 << bit
					if err := tc.decode(tc.b); !errors.Is(err, segment.ErrCorrupt) {
						t.Fatalf("byte %d bit %d flipped: got %v", i, bit, err)
					}
					tc.b[i] ^= 1 << bit
				}
				if err := tc.decode(tc.b[:i]); err != segment.ErrShort {
					t.Fatalf("cut to %d: got %v", i, err)
				}
			}
			if err := tc.decode(tc.b); err != nil {
				t.Fatal(err)
			}
		})
	}
}

func TestImpossible(t *testing.T) {
	for name, change := range map[string]func(*Entry){
		"partition":         func(e *Entry) { e.Partition = 0 },
		"no messages":       func(e *Entry) { e.Count = 0 },
		"shorter than one":  func(e *Entry) { e.Length = segment.HeaderLen - 1 },
		"in file header":    func(e *Entry) { e.Position = segment.FileHeaderLen - 1 },
		"negative offset":   func(e *Entry) { e.BaseOffset = -1 },
		"offset too large":  func(e *Entry) { e.BaseOffset = segment.MaxOffset - 5 },
		"prev in segment 0": func(e *Entry) { e.Prev.Segment = 0 },
	} {
		e := testEntry
		change(&e)
		if _, err := DecodeEntry(AppendEntry(nil, &e)); !errors.Is(err, segment.ErrCorrupt) {
			t.Errorf("entry, %s: got %v", name, err)
		}
	}
	for _, at := range []int{8, 10, 11, 44} {
		b := AppendEntry(nil, &testEntry)
		b[at]++
		putCRC(b)
		if _, err := DecodeEntry(b); !errors.Is(err, segment.ErrCorrupt) {
			t.Errorf("entry, byte %d: got %v", at, err)
		}
	}
	for name, tr := range map[string]Trailer{"no entries": {RunStart: 32}, "start": {Count: 1, RunStart: 31}} {
		if _, err := DecodeTrailer(AppendTrailer(nil, tr)); !errors.Is(err, segment.ErrCorrupt) {
			t.Errorf("trailer, %s: got %v", name, err)
		}
	}
}

func TestFind(t *testing.T) {
	chain := []Located{
		{Entry: Entry{BaseOffset: 10, Count: 5, FirstTimestampMs: 100, LastTimestampMs: 100}},
		{Entry: Entry{BaseOffset: 15, Count: 1, FirstTimestampMs: 100, LastTimestampMs: 200}},
		{Entry: Entry{BaseOffset: 20, Count: 10, FirstTimestampMs: 300, LastTimestampMs: 400}},
	}
	for offset, want := range map[int64]int{-1: 0, 0: 0, 10: 0, 14: 0, 15: 1, 16: 2, 19: 2, 20: 2, 29: 2, 30: 3} {
		if got := FindOffset(chain, offset); got != want {
			t.Errorf("offset %d: got %d want %d", offset, got, want)
		}
	}
	for ms, want := range map[int64]int{0: 0, 100: 0, 101: 1, 200: 1, 201: 2, 400: 2, 401: 3} {
		if got := FindTime(chain, ms); got != want {
			t.Errorf("time %d: got %d want %d", ms, got, want)
		}
	}
}

// spec is a batch of a run: its partition, first offset, messages and payload bytes.
type spec struct {
	partition uint64
	offset    int64
	count     int
	bytes     int
}

func (s spec) batch() []byte {
	var raw []byte
	for range s.count {
		raw = segment.AppendMessage(raw, &segment.Message{Payload: make([]byte, s.bytes)})
	}
	b := segment.AppendBatch(nil, &segment.Header{Count: uint32(s.count)}, raw)
	segment.Seal(b, s.partition, s.offset, 1000+s.offset, [16]byte{})
	return b
}

func TestPacker(t *testing.T) {
	small := int64(len(spec{1, 0, 1, 10}.batch()))
	for name, tc := range map[string]struct {
		extent int64
		run    []spec
		want   []int // batches an extent
	}{
		"one":               {1 << 16, []spec{{1, 0, 1, 10}}, []int{1}},
		"together":          {1 << 16, []spec{{1, 0, 1, 10}, {1, 1, 2, 10}, {1, 3, 1, 10}}, []int{3}},
		"partitions":        {1 << 16, []spec{{1, 0, 1, 10}, {2, 1, 1, 10}}, []int{1, 1}},
		"gap":               {1 << 16, []spec{{1, 0, 1, 10}, {1, 2, 1, 10}}, []int{1, 1}},
		"just fits":         {2 * small, []spec{{1, 0, 1, 10}, {1, 1, 1, 10}, {1, 2, 1, 10}}, []int{2, 1}},
		"just does not fit": {2*small - 1, []spec{{1, 0, 1, 10}, {1, 1, 1, 10}}, []int{1, 1}},
		"large ones alone":  {small, []spec{{1, 0, 1, 10}, {1, 1, 1, 300}, {1, 2, 1, 10}}, []int{1, 1, 1}},
	} {
		t.Run(name, func(t *testing.T) {
			p := Packer{ExtentBytes: uint32(tc.extent)}
			at := uint32(segment.FileHeaderLen)
			for _, s := range tc.run {
				b := s.batch()
				h, err := segment.DecodeHeader(b)
				if err != nil {
					t.Fatal(err)
				}
				p.Add(&h, at)
				at += uint32(len(b))
			}
			i, place := 0, int64(segment.FileHeaderLen)
			if len(p.Entries) != len(tc.want) {
				t.Fatalf("got %d extents want %d", len(p.Entries), len(tc.want))
			}
			for k, n := range tc.want {
				first, last := tc.run[i], tc.run[i+n-1]
				want := Entry{
					Partition: first.partition, BaseOffset: first.offset, Position: uint32(place),
					Count:            uint32(last.offset + int64(last.count) - first.offset),
					FirstTimestampMs: 1000 + first.offset, LastTimestampMs: 1000 + last.offset,
				}
				for ; n > 0; n-- {
					want.Length += uint32(len(tc.run[i].batch()))
					i++
				}
				place += int64(want.Length)
				if p.Entries[k] != want {
					t.Errorf("extent %d: got %+v want %+v", k, p.Entries[k], want)
				}
			}
		})
	}
}

// writeRuns writes a segment of these runs and returns its entries and length.
func writeRuns(t *testing.T, fsys vfs.FS, runs ...[]spec) (all []Located, length int64) {
	t.Helper()
	w, err := segment.Create(fsys, testPath, segment.FileHeader{ID: 1, ExtentBytes: 400})
	if err != nil {
		t.Fatal(err)
	}
	newest := map[uint64]Pointer{}
	for _, run := range runs {
		p := Packer{ExtentBytes: 400}
		start := w.Len()
		for _, s := range run {
			at, err := w.Append(s.batch())
			if err != nil {
				t.Fatal(err)
			}
			h, _ := segment.DecodeHeader(s.batch())
			p.Add(&h, uint32(at))
		}
		for i := range p.Entries {
			e := &p.Entries[i]
			e.Prev = newest[e.Partition]
			newest[e.Partition] = Pointer{Segment: 1, Position: uint32(w.Len() + int64(i)*EntryLen)}
			all = append(all, Located{Entry: *e, At: newest[e.Partition]})
		}
		if err := Write(w, p.Entries, uint32(start)); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(w.Sync(), w.Close()); err != nil {
		t.Fatal(err)
	}
	return all, w.Len()
}

var testRuns = [][]spec{
	{{1, 0, 1, 10}, {1, 1, 3, 50}, {1, 4, 1, 300}, {2, 7, 1, 10}, {9, 0, 1, 0}},
	{{1, 5, 1, 10}},
	{{2, 8, 1, 10}, {2, 9, 1, 10}, {9, 1, 2, 500}},
}

func open(t *testing.T, fsys vfs.FS) *segment.Reader {
	t.Helper()
	r, err := segment.OpenReader(fsys, testPath)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	return r
}

// Read from the back, the runs give what was written.
func TestReadIndex(t *testing.T) {
	fsys := faultfs.New()
	want, end := writeRuns(t, fsys, testRuns...)
	r := open(t, fsys)
	var got []Located
	for end > segment.FileHeaderLen {
		entries, start, err := ReadIndex(r, end)
		if err != nil {
			t.Fatal(err)
		}
		got = append(entries, got...)
		end = start
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v want %+v", got, want)
	}
	var corrupt *segment.CorruptError
	if _, _, err := ReadIndex(r, end); !errors.As(err, &corrupt) {
		t.Errorf("at the front: got %v", err)
	}
}

// The entries made from the batches are those that were written.
func TestRebuild(t *testing.T) {
	fsys := faultfs.New()
	want, length := writeRuns(t, fsys, testRuns...)
	got, err := Rebuild(open(t, fsys), length)
	if err != nil {
		t.Fatal(err)
	}
	Link(got)
	Link(want)
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v want %+v", got, want)
	}
}

func TestLink(t *testing.T) {
	at := func(segment uint32) Pointer { return Pointer{Segment: segment, Position: 100} }
	entries := []Located{ // a chain that goes from the shared segment 1 to 2 and back
		{Entry{Partition: 5, BaseOffset: 0}, at(1)},
		{Entry{Partition: 5, BaseOffset: 20, Prev: at(9)}, at(3)},
		{Entry{Partition: 4, BaseOffset: 0, Prev: at(9)}, at(7)},
		{Entry{Partition: 5, BaseOffset: 10}, at(2)},
	}
	Link(entries)
	want := []Pointer{{}, {}, at(1), at(2)}
	for i, e := range entries {
		if e.Prev != want[i] {
			t.Errorf("entry %d of partition %d: got prev %v want %v", i, e.Partition, e.Prev, want[i])
		}
	}
}

// flip damages one byte of the file.
func flip(t *testing.T, fsys vfs.FS, position int64) {
	t.Helper()
	f, err := fsys.OpenReadWrite(testPath)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var b [1]byte
	if _, err := f.ReadAt(b[:], position); err != nil {
		t.Fatal(err)
	}
	b[0] ^= 0x10
	if _, err := f.WriteAt(b[:], position); err != nil {
		t.Fatal(err)
	}
}

// Whatever single byte is damaged: of the index, nothing is lost; of a batch, its
// place is named; and ReadIndex never gives a wrong entry.
func TestEveryFlip(t *testing.T) {
	fsys := faultfs.New()
	want, length := writeRuns(t, fsys, testRuns...)
	r := open(t, fsys)
	_, lastRun, err := ReadIndex(r, length)
	if err != nil {
		t.Fatal(err)
	}
	Link(want)
	for at := int64(segment.FileHeaderLen); at < length; at++ {
		flip(t, fsys, at)
		got, err := Rebuild(r, length)
		var corrupt *segment.CorruptError
		if inBatch(want, at) {
			if !errors.As(err, &corrupt) || corrupt.Position > at || corrupt.Position < at-2000 {
				t.Fatalf("byte %d of a batch: got %v", at, err)
			}
		} else {
			Link(got)
			if err != nil || !reflect.DeepEqual(got, want) {
				t.Fatalf("byte %d of an index: got %d entries, %v want %d", at, len(got), err, len(want))
			}
			if _, _, err := ReadIndex(r, length); at > lastRun && !errors.As(err, &corrupt) {
				t.Fatalf("byte %d: index read, %v", at, err)
			}
		}
		flip(t, fsys, at)
	}
}

func inBatch(entries []Located, at int64) bool {
	for _, e := range entries {
		if at >= int64(e.Position) && at < e.EndPosition() {
			return true
		}
	}
	return false
}

// Batches without an index behind them are no run.
func TestRebuildTorn(t *testing.T) {
	fsys := faultfs.New()
	_, length := writeRuns(t, fsys, testRuns...)
	r := open(t, fsys)
	runEnds := map[int64]bool{segment.FileHeaderLen: true, length: true}
	for end := length; end > segment.FileHeaderLen; {
		_, start, err := ReadIndex(r, end)
		if err != nil {
			t.Fatal(err)
		}
		runEnds[start] = true
		end = start
	}
	for cut := int64(segment.FileHeaderLen); cut <= length; cut++ {
		if _, err := Rebuild(r, cut); (err == nil) != runEnds[cut] {
			t.Fatalf("cut at %d: got %v, end of a run: %v", cut, err, runEnds[cut])
		}
	}
}

// Write reports what the file system does.
func TestWriteFails(t *testing.T) {
	fsys := faultfs.New()
	w, err := segment.Create(fsys, testPath, segment.FileHeader{ID: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	fsys.FailAt(fsys.Calls(), faultfs.Fault{})
	if err := Write(w, make([]Entry, 10_000), 32); !errors.Is(err, faultfs.EIO) {
		t.Errorf("got %v want EIO", err)
	}
}

func FuzzDecodeEntry(f *testing.F) {
	f.Add(AppendEntry(nil, &testEntry))
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) >= EntryLen {
			b = bytes.Clone(b)
			putCRC(b[:EntryLen])
		}
		if e, err := DecodeEntry(b); err == nil && !bytes.Equal(AppendEntry(nil, &e), b[:EntryLen]) {
			t.Fatalf("%+v does not encode to %x", e, b[:EntryLen])
		}
	})
}

func FuzzDecodeTrailer(f *testing.F) {
	f.Add(AppendTrailer(nil, Trailer{IndexCRC: 1, Count: 2, RunStart: 32}))
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) >= TrailerLen {
			b = bytes.Clone(b)
			putCRC(b[:TrailerLen])
		}
		if tr, err := DecodeTrailer(b); err == nil && !bytes.Equal(AppendTrailer(nil, tr), b[:TrailerLen]) {
			t.Fatalf("%+v does not encode to %x", tr, b[:TrailerLen])
		}
	})
}

// Search finds what a walk over all entries finds, and names the place of a damaged one.
func TestSearch(t *testing.T) {
	fsys := faultfs.New()
	all, length := writeRuns(t, fsys, testRuns[0])
	r := open(t, fsys)
	for partition := uint64(1); partition < 10; partition++ {
		for before := range int64(40) {
			want, wantOK := Located{}, false
			for _, e := range all {
				if e.Partition == partition && e.BaseOffset < before {
					want, wantOK = e, true
				}
			}
			got, ok, err := Search(r, length, before, partition)
			if err != nil || ok != wantOK || ok && (got.At != want.At || got.BaseOffset != want.BaseOffset) {
				t.Fatalf("partition %d before %d: %+v, %v, %v; want %+v", partition, before, got, ok, err, want)
			}
		}
	}
	first := all[0].At.Position
	for at := int64(first); at < length; at++ {
		flip(t, fsys, at)
		for partition := uint64(1); partition < 10; partition++ {
			e, ok, err := Search(r, length, 100, partition)
			var corrupt *segment.CorruptError
			if err != nil && !errors.As(err, &corrupt) || ok && e.Partition != partition {
				t.Fatalf("byte %d partition %d: %+v, %v", at, partition, e, err)
			}
			if at >= length-TrailerLen && err == nil {
				t.Fatalf("byte %d of the trailer: not noticed", at)
			}
			if at < length-TrailerLen {
				checkBeside(t, all, int(at-int64(first))/EntryLen, partition, e, ok, err)
			}
		}
		flip(t, fsys, at)
	}
}

// checkBeside checks that Search has found the last entry of a partition beside a damaged
// one, unless that may be it.
func checkBeside(t *testing.T, all []Located, damaged int, partition uint64, got Located, ok bool, err error) {
	t.Helper()
	may := (damaged == 0 || all[damaged-1].Partition <= partition) &&
		(damaged+1 == len(all) || all[damaged+1].Partition > partition)
	want, wantOK := Located{}, false
	for _, e := range all {
		if e.Partition == partition {
			want, wantOK = e, true
		}
	}
	if may != (err != nil) || err == nil && (ok != wantOK || ok && got.At != want.At) {
		t.Fatalf("entry %d damaged, partition %d: got %+v, %v, %v, want %+v", damaged, partition, got, ok, err, want)
	}
}
