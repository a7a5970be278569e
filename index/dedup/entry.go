package dedup

// MaxOffset is the largest offset an entry can hold. Larger ones are not indexed.
const MaxOffset = 1<<offsetBits - 2

const (
	offsetBits = 40
	timeBits   = 24
	timeMask   = 1<<timeBits - 1
	timeUnitMs = 64

	entryLen = 16
)

// Entry is one message as Save takes it.
type Entry struct {
	Hash        uint64 // of its partition and transaction id, by Index.Hash
	Offset      int64
	TimestampMs int64 // when the message was appended, Unix milliseconds
}

// slot is an entry, in a table and, as two little-endian uint64, on disk.
//
//	0        8                 13       16
//	+--------+-----------------+--------+
//	| hash   | offset + 1      | time   |     meta = (offset + 1) << 24 | time
//	+--------+-----------------+--------+
//
// A meta of zero is a free slot, and never an entry. The time counts units of 64 ms,
// rounded up, modulo 2^24: a ring of 12.4 days, read back as the latest such time
// that is not after the newest entry of the bucket. So entries move from bucket to
// bucket as they are.
type slot struct {
	hash uint64
	meta uint64
}

func packMeta(offset, timestampMs int64) uint64 {
	return uint64(offset+1)<<timeBits | timeUnits(timestampMs)&timeMask
}

func timeUnits(ms int64) uint64 {
	return uint64((ms + timeUnitMs - 1) >> 6) // floor, also before 1970
}

func metaOffset(meta uint64) int64 {
	return int64(meta>>timeBits) - 1
}

// metaTime returns the time of an entry, up to 64 ms late, in a bucket whose newest
// entry is of newestMs.
func metaTime(meta uint64, newestMs int64) int64 {
	newest := timeUnits(newestMs)
	age := (newest - meta) & timeMask
	return int64(newest-age) * timeUnitMs
}

// sameOffset ignores the time: a message that is indexed again is the same message.
func sameOffset(a, b uint64) bool {
	return a>>timeBits == b>>timeBits
}

// candidates collects the offsets a lookup finds, each once: a replay may have
// indexed a message in two buckets.
type candidates struct {
	offsets []int64
	base    int // what the caller had in offsets
	sinceMs int64
}

func (c *candidates) add(meta uint64, newestMs int64) {
	if metaTime(meta, newestMs) < c.sinceMs {
		return
	}
	offset := metaOffset(meta)
	for _, known := range c.offsets[c.base:] {
		if known == offset {
			return
		}
	}
	c.offsets = append(c.offsets, offset)
}
