package fsck

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/skepmq/skep/index"
	"github.com/skepmq/skep/segment"
	"github.com/skepmq/skep/segment/vfs"
)

// foreignSuffix is what a segment file bears while it gets its own name back.
const foreignSuffix = ".misnamed"

// byID returns the checks of segments by ascending id.
func (r *repairer) byID() (list []*segmentCheck) {
	for _, id := range slices.Sorted(maps.Keys(r.c.segments)) {
		list = append(list, r.c.segments[id])
	}
	return list
}

// reclaim gives segment files the names that their headers say. First all of them lose the
// wrong ones, so that two may change places; a repair that was interrupted there goes on.
func (r *repairer) reclaim() error {
	for _, s := range r.byID() {
		if s.foreign == 0 {
			continue
		}
		if err := r.rename(s.path, s.path+foreignSuffix); err != nil {
			return err
		}
	}
	names, err := r.o.FS.List(r.c.path(segmentsName))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, name := range names {
		if !strings.HasSuffix(name, foreignSuffix) {
			continue
		}
		if err := r.settle(r.c.path(segmentsName, name)); err != nil {
			return err
		}
	}
	return nil
}

// settle gives a misnamed segment its name, or takes it away if that is not free.
func (r *repairer) settle(path string) error {
	file, err := segment.OpenReader(r.o.FS, path)
	if err != nil {
		return r.move(path, "is not a segment any more")
	}
	id := file.Header().ID
	if err := file.Close(); err != nil {
		return err
	}
	right := r.c.path(segmentsName, segment.FileName(id))
	_, wanted := r.c.segments[id]
	if _, err := r.o.FS.Size(right); wanted && errors.Is(err, fs.ErrNotExist) {
		return r.rename(path, right)
	}
	return r.move(path, fmt.Sprintf("is a copy of %s, or no longer needed", segment.FileName(id)))
}

func (r *repairer) rename(from, to string) error {
	return r.step(Step{File: from, What: "renamed to " + filepath.Base(to)}, func() error {
		if err := r.o.FS.Rename(from, to); err != nil {
			return err
		}
		return r.o.FS.SyncDir(filepath.Dir(to))
	})
}

// fixHeaders writes headers again that the catalogue knows.
func (r *repairer) fixHeaders() error {
	for _, s := range r.byID() {
		if s.header == nil {
			continue
		}
		if err := r.overwrite(s.path, 0, segment.AppendFileHeader(nil, *s.header), "header written again"); err != nil {
			return err
		}
	}
	return nil
}

// fixSegments marks damaged batches as lost, and builds indexes again whose batches are
// right.
func (r *repairer) fixSegments() error {
	older, err := r.older()
	if err != nil {
		return err
	}
	for _, s := range r.byID() {
		for _, l := range s.lost {
			r.lose(l.partition, l.offsets.From, l.offsets.To, "damaged in "+filepath.Base(s.path))
		}
	}
	for _, s := range r.byID() {
		for _, l := range s.lost {
			if err := r.markLost(s, &l); err != nil {
				return err
			}
		}
		for i := range s.rebuilt {
			if err := r.rebuild(s, &s.rebuilt[i], older); err != nil {
				return err
			}
		}
	}
	return nil
}

// markLost puts a batch that says what is lost in the place of those that cannot be read.
func (r *repairer) markLost(s *segmentCheck, l *lostRange) error {
	h := segment.Header{
		Partition: l.partition, BaseOffset: l.offsets.From, Count: uint32(l.offsets.To - l.offsets.From), TimestampMs: l.timestampMs,
	}
	return r.overwrite(s.path, l.from, segment.AppendLost(nil, &h, int(l.to-l.from)), "marked as lost")
}

// rebuild writes the index of a run again.
func (r *repairer) rebuild(s *segmentCheck, run *run, older *entries) error {
	list := make([]index.Entry, len(run.entries))
	for i := range run.entries {
		list[i] = run.entries[i].Entry
		inRun := i > 0 && list[i-1].Partition == list[i].Partition
		if inRun && list[i-1].EndOffset() == list[i].BaseOffset {
			list[i].Prev = run.entries[i-1].At
		} else if e := older.before(list[i].Partition, list[i].BaseOffset); e != nil && e.EndOffset() == list[i].BaseOffset {
			list[i].Prev = e.At
		} else if p := r.c.state.partitions[list[i].Partition]; inRun && p != nil &&
			r.c.joins(p, run.entries[i].At, list[i].BaseOffset, &run.entries[i-1]) {
			list[i].Prev = run.entries[i-1].At
		}
	}
	return r.writeIndex(s, list, run, "index built again")
}

// writeIndex replaces the index of a run by one of the same length.
func (r *repairer) writeIndex(s *segmentCheck, list []index.Entry, run *run, what string) error {
	return r.overwrite(s.path, run.indexStart(), index.Append(nil, list, uint32(run.start)), what)
}

// fill makes what cannot be read, and that nothing points to any more, a run that is
// nobody's, so that the segment is whole and goes with retention like any other.
func (r *repairer) fill() error {
	for _, s := range r.byID() {
		dead := s.dead
		if s.missing {
			dead = []area{{segment.FileHeaderLen, s.Length}}
		}
		dead = merged(dead)
		for _, a := range dead {
			if err := r.fillArea(s, a); err != nil {
				return err
			}
		}
	}
	return nil
}

// merged joins areas that touch each other.
func merged(areas []area) (out []area) {
	for _, a := range areas {
		a.from = max(a.from, segment.FileHeaderLen)
		if n := len(out); n > 0 && out[n-1].to == a.from {
			out[n-1].to = a.to
			continue
		}
		out = append(out, a)
	}
	return out
}

// nobody is the partition of what fills a hole: no partition will ever have that number.
const nobody = 1<<62 - 1

// Bounds of a hole, and of a batch that fills one.
const (
	minFiller = segment.HeaderLen + index.EntryLen + index.TrailerLen
	maxFiller = 512 << 20
)

func (r *repairer) fillArea(s *segmentCheck, a area) error {
	if a.to-a.from < minFiller {
		return nil // no run is as short: these are not bytes of a segment
	}
	step := Step{File: s.path, Position: a.from, Bytes: a.to - a.from, What: "cannot be read; filled"}
	if !s.missing {
		step.Kept = r.keptName(s.path, a.from)
	}
	return r.step(step, func() error {
		if s.missing {
			if err := r.createSegment(s); err != nil {
				return err
			}
		} else if err := r.keep(s.path, a.from, a.to-a.from, step.Kept); err != nil {
			return err
		}
		packer := index.Packer{}
		at := a.from
		for offset := int64(0); ; offset++ {
			left := a.to - at - index.Len(len(packer.Entries)+1)
			n := min(left, maxFiller)
			if rest := left - n; rest > 0 && rest < segment.HeaderLen+index.EntryLen {
				n -= segment.HeaderLen + index.EntryLen
			}
			h := segment.Header{Partition: nobody, BaseOffset: offset, Count: 1}
			if err := r.write(s.path, at, segment.AppendLost(nil, &h, int(n))); err != nil {
				return err
			}
			packer.Add(&h, uint32(at))
			if at += n; at+index.Len(len(packer.Entries)) == a.to {
				break
			}
		}
		return r.write(s.path, at, index.Append(nil, packer.Entries, uint32(a.from)))
	})
}

func (r *repairer) createSegment(s *segmentCheck) error {
	if err := vfs.MakeDir(r.o.FS, filepath.Dir(s.path)); err != nil {
		return err
	}
	w, err := segment.Create(r.o.FS, s.path, r.c.headerOf(s))
	if err != nil {
		return err
	}
	if err := errors.Join(w.Sync(), w.Close()); err != nil {
		return err
	}
	return r.o.FS.SyncDir(filepath.Dir(s.path))
}

// entries are the index entries that can be read, of the partitions that something is
// missing of.
type entries struct {
	of map[uint64][]index.Located
}

// before returns the entry of a partition that ends last, at an offset or before.
func (e *entries) before(partition uint64, offset int64) (last *index.Located) {
	for i := range e.of[partition] {
		if x := &e.of[partition][i]; x.EndOffset() <= offset && (last == nil || x.EndOffset() > last.EndOffset()) {
			last = x
		}
	}
	return last
}

// older collects the entries of partitions with a broken chain, or in an index that is to be
// built again.
func (r *repairer) older() (*entries, error) {
	e := &entries{of: map[uint64][]index.Located{}}
	wanted := map[uint64]bool{}
	for _, b := range r.c.breaks {
		wanted[b.partition] = true
	}
	for _, s := range r.c.segments {
		for _, run := range s.rebuilt {
			for _, x := range run.entries {
				wanted[x.Partition] = true
			}
		}
	}
	if len(wanted) == 0 {
		return e, nil
	}
	for _, s := range r.byID() {
		for _, run := range s.rebuilt {
			for _, x := range run.entries {
				e.of[x.Partition] = append(e.of[x.Partition], x)
			}
		}
		if err := r.collect(e, s, wanted); err != nil {
			return nil, err
		}
	}
	return e, nil
}

// collect adds the entries of a segment whose indexes are right.
func (r *repairer) collect(e *entries, s *segmentCheck, wanted map[uint64]bool) error {
	if s.missing || len(s.indexes) == 0 {
		return nil
	}
	file, err := segment.OpenReaderUnchecked(r.o.FS, s.path, segment.FileHeader{ID: s.ID})
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	for _, a := range s.indexes {
		list, _, err := index.ReadIndex(file, a.to+index.TrailerLen)
		if err != nil {
			return err
		}
		for _, x := range list {
			if wanted[x.Partition] {
				e.of[x.Partition] = append(e.of[x.Partition], x)
			}
		}
	}
	return nil
}
