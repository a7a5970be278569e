package dedup

import (
	"cmp"
	"errors"
	"math"
	"slices"
	"time"
)

// Expire drops the buckets, and deletes the files, whose newest entry is older than
// beforeMs, Unix milliseconds: now less the longest time anybody asks back. It also
// learns from it how much time a bucket may cover.
func (x *Index) Expire(beforeMs int64) error {
	x.filesMu.Lock()
	defer x.filesMu.Unlock()
	if x.closed {
		return ErrClosed
	}
	x.expireActive(beforeMs)
	var dropped []*sortedFile
	x.changeLayout(func(l *layout) {
		l.sealed = slices.DeleteFunc(l.sealed, func(b *sealedBucket) bool { return b.newestMs < beforeMs })
		l.spilled = slices.DeleteFunc(l.spilled, func(f *sortedFile) bool {
			old := f.header.newestMs < beforeMs
			if old {
				dropped = append(dropped, f)
			}
			return old
		})
	})
	var err error
	for _, f := range dropped {
		err = errors.Join(err, x.dropSorted(f))
	}
	for bucket, info := range x.logs {
		if info.newestMs < beforeMs {
			err = errors.Join(err, x.removeLog(bucket))
		}
	}
	x.maintainLocked()
	return err
}

// expireActive seals the active bucket if everything in it is too old, as on a
// broker that takes no messages, and takes the window from its newest entry.
func (x *Index) expireActive(beforeMs int64) {
	a, newest, found := x.activeBucket(), int64(math.MinInt64), false
	for i := range x.shards {
		s := &x.shards[i]
		s.mu.Lock()
		if s.table.len > 0 {
			newest, found = max(newest, s.table.newestMs), true
		}
		s.mu.Unlock()
	}
	switch {
	case !found:
	case newest < beforeMs:
		x.roll(a) // what was added since keeps it, sealed
	default:
		span := time.Duration((newest-beforeMs)/windowBuckets) * time.Millisecond
		x.spanMs.Store(min(max(span, minSpan), maxSpan).Milliseconds())
	}
}

// dropSorted deletes a file that has left the layout; readers keep it until they end.
func (x *Index) dropSorted(f *sortedFile) error {
	path := f.path
	if f.setAside {
		path += damagedSuffix
	}
	return errors.Join(f.release(), x.remove(path))
}

// maintainLocked builds the filters of sealed buckets, spills the oldest while the
// memory is above its bound, and merges what was spilled. Its errors are logged: the
// entries are where they were.
func (x *Index) maintainLocked() {
	for _, b := range x.layout.Load().sealed {
		if b.filter.Load() == nil {
			b.filter.Store(b.buildFilter())
		}
	}
	x.setDamagedAside()
	if err := x.shrinkMemory(); err != nil {
		x.putOff(err, "spilling dedup entries put off")
		return
	}
	if err := x.mergeSpilled(); err != nil {
		x.putOff(err, "merging dedup files put off")
	}
}

// putOff counts what has failed and will be tried again, and says so.
func (x *Index) putOff(err error, what string) {
	x.failures.Add(1)
	x.logger.Warn().Err(err).Msg(what)
}

func (b *sealedBucket) buildFilter() *filter {
	f := newFilter(b.entries)
	for i := range b.tables {
		for _, s := range b.tables[i].slots {
			if s.meta != 0 {
				f.add(s.hash)
			}
		}
	}
	return f
}

// shrinkMemory spills the oldest buckets and then, when none is left, forgets the
// oldest filters, of which the fences remain.
func (x *Index) shrinkMemory() error {
	for {
		l := x.layout.Load()
		_, active := x.activeSize()
		if active+l.memory() <= x.options.CacheBytes {
			return nil
		}
		if len(l.sealed) > 0 {
			if err := x.spill(l.sealed[0]); err != nil {
				return err
			}
			continue
		}
		i := slices.IndexFunc(l.spilled, func(f *sortedFile) bool { return f.filter.Load() != nil })
		if i < 0 {
			return nil
		}
		l.spilled[i].filter.Store(nil)
	}
}

// spill moves the oldest bucket in memory to a sorted file.
func (x *Index) spill(b *sealedBucket) error {
	w, err := newSortedWriter(x.options.FS, x.path(b.id, sortedSuffix), x.seed, b.id, b.id, b.entries)
	if err != nil {
		return err
	}
	var scratch []slot
	for i := range b.tables {
		scratch = b.tables[i].appendSlots(scratch[:0])
		slices.SortFunc(scratch, compareSlots)
		for _, s := range scratch {
			w.add(s)
		}
	}
	f, err := x.finishSorted(w, b.newestMs)
	if err != nil {
		return err
	}
	x.changeLayout(func(l *layout) {
		l.sealed = slices.DeleteFunc(l.sealed, func(other *sealedBucket) bool { return other == b })
		i := slices.IndexFunc(l.spilled, func(other *sortedFile) bool { return other.header.first > b.id })
		if i < 0 {
			i = len(l.spilled)
		}
		l.spilled = slices.Insert(l.spilled, i, f)
	})
	return x.removeLog(b.id)
}

// finishSorted completes a sorted file and makes its name durable.
func (x *Index) finishSorted(w *sortedWriter, newestMs int64) (*sortedFile, error) {
	f, err := w.finish(newestMs)
	if err != nil {
		return nil, err
	}
	if err := x.options.FS.SyncDir(x.options.Dir); err != nil {
		return nil, errors.Join(err, f.release())
	}
	return f, nil
}

func compareSlots(a, b slot) int {
	return cmp.Or(cmp.Compare(a.hash, b.hash), cmp.Compare(a.meta, b.meta))
}

// setDamagedAside renames files of which a lookup has found a page damaged, so that
// the next Open reports them. Until then their other pages serve.
func (x *Index) setDamagedAside() {
	for _, f := range x.layout.Load().spilled {
		if !f.damaged.Load() || f.setAside {
			continue
		}
		if err := x.options.FS.Rename(f.path, f.path+damagedSuffix); err != nil {
			x.putOff(err, "setting a damaged dedup file aside put off")
			continue
		}
		f.setAside = true
		x.logger.Warn().Str("path", f.path).Msg("dedup file damaged")
	}
}
