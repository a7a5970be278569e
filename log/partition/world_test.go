package partition

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/skepmq/skep/index"
	"github.com/skepmq/skep/segment"
	"github.com/skepmq/skep/segment/vfs/faultfs"
)

const testDir = "/data/segments"

// testOptions make segments and extents small enough for a few batches to fill.
func testOptions(fsys *faultfs.FS) Options {
	return Options{FS: fsys, Dir: testDir, SegmentBytes: 4000, OwnBytes: 1500, ExtentBytes: 500, MaxOpenFiles: 3, CacheBytes: 20_000}
}

// world is a store and what a broker would remember beside it.
type world struct {
	t       testing.TB
	fs      *faultfs.FS
	o       Options
	store   *Store
	catalog map[uint32]SegmentInfo
	parts   map[uint64]*lane
}

// lane is a partition: its batches, those before filed in the store.
type lane struct {
	queue   uint32
	newest  index.Pointer
	batches [][]byte
	filed   int
}

func newWorld(t testing.TB) *world {
	fsys := faultfs.New()
	w := &world{t: t, fs: fsys, o: testOptions(fsys), catalog: map[uint32]SegmentInfo{}, parts: map[uint64]*lane{}}
	w.open()
	return w
}

func (w *world) open() {
	w.t.Helper()
	s, err := Open(w.o, slices.Collect(maps.Values(w.catalog)))
	if err != nil {
		w.t.Fatal(err)
	}
	w.store = s
}

func (w *world) reopen() {
	w.t.Helper()
	if err := w.store.Close(); err != nil {
		w.t.Fatal(err)
	}
	w.open()
}

// lane returns a partition; those of a hundred are of one queue.
func (w *world) lane(partition uint64) *lane {
	l := w.parts[partition]
	if l == nil {
		l = &lane{queue: uint32(partition / 100)}
		w.parts[partition] = l
	}
	return l
}

func header(b []byte) segment.Header {
	h, err := segment.Verify(b)
	if err != nil {
		panic(err)
	}
	return h
}

func (l *lane) end() int64 {
	if len(l.batches) == 0 {
		return 0
	}
	h := header(l.batches[len(l.batches)-1])
	return h.EndOffset()
}

// push adds a batch of count messages. Times rise by 10 ms every other batch.
func (w *world) push(partition uint64, count, bytes int) {
	l := w.lane(partition)
	offset := l.end()
	b := newBatch(partition, offset, int64(1000+len(l.batches)/2*10), count, bytes)
	l.batches = append(l.batches, b)
}

func newBatch(partition uint64, offset, timestampMs int64, count, bytes int) []byte {
	var raw []byte
	for i := range count {
		payload := fmt.Appendf(nil, "%d/%d ", partition, offset+int64(i))
		for x := uint64(offset)*977 + 1; len(payload) < bytes; { // must not compress
			x ^= x << 13
			x ^= x >> 7
			x ^= x << 17
			payload = append(payload, byte(x>>32))
		}
		raw = segment.AppendMessage(raw, &segment.Message{Payload: payload})
	}
	b := segment.AppendBatch(nil, &segment.Header{Count: uint32(count)}, raw)
	segment.Seal(b, partition, offset, timestampMs, [16]byte{1})
	return b
}

func (w *world) tails() (tails []Tail) {
	for partition, l := range w.parts {
		if l.filed < len(l.batches) {
			tails = append(tails, Tail{Queue: l.queue, Partition: partition, Prev: l.newest, Batches: l.batches[l.filed:]})
		}
	}
	return tails
}

// record takes the results of a File into the catalogue and the partitions.
func (w *world) record(filed []Filed, infos []SegmentInfo) {
	w.t.Helper()
	for _, info := range infos {
		if old, ok := w.catalog[info.ID]; ok && (old.Sealed || info.Length < old.Length) {
			w.t.Fatalf("segment went from %+v to %+v", old, info)
		}
		w.catalog[info.ID] = info
	}
	for _, f := range filed {
		l := w.parts[f.Partition]
		last := header(l.batches[len(l.batches)-1])
		size := int64(0)
		for _, b := range l.batches[l.filed:] {
			size += int64(len(b))
		}
		want := Filed{Partition: f.Partition, Newest: f.Newest, EndOffset: l.end(), LastTimestampMs: last.TimestampMs, Bytes: size}
		if f != want || f.Newest.IsZero() || f.Newest == l.newest {
			w.t.Fatalf("got %+v want %+v", f, want)
		}
		l.newest, l.filed = f.Newest, len(l.batches)
	}
}

func (w *world) file() {
	w.t.Helper()
	filed, infos, err := w.store.File(w.tails())
	if err != nil {
		w.t.Fatal(err)
	}
	w.record(filed, infos)
}

// read returns what Read gives, up to limit batches.
func (w *world) read(newest index.Pointer, partition uint64, from int64, limit int) ([][]byte, error) {
	var got [][]byte
	err := w.store.Read(newest, partition, from, func(b []byte) bool {
		got = append(got, b)
		return len(got) < limit
	})
	return got, err
}

// check reads every partition from its start and from some other places, and asks
// for times.
func (w *world) check(rng *rand.Rand) {
	w.t.Helper()
	for _, partition := range slices.Sorted(maps.Keys(w.parts)) {
		l := w.parts[partition]
		filed := l.batches[:l.filed]
		w.wantRead(l, partition, 0, filed)
		for range 3 {
			from := rng.Int64N(l.end() + 3)
			i, _ := slices.BinarySearchFunc(filed, from, func(b []byte, from int64) int {
				h := header(b)
				return cmp.Compare(h.EndOffset(), from+1)
			})
			w.wantRead(l, partition, from, filed[i:])
			w.wantTime(l, partition, 995+rng.Int64N(int64(len(l.batches))*5+20))
		}
	}
}

func (w *world) wantRead(l *lane, partition uint64, from int64, want [][]byte) {
	w.t.Helper()
	got, err := w.read(l.newest, partition, from, len(want)+1)
	if err != nil {
		w.t.Fatalf("partition %d from %d: %v", partition, from, err)
	}
	if !slices.EqualFunc(got, want, bytes.Equal) {
		w.t.Fatalf("partition %d from %d: got %d batches want %d", partition, from, len(got), len(want))
	}
}

func (w *world) wantTime(l *lane, partition uint64, ms int64) {
	w.t.Helper()
	want, wantOK := int64(0), false
	for _, b := range l.batches[:l.filed] {
		if h := header(b); h.TimestampMs >= ms {
			want, wantOK = h.BaseOffset, true
			break
		}
	}
	got, ok, err := w.store.OffsetAt(l.newest, partition, ms)
	if err != nil || got != want || ok != wantOK {
		w.t.Fatalf("partition %d at %d ms: got %d, %v, %v want %d, %v", partition, ms, got, ok, err, want, wantOK)
	}
}

func newRand(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 1)) }

// pushSome pushes to random partitions: small tails, now and then a large one.
func (w *world) pushSome(rng *rand.Rand) {
	for range 1 + rng.IntN(12) {
		partition := 100 + rng.Uint64N(2)*100 + rng.Uint64N(6)
		w.push(partition, 1+rng.IntN(3), 1+rng.IntN(100))
		if rng.IntN(10) == 0 {
			for range rng.IntN(30) {
				w.push(partition, 1, 300)
			}
		}
		if rng.IntN(40) == 0 {
			w.push(partition, 1, 6000) // more than a segment
		}
	}
}
