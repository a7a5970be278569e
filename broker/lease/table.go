package lease

import (
	"encoding/binary"
	"sync"
)

// tableShards is a power of two. Neighbouring leases fall into different shards, so
// pops and acknowledgements on many cores seldom meet.
const (
	tableShardBits = 6
	tableShards    = 1 << tableShardBits
)

// Key names a cursor: one consumer group's place in one partition.
type Key struct {
	Partition uint64
	Group     uint32
}

// Table finds the cursors that a lease id covers. A pop that claims several
// partitions leases them under one id; most claim one, and those cost a map entry
// without pointers and no allocation of their own. The zero Table is empty and
// ready. All methods are safe for concurrent use.
type Table struct {
	shards [tableShards]tableShard
}

type tableShard struct {
	mu    sync.Mutex
	first map[[16]byte]Key
	more  map[[16]byte]map[Key]struct{} // the keys after the first, for the few ids that have some; never empty

	_ [40]byte // a cache line a shard
}

// shard picks by multiplying both halves of the id: ids are UUIDs, of which the
// first half may be a time and the same for all leases of a millisecond.
func (t *Table) shard(id *[16]byte) *tableShard {
	h := binary.LittleEndian.Uint64(id[:8]) ^ binary.LittleEndian.Uint64(id[8:])
	return &t.shards[h*0x9E3779B97F4A7C15>>(64-tableShardBits)]
}

// Add lets id cover k. Adding a key again changes nothing.
func (t *Table) Add(id [16]byte, k Key) {
	s := t.shard(&id)
	s.mu.Lock()
	defer s.mu.Unlock()
	first, ok := s.first[id]
	switch {
	case !ok:
		if s.first == nil {
			s.first = make(map[[16]byte]Key)
		}
		s.first[id] = k
	case first != k:
		if s.more == nil {
			s.more = make(map[[16]byte]map[Key]struct{})
		}
		if s.more[id] == nil {
			s.more[id] = make(map[Key]struct{})
		}
		s.more[id][k] = struct{}{}
	}
}

// Remove ends the cover of k by id; with its last key the id is gone. A pair that
// is not in the table is ignored.
func (t *Table) Remove(id [16]byte, k Key) {
	s := t.shard(&id)
	s.mu.Lock()
	defer s.mu.Unlock()
	first, ok := s.first[id]
	if !ok {
		return
	}
	more := s.more[id]
	if first != k {
		delete(more, k)
	} else if len(more) == 0 {
		delete(s.first, id)
	} else {
		for next := range more { // any of them becomes the first
			s.first[id] = next
			delete(more, next)
			break
		}
	}
	if len(more) == 0 {
		delete(s.more, id)
	}
}

// Keys appends to dst the keys id covers, in no particular order, and returns the
// longer slice: dst itself for an id that is not in the table.
func (t *Table) Keys(id [16]byte, dst []Key) []Key {
	s := t.shard(&id)
	s.mu.Lock()
	defer s.mu.Unlock()
	first, ok := s.first[id]
	if !ok {
		return dst
	}
	dst = append(dst, first)
	for k := range s.more[id] {
		dst = append(dst, k)
	}
	return dst
}

// Len returns the number of lease ids in the table.
func (t *Table) Len() int {
	n := 0
	for i := range t.shards {
		s := &t.shards[i]
		s.mu.Lock()
		n += len(s.first)
		s.mu.Unlock()
	}
	return n
}
