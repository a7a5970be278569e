package partition

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"sync"

	"github.com/skepmq/skep/index"
	"github.com/skepmq/skep/segment"
)

// fileWriters is how many segments File writes and syncs at a time. Syncs of
// different files overlap in the disk; beyond a few they only queue.
const fileWriters = 8

// Tail is what is to be filed of one partition.
type Tail struct {
	Queue     uint32
	Partition uint64        // at least 1, and of one queue for ever
	Prev      index.Pointer // the partition's newest entry so far
	Batches   [][]byte      // sealed, in the order of their offsets
	// Own asks for segments of the partition's own whatever the size: what lives
	// longer than the rest of its queue must not hold the queue's segments.
	Own bool
}

// Filed is where a tail went.
type Filed struct {
	Partition       uint64
	Newest          index.Pointer
	EndOffset       int64 // one past the last message filed
	LastTimestampMs int64 // of the last batch filed
	Bytes           int64 // of the batches
}

// File writes tails to segments and syncs them and their directory. It sorts tails
// by queue and partition; the first result has one Filed for each, in that order.
// The second tells every segment that was created, grown or sealed, by id. The
// caller records all of it and then lets readers use the pointers.
//
// On an error nothing has changed for anyone, and the tails may be filed again; what
// was written is cut by the next File or Open. Errors: ErrTail, ErrFull, ErrClosed
// and those of the file system. File has one caller at a time. It only reads batches
// and keeps none.
func (s *Store) File(tails []Tail) ([]Filed, []SegmentInfo, error) {
	if err := s.beginFile(); err != nil {
		return nil, nil, err
	}
	defer s.endFile()
	p, err := s.makePlan(tails)
	if err != nil {
		return nil, nil, err
	}
	if err := s.write(p.jobs); err != nil {
		s.abandon(p.jobs)
		return nil, nil, err
	}
	return p.filed, s.commit(p), nil
}

func (s *Store) beginFile() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return ErrClosed
	case s.filing:
		panic("BUG: partition: two calls of File at a time")
	}
	s.filing, s.dropped = true, map[uint32]bool{}
	return nil
}

func (s *Store) endFile() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.filing, s.dropped = false, nil
}

// write runs the jobs, several at a time, and returns when all have ended.
func (s *Store) write(jobs []*job) error {
	var (
		wg    sync.WaitGroup
		errs  = make([]error, len(jobs))
		nextC = make(chan int)
	)
	for range min(fileWriters, len(jobs)) {
		wg.Go(func() {
			for i := range nextC {
				errs[i] = s.writeJob(jobs[i])
			}
		})
	}
	created := false
	for i, j := range jobs {
		nextC <- i
		created = created || j.create
	}
	close(nextC)
	wg.Wait()
	for i, err := range errs {
		// Drop may unlink a file before its job opens it.
		if err != nil && !s.isDropped(jobs[i].info.Queue) {
			return err
		}
	}
	if created {
		return s.syncDir()
	}
	return nil
}

// writeJob adds the run to its segment and syncs it.
func (s *Store) writeJob(j *job) error {
	w, err := s.openJob(j)
	if err != nil {
		j.spoiled = true
		return err
	}
	if err = j.writeRun(w); err == nil {
		err = w.Sync()
		j.spoiled = err != nil
	}
	return errors.Join(err, w.Close())
}

func (s *Store) openJob(j *job) (*segment.Writer, error) {
	path := s.path(j.info.ID)
	if !j.create {
		return segment.OpenWriter(s.o.FS, path, j.start)
	}
	return segment.Create(s.o.FS, path, segment.FileHeader{
		ID:          j.info.ID,
		Queue:       j.info.Queue,
		ExtentBytes: j.packer.ExtentBytes,
		Partition:   j.info.Partition,
	})
}

func (j *job) writeRun(w *segment.Writer) error {
	for _, part := range j.pieces {
		for _, b := range part.batches {
			if _, err := w.Append(b); err != nil {
				return err
			}
		}
	}
	if err := index.Write(w, j.packer.Entries, uint32(j.start)); err != nil {
		return err
	}
	if w.Len() != j.info.Length {
		panic(fmt.Sprintf("BUG: partition: segment %08x has %d bytes, planned %d", j.info.ID, w.Len(), j.info.Length))
	}
	return w.Flush()
}

func (s *Store) isDropped(queue uint32) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.dropped[queue]
}

// abandon undoes the jobs of a File that failed: new files go, and a segment that
// must not or cannot be written is sealed at its old length. The rest is cut when
// next written.
func (s *Store) abandon(jobs []*job) {
	for _, j := range jobs {
		path := s.path(j.info.ID)
		if j.create {
			// Nobody knows of it; what stays is removed by the next Open.
			if err := s.o.FS.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
				s.o.Logger.Warn().Err(err).Str("path", path).Msg("unrecorded segment left")
			}
			continue
		}
		if j.spoiled && s.reseal(j.info.ID) {
			s.o.Logger.Warn().Str("path", path).Int64("position", j.start).
				Msg("segment sealed after a failed write")
		}
	}
}

// reseal seals a segment at its old length. The next File tells the caller.
func (s *Store) reseal(id uint32) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	info, ok := s.segments[id]
	if !ok {
		return false
	}
	info.Sealed = true
	s.segments[id] = info
	delete(s.active, info.owner())
	s.resealed = append(s.resealed, id)
	return true
}

// commit makes a written plan the state of the store and returns what changed.
func (s *Store) commit(p *plan) []SegmentInfo {
	changed, orphans := s.commitLocked(p)
	if len(orphans) > 0 {
		// They belong to a queue that is gone; what stays is removed by the next Open.
		if err := s.unlink(orphans); err != nil {
			s.o.Logger.Warn().Err(err).Msg("segments of a dropped queue left")
		}
	}
	slices.SortFunc(changed, func(a, b SegmentInfo) int { return cmp.Compare(a.ID, b.ID) })
	return changed
}

func (s *Store) commitLocked(p *plan) (changed []SegmentInfo, orphans []uint32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range s.resealed {
		if info, ok := s.segments[id]; ok {
			changed = append(changed, info)
		}
	}
	s.resealed = nil
	for _, info := range p.sealed {
		if s.dropped[info.Queue] {
			continue
		}
		s.segments[info.ID] = info
		delete(s.active, info.owner())
		changed = append(changed, info)
	}
	for _, j := range p.jobs {
		switch {
		case !s.dropped[j.info.Queue]:
			s.segments[j.info.ID] = j.info
			s.newest[j.info.ID] = max(s.newest[j.info.ID], j.newestMs())
			s.setActive(j.info)
			changed = append(changed, j.info)
			s.written += j.written()
		case j.create:
			orphans = append(orphans, j.info.ID)
		}
	}
	return changed, orphans
}

// setActive keeps track of the owner's active segment. Jobs come in the order in
// which their segments are filled.
func (s *Store) setActive(info SegmentInfo) {
	if info.Sealed {
		delete(s.active, info.owner())
		return
	}
	s.active[info.owner()] = info.ID
}

func (j *job) written() int64 {
	if j.create {
		return j.info.Length
	}
	return j.info.Length - j.start
}
