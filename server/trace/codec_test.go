package trace

import (
	"bytes"
	"encoding/binary"
	"flag"
	"hash/crc32"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"

	"github.com/google/uuid"
)

var update = flag.Bool("update", false, "write the golden files")

func sample(createdMs int64, transaction string, names ...string) *Trace {
	t := &Trace{
		ID: uuid.UUID{1}, Tenant: uuid.UUID{2}, PartitionID: uuid.UUID{3}, CreatedMs: createdMs,
		TransactionID: []byte(transaction), Group: []byte("g"), Event: []byte("info"), Data: []byte(`{"n":1}`),
	}
	for _, n := range names {
		t.Names = append(t.Names, []byte(n))
	}
	return t
}

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, got, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("%s differs, %v: files that exist could not be read", path, err)
	}
}

func TestRoundTrip(t *testing.T) {
	want := sample(1234, "é", "a", "b c")
	b := AppendTrace([]byte("before"), want)[len("before"):]
	got, n, err := DecodeTrace(append(b, "behind"...))
	if err != nil || n != len(b) || !reflect.DeepEqual(&got, want) {
		t.Fatalf("%d of %d bytes, %v: %+v, want %+v", n, len(b), err, got, want)
	}
	golden(t, "trace.golden", b)
	m := &memory{}
	m.add(0, want)
	m.add(uint32(len(b)), sample(1235, "t", "a"))
	m.add(uint32(2*len(b)), sample(1235, "é", "a"))
	golden(t, "trace.index.golden", m.encode(int64(3*len(b))))
}

// No cut and no flipped bit makes up a trace.
func TestDamagedFrames(t *testing.T) {
	b := AppendTrace(nil, sample(1, "t", "a"))
	for n := range b {
		if _, _, err := DecodeTrace(b[:n]); err == nil {
			t.Errorf("%d of %d bytes are taken for a trace", n, len(b))
		}
	}
	for bit := range 8 * len(b) {
		flipped := bytes.Clone(b)
		flipped[bit/8] ^= 1 << (bit % 8)
		if _, _, err := DecodeTrace(flipped); err == nil {
			t.Errorf("bit %d flipped is not noticed", bit)
		}
	}
}

func FuzzDecodeTrace(f *testing.F) {
	f.Add(AppendTrace(nil, sample(1, "t", "a", "b"))[frameHeader:])
	f.Add(AppendTrace(nil, &Trace{})[frameHeader:])
	f.Fuzz(func(t *testing.T, body []byte) {
		b := binary.LittleEndian.AppendUint32(make([]byte, 4), uint32(len(body)))
		b = append(b, body...)
		binary.LittleEndian.PutUint32(b, crc32.Checksum(b[4:], castagnoli))
		got, n, err := DecodeTrace(b)
		if err != nil {
			return
		}
		again, _, err := DecodeTrace(AppendTrace(nil, &got))
		if err != nil || n > len(b) || !reflect.DeepEqual(again, got) {
			t.Errorf("%+v becomes %+v, %v", got, again, err)
		}
	})
}

// Whatever an index says, reading it takes no more memory than it has bytes, by and large, and
// comes to an end.
func FuzzIndex(f *testing.F) {
	m := &memory{}
	m.add(0, sample(1, "t", "a", "b"))
	m.add(100, sample(2, "u", "a"))
	f.Add(m.encode(200))
	f.Add((&memory{}).encode(0))
	f.Fuzz(func(t *testing.T, b []byte) {
		if b = slices.Clone(b); len(b) >= footerSize {
			end := b[len(b)-footerSize:]
			copy(end, magic)
			binary.LittleEndian.PutUint32(end[footerSize-4:], crc32.Checksum(end[:footerSize-4], castagnoli))
		}
		x, err := openIndex(bytes.NewReader(b), int64(len(b)))
		if err != nil {
			return
		}
		if _, err := x.find(addressHash(uuid.UUID{2}, uuid.UUID{3}, []byte("t"))); err != nil {
			t.Errorf("find: %v", err)
		}
		err = x.eachLabel(0, 1<<64-1, func(e *entry) {
			if err := x.eachUse(e, func(use) {}); err != nil {
				t.Errorf("uses of %q: %v", e.text, err)
			}
			if _, err := x.hashes(nil, e, 1<<64-1); err != nil {
				t.Errorf("hashes of %q: %v", e.text, err)
			}
		})
		if err != nil && err.Error() != errIndex.Error() {
			t.Errorf("labels: %v", err)
		}
	})
}
