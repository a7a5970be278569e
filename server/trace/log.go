package trace

import (
	"bufio"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/skepmq/skep/segment/vfs"
)

// Options say where traces are kept and for how long.
type Options struct {
	FS        vfs.FS        // nil: the operating system's
	Dir       string        // made with the first trace; "": traces are refused
	Retention time.Duration // 0: for ever
	Logger    zerolog.Logger

	// The constants of that name, for tests.
	fileBytes              int64
	sliceLabels, maxHashes int
}

// When a file is full. The entries bound what it takes in memory, 30 MB at the worst.
const (
	fileBytes = 32 << 20
	fileMs    = 24 * 60 * 60 * 1000 // with a retention
	maxTraces = 128 << 10
	maxUses   = 256 << 10
	// maxPending is how many full files may wait for their indexes.
	maxPending = 2
)

var (
	// ErrFailed says that the trace was not kept: what the disk has to say is in the text.
	ErrFailed = errors.New("trace: not kept")

	errNoDir   = errors.New("there is no directory for traces")
	errClosed  = errors.New("the log is closed")
	errPending = errors.New("the index of the last file could not be written")
)

// Log is a series of files of traces.
type Log struct {
	o Options

	sealMu   sync.Mutex // one index is written at a time
	removeMu sync.Mutex // held while files may not be removed

	mu      sync.RWMutex
	opened  bool
	closed  bool
	failing bool     // the newest trace was not kept
	files   []*file  // oldest first
	next    int64    // the number of the next file
	writer  vfs.File // of the last file; nil: the next trace begins one

	warnMu sync.Mutex
	warned map[string]bool // paths
}

// file is a file of traces.
type file struct {
	number int64
	size   int64
	lastMs int64
	memory *memory // nil: it has an index
	sweeps int     // until its index is settled; 0: it is
}

// settling is which call of Sweep settles an index: they are a minute apart, and the first may
// be near.
const settling = 2

// New returns a log. It reads nothing.
func New(o Options) *Log {
	if o.FS == nil {
		o.FS = vfs.OS
	}
	o.fileBytes = cmp.Or(o.fileBytes, fileBytes)
	o.sliceLabels, o.maxHashes = cmp.Or(o.sliceLabels, sliceLabels), cmp.Or(o.maxHashes, maxHashes)
	return &Log{o: o, warned: map[string]bool{}}
}

const (
	dataSuffix  = ".traces"
	indexSuffix = ".index"
	newSuffix   = ".index.new"
)

func (l *Log) path(number int64, suffix string) string {
	return filepath.Join(l.o.Dir, fmt.Sprintf("%020d%s", number, suffix))
}

// numberOf takes the number out of a file's name.
func numberOf(name, suffix string) (int64, bool) {
	digits, ok := strings.CutSuffix(name, suffix)
	if !ok || len(digits) != 20 {
		return 0, false
	}
	n, err := strconv.ParseInt(digits, 10, 64)
	return n, err == nil && n >= 0
}

// Append keeps a trace. Errors: ErrTooLarge, ErrFailed.
func (l *Log) Append(t *Trace) error {
	frame := AppendTrace(nil, t)
	if len(frame) > frameHeader+maxBody {
		return ErrTooLarge
	}
	l.mu.Lock()
	err := l.appendLocked(t, frame)
	if err != nil && !l.failing {
		l.o.Logger.Warn().Err(err).Str("path", l.o.Dir).Msg("a trace is not kept")
	}
	l.failing = err != nil
	pending := l.unsealedLocked() != nil
	l.mu.Unlock()
	if pending {
		l.seal()
	}
	if err != nil {
		return fmt.Errorf("%w: %w", ErrFailed, err)
	}
	return nil
}

func (l *Log) appendLocked(t *Trace, frame []byte) error {
	if l.o.Dir == "" {
		return errNoDir
	}
	if l.closed {
		return errClosed
	}
	if err := l.openLocked(); err != nil {
		return err
	}
	if err := l.rollLocked(t.CreatedMs, int64(len(frame))); err != nil {
		return err
	}
	last := l.files[len(l.files)-1]
	if _, err := l.writer.WriteAt(frame, last.size); err != nil {
		// What has arrived of it would stand behind a shorter one.
		return errors.Join(fmt.Errorf("write a trace: %w", err), l.writer.Truncate(last.size))
	}
	last.memory.add(uint32(last.size), t)
	last.size += int64(len(frame))
	last.lastMs = last.memory.lastMs
	return nil
}

// rollLocked makes sure of a file that takes a frame of that size.
func (l *Log) rollLocked(nowMs, size int64) error {
	if l.writer != nil {
		last := l.files[len(l.files)-1]
		m := last.memory
		old := l.o.Retention > 0 && len(m.addresses) > 0 && nowMs-m.firstMs >= fileMs
		if last.size == 0 || last.size+size <= l.o.fileBytes && !m.full() && !old {
			return nil
		}
	}
	if l.pendingLocked() > maxPending {
		return errPending
	}
	if err := l.o.FS.MkdirAll(l.o.Dir); err != nil {
		return fmt.Errorf("make directory of traces: %w", err)
	}
	w, err := l.o.FS.Create(l.path(l.next, dataSuffix))
	if err != nil {
		return fmt.Errorf("begin a file of traces: %w", err)
	}
	if l.writer != nil {
		err = l.writer.Close()
	}
	l.writer = w
	l.files = append(slices.Clip(l.files), &file{number: l.next, memory: &memory{}, lastMs: math.MinInt64})
	l.next++
	return err
}

// pendingLocked counts the files that are held in memory.
func (l *Log) pendingLocked() (n int) {
	for _, f := range l.files {
		if f.memory != nil {
			n++
		}
	}
	return n
}

// seal writes the indexes of full files. It is called by whoever filled one, so that nobody
// else waits for it. What fails is tried again with the next trace.
func (l *Log) seal() {
	l.sealMu.Lock()
	defer l.sealMu.Unlock()
	for {
		l.mu.RLock()
		f := l.unsealedLocked()
		l.mu.RUnlock()
		if f == nil {
			return
		}
		err := l.writeIndex(f)
		if err != nil {
			l.warn(l.path(f.number, indexSuffix), err, "the index of traces is not written")
			return
		}
		l.mu.Lock()
		i := slices.Index(l.files, f)
		if i >= 0 {
			l.files = slices.Clone(l.files)
			l.files[i] = &file{number: f.number, size: f.size, lastMs: f.lastMs, sweeps: settling}
		}
		l.mu.Unlock()
		if i < 0 { // swept meanwhile
			_ = l.o.FS.Remove(l.path(f.number, newSuffix))
		}
	}
}

// unsealedLocked returns the oldest file that is full and has no index, nil if there is none.
func (l *Log) unsealedLocked() *file {
	for i, f := range l.files {
		if f.memory != nil && (i < len(l.files)-1 || l.writer == nil) {
			return f
		}
	}
	return nil
}

// writeIndex writes an index under its first name, which means nothing to another process.
func (l *Log) writeIndex(f *file) error {
	path := l.path(f.number, newSuffix)
	w, err := l.o.FS.Create(path)
	if err != nil {
		return err
	}
	_, err = w.WriteAt(f.memory.encode(f.size), 0)
	if err = errors.Join(err, w.Close()); err != nil {
		return errors.Join(err, l.o.FS.Remove(path))
	}
	return nil
}

// settle syncs the indexes that the kernel has had time to write by itself, or all, and gives
// them their last name. A sync of megabytes that are not written would hold up those of the
// journal, and with them all pushes.
func (l *Log) settle(all bool) {
	var due []*file
	l.mu.Lock()
	for _, f := range l.files {
		switch {
		case f.sweeps == 0:
		case f.sweeps == 1 || all:
			due = append(due, f)
		default:
			f.sweeps--
		}
	}
	l.mu.Unlock()
	for _, f := range due {
		err := l.syncIndex(f.number)
		if err != nil && !errors.Is(err, fs.ErrNotExist) { // removed as too old
			l.warn(l.path(f.number, indexSuffix), err, "the index of traces is not synced")
			continue // the next time
		}
		l.mu.Lock()
		f.sweeps = 0
		l.mu.Unlock()
	}
}

func (l *Log) syncIndex(number int64) error {
	path := l.path(number, newSuffix)
	w, err := l.o.FS.OpenReadWrite(path)
	if err != nil {
		return err
	}
	if err := errors.Join(w.Sync(), w.Close()); err != nil {
		return err
	}
	return l.o.FS.Rename(path, l.path(number, indexSuffix))
}

// openLocked reads the directory, once. Files that should have an index get it: all of them
// in memory would be too many.
func (l *Log) openLocked() error {
	if l.opened {
		return nil
	}
	names, err := l.o.FS.List(l.o.Dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("list traces: %w", err)
	}
	l.files = nil // of a call that failed
	var numbers []int64
	for _, name := range names { // sorted
		number, ok := numberOf(name, dataSuffix)
		if ok {
			numbers = append(numbers, number)
		} else if number, ok = numberOf(name, indexSuffix); ok {
			l.tidy(name, number, names)
		}
		if ok { // a new file never gets the number of an index that may come back
			l.next = max(l.next, number+1)
		}
	}
	for i, number := range numbers {
		f, whole := l.load(number)
		if f == nil {
			continue
		}
		newest := whole && i == len(numbers)-1 && !l.closed
		if f.memory != nil && !newest && l.writeIndex(f) == nil {
			f.memory, f.sweeps = nil, settling
		}
		if l.files = append(l.files, f); l.pendingLocked() > maxPending {
			return errPending
		}
		if newest {
			if w, err := l.o.FS.OpenReadWrite(l.path(number, dataSuffix)); err == nil {
				l.writer = w
			}
		}
	}
	l.opened = true
	return nil
}

// tidy removes an index without traces, which a crash has left.
func (l *Log) tidy(name string, number int64, names []string) {
	if _, found := slices.BinarySearch(names, filepath.Base(l.path(number, dataSuffix))); !found {
		_ = l.o.FS.Remove(filepath.Join(l.o.Dir, name)) // or the next time
	}
}

// load finds out what is in a file, nil if it cannot be read, and whether it has no index and
// ends with a frame.
func (l *Log) load(number int64) (f *file, whole bool) {
	f = &file{number: number}
	err := l.read(number, indexSuffix, func(r io.ReaderAt, size int64) error {
		x, err := openIndex(r, size)
		if err == nil {
			f.size, f.lastMs = x.dataBytes, x.lastMs
		}
		return err
	})
	if err == nil {
		return f, false
	}
	path := l.path(number, dataSuffix)
	err = l.read(number, dataSuffix, func(r io.ReaderAt, size int64) error {
		var damaged int
		f.memory, f.size, damaged = scan(r, size)
		if whole = f.size == size; !whole || damaged > 0 {
			l.o.Logger.Warn().Str("path", path).Int64("position", f.size).Int64("cut_bytes", size-f.size).
				Int("damaged", damaged).Msg("traces are left out")
		}
		return nil
	})
	if err != nil {
		l.warn(path, err, "traces are left out")
		return nil, false
	}
	f.lastMs = f.memory.lastMs
	return f, whole
}

// scan reads the frames of a file, and returns where the last of them ends. Of one with a
// wrong checksum the length may be right.
func scan(r io.ReaderAt, size int64) (m *memory, end int64, damaged int) {
	m = &memory{}
	in := bufio.NewReaderSize(io.NewSectionReader(r, 0, size), 64<<10)
	var frame []byte
	bad := 0 // since end
	for at := int64(0); ; at += int64(len(frame)) {
		header, err := in.Peek(frameHeader)
		if err != nil {
			return m, end, damaged
		}
		length := int64(binary.LittleEndian.Uint32(header[4:]))
		n := frameHeader + length
		if length < fixedBody || length > maxBody || n > size-at || at > math.MaxUint32 {
			return m, end, damaged
		}
		frame = append(frame[:0], make([]byte, n)...)
		if _, err := io.ReadFull(in, frame); err != nil {
			return m, end, damaged
		}
		t, _, err := DecodeTrace(frame)
		if err != nil {
			bad++
			continue
		}
		m.add(uint32(at), &t)
		end, damaged, bad = at+n, damaged+bad, 0
	}
}

// read opens a file and calls fn with it.
func (l *Log) read(number int64, suffix string, fn func(r io.ReaderAt, size int64) error) error {
	f, err := l.o.FS.Open(l.path(number, suffix))
	if err != nil {
		return err
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return err
	}
	return fn(f, size)
}

// warn logs what is wrong with a file, once.
func (l *Log) warn(path string, err error, text string) {
	l.warnMu.Lock()
	defer l.warnMu.Unlock()
	if !l.warned[path] {
		l.warned[path] = true
		l.o.Logger.Warn().Err(err).Str("path", path).Msg(text)
	}
}

// Sweep removes files whose traces are all older than the retention, and settles indexes. It
// is to be called once a minute.
func (l *Log) Sweep(nowMs int64) {
	l.settle(false)
	if l.o.Retention <= 0 || l.o.Dir == "" || !l.removeMu.TryLock() {
		return // or the next time
	}
	defer l.removeMu.Unlock()
	for _, number := range l.unlist(nowMs - l.o.Retention.Milliseconds()) {
		// The index last: without it the traces would be read again.
		for _, suffix := range [...]string{dataSuffix, newSuffix, indexSuffix} {
			path := l.path(number, suffix)
			if err := l.o.FS.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
				l.warn(path, err, "old traces are not removed")
			}
		}
	}
}

// unlist forgets files that end before an instant, and returns their numbers.
func (l *Log) unlist(beforeMs int64) (numbers []int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.openLocked(); err != nil {
		return nil
	}
	var kept []*file
	for i, f := range l.files {
		if f.size == 0 || f.lastMs >= beforeMs {
			kept = append(kept, f)
			continue
		}
		numbers = append(numbers, f.number)
		if i == len(l.files)-1 && l.writer != nil {
			_ = l.writer.Close() // nobody misses what it holds
			l.writer = nil
		}
	}
	l.files = kept
	return numbers
}

// Hold returns the files of traces that there are, with their settled indexes, and keeps them
// until release: they grow at most, but for the end of one that could not be written.
func (l *Log) Hold() (paths []string, release func()) {
	if l.o.Dir == "" {
		return nil, func() {}
	}
	l.removeMu.Lock()
	names, err := l.o.FS.List(l.o.Dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		l.warn(l.o.Dir, err, "traces are not listed")
	}
	for _, name := range names {
		_, data := numberOf(name, dataSuffix)
		_, index := numberOf(name, indexSuffix)
		if data || index {
			paths = append(paths, filepath.Join(l.o.Dir, name))
		}
	}
	return paths, sync.OnceFunc(l.removeMu.Unlock)
}

// Close brings what was appended to the disk. Nothing is kept afterwards.
func (l *Log) Close() error {
	l.mu.Lock()
	w := l.writer
	l.writer, l.closed = nil, true
	l.mu.Unlock()
	l.settle(true)
	if w == nil {
		return nil
	}
	return errors.Join(w.Sync(), w.Close(), l.o.FS.SyncDir(l.o.Dir), l.o.FS.SyncDir(filepath.Dir(l.o.Dir)))
}
