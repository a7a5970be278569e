package dedup

import "math/bits"

const (
	shardBits = 6
	numShards = 1 << shardBits

	minTableSlots = 16
)

func shardOf(hash uint64) int {
	return int(hash >> (64 - shardBits))
}

// table is the open-addressing hash table of one shard of one bucket: linear
// probing, a power of two of slots, at most three quarters full. An entry's home is
// given by the bits of its hash below those of the shard, so a table from front to
// back is almost in the order of the hash: growing it walks both arrays once, and
// sorting it for a spill has little to do.
type table struct {
	slots    []slot
	len      int
	newestMs int64 // of the entries; undefined when len is 0
}

// tableSlots returns the size of a table for n entries.
func tableSlots(n int) int {
	size := minTableSlots
	for !fits(n, size) {
		size *= 2
	}
	return size
}

func fits(n, slots int) bool {
	return 4*n <= 3*slots
}

func (t *table) home(hash uint64) int {
	return int(hash << shardBits >> (65 - bits.Len(uint(len(t.slots)))))
}

// insert adds an entry, unless it is there already. It reports false, and changes
// nothing, when the table would have to grow beyond maxSlots.
func (t *table) insert(hash, meta uint64, timestampMs int64, maxSlots int) bool {
	if len(t.slots) == 0 {
		t.slots = make([]slot, minTableSlots)
	}
	mask := len(t.slots) - 1
	i := t.home(hash)
	for ; t.slots[i].meta != 0; i = (i + 1) & mask {
		if s := &t.slots[i]; s.hash == hash && sameOffset(s.meta, meta) {
			return true
		}
	}
	if !fits(t.len+1, len(t.slots)) {
		if 2*len(t.slots) > maxSlots {
			return false
		}
		t.resize(2 * len(t.slots))
		i = t.freeSlot(hash)
	}
	t.slots[i] = slot{hash, meta}
	if t.len == 0 || timestampMs > t.newestMs {
		t.newestMs = timestampMs
	}
	t.len++
	return true
}

func (t *table) freeSlot(hash uint64) int {
	mask := len(t.slots) - 1
	i := t.home(hash)
	for t.slots[i].meta != 0 {
		i = (i + 1) & mask
	}
	return i
}

func (t *table) resize(slots int) {
	old := t.slots
	t.slots = make([]slot, slots)
	for _, s := range old {
		if s.meta != 0 {
			t.slots[t.freeSlot(s.hash)] = s
		}
	}
}

func (t *table) find(hash uint64, c *candidates) {
	if t.len == 0 {
		return
	}
	mask := len(t.slots) - 1
	for i := t.home(hash); t.slots[i].meta != 0; i = (i + 1) & mask {
		if s := &t.slots[i]; s.hash == hash {
			c.add(s.meta, t.newestMs)
		}
	}
}

// appendSlots appends the entries to dst in no order.
func (t *table) appendSlots(dst []slot) []slot {
	for _, s := range t.slots {
		if s.meta != 0 {
			dst = append(dst, s)
		}
	}
	return dst
}

func (t *table) memory() int64 {
	return int64(cap(t.slots)) * entryLen
}
