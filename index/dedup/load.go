package dedup

import (
	"errors"

	"github.com/skepmq/skep/segment/vfs"
)

// loadLogs loads the append files into tables, the oldest first, spilling when they
// outgrow the memory. The newest bucket becomes the active one again.
func (l *loader) loadLogs() error {
	l.activate(&sealedBucket{id: l.next}, 0)
	for i, id := range l.logIDs {
		if l.layout.Load().replaced(id) {
			if err := l.remove(l.path(id, logSuffix)); err != nil {
				return err
			}
			continue
		}
		b, oldestMs, err := l.loadLog(id, i == len(l.logIDs)-1)
		if err != nil {
			if err := l.setAside(err); err != nil {
				return err
			}
			continue
		}
		if id+1 == l.next {
			l.activate(b, oldestMs)
		} else if b.entries > 0 {
			l.changeLayout(func(l *layout) { l.sealed = append(l.sealed, b) })
		}
		l.maintainLocked()
	}
	return nil
}

// activate lets the newest bucket take entries again, or many restarts would leave
// many small buckets.
func (l *loader) activate(b *sealedBucket, oldestMs int64) {
	a := newActiveBucket(b.id)
	if b.entries > 0 {
		a.startMs.Store(oldestMs)
	}
	for i := range l.shards {
		l.shards[i].active, l.shards[i].table = a, b.tables[i]
	}
}

// loadLog reads an append file into tables. A torn tail is possible in the newest
// alone: a file is begun only after all of the one before is on disk.
func (l *loader) loadLog(id uint64, newest bool) (b *sealedBucket, oldestMs int64, err error) {
	path := l.path(id, logSuffix)
	file, err := l.options.FS.OpenReadWrite(path)
	if err != nil {
		return nil, 0, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	s, err := newScanner(file, l.seed)
	if err != nil {
		return nil, 0, err
	}
	in := logReader{bucket: &sealedBucket{id: id}}
	slots := tableSlots(int(s.size / entryLen / numShards))
	for i := range in.bucket.tables {
		in.bucket.tables[i].slots = make([]slot, slots)
	}
	end, save, err := s.scan(path, in.visit)
	if err != nil {
		return nil, 0, err
	}
	if end < s.size {
		if !newest {
			return nil, 0, &CorruptError{path, end, errInvalid}
		}
		if err := cut(file, end); err != nil {
			return nil, 0, err
		}
	}
	for i := range in.bucket.tables {
		in.bucket.takeTable(i, in.bucket.tables[i])
	}
	l.saves = max(l.saves, save)
	l.logs[id] = logInfo{size: end, newestMs: in.newestMs}
	l.otherBytes.Add(end)
	return in.bucket, in.oldestMs, nil
}

// cut shortens an append file. The sync keeps the tail from coming back after
// another crash, when the file need not be the newest any more.
func cut(file vfs.File, end int64) error {
	if err := file.Truncate(end); err != nil {
		return err
	}
	return file.Sync()
}

// logReader fills a bucket from the blocks of its append file.
type logReader struct {
	bucket             *sealedBucket
	any                bool
	oldestMs, newestMs int64
}

const noLimit = 1 << 62 // slots of a table that is being loaded

func (in *logReader) visit(b *block) {
	if !in.any {
		in.any, in.oldestMs, in.newestMs = true, b.newestMs, b.newestMs
	}
	in.newestMs = max(in.newestMs, b.newestMs)
	for i := range b.count() {
		s := b.slot(i)
		ms := min(metaTime(s.meta, b.newestMs), b.newestMs) // it was rounded up
		in.oldestMs = min(in.oldestMs, ms)
		in.bucket.tables[shardOf(s.hash)].insert(s.hash, s.meta, ms, noLimit)
	}
}
