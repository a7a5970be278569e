package wal

import (
	"path/filepath"

	"github.com/skepmq/skep/segment/vfs"
)

// Files returns the paths of the segments of a log, in order. Nothing but a start changes
// what is in them: they are appended to, up to the last one, and never written again.
func Files(fsys vfs.FS, dir string) ([]string, error) {
	segments, err := listSegments(fsys, dir)
	if err != nil {
		return nil, err
	}
	paths := make([]string, len(segments))
	for i, index := range segments {
		paths[i] = filepath.Join(dir, segmentName(index))
	}
	return paths, nil
}

// Files is Files of the generation that counts.
func (h *Home) Files() ([]string, error) { return Files(h.o.FS, h.generation(h.number).Dir) }
