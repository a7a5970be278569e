package testkit

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// Tree is the content of all files below a directory, by name; directories are nil.
type Tree map[string][]byte

// ReadStill reads dir at a moment when nothing in it changes: two readings in a row have to be
// equal. A checkpoint may be running, and it ends.
func ReadStill(dir string) (Tree, error) {
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	var last Tree
	for deadline := time.Now().Add(20 * time.Second); ; <-tick.C {
		now, err := readTree(dir)
		if err == nil && last != nil && last.equal(now) {
			return now, nil
		}
		if time.Now().After(deadline) {
			return nil, fmt.Errorf("%s does not come to rest: %w", dir, err)
		}
		last = now
	}
}

// readTree fails when a file goes away meanwhile.
func readTree(dir string) (Tree, error) {
	tree := Tree{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil || d.IsDir() {
			tree[name] = nil
			return err
		}
		content, err := os.ReadFile(path)
		tree[name] = append([]byte{}, content...) // an empty file is no directory
		return err
	})
	return tree, err
}

func (t Tree) equal(other Tree) bool {
	for name, content := range other {
		if was, ok := t[name]; !ok || !bytes.Equal(was, content) {
			return false
		}
	}
	return len(t) == len(other)
}

// Write writes the files into a directory, which is made if it is missing.
func (t Tree) Write(dir string) error {
	for name, content := range t {
		path := filepath.Join(dir, name)
		if content == nil {
			if err := os.MkdirAll(path, 0o755); err != nil {
				return err
			}
			continue
		}
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, content, 0o644)); err != nil {
			return err
		}
	}
	return nil
}

// Copy writes what ReadStill reads: what is in the files at that moment is what a killed
// process leaves.
func Copy(from, to string) error {
	t, err := ReadStill(from)
	if err != nil {
		return err
	}
	return t.Write(to)
}
