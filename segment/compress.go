package segment

import (
	"sync"

	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/zstd"
)

// compressMin is the smallest body, in bytes, that AppendBatch tries to pack. With
// orders of 236 bytes BenchmarkAppendBatch measures about 1 ns a byte for packing, at
// any size, where a batch not packed takes 0.15; and it stores 48 % of 1 KiB, 41 % of
// 2 KiB, 37 % of 4 KiB and 31 % of 24 KiB. Below a page the CPU buys less, of bytes
// that ride along in a write of whole pages anyway.
const compressMin = 4 << 10

// packScratch lends the room s2 needs when dst has not got it, so that dst grows
// by what is stored and not by the worst case: many batches live for minutes.
var packScratch = sync.Pool{New: func() any { return new([]byte) }}

// appendPacked appends raw to dst with s2 if that saves at least an eighth, and
// otherwise returns dst as it was and CodecRaw.
func appendPacked(dst, raw []byte) ([]byte, Codec) {
	start, most := len(dst), s2.MaxEncodedLen(len(raw))
	limit := len(raw) - len(raw)/8
	if cap(dst)-start >= most {
		if packed := s2.Encode(dst[start:start:cap(dst)], raw); len(packed) <= limit {
			return dst[:start+len(packed)], CodecS2
		}
		return dst, CodecRaw
	}
	scratch := packScratch.Get().(*[]byte)
	defer packScratch.Put(scratch)
	if cap(*scratch) < most {
		*scratch = make([]byte, most)
	}
	packed := s2.Encode(*scratch, raw)
	if len(packed) > limit {
		return dst, CodecRaw
	}
	return append(dst, packed...), CodecS2
}

// zstdDecoder is made at the first zstd batch. DecodeAll may be called by many at
// once; it never writes past the capacity it is given.
var zstdDecoder = sync.OnceValues(func() (*zstd.Decoder, error) {
	return zstd.NewReader(nil, zstd.WithDecoderConcurrency(0), zstd.WithDecodeAllCapLimit(true),
		zstd.WithDecoderMaxMemory(MaxBodyLen))
})

// Body returns the messages of the verified batch b, whose header is h: a part of b
// if they are stored raw, else unpacked into the memory of dst, whose contents are
// lost, or into new memory if dst has too little. Unpacking stops at h.RawLen, and
// another length is ErrCorrupt. ErrShort if b ends before the body, ErrLost if a repair
// has marked the messages as lost.
func Body(h *Header, b, dst []byte) ([]byte, error) {
	if len(b) < h.Len() {
		return nil, ErrShort
	}
	body := b[HeaderLen:h.Len():h.Len()]
	switch h.Codec {
	case CodecRaw:
		return body, nil
	case CodecS2:
		return unpackS2(dst, body, int(h.RawLen))
	case CodecZstd:
		return unpackZstd(dst, body, int(h.RawLen))
	case CodecLost:
		return nil, ErrLost
	}
	return nil, corruptf("codec %d", h.Codec)
}

func unpackS2(dst, body []byte, rawLen int) ([]byte, error) {
	n, err := s2.DecodedLen(body)
	if err != nil || n != rawLen {
		return nil, corruptf("s2 body of %d bytes, want %d: %v", n, rawLen, err)
	}
	raw, err := s2.Decode(dst[:cap(dst)], body)
	if err != nil {
		return nil, corruptf("s2: %v", err)
	}
	return raw, nil
}

func unpackZstd(dst, body []byte, rawLen int) ([]byte, error) {
	decoder, err := zstdDecoder()
	if err != nil {
		return nil, err
	}
	if cap(dst) < rawLen {
		dst = make([]byte, rawLen)
	}
	raw, err := decoder.DecodeAll(body, dst[:0:rawLen])
	if err != nil || len(raw) != rawLen {
		return nil, corruptf("zstd body of %d bytes, want %d: %v", len(raw), rawLen, err)
	}
	return raw, nil
}
