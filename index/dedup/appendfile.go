package dedup

import (
	"errors"
	"fmt"
	"io"

	"github.com/skepmq/skep/segment/vfs"
)

// scanWindow is how much of an append file is read at once.
const scanWindow = 1 << 20

// logInfo is what the index keeps of an append file.
type logInfo struct {
	size     int64
	newestMs int64
}

// appendFile is the append file that Save writes; it belongs to filesMu.
type appendFile struct {
	file   vfs.File
	bucket uint64
	size   int64
}

// scanner reads an append file from front to back through a window.
type scanner struct {
	file   vfs.File
	size   int64
	seed   uint64
	window []byte
	start  int64 // position of window[0]
	end    int64 // position past the valid part of the window
}

func newScanner(file vfs.File, seed uint64) (*scanner, error) {
	size, err := file.Size()
	if err != nil {
		return nil, err
	}
	return &scanner{file: file, size: size, seed: seed, window: make([]byte, min(size, scanWindow))}, nil
}

// block decodes the block at pos, of which the entries are valid until the next
// call. Its errors are those of decodeBlock, or of reading.
func (s *scanner) block(pos int64) (block, error) {
	if pos < s.start || min(pos+maxBlockLen, s.size) > s.end {
		if err := s.fill(pos); err != nil {
			return block{}, err
		}
	}
	return decodeBlock(s.window[pos-s.start:s.end-s.start], s.seed)
}

func (s *scanner) fill(pos int64) error {
	n := min(int64(len(s.window)), s.size-pos)
	if read, err := s.file.ReadAt(s.window[:n], pos); int64(read) < n {
		if err == nil || errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return err
	}
	s.start, s.end = pos, pos+n
	return nil
}

// scan calls visit with each block from the front. It returns the position behind
// the last valid block and the number of its Save, and a CorruptError if what
// follows there was once on disk: then a block is damaged, not torn.
func (s *scanner) scan(path string, visit func(*block)) (end int64, save uint64, err error) {
	for end < s.size {
		b, err := s.block(end)
		switch {
		case err == nil:
		case errors.Is(err, errShort), errors.Is(err, errInvalid):
			return end, save, s.judge(path, end, save, err)
		case errors.Is(err, errSeed):
			return end, save, &CorruptError{Path: path, Position: end, Err: err}
		default:
			return end, save, fmt.Errorf("read %s: %w", path, err)
		}
		visit(&b)
		save = b.save
		end += int64(b.len())
	}
	return end, save, nil
}

// judge decides whether the bytes at pos, which are no valid block, are a torn tail.
// Blocks of one Save may reach the disk in any order, but a Save begins only when
// the one before is on disk. So they are damage if the first block of another Save
// follows, or any block of a Save that cannot be the one that was interrupted.
func (s *scanner) judge(path string, pos int64, save uint64, cause error) error {
	for at := pos + entryLen; at+blockHeaderLen <= s.size; at += entryLen {
		later, err := s.block(at)
		if errors.Is(err, errShort) || errors.Is(err, errInvalid) {
			continue
		}
		if err != nil && !errors.Is(err, errSeed) {
			return fmt.Errorf("read %s: %w", path, err)
		}
		if err != nil || later.part == 0 || save != 0 && later.save > save+1 {
			return &CorruptError{Path: path, Position: pos, Err: cause}
		}
	}
	return nil
}
