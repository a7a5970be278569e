package dedup

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"

	"github.com/skepmq/skep/segment/vfs"
)

const writeBufferLen = 64 * pageLen

// sortedWriter writes a sorted file from entries in the order of their hash.
type sortedWriter struct {
	fs     vfs.FS
	path   string // without .tmp
	file   vfs.File
	header sortedHeader
	filter *filter
	fence  []uint64

	page     []byte // the page being filled; empty before the first entry
	buffer   []byte
	position int64 // of buffer in the file
	last     slot
	err      error // the first write that failed; later ones are not tried
}

// newSortedWriter begins the file for the buckets first to last. entries is at least
// the number that will be added; it sizes the filter.
func newSortedWriter(fs vfs.FS, path string, seed, first, last uint64, entries int64) (*sortedWriter, error) {
	file, err := fs.Create(path + tmpSuffix)
	if err != nil {
		return nil, err
	}
	return &sortedWriter{
		fs: fs, path: path, file: file,
		header:   sortedHeader{seed: seed, first: first, last: last},
		filter:   newFilter(entries),
		fence:    make([]uint64, 0, (entries+entriesPerPage-1)/entriesPerPage),
		page:     make([]byte, 0, pageLen),
		buffer:   make([]byte, 0, writeBufferLen),
		position: pageLen,
	}, nil
}

// add appends an entry. A repeated one (same hash, same offset) is left out.
func (w *sortedWriter) add(s slot) {
	if w.header.entries > 0 && s.hash == w.last.hash && sameOffset(s.meta, w.last.meta) {
		return
	}
	w.last = s
	if len(w.page) == pageLen {
		w.flushPage()
	}
	if len(w.page) == 0 {
		w.page = beginPage(w.page, uint32(len(w.fence)))
		w.fence = append(w.fence, s.hash)
	}
	w.page = appendSlot(w.page, s)
	w.filter.add(s.hash)
	w.header.entries++
}

func (w *sortedWriter) flushPage() {
	if len(w.page) == 0 {
		return
	}
	w.write(endPage(w.page))
	w.page = w.page[:0]
}

func (w *sortedWriter) write(b []byte) {
	w.buffer = append(w.buffer, b...)
	if len(w.buffer) >= writeBufferLen-pageLen {
		w.flush()
	}
}

func (w *sortedWriter) flush() {
	if w.err == nil {
		_, w.err = w.file.WriteAt(w.buffer, w.position)
	}
	w.position += int64(len(w.buffer))
	w.buffer = w.buffer[:0]
}

// finish makes the file complete and durable and opens it for reading. On an error
// nothing of it counts.
func (w *sortedWriter) finish(newestMs int64) (*sortedFile, error) {
	w.flushPage()
	h := &w.header
	h.newestMs, h.pages, h.blocks = newestMs, uint32(len(w.fence)), uint32(len(w.filter.blocks))
	for _, hash := range w.fence {
		h.fenceCRC = w.section(h.fenceCRC, hash)
	}
	for i := range w.filter.blocks {
		h.filterCRC = w.section(h.filterCRC, w.filter.blocks[i][:]...)
	}
	w.flush()
	if w.err == nil {
		_, w.err = w.file.WriteAt(h.encode(), 0)
	}
	if w.err == nil {
		w.err = w.file.Sync()
	}
	if w.err != nil {
		return nil, errors.Join(w.err, w.abandon()) // on a full disk it would stand in the way
	}
	if err := w.file.Close(); err != nil {
		return nil, errors.Join(err, w.fs.Remove(w.path+tmpSuffix))
	}
	// The header carries the checksums of all but the pages, which have their own,
	// and the name appears only now: a file with its name is whole.
	if err := w.fs.Rename(w.path+tmpSuffix, w.path); err != nil {
		return nil, err
	}
	file, err := w.fs.Open(w.path)
	if err != nil {
		return nil, fmt.Errorf("open what was just written: %w", err)
	}
	return newSortedFile(w.path, file, *h, w.fence, w.filter), nil
}

// section writes words of the fence or the filter and returns their checksum, continued.
func (w *sortedWriter) section(crc uint32, words ...uint64) uint32 {
	var b [filterBlockLen]byte
	out := b[:0]
	for _, word := range words {
		out = binary.LittleEndian.AppendUint64(out, word)
	}
	w.write(out)
	return crc32.Update(crc, castagnoli, out)
}

// abandon closes and removes an unfinished file.
func (w *sortedWriter) abandon() error {
	return errors.Join(w.file.Close(), w.fs.Remove(w.path+tmpSuffix))
}
