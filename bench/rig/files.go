package rig

import (
	"os"
	"path/filepath"
	"strings"
)

// NewestLogFile returns the last segment of the last generation of a log, "" if there is
// none. Names of both are numbers of fixed width.
func NewestLogFile(dir string) (string, error) {
	generation, err := lastNumber(dir)
	if err != nil || generation == "" {
		return "", err
	}
	dir = filepath.Join(dir, generation)
	segment, err := lastNumber(dir)
	if err != nil || segment == "" {
		return "", err
	}
	return filepath.Join(dir, segment), nil
}

func lastNumber(dir string) (last string, err error) {
	entries, err := os.ReadDir(dir) // in order
	if os.IsNotExist(err) {
		return "", nil
	}
	for _, e := range entries {
		if strings.Trim(e.Name(), "0123456789") == "" {
			last = e.Name()
		}
	}
	return last, err
}
