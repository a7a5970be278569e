package record

import (
	"bytes"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"testing"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// samples is one of every record, encoded, with its decoder.
func samples() []struct {
	name   string
	kind   Kind
	want   any
	frame  []byte
	decode func([]byte) (any, error)
} {
	id := func(b byte) (v [16]byte) {
		for i := range v {
			v[i] = b + byte(i)
		}
		return v
	}
	cursor := Cursor{7, 3, 2, 1, 41, 42, id(9), 42, 51, 1785000000123, 40, 1785000000100}
	queue := Queue{4, id(1), id(2), 1785000000000, "orders.created", []byte(`{"LeaseTime":60}`)}
	partition := Partition{7, 4, true, 1785000000001, "customer-42"}
	group := Group{3, 4, true, true, 2, 1784000000000, 9, 1, 1784000000001, 1785000000002, "billing", false}
	consumed := Group{Number: 5, Queue: 4, Name: "audit", Consumed: true}
	switches := Switches{true, false}
	cut := Cut{7, 40, 1785000000003}
	dead := DeadLetter{id(5), 4, 7, 3, 3, 12, id(6), 1785000000003, 1785000000004, "order-8891", "boom", "billing"}
	filed := Filed{7, 1, 52, 1785000000002, 1785000000005, 4096, 6, 8192}
	segment := Segment{6, 4, 7, 65536, true}
	rewritten := Rewritten{9, 4, 7, 4096, []uint32{6, 2}}
	meta := Meta{0xfeedface, 5, 4, 8, 3, 17}
	type removed struct {
		Queue uint32
		ID    [16]byte
	}
	return []struct {
		name   string
		kind   Kind
		want   any
		frame  []byte
		decode func([]byte) (any, error)
	}{
		{"cursor", KindCursor, cursor, AppendCursor(nil, &cursor), func(b []byte) (any, error) { return DecodeCursor(b) }},
		{"queue", KindQueue, queue, AppendQueue(nil, &queue), func(b []byte) (any, error) { return DecodeQueue(b) }},
		{"queue deleted", KindQueueDeleted, uint32(4), AppendQueueDeleted(nil, 4), func(b []byte) (any, error) { return DecodeQueueDeleted(b) }},
		{"partition", KindPartition, partition, AppendPartition(nil, &partition), func(b []byte) (any, error) { return DecodePartition(b) }},
		{"group", KindGroup, group, AppendGroup(nil, &group), func(b []byte) (any, error) { return DecodeGroup(b) }},
		{"group that has consumed", KindGroup, consumed, AppendGroup(nil, &consumed), func(b []byte) (any, error) { return DecodeGroup(b) }},
		{"group deleted", KindGroupDeleted, uint32(3), AppendGroupDeleted(nil, 3), func(b []byte) (any, error) { return DecodeGroupDeleted(b) }},
		{"partition deleted", KindPartitionDeleted, uint64(7), AppendPartitionDeleted(nil, 7), func(b []byte) (any, error) { return DecodePartitionDeleted(b) }},
		{"switches", KindSwitches, switches, AppendSwitches(nil, &switches), func(b []byte) (any, error) { return DecodeSwitches(b) }},
		{"cut", KindCut, cut, AppendCut(nil, &cut), func(b []byte) (any, error) { return DecodeCut(b) }},
		{"dead letter", KindDeadLetter, dead, AppendDeadLetter(nil, &dead), func(b []byte) (any, error) { return DecodeDeadLetter(b) }},
		{"dead letter removed", KindDeadLetterRemoved, removed{4, id(5)}, AppendDeadLetterRemoved(nil, 4, id(5)), func(b []byte) (any, error) {
			q, id, err := DecodeDeadLetterRemoved(b)
			return removed{q, id}, err
		}},
		{"filed", KindFiled, filed, AppendFiled(nil, &filed), func(b []byte) (any, error) { return DecodeFiled(b) }},
		{"segment", KindSegment, segment, AppendSegment(nil, &segment), func(b []byte) (any, error) { return DecodeSegment(b) }},
		{"meta", KindMeta, meta, AppendMeta(nil, &meta), func(b []byte) (any, error) { return DecodeMeta(b) }},
		{"rewritten", KindRewritten, rewritten, AppendRewritten(nil, &rewritten), func(b []byte) (any, error) { return DecodeRewritten(b) }},
	}
}

func TestRoundTrip(t *testing.T) {
	for _, s := range samples() {
		t.Run(s.name, func(t *testing.T) {
			kind, body, rest, err := NextFrame(append(s.frame, 0xff))
			if err != nil || kind != s.kind || len(rest) != 1 {
				t.Fatalf("frame: kind %d, %d bytes left, %v; want kind %d, 1 left", kind, len(rest), err, s.kind)
			}
			got, err := s.decode(body)
			if err != nil || !reflect.DeepEqual(got, s.want) {
				t.Fatalf("got %+v, %v; want %+v", got, err, s.want)
			}
			for n := range len(body) {
				if _, err := s.decode(body[:n]); !errors.Is(err, ErrShort) {
					t.Fatalf("body cut to %d of %d bytes: %v; want ErrShort", n, len(body), err)
				}
			}
			if _, err := s.decode(append(body[:len(body):len(body)], 0)); !errors.Is(err, ErrCorrupt) {
				t.Fatalf("a byte too many: %v; want ErrCorrupt", err)
			}
			for n := range len(s.frame) {
				if _, _, _, err := NextFrame(s.frame[:n]); !errors.Is(err, ErrShort) {
					t.Fatalf("frame cut to %d bytes: %v; want ErrShort", n, err)
				}
			}
		})
	}
}

func TestGolden(t *testing.T) {
	var got []byte
	for _, s := range samples() {
		got = append(got, s.frame...)
	}
	path := filepath.Join("testdata", "records.golden")
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Fatal("the encoding differs from testdata/records.golden: a changed body needs a new kind")
	}
}

func TestMetaWithoutDirectory(t *testing.T) {
	frame := AppendMeta(nil, &Meta{NextQueue: 1})
	if _, err := DecodeMeta(frame[FrameHeaderLen:]); !errors.Is(err, ErrCorrupt) {
		t.Fatalf("got %v, want ErrCorrupt", err)
	}
}

// FuzzDecode holds that no body makes a decoder panic, and that what decodes encodes
// to the same bytes.
func FuzzDecode(f *testing.F) {
	for _, s := range samples() {
		f.Add(s.frame)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		kind, body, rest, err := NextFrame(b)
		if err != nil {
			return
		}
		var again []byte
		switch kind {
		case KindCursor:
			if v, err := DecodeCursor(body); err == nil {
				again = AppendCursor(nil, &v)
			}
		case KindQueueDeleted:
			if v, err := DecodeQueueDeleted(body); err == nil {
				again = AppendQueueDeleted(nil, v)
			}
		case KindFiled:
			if v, err := DecodeFiled(body); err == nil {
				again = AppendFiled(nil, &v)
			}
		case KindMeta:
			if v, err := DecodeMeta(body); err == nil {
				again = AppendMeta(nil, &v)
			}
		case KindRewritten:
			if v, err := DecodeRewritten(body); err == nil {
				again = AppendRewritten(nil, &v)
			}
		// A uvarint or a flag has spellings that decode alike, so for these the
		// value must come back, not the bytes.
		case KindQueue:
			if v, err := DecodeQueue(body); err == nil {
				w, err := DecodeQueue(AppendQueue(nil, &v)[FrameHeaderLen:])
				sameValue(t, v, w, err)
			}
		case KindPartition:
			if v, err := DecodePartition(body); err == nil {
				w, err := DecodePartition(AppendPartition(nil, &v)[FrameHeaderLen:])
				sameValue(t, v, w, err)
			}
		case KindGroup:
			if v, err := DecodeGroup(body); err == nil {
				w, err := DecodeGroup(AppendGroup(nil, &v)[FrameHeaderLen:])
				sameValue(t, v, w, err)
			}
		case KindDeadLetter:
			if v, err := DecodeDeadLetter(body); err == nil {
				w, err := DecodeDeadLetter(AppendDeadLetter(nil, &v)[FrameHeaderLen:])
				sameValue(t, v, w, err)
			}
		}
		if again != nil && !bytes.Equal(again, b[:len(b)-len(rest)]) {
			t.Fatalf("kind %d: %x encodes to %x", kind, b, again)
		}
	})
}

func sameValue(t *testing.T, v, w any, err error) {
	t.Helper()
	if err != nil || !reflect.DeepEqual(v, w) {
		t.Fatalf("%+v came back as %+v, %v", v, w, err)
	}
}
