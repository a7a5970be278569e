package journal

import (
	"fmt"
	"strconv"

	"github.com/skepmq/skep/log/wal"
	"github.com/skepmq/skep/segment/vfs"
)

// Generation is what Inspect has found of one generation.
type Generation struct {
	Number uint64
	Path   string
	Filed  bool // a checkpoint holds it; its directory is left over and not read
	wal.Inspection
}

// Inspect is the replay of Open without changing anything: it hands each entry that is
// not filed to replay, whose data is borrowed. Errors: *wal.CorruptError for damage,
// *GapError, *NameError, what replay returns, and what the file system answers; the generations found
// before come with it. A missing directory is fs.ErrNotExist.
func Inspect(o Options, replay func(generation uint64, frames []byte) error) (found []Generation, err error) {
	if o.FS == nil {
		o.FS = vfs.OS
	}
	j := &Journal{o: o}
	names, err := o.FS.List(o.Dir)
	if err != nil {
		return nil, err
	}
	numbers, err := j.generations(names)
	if err != nil {
		return nil, err
	}
	var torn *wal.CorruptError
	next := o.Filed + 1
	for _, n := range numbers {
		g := Generation{Number: n, Path: j.path(n), Filed: n <= o.Filed}
		if g.Filed {
			found = append(found, g)
			continue
		}
		if n != next {
			return found, &GapError{o.Dir, next, n}
		}
		next++
		g.Inspection, err = wal.Inspect(j.walOptions(n), func(_ uint64, data []byte) error {
			if torn != nil {
				return torn // it had been synced before this entry was written
			}
			return replay(n, data)
		})
		found = append(found, g)
		switch {
		case err != nil && torn != nil:
			return found, torn
		case err != nil:
			return found, fmt.Errorf("journal generation %d: %w", n, err)
		case torn == nil && g.Torn != nil:
			torn = g.Torn
		case torn == nil && !g.Header:
			torn = &wal.CorruptError{Path: g.Path, Err: fmt.Errorf("%w: no log header", wal.ErrCorrupt)}
		}
	}
	if next == o.Filed+1 && o.Filed > 0 {
		return found, &GapError{o.Dir, next, 0}
	}
	return found, nil
}

// GapError says that a generation of the journal is missing.
type GapError struct {
	Dir           string
	Missing, Next uint64 // Next is there instead; 0: nothing is
}

func (e *GapError) Error() string {
	if e.Next == 0 {
		return fmt.Sprintf("journal %s: generation %d is missing", e.Dir, e.Missing)
	}
	return fmt.Sprintf("journal %s: generation %d is missing, %d is there", e.Dir, e.Missing, e.Next)
}

// NameError says that something in the journal's directory is no generation.
type NameError struct{ Dir, Name string }

func (e *NameError) Error() string {
	return fmt.Sprintf("journal %s: %q is not a generation", e.Dir, e.Name)
}

// generations returns the numbers that the names of a journal's directory stand for,
// ascending as they are.
func (j *Journal) generations(names []string) (found []uint64, err error) {
	for _, name := range names { // sorted, and of one width
		n, err := strconv.ParseUint(name, 10, 64)
		if err != nil || len(name) != 20 {
			return nil, &NameError{j.o.Dir, name}
		}
		found = append(found, n)
	}
	return found, nil
}
