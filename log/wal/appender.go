package wal

import (
	"encoding/binary"
	"errors"
	"fmt"
	"path/filepath"

	tidwall "github.com/tidwall/wal"

	"github.com/skepmq/skep/segment/vfs"
)

// appender writes entries to segment files. After an error it is only closed.
type appender interface {
	// write appends the entry with an index, counted from 1, and rolls where rolls
	// says: it syncs and closes the tail before it creates the next file.
	write(index uint64, entry []byte) error
	// close closes the tail, whether or not it can be synced.
	close() error
}

// rolls is tidwall's rule of when an entry of n framed bytes makes the tail, of size
// bytes, roll: before it is written, after, both or not at all. Before happens only
// when a log is opened with a smaller limit than it was written with.
func rolls(size, n, limit int64) (before, after bool) {
	if before = size > limit; before {
		size = 0
	}
	return before, size+n >= limit
}

// newAppender opens the appender of a log that has been verified and cut.
func newAppender(o Options, f found) (appender, error) {
	if o.FS == vfs.OS && !o.Direct {
		return openTidwall(o, f)
	}
	return openFiles(o, f)
}

// tidwallAppender is tidwall/wal, of which it uses Open, Write, ClearCache and Close.
type tidwallAppender struct {
	log *tidwall.Log
}

func openTidwall(o Options, f found) (a *tidwallAppender, err error) {
	defer recovered(&err)
	log, err := tidwall.Open(o.Dir, &tidwall.Options{ // it writes its defaults into these
		NoSync:           true,
		SegmentSize:      o.SegmentBytes,
		LogFormat:        tidwall.Binary,
		SegmentCacheSize: 1,
		DirPerms:         0o750,
		FilePerms:        0o640,
	})
	if err != nil {
		return nil, err
	}
	// The walk and tidwall must agree on what is there.
	if last, err := log.LastIndex(); err != nil || last != f.next {
		return nil, errors.Join(fmt.Errorf("%w: tidwall finds %d entries where %d are", ErrCorrupt, last, f.next), err, log.Close())
	}
	return &tidwallAppender{log: log}, nil
}

func (a *tidwallAppender) write(index uint64, entry []byte) (err error) {
	defer recovered(&err)
	return a.log.Write(index, entry)
}

// close keeps the descriptor open if tidwall's own sync fails. The log has failed by
// then and its process is about to end.
func (a *tidwallAppender) close() (err error) {
	defer recovered(&err)
	return a.log.Close()
}

// recovered turns a panic of tidwall into an error: its state is not ours, and a log
// that has failed is never used again.
func recovered(err *error) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("panic in tidwall/wal: %v", p)
	}
}

// fileAppender writes what tidwall writes, over any file system and without its memory.
type fileAppender struct {
	fs    vfs.FS
	dir   string
	limit int64
	tail  vfs.File
	size  int64
	buf   []byte
}

func openFiles(o Options, f found) (a *fileAppender, err error) {
	a = &fileAppender{fs: o.FS, dir: o.Dir, limit: int64(o.SegmentBytes), size: f.tailSize}
	if len(f.segments) == 0 {
		a.tail, err = a.fs.Create(a.path(1))
	} else {
		a.tail, err = a.fs.OpenReadWrite(a.path(f.tailIndex()))
	}
	if err != nil {
		return nil, err
	}
	return a, nil
}

func (a *fileAppender) path(index uint64) string {
	return filepath.Join(a.dir, segmentName(index))
}

func (a *fileAppender) write(index uint64, entry []byte) error {
	a.buf = binary.AppendUvarint(a.buf[:0], uint64(len(entry)))
	a.buf = append(a.buf, entry...)
	before, after := rolls(a.size, int64(len(a.buf)), a.limit)
	if before {
		if err := a.roll(index); err != nil {
			return err
		}
	}
	if _, err := a.tail.WriteAt(a.buf, a.size); err != nil {
		return err
	}
	a.size += int64(len(a.buf))
	if after {
		return a.roll(index + 1)
	}
	return nil
}

func (a *fileAppender) roll(index uint64) error {
	if err := a.tail.Sync(); err != nil {
		return err
	}
	if err := a.tail.Close(); err != nil {
		return err
	}
	tail, err := a.fs.Create(a.path(index))
	if err != nil {
		return err
	}
	a.tail, a.size = tail, 0
	return nil
}

func (a *fileAppender) close() error { return a.tail.Close() }
