package partition

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"github.com/skepmq/skep/index"
	"github.com/skepmq/skep/segment"
)

// rewriteChunk is how many bytes a Rewrite writes before it syncs them and asks whether to
// go on: a sync of much at a time would hold up those of the journal.
const rewriteChunk = 1 << 20

// Rewritten is a segment that Rewrite has made. Nobody reads it before Replace.
type Rewritten struct {
	SegmentInfo
	Newest []NewestPlace // by partition

	sources  []uint32
	newestMs int64
}

// NewestPlace is where the newest of a partition's extents lies that were moved.
type NewestPlace struct {
	Partition uint64
	At        index.Pointer
}

// Rewrite copies what is needed of segments into a new one, which has one run, sorted by
// partition and offset, and syncs it. The segments are of one queue, retired or sealed, and
// not more is kept of them than fits a segment. Batches are copied as they are and verified;
// a damaged one ends the Rewrite. pace is called between chunks and may take its time, or
// end the Rewrite with an error.
//
// The caller records the result and then calls Replace, or else Discard. If nothing is
// needed there is no result. Errors: *segment.CorruptError, ErrFull, ErrClosed, that of pace
// and those of the file system: then nothing has changed for anyone. It may run beside
// everything but another Rewrite, Replace or Remove of its segments.
func (s *Store) Rewrite(ids []uint32, needs Needs, pace func(bytes int64) error) (*Rewritten, error) {
	extents, key, err := s.keptOf(ids, needs)
	if err != nil || len(extents) == 0 {
		return nil, err
	}
	id, err := s.takeID()
	if err != nil {
		return nil, err
	}
	r := &Rewritten{
		SegmentInfo: SegmentInfo{ID: id, Queue: key.queue, Partition: key.partition, Sealed: true, Replaces: s.answeredBy(ids)},
		sources:     ids,
	}
	if err = s.writeRewritten(r, extents, pace); err == nil {
		err = s.syncDir()
	}
	if err != nil {
		s.Discard(r)
		return nil, err
	}
	return r, nil
}

// answeredBy returns the ids whose pointers a segment answers that replaces those of ids.
func (s *Store) answeredBy(ids []uint32) []uint32 {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := slices.Clone(ids)
	for _, id := range ids {
		all = append(all, s.segments[id].Replaces...)
	}
	return all
}

// writeRewritten makes the file of r.
func (s *Store) writeRewritten(r *Rewritten, extents []index.Located, pace func(int64) error) error {
	w, err := segment.Create(s.o.FS, s.path(r.ID), segment.FileHeader{
		ID: r.ID, Queue: r.Queue, Partition: r.Partition, ExtentBytes: uint32(s.o.ExtentBytes),
	})
	if err != nil {
		return err
	}
	c := copier{s: s, w: w, packer: index.Packer{ExtentBytes: uint32(s.o.ExtentBytes)}, pace: pace}
	if err = c.copyAll(extents); err == nil {
		r.Newest, r.newestMs = c.link(r.ID)
		err = index.Write(&c, c.packer.Entries, segment.FileHeaderLen)
	}
	if err == nil {
		err = w.Sync()
	}
	r.Length = w.Len()
	return errors.Join(err, w.Close())
}

// copier copies extents to the end of a segment.
type copier struct {
	s      *Store
	w      *segment.Writer
	packer index.Packer
	before []index.Pointer // of each entry, where the one before it lies; zero: right before
	pace   func(int64) error
	paced  int64 // bytes written when pace was called
}

func (c *copier) copyAll(extents []index.Located) error {
	for i := range extents {
		e := &extents[i]
		if err := c.copyExtent(e); err != nil {
			return err
		}
		// Where others may lie in between, in a segment that is not rewritten, or nothing
		// is kept that lies before, the old pointer stays right.
		if n := len(c.before); n < len(c.packer.Entries) && (i == 0 || !follows(e, &extents[i-1])) {
			c.before = append(c.before, e.Prev)
		}
		for len(c.before) < len(c.packer.Entries) {
			c.before = append(c.before, index.Pointer{})
		}
	}
	return nil
}

// Append adds b to the segment, and lets others go first when that makes a chunk.
func (c *copier) Append(b []byte) (position int64, err error) {
	if position, err = c.w.Append(b); err != nil || c.w.Len()-c.paced < rewriteChunk {
		return position, err
	}
	if err = c.w.Sync(); err == nil {
		err = c.pace(c.w.Len() - c.paced)
	}
	c.paced = c.w.Len()
	return position, err
}

func (c *copier) copyExtent(e *index.Located) error {
	file, err := c.s.acquire(e.At.Segment)
	if err != nil {
		return err
	}
	if file == nil {
		return fmt.Errorf("segment %08x: %w", e.At.Segment, fs.ErrNotExist) // its queue was dropped
	}
	defer c.s.files.release(file)
	b, err := readVerified(file, e)
	for err == nil && len(b) > 0 {
		var h segment.Header
		if h, err = segment.DecodeHeader(b); err != nil {
			break
		}
		var position int64
		if position, err = c.Append(b[:h.Len()]); err != nil {
			break
		}
		c.packer.Add(&h, uint32(position))
		b = b[h.Len():]
	}
	return err
}

// link points the entries to each other, and returns what a Rewritten says of them.
func (c *copier) link(id uint32) (newest []NewestPlace, newestMs int64) {
	entries, at := c.packer.Entries, index.Pointer{Segment: id}
	for i := range entries {
		e := &entries[i]
		if e.Prev = c.before[i]; e.Prev.IsZero() && i > 0 && entries[i-1].Partition == e.Partition {
			e.Prev = at
		}
		newestMs = max(newestMs, e.LastTimestampMs)
		at.Position = uint32(c.w.Len() + int64(i)*index.EntryLen)
		if i+1 == len(entries) || entries[i+1].Partition != e.Partition {
			newest = append(newest, NewestPlace{e.Partition, at})
		}
	}
	return newest, newestMs
}

// Replace puts a rewritten segment, which the caller has recorded, in the place of those it
// was made of and unlinks them. Readers in flight finish or find the new place. If its queue
// was dropped meanwhile, it goes as well. On an error files may be left, which the next Open
// removes.
func (s *Store) Replace(r *Rewritten) error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return ErrClosed
	}
	for _, id := range r.sources {
		if _, ok := s.segments[id]; !ok {
			s.mu.Unlock()
			return s.unlink([]uint32{r.ID})
		}
	}
	for _, id := range r.sources {
		s.forgetLocked(id)
	}
	s.segments[r.ID] = r.SegmentInfo
	s.newest[r.ID] = r.newestMs
	for _, id := range r.Replaces {
		s.moved[id] = r.ID
	}
	s.written += r.Length
	s.mu.Unlock()
	return s.unlink(r.sources)
}

// Discard removes a rewritten segment that is not to be used. What stays is removed by the
// next Open.
func (s *Store) Discard(r *Rewritten) {
	if err := s.o.FS.Remove(s.path(r.ID)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		s.o.Logger.Warn().Err(err).Str("path", s.path(r.ID)).Msg("unrecorded segment left")
	}
}

// movedTo returns the segment that has what was needed of another.
func (s *Store) movedTo(id uint32) (to uint32, length int64, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	to, ok = s.moved[id]
	return to, s.segments[to].Length, ok
}

// errMoved says that what was to be read was moved meanwhile: whoever reads starts over
// from where it is.
var errMoved = errors.New("partition: extent was moved")

// movedEntry returns the entry that a pointer into a segment which is gone means: in its
// replacement, the partition's last entry that begins before an offset. Entries and
// pointers of partitions that have nothing there any more, and of segments that were
// dropped, have none.
func (s *Store) movedEntry(gone uint32, before int64, partition uint64) (e index.Located, ok bool, err error) {
	for {
		to, length, ok := s.movedTo(gone)
		if !ok {
			return index.Located{}, false, nil
		}
		file, err := s.acquire(to)
		if err != nil {
			return index.Located{}, false, err
		}
		if file == nil {
			continue // it was replaced as well by now, or dropped
		}
		e, ok, err = index.Search(file.Reader, length, before, partition)
		s.files.release(file)
		return e, ok, err
	}
}
