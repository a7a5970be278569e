package fsck

import (
	"errors"
	"fmt"
	"io/fs"
	"math/bits"
	"time"

	"github.com/skepmq/skep/index/dedup"
	"github.com/skepmq/skep/segment"
)

// idWindow is how long every transaction id stays in the index, whatever its queue says.
const idWindow = 15 * time.Minute

// idFilter remembers entries of the index of transaction ids in a bounded number of bits:
// it may say that an entry is there which is not, and never the reverse.
type idFilter struct {
	bits []uint64 // nil: the index cannot be relied on, so that nothing is missing in it
	seed uint64
}

// maxFilterBytes bounds the filter. It begins to miss what is missing at some tens of
// millions of entries.
const maxFilterBytes = 64 << 20

// newFilter returns a filter for the entries of so many bytes of files: a bit a byte, so 16
// an entry.
func newFilter(bytes int64) []uint64 {
	return make([]uint64, 1<<bits.Len64(uint64(min(max(bytes/64, 64), maxFilterBytes/16))))
}

func (f *idFilter) places(hash uint64, offset int64) [4]uint64 {
	h := hash ^ bits.RotateLeft64(uint64(offset)*0x9e3779b97f4a7c15, 31)
	step := h>>32 | 1
	return [4]uint64{h, h + step, h + 2*step, h + 3*step}
}

func (f *idFilter) add(hash uint64, offset int64) {
	for _, at := range f.places(hash, offset) {
		f.bits[at>>6&uint64(len(f.bits)-1)] |= 1 << (at & 63)
	}
}

func (f *idFilter) has(hash uint64, offset int64) bool {
	for _, at := range f.places(hash, offset) {
		if f.bits[at>>6&uint64(len(f.bits)-1)]&(1<<(at&63)) == 0 {
			return false
		}
	}
	return true
}

func (c *checker) checkDedup() error {
	if !c.found {
		return nil
	}
	c.ids.bits = newFilter(c.bytesIn(dedupName))
	in, err := dedup.Inspect(c.o.FS, c.path(dedupName), c.ids.add)
	if errors.Is(err, fs.ErrNotExist) {
		c.ids.bits = nil
		if c.state.meta.Generation > 0 {
			c.finding(DedupMissing, c.path(dedupName), 0, "missing")
		}
		return nil
	}
	if err != nil {
		return err
	}
	c.ids.seed = in.Seed
	c.report.Summary.IDs = in.Entries
	c.report.Summary.Bytes += in.Bytes
	for _, d := range in.Damaged {
		c.ids.bits = nil
		c.dedup = true
		code := DedupDamaged
		if c.state.meta.Generation == 0 {
			code = Leftover // there are no ids before the first checkpoint: it was being made
		}
		c.finding(code, d.Path, d.Position, d.Err)
	}
	for _, t := range in.Torn {
		c.finding(TornTail, t.Path, t.Position, t.Err)
	}
	for _, name := range in.Leftovers {
		c.finding(Leftover, c.path(dedupName, name), 0, "replaced, or not finished")
	}
	for _, name := range in.Unknown {
		c.finding(UnknownFile, c.path(dedupName, name), 0, "not a name of the broker")
	}
	now := c.o.Now().UnixMilli()
	for _, p := range c.state.partitions {
		now = max(now, p.lastMs) // of a broker that has seen a later time
	}
	c.sinceMs = now - idWindow.Milliseconds()
	return nil
}

// bytesIn returns the size of the files of a directory, 0 if it cannot be told.
func (c *checker) bytesIn(name string) (total int64) {
	names, _ := c.o.FS.List(c.path(name))
	for _, n := range names {
		size, _ := c.o.FS.Size(c.path(name, n))
		total += size
	}
	return total
}

// checkID looks for a message, filed not long ago, in the index of transaction ids.
func (c *checker) checkID(s *segmentCheck, position int64, p *partition, offset int64, m *segment.Message) {
	key := dedup.Key(m)
	if key == nil || offset < p.start || offset >= p.filedEnd || offset > dedup.MaxOffset ||
		c.ids.has(dedup.HashOf(c.ids.seed, p.Number, key), offset) {
		return
	}
	c.dedup = true
	f := c.finding(IDsMissing, s.path, position, fmt.Sprintf("transaction id %q is not in the index", key))
	c.of(f, p.Number, offset, offset+1)
}
