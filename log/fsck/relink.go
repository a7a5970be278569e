package fsck

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"path/filepath"
	"slices"

	"github.com/skepmq/skep/index"
	"github.com/skepmq/skep/log/catalog"
	"github.com/skepmq/skep/log/record"
	"github.com/skepmq/skep/segment"
)

// link is an entry, or the catalogue, that is to point somewhere else.
type link struct {
	partition uint64
	holder    index.Pointer // zero: the catalogue
	to        index.Pointer
	// If something is missing between the two, lost stands for it, and to is where that
	// points.
	lost *index.Entry
}

// owner is whose a segment is: the partitions' of a queue, or one partition's.
type owner struct {
	queue     uint32
	partition uint64
}

// relinker joins broken chains.
type relinker struct {
	*repairer
	older *entries
	links []*link
}

// relink joins what is left of broken chains. What is missing between two parts is marked
// as lost, in new segments, one for each queue, that hold nothing else; of payloads of dead
// letters in one of their own, as all of those.
//
// The catalogue knows the new segments before anything points into them, and until then the
// chains stay broken for a broker: if this is interrupted nothing is passed over in silence.
func (r *repairer) relink() error {
	if len(r.c.breaks) == 0 {
		return nil
	}
	older, err := r.older()
	if err != nil {
		return err
	}
	l := &relinker{repairer: r, older: older}
	for _, b := range r.c.breaks {
		if err := l.join(b); err != nil {
			return err
		}
	}
	segments, err := l.writeLost()
	if err != nil {
		return err
	}
	if err := l.commit(segments); err != nil {
		return err
	}
	return l.point()
}

// join finds what is left of a chain from a break on.
func (l *relinker) join(b chainBreak) error {
	p := l.c.state.partitions[b.partition]
	holder, end, lastMs := b.holder, b.end, b.lastMs
	for end > p.start {
		e := l.older.before(p.Number, end)
		x := &link{partition: p.Number, holder: holder}
		l.links = append(l.links, x)
		from := p.start
		if e != nil && e.EndOffset() > p.start {
			from, x.to = e.EndOffset(), e.At
		} else {
			e = nil
		}
		if end-from > math.MaxUint32 {
			return fmt.Errorf("partition %d: %d messages cannot be found, too many to mark", p.Number, end-from)
		}
		if from < end {
			l.lose(p.Number, from, end, "cannot be found")
			x.lost = &index.Entry{
				Partition: p.Number, Prev: x.to, BaseOffset: from, Count: uint32(end - from),
				FirstTimestampMs: lastMs, LastTimestampMs: lastMs,
			}
		}
		if e == nil {
			return nil
		}
		// Where its chain is whole from here on, there is nothing more to do.
		for {
			holder, end, lastMs = e.At, e.BaseOffset, e.FirstTimestampMs
			if end <= p.start {
				return nil
			}
			next, problem, err := l.c.entry(p, e.Prev, end)
			if err != nil {
				return err
			}
			if problem != nil || !l.c.joins(p, holder, end, &next) {
				break
			}
			e = &next
		}
	}
	return nil
}

// writeLost writes the segments of what is lost, and lets the links point there.
func (l *relinker) writeLost() (segments []record.Segment, err error) {
	byOwner := map[owner][]*link{}
	for _, x := range l.links {
		if x.lost == nil {
			continue
		}
		p := l.c.state.partitions[x.partition]
		o := owner{queue: p.Queue}
		if p.Hidden {
			o.partition = p.Number
		}
		byOwner[o] = append(byOwner[o], x)
	}
	id := l.c.state.meta.NextSegment
	for used := range l.c.state.segments {
		id = max(id, used+1)
	}
	id = max(id, 1)
	owners := slices.SortedFunc(maps.Keys(byOwner), func(a, b owner) int {
		return cmp.Or(cmp.Compare(a.queue, b.queue), cmp.Compare(a.partition, b.partition))
	})
	for _, o := range owners {
		d := record.Segment{ID: id, Queue: o.queue, Partition: o.partition, Sealed: true}
		path := l.c.path(segmentsName, segment.FileName(id))
		s := Step{File: path, What: fmt.Sprintf("marks %d stretches of messages as lost", len(byOwner[o]))}
		b := lostSegment(&d, byOwner[o])
		if err := l.step(s, func() error { return l.create(path, b) }); err != nil {
			return nil, err
		}
		segments = append(segments, d)
		id++
	}
	return segments, nil
}

// lostSegment encodes a segment of one run that holds nothing but what the links have lost.
func lostSegment(d *record.Segment, links []*link) []byte {
	slices.SortFunc(links, func(a, b *link) int {
		return cmp.Or(cmp.Compare(a.partition, b.partition), cmp.Compare(a.lost.BaseOffset, b.lost.BaseOffset))
	})
	b := segment.AppendFileHeader(nil, segment.FileHeader{ID: d.ID, Queue: d.Queue, Partition: d.Partition})
	list := make([]index.Entry, len(links))
	for i, x := range links {
		x.lost.Position, x.lost.Length = uint32(len(b)), segment.HeaderLen
		h := segment.Header{
			Partition: x.partition, BaseOffset: x.lost.BaseOffset, Count: x.lost.Count, TimestampMs: x.lost.LastTimestampMs,
		}
		b = segment.AppendLost(b, &h, segment.HeaderLen)
		list[i] = *x.lost
	}
	for i, x := range links {
		x.to = index.Pointer{Segment: d.ID, Position: uint32(len(b) + i*index.EntryLen)}
	}
	b = index.Append(b, list, segment.FileHeaderLen)
	d.Length = int64(len(b))
	return b
}

func (r *repairer) create(path string, b []byte) error {
	f, err := r.o.FS.Create(path)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(b, 0)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	return r.o.FS.SyncDir(filepath.Dir(path))
}

// commit records the new segments, and the chains whose newest entry is another now.
func (l *relinker) commit(segments []record.Segment) error {
	var buf []byte
	meta := l.c.state.meta
	for i := range segments {
		buf = record.AppendSegment(buf, &segments[i])
		meta.NextSegment = max(meta.NextSegment, segments[i].ID+1)
	}
	for _, x := range l.links {
		if x.holder.IsZero() {
			d := l.c.state.partitions[x.partition].filed
			d.Segment, d.Position = x.to.Segment, x.to.Position
			buf = record.AppendFiled(buf, &d)
		}
	}
	if len(buf) == 0 {
		return nil
	}
	return l.toCatalog(record.AppendMeta(buf, &meta), "where partitions end")
}

// toCatalog appends frames to the catalogue.
func (r *repairer) toCatalog(frames []byte, what string) error {
	dir := r.c.path(catalogName)
	return r.step(Step{File: dir, What: what + ", recorded"}, func() error {
		home, err := catalog.Open(catalog.Options{FS: r.o.FS, Dir: dir}, func(record.Kind, []byte) error { return nil })
		if err != nil {
			return err
		}
		err = home.Commit(func(emit func([]byte) ([]byte, error)) error {
			_, err := emit(frames)
			return err
		})
		return errors.Join(err, home.Close())
	})
}

// point lets entries point to where their chain goes on. The index of a run is written once
// for all of its entries: a segment that is gone may have been before any number of them.
func (l *relinker) point() error {
	to := map[index.Pointer]index.Pointer{} // by holder
	for _, x := range l.links {
		if !x.holder.IsZero() {
			to[x.holder] = x.to
		}
	}
	holders := map[uint32][]int64{} // their positions, by segment
	for at := range to {
		holders[at.Segment] = append(holders[at.Segment], int64(at.Position))
	}
	for _, id := range slices.Sorted(maps.Keys(holders)) {
		positions := holders[id]
		slices.Sort(positions)
		if err := l.pointEntries(l.c.segments[id], positions, to); err != nil {
			return err
		}
	}
	return nil
}

// pointEntries writes those indexes of a segment again that have entries at the positions.
func (l *relinker) pointEntries(s *segmentCheck, positions []int64, to map[index.Pointer]index.Pointer) error {
	file, err := segment.OpenReaderUnchecked(l.o.FS, s.path, segment.FileHeader{ID: s.ID})
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	for _, a := range s.indexes {
		if i, _ := slices.BinarySearch(positions, a.from); i == len(positions) || positions[i] >= a.to {
			continue
		}
		list, start, err := index.ReadIndex(file, a.to+index.TrailerLen)
		if err != nil {
			return err
		}
		plain := make([]index.Entry, len(list))
		for i := range list {
			plain[i] = list[i].Entry
			if next, ok := to[list[i].At]; ok {
				plain[i].Prev = next
			}
		}
		if err := l.writeIndex(s, plain, &run{start, a.to + index.TrailerLen, list}, "points to what is left of partitions"); err != nil {
			return err
		}
	}
	return nil
}
