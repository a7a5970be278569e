package fsck

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
)

// Step is one change that a repair makes, or would make.
type Step struct {
	File     string `json:"file"` // relative to the data directory
	Position int64  `json:"position"`
	Bytes    int64  `json:"bytes"` // replaced or taken away
	What     string `json:"what"`
	Kept     string `json:"kept,omitempty"` // file with those bytes, below the data directory
}

// Loss is a range of messages that a repair has given up.
type Loss struct {
	Queue     string  `json:"queue"`
	Partition string  `json:"partition"`
	Offsets   Offsets `json:"offsets"`
	Messages  int64   `json:"messages"`
	Why       string  `json:"why"`
}

// RepairReport is the result of Repair.
type RepairReport struct {
	Dir     string   `json:"dir"`
	Applied bool     `json:"applied"`
	Kept    string   `json:"kept,omitempty"` // directory of what was replaced or taken away
	Steps   []Step   `json:"steps"`
	Losses  []Loss   `json:"losses"`
	Lost    int64    `json:"lost"`   // messages, of all losses
	Other   []string `json:"other"`  // what else is lost: acks, dead letters
	Before  *Report  `json:"before"` // as Verify found the directory
	After   *Report  `json:"after,omitempty"`
}

// maxRounds bounds how often a repair looks again at what it has done.
const maxRounds = 12

// Repair makes the directory such that Verify finds nothing and a broker serves what is
// left. Where apply is false it changes nothing and tells the steps it would begin with:
// what it finds once these are made may need more of them.
//
// Of every byte that it replaces or takes away it keeps a copy, in a directory of its own
// below repairs/, together with the report. A repair that is interrupted is completed by
// the next one. It gives up messages only where they cannot be read, or where neither they nor
// the index of their run can: then the whole run. What it cannot repair is still in After. Without a whole catalogue and the places of consumer groups it does
// nothing. Errors are those of Verify, and of writing: the report then has what was done
// until there.
func Repair(o Options, apply bool) (*RepairReport, error) {
	o.setDefaults()
	unlock, err := lock(&o, apply)
	if err != nil {
		return nil, err
	}
	defer unlock()
	r := &repairer{o: o, apply: apply, used: map[string]bool{}, report: &RepairReport{Dir: o.Dir, Applied: apply, Steps: []Step{}, Losses: []Loss{}, Other: []string{}}}
	if err := r.run(); err != nil {
		r.report.After = nil // that was before the latest changes
		return r.report, err
	}
	return r.report, nil
}

// repairer is one repair.
type repairer struct {
	o      Options
	apply  bool
	report *RepairReport
	c      *checker        // the latest look
	kept   string          // directory; empty before the first copy
	used   map[string]bool // names in it
	told   int             // losses that are in the report on disk
}

func (r *repairer) run() error {
	for round := 0; ; round++ {
		r.c = newChecker(r.o)
		if err := r.c.check(); err != nil {
			return err
		}
		if round == 0 {
			r.report.Before = r.c.report
		}
		r.report.After = r.c.report
		if r.c.report.Clean || r.c.blind() || round == maxRounds {
			break
		}
		before := len(r.report.Steps)
		if err := r.round(); err != nil {
			return err
		}
		if len(r.report.Steps) == before || !r.apply {
			break // nothing more that we can do
		}
	}
	if !r.apply {
		r.report.After = nil
	}
	slices.SortStableFunc(r.report.Losses, func(a, b Loss) int {
		return cmp.Or(cmp.Compare(a.Queue, b.Queue), cmp.Compare(a.Partition, b.Partition), cmp.Compare(a.Offsets.From, b.Offsets.From))
	})
	return r.writeReport()
}

// blind reports whether what everything is held against cannot be relied on. No broker
// starts then, and there is nothing to repair by: what an older catalogue does not know
// would be taken for damage, or removed.
func (c *checker) blind() bool {
	return c.told[CatalogueDamaged]+c.told[CatalogueMissing]+c.told[OffsetsDamaged]+c.told[OffsetsMissing] > 0
}

// round makes the changes that can be made before the directory has to be looked at again:
// what is found of a file that is not the right one, or behind an index that cannot be
// read, may be a consequence.
func (r *repairer) round() error {
	for _, step := range []struct {
		do    func() error
		again bool // look again before anything else
	}{
		{r.reclaim, true}, {r.fixHeaders, false}, {r.cutJournal, false}, {r.fixSegments, r.rebuilds()},
		{r.relink, false}, {r.fill, false}, {r.fixRecords, false}, {r.dropDedup, false},
	} {
		before := len(r.report.Steps)
		if err := step.do(); err != nil {
			return err
		}
		if len(r.report.Steps) > before && (r.apply || step.again) {
			return r.writeReport()
		}
	}
	return nil
}

// rebuilds reports whether an index is to be built again.
func (r *repairer) rebuilds() bool {
	for _, s := range r.c.segments {
		if len(s.rebuilt) > 0 {
			return true
		}
	}
	return false
}

// step notes a change, and makes it if it is to be made. What is lost by it is on disk
// before: a repair that goes on where this one was interrupted does not find it any more.
func (r *repairer) step(s Step, do func() error) error {
	if rel, err := filepath.Rel(r.o.Dir, s.File); err == nil {
		s.File = filepath.ToSlash(rel)
	}
	r.report.Steps = append(r.report.Steps, s)
	if !r.apply {
		return nil
	}
	if losses := len(r.report.Losses) + len(r.report.Other); losses > r.told {
		if err := r.writeReport(); err != nil {
			return err
		}
		r.told = losses
	}
	if err := do(); err != nil {
		return fmt.Errorf("repair %s: %w", s.File, err)
	}
	return nil
}

// lose notes messages that are given up.
func (r *repairer) lose(partition uint64, from, to int64, why string) {
	p := r.c.state.partitions[partition]
	if p != nil {
		from = max(from, p.start)
	}
	if from >= to {
		return
	}
	var f Finding
	r.c.of(&f, partition, from, to)
	r.report.Losses = append(r.report.Losses, Loss{f.Queue, f.Partition, Offsets{from, to}, to - from, why})
	r.report.Lost += to - from
}

// overwrite replaces bytes of a file, of which a copy is kept, and makes them durable.
func (r *repairer) overwrite(path string, position int64, b []byte, what string) error {
	s := Step{File: path, Position: position, Bytes: int64(len(b)), What: what, Kept: r.keptName(path, position)}
	return r.step(s, func() error {
		if err := r.keep(path, position, int64(len(b)), s.Kept); err != nil {
			return err
		}
		return r.write(path, position, b)
	})
}

func (r *repairer) write(path string, position int64, b []byte) error {
	f, err := r.o.FS.OpenReadWrite(path)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(b, position)
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// Clean reports whether the directory is clean: as it was found, or after the repair.
func (r *RepairReport) Clean() bool { return r.Before.Clean || r.After != nil && r.After.Clean }
