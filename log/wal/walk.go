package wal

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/skepmq/skep/segment/vfs"
)

// CorruptError says where a log is damaged: something that had been synced is gone or
// changed. Err wraps ErrCorrupt or ErrForeign. Nothing has been changed on disk.
type CorruptError struct {
	Path     string
	Position int64 // of the first bad byte's entry in the file at Path
	Err      error
}

func (e *CorruptError) Error() string {
	return fmt.Sprintf("%s, position %d: %v", e.Path, e.Position, e.Err)
}

// Unwrap returns e.Err.
func (e *CorruptError) Unwrap() error { return e.Err }

// nameLen is the length of a segment's name: the index of its first entry, in decimal.
// tidwall counts entries from 1 and we from 0, so index is seq + 1.
const nameLen = 20

func segmentName(index uint64) string { return fmt.Sprintf("%020d", index) }

// found is what a walk has found.
type found struct {
	segments []uint64      // first indexes
	tailSize int64         // valid bytes of the last segment
	size     int64         // valid bytes of all
	next     uint64        // seq of the entry to come; 0 says that not even the header is there
	torn     *CorruptError // where the last segment stops being valid, if it does
	cut      []byte        // the bytes from there on; borrowed from the walker
	tail     []byte        // its valid bytes; borrowed from the walker
}

func (f *found) tailIndex() uint64 { return f.segments[len(f.segments)-1] }

// walker reads a log from the front.
type walker struct {
	fs    vfs.FS
	dir   string
	logID uint64
	seed  uint32
	// visit gets every entry, the header too, and the size of the log with it.
	visit func(e entry, size int64) error

	buf   []byte
	found found
}

// walk verifies a whole log. What it cannot explain as a torn tail is a *CorruptError.
// An error of visit ends the walk and is returned as it is.
func walk(o Options, visit func(entry, int64) error) (found, error) {
	w := walker{fs: o.FS, dir: o.Dir, logID: o.LogID, seed: seedOf(o.LogID), visit: visit}
	segments, err := listSegments(o.FS, o.Dir)
	if err != nil {
		return found{}, err
	}
	w.found.segments = segments
	for i, index := range segments {
		if want := w.found.next + 1; index != want {
			path := filepath.Join(w.dir, segmentName(want))
			return w.found, &CorruptError{path, 0, fmt.Errorf("%w: missing segment, the next is %s", ErrCorrupt, segmentName(index))}
		}
		if err := w.segment(index, i == len(segments)-1); err != nil {
			return w.found, err
		}
	}
	return w.found, nil
}

// listSegments returns the first indexes of a log's segments in order; a missing
// directory has none. tidwall's markers of an unfinished truncation are refused: this
// package leaves none, and tidwall would delete good segments because of them.
func listSegments(fsys vfs.FS, dir string) ([]uint64, error) {
	names, err := fsys.List(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var segments []uint64
	for _, name := range names {
		if len(name) < nameLen {
			continue
		}
		index, err := strconv.ParseUint(name[:nameLen], 10, 64)
		if err != nil || index == 0 {
			continue
		}
		rest := name[nameLen:]
		if rest == "" {
			segments = append(segments, index)
			continue
		}
		if slices.ContainsFunc([]string{".START", ".END", ".TEMP"}, func(s string) bool { return strings.HasSuffix(rest, s) }) {
			return nil, &CorruptError{filepath.Join(dir, name), 0, fmt.Errorf("%w: mark of a truncation never made here", ErrCorrupt)}
		}
	}
	return segments, nil
}

// segment walks one file.
func (w *walker) segment(index uint64, last bool) error {
	path := filepath.Join(w.dir, segmentName(index))
	b, err := w.read(path)
	if err != nil {
		return err
	}
	var pos int64
	for int64(len(b)) > pos {
		e, n, err := decodeEntry(b[pos:], w.seed)
		if err == nil {
			err = w.check(e)
		}
		if err != nil {
			return w.bad(&CorruptError{path, pos, err}, b, last)
		}
		pos += int64(n)
		w.found.size += int64(n)
		w.found.next++
		if err := w.visit(e, w.found.size); err != nil {
			return err
		}
	}
	w.ended(b, pos)
	return nil
}

// ended notes where the valid part of a segment ends.
func (w *walker) ended(b []byte, pos int64) {
	w.found.tailSize, w.found.tail = pos, b[:pos]
}

// check tells whether an entry that is valid by itself belongs where it stands.
func (w *walker) check(e entry) error {
	if e.seq != w.found.next || (e.kind == kindHeader) != (e.seq == 0) {
		return fmt.Errorf("%w: kind %d, seq %d where %d belongs", ErrCorrupt, e.kind, e.seq, w.found.next)
	}
	if e.kind != kindHeader {
		return nil
	}
	if len(e.data) != 8 {
		return fmt.Errorf("%w: log header of %d bytes", ErrCorrupt, len(e.data))
	}
	if id := binary.LittleEndian.Uint64(e.data); id != w.logID {
		return fmt.Errorf("%w: %016x, want %016x", ErrForeign, id, w.logID)
	}
	return nil
}

// bad decides what an invalid entry is: the place to cut, or damage.
func (w *walker) bad(at *CorruptError, b []byte, last bool) error {
	switch {
	case errors.Is(at.Err, ErrForeign):
		return at
	case !last:
		// A segment is synced before the next one is created.
		at.Err = fmt.Errorf("%w; a later segment shows that it had been synced", at.Err)
		return at
	}
	if seq, ok := w.voucher(b[at.Position:]); ok {
		at.Err = fmt.Errorf("%w; entry %d shows that it had been synced", at.Err, seq)
		return at
	}
	w.ended(b, at.Position)
	w.found.torn = at
	w.found.cut = b[at.Position:]
	return nil
}

// voucher looks in b, which starts at the first bad entry, for a later entry that was
// written when the bad one had been synced. Data may contain anything, an old copy of
// this very log included, so only a sequence number yet to come counts.
func (w *walker) voucher(b []byte) (seq uint64, ok bool) {
	for from := magicOffset; from < len(b); {
		i := bytes.Index(b[from:], []byte(magic))
		if i < 0 {
			return 0, false
		}
		h := b[from+i-magicOffset:]
		from += i + 1
		if !validHeader(h, w.seed) {
			continue
		}
		seq, durable := binary.LittleEndian.Uint64(h[8:]), binary.LittleEndian.Uint64(h[16:])
		if durable >= w.found.next && durable < seq {
			return seq, true
		}
	}
	return 0, false
}

// read reads a file into the walker's buffer.
func (w *walker) read(path string) (b []byte, err error) {
	f, err := w.fs.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	size, err := f.Size()
	if err != nil {
		return nil, err
	}
	w.buf = slices.Grow(w.buf[:0], int(size))[:size]
	if n, err := f.ReadAt(w.buf, 0); int64(n) < size {
		return nil, errors.Join(fmt.Errorf("read %s: %d of %d bytes", path, n, size), err)
	} else if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	return w.buf, nil
}
