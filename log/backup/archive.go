package backup

import (
	"archive/tar"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
)

// copyBytes is how much is read and written at a time.
const copyBytes = 256 << 10

// File is a file that an Archive is made of.
type File struct {
	Name string // in the data directory, with slashes
	Size int64  // what follows it in the file is not part of the backup
	// Open is called once, when it is the file's turn; what it returns is closed after it.
	Open func() (Source, error)
}

// Source is an open file.
type Source interface {
	io.ReaderAt
	io.Closer
}

// Archive is a backup that is being made.
type Archive struct {
	Version, Commit string
	CreatedAt       time.Time
	Files           []File
	// Proceed is asked before each piece; an error ends the archive. nil: go on.
	Proceed func() error
}

// manifest returns the manifest without its checksums, which have a place of their length.
func (a *Archive) manifest() *Manifest {
	m := &Manifest{Format: format, Version: a.Version, Commit: a.Commit, CreatedAt: a.CreatedAt.UTC(), Files: make([]Entry, len(a.Files))}
	for i := range a.Files {
		m.Files[i] = Entry{a.Files[i].Name, a.Files[i].Size, strings.Repeat("0", 2*sha256.Size)}
	}
	return m
}

const tarBlock = 512

// tarSize is what a file of n bytes takes in an archive.
func tarSize(n int64) int64 { return tarBlock + (n+tarBlock-1)/tarBlock*tarBlock }

// Size returns how many bytes WriteTo writes.
func (a *Archive) Size() (int64, error) {
	b, err := a.manifest().encode()
	n := tarSize(int64(len(b))) + 2*tarBlock
	for i := range a.Files {
		n += tarSize(a.Files[i].Size)
	}
	return n, err
}

// WriteTo writes the archive. After an error, what was written has no manifest and is no
// backup.
func (a *Archive) WriteTo(w io.Writer) (int64, error) {
	out := &counter{w: w}
	tw := tar.NewWriter(out)
	m := a.manifest()
	buf := make([]byte, copyBytes)
	for i := range a.Files {
		sum, err := a.writeFile(tw, &a.Files[i], buf)
		if err != nil {
			return out.n, fmt.Errorf("back up %s: %w", a.Files[i].Name, err)
		}
		m.Files[i].SHA256 = sum
	}
	b, err := m.encode()
	if err == nil {
		err = a.header(tw, ManifestName, int64(len(b)))
	}
	if err == nil {
		_, err = tw.Write(b)
	}
	if err == nil {
		err = tw.Close()
	}
	return out.n, err
}

func (a *Archive) header(tw *tar.Writer, name string, size int64) error {
	return tw.WriteHeader(&tar.Header{
		Typeflag: tar.TypeReg, Name: name, Size: size, Mode: 0o640, ModTime: a.CreatedAt.Truncate(time.Second), Format: tar.FormatUSTAR,
	})
}

// writeFile writes a file and returns its checksum.
func (a *Archive) writeFile(tw *tar.Writer, f *File, buf []byte) (sum string, err error) {
	source, err := f.Open()
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, source.Close()) }()
	if err := a.header(tw, f.Name, f.Size); err != nil {
		return "", err
	}
	hash := sha256.New()
	for at := int64(0); at < f.Size; {
		if a.Proceed != nil {
			if err := a.Proceed(); err != nil {
				return "", err
			}
		}
		piece := buf[:min(int64(len(buf)), f.Size-at)]
		if n, err := source.ReadAt(piece, at); n < len(piece) {
			return "", fmt.Errorf("read at %d: %w", at, err)
		}
		hash.Write(piece)
		if _, err := tw.Write(piece); err != nil {
			return "", err
		}
		at += int64(len(piece))
	}
	return hex.EncodeToString(hash.Sum(nil)), nil
}

// counter counts what passes.
type counter struct {
	w io.Writer
	n int64
}

func (c *counter) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	c.n += int64(n)
	return n, err
}
