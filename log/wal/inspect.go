package wal

import (
	"path/filepath"

	"github.com/skepmq/skep/segment/vfs"
)

// Inspection is what Inspect has found.
type Inspection struct {
	Recovery               // as Open would tell it, had it cut the torn tail
	Size     int64         // valid bytes of all segments
	Torn     *CorruptError // where a torn tail begins; nil: there is none
	Header   bool          // false: the log was not begun, or its beginning is torn
}

// Inspect is the walk of Open, but changes nothing and leaves nothing open: a torn tail is
// told, and stays. Errors: *CorruptError for damage, what fn returns, and what the file
// system answers.
func Inspect(o Options, fn func(seq uint64, data []byte) error) (Inspection, error) {
	return inspect(o, func(e entry, _ int64) error {
		if e.kind != kindData || fn == nil {
			return nil
		}
		return fn(e.seq, e.data)
	})
}

func inspect(o Options, visit func(entry, int64) error) (Inspection, error) {
	var in Inspection
	f, err := walk(o.withDefaults(), func(e entry, size int64) error {
		if e.kind == kindData {
			in.Entries++
		}
		in.LastSeq = e.seq
		return visit(e, size)
	})
	in.Segments, in.Size, in.Torn, in.Header = len(f.segments), f.size, f.torn, f.next > 0
	if f.torn != nil {
		in.CutBytes, in.CutPath = int64(len(f.cut)), f.torn.Path
	}
	return in, err
}

// HomeInspection is what InspectHome has found.
type HomeInspection struct {
	Inspection
	Number    uint64   // of the generation that counts; 0: the home was never used
	Leftovers []string // directories that a rewrite has left and the next open removes
}

// InspectHome is OpenHome without changing anything. A missing home is fs.ErrNotExist.
func InspectHome(o HomeOptions, load func(data []byte) error) (in HomeInspection, err error) {
	if o.FS == nil {
		o.FS = vfs.OS
	}
	h := &Home{o: o}
	dirs, err := listGenerations(o.FS, o.Dir)
	if err != nil {
		return in, err
	}
	for _, name := range dirs.old {
		in.Leftovers = append(in.Leftovers, filepath.Join(o.Dir, name))
	}
	number, ok, err := h.newest(dirs.numbers)
	if err != nil {
		return in, err
	}
	for _, n := range dirs.numbers {
		if n != number {
			in.Leftovers = append(in.Leftovers, h.generation(n).Dir)
		}
	}
	if !ok {
		if len(dirs.old) > 0 {
			return in, replacementMissing(in.Leftovers[0])
		}
		return in, nil
	}
	in.Number = number
	in.Inspection, err = inspect(h.generation(number), func(e entry, _ int64) error {
		if e.kind != kindData {
			return nil
		}
		return load(e.data)
	})
	return in, err
}
