package wal

import (
	"encoding/binary"
	"errors"
	"fmt"
	"path/filepath"
	"syscall"

	"github.com/rs/zerolog"

	"github.com/skepmq/skep/segment/vfs"
)

// DefaultSegmentBytes is the size at which a segment is full unless Options say
// otherwise. tidwall keeps the tail segment in memory, so it is also a log's memory.
const DefaultSegmentBytes = 8 << 20

// Options say where a log lies. Dir must be set.
type Options struct {
	FS           vfs.FS // nil stands for vfs.OS
	Dir          string // of this log alone; created if it is missing
	LogID        uint64 // part of every checksum; give no two logs the same, and keep it from clients
	Direct       bool   // append without tidwall/wal; see the package comment
	SegmentBytes int    // a segment that has reached it is followed by another; 0 for DefaultSegmentBytes
	Logger       zerolog.Logger
}

func (o Options) withDefaults() Options {
	if o.FS == nil {
		o.FS = vfs.OS
	}
	if o.SegmentBytes <= 0 {
		o.SegmentBytes = DefaultSegmentBytes
	}
	return o
}

// Recovery is what Open has found.
type Recovery struct {
	Entries  int    // handed to the caller
	LastSeq  uint64 // of the last entry; 0 for none
	Segments int
	CutBytes int64  // length of the torn tail
	CutPath  string // the segment it was cut from; empty if none was
}

// Open verifies a log from front to back, hands each entry to fn, which may be nil, and
// leaves the log ready to append. An absent log is created. A torn tail is cut, with a
// warning, and its bytes kept in a .broken file beside the segment. Everything recovered
// has been synced when Open returns.
//
// fn gets its data borrowed, valid during the call, and may have been called when Open
// then fails. Its own error ends Open and is returned wrapped. Errors: *CorruptError
// (damage; nothing is changed on disk), and what the file system answers.
func Open(o Options, fn func(seq uint64, data []byte) error) (*Log, Recovery, error) {
	var r Recovery
	l, err := open(o, &r, func(e entry, _ int64) error {
		if e.kind != kindData || fn == nil {
			return nil
		}
		return fn(e.seq, e.data)
	})
	if err != nil {
		return nil, r, fmt.Errorf("open log %s: %w", o.Dir, err)
	}
	return l, r, nil
}

func open(o Options, r *Recovery, visit func(entry, int64) error) (*Log, error) {
	o = o.withDefaults()
	f, err := walk(o, func(e entry, size int64) error {
		if e.kind == kindData {
			r.Entries++
		}
		r.LastSeq = e.seq
		return visit(e, size)
	})
	if err != nil {
		return nil, err
	}
	r.Segments = max(1, len(f.segments))
	if f.torn != nil {
		r.CutBytes, r.CutPath = int64(len(f.cut)), f.torn.Path
		if err := cut(o, f); err != nil {
			return nil, err
		}
	}
	return start(o, f)
}

// Scan is the walk of Open for a log that nobody appends to any more. It changes
// nothing, and any byte that is not as written is a *CorruptError, a torn tail as well:
// such a log was complete once. So was its header: a log without one is damaged, and a
// missing directory is fs.ErrNotExist.
func Scan(o Options, fn func(seq uint64, data []byte) error) error {
	o = o.withDefaults()
	f, err := walk(o, func(e entry, _ int64) error {
		if e.kind != kindData || fn == nil {
			return nil
		}
		return fn(e.seq, e.data)
	})
	switch {
	case err != nil:
	case f.torn != nil:
		err = f.torn
	case f.next == 0:
		if _, err = o.FS.List(o.Dir); err == nil {
			path := filepath.Join(o.Dir, segmentName(1))
			err = &CorruptError{path, 0, fmt.Errorf("%w: no log header", ErrCorrupt)}
		}
	}
	if err != nil {
		return fmt.Errorf("scan log %s: %w", o.Dir, err)
	}
	return nil
}

// cut removes a torn tail, so that nothing is ever appended behind it. settle syncs.
func cut(o Options, f found) (err error) {
	path, pos := f.torn.Path, f.torn.Position
	kept := path + fmt.Sprintf(".%d.broken", pos)
	if keepErr := keep(o.FS, kept, f.cut); keepErr != nil {
		// Nobody was promised these bytes, and the disk may be full: open anyway.
		o.Logger.Warn().Err(keepErr).Str("path", kept).Msg("torn tail not kept")
		kept = ""
	}
	file, err := o.FS.OpenReadWrite(path)
	if err != nil {
		return fmt.Errorf("cut torn tail: %w", err)
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	if err := file.Truncate(pos); err != nil {
		return fmt.Errorf("cut torn tail of %s: %w", path, err)
	}
	o.Logger.Warn().Str("path", path).Int64("position", pos).Int("cut_bytes", len(f.cut)).
		Str("kept", kept).AnErr("cause", f.torn.Err).Msg("torn tail cut")
	return nil
}

// keep writes b to a file. settle syncs its name with the others.
func keep(fsys vfs.FS, path string, b []byte) (err error) {
	f, err := fsys.Create(path)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(b, 0)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		err = errors.Join(err, fsys.Remove(path))
	}
	return err
}

// start opens a verified log for appending.
func start(o Options, f found) (*Log, error) {
	if err := vfs.MakeDir(o.FS, o.Dir); err != nil {
		return nil, err
	}
	if len(f.tail) > 0 {
		if err := renew(o, f); err != nil {
			return nil, err
		}
	}
	app, err := newAppender(o, f)
	if err != nil {
		return nil, err
	}
	l := newLog(o, f, app)
	if err := l.settle(f); err != nil {
		return nil, errors.Join(err, l.closeFiles())
	}
	return l, nil
}

// renew puts a copy in the place of the tail segment. Nothing shows that its last entries
// were synced. If a sync of them has failed, the kernel shows them to everybody and calls
// them clean, so that no later sync brings them to the disk; and ext4 keeps the extent for
// unwritten even if the same bytes are written there again. New blocks are the way out: an
// entry that is appended to this log vouches for all before it.
func renew(o Options, f found) error {
	path := filepath.Join(o.Dir, segmentName(f.tailIndex()))
	fresh := path + ".new" // one that a crash leaves is replaced by the next
	err := keep(o.FS, fresh, f.tail)
	if err == nil {
		err = o.FS.Rename(fresh, path)
	}
	switch {
	case err == nil:
		return nil
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		// A broker must start on a full disk, and on almost all of them the syncs were true.
		o.Logger.Warn().Err(err).Str("path", path).Msg("no room to write the end of a log once more")
		return nil
	}
	return fmt.Errorf("write the end of the log once more: %w", err)
}

// settle writes the header of a new log and syncs what is there: after a kill the
// kernel may hold bytes that the walk has read and the disk has not.
func (l *Log) settle(f found) error {
	first := uint64(1)
	if len(f.segments) > 0 {
		first = f.tailIndex()
	}
	if err := l.openTail(first); err != nil {
		return err
	}
	if f.next == 0 {
		buf := binary.LittleEndian.AppendUint64(make([]byte, Headroom), l.logID)
		if err := l.append(kindHeader, buf); err != nil {
			return err
		}
	}
	if err := l.tail.Sync(); err != nil {
		return err
	}
	if err := l.fs.SyncDir(l.dir); err != nil {
		return err
	}
	l.durable.Store(l.last.Load())
	return nil
}
