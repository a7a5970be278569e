package wal

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/skepmq/skep/segment/vfs"
)

const oldSuffix = ".old"

// generations are the sub-directories of a home.
type generations struct {
	numbers []uint64 // ascending
	old     []string // names of those replaced and not yet gone
}

func listGenerations(fsys vfs.FS, dir string) (generations, error) {
	names, err := fsys.List(dir)
	if err != nil {
		return generations{}, err
	}
	var g generations
	for _, name := range names {
		base, old := strings.CutSuffix(name, oldSuffix)
		if len(base) != nameLen {
			continue
		}
		number, err := strconv.ParseUint(base, 10, 64)
		if err != nil {
			continue
		}
		if old {
			g.old = append(g.old, name)
			continue
		}
		g.numbers = append(g.numbers, number)
	}
	return g, nil
}

// generation returns the options of one generation's log. The log ids differ, so an
// entry of one is never valid in another.
func (h *Home) generation(number uint64) Options {
	return Options{
		FS:           h.o.FS,
		Dir:          filepath.Join(h.o.Dir, segmentName(number)),
		LogID:        h.o.LogID + number*0x9e3779b97f4a7c15, // odd, so no two meet
		SegmentBytes: h.o.SegmentBytes,
		Logger:       h.o.Logger,
	}
}

// newest finds the generation that counts: the highest complete one. ok is false if
// there is none because the home is new.
func (h *Home) newest(numbers []uint64) (number uint64, ok bool, err error) {
	var damage error
	for _, n := range slices.Backward(numbers) {
		err := h.complete(n)
		if err == nil {
			return n, true, nil
		}
		if !errors.Is(err, ErrCorrupt) {
			return 0, false, err
		}
		// A rewrite that did not finish, in whatever state, if an older one is complete.
		damage = err
	}
	if len(numbers) == 0 || errors.Is(damage, errNoMark) && slices.Equal(numbers, []uint64{1}) {
		// Only the first generation begins without one before it, and a home is used
		// only after its mark was synced.
		return 0, false, nil
	}
	return 0, false, damage
}

var (
	errNoMark   = fmt.Errorf("%w: no mark behind the snapshot", ErrCorrupt)
	errMarkSeen = errors.New("wal: mark seen")
)

// complete returns nil if a generation holds the mark, and an error that wraps
// ErrCorrupt if it does not: errNoMark if it ends before, cleanly or torn.
func (h *Home) complete(number uint64) error {
	o := h.generation(number)
	_, err := walk(o, func(e entry, _ int64) error {
		if e.kind == kindMark {
			return errMarkSeen
		}
		return nil
	})
	switch {
	case err == nil:
		return &CorruptError{o.Dir, 0, errNoMark}
	case errors.Is(err, errMarkSeen):
		return nil
	}
	return err
}

// clean removes every generation but the one that counts. It is open and synced.
func (h *Home) clean(g generations) error {
	for _, n := range g.numbers {
		var err error
		switch {
		case n < h.number:
			err = h.retire(n)
		case n > h.number:
			err = h.o.FS.RemoveAll(h.generation(n).Dir) // has no mark and never counts
		}
		if err != nil {
			return err
		}
	}
	for _, name := range g.old {
		if err := h.o.FS.RemoveAll(filepath.Join(h.o.Dir, name)); err != nil {
			return err
		}
	}
	return h.o.FS.SyncDir(h.o.Dir)
}

// retire removes a generation that was replaced. It loses its number first, in one
// step: half removed it might pass for a shorter, complete one.
func (h *Home) retire(number uint64) error {
	dir := h.generation(number).Dir
	if err := h.o.FS.Rename(dir, dir+oldSuffix); err != nil {
		return err
	}
	if err := h.o.FS.SyncDir(h.o.Dir); err != nil {
		return err
	}
	return h.o.FS.RemoveAll(dir + oldSuffix)
}
