package wal

import (
	"errors"
	"fmt"
	"path/filepath"
	"sync/atomic"

	"github.com/skepmq/skep/segment/vfs"
)

var (
	// ErrFailed follows a failed write, sync or roll. What was appended and not synced
	// by then may be on disk or not. The log takes nothing more until it is reopened.
	ErrFailed = errors.New("wal: a write or sync has failed")
	// ErrClosed answers calls after Close.
	ErrClosed = errors.New("wal: closed")
)

// maxScratch bounds the buffer that Append keeps.
const maxScratch = 1 << 20

// Log is an open log. One goroutine owns it: Append, AppendFramed, Sync and Close are
// its alone. LastSeq, DurableSeq and Size may be read from anywhere.
type Log struct {
	fs    vfs.FS
	dir   string
	logID uint64
	seed  uint32
	limit int64 // SegmentBytes

	app      appender
	tail     vfs.File // the tail segment once more, to sync it
	tailSize int64
	next     uint64 // seq of the entry to come
	scratch  []byte // of Append
	err      error  // sticky: ErrFailed or ErrClosed
	closed   bool

	last    atomic.Uint64
	durable atomic.Uint64
	size    atomic.Int64
}

func newLog(o Options, f found, app appender) *Log {
	l := &Log{
		fs:       o.FS,
		dir:      o.Dir,
		logID:    o.LogID,
		seed:     seedOf(o.LogID),
		limit:    int64(o.SegmentBytes),
		app:      app,
		tailSize: f.tailSize,
		next:     f.next,
	}
	l.size.Store(f.size)
	if f.next > 0 {
		l.last.Store(f.next - 1)
	}
	return l
}

// Append hands an entry to the kernel and returns its sequence number: 1 for the first,
// then without gaps in a log that is no home. It copies data. It is durable after the
// next Sync. Errors: ErrSize, ErrFailed, ErrClosed.
func (l *Log) Append(data []byte) (seq uint64, err error) {
	if len(data) > MaxData {
		return 0, fmt.Errorf("%w: %d bytes", ErrSize, len(data))
	}
	buf := append(l.scratch[:0], make([]byte, Headroom)...)
	buf = append(buf, data...)
	if cap(buf) <= maxScratch {
		l.scratch = buf
	}
	return l.AppendFramed(buf)
}

// AppendFramed is Append without the copy: the data starts at buf[Headroom], and the
// bytes before it are overwritten. buf is the caller's again when it returns.
func (l *Log) AppendFramed(buf []byte) (seq uint64, err error) {
	if err := l.append(kindData, buf); err != nil {
		return 0, err
	}
	return l.next - 1, nil
}

func (l *Log) append(kind byte, buf []byte) error {
	if l.err != nil {
		return l.err
	}
	if len(buf) < Headroom || len(buf) > Headroom+MaxData {
		return fmt.Errorf("%w: buffer of %d bytes", ErrSize, len(buf))
	}
	seq := l.next
	frame(buf, l.seed, kind, seq, l.durable.Load())
	n := int64(frameLen(uint64(len(buf))) + len(buf))
	before, after := rolls(l.tailSize, n, l.limit)
	if err := l.app.write(seq+1, buf); err != nil {
		return l.fail("append", err)
	}
	l.next++
	l.last.Store(seq)
	l.size.Add(n)
	l.tailSize += n
	switch {
	case after:
		return l.rolled(seq+1, 0)
	case before:
		return l.rolled(seq, n)
	}
	return nil
}

// rolled follows the appender into a new tail, which begins with the entry first and
// holds size bytes. The appender has synced all before it, then created the file.
func (l *Log) rolled(first uint64, size int64) error {
	err := l.tail.Close()
	l.tail = nil
	if err == nil {
		err = l.openTail(first + 1)
	}
	if err == nil {
		err = l.fs.SyncDir(l.dir)
	}
	if err != nil {
		return l.fail("roll", err)
	}
	l.tailSize = size
	l.durable.Store(first - 1)
	return nil
}

// openTail opens the segment that begins with an index. If the appender had not rolled
// where rolls says it does, the file would be missing, and the log would fail here.
func (l *Log) openTail(index uint64) error {
	f, err := l.fs.OpenReadWrite(filepath.Join(l.dir, segmentName(index)))
	if err != nil {
		return err // not a File that is a nil pointer
	}
	l.tail = f
	return nil
}

// Sync puts everything appended so far on the disk (fdatasync of the tail; segments
// before it have been synced when they were full). It does nothing if nothing is new.
// Errors: ErrFailed, ErrClosed.
func (l *Log) Sync() error {
	if l.err != nil {
		return l.err
	}
	last := l.last.Load()
	if l.durable.Load() == last {
		return nil
	}
	if err := l.tail.Sync(); err != nil {
		return l.fail("sync", err)
	}
	l.durable.Store(last)
	return nil
}

// LastSeq returns the sequence number of the last entry appended, 0 for none.
func (l *Log) LastSeq() uint64 { return l.last.Load() }

// DurableSeq returns the sequence number of the last entry known to be on the disk.
func (l *Log) DurableSeq() uint64 { return l.durable.Load() }

// Size returns the bytes of all segments.
func (l *Log) Size() int64 { return l.size.Load() }

// Close syncs the log and closes its files. Of a failed log it returns the failure.
func (l *Log) Close() error {
	if l.closed {
		return ErrClosed
	}
	err := l.Sync()
	closeErr := l.closeFiles()
	if err == nil {
		err = closeErr // of a failed log the appender may have closed its file already
	}
	l.closed = true
	l.err = ErrClosed
	return err
}

func (l *Log) closeFiles() error {
	err := l.app.close()
	if l.tail != nil {
		err = errors.Join(err, l.tail.Close())
	}
	return err
}

// fail ends the log: no sync after a failed one proves anything, and no byte behind a
// torn write would ever be read.
func (l *Log) fail(what string, err error) error {
	l.err = fmt.Errorf("%w: %s in %s: %w", ErrFailed, what, l.dir, err)
	return l.err
}
