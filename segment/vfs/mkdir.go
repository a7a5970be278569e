package vfs

import (
	"errors"
	"io/fs"
	"path/filepath"
	"slices"
)

// MakeDir creates a directory with its missing parents and makes their names durable.
// It syncs each name before it creates the next one below, and that of the lowest
// directory it finds there: a process killed between mkdir and sync has left that one
// behind, and a power cut could still take it away.
func MakeDir(fsys FS, name string) error {
	var missing []string // from the bottom up
	for {
		_, err := fsys.List(name)
		if err == nil {
			break
		}
		parent := filepath.Dir(name)
		if !errors.Is(err, fs.ErrNotExist) || parent == name {
			return err
		}
		missing = append(missing, name)
		name = parent
	}
	if err := fsys.SyncDir(filepath.Dir(name)); err != nil {
		return err
	}
	for _, dir := range slices.Backward(missing) {
		if err := fsys.MkdirAll(dir); err != nil {
			return err
		}
		if err := fsys.SyncDir(filepath.Dir(dir)); err != nil {
			return err
		}
	}
	return nil
}
