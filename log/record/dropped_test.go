package record

import (
	"bytes"
	"encoding/hex"
	"errors"
	"testing"
)

func TestSegmentDropped(t *testing.T) {
	frame := AppendSegmentDropped(nil, 0x01020304)
	want, err := hex.DecodeString("0f" + "04000000" + "04030201")
	if err != nil || !bytes.Equal(frame, want) {
		t.Fatalf("got %x, want %x: a changed body needs a new kind", frame, want)
	}
	kind, body, rest, err := NextFrame(frame)
	if err != nil || kind != KindSegmentDropped || len(rest) != 0 {
		t.Fatalf("frame: kind %d, %d bytes left, %v", kind, len(rest), err)
	}
	if id, err := DecodeSegmentDropped(body); err != nil || id != 0x01020304 {
		t.Fatalf("got %x, %v", id, err)
	}
	for n := range len(body) {
		if _, err := DecodeSegmentDropped(body[:n]); !errors.Is(err, ErrShort) {
			t.Fatalf("body cut to %d bytes: %v; want ErrShort", n, err)
		}
	}
	if _, err := DecodeSegmentDropped(append(body[:len(body):len(body)], 0)); !errors.Is(err, ErrCorrupt) {
		t.Fatalf("a byte too many: %v; want ErrCorrupt", err)
	}
}
