package trace

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"io/fs"
	"slices"

	"github.com/google/uuid"
)

// part is what a question has to know of a file.
type part struct {
	number  int64
	memory  *memory // what take has taken; nil: its index is on the disk
	encoded []byte  // memory, as an index; of Names alone
}

// parts returns the files, oldest first, with what take copies of those in memory.
func (l *Log) parts(take func(*memory) *memory) ([]part, error) {
	if l.o.Dir == "" {
		return nil, nil
	}
	if err := l.open(); err != nil {
		return nil, err
	}
	l.mu.RLock()
	defer l.mu.RUnlock()
	parts := make([]part, len(l.files))
	for i, f := range l.files {
		parts[i].number = f.number
		if f.memory != nil {
			parts[i].memory = take(f.memory)
		}
	}
	return parts, nil
}

func (l *Log) open() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.openLocked()
}

// index calls fn with the index of a file. What cannot be read is left out: a file may have
// been removed meanwhile, or be damaged.
func (l *Log) index(number int64, fn func(*index) error) {
	var err error
	for _, suffix := range [...]string{indexSuffix, newSuffix, indexSuffix} { // it may get its last name meanwhile
		err = l.read(number, suffix, func(r io.ReaderAt, size int64) error {
			x, err := openIndex(r, size)
			if err != nil {
				return err
			}
			return fn(x)
		})
		if !errors.Is(err, fs.ErrNotExist) {
			break
		}
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		l.warn(l.path(number, indexSuffix), err, "traces are left out")
	}
}

// ByMessage calls visit with the traces of a message, oldest first, until it returns false.
func (l *Log) ByMessage(tenant, partition uuid.UUID, transactionID []byte, visit func(*Trace) bool) error {
	hash := addressHash(tenant, partition, transactionID)
	parts, err := l.parts(func(m *memory) *memory { return &memory{addresses: m.addresses} })
	more := true
	for i := 0; i < len(parts) && more; i++ {
		p := &parts[i]
		var at []uint32
		if p.memory != nil {
			at = p.memory.find(hash)
		} else {
			l.index(p.number, func(x *index) (err error) {
				at, err = x.find(hash)
				return err
			})
		}
		l.frames(p.number, at, func(t *Trace) bool {
			if t.Tenant == tenant && t.PartitionID == partition && bytes.Equal(t.TransactionID, transactionID) {
				more = visit(t)
			}
			return more
		})
	}
	return err
}

// frames calls fn with the traces at some positions of a file, until it returns false.
func (l *Log) frames(number int64, at []uint32, fn func(*Trace) bool) {
	if len(at) == 0 {
		return
	}
	err := l.read(number, dataSuffix, func(r io.ReaderAt, _ int64) error {
		var bad error
		for _, position := range at {
			t, err := readFrame(r, int64(position))
			if err != nil {
				bad = err // the others may be whole
				continue
			}
			if !fn(&t) {
				break
			}
		}
		return bad
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		l.warn(l.path(number, dataSuffix), err, "traces are left out")
	}
}

func readFrame(r io.ReaderAt, at int64) (t Trace, err error) {
	var header [frameHeader]byte
	if _, err := r.ReadAt(header[:], at); err != nil {
		return t, err
	}
	length := binary.LittleEndian.Uint32(header[4:])
	if length > maxBody {
		return t, errCorrupt
	}
	b := make([]byte, frameHeader+length)
	if _, err := r.ReadAt(b, at); err != nil {
		return t, err
	}
	t, _, err = DecodeTrace(b)
	return t, err
}

// ByName calls visit with a page of the traces that have a name and whose partition exists,
// oldest first, until it returns false. total is how many there are. exists is asked for each
// of them.
func (l *Log) ByName(tenant uuid.UUID, name string, exists func(partition uuid.UUID) bool,
	offset, limit int, visit func(*Trace) bool) (total int, err error) {
	key := labelKey{tenant, name}
	parts, err := l.parts(func(m *memory) *memory { return m.label(key) })
	pages := make([][]uint32, len(parts)) // what of the page is in each
	found := 0
	for i := range parts {
		count := func(u use) {
			if !exists(u.partition) {
				return
			}
			if total++; total > offset && found < limit {
				pages[i] = append(pages[i], u.at)
				found++
			}
		}
		if m := parts[i].memory; m != nil {
			if held := m.labels[key]; held != nil {
				for _, u := range held.uses {
					count(u)
				}
			}
			continue
		}
		l.index(parts[i].number, func(x *index) error {
			e, err := x.label(key)
			if err != nil {
				return err
			}
			return x.eachUse(&e, count)
		})
	}
	more := true
	for i := 0; i < len(parts) && more; i++ {
		l.frames(parts[i].number, pages[i], func(t *Trace) bool {
			if t.Tenant == tenant && slices.ContainsFunc(t.Names, func(n []byte) bool { return string(n) == name }) {
				more = visit(t)
			}
			return more
		})
	}
	return total, err
}
