package dedup

import (
	"errors"
	"fmt"
	"math/bits"
	"slices"
)

// mergeWidth is how many neighbouring sorted files of about one size are merged. An
// entry is rewritten once each time its file grows by that factor.
const mergeWidth = 4

// mergeSpilled merges runs of sorted files until there is none left. Without it the
// number of filters a lookup asks would grow with the messages in the window.
func (x *Index) mergeSpilled() error {
	for {
		run := x.mergeable()
		if run == nil {
			return nil
		}
		if err := x.merge(run); err != nil {
			return err
		}
	}
}

// mergeable returns the oldest run of mergeWidth neighbours of one size, within a
// factor of four, which together cover no more time than a bucket may: or else their
// oldest entries would stay for too long.
func (x *Index) mergeable() []*sortedFile {
	spilled := x.layout.Load().spilled
	for i := 0; i+mergeWidth <= len(spilled); i++ {
		run := spilled[i : i+mergeWidth]
		oldest, newest := run[0].header.newestMs, run[0].header.newestMs
		fit := true
		for _, f := range run {
			oldest, newest = min(oldest, f.header.newestMs), max(newest, f.header.newestMs)
			fit = fit && !f.damaged.Load() && sizeClass(f) == sizeClass(run[0])
		}
		if fit && newest-oldest <= x.spanMs.Load() {
			return run
		}
	}
	return nil
}

func sizeClass(f *sortedFile) int {
	return bits.Len64(uint64(f.header.entries)) / 2
}

// merge replaces the run by one file, under the name of its last.
func (x *Index) merge(run []*sortedFile) error {
	first, last := run[0], run[len(run)-1]
	entries, newest := int64(0), first.header.newestMs
	cursors := make([]*mergeCursor, 0, len(run))
	for _, f := range run {
		entries += f.header.entries
		newest = max(newest, f.header.newestMs)
		cursors = append(cursors, &mergeCursor{file: f})
	}
	w, err := newSortedWriter(x.options.FS, last.path, x.seed, first.header.first, last.header.last, entries)
	if err != nil {
		return err
	}
	if err := mergeInto(w, cursors); err != nil {
		return errors.Join(err, w.abandon())
	}
	merged, err := x.finishSorted(w, newest)
	if err != nil {
		return err
	}
	x.changeLayout(func(l *layout) {
		i := slices.Index(l.spilled, first)
		l.spilled = slices.Replace(l.spilled, i, i+len(run), merged)
	})
	for _, f := range run[:len(run)-1] {
		err = errors.Join(err, x.dropSorted(f))
	}
	return errors.Join(err, last.release())
}

// mergeInto writes the entries of all cursors in order.
func mergeInto(w *sortedWriter, cursors []*mergeCursor) error {
	for _, c := range cursors {
		if err := c.next(); err != nil {
			return err
		}
	}
	for len(cursors) > 0 {
		least := 0
		for i, c := range cursors[1:] {
			if compareSlots(c.slot, cursors[least].slot) < 0 {
				least = i + 1
			}
		}
		c := cursors[least]
		w.add(c.slot)
		if err := c.next(); err != nil {
			return err
		}
		if c.done {
			cursors = slices.Delete(cursors, least, least+1)
		}
	}
	return w.err
}

// mergeCursor walks the entries of a sorted file.
type mergeCursor struct {
	file   *sortedFile
	slot   slot
	done   bool
	number uint32 // of the next page
	page   page   // what is left of the one before
	window []byte // pages read ahead
	buffer []byte
}

// next moves to the next entry, or to done.
func (c *mergeCursor) next() error {
	if len(c.page) == 0 {
		if c.number == c.file.header.pages {
			c.done = true
			return nil
		}
		if err := c.nextPage(); err != nil {
			return err
		}
	}
	c.slot, c.page = c.page.slot(0), c.page[entryLen:]
	return nil
}

func (c *mergeCursor) nextPage() (err error) {
	if len(c.window) == 0 {
		if c.buffer == nil {
			c.buffer = make([]byte, writeBufferLen)
		}
		n := min(int64(len(c.buffer)), pageLen*int64(c.file.header.pages-c.number))
		at := pageLen * (1 + int64(c.number))
		c.window = c.buffer[:n]
		if read, err := c.file.file.ReadAt(c.window, at); int64(read) < n {
			return fmt.Errorf("read %s at %d: %w", c.file.path, at, err)
		}
	}
	c.page, err = c.file.check(c.window, c.number)
	c.window = c.window[pageLen:]
	c.number++
	return err
}
