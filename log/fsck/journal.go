package fsck

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"

	"github.com/skepmq/skep/log/journal"
	"github.com/skepmq/skep/segment"
)

func (c *checker) checkJournal() error {
	if !c.logs {
		return nil
	}
	dir := c.path(journalName)
	found, err := journal.Inspect(c.journalOptions(), func(_ uint64, frames []byte) error { return c.state.replay(frames) })
	for _, g := range found {
		if g.Filed {
			c.finding(Leftover, g.Path, 0, "a generation that a checkpoint has filed")
			continue
		}
		c.report.Summary.Generations++
		c.report.Summary.JournalBytes += g.Size
		c.report.Summary.Bytes += g.Size
		c.logFiles(g.Path)
		if g.Torn != nil && err == nil {
			c.finding(TornTail, g.Torn.Path, g.Torn.Position, g.Torn.Err)
		} else if !g.Header && err == nil {
			c.finding(Leftover, g.Path, 0, "not begun, or its files are gone")
		}
	}
	c.state.live()
	var name *journal.NameError
	switch {
	case err == nil:
	case errors.Is(err, fs.ErrNotExist) && c.state.meta.Generation == 0:
	case errors.As(err, &c.gap), errors.Is(err, fs.ErrNotExist):
		c.logs = false
		if c.gap == nil {
			c.gap = &journal.GapError{Dir: dir, Missing: c.state.meta.Generation + 1}
		}
		if c.gap.Missing == c.state.meta.Generation+1 {
			stale, err := c.staleCatalog()
			if stale || err != nil {
				return err
			}
		}
		c.finding(JournalMissing, dir, 0, c.gap)
	case errors.As(err, &name):
		c.logs = false
		c.finding(JournalDamaged, filepath.Join(dir, name.Name), 0, name)
	default:
		c.logs = false
		if !errors.As(err, &c.journal) {
			c.replay = err
		}
		return c.damage(JournalDamaged, dir, err)
	}
	c.checkExcused()
	for number, next := range c.state.gaps {
		c.logs = false
		f := c.finding(JournalDamaged, dir, 0, fmt.Sprintf("messages are missing: the next batch begins at offset %d", next))
		c.of(f, number, c.state.partitions[number].end, next)
	}
	return nil
}

// staleCatalog looks, where the journal does not go on from the catalogue, for what shows
// that it is the catalogue that has lost its end, and tells that: a torn end of its own, or
// segments that it does not know of.
func (c *checker) staleCatalog() (bool, error) {
	if c.torn != nil {
		c.finding(CatalogueDamaged, c.torn.Path, c.torn.Position, fmt.Sprintf(
			"%v; that it had been written shows in the journal, whose generation %d is gone", c.torn.Err, c.gap.Missing))
		return true, nil
	}
	names, err := c.o.FS.List(c.path(segmentsName))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	for _, name := range names {
		id, ok := segment.ParseFileName(name)
		if !ok || c.state.segments[id].ID == 0 && id < c.state.meta.NextSegment {
			continue // not ours, or dropped
		}
		size, err := c.o.FS.Size(c.path(segmentsName, name))
		if err != nil {
			return false, err
		}
		if size > c.state.segments[id].Length {
			c.finding(CatalogueDamaged, c.path(catalogName), 0, fmt.Sprintf(
				"it knows %d bytes of %s, which has %d, and generation %d of the journal is gone: it has lost its end",
				c.state.segments[id].Length, name, size, c.gap.Missing))
			return true, nil
		}
	}
	return false, nil
}

// checkExcused tells what belongs to something of which there is neither a record nor one of
// its deletion. A rewritten catalogue keeps deletions of what it does not know any more.
func (c *checker) checkExcused() {
	s := c.state
	for _, number := range slices.Sorted(maps.Keys(s.lostQueues)) {
		c.logs = false
		c.finding(CatalogueDamaged, c.path(catalogName), 0, fmt.Sprintf(
			"there is a partition %q of queue %d, and no record of that queue, nor of its deletion", s.lostQueues[number], number))
	}
	if s.stray != "" && len(s.gone)+len(s.goneQueues) == 0 {
		c.logs = false
		c.finding(CatalogueDamaged, c.path(catalogName), 0, fmt.Sprintf("there is %s, and no record of that partition, nor of any deletion", s.stray))
	}
}

func (c *checker) journalOptions() journal.Options {
	return journal.Options{
		FS: c.o.FS, Dir: c.path(journalName), LogID: c.state.meta.Directory, Filed: c.state.meta.Generation,
	}
}
