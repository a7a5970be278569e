package dedup

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/skepmq/skep/segment/vfs"
)

// Inspection is what Inspect has found.
type Inspection struct {
	Files   int
	Entries int64 // in files that are whole; those of a merge counted once
	Bytes   int64
	// Damaged are the files that the next Open sets aside and reports.
	Damaged []*CorruptError
	Torn    []*CorruptError // unfinished ends, which the next Open cuts
	// Leftovers are files that the next Open removes, Unknown those it passes over.
	Leftovers, Unknown []string
	Seed               uint64
}

// Inspect verifies every checksum of the index in dir and changes nothing. It calls visit,
// which may be nil, with each entry of a file that is whole so far. Errors are those of
// reading; a missing directory is fs.ErrNotExist.
func Inspect(fsys vfs.FS, dir string, visit func(hash uint64, offset int64)) (Inspection, error) {
	if fsys == nil {
		fsys = vfs.OS
	}
	if visit == nil {
		visit = func(uint64, int64) {}
	}
	in := inspector{fs: fsys, dir: dir, visit: visit}
	names, err := fsys.List(dir)
	if err != nil {
		return in.Inspection, err
	}
	logs, sorted := in.sort(names)
	if err := in.seed(len(logs)+len(sorted) > 0); err != nil {
		return in.Inspection, err
	}
	oldest := uint64(0) // bucket that the sorted files seen so far begin with
	for i := len(sorted) - 1; i >= 0; i-- {
		name := bucketName(sorted[i], sortedSuffix)
		if oldest > 0 && sorted[i] >= oldest {
			in.Leftovers = append(in.Leftovers, name) // a merge had replaced it
			continue
		}
		first, err := in.sorted(name, sorted[i])
		if err := in.note(err); err != nil {
			return in.Inspection, err
		}
		if err == nil {
			oldest = first
			in.spilled = append(in.spilled, [2]uint64{first, sorted[i]})
		}
	}
	for i, id := range logs {
		if err := in.note(in.log(bucketName(id, logSuffix), id, i == len(logs)-1)); err != nil {
			return in.Inspection, err
		}
	}
	return in.Inspection, nil
}

type inspector struct {
	Inspection
	fs      vfs.FS
	dir     string
	visit   func(hash uint64, offset int64)
	spilled [][2]uint64 // first and last bucket of the sorted files
}

func bucketName(bucket uint64, suffix string) string { return fmt.Sprintf("%020d%s", bucket, suffix) }

// note keeps what is damage, and returns what is not.
func (in *inspector) note(err error) error {
	var corrupt *CorruptError
	if errors.As(err, &corrupt) {
		in.Damaged = append(in.Damaged, corrupt)
		return nil
	}
	return err
}

// seed reads the seed. Without one no hash means anything: a new one is chosen, and the
// files, if there are any, are damaged to it.
func (in *inspector) seed(needed bool) error {
	path := filepath.Join(in.dir, seedName)
	file, err := in.fs.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		if needed {
			err = &CorruptError{path, 0, fmt.Errorf("%w: missing", errInvalid)}
		} else {
			err = nil
		}
		return in.note(err)
	}
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	size, err := file.Size()
	if err != nil {
		return err
	}
	b := make([]byte, min(size, seedLen))
	if _, err := file.ReadAt(b, 0); err != nil && int64(len(b)) < size {
		return err
	}
	if in.Seed, err = decodeSeed(b); err != nil {
		return in.note(&CorruptError{path, 0, err})
	}
	return nil
}

// sort tells the files apart by their names.
func (in *inspector) sort(names []string) (logs, sorted []uint64) {
	for _, name := range names {
		digits, suffix, _ := strings.Cut(name, ".")
		id, err := strconv.ParseUint(digits, 10, 64)
		switch {
		case strings.HasSuffix(name, tmpSuffix):
			in.Leftovers = append(in.Leftovers, name)
		case strings.HasSuffix(name, damagedSuffix):
			in.Damaged = append(in.Damaged, &CorruptError{filepath.Join(in.dir, name), 0, errSetAside})
		case err == nil && "."+suffix == logSuffix:
			logs = append(logs, id)
		case err == nil && "."+suffix == sortedSuffix:
			sorted = append(sorted, id)
		case name != seedName:
			in.Unknown = append(in.Unknown, name)
		}
	}
	return logs, sorted
}

// sorted verifies a spilled bucket, its pages too, which Open leaves to the lookups.
func (in *inspector) sorted(name string, last uint64) (first uint64, err error) {
	s, err := openSortedFile(in.fs, filepath.Join(in.dir, name), in.Seed, last, 1<<62)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, s.release()) }()
	var b [pageLen]byte
	for i := range s.header.pages {
		p, err := s.page(i, b[:])
		if err != nil {
			return 0, err
		}
		for n := range p.len() {
			e := p.slot(n)
			in.visit(e.hash, metaOffset(e.meta))
		}
	}
	in.Files++
	in.Entries += s.header.entries
	in.Bytes += s.header.fileLen()
	return s.header.first, nil
}

func (in *inspector) log(name string, id uint64, newest bool) (err error) {
	for _, s := range in.spilled {
		if s[0] <= id && id <= s[1] {
			in.Leftovers = append(in.Leftovers, name) // its entries are in a sorted file
			return nil
		}
	}
	path := filepath.Join(in.dir, name)
	file, err := in.fs.Open(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	s, err := newScanner(file, in.Seed)
	if err != nil {
		return err
	}
	entries := int64(0)
	end, _, err := s.scan(path, func(b *block) {
		for i := range b.count() {
			e := b.slot(i)
			in.visit(e.hash, metaOffset(e.meta))
		}
		entries += int64(b.count())
	})
	switch {
	case err != nil:
		return err
	case end < s.size && newest:
		in.Torn = append(in.Torn, &CorruptError{path, end, errShort})
	case end < s.size:
		return &CorruptError{path, end, errInvalid}
	}
	in.Files++
	in.Entries += entries
	in.Bytes += end
	return nil
}
