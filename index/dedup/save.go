package dedup

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
)

// Names of files are a bucket in 20 digits and one of the suffixes.
const (
	seedName      = "seed"
	logSuffix     = ".log"
	sortedSuffix  = ".sorted"
	tmpSuffix     = ".tmp"
	damagedSuffix = ".damaged"
)

// saveBufferLen is how much is encoded before it is written.
const saveBufferLen = 1 << 20

func (x *Index) path(bucket uint64, suffix string) string {
	return filepath.Join(x.options.Dir, fmt.Sprintf("%020d%s", bucket, suffix))
}

// Save makes entries durable, so that Open finds them again. Each must have been
// given to Add before. It returns after the sync; what is saved twice does no harm.
// An error is final: ErrFailed, joined with its cause, until the index is opened
// again. Afterwards Save brings the memory back below CacheBytes; what goes wrong
// there costs memory, not entries, and is logged and tried again.
func (x *Index) Save(entries []Entry) error {
	x.filesMu.Lock()
	defer x.filesMu.Unlock()
	if err := x.usableLocked(); err != nil {
		return err
	}
	if len(entries) > 0 {
		if err := x.saveLocked(entries); err != nil {
			x.failed = fmt.Errorf("save dedup entries: %w", err)
			return errors.Join(ErrFailed, x.failed)
		}
	}
	x.maintainLocked()
	return nil
}

func (x *Index) usableLocked() error {
	if x.closed {
		return ErrClosed
	}
	if x.failed != nil {
		return errors.Join(ErrFailed, x.failed)
	}
	return nil
}

func (x *Index) saveLocked(entries []Entry) error {
	bucket := x.bucketForSave(int64(len(entries)) * entryLen)
	created, err := x.openCurrent(bucket)
	if err != nil {
		return err
	}
	x.saves++
	newest, err := x.writeBlocks(entries)
	if err != nil {
		return err
	}
	if err := x.current.file.Sync(); err != nil {
		return err
	}
	if created {
		if err := x.options.FS.SyncDir(x.options.Dir); err != nil {
			return err
		}
	}
	info, known := x.logs[bucket]
	x.otherBytes.Add(x.current.size - info.size)
	if info.size = x.current.size; !known || newest > info.newestMs {
		info.newestMs = newest
	}
	x.logs[bucket] = info
	return nil
}

// bucketForSave returns the active bucket, after beginning one if more bytes would
// make its append file twice what a bucket in memory holds: a restart loads it as one.
func (x *Index) bucketForSave(more int64) uint64 {
	a := x.activeBucket()
	size := x.logs[a.id].size
	if size > 0 && size+more > 2*numShards*int64(x.maxSlots)*entryLen*3/4 {
		x.roll(a)
		a = x.activeBucket()
	}
	return a.id
}

func (x *Index) activeBucket() *activeBucket {
	s := &x.shards[0]
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.active
}

// openCurrent makes the append file of the bucket the one that is written.
func (x *Index) openCurrent(bucket uint64) (created bool, err error) {
	if x.current.file != nil && x.current.bucket == bucket {
		return false, nil
	}
	if err := x.closeCurrent(); err != nil {
		return false, err
	}
	path := x.path(bucket, logSuffix)
	info, known := x.logs[bucket]
	open := x.options.FS.Create
	if known {
		open = x.options.FS.OpenReadWrite
	}
	file, err := open(path)
	if err != nil {
		return false, err
	}
	x.current = appendFile{file: file, bucket: bucket, size: info.size}
	return !known, nil
}

func (x *Index) closeCurrent() error {
	if x.current.file == nil {
		return nil
	}
	err := x.current.file.Close()
	x.current = appendFile{}
	return err
}

func (x *Index) writeBlocks(entries []Entry) (newestMs int64, err error) {
	newestMs = entries[0].TimestampMs
	b := x.buffer[:0]
	for part := uint32(0); len(entries) > 0; part++ {
		n := min(len(entries), maxBlockEntries)
		b = appendBlock(b, x.seed, x.saves, part, entries[:n])
		for _, e := range entries[:n] {
			newestMs = max(newestMs, e.TimestampMs)
		}
		entries = entries[n:]
		if len(b) > saveBufferLen-maxBlockLen || len(entries) == 0 {
			if _, err := x.current.file.WriteAt(b, x.current.size); err != nil {
				return 0, err
			}
			x.current.size += int64(len(b))
			b = b[:0]
		}
	}
	x.buffer = b
	return newestMs, nil
}

// removeLog deletes the append file of a bucket, if there is one.
func (x *Index) removeLog(bucket uint64) error {
	info, ok := x.logs[bucket]
	if !ok {
		return nil
	}
	var err error
	if x.current.file != nil && x.current.bucket == bucket {
		err = x.closeCurrent()
	}
	if err = errors.Join(err, x.remove(x.path(bucket, logSuffix))); err == nil {
		delete(x.logs, bucket)
		x.otherBytes.Add(-info.size)
	}
	return err
}

// remove deletes a file. That it comes back after a crash does no harm, so there is
// no sync.
func (x *Index) remove(path string) error {
	if err := x.options.FS.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
