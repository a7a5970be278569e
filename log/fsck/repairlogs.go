package fsck

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/skepmq/skep/log/offsets"
	"github.com/skepmq/skep/log/record"
	"github.com/skepmq/skep/segment"
	"github.com/skepmq/skep/segment/vfs"
)

// cutJournal takes away the journal from the first place on that cannot be read. Later
// facts rest on those that are lost, so they go as well; what messages they held is told.
func (r *repairer) cutJournal() error {
	var last uint64 // generation that stays
	switch {
	case r.c.journal != nil:
		n, err := strconv.ParseUint(filepath.Base(filepath.Dir(r.c.journal.Path)), 10, 64)
		if err != nil {
			n, err = strconv.ParseUint(filepath.Base(r.c.journal.Path), 10, 64) // it has no files
		}
		if err != nil {
			return nil // not a place in the journal
		}
		last = n
	case r.c.gap != nil:
		last = r.c.gap.Missing
	default:
		return nil
	}
	numbers, err := r.generations()
	if err != nil {
		return err
	}
	if err := r.countLost(numbers, last); err != nil {
		return err
	}
	for _, n := range slices.Backward(numbers) {
		if n > last {
			if err := r.move(r.generationPath(n), "follows what cannot be read; taken away"); err != nil {
				return err
			}
		}
	}
	if r.c.gap != nil {
		return r.beginGeneration(last)
	}
	return r.cutGeneration()
}

func (r *repairer) generationPath(n uint64) string {
	return r.c.path(journalName, fmt.Sprintf("%020d", n))
}

// generations returns the numbers of the generations that are there.
func (r *repairer) generations() (numbers []uint64, err error) {
	names, err := r.o.FS.List(r.c.path(journalName))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	for _, name := range names {
		if n, err := strconv.ParseUint(name, 10, 64); err == nil {
			numbers = append(numbers, n)
		}
	}
	return numbers, err
}

// beginGeneration makes an empty generation in the place of one that is missing, so that
// the journal has an end behind what is filed.
func (r *repairer) beginGeneration(n uint64) error {
	path := r.generationPath(n)
	return r.step(Step{File: path, What: "begun, empty"}, func() error {
		if err := vfs.MakeDir(r.o.FS, filepath.Dir(path)); err != nil {
			return err
		}
		return vfs.MakeDir(r.o.FS, path)
	})
}

// cutGeneration cuts the generation that is damaged: the files behind the damaged one, the
// last first, and then that.
func (r *repairer) cutGeneration() error {
	at := r.c.journal
	dir := filepath.Dir(at.Path)
	if !isNumber(filepath.Base(at.Path)) || !isNumber(filepath.Base(dir)) {
		return nil // the generation has no files, so there is nothing to cut
	}
	names, err := r.o.FS.List(dir)
	if err != nil {
		return err
	}
	for _, name := range slices.Backward(names) {
		if isNumber(name) && name > filepath.Base(at.Path) {
			if err := r.move(filepath.Join(dir, name), "follows what cannot be read; taken away"); err != nil {
				return err
			}
		}
	}
	size, err := r.o.FS.Size(at.Path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // it is missing, and nothing follows any more
	}
	if err != nil {
		return err
	}
	s := Step{File: at.Path, Position: at.Position, Bytes: size - at.Position, What: "cut", Kept: r.keptName(at.Path, at.Position)}
	return r.step(s, func() error {
		if err := r.keep(at.Path, at.Position, size-at.Position, s.Kept); err != nil {
			return err
		}
		f, err := r.o.FS.OpenReadWrite(at.Path)
		if err != nil {
			return err
		}
		err = f.Truncate(at.Position)
		if err == nil {
			err = f.Sync()
		}
		return errors.Join(err, f.Close())
	})
}

// countLost tells which messages are in what is taken away, as far as the headers of their
// batches can be read, and those before them that are missing.
func (r *repairer) countLost(numbers []uint64, last uint64) error {
	ends := map[uint64]int64{}
	for _, n := range numbers {
		if n < last {
			continue
		}
		dir := r.generationPath(n)
		names, err := r.o.FS.List(dir)
		if err != nil {
			return err
		}
		for _, name := range names {
			if err := r.findBatches(filepath.Join(dir, name), ends); err != nil {
				return err
			}
		}
	}
	for _, number := range slices.Sorted(maps.Keys(ends)) {
		from := int64(0) // of one that was made in what is cut
		if p := r.c.state.partitions[number]; p != nil {
			from = p.end
		} else if r.c.state.gone[number] || number < r.c.state.meta.NextPartition {
			continue // it was deleted before
		}
		r.lose(number, from, ends[number], "in the part of the journal that was cut")
	}
	r.report.Other = append(r.report.Other,
		"acks, configuration and other changes in the part of the journal that is cut, and messages whose batch cannot be read there at all")
	return nil
}

// findBatches looks for headers of batches in a file of a log, whatever else is damaged
// there, and notes where the partitions would end that they are of.
func (r *repairer) findBatches(path string, ends map[uint64]int64) (err error) {
	f, err := r.o.FS.Open(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	size, err := f.Size()
	if err != nil {
		return err
	}
	mark := []byte{byte(segment.Magic & 0xff), segment.Magic >> 8, segment.KindBatch}
	b := make([]byte, min(size, copyBytes+segment.HeaderLen))
	for at := int64(0); at < size; at += copyBytes {
		n, err := f.ReadAt(b[:min(int64(len(b)), size-at)], at)
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		for i := 8; i < n; i++ {
			next := bytes.Index(b[i:n], mark)
			if next < 0 {
				break
			}
			i += next
			if h, err := segment.DecodeHeader(b[i-8 : n]); err == nil {
				ends[h.Partition] = max(ends[h.Partition], h.EndOffset())
			}
		}
	}
	return nil
}

// fixRecords brings back cursors to where there are messages, and forgets dead letters
// whose payloads are lost.
func (r *repairer) fixRecords() error {
	if !r.c.logs {
		return nil
	}
	if len(r.c.cursors) > 0 {
		if err := r.fixCursors(); err != nil {
			return err
		}
	}
	if len(r.c.letters) == 0 {
		return nil
	}
	var frames []byte
	for i := range r.c.letters {
		d := &r.c.letters[i]
		frames = record.AppendDeadLetterRemoved(frames, d.Queue, d.ID)
		r.report.Other = append(r.report.Other, fmt.Sprintf("dead letter of transaction id %q of group %q: %s", d.TransactionID, d.GroupName, d.Error))
	}
	return r.toCatalog(frames, fmt.Sprintf("%d dead letters without payload removed", len(r.c.letters)))
}

func (r *repairer) fixCursors() error {
	var fixed []record.Cursor
	for _, c := range r.c.cursors {
		p := r.c.state.partitions[c.Partition]
		r.report.Other = append(r.report.Other, fmt.Sprintf("group %q in partition %q: committed %d, now %d",
			r.c.state.groups[c.Group].name, p.Name, c.Committed, min(max(c.Committed, -1), p.end-1)))
		c.Committed = min(max(c.Committed, -1), p.end-1)
		c.Attempt, c.AttemptStart = 0, -1
		c.LeaseID, c.LeaseFrom, c.LeaseEnd, c.ExpiryMs = [16]byte{}, 0, 0, 0
		fixed = append(fixed, c)
	}
	dir := r.c.path(offsetsName)
	return r.step(Step{File: dir, What: fmt.Sprintf("%d cursors put where there are messages", len(fixed))}, func() error {
		home, err := offsets.Open(offsets.Options{FS: r.o.FS, Dir: dir, LogID: r.c.state.meta.Directory}, func(record.Cursor) {})
		if err != nil {
			return err
		}
		return errors.Join(home.Commit(fixed), home.Close())
	})
}

// dropDedup takes the index of transaction ids away: the next start makes it again from the
// messages.
func (r *repairer) dropDedup() error {
	if !r.c.dedup {
		return nil
	}
	return r.move(r.c.path(dedupName), "dropped; the next start makes it from the messages")
}
