package history

import (
	"bufio"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"github.com/skepmq/skep/segment/vfs"
)

// Options say where minutes are kept and for how long.
type Options struct {
	FS        vfs.FS // nil: the operating system's
	Dir       string // made with the first minute; "": minutes are not kept
	Retention time.Duration
	MaxBytes  int64 // of all files together; 0: no bound
	Logger    zerolog.Logger
}

// fileMs is how much time goes into a file.
const fileMs = dayMs

// Log is a series of files of minutes.
type Log struct {
	o Options

	mu      sync.Mutex
	file    vfs.File // nil: none yet
	path    string   // of file
	firstMs int64    // the time in its name
	size    int64
	warned  bool // of the failure that lasts
	full    bool // the file has had its share of the bytes, which is logged once

	foldMu   sync.Mutex    // one Fold at a time, and none of files that are held
	unfolded map[file]bool // that could not be, which is logged once

	failures atomic.Int64
}

// New returns a log. It reads nothing.
func New(o Options) *Log {
	if o.FS == nil {
		o.FS = vfs.OS
	}
	return &Log{o: o, unfolded: map[file]bool{}}
}

// file is one of the files of a log.
type file struct {
	startMs int64 // of its first minute, as its name says
	grain   int   // what it is made of, an index of grains
}

// name forms the name of a file.
func name(f file) string { return fmt.Sprintf("%020d%s", f.startMs, grains[f.grain].suffix) }

func (l *Log) pathOf(f file) string { return filepath.Join(l.o.Dir, name(f)) }

func fileOf(name string) (f file, ok bool) {
	digits, suffix, _ := strings.Cut(name, ".")
	for f.grain = range grains {
		if ok = grains[f.grain].suffix == "."+suffix; ok {
			break
		}
	}
	if !ok || len(digits) != 20 {
		return f, false
	}
	ms, err := strconv.ParseInt(digits, 10, 64)
	f.startMs = ms
	return f, err == nil && ms >= 0
}

// files returns all files, oldest first, and of those that begin together the coarsest: it
// is there because the others are not needed any more.
func (l *Log) files() (all []file) {
	names, err := l.o.FS.List(l.o.Dir)
	if err != nil {
		return nil // there are none yet, or none that can be read
	}
	for _, n := range names {
		if f, ok := fileOf(n); ok {
			all = append(all, f)
		}
	}
	slices.SortFunc(all, func(x, y file) int { return cmp.Or(cmp.Compare(x.startMs, y.startMs), cmp.Compare(y.grain, x.grain)) })
	return slices.CompactFunc(all, func(x, y file) bool { return x.startMs == y.startMs })
}

// remove removes a file, with what an interrupted fold has left of it.
func (l *Log) remove(f file) {
	for grain := range f.grain + 1 {
		if err := l.o.FS.Remove(l.pathOf(file{f.startMs, grain})); err != nil && !errors.Is(err, fs.ErrNotExist) {
			l.o.Logger.Warn().Err(err).Msg("old metrics are not removed")
		}
	}
}

// open opens a file, or what it has become meanwhile.
func (l *Log) open(f file) (vfs.File, error) {
	for {
		opened, err := l.o.FS.Open(l.pathOf(f))
		if err == nil || f.grain == len(grains)-1 {
			return opened, err
		}
		f.grain++
	}
}

// Grain returns how much time the records have of which there are minutes from an instant on
// and before another; 0: about a minute.
func (l *Log) Grain(fromMs, toMs int64) (ms int64) {
	if l.o.Dir == "" {
		return 0
	}
	for _, f := range l.files() {
		if f.startMs < toMs && f.startMs+fileMs > fromMs {
			ms = max(ms, grains[f.grain].ms)
		}
	}
	return ms
}

// Newest returns the newest minute there is, with the largest totals: a clock that was set
// back gives a later file the earlier name. It looks at the files of the last two days, and
// at those from then on; if they hold nothing, at earlier ones.
func (l *Log) Newest(nowMs int64) (newest Minute, ok bool) {
	if l.o.Dir == "" {
		return newest, false
	}
	for _, f := range slices.Backward(l.files()) {
		if ok && f.startMs < nowMs-2*fileMs {
			break
		}
		m, found := l.last(f)
		if !found {
			continue
		}
		totals := newest.Totals
		for i, n := range m.Totals {
			totals[i] = max(totals[i], n)
		}
		if !ok || m.StartMs > newest.StartMs {
			newest = m
		}
		newest.Totals, ok = totals, true
	}
	return newest, ok
}

// last returns the last whole minute of a file. It passes over the others by their lengths:
// a day of many queues is long, and a start waits for this.
func (l *Log) last(of file) (m Minute, ok bool) {
	f, err := l.open(of)
	if err != nil {
		return m, false
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return m, false
	}
	type frame struct{ at, length int64 }
	var frames []frame
	var header [frameHeader]byte
	for at := int64(0); size-at >= frameHeader; {
		if _, err := f.ReadAt(header[:], at); err != nil {
			break
		}
		n := int64(frameHeader) + int64(binary.LittleEndian.Uint32(header[4:]))
		if n == frameHeader || n > size-at { // zeros, or a torn end
			break
		}
		frames = append(frames, frame{at, n})
		at += n
	}
	for _, fr := range slices.Backward(frames) {
		b := make([]byte, fr.length)
		if _, err := f.ReadAt(b, fr.at); err != nil {
			continue
		}
		if m, _, err := DecodeMinute(b); err == nil {
			return m, true
		}
	}
	return m, false
}

// Minutes yields the minutes that begin from an instant on and before another, file by file
// in the order of their first minutes. They are overwritten by the next.
func (l *Log) Minutes(fromMs, toMs int64) iter.Seq[*Minute] {
	return func(yield func(*Minute) bool) {
		if l.o.Dir == "" {
			return
		}
		for _, f := range l.files() {
			// A minute that began before a roll, or on a clock that was set back, lies in a
			// file of another day.
			if f.startMs >= toMs+fileMs || f.startMs < fromMs-2*fileMs {
				continue
			}
			var failed error // of a file that was removed, or goes as far as it can be read
			for m := range l.walk(f, fromMs, toMs, &failed) {
				if !yield(m) {
					return
				}
			}
		}
	}
}

// walk yields the minutes of a file that begin from an instant on and before another, up to
// the first frame that is not whole. It passes over the others: an hour of a day of many
// queues is little of it. What fails, other than that, it leaves in failed.
func (l *Log) walk(of file, fromMs, toMs int64, failed *error) iter.Seq[*Minute] {
	return func(yield func(*Minute) bool) {
		f, err := l.open(of)
		if err != nil {
			*failed = err
			return
		}
		defer f.Close()
		rest, err := f.Size()
		if err != nil {
			*failed = err
			return
		}
		r := bufio.NewReaderSize(io.NewSectionReader(f, 0, rest), 64<<10)
		var d decoder
		var m Minute
		var frame []byte
		for rest > frameStart {
			head, err := r.Peek(int(min(rest, frameStart+binary.MaxVarintLen64)))
			if err != nil {
				*failed = err
				return
			}
			n := int64(frameHeader) + int64(binary.LittleEndian.Uint32(head[4:]))
			if n <= frameStart || n > rest { // zeros, or a torn end
				return
			}
			rest -= n
			if ms, _ := binary.Varint(head[frameStart:]); ms < fromMs || ms >= toMs {
				if _, err := r.Discard(int(n)); err != nil {
					*failed = err
					return
				}
				continue
			}
			frame = slices.Grow(frame[:0], int(n))[:n]
			if _, err := io.ReadFull(r, frame); err != nil {
				*failed = err
				return
			}
			if _, err := d.minute(frame, &m); err != nil || !yield(&m) {
				return
			}
		}
	}
}

// Append keeps a minute. What fails is logged once, until something works again.
func (l *Log) Append(m *Minute) {
	if l.o.Dir == "" {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	err := l.append(m)
	if err != nil {
		l.failures.Add(1)
	}
	if err != nil && !l.warned {
		l.o.Logger.Warn().Err(err).Str("path", l.o.Dir).Msg("a minute of the metrics is not kept")
	}
	l.warned = err != nil
}

// Failures returns how many minutes were not kept.
func (l *Log) Failures() int64 { return l.failures.Load() }

func (l *Log) append(m *Minute) error {
	if l.file == nil || m.StartMs >= l.firstMs+fileMs || m.StartMs < l.firstMs {
		if err := l.roll(m.StartMs); err != nil {
			return err
		}
	}
	frame := AppendMinute(nil, m)
	if l.o.MaxBytes > 0 && l.size+int64(len(frame)) > l.o.MaxBytes/2 && len(m.Queues) > 0 {
		if !l.full {
			l.o.Logger.Warn().Str("path", l.path).Int64("bytes", l.size).Msg("the metrics of this day are too long: from now on without queues")
		}
		l.full = true
		short := *m
		short.Queues = nil
		frame = AppendMinute(nil, &short)
	}
	if _, err := l.file.WriteAt(frame, l.size); err != nil {
		empty := l.size == 0
		err = errors.Join(fmt.Errorf("write a minute: %w", err), l.close())
		if empty { // or a full disk would get a file each minute
			err = errors.Join(err, l.o.FS.Remove(l.path))
		}
		return err
	}
	l.size += int64(len(frame))
	return nil
}

// roll begins a file and removes those that are too old, or leaves them to the next one if they
// are held or folded. A name that is taken is not: another
// process may have had the same minute.
func (l *Log) roll(ms int64) error {
	if err := l.close(); err != nil {
		return err
	}
	if err := l.o.FS.MkdirAll(l.o.Dir); err != nil {
		return fmt.Errorf("make directory of metrics: %w", err)
	}
	taken := map[int64]bool{}
	held := !l.foldMu.TryLock()
	if !held {
		defer l.foldMu.Unlock()
	}
	for _, f := range l.files() {
		taken[f.startMs] = true
		if !held && f.startMs < ms-l.o.Retention.Milliseconds()-fileMs {
			l.remove(f)
		}
	}
	first := ms
	for taken[first] {
		first++
	}
	path := l.pathOf(file{startMs: first})
	f, err := l.o.FS.Create(path)
	if err != nil {
		return fmt.Errorf("begin a file of metrics: %w", err)
	}
	l.file, l.path, l.firstMs, l.size, l.full = f, path, ms, 0, false
	return nil
}

// Hold returns the files that there are, and keeps them until release: they grow at most. It
// waits for a Fold.
func (l *Log) Hold() (paths []string, release func()) {
	if l.o.Dir == "" {
		return nil, func() {}
	}
	l.foldMu.Lock()
	for _, f := range l.files() {
		paths = append(paths, l.pathOf(f))
	}
	return paths, sync.OnceFunc(l.foldMu.Unlock)
}

// Close ends the file; the next minute would begin another.
func (l *Log) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.close()
}

func (l *Log) close() error {
	if l.file == nil {
		return nil
	}
	err := l.file.Close()
	l.file = nil
	return err
}
