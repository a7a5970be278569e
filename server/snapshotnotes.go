package server

import (
	"path/filepath"

	"github.com/skepmq/skep/log/backup"
	"github.com/skepmq/skep/log/fsck"
	"github.com/skepmq/skep/segment/vfs"
)

// notes are the files of metrics and traces in a snapshot. They are no part of the state that
// the broker vouches for, and readers of theirs leave out what they cannot read: so nothing
// about them fails a backup.
type notes struct {
	files []backup.File
	held  []func()
}

func (n *notes) release() {
	for _, release := range n.held {
		release()
	}
}

// holdNotes lists the files, with the minute that is running, so that the totals are no less
// than what there is.
func (s *Server) holdNotes() *notes {
	s.rollMetrics(false)
	n := &notes{}
	s.addNotes(n, fsck.MetricsName, s.history.Hold)
	s.addNotes(n, fsck.TracesName, s.traces.Hold)
	return n
}

func (s *Server) addNotes(n *notes, dir string, hold func() (paths []string, release func())) {
	paths, release := hold()
	n.held = append(n.held, release)
	for _, p := range paths {
		size, err := vfs.OS.Size(p)
		if err != nil {
			s.log.Warn().Err(err).Str("path", p).Msg("file is not in the snapshot")
			continue
		}
		n.files = append(n.files, backup.File{Name: dir + "/" + filepath.Base(p), Size: size, Open: func() (backup.Source, error) {
			f, err := vfs.OS.Open(p)
			return &note{f, err, s, p}, nil
		}})
	}
}

// note is a file that reads as zeros where it cannot be read: what is announced has to come,
// and no frame of metrics or traces begins with zeros.
type note struct {
	file vfs.File
	err  error // once it has failed
	s    *Server
	path string
}

func (n *note) ReadAt(b []byte, at int64) (read int, err error) {
	if n.err == nil {
		if read, err = n.file.ReadAt(b, at); read == len(b) {
			return read, nil
		}
		n.err = err
	}
	clear(b[read:])
	return len(b), nil
}

func (n *note) Close() error {
	if n.err != nil {
		n.s.log.Warn().Err(n.err).Str("path", n.path).Msg("the rest of the file is not in the snapshot")
	}
	if n.file != nil {
		return n.file.Close()
	}
	return nil
}
