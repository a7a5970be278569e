package fsck

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/skepmq/skep/log/catalog"
	"github.com/skepmq/skep/log/journal"
	"github.com/skepmq/skep/log/offsets"
	"github.com/skepmq/skep/log/record"
	"github.com/skepmq/skep/log/wal"
	"github.com/skepmq/skep/segment"
	"github.com/skepmq/skep/segment/vfs"
)

// ErrNoDirectory says that there is no data directory where one was to be checked.
var ErrNoDirectory = errors.New("fsck: no data directory")

// Options say what to check. Dir is required.
type Options struct {
	FS  vfs.FS // nil: the operating system's
	Dir string
	Now func() time.Time // nil: time.Now
	// Progress, if set, is told how far a check has come, in bytes of segments.
	Progress func(done, total int64)
}

func (o *Options) setDefaults() {
	if o.FS == nil {
		o.FS = vfs.OS
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Progress == nil {
		o.Progress = func(int64, int64) {}
	}
}

// Verify checks the data directory and changes nothing. Damage is no error: it is in the
// report. Errors: vfs.ErrLocked while a broker serves the directory, ErrNoDirectory, and
// those of reading.
func Verify(o Options) (*Report, error) {
	o.setDefaults()
	unlock, err := lock(&o, false)
	if err != nil {
		return nil, err
	}
	defer unlock()
	c := newChecker(o)
	if err := c.check(); err != nil {
		return nil, err
	}
	return c.report, nil
}

// lock keeps brokers out. A directory without a lock file is served by nobody yet: it is
// made only if there is something to change, while no broker may come. Where none can be
// written there is nobody to keep out.
func lock(o *Options, change bool) (unlock func(), err error) {
	if _, err := o.FS.List(o.Dir); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNoDirectory, err)
	}
	path := filepath.Join(o.Dir, lockName)
	if _, err := o.FS.Size(path); errors.Is(err, fs.ErrNotExist) && !change {
		return func() {}, nil
	}
	l, err := o.FS.Lock(path)
	if readOnly(err) {
		return func() {}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("lock data directory %s: %w", o.Dir, err)
	}
	return func() { _ = l.Close() }, nil
}

// Names in a data directory.
const (
	lockName     = "LOCK"
	catalogName  = "catalog"
	offsetsName  = "offsets"
	journalName  = "journal"
	segmentsName = "segments"
	dedupName    = "dedup"
	// RepairsName is the directory of what repairs have taken away or replaced.
	RepairsName = "repairs"
	// MetricsName is the directory of what metrics are kept; it may hold anything, or be missing.
	MetricsName = "metrics"
	// TracesName is that of traces, likewise.
	TracesName = "traces"
)

// checker is one look at a directory.
type checker struct {
	o      Options
	report *Report
	told   map[string]int // findings by code
	state  *state

	found   bool              // there is a catalogue
	logs    bool              // catalogue and journal could be read to their ends
	torn    *wal.CorruptError // of the catalogue
	ids     *idFilter
	sinceMs int64 // messages from here on must be in the index of transaction ids

	segments map[uint32]*segmentCheck
	moved    map[uint32]*segmentCheck // by segment that is gone: the one that replaces it
	readers  map[uint32]*segment.Reader
	extent   []byte // the one being checked
	damages         // what Repair works on
}

// damages is what Repair works on.
type damages struct {
	journal *wal.CorruptError
	gap     *journal.GapError
	replay  error // what the journal holds does not fit together
	breaks  []chainBreak
	cursors []record.Cursor
	letters []record.DeadLetter
	dedup   bool
}

func newChecker(o Options) *checker {
	return &checker{
		o: o, report: &Report{Dir: o.Dir, Findings: []Finding{}}, told: map[string]int{},
		state: newState(), segments: map[uint32]*segmentCheck{}, moved: map[uint32]*segmentCheck{}, readers: map[uint32]*segment.Reader{}, ids: &idFilter{},
	}
}

// check looks at everything. Errors are those of reading.
func (c *checker) check() error {
	defer c.closeFiles()
	for _, step := range []func() error{
		c.checkNames, c.checkCatalog, c.checkOffsets, c.checkJournal, c.checkDedup,
		c.checkSegments, c.checkChains, c.checkCursors, c.count,
	} {
		if err := step(); err != nil {
			return err
		}
	}
	c.report.finish()
	return nil
}

// finding adds a finding about a file of the directory, and returns it for what else is
// known, nil if there are too many of its kind.
func (c *checker) finding(code, file string, position int64, problem any) *Finding {
	about := explained[code]
	switch about.severity {
	case Error:
		c.report.Errors++
	case Warning:
		c.report.Warnings++
	default:
		c.report.Notes++
	}
	if c.told[code]++; c.told[code] > maxFindings {
		c.report.Omitted++
		return &Finding{}
	}
	if rel, err := filepath.Rel(c.o.Dir, file); err == nil {
		file = rel
	}
	c.report.Findings = append(c.report.Findings, Finding{
		Severity: about.severity, Code: code, File: filepath.ToSlash(file), Position: position,
		Problem: fmt.Sprint(problem), Meaning: about.meaning, Action: about.action,
	})
	return &c.report.Findings[len(c.report.Findings)-1]
}

// of says which partition a finding is about.
func (c *checker) of(f *Finding, number uint64, from, to int64) {
	f.Offsets = &Offsets{from, to}
	p := c.state.partitions[number]
	if p == nil {
		f.Partition = fmt.Sprintf("number %d, deleted", number)
		if number >= c.state.meta.NextPartition && !c.state.gone[number] {
			f.Partition = fmt.Sprintf("number %d, its name is lost", number)
		}
		return
	}
	f.Partition = p.Name
	if p.Hidden {
		f.Partition = "(dead letters)"
	}
	if q := c.state.queues[p.Queue]; q != nil {
		f.Queue = q.name
	}
}

func (c *checker) path(parts ...string) string {
	return filepath.Join(append([]string{c.o.Dir}, parts...)...)
}

// checkNames lists what is in the directory and not ours.
func (c *checker) checkNames() error {
	names, err := c.o.FS.List(c.o.Dir)
	if err != nil {
		return err
	}
	known := []string{lockName, catalogName, offsetsName, journalName, segmentsName, dedupName, RepairsName, MetricsName, TracesName}
	for _, name := range names {
		if !slices.Contains(known, name) {
			c.finding(UnknownFile, c.path(name), 0, "not a name of the broker")
		}
	}
	c.found = slices.Contains(names, catalogName)
	data := slices.Contains(names, journalName) || slices.Contains(names, segmentsName)
	if !c.found && data {
		c.finding(CatalogueMissing, c.path(catalogName), 0, "missing")
	}
	return nil
}

// damage sorts an error of a log: what is wrong with its bytes is a finding, the rest is
// an error of reading.
func (c *checker) damage(code, dir string, err error) error {
	var corrupt *wal.CorruptError
	switch {
	case errors.As(err, &corrupt):
		c.finding(code, corrupt.Path, corrupt.Position, corrupt.Err)
	case errors.Is(err, record.ErrCorrupt), errors.Is(err, record.ErrShort),
		errors.Is(err, segment.ErrCorrupt), errors.Is(err, segment.ErrShort):
		c.finding(code, dir, 0, err)
	default:
		return err
	}
	return nil
}

func (c *checker) checkCatalog() error {
	if !c.found {
		return nil
	}
	dir := c.path(catalogName)
	in, err := catalog.Inspect(catalog.Options{FS: c.o.FS, Dir: dir}, c.state.load)
	c.home(dir, in)
	c.torn = in.Torn
	if err != nil {
		return c.damage(CatalogueDamaged, dir, err)
	}
	if c.state.meta.Directory == 0 {
		c.found = false
		if entries, err := c.o.FS.List(c.path(journalName)); err == nil && len(entries) > 0 {
			c.finding(CatalogueMissing, dir, 0, "empty")
		}
		return nil
	}
	c.logs = true
	return nil
}

// home notes what a home has left over, and its files that are none.
func (c *checker) home(dir string, in wal.HomeInspection) {
	if in.Torn != nil {
		c.finding(TornTail, in.Torn.Path, in.Torn.Position, in.Torn.Err)
	}
	for _, path := range in.Leftovers {
		c.finding(Leftover, path, 0, "replaced, or not finished")
	}
	c.report.Summary.Bytes += in.Size
	names, _ := c.o.FS.List(dir) // read before
	for _, name := range names {
		if !isNumber(strings.TrimSuffix(name, ".old")) {
			c.finding(UnknownFile, filepath.Join(dir, name), 0, "not a name of the broker")
			continue
		}
		c.logFiles(filepath.Join(dir, name))
	}
}

// logFiles notes the files of a log that are none of its segments.
func (c *checker) logFiles(dir string) {
	names, _ := c.o.FS.List(dir)
	for _, name := range names {
		if !isNumber(name) {
			c.finding(UnknownFile, filepath.Join(dir, name), 0, "kept by an earlier start, or not ours")
		}
	}
}

// isNumber reports whether a name is that of a generation or of a log's segment.
func isNumber(name string) bool {
	return len(name) == 20 && strings.Trim(name, "0123456789") == ""
}

func (c *checker) checkOffsets() error {
	if !c.logs {
		return nil
	}
	dir := c.path(offsetsName)
	in, err := offsets.Inspect(offsets.Options{FS: c.o.FS, Dir: dir, LogID: c.state.meta.Directory}, c.state.setCursor)
	missing := errors.Is(err, fs.ErrNotExist)
	switch {
	case missing || err == nil && in.Number == 0:
		if c.state.meta.Generation > 0 { // before the first checkpoint they need not be there
			c.finding(OffsetsMissing, dir, 0, "missing")
		}
	case err != nil:
		c.home(dir, in)
		return c.damage(OffsetsDamaged, dir, err)
	}
	if !missing {
		c.home(dir, in)
	}
	return nil
}

// checkCursors holds cursors against the ends of their partitions.
func (c *checker) checkCursors() error {
	if !c.logs {
		return nil // where partitions end is not known
	}
	for key, cursor := range c.state.cursors {
		p := c.state.partitions[key.partition]
		lastLeased := int64(-1)
		if cursor.LeaseID != ([16]byte{}) {
			lastLeased = cursor.LeaseEnd
		}
		if cursor.Committed >= -1 && cursor.Committed < p.end && lastLeased < p.end {
			continue
		}
		c.cursors = append(c.cursors, cursor)
		f := c.finding(CursorInvalid, c.path(offsetsName), 0, fmt.Sprintf(
			"group %q has committed %d and leased up to %d, the partition ends at %d",
			c.state.groups[key.group].name, cursor.Committed, lastLeased, p.end))
		c.of(f, key.partition, p.start, p.end)
	}
	return nil
}

// count fills the summary.
func (c *checker) count() error {
	s := &c.report.Summary
	s.Queues, s.Groups, s.Cursors = len(c.state.queues), len(c.state.groups), len(c.state.cursors)
	for _, q := range c.state.queues {
		s.DeadLetters += len(q.letters)
	}
	for _, p := range c.state.partitions {
		if !p.Hidden {
			s.Partitions++
			s.Messages += p.end - p.start
		}
	}
	return nil
}
