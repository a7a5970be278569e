package wal

import (
	"errors"
	"fmt"
	"path/filepath"

	"github.com/rs/zerolog"

	"github.com/skepmq/skep/segment/vfs"
)

// HomeOptions say where a home lies. Dir must be set.
type HomeOptions struct {
	FS           vfs.FS // nil stands for vfs.OS
	Dir          string // of this home alone; created if it is missing
	LogID        uint64 // as in Options; each generation derives its own
	SegmentBytes int    // as in Options
	Used         bool   // it is known to have been made: that nothing of it is there is damage
	Logger       zerolog.Logger
}

// Home is a log that folds: a snapshot of a state, followed by changes to it. It is a
// directory of generations, of which one counts:
//
//	Dir/00000000000000000007/      a log: snapshot entries, the mark, change sets
//	Dir/00000000000000000006.old/  replaced and being removed
//
// A generation counts once it holds the mark. Rewrite syncs the new one, mark included,
// before it takes the old one's number away in one rename, and returns after that: so as
// long as two numbers are there, the newer has no change that the older lacks.
//
// One goroutine owns a home: all its methods are that goroutine's alone.
type Home struct {
	o        HomeOptions
	log      *Log
	number   uint64
	snapshot int64
	err      error // sticky
}

// OpenHome loads the snapshot and the changes behind it, in order, through load, whose
// data is borrowed. A missing home is created with an empty snapshot, unless it was Used. What a crash has
// left of a rewrite is removed. Errors: *CorruptError, what load returns, wrapped, and
// what the file system answers.
func OpenHome(o HomeOptions, load func(data []byte) error) (*Home, error) {
	if o.FS == nil {
		o.FS = vfs.OS
	}
	h := &Home{o: o}
	if err := h.open(load); err != nil {
		if h.log != nil {
			err = errors.Join(err, h.log.Close())
		}
		return nil, fmt.Errorf("open home %s: %w", o.Dir, err)
	}
	return h, nil
}

func (h *Home) open(load func([]byte) error) error {
	if err := vfs.MakeDir(h.o.FS, h.o.Dir); err != nil {
		return err
	}
	dirs, err := listGenerations(h.o.FS, h.o.Dir)
	if err != nil {
		return err
	}
	number, ok, err := h.newest(dirs.numbers)
	if err != nil {
		return err
	}
	switch {
	case !ok && h.o.Used:
		err = &CorruptError{h.o.Dir, 0, errNoMark}
	case !ok:
		err = h.create(dirs)
	default:
		err = h.load(number, load)
	}
	if err != nil {
		return err
	}
	return h.clean(dirs)
}

// load opens the generation that counts.
func (h *Home) load(number uint64, load func([]byte) error) error {
	var r Recovery
	log, err := open(h.generation(number), &r, func(e entry, size int64) error {
		switch e.kind {
		case kindMark:
			h.snapshot = size
		case kindData:
			return load(e.data)
		}
		return nil
	})
	if err != nil {
		return err
	}
	h.log, h.number = log, number
	return nil
}

// create makes the first generation, over what a crash may have left of it.
func (h *Home) create(dirs generations) error {
	if len(dirs.old) > 0 {
		return replacementMissing(filepath.Join(h.o.Dir, dirs.old[0]))
	}
	log, err := h.begin(1)
	if err != nil {
		return err
	}
	h.log, h.number = log, 1
	return h.finish()
}

func replacementMissing(path string) error {
	return &CorruptError{path, 0, fmt.Errorf("%w: the generation that replaced this one is missing", ErrCorrupt)}
}

// begin opens an empty generation.
func (h *Home) begin(number uint64) (*Log, error) {
	o := h.generation(number)
	if err := o.FS.RemoveAll(o.Dir); err != nil { // left by a rewrite that did not finish
		return nil, err
	}
	log, _, err := Open(o, nil)
	return log, err
}

// finish ends the snapshot of h.log. Once this has begun the mark may be on the disk,
// so a failure leaves open which generation counts.
func (h *Home) finish() error {
	if err := h.log.append(kindMark, make([]byte, Headroom)); err != nil {
		return err
	}
	if err := h.log.Sync(); err != nil {
		return err
	}
	h.snapshot = h.log.Size()
	return nil
}

// Err returns why the home takes no more writes, nil while it does. A Rewrite that failed
// before its end leaves it nil: the home is as it was.
func (h *Home) Err() error {
	if h.err != nil {
		return h.err
	}
	return h.log.err
}

// Append hands one change set to the kernel. It copies data. It is durable after the
// next Sync. Errors: ErrSize, ErrFailed, ErrClosed.
func (h *Home) Append(data []byte) error {
	if h.err != nil {
		return h.err
	}
	_, err := h.log.Append(data)
	return err
}

// Sync puts everything appended on the disk. Errors: ErrFailed, ErrClosed.
func (h *Home) Sync() error {
	if h.err != nil {
		return h.err
	}
	return h.log.Sync()
}

// Size returns the bytes of the current generation, SnapshotSize those of its snapshot:
// the caller rewrites when the first has become a multiple of the second.
func (h *Home) Size() int64 { return h.log.Size() }

// SnapshotSize returns the bytes of the snapshot part of the current generation.
func (h *Home) SnapshotSize() int64 { return h.snapshot }

// Rewrite replaces snapshot and changes by a new snapshot: write emits the whole state,
// in as many pieces as it likes, which load gets at the next open. The data of emit is
// copied. A crash at any point leaves one state or the other.
//
// An error of write, or of the disk before the new snapshot was complete, leaves the
// home as it was, and usable. After that an error is final: ErrFailed.
func (h *Home) Rewrite(write func(emit func(data []byte) error) error) error {
	if h.err != nil {
		return h.err
	}
	if h.log.err != nil {
		return h.log.err
	}
	log, err := h.snapshotInto(h.number+1, write)
	if err != nil {
		return fmt.Errorf("rewrite home %s: %w", h.o.Dir, err)
	}
	old, oldNumber := h.log, h.number
	h.log, h.number = log, h.number+1
	err = h.finish()
	// The old log's changes are in the new snapshot, but a disk that cannot close it
	// properly is not to be trusted with more.
	if err = errors.Join(err, old.Close()); err == nil {
		err = h.retire(oldNumber)
	}
	if err != nil {
		h.err = fmt.Errorf("%w: rewrite home %s: %w", ErrFailed, h.o.Dir, err)
	}
	return h.err
}

// snapshotInto writes a snapshot without its mark. What it leaves when it fails never
// counts and goes with the next rewrite or open, so removing it may fail as well.
func (h *Home) snapshotInto(number uint64, write func(func([]byte) error) error) (*Log, error) {
	log, err := h.begin(number)
	if err != nil {
		return nil, err
	}
	err = write(func(data []byte) error {
		_, err := log.Append(data)
		return err
	})
	if err == nil {
		err = log.err // write may have hidden it
	}
	if err != nil {
		dir := h.generation(number).Dir
		return nil, errors.Join(err, log.closeFiles(), h.o.FS.RemoveAll(dir))
	}
	return log, nil
}

// Close syncs the home and closes its files.
func (h *Home) Close() error {
	err := h.log.Close()
	if h.err != nil && !errors.Is(h.err, ErrClosed) {
		err = h.err
	}
	h.err = ErrClosed
	return err
}
