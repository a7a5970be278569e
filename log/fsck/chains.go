package fsck

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/skepmq/skep/index"
	"github.com/skepmq/skep/log/record"
	"github.com/skepmq/skep/segment"
)

// chainBreak is where the chain of a partition's extents goes nowhere.
type chainBreak struct {
	partition uint64
	holder    index.Pointer // the entry that should point to the rest; zero: the catalogue
	end       int64         // offset where what is missing ends
	lastMs    int64         // append time of what follows
}

// checkChains follows the chain of every partition from its end to its start.
func (c *checker) checkChains() error {
	if !c.found {
		return nil
	}
	letters := c.payloads()
	for _, number := range slices.Sorted(maps.Keys(c.state.partitions)) {
		p := c.state.partitions[number]
		if p.start < p.filedEnd {
			if err := c.checkChain(p, letters[number]); err != nil {
				return err
			}
		}
	}
	for number, list := range letters {
		c.checkUnfiled(c.state.partitions[number], list)
	}
	return nil
}

// checkChain follows one chain. letters are the dead letters whose payloads are in it, by
// offset; those whose payload is found are marked.
func (c *checker) checkChain(p *partition, letters []*letter) error {
	at, holder := p.newest, index.Pointer{}
	before, want, lastMs := int64(math.MaxInt64), p.filedEnd, p.filedMs
	for want > p.start {
		e, problem, err := c.entry(p, at, before)
		if err != nil {
			return err
		}
		switch {
		case problem != nil:
		case !c.joins(p, holder, want, &e):
			problem = fmt.Errorf("the entry ends at offset %d, what follows begins at %d", e.EndOffset(), want)
		case e.FirstTimestampMs > e.LastTimestampMs, e.LastTimestampMs > lastMs,
			want == p.filedEnd && e.LastTimestampMs != p.filedMs:
			problem = fmt.Errorf("the entry says %d to %d ms, what follows %d ms", e.FirstTimestampMs, e.LastTimestampMs, lastMs)
		}
		if problem != nil {
			p.damaged = true
			c.breaks = append(c.breaks, chainBreak{p.Number, holder, want, lastMs})
			file, position := c.place(at)
			c.of(c.finding(ChainBroken, file, position, problem), p.Number, p.start, want)
			return nil
		}
		if err := c.readPayloads(&e, letters); err != nil {
			return err
		}
		holder, at, lastMs = e.At, e.Prev, e.FirstTimestampMs
		before, want = e.BaseOffset, e.BaseOffset
	}
	return nil
}

func (c *checker) segmentPath(id uint32) string {
	if id == 0 {
		return c.path(segmentsName)
	}
	return c.path(segmentsName, segment.FileName(id))
}

// place is where a pointer leads to.
func (c *checker) place(at index.Pointer) (file string, position int64) {
	if s := c.moved[at.Segment]; s != nil {
		return s.path, 0
	}
	return c.segmentPath(at.Segment), int64(at.Position)
}

// joins reports whether e may be the entry before the one at holder, which begins at an
// offset; of the catalogue's, the zero pointer, want is where the chain ends. What has been
// dropped of dead letters where a segment was rewritten is no longer between the two.
func (c *checker) joins(p *partition, holder index.Pointer, want int64, e *index.Located) bool {
	if e.EndOffset() == want {
		return true
	}
	s := c.segments[holder.Segment]
	return p.Hidden && e.EndOffset() < want && e.At.Segment == holder.Segment && s != nil && len(s.replaces) > 0
}

// entry reads the index entry of a partition that a pointer leads to. Of a segment that was
// replaced that is the last one that begins before an offset, in the one that replaces it.
func (c *checker) entry(p *partition, at index.Pointer, before int64) (e index.Located, problem, err error) {
	s := c.segments[at.Segment]
	if to := c.moved[at.Segment]; to != nil {
		return c.movedEntry(p, at, to, before)
	}
	switch {
	case at.IsZero():
		return e, errors.New("there is no pointer to what is older"), nil
	case s == nil:
		return e, fmt.Errorf("points into segment %08x, which is not in the catalogue", at.Segment), nil
	case s.missing:
		return e, fmt.Errorf("points into segment %08x, which is missing", at.Segment), nil
	case !s.holds(at.Position):
		return e, fmt.Errorf("no readable index at position %d of segment %08x", at.Position, at.Segment), nil
	}
	r, err := c.reader(s)
	if err != nil {
		return e, nil, err
	}
	var b [index.EntryLen]byte
	if err := r.ReadAt(b[:], int64(at.Position)); err != nil {
		return e, nil, err
	}
	e.At = at
	if e.Entry, err = index.DecodeEntry(b[:]); err != nil {
		return e, err, nil
	}
	if e.Partition != p.Number {
		return e, fmt.Errorf("the entry is of partition %d", e.Partition), nil
	}
	return e, nil, nil
}

func (c *checker) movedEntry(p *partition, at index.Pointer, to *segmentCheck, before int64) (e index.Located, problem, err error) {
	what := fmt.Sprintf("points into segment %08x, which %08x has replaced", at.Segment, to.ID)
	switch {
	case to.missing:
		return e, fmt.Errorf("%s, which is missing", what), nil
	case len(to.indexes) != 1 || to.indexes[0].to != to.Length-index.TrailerLen:
		return e, fmt.Errorf("%s, which has no readable index", what), nil
	}
	r, err := c.reader(to)
	if err != nil {
		return e, nil, err
	}
	e, ok, err := index.Search(r, to.Length, before, p.Number)
	if err == nil && !ok {
		problem = fmt.Errorf("%s, which has nothing of it before offset %d", what, before)
	}
	return e, problem, err
}

// holds reports whether an entry of a run that was found right lies at a position.
func (s *segmentCheck) holds(position uint32) bool {
	at := int64(position)
	i, found := slices.BinarySearchFunc(s.indexes, at, func(a area, at int64) int { return cmp.Compare(a.from, at) })
	if !found {
		i--
	}
	return i >= 0 && at < s.indexes[i].to && (at-s.indexes[i].from)%index.EntryLen == 0
}

// maxReaders is how many segments are kept open while chains are followed.
const maxReaders = 100

// reader returns the open file of a segment.
func (c *checker) reader(s *segmentCheck) (*segment.Reader, error) {
	if r := c.readers[s.ID]; r != nil {
		return r, nil
	}
	if len(c.readers) >= maxReaders {
		c.closeFiles()
	}
	r, err := segment.OpenReaderUnchecked(c.o.FS, s.path, segment.FileHeader{ID: s.ID})
	if err == nil {
		c.readers[s.ID] = r
	}
	return r, err
}

func (c *checker) closeFiles() {
	for _, r := range c.readers {
		_ = r.Close() // it was only read
	}
	clear(c.readers)
}

// letter is a dead letter whose payload is looked for.
type letter struct {
	record.DeadLetter
	found bool
}

// payloads lists the dead letters by the partition that holds their payloads, and by
// offset. Those of a queue without such a partition are told.
func (c *checker) payloads() map[uint64][]*letter {
	all := map[uint64][]*letter{}
	for _, q := range c.state.queues {
		for _, d := range q.letters {
			if c.state.partitions[q.hidden] == nil {
				c.invalidLetter(&d, c.path(segmentsName), 0, "no payloads were ever stored")
				continue
			}
			all[q.hidden] = append(all[q.hidden], &letter{DeadLetter: d})
		}
	}
	for _, list := range all {
		slices.SortFunc(list, func(a, b *letter) int { return cmp.Compare(a.Offset, b.Offset) })
	}
	return all
}

func (c *checker) invalidLetter(d *record.DeadLetter, file string, position int64, problem string) {
	c.letters = append(c.letters, *d)
	f := c.finding(DeadLetterInvalid, file, position, fmt.Sprintf("dead letter %x of transaction id %q: %s", d.ID, d.TransactionID, problem))
	c.of(f, d.Partition, d.Offset, d.Offset+1)
	f.Offsets = nil // those are of another partition
}

// readPayloads marks the letters whose payloads are in an extent.
func (c *checker) readPayloads(e *index.Located, letters []*letter) error {
	from, _ := slices.BinarySearchFunc(letters, e.BaseOffset, func(l *letter, o int64) int { return cmp.Compare(l.Offset, o) })
	to, _ := slices.BinarySearchFunc(letters, e.EndOffset(), func(l *letter, o int64) int { return cmp.Compare(l.Offset, o) })
	if letters = letters[from:to]; len(letters) == 0 {
		return nil
	}
	r, err := c.reader(c.segments[e.At.Segment])
	if err != nil {
		return err
	}
	b := make([]byte, e.Length)
	if err := r.ReadAt(b, int64(e.Position)); err != nil {
		return err
	}
	next := e.BaseOffset
	for at := 0; at < len(b); {
		h, err := segment.Verify(b[at:])
		if err != nil {
			at, next = resync(e, b, at, next) // told when the segment was read
			continue
		}
		// A batch that does not decode has been told as well.
		_ = c.state.messages(&h, b[at:at+h.Len()], func(offset int64, m *segment.Message) {
			for len(letters) > 0 && letters[0].Offset < offset {
				letters = letters[1:]
			}
			for i := 0; i < len(letters) && letters[i].Offset == offset; i++ {
				letters[i].found = string(m.TransactionID) == letters[i].TransactionID
			}
		})
		at, next = at+h.Len(), h.EndOffset()
	}
	return nil
}

// checkUnfiled looks for the letters not yet found among the payloads that the journal
// holds, and tells those that are nowhere.
func (c *checker) checkUnfiled(p *partition, letters []*letter) {
	for _, l := range letters {
		id, ok := p.payloads[l.Offset]
		switch {
		case l.found, ok && l.Offset >= p.start && id == l.TransactionID:
		case l.Offset < p.start || l.Offset >= p.end && c.logs:
			c.invalidLetter(&l.DeadLetter, c.path(segmentsName), 0, fmt.Sprintf("its payload would be at offset %d of %d to %d", l.Offset, p.start, p.end))
		case l.Offset >= p.filedEnd && !c.logs: // in the journal, which could not be read
		default:
			c.invalidLetter(&l.DeadLetter, c.segmentPath(p.newest.Segment), 0, fmt.Sprintf("its payload, at offset %d, cannot be read", l.Offset))
		}
	}
}
