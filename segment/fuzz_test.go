package segment

import (
	"bytes"
	"testing"
)

// What a header decodes from is what it encodes to.
func FuzzDecodeHeader(f *testing.F) {
	f.Add(testBatch(testMessages...))
	f.Add(testBatch(Message{Payload: make([]byte, compressMin)}))
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) >= HeaderLen {
			b = bytes.Clone(b)
			putCRC(b[:HeaderLen])
		}
		h, err := DecodeHeader(b)
		if err != nil {
			return
		}
		got := make([]byte, HeaderLen)
		putHeader(got, &h)
		if !bytes.Equal(got, b[:HeaderLen]) {
			t.Fatalf("got %x want %x", got, b[:HeaderLen])
		}
	})
}

// A message that decodes encodes to the same bytes.
func FuzzNextMessage(f *testing.F) {
	for i := range testMessages {
		f.Add(AppendMessage(nil, &testMessages[i]))
	}
	for i := range testEncrypted {
		f.Add(AppendMessage(nil, &testEncrypted[i]))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		m, rest, err := NextMessage(raw)
		if err != nil {
			return
		}
		want := raw[:len(raw)-len(rest)]
		if got := AppendMessage(nil, &m); !bytes.Equal(got, want) {
			t.Fatalf("got %x want %x", got, want)
		}
	})
}

// A body unpacks to as many bytes as its header says, or not at all.
func FuzzBody(f *testing.F) {
	raw := AppendMessage(nil, &Message{Payload: bytes.Repeat([]byte("fuzz"), 2000)})
	packedBody := AppendBatch(nil, &Header{Count: 1}, raw)[HeaderLen:]
	f.Add(byte(CodecS2), uint32(len(raw)), packedBody)
	f.Add(byte(CodecZstd), uint32(100), []byte("\x28\xb5\x2f\xfd"))
	f.Fuzz(func(t *testing.T, codec byte, rawLen uint32, body []byte) {
		rawLen %= 1 << 20
		h := Header{Codec: Codec(codec), BodyLen: uint32(len(body)), RawLen: rawLen, Count: 1}
		if h.Codec == CodecRaw {
			h.RawLen = h.BodyLen
		}
		b := append(make([]byte, HeaderLen), body...)
		if got, err := Body(&h, b, nil); err == nil && len(got) != int(h.RawLen) {
			t.Fatalf("got %d bytes want %d", len(got), h.RawLen)
		}
	})
}

func FuzzDecodeFileHeader(f *testing.F) {
	f.Add(AppendFileHeader(nil, FileHeader{ID: 1, Queue: 2, ExtentBytes: 3, Partition: 4}))
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) >= FileHeaderLen {
			b = bytes.Clone(b)
			putCRC(b[:FileHeaderLen])
		}
		if h, err := DecodeFileHeader(b); err == nil && !bytes.Equal(AppendFileHeader(nil, h), b[:FileHeaderLen]) {
			t.Fatalf("%+v does not encode to %x", h, b[:FileHeaderLen])
		}
	})
}
