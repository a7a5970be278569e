package dedup

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"sort"
)

const (
	pageLen        = 4096
	pageHeaderLen  = 16
	entriesPerPage = (pageLen - pageHeaderLen) / entryLen // 255, and no byte left over

	sortedMagic = 0x31534453 // "SDS1"; a changed format takes a new magic
)

// sortedHeader is the first page of a sorted file, written last:
//
//	0       4       8       16      24      32        40       48      52       56         60          64
//	+-------+-------+-------+-------+-------+---------+--------+-------+--------+----------+-----------+-- ... --+
//	| crc   | magic | seed  | first | last  | entries | newest | pages | blocks | fenceCrc | filterCrc | zeros   |
//	+-------+-------+-------+-------+-------+---------+--------+-------+--------+----------+-----------+-- ... --+
//
//	crc         uint32  CRC-32C of the rest of the page
//	magic       uint32  "SDS1"
//	seed        uint64  of the hashes
//	first, last uint64  the buckets whose entries are here; last is in the file name
//	entries     uint64
//	newest      int64   Unix milliseconds; the latest time of an entry
//	pages       uint32  data pages, which follow
//	blocks      uint32  blocks of the filter
//	fenceCrc    uint32  CRC-32C of the fence: the first hash of each page, uint64, behind the pages
//	filterCrc   uint32  CRC-32C of the filter: 64 bytes a block as eight uint64, behind the fence
//
// A data page:
//
//	0       4        8       12      16
//	+-------+--------+-------+-------+-- ... --+
//	| crc   | number | count | zero  | entries |
//	+-------+--------+-------+-------+-- ... --+
//
//	crc     uint32  CRC-32C of the rest of the page
//	number  uint32  of the page, from 0: a page in the place of another is damage
//	count   uint32  1 to 255; the last page alone has fewer than 255
//	entries         16 bytes each, see slot, by ascending hash; zeros behind the last
//
// Integers are little-endian. testdata/sorted.golden pins the bytes.
type sortedHeader struct {
	seed      uint64
	first     uint64
	last      uint64
	entries   int64
	newestMs  int64
	pages     uint32
	blocks    uint32
	fenceCRC  uint32
	filterCRC uint32
}

func (h *sortedHeader) fencePosition() int64  { return pageLen * (1 + int64(h.pages)) }
func (h *sortedHeader) filterPosition() int64 { return h.fencePosition() + 8*int64(h.pages) }
func (h *sortedHeader) fileLen() int64        { return h.filterPosition() + filterBlockLen*int64(h.blocks) }

// encode returns the page.
func (h *sortedHeader) encode() []byte {
	le := binary.LittleEndian
	b := make([]byte, 4, pageLen)
	b = le.AppendUint32(b, sortedMagic)
	b = le.AppendUint64(b, h.seed)
	b = le.AppendUint64(b, h.first)
	b = le.AppendUint64(b, h.last)
	b = le.AppendUint64(b, uint64(h.entries))
	b = le.AppendUint64(b, uint64(h.newestMs))
	b = le.AppendUint32(b, h.pages)
	b = le.AppendUint32(b, h.blocks)
	b = le.AppendUint32(b, h.fenceCRC)
	b = le.AppendUint32(b, h.filterCRC)
	b = b[:pageLen]
	le.PutUint32(b, crc32.Checksum(b[4:], castagnoli))
	return b
}

// decodeSortedHeader checks the page and that its numbers agree with each other.
func decodeSortedHeader(b []byte) (sortedHeader, error) {
	if len(b) < pageLen {
		return sortedHeader{}, errShort
	}
	b = b[:pageLen]
	le := binary.LittleEndian
	if want, got := le.Uint32(b), crc32.Checksum(b[4:], castagnoli); got != want {
		return sortedHeader{}, fmt.Errorf("%w: header crc %08x, want %08x", errInvalid, got, want)
	}
	h := sortedHeader{
		seed:      le.Uint64(b[8:]),
		first:     le.Uint64(b[16:]),
		last:      le.Uint64(b[24:]),
		entries:   int64(le.Uint64(b[32:])),
		newestMs:  int64(le.Uint64(b[40:])),
		pages:     le.Uint32(b[48:]),
		blocks:    le.Uint32(b[52:]),
		fenceCRC:  le.Uint32(b[56:]),
		filterCRC: le.Uint32(b[60:]),
	}
	full := int64(h.pages) * entriesPerPage
	switch {
	case le.Uint32(b[4:]) != sortedMagic:
		return sortedHeader{}, fmt.Errorf("%w: magic", errInvalid)
	case h.first > h.last, h.blocks == 0, h.entries <= full-entriesPerPage, h.entries > full:
		return sortedHeader{}, fmt.Errorf("%w: header fields", errInvalid)
	}
	for _, c := range b[64:] {
		if c != 0 {
			return sortedHeader{}, fmt.Errorf("%w: header fields", errInvalid)
		}
	}
	return h, nil
}

// beginPage starts data page number in dst[:0], which must have room for pageLen;
// entries are then appended with appendSlot.
func beginPage(dst []byte, number uint32) []byte {
	dst = binary.LittleEndian.AppendUint32(dst[:0], 0)
	dst = binary.LittleEndian.AppendUint32(dst, number)
	return binary.LittleEndian.AppendUint64(dst, 0)
}

// endPage completes a page of one entry or more and returns it.
func endPage(b []byte) []byte {
	le := binary.LittleEndian
	used := len(b)
	le.PutUint32(b[8:], uint32((used-pageHeaderLen)/entryLen))
	b = b[:pageLen]
	clear(b[used:])
	le.PutUint32(b, crc32.Checksum(b[4:], castagnoli))
	return b
}

// page is the entries of a data page, borrowed from the buffer it was decoded in.
type page []byte

// decodePage checks the data page in b and that it is the one of this number.
func decodePage(b []byte, number uint32) (page, error) {
	if len(b) < pageLen {
		return nil, errShort
	}
	b = b[:pageLen]
	le := binary.LittleEndian
	if want, got := le.Uint32(b), crc32.Checksum(b[4:], castagnoli); got != want {
		return nil, fmt.Errorf("%w: page crc %08x, want %08x", errInvalid, got, want)
	}
	count := le.Uint32(b[8:])
	if le.Uint32(b[4:]) != number || count == 0 || count > entriesPerPage || le.Uint32(b[12:]) != 0 {
		return nil, fmt.Errorf("%w: page fields", errInvalid)
	}
	return page(b[pageHeaderLen : pageHeaderLen+int(count)*entryLen]), nil
}

func (p page) len() int {
	return len(p) / entryLen
}

func (p page) slot(i int) slot {
	return decodeSlot(p[i*entryLen:])
}

// find gives the entries of a hash to c.
func (p page) find(hash uint64, newestMs int64, c *candidates) {
	i := sort.Search(p.len(), func(i int) bool { return p.slot(i).hash >= hash })
	for ; i < p.len() && p.slot(i).hash == hash; i++ {
		c.add(p.slot(i).meta, newestMs)
	}
}
