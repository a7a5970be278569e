package dedup

const (
	filterBitsPerEntry = 10
	filterProbes       = 6 // the best number for ten bits an entry
	filterBlockWords   = 8
	filterBlockLen     = 8 * filterBlockWords
)

// filter is a blocked Bloom filter: all bits of an entry lie in one block of 64
// bytes, so a lookup touches one cache line. About one of a hundred absent hashes
// passes. The nil filter passes everything.
type filter struct {
	blocks [][filterBlockWords]uint64
}

func newFilter(entries int64) *filter {
	n := (entries*filterBitsPerEntry + 8*filterBlockLen - 1) / (8 * filterBlockLen)
	return &filter{make([][filterBlockWords]uint64, max(1, n))}
}

// place returns the block of a hash, by its lower half, which the shard and the
// place in a table do not depend on, and a product whose upper bits pick the bits.
func (f *filter) place(hash uint64) (block *[filterBlockWords]uint64, picks uint64) {
	i := uint64(uint32(hash)) * uint64(len(f.blocks)) >> 32
	return &f.blocks[i], hash * 0x9E3779B97F4A7C15
}

func (f *filter) add(hash uint64) {
	block, picks := f.place(hash)
	for range filterProbes {
		bit := picks >> (64 - 9)
		block[bit>>6] |= 1 << (bit & 63)
		picks <<= 9
	}
}

func (f *filter) mayContain(hash uint64) bool {
	if f == nil {
		return true
	}
	block, picks := f.place(hash)
	for range filterProbes {
		bit := picks >> (64 - 9)
		if block[bit>>6]>>(bit&63)&1 == 0 {
			return false
		}
		picks <<= 9
	}
	return true
}

// glance tests the first two of the bits and returns 1 if both are set. It is short
// and does not branch on what it reads: lookups glance at all filters before they
// look at one, so that the processor fetches all their cache lines at once.
func (f *filter) glance(hash uint64) uint64 {
	if f == nil {
		return 1
	}
	block, picks := f.place(hash)
	first, second := picks>>(64-9), picks<<9>>(64-9)
	return block[first>>6] >> (first & 63) & (block[second>>6] >> (second & 63)) & 1
}

func (f *filter) memory() int64 {
	if f == nil {
		return 0
	}
	return int64(len(f.blocks)) * filterBlockLen
}
