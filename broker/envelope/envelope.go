package envelope

import (
	"bytes"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"slices"
	"unicode/utf8"
)

const (
	ivLen    = 16
	nonceLen = 12 // the first bytes of the iv
	tagLen   = 16

	beforeText = `{"encrypted":"`
	beforeIV   = `","iv":"`
	beforeTag  = `","authTag":"`
	atEnd      = `"}`
)

var encoding = base64.StdEncoding

// SealedLen returns the length of the envelope of a payload of n bytes.
func SealedLen(n int) int {
	return len(beforeText) + encoding.EncodedLen(n) + len(beforeIV) + encoding.EncodedLen(ivLen) +
		len(beforeTag) + encoding.EncodedLen(tagLen) + len(atEnd)
}

// AppendSeal appends the envelope of payload to dst and returns the longer slice:
//
//	{"encrypted":"<ciphertext>","iv":"<16 bytes>","authTag":"<16 bytes>"}
//
// The values are base64 with padding. The cipher is AES-256-GCM without additional data; its
// nonce is the first 12 bytes of the iv, which is random. testdata/vectors.json pins the form.
// It allocates only if dst lacks room for envelope and ciphertext. payload must not lie there.
func (k *Keys) AppendSeal(dst, payload []byte) []byte {
	// The ciphertext is made behind the envelope, and encoded to its front.
	sealed := len(dst) + SealedLen(len(payload))
	dst = slices.Grow(dst, SealedLen(len(payload))+ivLen+len(payload)+tagLen)
	iv := dst[sealed : sealed+ivLen]
	_, _ = rand.Read(iv) // it ends the process rather than fail
	text := k.all[0].Seal(dst[sealed+ivLen:sealed+ivLen], iv[:nonceLen], payload, nil)
	tag := text[len(payload):]

	dst = append(dst, beforeText...)
	dst = encoding.AppendEncode(dst, text[:len(payload)])
	dst = append(dst, beforeIV...)
	dst = encoding.AppendEncode(dst, iv)
	dst = append(dst, beforeTag...)
	dst = encoding.AppendEncode(dst, tag)
	return append(dst, atEnd...)
}

// AppendOpen appends to dst the payload that stored is the envelope of. If stored is none, or
// none that one of the keys has sealed, ok is false and dst is as it was: then stored is what
// there is to show. sealedHere says that AppendSeal has made it of a payload that was JSON.
// Otherwise somebody else may have sealed anything, and what could not stand in an answer is
// not opened either.
//
// An envelope is an object of the three members of AppendSeal and no other, in any order, with
// or without white space. It allocates only if dst lacks room for it.
func (k *Keys) AppendOpen(dst, stored []byte, sealedHere bool) (_ []byte, ok bool) {
	e, ok := parse(stored)
	if !ok {
		return dst, false
	}
	// Behind the payload there is room for the tag, and then for the iv.
	from := len(dst)
	ivFrom := from + encoding.DecodedLen(len(e.text)) + tagLen
	room := slices.Grow(dst, ivFrom+fixedRoom-from)
	room = room[:cap(room)]
	var tag [fixedRoom]byte
	if !decodeFixed(tag[:], e.tag) || !decodeFixed(room[ivFrom:], e.iv) {
		return dst, false
	}
	nonce := room[ivFrom : ivFrom+nonceLen]
	for _, aead := range k.all {
		// Anew for each key: one that does not fit leaves zeros.
		n, err := encoding.Decode(room[from:], e.text)
		if err != nil {
			return dst, false
		}
		text := append(room[from:from+n], tag[:tagLen]...)
		payload, err := aead.Open(text[:0], nonce, text, nil)
		if err != nil {
			continue
		}
		if !sealedHere && !(json.Valid(payload) && utf8.Valid(payload)) {
			return dst, false
		}
		return room[:from+n], true
	}
	return dst, false
}

// fixedRoom is what decoding an iv or a tag may write to: as if there was no padding.
const fixedRoom = 18

// decodeFixed reads base64 of exactly 16 bytes.
func decodeFixed(dst, text []byte) bool {
	if len(text) != encoding.EncodedLen(ivLen) {
		return false
	}
	n, err := encoding.Decode(dst, text)
	return err == nil && n == ivLen
}

// parts are the values of an envelope, still encoded.
type parts struct{ text, iv, tag []byte }

// parse takes an envelope apart. Values are base64, so one with an escape is none. Of most
// payloads that are none it reads the first name.
func parse(b []byte) (e parts, ok bool) {
	rest, ok := after(b, '{')
	for i := range 3 {
		if i > 0 && ok {
			rest, ok = after(rest, ',')
		}
		var name []byte
		if ok {
			name, rest, ok = quoted(rest)
		}
		if ok {
			rest, ok = after(rest, ':')
		}
		field := e.field(name)
		if !ok || field == nil || *field != nil {
			return parts{}, false
		}
		*field, rest, ok = quoted(rest)
	}
	if ok {
		rest, ok = after(rest, '}')
	}
	return e, ok && len(trim(rest)) == 0
}

func (e *parts) field(name []byte) *[]byte {
	switch string(name) {
	case "encrypted":
		return &e.text
	case "iv":
		return &e.iv
	case "authTag":
		return &e.tag
	}
	return nil
}

// after returns what follows c, if b begins with it.
func after(b []byte, c byte) (rest []byte, ok bool) {
	if b = trim(b); len(b) == 0 || b[0] != c {
		return nil, false
	}
	return b[1:], true
}

// quoted returns the string that b begins with, without its quotes, and what follows it.
func quoted(b []byte) (s, rest []byte, ok bool) {
	if b, ok = after(b, '"'); !ok {
		return nil, nil, false
	}
	end := bytes.IndexByte(b, '"')
	if end < 0 {
		return nil, nil, false
	}
	return b[:end:end], b[end+1:], true
}

// trim takes JSON's white space off the front of b.
func trim(b []byte) []byte {
	for len(b) > 0 && (b[0] == ' ' || b[0] == '\t' || b[0] == '\n' || b[0] == '\r') {
		b = b[1:]
	}
	return b
}
