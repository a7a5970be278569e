package backup

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"
)

// ManifestName is the name of the manifest in a backup.
const ManifestName = "MANIFEST.json"

const (
	format = 1
	// maxManifest bounds what is read of a manifest: some 150 bytes a file, of which there is
	// one for each 64 MiB of messages.
	maxManifest = 256 << 20
)

var (
	// ErrIncomplete says that a backup ends before its end.
	ErrIncomplete = errors.New("backup: incomplete, its end is missing")
	// ErrDamaged says that something in a backup is not as its manifest says.
	ErrDamaged = errors.New("backup: damaged")
	// ErrFormat says that a backup was made by a newer version.
	ErrFormat = errors.New("backup: of a format that this version does not know")
	// ErrNotEmpty refuses a directory that has something in it.
	ErrNotEmpty = errors.New("backup: the directory is not empty")
)

// Manifest says what a backup consists of.
type Manifest struct {
	Format    int       `json:"format"`
	Version   string    `json:"version"` // of the broker that made it
	Commit    string    `json:"commit"`
	CreatedAt time.Time `json:"createdAt"` // the moment whose state it is
	Files     []Entry   `json:"files"`     // in the order of the archive
}

// Entry is a file of a backup.
type Entry struct {
	Name   string `json:"name"` // in the data directory, with slashes
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"` // in hexadecimal digits
}

// Bytes returns the size of all files.
func (m *Manifest) Bytes() (n int64) {
	for i := range m.Files {
		n += m.Files[i].Size
	}
	return n
}

func (m *Manifest) encode() ([]byte, error) {
	b, err := json.MarshalIndent(m, "", " ")
	return append(b, '\n'), err
}

func decodeManifest(b []byte) (*Manifest, error) {
	m := new(Manifest)
	if err := json.Unmarshal(b, m); err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrDamaged, ManifestName, err)
	}
	if m.Format != format {
		return nil, fmt.Errorf("%w: %d", ErrFormat, m.Format)
	}
	seen, catalog := map[string]bool{}, false
	for i := range m.Files {
		name := m.Files[i].Name
		if !allowed(name) || seen[name] {
			return nil, fmt.Errorf("%w: %s lists %q", ErrDamaged, ManifestName, name)
		}
		seen[name] = true
		catalog = catalog || strings.HasPrefix(name, catalogName+"/")
	}
	if !catalog {
		return nil, fmt.Errorf("%w: %s lists no catalogue", ErrDamaged, ManifestName)
	}
	return m, nil
}

const (
	catalogName = "catalog"
	journalName = "journal"
)

// parts are the directories of a data directory that a backup has.
var parts = []string{catalogName, "dedup", journalName, "metrics", "offsets", "segments", "traces"}

// allowed reports whether a file of that name may be in a backup: it never leads out of the
// directory that it is unpacked into.
func allowed(name string) bool {
	top, rest, _ := strings.Cut(name, "/")
	return rest != "" && fs.ValidPath(name) && !strings.Contains(name, `\`) && slices.Contains(parts, top)
}
