package history

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"slices"

	"github.com/google/uuid"

	"github.com/skepmq/skep/segment/vfs"
)

// Files get coarser as they get older: nobody looks at a minute of last month.
const (
	minuteMs = 60 * 1000
	hourMs   = 60 * minuteMs
	dayMs    = 24 * hourMs
)

// grains are what files are made of, by the end of their names: how much time goes into a
// record, and how old a file is that gets it. Each divides the next.
var grains = [...]struct {
	suffix       string
	ms, beyondMs int64
}{
	{".minutes", 0, 0},
	{".15m", 15 * minuteMs, dayMs},
	{".60m", hourMs, 7 * dayMs},
	{".360m", 6 * hourMs, 30 * dayMs},
}

// temporary is the name of a file that is being folded.
const temporary = "fold.tmp"

// Floor rounds an instant down to a multiple of width, before 1970 too.
func Floor(ms, width int64) int64 {
	rest := ms % width
	if rest < 0 {
		rest += width
	}
	return ms - rest
}

// Fold makes the oldest file that has come of age coarser, and then removes the oldest files
// while there is more than Options.MaxBytes. It does no more than a file, and nothing when
// stop says so, for a day of very many queues takes some seconds.
func (l *Log) Fold(nowMs int64, stop func() bool) {
	if l.o.Dir == "" || !l.foldMu.TryLock() {
		return
	}
	defer l.foldMu.Unlock()
	for _, f := range l.files() {
		to := len(grains) - 1
		for f.startMs+fileMs+grains[to].beyondMs > nowMs && to > f.grain {
			to--
		}
		if to == f.grain || l.writing(f) {
			continue
		}
		err := l.fold(f, to, stop)
		if err == nil || errors.Is(err, errStopped) {
			break
		}
		if !l.unfolded[f] {
			l.o.Logger.Warn().Err(err).Str("path", l.pathOf(f)).Msg("old metrics stay as fine as they are")
		}
		l.unfolded[f] = true
	}
	l.prune()
}

// prune removes the oldest files while they have more than half of the bytes that there may
// be; the other half is for the file that is being written.
func (l *Log) prune() {
	if l.o.MaxBytes <= 0 {
		return
	}
	left := l.o.MaxBytes / 2
	for _, f := range slices.Backward(l.files()) {
		size, err := l.o.FS.Size(l.pathOf(f))
		if err != nil || l.writing(f) {
			continue
		}
		if left -= size; left < 0 {
			l.remove(f)
		}
	}
}

// writing reports whether f is the file that minutes go to.
func (l *Log) writing(f file) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.file != nil && l.path == l.pathOf(f)
}

var errStopped = errors.New("history: stopped")

// fold replaces a file. The new one is whole and on disk before it gets its name, and the
// old one goes after that; if both are there, the coarser counts.
func (l *Log) fold(f file, to int, stop func() bool) error {
	path := filepath.Join(l.o.Dir, temporary)
	out, err := l.o.FS.Create(path)
	if err != nil {
		return fmt.Errorf("begin a coarser file: %w", err)
	}
	err = l.foldInto(out, f, grains[to].ms, stop)
	if err = errors.Join(err, out.Close()); err != nil {
		return errors.Join(err, l.o.FS.Remove(path))
	}
	coarse := file{f.startMs, to}
	if err := l.o.FS.Rename(path, l.pathOf(coarse)); err != nil {
		return fmt.Errorf("name a coarser file: %w", err)
	}
	if err := l.o.FS.SyncDir(l.o.Dir); err != nil {
		return fmt.Errorf("sync the metrics: %w", err)
	}
	l.remove(f)
	return nil
}

func (l *Log) foldInto(out vfs.File, f file, ms int64, stop func() bool) error {
	w := bufio.NewWriterSize(io.NewOffsetWriter(out, 0), 64<<10)
	sum := folding{ms: ms}
	var frame []byte
	emit := func() error {
		if sum.empty() {
			return nil
		}
		frame = AppendMinute(frame[:0], sum.end())
		_, err := w.Write(frame)
		return err
	}
	var failed error
	for m := range l.walk(f, math.MinInt64, math.MaxInt64, &failed) {
		if stop() {
			return errStopped
		}
		if !sum.takes(m) {
			if err := emit(); err != nil {
				return err
			}
		}
		sum.add(m)
	}
	return errors.Join(failed, emit(), w.Flush(), out.Sync())
}

// folding sums up the minutes that begin in one stretch of time.
type folding struct {
	ms     int64
	m      Minute
	any    bool
	queues map[uuid.UUID]int // index in m
	parked []int64           // of the queues, each times its length
	whole  Process           // what is a mean, each times its length
}

func (f *folding) empty() bool { return !f.any }

func (f *folding) takes(m *Minute) bool {
	return f.any && Floor(m.StartMs, f.ms) == f.m.StartMs
}

func (f *folding) add(m *Minute) {
	if !f.any {
		*f = folding{ms: f.ms, any: true, queues: map[uuid.UUID]int{}, m: Minute{StartMs: Floor(m.StartMs, f.ms), Queues: f.m.Queues[:0]}, parked: f.parked[:0]}
	}
	f.m.LengthMs += m.LengthMs
	for i, n := range m.Totals {
		f.m.Totals[i] = max(f.m.Totals[i], n)
	}
	f.m.Traffic.Add(&m.Traffic)
	p, of := &f.m.Process, &m.Process
	f.whole.RSS += of.RSS * m.LengthMs
	f.whole.Virtual += of.Virtual * m.LengthMs
	f.whole.SchedLagUs += of.SchedLagUs * m.LengthMs
	p.UserNs += of.UserNs
	p.SystemNs += of.SystemNs
	p.SyncUs = max(p.SyncUs, of.SyncUs)
	p.UptimeMs, p.StoreBytes, p.Segments = of.UptimeMs, of.StoreBytes, of.Segments
	for i := range m.Queues {
		q := &m.Queues[i]
		at, ok := f.queues[q.ID]
		if !ok {
			at = len(f.m.Queues)
			f.queues[q.ID] = at
			f.m.Queues, f.parked = append(f.m.Queues, Queue{ID: q.ID}), append(f.parked, 0)
		}
		sum := &f.m.Queues[at]
		sum.Name, sum.Namespace, sum.Task, sum.Partitions = q.Name, q.Namespace, q.Task, q.Partitions
		sum.MaxLagMs = max(sum.MaxLagMs, q.MaxLagMs)
		sum.Traffic.Add(&q.Traffic)
		f.parked[at] += q.Parked * m.LengthMs
	}
}

// end returns the sum, which holds until the next minute is added. A pop that did not wait
// for all of the time still counts as one.
func (f *folding) end() *Minute {
	length := max(f.m.LengthMs, 1)
	p := &f.m.Process
	p.RSS, p.Virtual, p.SchedLagUs = f.whole.RSS/length, f.whole.Virtual/length, f.whole.SchedLagUs/length
	for i := range f.m.Queues {
		f.m.Queues[i].Parked = (f.parked[i] + length - 1) / length
	}
	f.any = false
	return &f.m
}
