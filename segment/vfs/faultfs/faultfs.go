package faultfs

import (
	"io"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"

	"github.com/skepmq/skep/segment/vfs"
)

// FS implements vfs.FS in memory. Its root, "/", exists; relative names start there
// too. It is safe for concurrent use.
type FS struct {
	mu      sync.Mutex
	root    *node
	pending []nameOp // changes of names that no SyncDir has made durable, in order
	locks   map[string]bool
	handles int
	free    int64
	total   int64

	calls    [len(kindNames)]int // by kind
	fault    Fault
	faultAt  int
	observer func(Kinds, string)
	quiet    bool
}

// New returns an empty file system with no fault armed.
func New() *FS {
	return &FS{
		root:    newDir(),
		locks:   map[string]bool{},
		faultAt: -1,
		free:    1 << 40,
		total:   1 << 40,
	}
}

// SetFree sets what Free answers. It limits no write; arm a Fault for that.
func (f *FS) SetFree(free, total int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.free, f.total = free, total
}

// Handles returns how many files are open and not closed.
func (f *FS) Handles() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.handles
}

// Open implements vfs.FS.
func (f *FS) Open(name string) (vfs.File, error) { return f.open("open", name, false) }

// OpenReadWrite implements vfs.FS.
func (f *FS) OpenReadWrite(name string) (vfs.File, error) { return f.open("open", name, true) }

func (f *FS) open(op, name string, write bool) (vfs.File, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	n, err := f.file(op, name)
	if err != nil {
		return nil, err
	}
	if fault, ok := f.step(Open); ok {
		return nil, pathError(op, name, fault.err())
	}
	return f.handle(n, name, write), nil
}

func (f *FS) handle(n *node, name string, write bool) *handle {
	f.handles++
	return &handle{fs: f, node: n, name: name, write: write}
}

// Create implements vfs.FS. It is one mutating call, whether or not the file exists.
func (f *FS) Create(name string) (vfs.File, error) {
	f.observe(Create, name)
	f.mu.Lock()
	defer f.mu.Unlock()
	n, err := f.create(name)
	if err != nil {
		return nil, err
	}
	if len(n.data) > 0 {
		n.truncate(0)
	}
	return f.handle(n, name, true), nil
}

func (f *FS) create(name string) (*node, error) {
	dir, base, err := f.parent("create", name)
	if err != nil {
		return nil, err
	}
	n := dir.names[base]
	if n != nil && n.isDir() {
		return nil, pathError("create", name, syscall.EISDIR)
	}
	if fault, ok := f.step(Create); ok {
		return nil, pathError("create", name, fault.err())
	}
	if n == nil {
		n = &node{}
		f.change(edit{dir, base, n})
	}
	return n, nil
}

// Remove implements vfs.FS.
func (f *FS) Remove(name string) error {
	f.observe(Remove, name)
	f.mu.Lock()
	defer f.mu.Unlock()
	dir, base, err := f.parent("remove", name)
	if err != nil {
		return err
	}
	n := dir.names[base]
	if n == nil {
		return pathError("remove", name, syscall.ENOENT)
	}
	if len(n.names) > 0 {
		return pathError("remove", name, syscall.ENOTEMPTY)
	}
	return f.unlink(dir, base, name)
}

// RemoveAll implements vfs.FS. It is one mutating call for each name it removes.
func (f *FS) RemoveAll(name string) error {
	f.observe(Remove, name)
	f.mu.Lock()
	defer f.mu.Unlock()
	dir, base, err := f.parent("removeall", name)
	if err != nil || dir.names[base] == nil {
		return nil // nothing there
	}
	return f.removeTree(dir, base, name)
}

func (f *FS) removeTree(dir *node, base, name string) error {
	n := dir.names[base]
	for _, child := range sortedNames(n.names) {
		if err := f.removeTree(n, child, filepath.Join(name, child)); err != nil {
			return err
		}
	}
	return f.unlink(dir, base, name)
}

func (f *FS) unlink(dir *node, base, name string) error {
	if fault, ok := f.step(Remove); ok {
		return pathError("remove", name, fault.err())
	}
	f.change(edit{dir, base, nil})
	return nil
}

// Rename implements vfs.FS.
func (f *FS) Rename(from, to string) error {
	f.observe(Rename, from)
	f.mu.Lock()
	defer f.mu.Unlock()
	fromDir, fromBase, err := f.parent("rename", from)
	if err != nil {
		return err
	}
	toDir, toBase, err := f.parent("rename", to)
	if err != nil {
		return err
	}
	n := fromDir.names[fromBase]
	if n == nil {
		return pathError("rename", from, syscall.ENOENT)
	}
	if err := replaceable(n, toDir.names[toBase]); err != nil {
		return pathError("rename", to, err)
	}
	if fault, ok := f.step(Rename); ok {
		return pathError("rename", from, fault.err())
	}
	if fromDir != toDir || fromBase != toBase {
		f.change(edit{fromDir, fromBase, nil}, edit{toDir, toBase, n})
	}
	return nil
}

// replaceable tells why old, which may be nil, cannot give its name to n.
func replaceable(n, old *node) error {
	switch {
	case old == nil:
		return nil
	case old.isDir() && !n.isDir():
		return syscall.EISDIR
	case !old.isDir() && n.isDir():
		return syscall.ENOTDIR
	case len(old.names) > 0:
		return syscall.ENOTEMPTY
	}
	return nil
}

// MkdirAll implements vfs.FS. It is one mutating call for each directory it creates.
func (f *FS) MkdirAll(name string) error {
	f.observe(Mkdir, name)
	f.mu.Lock()
	defer f.mu.Unlock()
	dir := f.root
	for _, part := range split(name) {
		n := dir.names[part]
		if n == nil {
			if fault, ok := f.step(Mkdir); ok {
				return pathError("mkdir", name, fault.err())
			}
			n = newDir()
			f.change(edit{dir, part, n})
		}
		if !n.isDir() {
			return pathError("mkdir", name, syscall.ENOTDIR)
		}
		dir = n
	}
	return nil
}

// List implements vfs.FS.
func (f *FS) List(dir string) ([]string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	n, err := f.directory("list", dir)
	if err != nil {
		return nil, err
	}
	return sortedNames(n.names), nil
}

// Size implements vfs.FS.
func (f *FS) Size(name string) (int64, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	n, err := f.file("stat", name)
	if err != nil {
		return 0, err
	}
	return int64(len(n.data)), nil
}

// SyncDir implements vfs.FS.
func (f *FS) SyncDir(dir string) error {
	f.observe(SyncDir, dir)
	f.mu.Lock()
	defer f.mu.Unlock()
	n, err := f.directory("syncdir", dir)
	if err != nil {
		return err
	}
	if fault, ok := f.step(SyncDir); ok {
		return pathError("syncdir", dir, fault.err())
	}
	f.commitNames(n)
	return nil
}

// Lock implements vfs.FS. Creating the file is a mutating call, locking it is none.
func (f *FS) Lock(name string) (io.Closer, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	key := strings.Join(split(name), "/")
	if f.locks[key] {
		return nil, pathError("lock", name, vfs.ErrLocked)
	}
	if _, err := f.file("lock", name); err != nil {
		if _, err := f.create(name); err != nil {
			return nil, err
		}
	}
	f.locks[key] = true
	return &lock{fs: f, key: key}, nil
}

// Free implements vfs.FS; see SetFree.
func (f *FS) Free(dir string) (free, total int64, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, err := f.directory("statfs", dir); err != nil {
		return 0, 0, err
	}
	return f.free, f.total, nil
}

type lock struct {
	fs  *FS
	key string
}

// Close releases the lock, once.
func (l *lock) Close() error {
	l.fs.mu.Lock()
	defer l.fs.mu.Unlock()
	if l.key == "" {
		return fs.ErrClosed
	}
	delete(l.fs.locks, l.key)
	l.key = ""
	return nil
}

// lookup finds the node of a name.
func (f *FS) lookup(op, name string) (*node, error) {
	n := f.root
	for _, part := range split(name) {
		if !n.isDir() {
			return nil, pathError(op, name, syscall.ENOTDIR)
		}
		if n = n.names[part]; n == nil {
			return nil, pathError(op, name, syscall.ENOENT)
		}
	}
	return n, nil
}

func (f *FS) directory(op, name string) (*node, error) {
	n, err := f.lookup(op, name)
	if err == nil && !n.isDir() {
		return nil, pathError(op, name, syscall.ENOTDIR)
	}
	return n, err
}

func (f *FS) file(op, name string) (*node, error) {
	n, err := f.lookup(op, name)
	if err == nil && n.isDir() {
		return nil, pathError(op, name, syscall.EISDIR)
	}
	return n, err
}

// parent finds the directory that holds or would hold a name.
func (f *FS) parent(op, name string) (dir *node, base string, err error) {
	parts := split(name)
	if len(parts) == 0 {
		return nil, "", pathError(op, name, syscall.EBUSY)
	}
	dir, err = f.directory(op, filepath.Dir(filepath.Clean(name)))
	return dir, parts[len(parts)-1], err
}

func split(name string) []string {
	return strings.FieldsFunc(filepath.ToSlash(filepath.Clean("/"+name)), func(r rune) bool { return r == '/' })
}

func sortedNames(names map[string]*node) []string {
	return slices.Sorted(maps.Keys(names))
}

func pathError(op, name string, err error) error {
	return &fs.PathError{Op: op, Path: name, Err: err}
}
