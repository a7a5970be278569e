package dedup

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"slices"
	"sort"
	"sync"
	"sync/atomic"

	"github.com/skepmq/skep/segment/vfs"
)

// sortedFile is a spilled bucket, or several merged: its entries on disk, its fence
// and, as long as there is room, its filter in memory. Lookups share it without a
// lock; the file is closed after the last of them.
type sortedFile struct {
	path   string
	file   vfs.File
	header sortedHeader
	fence  []uint64 // the first hash of each page
	filter atomic.Pointer[filter]

	refs     atomic.Int64 // 1 for the layout, and 1 for each reader
	damaged  atomic.Bool  // a page has failed its checksum
	setAside bool         // path has been renamed for that; belongs to filesMu
}

func newSortedFile(path string, file vfs.File, h sortedHeader, fence []uint64, f *filter) *sortedFile {
	s := &sortedFile{path: path, file: file, header: h, fence: fence}
	s.filter.Store(f)
	s.refs.Store(1)
	return s
}

// openSortedFile opens the file and reads what stays in memory. The filter is left
// out if it takes more than filterBudget bytes. What is wrong with the file itself
// is a CorruptError.
func openSortedFile(fs vfs.FS, path string, seed, last uint64, filterBudget int64) (_ *sortedFile, err error) {
	file, err := fs.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, file.Close())
		}
	}()
	size, err := file.Size()
	if err != nil {
		return nil, err
	}
	h, err := readSortedHeader(file, path, seed, last, size)
	if err != nil {
		return nil, err
	}
	fence, err := readWords(file, path, h.fencePosition(), int(h.pages), h.fenceCRC)
	if err != nil {
		return nil, err
	}
	if !slices.IsSorted(fence) {
		return nil, &CorruptError{path, h.fencePosition(), fmt.Errorf("%w: fence out of order", errInvalid)}
	}
	if int64(h.blocks)*filterBlockLen > filterBudget {
		return newSortedFile(path, file, h, fence, nil), nil
	}
	words, err := readWords(file, path, h.filterPosition(), int(h.blocks)*filterBlockWords, h.filterCRC)
	if err != nil {
		return nil, err
	}
	f := &filter{make([][filterBlockWords]uint64, h.blocks)}
	for i := range f.blocks {
		copy(f.blocks[i][:], words[i*filterBlockWords:])
	}
	return newSortedFile(path, file, h, fence, f), nil
}

func readSortedHeader(file vfs.File, path string, seed, last uint64, size int64) (sortedHeader, error) {
	b := make([]byte, pageLen)
	if n, err := file.ReadAt(b, 0); n < pageLen && err != nil && !errors.Is(err, io.EOF) {
		return sortedHeader{}, err
	} else if n < pageLen {
		return sortedHeader{}, &CorruptError{path, 0, errShort}
	}
	h, err := decodeSortedHeader(b)
	switch {
	case err != nil:
	case h.seed != seed:
		err = errSeed
	case h.last != last:
		err = fmt.Errorf("%w: name of another file", errInvalid)
	case h.fileLen() != size:
		err = fmt.Errorf("%w: %d bytes, want %d", errInvalid, size, h.fileLen())
	default:
		return h, nil
	}
	return sortedHeader{}, &CorruptError{path, 0, err}
}

// readWords reads a section of n uint64 and checks it.
func readWords(file vfs.File, path string, position int64, n int, want uint32) ([]uint64, error) {
	words := make([]uint64, 0, n)
	buffer := make([]byte, min(8*n, scanWindow))
	var crc uint32
	for at := position; len(words) < n; {
		b := buffer[:min(len(buffer), 8*(n-len(words)))]
		if read, err := file.ReadAt(b, at); read < len(b) {
			return nil, fmt.Errorf("read %s at %d: %w", path, at, err)
		}
		crc = crc32.Update(crc, castagnoli, b)
		at += int64(len(b))
		for ; len(b) > 0; b = b[8:] {
			words = append(words, binary.LittleEndian.Uint64(b))
		}
	}
	if crc != want {
		return nil, &CorruptError{path, position, fmt.Errorf("%w: section crc %08x, want %08x", errInvalid, crc, want)}
	}
	return words, nil
}

// acquire keeps the file open until release. It reports false if the file has left
// the layout: the caller loads the layout again.
func (s *sortedFile) acquire() bool {
	for {
		n := s.refs.Load()
		if n == 0 {
			return false
		}
		if s.refs.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

func (s *sortedFile) release() error {
	if s.refs.Add(-1) > 0 {
		return nil
	}
	return s.file.Close()
}

var pageBuffers = sync.Pool{New: func() any { return new([pageLen]byte) }}

// find gives the entries of a hash to c. It reads the last page that begins at or
// before the hash, and the ones before it only while a page begins with that hash.
// The file must be acquired.
func (s *sortedFile) find(hash uint64, c *candidates) error {
	buffer := pageBuffers.Get().(*[pageLen]byte)
	defer pageBuffers.Put(buffer)
	i := sort.Search(len(s.fence), func(i int) bool { return s.fence[i] > hash })
	for i--; i >= 0; i-- {
		p, err := s.page(uint32(i), buffer[:])
		if err != nil {
			return err
		}
		p.find(hash, s.header.newestMs, c)
		if s.fence[i] < hash {
			break
		}
	}
	return nil
}

// page reads a page into buffer and checks it.
func (s *sortedFile) page(number uint32, buffer []byte) (page, error) {
	at := pageLen * (1 + int64(number))
	if n, err := s.file.ReadAt(buffer[:pageLen], at); n < pageLen {
		return nil, fmt.Errorf("read page of sorted file %020d at %d: %w", s.header.last, at, err)
	}
	return s.check(buffer, number)
}

// check decodes a page that has been read.
func (s *sortedFile) check(b []byte, number uint32) (page, error) {
	p, err := decodePage(b, number)
	if err != nil {
		s.damaged.Store(true)
		return nil, &CorruptError{s.path, pageLen * (1 + int64(number)), err}
	}
	return p, nil
}

func (s *sortedFile) memory() int64 {
	return 8*int64(cap(s.fence)) + s.filter.Load().memory()
}
