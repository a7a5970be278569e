package segment

import (
	"bytes"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// checkGolden compares got, as hexadecimal lines of 16 bytes, with a file.
func checkGolden(t *testing.T, name string, got []byte) {
	t.Helper()
	var text strings.Builder
	for b := got; len(b) > 0; b = b[min(16, len(b)):] {
		fmt.Fprintln(&text, hex.EncodeToString(b[:min(16, len(b))]))
	}
	path := filepath.Join("testdata", name)
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
		t.Errorf("%s: got\n%swant\n%s", name, text.String(), want)
	}
}

var (
	testBaseID   = [16]byte{0x01, 0x98, 0xf2, 0xc1, 0x4d, 0x3a, 0x7c, 0x10, 0x9f, 0x2b, 0x6a}
	testMessages = []Message{
		{Payload: []byte(`{"n":1}`)},
		{TransactionID: []byte("order-1"), Payload: []byte(`null`)},
		{TransactionID: []byte{}, ProducerSub: []byte("svc"), TraceID: [16]byte{15: 9}, Payload: []byte{}},
		{TransactionID: []byte("order-2"), ID: [16]byte{1, 15: 7}, Payload: []byte(`[]`)},
	}
	// Newer than the golden file of the others, which stays as it was.
	testEncrypted = []Message{
		{Payload: []byte(`{"encrypted":"","iv":"","authTag":""}`), Encrypted: true},
		{TransactionID: []byte("order-3"), ProducerSub: []byte("svc"), TraceID: [16]byte{15: 9}, ID: [16]byte{1, 15: 8}, Payload: []byte(`1`), Encrypted: true},
	}
)

func testBatch(messages ...Message) []byte {
	var raw []byte
	for i := range messages {
		raw = AppendMessage(raw, &messages[i])
	}
	b := AppendBatch(nil, &Header{Count: uint32(len(messages))}, raw)
	Seal(b, 7, 40, 1_700_000_000_000, testBaseID)
	return b
}

func sameMessage(a, b Message) bool {
	same := func(a, b []byte) bool { return (a == nil) == (b == nil) && bytes.Equal(a, b) }
	return same(a.TransactionID, b.TransactionID) && same(a.ProducerSub, b.ProducerSub) &&
		bytes.Equal(a.Payload, b.Payload) && a.TraceID == b.TraceID && a.ID == b.ID && a.Encrypted == b.Encrypted
}

func TestBatchGolden(t *testing.T) {
	checkGolden(t, "batch.golden", testBatch(testMessages...))
	checkGolden(t, "encrypted.golden", testBatch(testEncrypted...))
}

func TestFileHeaderGolden(t *testing.T) {
	checkGolden(t, "file.golden", AppendFileHeader(nil, FileHeader{ID: 258, Queue: 3, ExtentBytes: 65536, Partition: 77}))
}

func TestBatchRoundTrip(t *testing.T) {
	long := Message{TransactionID: bytes.Repeat([]byte("t"), 300), Payload: bytes.Repeat([]byte("abcdefgh"), 4096)}
	random := Message{Payload: incompressible(compressMin)}
	for name, tc := range map[string]struct {
		messages []Message
		codec    Codec
	}{
		"one empty":           {[]Message{{}}, CodecRaw},
		"all fields":          {testMessages, CodecRaw},
		"encrypted":           {testEncrypted, CodecRaw},
		"compressible":        {[]Message{long, long}, CodecS2},
		"incompressible":      {[]Message{random}, CodecRaw},
		"just below the size": {[]Message{{Payload: make([]byte, compressMin-4)}}, CodecRaw},
		"just of the size":    {[]Message{{Payload: make([]byte, compressMin-3)}}, CodecS2},
	} {
		t.Run(name, func(t *testing.T) {
			b := testBatch(tc.messages...)
			h, err := Verify(append(b, 1, 2, 3))
			if err != nil {
				t.Fatal(err)
			}
			if h.Codec != tc.codec || h.Len() != len(b) || h.Partition != 7 || h.BaseOffset != 40 ||
				h.EndOffset() != 40+int64(len(tc.messages)) || h.TimestampMs != 1_700_000_000_000 || h.BaseID != testBaseID {
				t.Fatalf("got header %+v, length %d want %d", h, h.Len(), len(b))
			}
			raw, err := Body(&h, b, nil)
			if err != nil {
				t.Fatal(err)
			}
			for i, want := range tc.messages {
				var got Message
				if got, raw, err = NextMessage(raw); err != nil || !sameMessage(got, want) {
					t.Fatalf("message %d: got %+v, %v want %+v", i, got, err, want)
				}
			}
			if len(raw) != 0 {
				t.Fatalf("%d bytes left", len(raw))
			}
		})
	}
}

// incompressible returns bytes of a fixed random sequence.
func incompressible(n int) []byte {
	b := make([]byte, n)
	x := uint64(88172645463325252)
	for i := range b {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
		b[i] = byte(x)
	}
	return b
}

// The room of dst decides where s2 packs, and must not change the bytes.
func TestAppendBatchRoom(t *testing.T) {
	raw := AppendMessage(nil, &Message{Payload: bytes.Repeat([]byte("skep "), 4000)})
	tight := AppendBatch([]byte("x"), &Header{Count: 1}, raw)
	roomy := AppendBatch(append(make([]byte, 0, 1<<20), 'x'), &Header{Count: 1}, raw)
	if !bytes.Equal(tight, roomy) || tight[0] != 'x' {
		t.Fatalf("got %d bytes and %d bytes, want the same", len(tight), len(roomy))
	}
	if cap(tight) > 2*len(tight) {
		t.Errorf("got capacity %d for %d bytes", cap(tight), len(tight))
	}
}

func TestAppendBatchSetsHeader(t *testing.T) {
	h := Header{Count: 1, Partition: 5, BaseOffset: 9}
	b := AppendBatch(nil, &h, AppendMessage(nil, &Message{Payload: []byte("{}")}))
	got, err := Verify(b)
	if err != nil || got != h {
		t.Fatalf("got %+v, %v want %+v", got, err, h)
	}
}

func TestAppendBatchBug(t *testing.T) {
	defer func() {
		if r, ok := recover().(string); !ok || !strings.HasPrefix(r, "BUG: ") {
			t.Errorf("got panic %v, want BUG", r)
		}
	}()
	AppendBatch(nil, &Header{}, nil)
}

func TestMessageID(t *testing.T) {
	got := MessageID([16]byte{10: 0xaa, 15: 0xff}, 0x1234567890)
	if want := ([16]byte{10: 0xaa, 11: 0x12, 12: 0x34, 13: 0x56, 14: 0x78, 15: 0x90}); got != want {
		t.Errorf("got %x want %x", got, want)
	}
	low, high := MessageID(testBaseID, 255), MessageID(testBaseID, 256)
	if bytes.Compare(low[:], high[:]) >= 0 {
		t.Errorf("%x does not sort before %x", low, high)
	}
}

// Every bit of a batch is guarded, and every missing byte is noticed.
func TestVerifyFlipsAndCuts(t *testing.T) {
	b := testBatch(testMessages...)
	for i := range b {
		for bit := range 8 {
			b[i] ^= 1 << bit
			if _, err := Verify(b); !errors.Is(err, ErrCorrupt) {
				t.Fatalf("byte %d bit %d flipped: got %v want ErrCorrupt", i, bit, err)
			}
			b[i] ^= 1 << bit
		}
		if _, err := Verify(b[:i]); err != ErrShort {
			t.Fatalf("cut to %d: got %v want ErrShort", i, err)
		}
	}
	if _, err := Verify(make([]byte, 4096)); !errors.Is(err, ErrCorrupt) {
		t.Fatalf("zeros: got %v want ErrCorrupt", err)
	}
}

// A valid checksum does not make an impossible header possible.
func TestDecodeHeaderImpossible(t *testing.T) {
	for name, change := range map[string]func(b []byte){
		"magic":                 func(b []byte) { b[8]++ },
		"kind":                  func(b []byte) { b[10]++ },
		"codec":                 func(b []byte) { b[11] = 3 },
		"raw of another length": func(b []byte) { b[12]-- },
		"packed and not less":   func(b []byte) { b[11] = byte(CodecS2) },
		"body too long":         func(b []byte) { b[15], b[19] = 0x40, 0x40 },
		"no messages":           func(b []byte) { b[20] = 0 },
		"more than fit":         func(b []byte) { b[21] = 1 },
		"negative offset":       func(b []byte) { b[39] = 0x80 },
		"offset too large":      func(b []byte) { b[37] = 1 },
		"last offset too large": func(b []byte) { copy(b[32:], "\xfe\xff\xff\xff\xff") },
	} {
		t.Run(name, func(t *testing.T) {
			b := testBatch(testMessages...)
			change(b)
			putCRC(b[:HeaderLen])
			if _, err := DecodeHeader(b); !errors.Is(err, ErrCorrupt) {
				t.Errorf("got %v want ErrCorrupt", err)
			}
		})
	}
}

func putCRC(b []byte) {
	crc := Checksum(b[4:])
	b[0], b[1], b[2], b[3] = byte(crc), byte(crc>>8), byte(crc>>16), byte(crc>>24)
}

func TestNextMessageRefuses(t *testing.T) {
	for name, tc := range map[string]struct {
		raw  string
		want error
	}{
		"nothing":               {"", ErrShort},
		"flags alone":           {"\x00", ErrShort},
		"unknown flag":          {"\x20\x00", ErrCorrupt},
		"id cut":                {"\x08123456789012345", ErrShort},
		"id zero":               {"\x08" + strings.Repeat("\x00", 16) + "\x00", ErrCorrupt},
		"payload cut":           {"\x00\x02a", ErrShort},
		"length cut":            {"\x00\x80", ErrShort},
		"transaction id cut":    {"\x01\x02a", ErrShort},
		"producer sub cut":      {"\x02\x02a", ErrShort},
		"trace id cut":          {"\x04123456789012345", ErrShort},
		"trace id zero":         {"\x04" + strings.Repeat("\x00", 16) + "\x00", ErrCorrupt},
		"longer form of zero":   {"\x00\x80\x00", ErrCorrupt},
		"length beyond 64 bits": {"\x00" + strings.Repeat("\xff", 10) + "\x01", ErrCorrupt},
		"largest length":        {"\x00" + strings.Repeat("\xff", 9) + "\x01", ErrShort},
	} {
		t.Run(name, func(t *testing.T) {
			if _, _, err := NextMessage([]byte(tc.raw)); !errors.Is(err, tc.want) {
				t.Errorf("got %v want %v", err, tc.want)
			}
		})
	}
}

// What a message hands out ends where the field does.
func TestNextMessageCapacity(t *testing.T) {
	raw := AppendMessage(AppendMessage(nil, &testMessages[1]), &testMessages[0])
	m, rest, err := NextMessage(raw)
	if err != nil {
		t.Fatal(err)
	}
	_ = append(m.TransactionID, "overrun"...)
	_ = append(m.Payload, "overrun"...)
	if next, _, err := NextMessage(rest); err != nil || !sameMessage(next, testMessages[0]) {
		t.Errorf("got %+v, %v after an append to the message before", next, err)
	}
}

// packed returns a batch of raw with a body packed elsewhere.
func packed(codec Codec, raw, body []byte) []byte {
	h := Header{Count: 1, Codec: codec, BodyLen: uint32(len(body)), RawLen: uint32(len(raw)), BodyCRC: Checksum(body)}
	b := make([]byte, HeaderLen)
	putHeader(b, &h)
	return append(b, body...)
}

func zstdOf(t *testing.T, raw []byte) []byte {
	t.Helper()
	e, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	return e.EncodeAll(raw, nil)
}

func TestBodyZstd(t *testing.T) {
	raw := AppendMessage(nil, &Message{Payload: bytes.Repeat([]byte("zstd "), 3000)})
	b := packed(CodecZstd, raw, zstdOf(t, raw))
	h, err := Verify(b)
	if err != nil {
		t.Fatal(err)
	}
	got, err := Body(&h, b, make([]byte, 0, 8))
	if err != nil || !bytes.Equal(got, raw) {
		t.Fatalf("got %d bytes, %v want %d", len(got), err, len(raw))
	}
}

// Unpacking never gives more, or less, than the header says.
func TestBodyLimit(t *testing.T) {
	raw := AppendMessage(nil, &Message{Payload: make([]byte, 1<<20)})
	s2Batch := AppendBatch(nil, &Header{Count: 1}, raw)
	s2Body := s2Batch[HeaderLen:]
	for name, b := range map[string][]byte{
		"s2 more":      packed(CodecS2, raw[:len(raw)/2], s2Body),
		"s2 less":      packed(CodecS2, append(raw, 0), s2Body),
		"s2 garbage":   packed(CodecS2, raw, append(s2Body[:3:3], "garbage"...)),
		"zstd more":    packed(CodecZstd, raw[:len(raw)/2], zstdOf(t, raw)),
		"zstd less":    packed(CodecZstd, append(raw, 0), zstdOf(t, raw)),
		"zstd garbage": packed(CodecZstd, raw, []byte("garbage")),
	} {
		t.Run(name, func(t *testing.T) {
			h, err := Verify(b)
			if err != nil {
				t.Fatal(err)
			}
			if got, err := Body(&h, b, make([]byte, 4<<20)); !errors.Is(err, ErrCorrupt) {
				t.Errorf("got %d bytes, %v want ErrCorrupt", len(got), err)
			}
			if _, err := Body(&h, b[:len(b)-1], nil); err != ErrShort {
				t.Errorf("cut: got %v want ErrShort", err)
			}
		})
	}
	if _, err := Body(&Header{Codec: 9}, s2Batch, nil); !errors.Is(err, ErrCorrupt) {
		t.Errorf("unknown codec: got %v want ErrCorrupt", err)
	}
}

// A raw body is a part of the batch, and a packed one goes into the room given.
func TestBodyMemory(t *testing.T) {
	small := testBatch(testMessages...)
	h, _ := Verify(small)
	if raw, _ := Body(&h, small, nil); &raw[0] != &small[HeaderLen] {
		t.Error("raw body was copied")
	}
	large := testBatch(Message{Payload: make([]byte, 1<<16)})
	h, _ = Verify(large)
	room := make([]byte, 1, 1<<17)
	if raw, _ := Body(&h, large, room); &raw[0] != &room[0] {
		t.Error("packed body did not use the room given")
	}
}

func TestFileHeader(t *testing.T) {
	want := FileHeader{ID: 1, Queue: 2, ExtentBytes: 3, Partition: 4}
	b := AppendFileHeader(nil, want)
	if got, err := DecodeFileHeader(b); err != nil || got != want {
		t.Fatalf("got %+v, %v want %+v", got, err, want)
	}
	for i := range b {
		b[i] ^= 4
		if _, err := DecodeFileHeader(b); !errors.Is(err, ErrCorrupt) {
			t.Errorf("byte %d flipped: got %v want ErrCorrupt", i, err)
		}
		b[i] ^= 4
		if _, err := DecodeFileHeader(b[:i]); err != ErrShort {
			t.Errorf("cut to %d: got %v want ErrShort", i, err)
		}
	}
	for _, at := range []int{4, 8, 10} {
		changed := bytes.Clone(b)
		changed[at]++
		putCRC(changed)
		if _, err := DecodeFileHeader(changed); !errors.Is(err, ErrCorrupt) {
			t.Errorf("byte %d changed: got %v want ErrCorrupt", at, err)
		}
	}
	if _, err := DecodeFileHeader(AppendFileHeader(nil, FileHeader{})); !errors.Is(err, ErrCorrupt) {
		t.Errorf("id 0: got %v want ErrCorrupt", err)
	}
}

func TestFileName(t *testing.T) {
	for _, id := range []uint32{1, 258, 1<<32 - 1} {
		if got, ok := ParseFileName(FileName(id)); !ok || got != id {
			t.Errorf("%s: got %d, %v want %d", FileName(id), got, ok, id)
		}
	}
	for _, name := range []string{"", "00000001", "00000001.log", "1.seg", "0000000A.seg", "+0000001.seg", "000000001.seg"} {
		if id, ok := ParseFileName(name); ok {
			t.Errorf("%q: got %d, want none", name, id)
		}
	}
}

func TestCorruptError(t *testing.T) {
	err := error(&CorruptError{Path: "a.seg", Position: 12, Err: ErrShort})
	if !errors.Is(err, ErrShort) || !strings.HasPrefix(err.Error(), "a.seg at 12: ") {
		t.Errorf("got %v", err)
	}
}

// A batch that says what is lost is checked like any other, and has no messages to read.
func TestLost(t *testing.T) {
	h := Header{Count: 3, Partition: 7, BaseOffset: 40, TimestampMs: 1_700_000_000_000}
	b := AppendLost([]byte("before"), &h, HeaderLen+20)[len("before"):]
	checkGolden(t, "lost.golden", b)
	got, err := Verify(b)
	if err != nil || got != h || !got.Lost() || got.EndOffset() != 43 || got.Len() != len(b) {
		t.Errorf("got %+v, %v", got, err)
	}
	if _, err := Body(&got, b, nil); !errors.Is(err, ErrLost) {
		t.Errorf("body: %v", err)
	}
	if one, err := Verify(AppendLost(nil, &Header{Count: 1}, HeaderLen)); err != nil || one.Len() != HeaderLen {
		t.Errorf("without a body: %+v, %v", one, err)
	}
	if plain, err := Verify(testBatch(testMessages...)); err != nil || plain.Lost() {
		t.Errorf("a batch of messages is lost: %v", err)
	}
	b[HeaderLen+3] = 1
	if _, err := Verify(b); !errors.Is(err, ErrCorrupt) {
		t.Errorf("body changed: %v", err)
	}
}
