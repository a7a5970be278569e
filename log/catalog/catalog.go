package catalog

import (
	"fmt"

	"github.com/rs/zerolog"

	"github.com/skepmq/skep/log/record"
	"github.com/skepmq/skep/log/wal"
	"github.com/skepmq/skep/segment/vfs"
)

const (
	// logID seeds the checksums of the catalogue, which is read before the id of the
	// data directory is known.
	logID = 0x736b65702d636174

	// minRewrite is the size in bytes below which changes are not worth folding.
	minRewrite = 16 << 20
	// entryBytes is the size at which a snapshot goes on in a new entry.
	entryBytes = 1 << 20
)

// Options configure a Catalog. Dir is required.
type Options struct {
	FS     vfs.FS // nil: the operating system's
	Dir    string
	Logger zerolog.Logger
}

// Catalog is an open catalogue. It is not safe for concurrent use.
type Catalog struct{ home *wal.Home }

// Open opens or makes the catalogue and hands it frame by frame to load; body is
// borrowed. Errors: those of load, and *wal.CorruptError with file and position.
func Open(o Options, load func(k record.Kind, body []byte) error) (*Catalog, error) {
	home, err := wal.OpenHome(o.home(), eachFrame(load))
	if err != nil {
		return nil, fmt.Errorf("open catalogue: %w", err)
	}
	return &Catalog{home}, nil
}

// Inspect is the load of Open, but changes nothing on disk.
func Inspect(o Options, load func(k record.Kind, body []byte) error) (wal.HomeInspection, error) {
	return wal.InspectHome(o.home(), eachFrame(load))
}

func (o Options) home() wal.HomeOptions {
	return wal.HomeOptions{FS: o.FS, Dir: o.Dir, LogID: logID, Logger: o.Logger}
}

func eachFrame(load func(k record.Kind, body []byte) error) func(data []byte) error {
	return func(data []byte) error {
		for len(data) > 0 {
			k, body, rest, err := record.NextFrame(data)
			if err != nil {
				return err
			}
			if err := load(k, body); err != nil {
				return err
			}
			data = rest
		}
		return nil
	}
}

// Commit appends the frames that write emits, see Rewrite, and returns when they are on
// disk. Many frames take several entries, and a crash may keep the first of them only.
// That is no half state: every frame stands for itself, what it says is true from the
// moment the segments are synced, and the journal is replayed until the last one, the
// Meta, says otherwise.
func (c *Catalog) Commit(write func(emit func(frames []byte) ([]byte, error)) error) error {
	if err := writeEntries(write, c.home.Append); err != nil {
		return fmt.Errorf("append to catalogue: %w", err)
	}
	if err := c.home.Sync(); err != nil {
		return fmt.Errorf("sync catalogue: %w", err)
	}
	return nil
}

// writeEntries gathers frames into entries of about entryBytes.
func writeEntries(write func(emit func(frames []byte) ([]byte, error)) error, put func([]byte) error) error {
	var last []byte
	err := write(func(frames []byte) ([]byte, error) {
		last = frames
		if len(frames) < entryBytes {
			return frames, nil
		}
		last = frames[:0]
		return last, put(frames)
	})
	if err == nil && len(last) > 0 {
		err = put(last)
	}
	return err
}

// WantsRewrite reports whether the changes outweigh the snapshot.
func (c *Catalog) WantsRewrite() bool {
	return c.home.Size() > 2*c.home.SnapshotSize()+minRewrite
}

// Rewrite replaces the catalogue by the frames that write appends. write calls emit
// with a growing buffer of whole frames and goes on with the buffer emit returns. A
// crash leaves the old catalogue or the new one.
func (c *Catalog) Rewrite(write func(emit func(frames []byte) ([]byte, error)) error) error {
	err := c.home.Rewrite(func(put func([]byte) error) error { return writeEntries(write, put) })
	if err != nil {
		return fmt.Errorf("rewrite catalogue: %w", err)
	}
	return nil
}

// Err returns why nothing more can be written, nil while it can.
func (c *Catalog) Err() error { return c.home.Err() }

// Size returns the bytes on disk.
func (c *Catalog) Size() int64 { return c.home.Size() }

// Close closes the log.
func (c *Catalog) Close() error { return c.home.Close() }

// Files returns the paths of the files that the catalogue is in. What is committed lies
// within their length, and stays there until the next Rewrite.
func (c *Catalog) Files() ([]string, error) { return c.home.Files() }
