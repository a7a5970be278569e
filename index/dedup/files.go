package dedup

import (
	"path/filepath"
	"strings"
)

// Files returns the paths of the files of the index. What is saved lies within their length,
// and stays there until the next Save or Expire. One that was set aside is among them: where
// it is missing, nobody would know that its entries have to be made again.
func (x *Index) Files() ([]string, error) {
	x.filesMu.Lock()
	defer x.filesMu.Unlock()
	if err := x.usableLocked(); err != nil {
		return nil, err
	}
	names, err := x.options.FS.List(x.options.Dir)
	if err != nil {
		return nil, err
	}
	var paths []string
	for _, name := range names {
		if !strings.HasSuffix(name, tmpSuffix) {
			paths = append(paths, filepath.Join(x.options.Dir, name))
		}
	}
	return paths, nil
}
