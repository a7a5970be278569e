package history

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
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
	Logger    zerolog.Logger
}

// fileMs is how much time goes into a file.
const fileMs = 24 * 60 * 60 * 1000

// Log is a series of files of minutes.
type Log struct {
	o Options

	mu      sync.Mutex
	file    vfs.File // nil: none yet
	path    string   // of file
	firstMs int64    // the time in its name
	size    int64
	warned  bool // of the failure that lasts

	failures atomic.Int64
}

// New returns a log. It reads nothing.
func New(o Options) *Log {
	if o.FS == nil {
		o.FS = vfs.OS
	}
	return &Log{o: o}
}

const suffix = ".minutes"

// name forms the name of a file from the start of its first minute.
func name(ms int64) string { return fmt.Sprintf("%020d%s", ms, suffix) }

func startOf(file string) (ms int64, ok bool) {
	digits, ok := strings.CutSuffix(file, suffix)
	if !ok || len(digits) != 20 {
		return 0, false
	}
	ms, err := strconv.ParseInt(digits, 10, 64)
	return ms, err == nil && ms >= 0
}

// files returns the starts of all files, oldest first.
func (l *Log) files() (starts []int64) {
	names, err := l.o.FS.List(l.o.Dir)
	if err != nil {
		return nil // there are none yet, or none that can be read
	}
	for _, n := range names { // sorted
		if ms, ok := startOf(n); ok {
			starts = append(starts, ms)
		}
	}
	return starts
}

// Newest returns the newest minute there is, with the largest totals: a clock that was set
// back gives a later file the earlier name. It looks at the files of the last two days, and
// at those from then on; if they hold nothing, at earlier ones.
func (l *Log) Newest(nowMs int64) (newest Minute, ok bool) {
	if l.o.Dir == "" {
		return newest, false
	}
	for _, start := range slices.Backward(l.files()) {
		if ok && start < nowMs-2*fileMs {
			break
		}
		m, found := l.last(start)
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
func (l *Log) last(start int64) (m Minute, ok bool) {
	f, err := l.o.FS.Open(filepath.Join(l.o.Dir, name(start)))
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
		for _, start := range l.files() {
			// A minute that began before a roll, or on a clock that was set back, lies in a
			// file of another day.
			if start >= toMs+fileMs || start < fromMs-2*fileMs {
				continue
			}
			for m := range l.walk(start) {
				if m.StartMs >= fromMs && m.StartMs < toMs && !yield(m) {
					return
				}
			}
		}
	}
}

// walk yields the minutes of a file up to the first frame that is not whole.
func (l *Log) walk(start int64) iter.Seq[*Minute] {
	return func(yield func(*Minute) bool) {
		f, err := l.o.FS.Open(filepath.Join(l.o.Dir, name(start)))
		if err != nil {
			return // removed meanwhile
		}
		defer f.Close()
		size, err := f.Size()
		if err != nil {
			return
		}
		r := bufio.NewReaderSize(io.NewSectionReader(f, 0, size), 64<<10)
		var frame []byte
		for rest := size; ; rest -= int64(len(frame)) {
			header, err := r.Peek(frameHeader)
			if err != nil {
				return
			}
			n := int64(frameHeader) + int64(binary.LittleEndian.Uint32(header[4:]))
			if n > rest {
				return
			}
			frame = append(frame[:0], make([]byte, n)...)
			if _, err := io.ReadFull(r, frame); err != nil {
				return
			}
			m, _, err := DecodeMinute(frame)
			if err != nil || !yield(&m) {
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

// roll begins a file and removes those that are too old. A name that is taken is not: another
// process may have had the same minute.
func (l *Log) roll(ms int64) error {
	if err := l.close(); err != nil {
		return err
	}
	if err := l.o.FS.MkdirAll(l.o.Dir); err != nil {
		return fmt.Errorf("make directory of metrics: %w", err)
	}
	taken := map[int64]bool{}
	for _, start := range l.files() {
		taken[start] = true
		if start < ms-l.o.Retention.Milliseconds()-fileMs {
			if err := l.o.FS.Remove(filepath.Join(l.o.Dir, name(start))); err != nil {
				l.o.Logger.Warn().Err(err).Msg("old metrics are not removed")
			}
		}
	}
	first := ms
	for taken[first] {
		first++
	}
	path := filepath.Join(l.o.Dir, name(first))
	f, err := l.o.FS.Create(path)
	if err != nil {
		return fmt.Errorf("begin a file of metrics: %w", err)
	}
	l.file, l.path, l.firstMs, l.size = f, path, ms, 0
	return nil
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
