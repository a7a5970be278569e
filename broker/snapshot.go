package broker

import (
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/skepmq/skep/log/backup"
	"github.com/skepmq/skep/log/journal"
	partlog "github.com/skepmq/skep/log/partition"
	"github.com/skepmq/skep/segment/vfs"
)

// A snapshot is what a power cut at one moment would leave, and is recovered like that. The
// moment is the end of a journal generation: everything that was appended before lies in the
// sealed ones, synced and whole, and nothing that came later does. Homes may hold what the
// journal has, never more, see checkpoint; so homes and sealed generations are the state of
// that moment, as long as no checkpoint runs while they are listed.
//
// What is listed is read while the broker goes on. A file is opened when it is listed, so it
// can be read to the end whoever removes its name; or, for segments, of which there may be
// very many, kept by partlog.Held. And of every file only what was there is read: all are
// appended to, at most, behind that. Nothing is linked or copied in the data directory, so a
// process that ends at any time leaves nothing behind.

// Snapshot is the state of the broker at one moment, to be copied. It belongs to one
// goroutine.
type Snapshot struct {
	At    time.Time     // the moment, wall clock
	Files []backup.File // each to be opened once, before Close

	b      *Broker
	opened []vfs.File // of the first files; nil: handed out
	held   *partlog.Held
}

// Snapshot begins a snapshot: it has everything that was answered before the call, and every
// decision whole. It waits for a checkpoint that runs. There is one at a time; the caller
// closes it. Errors: ErrSnapshotRunning, ErrClosed, ErrStorageFailed, *segment.CorruptError
// if a segment is not there or too short, and those of the file system.
func (b *Broker) Snapshot() (*Snapshot, error) {
	if !b.snapshotting.CompareAndSwap(false, true) {
		return nil, ErrSnapshotRunning
	}
	s := &Snapshot{b: b}
	err := s.cut()
	if err == nil {
		err = s.listSegments()
	}
	if err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// cut begins a generation and opens what says what there was before.
func (s *Snapshot) cut() error {
	b := s.b
	b.checkpointMu.Lock()
	defer b.checkpointMu.Unlock()
	if err := b.Ready(); err != nil {
		return err
	}
	// A checkpoint that has just failed has not yet said so: what it was about to file may be
	// neither in a home nor in the generations that are listed.
	if err := errors.Join(b.catalog.Err(), b.offsets.Err()); err != nil {
		return b.storageError(err)
	}
	sealed, err := b.journal.Rotate()
	if errors.Is(err, journal.ErrClosed) || b.journal.Err() != nil {
		return b.storageError(err)
	}
	if err != nil {
		return err
	}
	// The next checkpoint drops what was sealed; without anything to file it would not come.
	b.poke()
	s.At = time.UnixMilli(b.clock.wallMs())
	for _, list := range []func() ([]string, error){
		b.ids.Files,
		func() ([]string, error) { return b.journal.Files(b.filed+1, sealed) },
		b.offsets.Files,
		b.catalog.Files,
	} {
		paths, err := list()
		if err != nil {
			return fmt.Errorf("list files of a snapshot: %w", err)
		}
		for _, path := range paths {
			if err := s.open(path); err != nil {
				return err
			}
		}
	}
	s.held, err = b.store.Hold()
	return err
}

// open adds a file as it is now.
func (s *Snapshot) open(path string) error {
	f, err := s.b.o.FS.Open(path)
	if err != nil {
		return err
	}
	i := len(s.opened)
	s.opened = append(s.opened, f)
	size, err := f.Size()
	if err != nil {
		return err
	}
	return s.add(path, size, func() (backup.Source, error) {
		s.opened[i] = nil
		return f, nil
	})
}

func (s *Snapshot) add(path string, size int64, open func() (backup.Source, error)) error {
	name, err := filepath.Rel(s.b.o.Dir, path)
	s.Files = append(s.Files, backup.File{Name: filepath.ToSlash(name), Size: size, Open: open})
	return err
}

// listSegments adds the segments. One that is damaged would make a backup that is, and which
// somebody takes for a good one.
func (s *Snapshot) listSegments() error {
	for i := range s.held.Segments {
		info := &s.held.Segments[i]
		if err := s.held.Check(info); err != nil {
			return fmt.Errorf("snapshot: %w", err)
		}
		err := s.add(s.held.Path(info.ID), info.Length, func() (backup.Source, error) {
			f, err := s.held.Open(info.ID)
			if err != nil {
				return nil, err
			}
			return &heldFile{f, s.held, info.ID}, nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// heldFile is a segment that is given up as soon as it is copied.
type heldFile struct {
	vfs.File
	held *partlog.Held
	id   uint32
}

func (f *heldFile) Close() error {
	f.held.Release(f.id)
	return f.File.Close()
}

// Proceed returns why copying should not go on: ErrClosed when the broker stops, and
// ErrStorageFull when the disk is full and segments that were dropped are there for nothing
// but the snapshot.
func (s *Snapshot) Proceed() error {
	select {
	case <-s.b.stopC:
		return ErrClosed
	default:
	}
	if s.b.space.full.Load() && s.held.Dropped() > 0 {
		return fmt.Errorf("snapshot: its files are needed: %w", ErrStorageFull)
	}
	return nil
}

// Close gives up what has not been copied, and lets another snapshot begin. Errors of closing
// files that were only read concern nobody.
func (s *Snapshot) Close() {
	var errs []error
	for _, f := range s.opened {
		if f != nil {
			errs = append(errs, f.Close())
		}
	}
	_ = errors.Join(errs...)
	if s.held != nil {
		s.held.Close()
	}
	s.b.snapshotting.Store(false)
}
