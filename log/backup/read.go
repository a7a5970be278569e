package backup

import (
	"archive/tar"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"

	"github.com/skepmq/skep/segment/vfs"
)

// Put takes a file of a backup. It reads all of r, or fails. What it has taken is good only
// when the whole backup has proved to be.
type Put func(name string, r io.Reader) error

// Read reads an archive to its end, hands its files to put, and checks them against the
// manifest. nil for put checks alone. Errors: ErrIncomplete, ErrDamaged, ErrFormat, those of
// r and of put.
func Read(r io.Reader, put Put) (*Manifest, error) {
	var found []Entry
	for tr := tar.NewReader(r); ; {
		h, err := tr.Next()
		switch {
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
			return nil, ErrIncomplete
		case errors.Is(err, tar.ErrHeader):
			return nil, fmt.Errorf("%w: no tar, or a compressed one: %w", ErrDamaged, err)
		case err != nil:
			return nil, fmt.Errorf("read backup: %w", err)
		case h.Typeflag == tar.TypeReg && h.Name == ManifestName:
			return readEnd(r, tr, h.Size, found)
		case h.Typeflag != tar.TypeReg || !allowed(h.Name):
			return nil, fmt.Errorf("%w: there is %q in it", ErrDamaged, h.Name)
		}
		e, err := take(h.Name, tr, put)
		if errors.Is(err, io.ErrUnexpectedEOF) {
			err = ErrIncomplete
		}
		if err != nil {
			return nil, err
		}
		found = append(found, e)
	}
}

// take hands a file to put and returns what it was.
func take(name string, r io.Reader, put Put) (Entry, error) {
	if put == nil {
		put = discard
	}
	hash := sha256.New()
	passed := &counter{w: hash}
	if err := put(name, io.TeeReader(r, passed)); err != nil {
		return Entry{}, err
	}
	return Entry{name, passed.n, hex.EncodeToString(hash.Sum(nil))}, nil
}

func discard(_ string, r io.Reader) error {
	_, err := io.Copy(io.Discard, r)
	return err
}

// readEnd reads the manifest, which is the last file, and compares it with what was found.
func readEnd(r io.Reader, tr *tar.Reader, size int64, found []Entry) (*Manifest, error) {
	if size > maxManifest {
		return nil, fmt.Errorf("%w: %s of %d bytes", ErrDamaged, ManifestName, size)
	}
	b, err := io.ReadAll(tr)
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, ErrIncomplete
	}
	if err != nil {
		return nil, fmt.Errorf("read backup: %w", err)
	}
	m, err := decodeManifest(b)
	if err != nil {
		return nil, err
	}
	if err := compare(m, found); err != nil {
		return nil, err
	}
	if h, err := tr.Next(); err == nil {
		return nil, fmt.Errorf("%w: %q behind its end", ErrDamaged, h.Name)
	} else if !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%w: behind its end: %w", ErrDamaged, err)
	}
	if _, err := io.Copy(io.Discard, r); err != nil { // a stream is to be read to its end
		return nil, fmt.Errorf("read backup: %w", err)
	}
	return m, nil
}

func compare(m *Manifest, found []Entry) error {
	for i := range min(len(found), len(m.Files)) {
		if found[i] != m.Files[i] {
			return fmt.Errorf("%w: %s has %d bytes with checksum %s, not %d with %s as %s in the manifest", ErrDamaged,
				found[i].Name, found[i].Size, found[i].SHA256, m.Files[i].Size, m.Files[i].SHA256, m.Files[i].Name)
		}
	}
	if len(found) != len(m.Files) {
		return fmt.Errorf("%w: %d files, and %d in the manifest", ErrDamaged, len(found), len(m.Files))
	}
	return nil
}

// ReadDir is Read of a backup that is a directory.
func ReadDir(fsys vfs.FS, dir string, put Put) (*Manifest, error) {
	b, err := readFile(fsys, filepath.Join(dir, ManifestName))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w: no %s in %s", ErrIncomplete, ManifestName, dir)
	}
	if err != nil {
		return nil, err
	}
	m, err := decodeManifest(b)
	if err != nil {
		return nil, err
	}
	found := make([]Entry, 0, len(m.Files))
	for i := range m.Files {
		e, err := takeFile(fsys, dir, m.Files[i].Name, put)
		if err != nil {
			return nil, err
		}
		if found = append(found, e); e != m.Files[i] {
			break
		}
	}
	return m, compare(m, found)
}

func takeFile(fsys vfs.FS, dir, name string, put Put) (e Entry, err error) {
	f, err := fsys.Open(filepath.Join(dir, filepath.FromSlash(name)))
	if errors.Is(err, fs.ErrNotExist) {
		return e, fmt.Errorf("%w: %s is missing", ErrDamaged, name)
	}
	if err != nil {
		return e, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	size, err := f.Size()
	if err != nil {
		return e, err
	}
	return take(name, io.NewSectionReader(f, 0, size), put)
}

func readFile(fsys vfs.FS, path string) (b []byte, err error) {
	f, err := fsys.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	size, err := f.Size()
	if err != nil {
		return nil, err
	}
	if size > maxManifest {
		return nil, fmt.Errorf("%w: %s of %d bytes", ErrDamaged, path, size)
	}
	b = make([]byte, size)
	if n, err := f.ReadAt(b, 0); n < len(b) {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	return slices.Clip(b), nil
}
