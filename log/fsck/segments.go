package fsck

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"

	"github.com/skepmq/skep/index"
	"github.com/skepmq/skep/log/record"
	"github.com/skepmq/skep/segment"
)

// segmentCheck is what was found of one segment file.
type segmentCheck struct {
	record.Segment
	replaces []uint32 // segments that are gone, and whose pointers this one answers
	path     string
	missing  bool                // or its file is another segment's
	foreign  uint32              // whose it is then; 0: nobody's
	header   *segment.FileHeader // to be written again; nil: it is right
	indexes  []area              // of the runs whose index is right
	lost     []lostRange         // batches that cannot be read, in runs whose index is right
	rebuilt  []run               // runs whose index is not right and whose batches are
	dead     []area              // where neither can be read
}

// area is a stretch of a file.
type area struct{ from, to int64 }

// run is what one checkpoint has added to a segment.
type run struct {
	start, end int64
	entries    []index.Located
}

// indexStart is where the batches of a run end.
func (r *run) indexStart() int64 { return r.end - index.Len(len(r.entries)) }

// lostRange is damage inside an extent whose index entry is right.
type lostRange struct {
	area
	partition   uint64
	offsets     Offsets
	timestampMs int64 // of the batch before, or what the index says
}

// checkSegments reads every segment file.
func (c *checker) checkSegments() error {
	if !c.found {
		return nil
	}
	if err := c.checkSegmentNames(); err != nil {
		return err
	}
	total, done := int64(0), int64(0)
	for _, d := range c.state.segments {
		total += d.Length
	}
	for _, id := range slices.Sorted(maps.Keys(c.state.segments)) {
		s := &segmentCheck{Segment: c.state.segments[id], replaces: c.state.replaces[id], path: c.path(segmentsName, segment.FileName(id))}
		c.segments[id] = s
		for _, gone := range s.replaces {
			c.moved[gone] = s
		}
		c.report.Summary.Segments++
		c.report.Summary.SegmentBytes += s.Length
		if err := c.checkSegment(s); err != nil {
			return err
		}
		done += s.Length
		c.o.Progress(done, total)
	}
	c.report.Summary.Bytes += done
	return nil
}

func (c *checker) checkSegmentNames() error {
	names, err := c.o.FS.List(c.path(segmentsName))
	if errors.Is(err, fs.ErrNotExist) {
		return nil // the segments that there should be are told one by one
	}
	if err != nil {
		return err
	}
	for _, name := range names {
		id, ok := segment.ParseFileName(name)
		if _, known := c.state.segments[id]; ok && !known {
			c.finding(Leftover, c.path(segmentsName, name), 0, "not in the catalogue")
		} else if !ok {
			c.finding(UnknownFile, c.path(segmentsName, name), 0, "not a name of the broker")
		}
	}
	return nil
}

func (c *checker) checkSegment(s *segmentCheck) error {
	size, err := c.o.FS.Size(s.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		s.missing = true
		c.finding(SegmentMissing, s.path, 0, "missing")
		return nil
	case err != nil:
		return err
	case size < s.Length:
		c.finding(SegmentShort, s.path, size, fmt.Sprintf("%d bytes of %d", size, s.Length))
	case size > s.Length:
		c.finding(Leftover, s.path, s.Length, fmt.Sprintf("%d bytes that no checkpoint has recorded", size-s.Length))
	}
	r, err := c.openSegment(s)
	if r == nil || err != nil {
		return err
	}
	err = c.checkRuns(s, r, min(size, s.Length))
	return errors.Join(err, r.Close())
}

// openSegment opens the file and checks its header. nil: it is another segment's.
func (c *checker) openSegment(s *segmentCheck) (*segment.Reader, error) {
	r, err := segment.OpenReader(c.o.FS, s.path)
	var corrupt *segment.CorruptError
	if errors.As(err, &corrupt) {
		h := c.headerOf(s)
		s.header = &h
		c.finding(SegmentHeader, s.path, corrupt.Position, corrupt.Err)
		return segment.OpenReaderUnchecked(c.o.FS, s.path, h)
	}
	if err != nil {
		return nil, err
	}
	h := r.Header()
	switch {
	case h.ID != s.ID:
		s.missing, s.foreign = true, h.ID
		c.finding(SegmentForeign, s.path, 0, fmt.Sprintf("the header is that of %s", segment.FileName(h.ID)))
		return nil, r.Close()
	case h.Queue != s.Queue || h.Partition != s.Partition:
		want := c.headerOf(s)
		want.ExtentBytes = h.ExtentBytes
		s.header = &want
		c.finding(SegmentHeader, s.path, 0, fmt.Sprintf("of queue %d and partition %d, the catalogue says %d and %d",
			h.Queue, h.Partition, s.Queue, s.Partition))
	}
	return r, nil
}

// headerOf is the header that a segment should have. How large its extents were to be is
// in no other place; other segments most likely have the same.
func (c *checker) headerOf(s *segmentCheck) segment.FileHeader {
	h := segment.FileHeader{ID: s.ID, Queue: s.Queue, Partition: s.Partition, ExtentBytes: 64 << 10}
	for id := range c.state.segments {
		r, err := segment.OpenReader(c.o.FS, c.path(segmentsName, segment.FileName(id)))
		if err != nil {
			continue
		}
		h.ExtentBytes = r.Header().ExtentBytes
		_ = r.Close()
		break
	}
	return h
}

// checkRuns walks the runs of a segment. Their indexes are found from the end of the file,
// as a broker finds them; from the first that is damaged, from the front.
func (c *checker) checkRuns(s *segmentCheck, r *segment.Reader, limit int64) error {
	var runs []area
	end := limit
	for end > segment.FileHeaderLen && limit == s.Length {
		_, start, err := index.ReadIndex(r, end)
		if isCorrupt(err) {
			break
		}
		if err != nil {
			return err
		}
		runs = append(runs, area{start, end})
		end = start
	}
	if err := c.searchRuns(s, r, end); err != nil {
		return err
	}
	for _, a := range slices.Backward(runs) {
		if err := c.checkRunAt(s, r, a); err != nil {
			return err
		}
	}
	if limit < s.Length {
		s.dead = append(s.dead, area{limit, s.Length}) // told as a whole
	}
	return nil
}

// searchRuns walks the runs from the front of the file to end, of which something is
// damaged.
func (c *checker) searchRuns(s *segmentCheck, r *segment.Reader, end int64) error {
	for at := int64(segment.FileHeaderLen); at < end; {
		next, err := c.searchRun(s, r, at, end)
		if err != nil {
			return err
		}
		at = next
	}
	return nil
}

// searchRun finds out what begins at a position, and where it ends.
func (c *checker) searchRun(s *segmentCheck, r *segment.Reader, at, end int64) (next int64, err error) {
	trailer, start, err := findTrailer(r, at, end)
	if err != nil {
		return 0, err
	}
	if start == at {
		if _, _, err := index.ReadIndex(r, trailer); err == nil {
			return trailer, c.checkRunAt(s, r, area{at, trailer})
		} else if !isCorrupt(err) {
			return 0, err
		}
	}
	entries, stop, err := index.RebuildRun(r, at, end)
	if err == nil {
		run := run{at, stop, entries}
		s.rebuilt = append(s.rebuilt, run)
		c.finding(IndexDamaged, s.path, run.indexStart(), "the index of a run cannot be read")
		return stop, nil
	}
	if !isCorrupt(err) {
		return 0, err
	}
	stop = end
	switch {
	case start == at:
		stop = trailer // its own trailer, and entries that cannot be read
	case trailer > 0:
		stop = start
	}
	s.dead = append(s.dead, area{at, stop})
	c.finding(SegmentUnreadable, s.path, at, fmt.Sprintf("%d bytes: %v", stop-at, err))
	return stop, nil
}

// findTrailer looks for the first trailer behind a position that ends a run which begins
// there or later. It returns where the trailer ends and its run begins, 0 for none.
func findTrailer(r *segment.Reader, from, end int64) (trailerEnd, start int64, err error) {
	const window = 1 << 20
	mark := []byte{byte(segment.Magic & 0xff), segment.Magic >> 8, 3, 0}
	for at := from; at+index.TrailerLen <= end; at += window {
		b := make([]byte, min(window+index.TrailerLen, end-at))
		if err := r.ReadAt(b, at); err != nil {
			return 0, 0, err
		}
		for i := 8; ; i++ {
			n := bytes.Index(b[i:], mark)
			if n < 0 {
				break
			}
			i += n
			t, err := index.DecodeTrailer(b[i-8:])
			if err == nil && int64(t.RunStart) >= from && int64(t.RunStart) < at+int64(i)-8 {
				return at + int64(i) - 8 + index.TrailerLen, int64(t.RunStart), nil
			}
		}
	}
	return 0, 0, nil
}

// checkRunAt checks a run whose index can be read.
func (c *checker) checkRunAt(s *segmentCheck, r *segment.Reader, a area) error {
	entries, _, err := index.ReadIndex(r, a.to)
	if err != nil {
		return err
	}
	run := run{a.from, a.to, entries}
	before := len(s.lost)
	wrong, err := c.checkExtents(s, r, &run)
	if err != nil {
		return err
	}
	if wrong == nil {
		s.indexes = append(s.indexes, area{run.indexStart(), run.end - index.TrailerLen})
		return nil
	}
	// What is right about the batches is told when they are looked at without the index.
	s.lost = s.lost[:before]
	c.finding(IndexDamaged, s.path, run.indexStart(), wrong)
	rebuilt, stop, err := index.RebuildRun(r, a.from, a.to)
	switch {
	case err == nil && stop == a.to:
		run.entries = rebuilt
		s.rebuilt = append(s.rebuilt, run)
	case err == nil || isCorrupt(err):
		s.dead = append(s.dead, a)
	default:
		return err
	}
	return nil
}

// checkExtents holds the entries of a run against its batches. wrong says that they are of
// something else.
func (c *checker) checkExtents(s *segmentCheck, r *segment.Reader, run *run) (wrong, err error) {
	at := run.start
	for i := range run.entries {
		e := &run.entries[i]
		if int64(e.Position) != at || e.EndPosition() > run.indexStart() {
			return fmt.Errorf("an entry is for position %d, its batches begin at %d", e.Position, at), nil
		}
		if s.Partition != 0 && e.Partition != s.Partition && e.Partition != nobody {
			return fmt.Errorf("an entry of partition %d in the segment of partition %d", e.Partition, s.Partition), nil
		}
		if p := c.state.partitions[e.Partition]; p != nil && p.Queue != s.Queue {
			return fmt.Errorf("an entry of partition %d, which is of another queue", e.Partition), nil
		}
		c.extent = slices.Grow(c.extent[:0], int(e.Length))
		b := c.extent[:e.Length]
		if err := r.ReadAt(b, at); err != nil {
			return nil, err
		}
		if wrong := c.checkExtent(s, e, b); wrong != nil {
			return wrong, nil
		}
		at = e.EndPosition()
	}
	if at != run.indexStart() {
		return fmt.Errorf("the entries end at %d, the batches at %d", at, run.indexStart()), nil
	}
	c.report.Summary.Extents += int64(len(run.entries))
	return nil, nil
}

// checkExtent checks the batches of an extent. What cannot be read is told and listed;
// wrong says that the entry does not describe what can.
func (c *checker) checkExtent(s *segmentCheck, e *index.Located, b []byte) (wrong error) {
	next, lastMs := e.BaseOffset, e.FirstTimestampMs
	lost := false // the last batch, so that its time is not what it was
	for at := 0; at < len(b); {
		h, err := c.checkBatch(s, e, int64(e.Position)+int64(at), b[at:], next, lastMs)
		if err == nil {
			if lost = h.Lost(); at == 0 && !lost && h.TimestampMs != e.FirstTimestampMs {
				return fmt.Errorf("an entry says %d ms, its first batch %d ms", e.FirstTimestampMs, h.TimestampMs)
			}
			next, lastMs = h.EndOffset(), h.TimestampMs
			at += h.Len()
			continue
		}
		stop, resumes := resync(e, b, at, next)
		if lost = stop == len(b); lost {
			lastMs = e.LastTimestampMs
		}
		l := lostRange{
			area:      area{int64(e.Position) + int64(at), int64(e.Position) + int64(stop)},
			partition: e.Partition, offsets: Offsets{next, resumes}, timestampMs: lastMs,
		}
		s.lost = append(s.lost, l)
		c.of(c.finding(BatchDamaged, s.path, l.from, err), e.Partition, next, resumes)
		next, at = resumes, stop
	}
	if next != e.EndOffset() {
		return fmt.Errorf("an entry ends at offset %d, its batches at %d", e.EndOffset(), next)
	}
	if lastMs != e.LastTimestampMs && !lost {
		return fmt.Errorf("an entry says %d ms, its last batch %d ms", e.LastTimestampMs, lastMs)
	}
	return nil
}

// checkBatch verifies the batch at the front of b, its messages included.
func (c *checker) checkBatch(s *segmentCheck, e *index.Located, position int64, b []byte, next, lastMs int64) (segment.Header, error) {
	h, err := segment.Verify(b)
	switch {
	case err != nil:
		return h, err
	case h.Partition != e.Partition || h.BaseOffset != next || h.EndOffset() > e.EndOffset():
		return h, fmt.Errorf("%w: batch of partition %d from offset %d, want %d from %d", segment.ErrCorrupt, h.Partition, h.BaseOffset, e.Partition, next)
	case h.TimestampMs < lastMs:
		return h, fmt.Errorf("%w: batch at %d ms behind one at %d ms", segment.ErrCorrupt, h.TimestampMs, lastMs)
	}
	p := c.state.partitions[h.Partition]
	check := p != nil && !p.Hidden && c.ids.bits != nil && h.TimestampMs >= c.sinceMs
	c.report.Summary.Batches++
	if h.Lost() && p != nil && err == nil {
		c.report.Summary.Lost += max(0, h.EndOffset()-max(h.BaseOffset, p.start))
	}
	return h, c.state.messages(&h, b[:h.Len()], func(offset int64, m *segment.Message) {
		if check {
			c.checkID(s, position, p, offset, m)
		}
	})
}

// resync looks in an extent, behind a batch that cannot be read, for the next one that
// can. It returns its place and its base offset, or the ends of the extent.
func resync(e *index.Located, b []byte, from int, next int64) (at int, offset int64) {
	mark := []byte{byte(segment.Magic & 0xff), segment.Magic >> 8, segment.KindBatch}
	for i := from + segment.HeaderLen + 8; i < len(b); i++ {
		n := bytes.Index(b[i:], mark)
		if n < 0 {
			break
		}
		i += n
		h, err := segment.Verify(b[i-8:])
		if err == nil && h.Partition == e.Partition && h.BaseOffset > next && h.EndOffset() <= e.EndOffset() &&
			h.TimestampMs >= e.FirstTimestampMs && h.TimestampMs <= e.LastTimestampMs {
			return i - 8, h.BaseOffset
		}
	}
	return len(b), e.EndOffset()
}

// isCorrupt tells damage from an error of reading.
func isCorrupt(err error) bool {
	var corrupt *segment.CorruptError
	return errors.As(err, &corrupt)
}
