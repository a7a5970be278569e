package offsets

import (
	"fmt"

	"github.com/rs/zerolog"

	"github.com/skepmq/skep/log/record"
	"github.com/skepmq/skep/log/wal"
	"github.com/skepmq/skep/segment/vfs"
)

const (
	// minRewrite is the size in bytes below which changes are not worth folding.
	minRewrite = 16 << 20
	// entryBytes is the size at which records go on in a new entry.
	entryBytes = 1 << 20
)

// Options configure a Log. Dir is required.
type Options struct {
	FS     vfs.FS // nil: the operating system's
	Dir    string
	LogID  uint64 // of the data directory
	Used   bool   // a checkpoint has been made, so the log is not new
	Logger zerolog.Logger
}

// Log is an open consumer-offset log. It is not safe for concurrent use.
type Log struct{ home *wal.Home }

// Open opens or makes the log and hands each cursor to load, oldest record first.
func Open(o Options, load func(record.Cursor)) (*Log, error) {
	home, err := wal.OpenHome(o.home(), eachCursor(load))
	if err != nil {
		return nil, fmt.Errorf("open consumer-offset log: %w", err)
	}
	return &Log{home}, nil
}

// Inspect is the load of Open, but changes nothing on disk.
func Inspect(o Options, load func(record.Cursor)) (wal.HomeInspection, error) {
	return wal.InspectHome(o.home(), eachCursor(load))
}

func (o Options) home() wal.HomeOptions {
	return wal.HomeOptions{FS: o.FS, Dir: o.Dir, LogID: o.LogID, Used: o.Used, Logger: o.Logger}
}

func eachCursor(load func(record.Cursor)) func(data []byte) error {
	return func(data []byte) error {
		for len(data) > 0 {
			k, body, rest, err := record.NextFrame(data)
			if err != nil {
				return err
			}
			if k != record.KindCursor {
				return fmt.Errorf("%w: kind %d among cursors", record.ErrCorrupt, k)
			}
			c, err := record.DecodeCursor(body)
			if err != nil {
				return err
			}
			load(c)
			data = rest
		}
		return nil
	}
}

// Commit appends cursors and returns when they are on disk. Several entries may hold
// them: a crash in between keeps a prefix, which the journal's replay completes.
func (l *Log) Commit(cursors []record.Cursor) error {
	if len(cursors) == 0 {
		return nil
	}
	if err := put(cursors, l.home.Append); err != nil {
		return fmt.Errorf("append to consumer-offset log: %w", err)
	}
	if err := l.home.Sync(); err != nil {
		return fmt.Errorf("sync consumer-offset log: %w", err)
	}
	return nil
}

// WantsRewrite reports whether the changes outweigh the snapshot.
func (l *Log) WantsRewrite() bool {
	return l.home.Size() > 2*l.home.SnapshotSize()+minRewrite
}

// Rewrite replaces the log by the cursors that write emits, a slice at a time. A crash
// leaves the old log or the new one.
func (l *Log) Rewrite(write func(emit func([]record.Cursor) error) error) error {
	err := l.home.Rewrite(func(appendEntry func([]byte) error) error {
		return write(func(cursors []record.Cursor) error { return put(cursors, appendEntry) })
	})
	if err != nil {
		return fmt.Errorf("rewrite consumer-offset log: %w", err)
	}
	return nil
}

// Err returns why nothing more can be written, nil while it can.
func (l *Log) Err() error { return l.home.Err() }

// Size returns the bytes on disk.
func (l *Log) Size() int64 { return l.home.Size() }

// Close closes the log.
func (l *Log) Close() error { return l.home.Close() }

// put encodes cursors into entries of about entryBytes.
func put(cursors []record.Cursor, appendEntry func([]byte) error) error {
	var buf []byte
	for i := range cursors {
		buf = record.AppendCursor(buf, &cursors[i])
		if len(buf) >= entryBytes || i == len(cursors)-1 {
			if err := appendEntry(buf); err != nil {
				return err
			}
			buf = buf[:0]
		}
	}
	return nil
}

// Files returns the paths of the files that the log is in. What is committed lies within
// their length, and stays there until the next Rewrite.
func (l *Log) Files() ([]string, error) { return l.home.Files() }
