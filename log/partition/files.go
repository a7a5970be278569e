package partition

import (
	"container/list"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"sync"

	"github.com/skepmq/skep/segment"
	"github.com/skepmq/skep/segment/vfs"
)

// files holds the segment files open for reading, those used last, up to a number.
// Files in use may exceed it: one a reader.
type files struct {
	fs    vfs.FS
	dir   string
	limit int

	mu     sync.Mutex
	byID   map[uint32]*list.Element // of *openFile
	order  *list.List               // used last in front
	count  int                      // open, those no longer in the list included
	closed bool
}

// openFile is an open segment. It closes when nothing refers to it: neither the
// list nor a reader.
type openFile struct {
	*segment.Reader
	refs int // under files.mu
}

func newFiles(fsys vfs.FS, dir string, limit int) *files {
	return &files{fs: fsys, dir: dir, limit: limit, byID: map[uint32]*list.Element{}, order: list.New()}
}

// acquire returns the segment file, opening it if need be. The caller releases it.
func (f *files) acquire(id uint32) (*openFile, error) {
	if file, err := f.lookup(id); file != nil || err != nil {
		return file, err
	}
	path := filepath.Join(f.dir, segment.FileName(id))
	r, err := segment.OpenReader(f.fs, path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, &segment.CorruptError{Path: path, Err: fmt.Errorf("%w: %w", ErrMissing, err)}
	}
	if err != nil {
		return nil, err
	}
	if got := r.Header().ID; got != id {
		return nil, errors.Join(r.Corrupt(0, segment.ErrCorrupt), r.Close())
	}
	return f.insert(id, r)
}

func (f *files) lookup(id uint32) (*openFile, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return nil, ErrClosed
	}
	elem := f.byID[id]
	if elem == nil {
		return nil, nil
	}
	f.order.MoveToFront(elem)
	file := elem.Value.(*openFile)
	file.refs++
	return file, nil
}

func (f *files) insert(id uint32, r *segment.Reader) (*openFile, error) {
	f.mu.Lock()
	if f.closed {
		f.mu.Unlock()
		return nil, errors.Join(ErrClosed, r.Close())
	}
	if elem := f.byID[id]; elem != nil { // another reader was faster
		file := elem.Value.(*openFile)
		file.refs++
		f.mu.Unlock()
		_ = r.Close()
		return file, nil
	}
	var unused []*openFile
	file := &openFile{Reader: r, refs: 2} // the list's and the caller's
	f.byID[id] = f.order.PushFront(file)
	f.count++
	for f.order.Len() > f.limit {
		unused = f.unlist(f.order.Back(), unused)
	}
	f.mu.Unlock()
	_ = closeAll(unused)
	return file, nil
}

// unlist takes a file off the list. It appends it to unused if it is to be closed.
func (f *files) unlist(elem *list.Element, unused []*openFile) []*openFile {
	file := f.order.Remove(elem).(*openFile)
	delete(f.byID, file.Header().ID)
	return f.unref(file, unused)
}

func (f *files) unref(file *openFile, unused []*openFile) []*openFile {
	if file.refs--; file.refs > 0 {
		return unused
	}
	f.count--
	return append(unused, file)
}

// release gives back what acquire returned. An error of closing a file that was
// only read concerns nobody.
func (f *files) release(file *openFile) {
	f.mu.Lock()
	unused := f.unref(file, nil)
	f.mu.Unlock()
	_ = closeAll(unused)
}

// forget takes a segment off the list; it closes after its last reader.
func (f *files) forget(id uint32) {
	f.mu.Lock()
	var unused []*openFile
	if elem := f.byID[id]; elem != nil {
		unused = f.unlist(elem, nil)
	}
	f.mu.Unlock()
	_ = closeAll(unused)
}

func (f *files) open() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.count
}

func (f *files) close() error {
	f.mu.Lock()
	f.closed = true
	var unused []*openFile
	for f.order.Len() > 0 {
		unused = f.unlist(f.order.Back(), unused)
	}
	f.mu.Unlock()
	return closeAll(unused)
}

func closeAll(unused []*openFile) error {
	var errs []error
	for _, file := range unused {
		errs = append(errs, file.Close())
	}
	return errors.Join(errs...)
}
