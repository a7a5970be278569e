package broker

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/google/uuid"
)

// errSpoolItem says that the payload of a spooled message is not what appendSpoolItem
// writes: most likely a newer version has spooled it.
var errSpoolItem = errors.New("broker: spooled message does not decode")

const (
	spoolVersion   = 1
	spoolHasKey    = 1 << 0
	spoolHasSub    = 1 << 1
	spoolEncrypted = 1 << 2
	spoolFlags     = spoolHasKey | spoolHasSub | spoolEncrypted
	spoolHeaderLen = 2 + 16 + 16
)

// spoolItem is a pushed message on its way through the spool: the payload of a message
// there.
//
//	0         1       2        18   34
//	+---------+-------+--------+----+---+-------+---+-----------+---+-----+---+-----+---------+
//	| version | flags | tenant | id | n | queue | n | partition | n | key | n | sub | payload |
//	+---------+-------+--------+----+---+-------+---+-----------+---+-----+---+-----+---------+
//
//	version  uint8    1
//	flags    uint8    1 has a key, 2 has a sub; what it has not takes no bytes. 4 the
//	                  payload is encrypted
//	id       [16]     that the producer was told: the message keeps it
//	n        uvarint  bytes that follow, in as few bytes as hold it
//	key      its own transaction id, not empty; without one the id's text is it
//	sub      who pushed it
//	payload  the rest
//
// There is one encoding of an item. testdata/spoolitem.golden pins the bytes.
type spoolItem struct {
	tenant    Tenant
	id        uuid.UUID
	queue     []byte
	partition []byte
	key       []byte // empty: none
	sub       []byte // nil: none
	payload   []byte
	encrypted bool
}

func appendSpoolItem(dst []byte, it *spoolItem) []byte {
	at := len(dst)
	dst = append(dst, spoolVersion, 0)
	dst = append(dst, it.tenant[:]...)
	dst = append(dst, it.id[:]...)
	dst = appendSized(dst, it.queue)
	dst = appendSized(dst, it.partition)
	if len(it.key) > 0 {
		dst[at+1] |= spoolHasKey
		dst = appendSized(dst, it.key)
	}
	if it.sub != nil {
		dst[at+1] |= spoolHasSub
		dst = appendSized(dst, it.sub)
	}
	if it.encrypted {
		dst[at+1] |= spoolEncrypted
	}
	return append(dst, it.payload...)
}

func appendSized(dst, b []byte) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(b))), b...)
}

// decodeSpoolItem reads what appendSpoolItem wrote. The slices are parts of b.
func decodeSpoolItem(b []byte) (it spoolItem, err error) {
	if len(b) < spoolHeaderLen || b[0] != spoolVersion || b[1]&^spoolFlags != 0 {
		return it, fmt.Errorf("%w: unknown version or too short", errSpoolItem)
	}
	flags := b[1]
	it.tenant, it.id = Tenant(b[2:18]), uuid.UUID(b[18:spoolHeaderLen])
	rest, ok := b[spoolHeaderLen:], true
	next := func(has bool) (field []byte) {
		if has && ok {
			field, rest, ok = cutSized(rest)
		}
		return field
	}
	it.queue, it.partition = next(true), next(true)
	it.key, it.sub = next(flags&spoolHasKey != 0), next(flags&spoolHasSub != 0)
	if !ok || flags&spoolHasKey != 0 && len(it.key) == 0 {
		return spoolItem{}, fmt.Errorf("%w: a length is wrong", errSpoolItem)
	}
	it.payload, it.encrypted = rest, flags&spoolEncrypted != 0
	return it, nil
}

// cutSized reads a length, in its shortest form, and that many bytes.
func cutSized(b []byte) (field, rest []byte, ok bool) {
	n, width := binary.Uvarint(b)
	if width <= 0 || width > 1 && b[width-1] == 0 || n > uint64(len(b)-width) {
		return nil, nil, false
	}
	end := width + int(n)
	return b[width:end:end], b[end:], true
}
