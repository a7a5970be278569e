package journal

import (
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"github.com/skepmq/skep/log/wal"
	"github.com/skepmq/skep/segment/vfs"
)

var (
	// ErrFailed says that a write or sync has failed: what was waiting may or may
	// not be on disk, and nothing is written until the journal is opened again.
	ErrFailed = errors.New("journal: a write or sync has failed")
	// ErrClosed answers an Append after Close.
	ErrClosed = errors.New("journal: closed")
)

// SyncMode says when a group's waiters are released.
type SyncMode uint8

// The modes. Only SyncGroup keeps the promise that an answered write is on disk.
const (
	SyncGroup    SyncMode = iota // after the sync of their group
	SyncInterval                 // after the write; a sync follows within Options.Interval
	SyncNever                    // after the write; the kernel decides
)

const (
	chunkBytes = 1 << 20
	// lazyDelay bounds how long frames that nobody waits for stay unwritten.
	lazyDelay = 50 * time.Millisecond
	// slowSync is the sync that an operator should hear of, at most once a second.
	slowSync = time.Second
	// maxYields bounds how often the committer lets other goroutines run first; see
	// letWaitersGather.
	maxYields = 4
)

// Options configure a Journal. Dir is required.
type Options struct {
	FS           vfs.FS // nil: the operating system's
	Dir          string
	LogID        uint64 // of the data directory; each generation's log mixes in its number
	Filed        uint64 // generations up to this one are filed: removed, not replayed
	Sync         SyncMode
	Interval     time.Duration // of SyncInterval; 0: 100 ms
	MaxUnfiled   int64         // bytes; 0: 512 MiB
	SegmentBytes int           // of the log below; 0: its default
	Logger       zerolog.Logger
	// Gather is called before a group is taken for a waiter; nil: nothing is. A test that
	// sleeps there has in one group what can come together, whatever the scheduler does.
	Gather func()
}

// Journal is the commit journal. Its methods are safe for concurrent use, except that
// Rotate and Drop belong to one caller, the checkpoint.
type Journal struct {
	o Options

	mu      sync.Mutex
	open    *group
	chunk   []byte // memory from the open group's last buffer on
	lazy    bool   // the open group has frames and the lazy timer runs
	err     error  // sticky
	closing bool

	wakeC   chan struct{} // capacity 1: the open group is waited for
	lazyC   chan struct{} // capacity 1: the open group has unwaited frames
	rotateC chan rotation
	stopC   chan struct{}
	failedC chan struct{}
	wg      sync.WaitGroup

	log        *wal.Log // the committer's
	generation uint64   // the committer's

	appended atomic.Int64 // bytes since Open
	unfiled  atomic.Int64 // bytes of all generations
	current  atomic.Int64 // bytes of the current one

	sizesMu sync.Mutex
	sizes   map[uint64]int64 // bytes by sealed generation
	freed   *sync.Cond       // of sizesMu: unfiled has fallen, or there is no hope
	refusal error            // see Refuse

	stats counters
	cut   int64 // bytes, of torn tails, by Open
}

// group is the frames that one sync will make durable. Its buffers are an entry each:
// what was appended in one call lies in one of them, so it is whole or absent.
type group struct {
	full    [][]byte // buffers whose chunk is used up
	buf     []byte   // wal.Headroom bytes, then frames
	wanted  bool     // someone waits; guarded by Journal.mu, as is barrier
	barrier bool     // sync whatever the mode: a Flush waits
	frames  int
	ops     [Ops]int32 // of these frames
	doneC   chan struct{}
	err     error // set before doneC closes
}

// Ticket stands for frames on their way to disk. The zero Ticket is durable already.
type Ticket struct{ g *group }

// Wait returns when the frames are on disk, or ErrFailed.
func (t Ticket) Wait() error {
	if t.g == nil {
		return nil
	}
	<-t.g.doneC
	return t.g.err
}

type rotation struct {
	log   *wal.Log
	reply chan struct{}
}

// Open opens the journal in o.Dir. It hands each entry that is not filed to replay, in
// order, with the generation that holds it; the frames are the callee's to keep. Then it
// starts a new generation and the committer.
func Open(o Options, replay func(generation uint64, frames []byte) error) (*Journal, error) {
	if o.FS == nil {
		o.FS = vfs.OS
	}
	if o.MaxUnfiled <= 0 {
		o.MaxUnfiled = 512 << 20
	}
	if o.Interval <= 0 {
		o.Interval = 100 * time.Millisecond
	}
	j := &Journal{
		o:       o,
		wakeC:   make(chan struct{}, 1),
		lazyC:   make(chan struct{}, 1),
		rotateC: make(chan rotation),
		stopC:   make(chan struct{}),
		failedC: make(chan struct{}),
		sizes:   map[uint64]int64{},
	}
	j.freed = sync.NewCond(&j.sizesMu)
	last, err := j.replay(replay)
	if err != nil {
		return nil, err
	}
	j.generation = last + 1
	if j.log, err = j.create(j.generation); err != nil {
		return nil, err
	}
	j.open = j.newGroup(0)
	j.wg.Go(j.commit)
	return j, nil
}

// Append queues frames and returns where they stand in memory from now on, and their
// ticket. stored is to be read only. With lazy nobody will wait: the frames ride along
// with the next group, or are committed within 50 ms.
func (j *Journal) Append(frames []byte, lazy bool) (stored []byte, t Ticket) {
	return j.AppendFor(OpOther, frames, lazy)
}

// AppendFor is Append, counted for op.
func (j *Journal) AppendFor(op Op, frames []byte, lazy bool) (stored []byte, t Ticket) {
	j.mu.Lock()
	if j.err != nil || j.closing {
		t = j.refused()
		j.mu.Unlock()
		return nil, t
	}
	g := j.open
	j.reserve(g, len(frames))
	start := len(g.buf)
	g.buf = append(g.buf, frames...)
	stored = g.buf[start:len(g.buf):len(g.buf)]
	g.frames++
	g.ops[op]++
	wake := j.wakeC
	if lazy {
		wake = j.lazyC
	}
	send := (lazy && !j.lazy && !g.wanted) || (!lazy && !g.wanted)
	if lazy {
		j.lazy = true
	} else {
		g.wanted = true
	}
	j.mu.Unlock()
	if send {
		signal(wake)
	}
	j.appended.Add(int64(len(frames)))
	j.unfiled.Add(int64(len(frames)))
	j.current.Add(int64(len(frames)))
	return stored, Ticket{g}
}

func signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

func (j *Journal) refused() Ticket {
	g := &group{doneC: make(chan struct{}), err: j.err}
	if g.err == nil {
		g.err = ErrClosed
	}
	close(g.doneC)
	return Ticket{g}
}

// Join returns the ticket of everything appended before the call, for an answer that
// depends on what others have appended.
func (j *Journal) Join() Ticket { return j.join(false) }

// Flush returns when everything appended before the call is on disk, in every mode.
func (j *Journal) Flush() error { return j.join(true).Wait() }

func (j *Journal) join(barrier bool) Ticket {
	j.mu.Lock()
	if j.err != nil || j.closing {
		defer j.mu.Unlock()
		return j.refused()
	}
	// The group in flight, if any, is done before this one, so waiting for this one
	// is enough, also when it is empty.
	g := j.open
	send := !g.wanted
	g.wanted = true
	g.barrier = g.barrier || barrier
	j.mu.Unlock()
	if send {
		signal(j.wakeC)
	}
	return Ticket{g}
}

// Failed is closed after the first failed write or sync.
func (j *Journal) Failed() <-chan struct{} { return j.failedC }

// Err returns the sticky error, nil while the journal works.
func (j *Journal) Err() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.err
}

// Close commits what is queued, waits for the committer and closes the log.
func (j *Journal) Close() error {
	j.mu.Lock()
	if j.closing {
		j.mu.Unlock()
		return nil
	}
	j.closing = true
	j.mu.Unlock()
	close(j.stopC)
	j.wg.Wait()
	j.wakeAdmit()
	return j.log.Close()
}

func (j *Journal) path(generation uint64) string {
	return filepath.Join(j.o.Dir, fmt.Sprintf("%020d", generation))
}

func (j *Journal) walOptions(generation uint64) wal.Options {
	return wal.Options{
		FS: j.o.FS, Dir: j.path(generation), LogID: j.o.LogID ^ generation*0x9e3779b97f4a7c15,
		SegmentBytes: j.o.SegmentBytes, Direct: true, Logger: j.o.Logger,
	}
}

// create makes the log of a new generation and its name durable. What an attempt has left
// that failed is removed first: its header may be in memory alone, for good, a sync that
// succeeds after one that has failed would not tell, and there may be no room for a copy.
func (j *Journal) create(generation uint64) (*wal.Log, error) {
	if err := j.o.FS.RemoveAll(j.path(generation)); err != nil {
		return nil, fmt.Errorf("start journal generation %d: %w", generation, err)
	}
	l, _, err := wal.Open(j.walOptions(generation), nil)
	if err != nil {
		return nil, fmt.Errorf("start journal generation %d: %w", generation, err)
	}
	if err := j.o.FS.SyncDir(j.o.Dir); err != nil {
		return nil, errors.Join(fmt.Errorf("start journal generation %d: %w", generation, err), l.Close())
	}
	return l, nil
}

// newGroup cuts an empty group with room for n bytes of frames from the chunk.
func (j *Journal) newGroup(n int) *group {
	if need := wal.Headroom + n; len(j.chunk) < need {
		j.chunk = make([]byte, max(chunkBytes, need))
	}
	return &group{buf: j.chunk[:wal.Headroom], doneC: make(chan struct{})}
}

// reserve makes room for n more bytes in the open group, in a buffer in a new chunk when
// the current one is used up. Nothing is copied: what was handed out stays where it is.
func (j *Journal) reserve(g *group, n int) {
	if len(g.buf)+n <= len(j.chunk) {
		return
	}
	if len(g.buf) > wal.Headroom {
		g.full = append(g.full, g.buf)
	}
	j.chunk = make([]byte, max(chunkBytes, wal.Headroom+n))
	g.buf = j.chunk[:wal.Headroom]
}

// counters are atomics so that Stats never waits.
type counters struct {
	groups, frames, syncs, syncNs, bytes, slow atomic.Int64
	took                                       [len(SyncBounds) + 1]atomic.Int64
	ops                                        [Ops]opCounters
}

// SyncBounds divide syncs by how long they took.
var SyncBounds = [...]time.Duration{
	100 * time.Microsecond, 200 * time.Microsecond, 300 * time.Microsecond, 500 * time.Microsecond, 700 * time.Microsecond,
	1 * time.Millisecond, 1500 * time.Microsecond, 2 * time.Millisecond, 3 * time.Millisecond, 5 * time.Millisecond,
	7 * time.Millisecond, 10 * time.Millisecond, 15 * time.Millisecond, 20 * time.Millisecond, 30 * time.Millisecond,
	50 * time.Millisecond, 70 * time.Millisecond, 100 * time.Millisecond, 200 * time.Millisecond, 500 * time.Millisecond,
	1 * time.Second, 2 * time.Second, 5 * time.Second, 10 * time.Second,
}

// SyncCounts are syncs, by the first of SyncBounds that they did not exceed; the last are
// those beyond all.
type SyncCounts [len(SyncBounds) + 1]int64

// Minus returns what has come since earlier.
func (c *SyncCounts) Minus(earlier *SyncCounts) (d SyncCounts) {
	for i := range c {
		d[i] = c[i] - earlier[i]
	}
	return d
}

func (c *counters) synced(took time.Duration) {
	c.syncs.Add(1)
	c.syncNs.Add(int64(took))
	if took >= slowSync {
		c.slow.Add(1)
	}
	c.took[SyncBucket(took)].Add(1)
}

// SyncBucket returns where SyncCounts counts a duration.
func SyncBucket(took time.Duration) (i int) {
	for i < len(SyncBounds) && took > SyncBounds[i] {
		i++
	}
	return i
}

// Quantile returns a bound that a share q of what was counted does not exceed; 0 when
// nothing was. What lies beyond all bounds counts as the last.
func (c *SyncCounts) Quantile(q float64) time.Duration {
	var total, seen int64
	for _, n := range c {
		total += n
	}
	rank := max(int64(math.Ceil(q*float64(total))), 1)
	for i, n := range c {
		if seen += n; seen >= rank {
			return SyncBounds[min(i, len(SyncBounds)-1)]
		}
	}
	return 0
}

// Stats are counters since Open.
type Stats struct {
	Groups   int64         // entries written
	Frames   int64         // appends they held
	Syncs    int64         // syncs of the journal
	SyncTime time.Duration // spent in them
	Slow     int64         // syncs of a second or more
	Took     SyncCounts
	Ops      [Ops]OpStats
	Bytes    int64 // written, envelopes included
	Unfiled  int64 // bytes that no checkpoint has filed yet
	Cut      int64 // bytes of torn tails that Open has cut
}

// Stats returns the counters.
func (j *Journal) Stats() Stats {
	st := Stats{
		Groups: j.stats.groups.Load(), Frames: j.stats.frames.Load(),
		Syncs: j.stats.syncs.Load(), SyncTime: time.Duration(j.stats.syncNs.Load()),
		Slow: j.stats.slow.Load(), Bytes: j.stats.bytes.Load(), Unfiled: j.Unfiled(), Cut: j.cut,
	}
	for i := range st.Took {
		st.Took[i] = j.stats.took[i].Load()
	}
	for op := range st.Ops {
		st.Ops[op] = j.stats.ops[op].load()
	}
	return st
}
