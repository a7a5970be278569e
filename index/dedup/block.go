package dedup

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
)

const (
	blockMagic      = 0x31424453 // "SDB1"; a changed format takes a new magic
	blockHeaderLen  = 48
	maxBlockEntries = 4096
	maxBlockLen     = blockHeaderLen + maxBlockEntries*entryLen
)

var (
	errShort   = errors.New("dedup: block ends past the buffer")
	errInvalid = errors.New("dedup: checksum or shape does not match")
	errSeed    = errors.New("dedup: hashed under another seed")
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// block is what an append file consists of: up to 4,096 entries of one Save.
//
//	0       4       8       16      24       32      36      40      48
//	+-------+-------+-------+-------+--------+-------+-------+-------+-- ... --+
//	| crc   | magic | seed  | save  | newest | part  | count | zero  | entries |
//	+-------+-------+-------+-------+--------+-------+-------+-------+-- ... --+
//
//	crc     uint32  CRC-32C of every byte after this field
//	magic   uint32  "SDB1"
//	seed    uint64  of the hashes
//	save    uint64  number of the Save, from 1, one more for each
//	newest  int64   Unix milliseconds; the latest time in the block
//	part    uint32  number of the block in its Save, from 0
//	count   uint32  1 to 4,096, so a run of zeros is never a block
//	entries         16 bytes each; see slot
//
// Integers are little-endian. Blocks follow each other without gaps from the start
// of the file. testdata/block.golden pins the bytes.
type block struct {
	save     uint64
	newestMs int64
	part     uint32
	entries  []byte // count entries, borrowed
}

func (b *block) len() int {
	return blockHeaderLen + len(b.entries)
}

func (b *block) count() int {
	return len(b.entries) / entryLen
}

// slot returns the i-th entry.
func (b *block) slot(i int) slot {
	return decodeSlot(b.entries[i*entryLen:])
}

func appendSlot(dst []byte, s slot) []byte {
	dst = binary.LittleEndian.AppendUint64(dst, s.hash)
	return binary.LittleEndian.AppendUint64(dst, s.meta)
}

func decodeSlot(b []byte) slot {
	return slot{binary.LittleEndian.Uint64(b), binary.LittleEndian.Uint64(b[8:])}
}

// appendBlock appends a block of at most maxBlockEntries entries, at least one, to
// dst and returns the longer slice.
func appendBlock(dst []byte, seed, save uint64, part uint32, entries []Entry) []byte {
	newest := entries[0].TimestampMs
	for _, e := range entries {
		newest = max(newest, e.TimestampMs)
	}
	start := len(dst)
	dst = binary.LittleEndian.AppendUint32(dst, 0)
	dst = binary.LittleEndian.AppendUint32(dst, blockMagic)
	dst = binary.LittleEndian.AppendUint64(dst, seed)
	dst = binary.LittleEndian.AppendUint64(dst, save)
	dst = binary.LittleEndian.AppendUint64(dst, uint64(newest))
	dst = binary.LittleEndian.AppendUint32(dst, part)
	dst = binary.LittleEndian.AppendUint32(dst, uint32(len(entries)))
	dst = binary.LittleEndian.AppendUint64(dst, 0)
	for _, e := range entries {
		dst = appendSlot(dst, slot{e.Hash, packMeta(e.Offset, e.TimestampMs)})
	}
	binary.LittleEndian.PutUint32(dst[start:], crc32.Checksum(dst[start+4:], castagnoli))
	return dst
}

// decodeBlock reads the block at the front of b, which it borrows. errShort: b ends
// before the block does. errInvalid: no block begins here. errSeed: a whole block
// does, but its hashes are of no use.
func decodeBlock(b []byte, seed uint64) (block, error) {
	if len(b) < blockHeaderLen {
		return block{}, errShort
	}
	le := binary.LittleEndian
	count := le.Uint32(b[36:])
	if le.Uint32(b[4:]) != blockMagic || le.Uint64(b[16:]) == 0 ||
		count == 0 || count > maxBlockEntries || le.Uint64(b[40:]) != 0 {
		return block{}, errInvalid // as it is: judge comes here once for every 16 bytes
	}
	n := blockHeaderLen + int(count)*entryLen
	if len(b) < n {
		return block{}, errShort
	}
	if want, got := le.Uint32(b), crc32.Checksum(b[4:n], castagnoli); got != want {
		return block{}, fmt.Errorf("%w: block crc %08x, want %08x", errInvalid, got, want)
	}
	if le.Uint64(b[8:]) != seed {
		return block{}, errSeed
	}
	return block{
		save:     le.Uint64(b[16:]),
		newestMs: int64(le.Uint64(b[24:])),
		part:     le.Uint32(b[32:]),
		entries:  b[blockHeaderLen:n],
	}, nil
}
