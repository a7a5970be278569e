package dedup

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"math/bits"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/skepmq/skep/segment/vfs"
)

const (
	seedLen   = 16
	seedMagic = 0x31534444 // "DDS1"
)

// Recovery is what Open could not load. If Damaged is not empty, entries are missing
// and duplicates will pass: index all messages of the window again, by Add and Save,
// and then call DiscardDamaged. Until that has been done every Open reports them.
type Recovery struct {
	Damaged []*CorruptError
}

// Open loads the index in o.Dir, or begins one. What is saved is found again; a torn
// tail, which no Save has returned for, is cut. A damaged file is set aside, logged
// and reported in Recovery; it is no error.
func Open(o Options) (*Index, Recovery, error) {
	if o.FS == nil {
		o.FS = vfs.OS
	}
	if o.CacheBytes <= 0 {
		o.CacheBytes = defaultCacheBytes
	}
	slots := o.CacheBytes / memoryBuckets / numShards / entryLen
	x := &Index{
		options:  o,
		logger:   o.Logger.With().Str("dir", o.Dir).Logger(),
		maxSlots: max(minTableSlots, 1<<bits.Len64(uint64(slots))>>1),
		logs:     make(map[uint64]logInfo),
	}
	x.spanMs.Store(defaultSpan.Milliseconds())
	x.layout.Store(&layout{})
	l := loader{Index: x}
	if err := l.load(); err != nil {
		return nil, Recovery{}, errors.Join(fmt.Errorf("open dedup index %s: %w", o.Dir, err), x.Close())
	}
	return x, Recovery{l.damaged}, nil
}

// DiscardDamaged deletes the files that Open has set aside. To be called when what
// was in them has been saved again.
func (x *Index) DiscardDamaged() error {
	x.filesMu.Lock()
	defer x.filesMu.Unlock()
	if x.closed {
		return ErrClosed
	}
	for len(x.aside) > 0 {
		path := x.aside[0]
		size, err := x.options.FS.Size(path)
		if err == nil {
			err = x.remove(path)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		x.otherBytes.Add(-size)
		x.aside = x.aside[1:]
	}
	return nil
}

// loader is an index being opened.
type loader struct {
	*Index
	damaged []*CorruptError
	logIDs  []uint64 // ascending
	sorted  []uint64 // ascending
	next    uint64   // above every bucket there are files of, damaged ones included
}

func (l *loader) load() error {
	if err := vfs.MakeDir(l.options.FS, l.options.Dir); err != nil {
		return err
	}
	if err := l.list(); err != nil {
		return err
	}
	if err := l.loadSeed(); err != nil {
		return err
	}
	if err := l.openSorted(); err != nil {
		return err
	}
	return l.loadLogs()
}

// list sorts the files by their names and removes those that were not finished.
func (l *loader) list() error {
	// A process killed between a rename and its sync leaves a name that a power cut
	// could still take away, after what it replaces has been removed.
	if err := l.options.FS.SyncDir(l.options.Dir); err != nil {
		return err
	}
	names, err := l.options.FS.List(l.options.Dir)
	if err != nil {
		return err
	}
	l.next = 1
	for _, name := range names {
		path := filepath.Join(l.options.Dir, name)
		digits, suffix, _ := strings.Cut(name, ".")
		if id, err := strconv.ParseUint(digits, 10, 64); err == nil {
			l.next = max(l.next, id+1)
			switch "." + suffix {
			case logSuffix:
				l.logIDs = append(l.logIDs, id)
			case sortedSuffix:
				l.sorted = append(l.sorted, id)
			}
		}
		switch {
		case strings.HasSuffix(name, tmpSuffix):
			if err := l.remove(path); err != nil {
				return err
			}
		case strings.HasSuffix(name, damagedSuffix):
			if err := l.addAside(path); err != nil {
				return err
			}
			l.report(&CorruptError{path, 0, errSetAside})
		}
	}
	return nil
}

var errSetAside = fmt.Errorf("%w: found before, and not indexed again since", errInvalid)

func (l *loader) report(err *CorruptError) {
	l.damaged = append(l.damaged, err)
	l.logger.Warn().Str("path", err.Path).Int64("position", err.Position).AnErr("cause", err.Err).Msg("dedup file damaged")
}

func (l *loader) addAside(path string) error {
	size, err := l.options.FS.Size(path)
	if err != nil {
		return err
	}
	l.aside = append(l.aside, path)
	l.otherBytes.Add(size)
	return nil
}

// setAside reports a damaged file and renames it, so that its name is free and the
// next Open still knows, should there be one before the entries are indexed again.
// It returns err itself if that is not about damage.
func (l *loader) setAside(err error) error {
	var corrupt *CorruptError
	if !errors.As(err, &corrupt) {
		return err
	}
	l.report(corrupt)
	if err := l.options.FS.Rename(corrupt.Path, corrupt.Path+damagedSuffix); err != nil {
		return err
	}
	if err := l.options.FS.SyncDir(l.options.Dir); err != nil {
		return err
	}
	return l.addAside(corrupt.Path + damagedSuffix)
}

// loadSeed reads the seed or chooses one. Files hashed under another are damaged, so
// a lost seed costs the index and nothing else.
//
//	0       4       8       16
//	+-------+-------+-------+
//	| crc   | magic | seed  |     crc: CRC-32C of the rest; magic: "DDS1"
//	+-------+-------+-------+
//
// Integers are little-endian. testdata/seed.golden pins the bytes.
func (l *loader) loadSeed() error {
	path := filepath.Join(l.options.Dir, seedName)
	file, err := l.options.FS.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return l.writeSeed(path, rand.Uint64())
	}
	if err != nil {
		return err
	}
	b := make([]byte, seedLen)
	n, err := file.ReadAt(b, 0)
	if err = errors.Join(err, file.Close()); n < seedLen && !errors.Is(err, io.EOF) {
		return err
	}
	seed, err := decodeSeed(b[:n])
	if err != nil {
		if err := l.setAside(&CorruptError{path, 0, err}); err != nil {
			return err
		}
		return l.writeSeed(path, rand.Uint64())
	}
	l.seed = seed
	return nil
}

func (l *loader) writeSeed(path string, seed uint64) error {
	l.seed = seed
	fsys, tmp := l.options.FS, path+tmpSuffix
	file, err := fsys.Create(tmp)
	if err != nil {
		return err
	}
	_, err = file.WriteAt(appendSeed(nil, seed), 0)
	if err == nil {
		err = file.Sync()
	}
	if err = errors.Join(err, file.Close()); err != nil {
		return err
	}
	if err := fsys.Rename(tmp, path); err != nil {
		return err
	}
	return fsys.SyncDir(l.options.Dir)
}

func appendSeed(dst []byte, seed uint64) []byte {
	start := len(dst)
	dst = binary.LittleEndian.AppendUint32(dst, 0)
	dst = binary.LittleEndian.AppendUint32(dst, seedMagic)
	dst = binary.LittleEndian.AppendUint64(dst, seed)
	binary.LittleEndian.PutUint32(dst[start:], crc32.Checksum(dst[start+4:], castagnoli))
	return dst
}

func decodeSeed(b []byte) (uint64, error) {
	le := binary.LittleEndian
	if len(b) < seedLen || le.Uint32(b[4:]) != seedMagic || le.Uint32(b) != crc32.Checksum(b[4:seedLen], castagnoli) {
		return 0, fmt.Errorf("%w: seed", errInvalid)
	}
	return le.Uint64(b[8:]), nil
}

// openSorted opens the spilled buckets, the newest first, with filters as long as
// the memory lasts, and removes the files that a spill or a merge had replaced.
func (l *loader) openSorted() error {
	budget := l.options.CacheBytes
	for _, id := range slices.Backward(l.sorted) {
		spilled := l.layout.Load().spilled
		if len(spilled) > 0 && id >= spilled[0].header.first {
			if err := l.remove(l.path(id, sortedSuffix)); err != nil {
				return err
			}
			continue
		}
		f, err := openSortedFile(l.options.FS, l.path(id, sortedSuffix), l.seed, id, budget)
		if err != nil {
			if err := l.setAside(err); err != nil {
				return err
			}
			continue
		}
		budget -= f.memory()
		l.changeLayout(func(l *layout) { l.spilled = slices.Insert(l.spilled, 0, f) })
	}
	return nil
}

// replaced reports whether a sorted file holds the bucket.
func (l *layout) replaced(bucket uint64) bool {
	return slices.ContainsFunc(l.spilled, func(f *sortedFile) bool {
		return f.header.first <= bucket && bucket <= f.header.last
	})
}
