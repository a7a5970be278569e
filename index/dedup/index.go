package dedup

import (
	"encoding/binary"
	"errors"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cespare/xxhash/v2"
	"github.com/rs/zerolog"

	"github.com/skepmq/skep/segment/vfs"
)

const (
	defaultCacheBytes = 512 << 20

	// memoryBuckets is how many full buckets fit into the cache, and so about how
	// many a lookup asks in memory.
	memoryBuckets = 8
	// windowBuckets is how many parts the window is cut into when messages are few.
	windowBuckets = 8

	// Bounds of the time a bucket covers. The first is also what it is before the
	// first Expire tells the window; the last keeps the ring of times unambiguous.
	defaultSpan = time.Hour / windowBuckets
	minSpan     = time.Minute
	maxSpan     = 5 * 24 * time.Hour

	noStart = math.MinInt64
)

// Options configure an index. The zero value of each but Dir is usable.
type Options struct {
	FS         vfs.FS // nil: the operating system's
	Dir        string // of the index alone; created if missing
	CacheBytes int64  // bound of tables and filters in memory; 0: 512 MiB
	Logger     zerolog.Logger
}

// Index maps hashes of transaction ids to offsets. See the package comment for the
// life of an entry and for what may be called by whom.
type Index struct {
	options  Options
	logger   zerolog.Logger
	seed     uint64
	maxSlots int          // of a table, in the active bucket
	spanMs   atomic.Int64 // the longest time a bucket covers

	otherBytes atomic.Int64 // of append files and of files set aside
	failures   atomic.Int64 // see Stats

	shards [numShards]shard
	layout atomic.Pointer[layout] // replaced, never changed

	layoutMu sync.Mutex // for those who replace layout

	filesMu sync.Mutex // what follows, and every file but for reading pages
	closed  bool
	failed  error // the write or sync that failed first
	current appendFile
	saves   uint64 // number of the last Save
	logs    map[uint64]logInfo
	aside   []string // paths of the files set aside as damaged
	buffer  []byte   // blocks being encoded
}

// shard is the part of the active bucket with the hashes of one shard.
type shard struct {
	mu     sync.Mutex
	active *activeBucket // the same in all shards; changed under all their locks
	table  table

	_ [64]byte // shards are locked in turn by all cores
}

// activeBucket is what the shards of the active bucket share.
type activeBucket struct {
	id      uint64
	startMs atomic.Int64 // time of the first entry; noStart before
}

func newActiveBucket(id uint64) *activeBucket {
	a := &activeBucket{id: id}
	a.startMs.Store(noStart)
	return a
}

// layout is the buckets that no longer change, each list by number, so by age.
type layout struct {
	spilled []*sortedFile
	sealed  []*sealedBucket
}

// sealedBucket is a bucket in memory that takes no more entries.
type sealedBucket struct {
	id       uint64
	tables   [numShards]table
	entries  int64
	newestMs int64
	filter   atomic.Pointer[filter] // nil until the next Save or Expire
}

func (b *sealedBucket) memory() int64 {
	n := b.filter.Load().memory()
	for i := range b.tables {
		n += b.tables[i].memory()
	}
	return n
}

// Hash returns the hash under which Add and Lookup know the transaction id of a
// message of the partition. It depends on the seed of this store.
func (x *Index) Hash(partition uint64, id []byte) uint64 { return HashOf(x.seed, partition, id) }

// HashOf is Index.Hash under a seed that Inspect has read.
func HashOf(seed, partition uint64, id []byte) uint64 {
	var d xxhash.Digest
	d.ResetWithSeed(seed)
	var b [8]byte
	binary.LittleEndian.PutUint64(b[:], partition)
	_, _ = d.Write(b[:]) // never fails
	_, _ = d.Write(id)
	return d.Sum64()
}

// Add indexes the message at offset, appended at timestampMs, Unix milliseconds. An
// entry that is there already is not added twice. Offsets beyond MaxOffset, and
// negative ones, are ignored. Add does not allocate but to grow a table.
func (x *Index) Add(hash uint64, offset, timestampMs int64) {
	if offset < 0 || offset > MaxOffset {
		return
	}
	s, meta := &x.shards[shardOf(hash)], packMeta(offset, timestampMs)
	for {
		s.mu.Lock()
		a := s.active
		added := x.covers(a, timestampMs) && s.table.insert(hash, meta, timestampMs, x.maxSlots)
		s.mu.Unlock()
		if added {
			return
		}
		x.roll(a)
	}
}

// covers reports whether the active bucket takes an entry of this time. A time
// before its start is fine: only too long a stretch would expire too late.
func (x *Index) covers(a *activeBucket, timestampMs int64) bool {
	start := a.startMs.Load()
	if start == noStart {
		a.startMs.CompareAndSwap(noStart, timestampMs)
		return true
	}
	return timestampMs-start <= x.spanMs.Load()
}

// roll seals the bucket a and begins the next, unless another goroutine has.
func (x *Index) roll(a *activeBucket) {
	for i := range x.shards {
		x.shards[i].mu.Lock()
	}
	if x.shards[0].active == a {
		x.rollLocked()
	}
	for i := range x.shards {
		x.shards[i].mu.Unlock()
	}
}

// rollLocked needs the locks of all shards: a lookup takes the table and the layout
// under the lock of its shard, so it finds an entry in one of them.
func (x *Index) rollLocked() {
	b := &sealedBucket{id: x.shards[0].active.id}
	next := newActiveBucket(b.id + 1)
	for i := range x.shards {
		s := &x.shards[i]
		b.takeTable(i, s.table)
		s.table, s.active = table{}, next
	}
	if b.entries == 0 {
		return
	}
	x.changeLayout(func(l *layout) { l.sealed = append(l.sealed, b) })
}

func (b *sealedBucket) takeTable(i int, t table) {
	if t.len > 0 && (b.entries == 0 || t.newestMs > b.newestMs) {
		b.newestMs = t.newestMs
	}
	b.entries += int64(t.len)
	b.tables[i] = t
}

// changeLayout publishes a changed copy of the layout.
func (x *Index) changeLayout(change func(*layout)) {
	x.layoutMu.Lock()
	defer x.layoutMu.Unlock()
	old := x.layout.Load()
	l := &layout{slices.Clone(old.spilled), slices.Clone(old.sealed)}
	change(l)
	x.layout.Store(l)
}

// Lookup appends to dst the offsets of all entries with this hash, in any order, and
// returns the longer slice. An offset may belong to another transaction id and may
// be older than the window: the caller compares. Errors come from reading spilled
// buckets: a CorruptError, or that of the file system.
func (x *Index) Lookup(hash uint64, dst []int64) ([]int64, error) {
	return x.LookupSince(hash, math.MinInt64, dst)
}

// LookupSince is Lookup without the entries of before sinceMs, Unix milliseconds,
// and without asking the buckets that hold only such. The time of an entry is kept
// in units of 64 ms and rounded up: entries up to 64 ms older may be among the result.
func (x *Index) LookupSince(hash uint64, sinceMs int64, dst []int64) ([]int64, error) {
	c := candidates{offsets: dst, base: len(dst), sinceMs: sinceMs}
	for {
		done, err := x.lookup(hash, &c)
		if err != nil {
			return dst, err
		}
		if done {
			return c.offsets, nil
		}
		c.offsets = c.offsets[:c.base]
	}
}

// lookup reports false if the layout changed so that it must be asked again.
func (x *Index) lookup(hash uint64, c *candidates) (bool, error) {
	i := shardOf(hash)
	s := &x.shards[i]
	s.mu.Lock()
	l := x.layout.Load()
	// The filters come first and under the lock, though they do not need it: locking
	// waits for memory, and here they and the table wait together. A fresh id costs
	// little more than one cache miss, not one for each step.
	sealed, spilled := l.glance(hash)
	s.table.find(hash, c)
	s.mu.Unlock()

	for j, b := range l.sealed {
		if sealed.has(j) && b.newestMs >= c.sinceMs && b.filter.Load().mayContain(hash) {
			b.tables[i].find(hash, c)
		}
	}
	for j, f := range l.spilled {
		if !spilled.has(j) || f.header.newestMs < c.sinceMs || !f.filter.Load().mayContain(hash) {
			continue
		}
		if !f.acquire() {
			return false, nil
		}
		if err := errors.Join(f.find(hash, c), f.release()); err != nil {
			return false, err
		}
	}
	return true, nil
}

// buckets is a set of buckets of one list of a layout. Those from the 64th on are
// always in it: so many are rare.
type buckets uint64

func (b buckets) has(i int) bool {
	return i >= 64 || b>>i&1 != 0
}

// glance returns the buckets that may contain the hash, by a glance at their filters.
func (l *layout) glance(hash uint64) (sealed, spilled buckets) {
	for i, b := range l.sealed[:min(64, len(l.sealed))] {
		sealed |= buckets(b.filter.Load().glance(hash) << (i & 63))
	}
	for i, f := range l.spilled[:min(64, len(l.spilled))] {
		spilled |= buckets(f.filter.Load().glance(hash) << (i & 63))
	}
	return sealed, spilled
}

// Stats are counters as of the call.
type Stats struct {
	Entries        int64 // in memory and spilled; one that a replay indexed in two buckets counts twice
	MemoryBytes    int64 // tables, filters and fences
	DiskBytes      int64 // of all files but the seed
	Buckets        int   // in memory and spilled; merged ones count once
	SpilledBuckets int
	Failures       int64 // of what is tried again: spilling, merging, setting a damaged file aside
}

// Stats returns the counters.
func (x *Index) Stats() Stats {
	entries, memory := x.activeSize()
	st := Stats{Entries: entries, MemoryBytes: memory, Buckets: 1, Failures: x.failures.Load()}
	l := x.layout.Load()
	for _, b := range l.sealed {
		st.Entries += b.entries
	}
	for _, f := range l.spilled {
		st.Entries += f.header.entries
		st.DiskBytes += f.header.fileLen()
	}
	st.MemoryBytes += l.memory()
	st.SpilledBuckets = len(l.spilled)
	st.Buckets += len(l.sealed) + len(l.spilled)
	st.DiskBytes += x.otherBytes.Load()
	return st
}

func (x *Index) activeSize() (entries, memory int64) {
	for i := range x.shards {
		s := &x.shards[i]
		s.mu.Lock()
		entries += int64(s.table.len)
		memory += s.table.memory()
		s.mu.Unlock()
	}
	return entries, memory
}

func (l *layout) memory() int64 {
	var n int64
	for _, b := range l.sealed {
		n += b.memory()
	}
	for _, f := range l.spilled {
		n += f.memory()
	}
	return n
}

// Close closes the files. It syncs nothing: what Save has returned for is on disk.
// Lookups that are under way end as they would have.
func (x *Index) Close() error {
	x.filesMu.Lock()
	defer x.filesMu.Unlock()
	if x.closed {
		return nil
	}
	x.closed = true
	err := x.closeCurrent()
	var spilled []*sortedFile
	x.changeLayout(func(l *layout) { spilled, l.spilled = l.spilled, nil })
	for _, f := range spilled {
		err = errors.Join(err, f.release())
	}
	return err
}
