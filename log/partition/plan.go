package partition

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/skepmq/skep/index"
	"github.com/skepmq/skep/segment"
)

// plan decides where the batches of a File go. Making one writes nothing and changes
// nothing in the Store but the next segment id, so a failed File just drops it.
type plan struct {
	s      *Store
	tails  []Tail
	filed  []Filed // one a tail
	jobs   []*job
	sealed []SegmentInfo // active until now and too full to go on with

	headers []segment.Header // of the tail at hand
}

// job is what a File adds to one segment: one run.
type job struct {
	info   SegmentInfo // with the Length it will have, once finished
	create bool
	start  int64 // valid length so far, and start of the run
	end    int64 // of the batches placed so far
	packer index.Packer
	pieces []piece
	// spoiled is set by the writer: the sync has failed, so the file must not be
	// written again, or it does not open.
	spoiled bool
}

// piece is the part of a tail that goes to one segment.
type piece struct {
	tail    int
	batches [][]byte
	prev    index.Pointer // entry before its first one
	entries int           // it ends before this entry of the job
}

// makePlan places all tails. Errors: ErrTail, ErrFull.
func (s *Store) makePlan(tails []Tail) (*plan, error) {
	slices.SortFunc(tails, func(a, b Tail) int {
		return cmp.Or(cmp.Compare(a.Queue, b.Queue), cmp.Compare(a.Partition, b.Partition))
	})
	p := &plan{s: s, tails: tails, filed: make([]Filed, len(tails))}
	var shared *job
	for i := range tails {
		t := &tails[i]
		if i > 0 && tails[i-1].Queue != t.Queue {
			p.finish(shared)
			shared = nil
		}
		if i > 0 && tails[i-1].Partition == t.Partition && tails[i-1].Queue == t.Queue {
			return nil, fmt.Errorf("%w: two of partition %d", ErrTail, t.Partition)
		}
		bytes, err := p.check(t)
		if err != nil {
			return nil, err
		}
		p.filed[i] = Filed{
			Partition:       t.Partition,
			Newest:          t.Prev,
			EndOffset:       p.headers[len(p.headers)-1].EndOffset(),
			LastTimestampMs: p.headers[len(p.headers)-1].TimestampMs,
			Bytes:           bytes,
		}
		if t.Own || bytes >= int64(s.o.OwnBytes) {
			err = p.placeOwn(i)
		} else {
			shared, err = p.placeShared(shared, i, bytes)
		}
		if err != nil {
			return nil, err
		}
	}
	p.finish(shared)
	return p, nil
}

// check verifies the batches of a tail, fills p.headers and returns their length.
// This is the last moment at which bytes that went bad in memory can be told from
// those that go bad on the disk, and the journal still has them.
func (p *plan) check(t *Tail) (bytes int64, err error) {
	p.headers = p.headers[:0]
	if t.Partition == 0 || len(t.Batches) == 0 {
		return 0, fmt.Errorf("%w: partition %d, %d batches", ErrTail, t.Partition, len(t.Batches))
	}
	end := int64(0)
	for _, b := range t.Batches {
		h, err := segment.Verify(b)
		switch {
		case err != nil:
			return 0, fmt.Errorf("%w: partition %d after offset %d: %w", ErrTail, t.Partition, end, err)
		case h.Len() != len(b) || h.Partition != t.Partition || h.BaseOffset < end:
			return 0, fmt.Errorf("%w: partition %d after offset %d: batch of partition %d, offset %d, %d of %d bytes",
				ErrTail, t.Partition, end, h.Partition, h.BaseOffset, h.Len(), len(b))
		}
		end = h.EndOffset()
		bytes += int64(len(b))
		p.headers = append(p.headers, h)
	}
	return bytes, nil
}

// placeShared puts a small tail, whole, into the queue's shared segment. It returns
// the job of that segment: shared, or the one after it.
func (p *plan) placeShared(shared *job, tail int, bytes int64) (*job, error) {
	t := &p.tails[tail]
	need := bytes + int64(len(t.Batches))*index.EntryLen
	j, err := p.room(shared, owner{queue: t.Queue}, need)
	if err != nil {
		return nil, err
	}
	for i := range p.headers {
		j.place(&p.headers[i])
	}
	j.pieces = append(j.pieces, piece{tail: tail, batches: t.Batches, prev: t.Prev, entries: len(j.packer.Entries)})
	return j, nil
}

// placeOwn puts a large tail into segments of its partition, as many as it takes.
func (p *plan) placeOwn(tail int) error {
	t := &p.tails[tail]
	var j *job
	for from, i := 0, 0; i < len(p.headers); i++ {
		next, err := p.room(j, owner{t.Queue, t.Partition}, int64(p.headers[i].Len())+index.EntryLen)
		if err != nil {
			return err
		}
		if next != j {
			// room has finished j, so its newest entry has a place.
			j, from = next, i
			j.pieces = append(j.pieces, piece{tail: tail, prev: p.filed[tail].Newest})
		}
		j.place(&p.headers[i])
		part := &j.pieces[0]
		part.batches, part.entries = t.Batches[from:i+1], len(j.packer.Entries)
	}
	p.finish(j)
	return nil
}

// place takes the next batch of the run.
func (j *job) place(h *segment.Header) {
	j.packer.Add(h, uint32(j.end))
	j.end += int64(h.Len())
}

// room returns the job to which the owner's next need bytes go, entries included: j,
// which may be nil, if they fit, else, having finished j, that of another segment.
func (p *plan) room(j *job, key owner, need int64) (*job, error) {
	if j == nil {
		j = p.resume(key)
	}
	if j != nil {
		if j.end+index.Len(len(j.packer.Entries))+need <= p.s.o.SegmentBytes {
			return j, nil
		}
		j.info.Sealed = true
		p.finish(j)
	}
	return p.create(key)
}

// resume returns a job for the owner's active segment, nil if there is none.
func (p *plan) resume(key owner) *job {
	info, ok := p.s.activeSegment(key)
	if !ok {
		return nil
	}
	file, err := p.s.acquire(info.ID)
	if file == nil || file.Header().Queue != info.Queue || file.Header().Partition != info.Partition {
		// Dropped, or damaged, or unreadable now. Its readers will say so; filing
		// must go on.
		p.s.o.Logger.Warn().Err(err).Str("path", p.s.path(info.ID)).Msg("active segment given up")
		info.Sealed = true
		p.sealed = append(p.sealed, info)
		if file != nil {
			p.s.files.release(file)
		}
		return nil
	}
	defer p.s.files.release(file)
	return &job{
		info:   info,
		start:  info.Length,
		end:    info.Length,
		packer: index.Packer{ExtentBytes: file.Header().ExtentBytes},
	}
}

// create returns a job for a new segment.
func (p *plan) create(key owner) (*job, error) {
	id, err := p.s.takeID()
	if err != nil {
		return nil, err
	}
	return &job{
		info:   SegmentInfo{ID: id, Queue: key.queue, Partition: key.partition},
		create: true,
		start:  segment.FileHeaderLen,
		end:    segment.FileHeaderLen,
		packer: index.Packer{ExtentBytes: uint32(p.s.o.ExtentBytes)},
	}, nil
}

// finish gives the entries of a job their places, and so its tails their newest
// ones, and takes it into the plan. A job without batches only seals its segment.
func (p *plan) finish(j *job) {
	if j == nil {
		return
	}
	if len(j.pieces) == 0 {
		p.sealed = append(p.sealed, j.info)
		return
	}
	at := func(entry int) index.Pointer {
		return index.Pointer{Segment: j.info.ID, Position: uint32(j.end + int64(entry)*index.EntryLen)}
	}
	first := 0
	for _, part := range j.pieces {
		prev := part.prev
		for i := first; i < part.entries; i++ {
			j.packer.Entries[i].Prev = prev
			prev = at(i)
		}
		p.filed[part.tail].Newest = prev
		first = part.entries
	}
	j.info.Length = j.end + index.Len(len(j.packer.Entries))
	if j.info.Length >= p.s.o.SegmentBytes {
		j.info.Sealed = true
	}
	p.jobs = append(p.jobs, j)
}

func (s *Store) activeSegment(key owner) (SegmentInfo, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	info, ok := s.segments[s.active[key]]
	return info, ok
}

func (s *Store) takeID() (uint32, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.nextID > 1<<32-1 {
		return 0, ErrFull
	}
	s.nextID++
	return uint32(s.nextID - 1), nil
}
