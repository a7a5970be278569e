package broker

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/skepmq/skep/broker/lease"
	"github.com/skepmq/skep/index/dedup"
	"github.com/skepmq/skep/log/catalog"
	"github.com/skepmq/skep/log/journal"
	"github.com/skepmq/skep/log/offsets"
	partlog "github.com/skepmq/skep/log/partition"
	"github.com/skepmq/skep/log/record"
	"github.com/skepmq/skep/segment"
)

// Open opens the data directory o.Dir, making it if it is missing, and recovers what it
// held: the homes are loaded, the journal is replayed over them. It returns when the
// broker serves. Errors: vfs.ErrLocked if another process has the directory, and
// corruption errors that name file and position.
func Open(o Options) (*Broker, error) {
	o.setDefaults()
	b := &Broker{
		o: o, maxEncrypted: maxEncrypted, log: o.Logger, clock: newClock(o.Now, o.Wall, o.Logger),
		queues: map[queueKey]*queue{}, byNumber: map[uint32]*queue{}, groups: map[uint32]*group{},
		nextQueue: 1, nextGroup: 1, grown: map[uint32]partlog.SegmentInfo{}, leases: &lease.Table{},
		checkpointC: make(chan struct{}, 1), stopC: make(chan struct{}), closeC: make(chan struct{}),
	}
	b.nextPartition.Store(1)
	b.batchSeq.Store(o.Random())
	b.wheel.init(b.clock.mono())
	b.maintenance.init()
	if err := o.FS.MkdirAll(o.Dir); err != nil {
		return nil, fmt.Errorf("make data directory: %w", err)
	}
	lock, err := o.FS.Lock(filepath.Join(o.Dir, "LOCK"))
	if err != nil {
		return nil, fmt.Errorf("lock data directory %s: %w", o.Dir, err)
	}
	b.lock = lock
	if err := b.recover(); err != nil {
		return nil, errors.Join(err, b.closeFiles())
	}
	b.warnKeyMissing()
	b.checkSpace()
	b.checkMemory()
	b.wg.Go(b.checkpointer)
	b.wg.Go(b.turnWheel)
	b.wg.Go(b.watchSpace)
	b.wg.Go(b.sweepParked)
	b.wg.Go(b.retainer)
	if b.journal.Unfiled() > 0 {
		b.poke()
	}
	if err := b.drainLeftover(); err != nil {
		return nil, errors.Join(err, b.Close())
	}
	b.wg.Go(b.drainSpool)
	return b, nil
}

// closeFiles closes what is open, the journal first.
func (b *Broker) closeFiles() error {
	var errs []error
	if b.journal != nil {
		errs = append(errs, b.journal.Close())
	}
	if b.ids != nil {
		errs = append(errs, b.ids.Close())
	}
	if b.offsets != nil {
		errs = append(errs, b.offsets.Close())
	}
	if b.store != nil {
		errs = append(errs, b.store.Close())
	}
	if b.catalog != nil {
		errs = append(errs, b.catalog.Close())
	}
	return errors.Join(append(errs, b.lock.Close())...)
}

// recover loads the homes and replays the journal, and logs how long each part took.
func (b *Broker) recover() error {
	start := time.Now()
	event := b.log.Info()
	r := &recovery{
		b: b, segments: map[uint32]partlog.SegmentInfo{},
		deletedQueues: map[uint32]bool{}, orphans: map[uint64]bool{}, gaps: map[*partition]int64{},
		lost: map[uint32]string{},
	}
	step := func(name string, fn func() error) error {
		began := time.Now()
		err := fn()
		took := time.Since(began) + r.beside
		event = event.Str(name, rounded(took))
		b.recovered = append(b.recovered, Phase{name, took})
		r.beside = 0
		return err
	}
	r.beginIDs()
	defer r.loading.Wait() // whatever becomes of the rest, who closes the files closes the index
	for _, s := range []struct {
		name string
		fn   func() error
	}{
		{"catalogue", r.openCatalog}, {"segments", r.openStore}, {"offsets", r.openOffsets},
		{"transaction_ids", r.openIDs}, {"journal", r.openJournal}, {"leases", r.restoreLeases},
		{"retention", r.retain}, {"spool", r.findSpool},
	} {
		if err := step(s.name, s.fn); err != nil {
			return err
		}
	}
	b.recovered = append(b.recovered, Phase{"total", time.Since(start)})
	segments := b.store.Stats()
	event.Str("total", rounded(time.Since(start))).Int("queues", len(b.queues)).Int("partitions", b.partitions.count()).
		Int("segment_files", segments.Segments).Int64("segment_bytes", segments.Bytes).
		Int64("replayed_bytes", b.journal.Unfiled()).Int64("cut_bytes", b.journal.Stats().Cut).Str("path", b.o.Dir).Msg("data directory recovered")
	return nil
}

func rounded(d time.Duration) string { return d.Round(10 * time.Microsecond).String() }

// recovery is the state of one Open.
type recovery struct {
	b        *Broker
	meta     record.Meta
	found    bool // the directory was there, with a catalogue
	segments map[uint32]partlog.SegmentInfo
	entries  []dedup.Entry // ids of replayed batches
	scratch  []byte

	loading  sync.WaitGroup // of the index of transaction ids, beside the catalogue and the cursors
	idsFound dedup.Recovery
	idsErr   error
	idsTook  time.Duration
	beside   time.Duration // what the step at hand has taken beside others
	// Deletions seen, so that a record of something unknown is told from one of something
	// that is gone.
	deletedQueues map[uint32]bool
	orphans       map[uint64]bool      // partitions that were removed, or their queues deleted
	gaps          map[*partition]int64 // batches up to here are missing, to be excused by its deletion
	lost          map[uint32]string    // a partition of each queue that is unknown, to be excused likewise
	stray         string               // a batch of an unknown partition, to be excused by any deletion; "": none
}

func (r *recovery) openCatalog() (err error) {
	b := r.b
	b.catalog, err = catalog.Open(catalog.Options{FS: b.o.FS, Dir: filepath.Join(b.o.Dir, "catalog"), Logger: b.o.LoggerOf("catalog")}, r.load)
	if err != nil {
		return err
	}
	if r.meta.Directory == 0 {
		return r.newDirectory()
	}
	r.found = true
	b.directory, b.filed, b.nextSegment = r.meta.Directory, r.meta.Generation, r.meta.NextSegment
	b.nextQueue = max(b.nextQueue, r.meta.NextQueue)
	b.nextGroup = max(b.nextGroup, r.meta.NextGroup)
	raiseTo(&b.nextPartition, r.meta.NextPartition)
	r.resumeClock()
	return nil
}

// resumeClock lets time go on from the newest message found so far.
func (r *recovery) resumeClock() {
	newest := int64(0)
	for _, q := range r.b.queues {
		newest = max(newest, q.newestMs.Load())
	}
	r.b.clock.resume(newest)
}

// newDirectory gives a new data directory its identity. A directory that has a journal
// is not new: its catalogue is lost, and starting over would lose everything.
func (r *recovery) newDirectory() error {
	names, err := r.b.o.FS.List(r.b.o.Dir)
	if err != nil {
		return err
	}
	for _, name := range names {
		if name == "journal" || name == "segments" {
			return fmt.Errorf("data directory %s has a %s but no catalogue: restore catalog/ from a backup, or move the directory away", r.b.o.Dir, name)
		}
	}
	r.b.directory = r.b.o.Random() | 1
	meta := r.b.meta(0)
	err = r.b.catalog.Commit(func(emit func([]byte) ([]byte, error)) error {
		_, err := emit(record.AppendMeta(nil, &meta))
		return err
	})
	if err != nil {
		return err
	}
	return r.b.o.FS.SyncDir(r.b.o.Dir)
}

// has reports whether the data directory holds a name.
func (r *recovery) has(name string) bool {
	names, err := r.b.o.FS.List(r.b.o.Dir)
	return err == nil && slices.Contains(names, name)
}

// openStore opens the segments, and removes what the catalogue does not know. So first the
// journal has to bear the catalogue out: one that has lost its end, which cannot be told
// from a torn one, would have segments removed that hold messages.
func (r *recovery) openStore() (err error) {
	b := r.b
	if err := journal.Check(b.journalOptions()); err != nil {
		return err
	}
	var live []partlog.SegmentInfo
	for _, s := range r.segments {
		if b.byNumber[s.Queue] != nil {
			live = append(live, s)
		}
	}
	slices.SortFunc(live, func(x, y partlog.SegmentInfo) int { return cmp.Compare(x.ID, y.ID) })
	b.store, err = partlog.Open(partlog.Options{
		FS: b.o.FS, Dir: filepath.Join(b.o.Dir, "segments"), SegmentBytes: b.o.SegmentBytes,
		FirstID: b.nextSegment, Logger: b.o.LoggerOf("segments"),
	}, live)
	return err
}

func (r *recovery) openOffsets() (err error) {
	b := r.b
	// Before the first checkpoint they hold nothing that the journal does not, and the
	// power may have been cut between the first record of the catalogue and their name.
	if r.meta.Generation > 0 && !r.has("offsets") {
		return fmt.Errorf("data directory %s has no offsets: every consumer group would start over; restore offsets/ from a backup", b.o.Dir)
	}
	b.offsets, err = offsets.Open(offsets.Options{
		FS: b.o.FS, Dir: filepath.Join(b.o.Dir, "offsets"), LogID: b.directory, Used: r.meta.Generation > 0, Logger: b.o.LoggerOf("offsets"),
	}, func(c record.Cursor) { r.setCursor(&c) })
	return err
}

// beginIDs loads the index of transaction ids, which needs nothing of the others, while
// those are loaded. One that is missing has to wait until it is known whether it should be
// there: once it is made nobody would see.
func (r *recovery) beginIDs() {
	if r.has("dedup") {
		r.loading.Go(r.loadIDs)
	}
}

func (r *recovery) loadIDs() {
	began, b := time.Now(), r.b
	b.ids, r.idsFound, r.idsErr = dedup.Open(dedup.Options{
		FS: b.o.FS, Dir: filepath.Join(b.o.Dir, "dedup"), CacheBytes: b.o.DedupCacheBytes, Logger: b.o.LoggerOf("dedup"),
	})
	r.idsTook = time.Since(began)
}

func (r *recovery) openIDs() error {
	b := r.b
	waited := time.Now()
	r.loading.Wait()
	missing := r.found && !r.has("dedup")
	if b.ids == nil && r.idsErr == nil {
		r.loadIDs()
	}
	r.beside = max(r.idsTook-time.Since(waited), 0)
	if r.idsErr != nil || (len(r.idsFound.Damaged) == 0 && !missing) {
		return r.idsErr
	}
	b.log.Warn().Bool("missing", missing).Int("damaged_files", len(r.idsFound.Damaged)).Msg("transaction ids are read from the segments")
	return r.reindex()
}

// reindex makes good for damaged files of the index: it reads the ids of every filed
// message that a window still reaches out of the segments.
func (r *recovery) reindex() error {
	b := r.b
	for _, q := range b.queues {
		since := b.clock.stamp() - q.ackWindow().Milliseconds()
		for _, p := range q.partitions {
			if p.filedMs < since || p.filedEnd == p.start {
				continue
			}
			if err := r.reindexPartition(p, since); err != nil {
				return err
			}
		}
	}
	if err := b.ids.Save(r.entries); err != nil {
		return err
	}
	r.entries = nil
	return b.ids.DiscardDamaged()
}

func (r *recovery) reindexPartition(p *partition, since int64) error {
	committed, err := r.b.offsetAt(p.viewLocked(), p.end, since)
	if err != nil {
		return err
	}
	var walkErr error
	err = r.b.batches(p.viewLocked(), committed+1, func(h *segment.Header, batch []byte) bool {
		walkErr = r.indexIDs(p, h, batch)
		return walkErr == nil
	})
	if err = errors.Join(err, walkErr); err == nil {
		return nil
	}
	if err = r.b.damageLocked(p, err); errors.Is(err, ErrPartitionDamaged) {
		return nil // out of service, and that is all
	}
	return err
}

func (b *Broker) journalOptions() journal.Options {
	return journal.Options{
		FS: b.o.FS, Dir: filepath.Join(b.o.Dir, "journal"), LogID: b.directory, Filed: b.filed,
		Sync: b.o.Sync, Interval: b.o.SyncInterval, MaxUnfiled: b.o.MaxUnfiledBytes, Logger: b.o.LoggerOf("journal"), Gather: b.o.Gather,
	}
}

func (r *recovery) openJournal() (err error) {
	b := r.b
	b.journal, err = journal.Open(b.journalOptions(), r.replay)
	if err != nil {
		return err
	}
	r.resumeClock()
	for p, next := range r.gaps {
		return fmt.Errorf("replay batch: %w: partition %d of queue %q ends at offset %d, and the next batch begins at %d",
			record.ErrCorrupt, p.number, p.queue.name, p.end, next)
	}
	if err := r.unexcused(); err != nil {
		return err
	}
	b.changed.ids(r.entries)
	return nil
}

// unexcused returns an error if something belongs to what has neither a record nor one of
// its deletion: leaving it out would silently leave out its messages.
func (r *recovery) unexcused() error {
	for _, number := range slices.Sorted(maps.Keys(r.lost)) {
		return fmt.Errorf("%w: there is a partition %q of queue %d, and no record of that queue, nor of its deletion; restore catalog/ and journal/ from a backup",
			record.ErrCorrupt, r.lost[number], number)
	}
	if r.stray != "" && len(r.orphans)+len(r.deletedQueues) == 0 {
		return fmt.Errorf("%w: there is %s, and no record of that partition, nor of any deletion; restore catalog/ and journal/ from a backup",
			record.ErrCorrupt, r.stray)
	}
	return nil
}

// restoreLeases puts the leases that are still live back to work. Expired ones need
// nothing: their partitions are candidates like all others.
func (r *recovery) restoreLeases() error {
	now := r.b.clock.mono()
	for _, q := range r.b.queues {
		for _, p := range q.partitions {
			p.dropGone()
			for c := p.cursors; c != nil; c = c.next {
				if c.lease == nil {
					continue
				}
				r.b.leases.Add(c.lease.id, lease.Key{Partition: p.number, Group: c.group.number})
				if c.live(now) {
					r.b.armLocked(p, c, c.lease.deadline)
				}
			}
		}
	}
	return nil
}

// raiseTo makes a counter at least to. Recovery is alone with it.
func raiseTo(v interface {
	Load() uint64
	Store(uint64)
}, to uint64) {
	if v.Load() < to {
		v.Store(to)
	}
}
