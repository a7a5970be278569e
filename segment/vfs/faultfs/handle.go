package faultfs

import (
	"io"
	"io/fs"
	"syscall"
)

// handle implements vfs.File. It outlives the removal of its file, as on Unix.
type handle struct {
	fs     *FS
	node   *node
	name   string
	write  bool
	closed bool
}

// ReadAt implements io.ReaderAt.
func (h *handle) ReadAt(p []byte, pos int64) (int, error) {
	h.fs.mu.Lock()
	defer h.fs.mu.Unlock()
	if h.closed {
		return 0, pathError("read", h.name, fs.ErrClosed)
	}
	if pos < 0 {
		return 0, pathError("read", h.name, syscall.EINVAL)
	}
	if fault, ok := h.fs.step(Read); ok {
		return 0, pathError("read", h.name, fault.err())
	}
	if pos >= int64(len(h.node.data)) {
		return 0, io.EOF
	}
	n := copy(p, h.node.data[pos:])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

// WriteAt implements io.WriterAt.
func (h *handle) WriteAt(p []byte, pos int64) (int, error) {
	h.fs.observe(Write, h.name)
	h.fs.mu.Lock()
	defer h.fs.mu.Unlock()
	if err := h.writable("write", pos); err != nil {
		return 0, err
	}
	if fault, ok := h.fs.step(Write); ok {
		n := 0
		if fault.Short {
			n = len(p) / 2
		}
		h.node.write(p[:n], pos)
		return n, pathError("write", h.name, fault.err())
	}
	h.node.write(p, pos)
	return len(p), nil
}

// Truncate implements vfs.File.
func (h *handle) Truncate(size int64) error {
	h.fs.observe(Truncate, h.name)
	h.fs.mu.Lock()
	defer h.fs.mu.Unlock()
	if err := h.writable("truncate", size); err != nil {
		return err
	}
	if fault, ok := h.fs.step(Truncate); ok {
		return pathError("truncate", h.name, fault.err())
	}
	h.node.truncate(size)
	return nil
}

// Sync implements vfs.File.
func (h *handle) Sync() error {
	h.fs.observe(Sync, h.name)
	h.fs.mu.Lock()
	defer h.fs.mu.Unlock()
	if h.closed {
		return pathError("sync", h.name, fs.ErrClosed)
	}
	if fault, ok := h.fs.step(Sync); ok {
		h.node.failSync()
		return pathError("sync", h.name, fault.err())
	}
	h.node.sync()
	return nil
}

// Size implements vfs.File.
func (h *handle) Size() (int64, error) {
	h.fs.mu.Lock()
	defer h.fs.mu.Unlock()
	if h.closed {
		return 0, pathError("stat", h.name, fs.ErrClosed)
	}
	return int64(len(h.node.data)), nil
}

// Close implements io.Closer. It syncs nothing.
func (h *handle) Close() error {
	h.fs.mu.Lock()
	defer h.fs.mu.Unlock()
	if h.closed {
		return pathError("close", h.name, fs.ErrClosed)
	}
	h.closed = true
	h.fs.handles--
	return nil
}

func (h *handle) writable(op string, pos int64) error {
	switch {
	case h.closed:
		return pathError(op, h.name, fs.ErrClosed)
	case !h.write:
		return pathError(op, h.name, syscall.EBADF)
	case pos < 0:
		return pathError(op, h.name, syscall.EINVAL)
	}
	return nil
}
