package journal

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"

	"github.com/skepmq/skep/log/wal"
	"github.com/skepmq/skep/segment/vfs"
)

// replay hands the entries of every unfiled generation to fn, and removes the filed
// ones. It returns the newest generation's number.
func (j *Journal) replay(fn func(generation uint64, frames []byte) error) (last uint64, err error) {
	found, err := j.list()
	if err != nil {
		return 0, err
	}
	filed, found, err := j.split(found)
	if err != nil {
		return 0, err
	}
	for _, n := range filed {
		if err := j.o.FS.RemoveAll(j.path(n)); err != nil {
			return 0, fmt.Errorf("remove filed generation: %w", err)
		}
	}
	torn, err := j.firstUnsealed(found)
	if err != nil {
		return 0, err
	}
	for i, n := range found {
		if err := j.replayOne(n, i >= torn, fn); err != nil {
			return 0, err
		}
	}
	return j.o.Filed + uint64(len(found)), nil
}

// list returns the numbers of the generations that are there, ascending.
func (j *Journal) list() (found []uint64, err error) {
	if err := vfs.MakeDir(j.o.FS, j.o.Dir); err != nil {
		return nil, fmt.Errorf("make journal directory: %w", err)
	}
	names, err := j.o.FS.List(j.o.Dir)
	if err != nil {
		return nil, fmt.Errorf("list journal: %w", err)
	}
	return j.generations(names)
}

// Check tells whether the generations that should be there are, without changing anything.
// What it answers with is what Open would. A catalogue that has lost its end asks for
// generations that are long gone, and must not be believed about anything else.
func Check(o Options) error {
	if o.FS == nil {
		o.FS = vfs.OS
	}
	names, err := o.FS.List(o.Dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("list journal: %w", err)
	}
	j := &Journal{o: o}
	found, err := j.generations(names)
	if err == nil {
		_, _, err = j.split(found)
	}
	return err
}

// split tells the generations that are filed from those that are not. Of the latter none
// may be missing.
func (j *Journal) split(found []uint64) (filed, unfiled []uint64, err error) {
	for len(found) > 0 && found[0] <= j.o.Filed {
		filed, found = append(filed, found[0]), found[1:]
	}
	for i, n := range found {
		if want := j.o.Filed + 1 + uint64(i); n != want {
			return nil, nil, &GapError{j.o.Dir, want, n}
		}
	}
	if len(found) == 0 && j.o.Filed > 0 {
		return nil, nil, &GapError{Dir: j.o.Dir, Missing: j.o.Filed + 1}
	}
	return filed, found, nil
}

// firstUnsealed returns the index of the oldest generation that may have a torn tail.
// The first entry of a generation is written after the last sync of the one before; but
// its directory is made earlier, by Rotate. So it is the newest one that has entries.
func (j *Journal) firstUnsealed(found []uint64) (int, error) {
	for i := len(found) - 1; i > 0; i-- {
		l, r, err := wal.Open(j.walOptions(found[i]), nil)
		if err != nil {
			return 0, fmt.Errorf("open journal generation %d: %w", found[i], err)
		}
		if err := l.Close(); err != nil {
			return 0, fmt.Errorf("close journal generation %d: %w", found[i], err)
		}
		if r.Entries > 0 {
			return i, nil
		}
	}
	return 0, nil
}

// replayOne replays a generation, cutting a torn tail if it may have one.
func (j *Journal) replayOne(n uint64, cut bool, fn func(uint64, []byte) error) error {
	size := int64(0)
	each := func(_ uint64, data []byte) error {
		size += int64(len(data))
		return fn(n, append([]byte(nil), data...))
	}
	var err error
	if cut {
		var l *wal.Log
		if l, _, err = wal.Open(j.walOptions(n), each); err == nil {
			err = l.Close() // Open has synced what it recovered
		}
	} else {
		err = wal.Scan(j.walOptions(n), each)
	}
	if err != nil {
		return fmt.Errorf("replay journal generation %d: %w", n, err)
	}
	j.sizes[n] = size
	j.unfiled.Add(size)
	return nil
}

// Rotate makes the committer go on in a new generation and returns the number of the
// newest sealed one: everything appended before the call is in it or an older one.
func (j *Journal) Rotate() (sealed uint64, err error) {
	if err := j.Err(); err != nil {
		return 0, err
	}
	// The directory is made here, so that the committer only swaps pointers. A crash
	// leaves it empty behind a generation that may be torn; see firstUnsealed.
	j.sizesMu.Lock()
	sealed = j.generation
	j.sizesMu.Unlock()
	l, err := j.create(sealed + 1)
	if err != nil {
		return 0, err
	}
	r := rotation{log: l, reply: make(chan struct{})}
	select {
	case j.rotateC <- r:
		<-r.reply
	case <-j.stopC:
		return 0, errors.Join(ErrClosed, l.Close())
	}
	return sealed, j.Err()
}

// switchTo commits the open group to the old log, so that all of it was synced before
// the first byte of the next generation, and goes on in the new one.
func (j *Journal) switchTo(r rotation, lastWarn *time.Time) {
	g := j.swap()
	err := j.write(g, true, lastWarn)
	if err == nil {
		err = j.log.Close()
	}
	j.settle(g, err)
	j.log = r.log
	j.sizesMu.Lock()
	// What is appended while this runs counts here, not in the generation it goes
	// to; the sum is right, and a size only says how much a Drop gives back.
	j.sizes[j.generation] = j.current.Swap(0)
	j.generation++
	j.sizesMu.Unlock()
	close(r.reply)
}

// Drop removes the generations up to n: the homes hold what they held.
func (j *Journal) Drop(n uint64) error {
	j.sizesMu.Lock()
	var drop []uint64
	for g := range j.sizes {
		if g <= n {
			drop = append(drop, g)
		}
	}
	j.sizesMu.Unlock()
	slices.Sort(drop)
	for _, g := range drop {
		if err := j.o.FS.RemoveAll(j.path(g)); err != nil {
			return fmt.Errorf("drop journal generation %d: %w", g, err)
		}
		j.sizesMu.Lock()
		j.unfiled.Add(-j.sizes[g])
		delete(j.sizes, g)
		j.freed.Broadcast()
		j.sizesMu.Unlock()
	}
	return j.o.FS.SyncDir(j.o.Dir)
}

// Files returns the paths of the files that the sealed generations from one to another are
// in. They do not change any more, and stay there until they are dropped.
func (j *Journal) Files(from, to uint64) (paths []string, err error) {
	for n := from; n <= to; n++ {
		files, err := wal.Files(j.o.FS, j.path(n))
		if err != nil {
			return nil, fmt.Errorf("list journal generation %d: %w", n, err)
		}
		paths = append(paths, files...)
	}
	return paths, nil
}

// Unfiled returns the bytes that no checkpoint has filed yet.
func (j *Journal) Unfiled() int64 { return j.unfiled.Load() }

// Appended returns the bytes of all frames appended since Open.
func (j *Journal) Appended() int64 { return j.appended.Load() }

// Current returns the bytes appended to the current generation.
func (j *Journal) Current() int64 { return j.current.Load() }

// Admit waits until less than Options.MaxUnfiled bytes are unfiled, or the journal has
// failed or closed. It is the brake of what makes the broker's memory grow. While Refuse
// is in force it returns that error instead of waiting.
func (j *Journal) Admit() error {
	if j.unfiled.Load() < j.o.MaxUnfiled {
		return nil
	}
	j.sizesMu.Lock()
	defer j.sizesMu.Unlock()
	for j.unfiled.Load() >= j.o.MaxUnfiled {
		if err := j.stopped(); err != nil {
			return err
		}
		if j.refusal != nil {
			return j.refusal
		}
		j.freed.Wait()
	}
	return nil
}

// Refuse makes Admit return err where it would wait: nothing is being filed, so waiting
// would not end. nil lets it wait again.
func (j *Journal) Refuse(err error) {
	j.sizesMu.Lock()
	defer j.sizesMu.Unlock()
	j.refusal = err
	j.freed.Broadcast()
}

// Poison makes the journal fail as if a write of its own had: something else that must
// be written cannot be, and only a restart recovers.
func (j *Journal) Poison(err error) { _ = j.fail(err) }

// wakeAdmit makes those who wait in Admit look again.
func (j *Journal) wakeAdmit() {
	j.sizesMu.Lock()
	defer j.sizesMu.Unlock()
	j.freed.Broadcast()
}

func (j *Journal) stopped() error {
	select {
	case <-j.failedC:
		return ErrFailed
	case <-j.stopC:
		return ErrClosed
	default:
		return nil
	}
}
