package envelope

import (
	"crypto/aes"
	"crypto/cipher"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
)

// keyLen is the length of a key in bytes.
const keyLen = 32

// ErrKey refuses a key. Its text, and that of what wraps it, never holds the value.
var ErrKey = errors.New("not 64 hexadecimal digits")

// Key is a key of AES-256.
type Key [keyLen]byte

// ParseKey reads 64 hexadecimal digits. Errors: ErrKey.
func ParseKey(text string) (key Key, err error) {
	if len(text) != hex.EncodedLen(keyLen) {
		return key, ErrKey
	}
	if _, err := hex.Decode(key[:], []byte(text)); err != nil {
		return Key{}, ErrKey // hex would show a character of it
	}
	return key, nil
}

// ParseKeys reads a key a line, as ParseKey does; blank lines and white space around them do
// not count. There is at least one. Errors: ErrKey, with the number of the line.
func ParseKeys(text string) (keys []Key, err error) {
	n := 0
	for line := range strings.Lines(text) {
		n++
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		key, err := ParseKey(line)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		keys = append(keys, key)
	}
	if len(keys) == 0 {
		return nil, fmt.Errorf("it is empty: %w", ErrKey)
	}
	return keys, nil
}

// Keys seal and open payloads. They never change, and are safe for concurrent use.
type Keys struct {
	all []cipher.AEAD // the first one seals
}

// New returns Keys that seal with key, and open with it and with all previous ones.
func New(key Key, previous ...Key) *Keys {
	k := &Keys{all: []cipher.AEAD{newAEAD(key)}}
	for _, p := range previous {
		k.all = append(k.all, newAEAD(p))
	}
	return k
}

// Previous returns how many keys open and do not seal.
func (k *Keys) Previous() int { return len(k.all) - 1 }

func newAEAD(key Key) cipher.AEAD {
	block, err := aes.NewCipher(key[:])
	if err != nil {
		panic("BUG: envelope: " + err.Error()) // it is for wrong lengths
	}
	aead, err := cipher.NewGCM(block)
	if err != nil {
		panic("BUG: envelope: " + err.Error()) // the block is that of AES
	}
	return aead
}
