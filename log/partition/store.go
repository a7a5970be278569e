package partition

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"sync"

	"github.com/rs/zerolog"

	"github.com/skepmq/skep/segment"
	"github.com/skepmq/skep/segment/vfs"
)

var (
	// ErrClosed answers calls after Close.
	ErrClosed = errors.New("partition: store closed")
	// ErrMissing says that a segment of the catalogue has no file.
	ErrMissing = errors.New("partition: segment file missing")
	// ErrTail refuses tails that cannot be filed. Nothing was written.
	ErrTail = errors.New("partition: invalid tail")
	// ErrFull says that all segment ids are used.
	ErrFull = errors.New("partition: segment ids exhausted")
)

// maxSegmentBytes bounds Options.SegmentBytes: positions have 32 bits, and a single
// batch of up to a gibibyte may come on top.
const maxSegmentBytes = 2 << 30

// Options configures a Store. The zero value of a field means its default.
type Options struct {
	FS  vfs.FS // nil: the operating system's
	Dir string // holds the .seg files and nothing else; made if missing

	SegmentBytes int64 // a segment is sealed rather than grown beyond this; 64 MiB, at most 2 GiB
	OwnBytes     int   // tails from this size on get segments of their own; 1 MiB
	ExtentBytes  int   // an extent is closed rather than grown beyond this; 64 KiB
	MaxOpenFiles int   // kept open for reading; 256
	CacheBytes   int64 // of extents and chains read lately; 32 MiB

	// FirstID is the least id a new segment gets. A catalogue that forgets dropped
	// segments passes one more than the largest id it ever saw: pointers into a
	// dropped segment may still be around and must not meet another one.
	FirstID uint32

	Logger zerolog.Logger
}

func (o *Options) setDefaults() {
	if o.FS == nil {
		o.FS = vfs.OS
	}
	setDefault(&o.SegmentBytes, 64<<20)
	setDefault(&o.OwnBytes, 1<<20)
	setDefault(&o.ExtentBytes, 64<<10)
	setDefault(&o.MaxOpenFiles, 256)
	setDefault(&o.CacheBytes, 32<<20)
	o.SegmentBytes = min(o.SegmentBytes, maxSegmentBytes)
	// A shared run takes a small tail whole, so it must fit a segment.
	o.OwnBytes = int(min(int64(o.OwnBytes), o.SegmentBytes))
	o.ExtentBytes = int(min(int64(o.ExtentBytes), o.SegmentBytes))
}

func setDefault[T int | int64](v *T, value T) {
	if *v <= 0 {
		*v = value
	}
}

// SegmentInfo is what a catalogue keeps of a segment.
type SegmentInfo struct {
	ID        uint32
	Queue     uint32
	Partition uint64 // whose own it is; 0: shared by those of the queue
	Length    int64  // valid bytes of the file
	Sealed    bool   // never written again
	// Replaces are the segments whose pointers this one answers: it holds what was needed
	// of them. Empty but for one that Rewrite has made.
	Replaces []uint32
}

// owner is who may put batches into a segment.
type owner struct {
	queue     uint32
	partition uint64
}

func (i *SegmentInfo) owner() owner { return owner{i.Queue, i.Partition} }

// Stats are counters of a Store.
type Stats struct {
	Segments     int
	Bytes        int64 // valid bytes of all segments
	OpenFiles    int   // for reading
	BytesWritten int64 // by successful calls of File and Rewrite since Open
	CacheBytes   int64
}

// Store holds the segments of all queues. Read, OffsetAt, Drop, Hold and Stats are safe
// for concurrent use, also beside File, which has one caller at a time.
type Store struct {
	o     Options
	files *files
	cache *cache
	large chan struct{} // a turn for each large extent being read

	mu       sync.Mutex
	segments map[uint32]SegmentInfo
	active   map[owner]uint32  // the segment File goes on with
	newest   map[uint32]int64  // append time of the newest message, where it is known
	moved    map[uint32]uint32 // by segment that is gone: the one that replaces it
	nextID   uint64            // beyond 32 bits when all are used
	filing   bool              // a File runs
	dropped  map[uint32]bool   // queues dropped since it started
	resealed []uint32          // abandoned by a failed File and not yet reported as sealed
	held     *Held             // whose files stay for now; nil: nobody's
	written  int64
	closed   bool
}

// Open opens the store of the segments in live, which is all the caller knows of. A
// file longer than its Length is cut, a segment file not in live is removed: both
// are left by a checkpoint that was not recorded. A file that is missing or shorter than
// its Length is damage: it is logged, and reads of what it held answer with a
// *segment.CorruptError. Errors: ErrMissing when every file is missing.
func Open(o Options, live []SegmentInfo) (*Store, error) {
	o.setDefaults()
	if err := vfs.MakeDir(o.FS, o.Dir); err != nil {
		return nil, fmt.Errorf("make segment directory: %w", err)
	}
	s := &Store{
		o:        o,
		files:    newFiles(o.FS, o.Dir, o.MaxOpenFiles),
		cache:    newCache(o.CacheBytes),
		large:    make(chan struct{}, largeReads),
		segments: make(map[uint32]SegmentInfo, len(live)),
		active:   map[owner]uint32{},
		newest:   map[uint32]int64{},
		moved:    map[uint32]uint32{},
		nextID:   max(1, uint64(o.FirstID)),
	}
	for _, info := range live {
		s.segments[info.ID] = info
		s.nextID = max(s.nextID, uint64(info.ID)+1)
		for _, id := range info.Replaces {
			s.moved[id] = info.ID
		}
		if !info.Sealed {
			s.active[info.owner()] = info.ID
		}
	}
	longer, err := s.check()
	if err != nil {
		return nil, err
	}
	for _, id := range longer {
		if err := s.trim(id); err != nil {
			return nil, err
		}
	}
	return s, s.removeUnknown()
}

// check looks at the length of every segment before anything is changed: a list that
// does not belong to this directory must not destroy it. It returns those to be cut. One
// that is missing or too short is damage: it stays in the list, nothing more is written
// to it, and whoever reads what it held is told. If all are missing, nothing is right.
func (s *Store) check() (longer []uint32, err error) {
	var missing []string
	for id, info := range s.segments {
		path := s.path(id)
		size, err := s.o.FS.Size(path)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			missing = append(missing, path)
			s.damaged(id, &segment.CorruptError{Path: path, Err: ErrMissing})
		case err != nil:
			return nil, fmt.Errorf("size of segment: %w", err)
		case size < info.Length:
			s.damaged(id, &segment.CorruptError{Path: path, Position: size, Err: segment.ErrShort})
		case size > info.Length:
			longer = append(longer, id)
		}
	}
	if len(missing) > 0 && len(missing) == len(s.segments) {
		return nil, fmt.Errorf("%w: all of them, %s among them", ErrMissing, slices.Min(missing))
	}
	slices.Sort(longer)
	return longer, nil
}

// damaged takes a segment out of use but for reading what is left of it.
func (s *Store) damaged(id uint32, err error) {
	info := s.segments[id]
	info.Sealed = true
	s.segments[id] = info
	delete(s.active, info.owner())
	s.o.Logger.Error().Err(err).Uint32("queue", info.Queue).Msg("segment damaged, its partitions will be out of service")
}

// trim cuts the file of a segment to its length. That needs no sync: if the cut is
// lost in a crash, the next Open makes it again.
func (s *Store) trim(id uint32) error {
	path, length := s.path(id), s.segments[id].Length
	w, err := segment.OpenWriter(s.o.FS, path, length)
	if err != nil {
		return err
	}
	if err := w.Close(); err != nil {
		return err
	}
	s.o.Logger.Info().Str("path", path).Int64("position", length).Msg("unrecorded end of segment cut")
	return nil
}

// removeUnknown removes the segment files that are not in the list.
func (s *Store) removeUnknown() error {
	names, err := s.o.FS.List(s.o.Dir)
	if err != nil {
		return fmt.Errorf("list segments: %w", err)
	}
	removed := false
	for _, name := range names {
		id, ok := segment.ParseFileName(name)
		if _, known := s.segments[id]; !ok || known {
			continue
		}
		path := filepath.Join(s.o.Dir, name)
		if err := s.o.FS.Remove(path); err != nil {
			return fmt.Errorf("remove unrecorded segment: %w", err)
		}
		removed = true
		s.o.Logger.Info().Str("path", path).Msg("unrecorded segment removed")
	}
	if !removed {
		return nil
	}
	return s.syncDir()
}

func (s *Store) syncDir() error {
	if err := s.o.FS.SyncDir(s.o.Dir); err != nil {
		return fmt.Errorf("sync segment directory: %w", err)
	}
	return nil
}

func (s *Store) path(id uint32) string {
	return filepath.Join(s.o.Dir, segment.FileName(id))
}

// acquire returns the file of a segment for reading, nil if the segment was dropped
// or never was. The caller releases it.
func (s *Store) acquire(id uint32) (*openFile, error) {
	if known, err := s.known(id); !known {
		return nil, err
	}
	file, err := s.files.acquire(id)
	if known, _ := s.known(id); !known {
		// Dropped while it was opened: Drop cannot have told files to forget it.
		s.files.forget(id)
		if err != nil {
			return nil, nil
		}
	}
	return file, err
}

func (s *Store) known(id uint32) (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false, ErrClosed
	}
	_, ok := s.segments[id]
	return ok, nil
}

// Drop forgets the segments of a deleted queue and unlinks them. Readers in flight
// finish; a later Read finds nothing. The caller files no more tails of the queue,
// but a File that runs meanwhile may hold some: their segments go as well. On an
// error files may be left, which the next Open removes.
func (s *Store) Drop(queue uint32) error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return ErrClosed
	}
	if s.filing {
		s.dropped[queue] = true
	}
	var ids []uint32
	for id, info := range s.segments {
		if info.Queue == queue {
			ids = append(ids, id)
			s.forgetLocked(id)
		}
	}
	s.mu.Unlock()
	slices.Sort(ids)
	return s.unlink(ids)
}

// forgetLocked takes a segment out of the list. Pointers into it, and into those it
// replaces, lead nowhere then.
func (s *Store) forgetLocked(id uint32) {
	info := s.segments[id]
	delete(s.segments, id)
	delete(s.newest, id)
	if s.active[info.owner()] == id {
		delete(s.active, info.owner())
	}
	for _, gone := range info.Replaces {
		delete(s.moved, gone)
	}
}

// unlink removes the files of segments that are no longer in the list.
func (s *Store) unlink(ids []uint32) error {
	for _, id := range ids {
		s.files.forget(id)
	}
	if ids = s.keepHeld(ids); len(ids) == 0 {
		return nil
	}
	var errs []error
	for _, id := range ids {
		if err := s.o.FS.Remove(s.path(id)); err != nil {
			errs = append(errs, fmt.Errorf("remove segment: %w", err))
		}
	}
	return errors.Join(append(errs, s.syncDir())...)
}

// Stats returns the counters of the store.
func (s *Store) Stats() Stats {
	st := Stats{OpenFiles: s.files.open(), CacheBytes: s.cache.size()}
	s.mu.Lock()
	defer s.mu.Unlock()
	st.Segments, st.BytesWritten = len(s.segments), s.written
	for _, info := range s.segments {
		st.Bytes += info.Length
	}
	return st
}

// Close closes the store. It comes after the last File; reads in flight finish, and
// the last of each file closes it.
func (s *Store) Close() error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return ErrClosed
	}
	if s.filing {
		panic("BUG: partition: Close during File")
	}
	s.closed = true
	s.mu.Unlock()
	return s.files.close()
}
