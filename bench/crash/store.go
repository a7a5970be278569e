package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"

	"github.com/skepmq/skep/bench/rig"
)

// store is a data directory and a way to crash what lives there.
type store interface {
	// dir is the data directory.
	dir() string
	// crash ends the life p. Before anything that makes answers worthless, it calls cut.
	crash(p *rig.Process, cut func()) (how string, err error)
	// close gives everything back. keep leaves the data where it can be looked at.
	close(keep bool) error
}

// killStore crashes with SIGKILL: what was written survives, synced or not.
type killStore struct{ root string }

func (s *killStore) dir() string { return filepath.Join(s.root, "data") }

func (s *killStore) crash(p *rig.Process, _ func()) (string, error) {
	p.Kill()
	return "SIGKILL", nil
}

func (s *killStore) close(keep bool) error {
	if keep {
		return nil
	}
	return os.RemoveAll(s.dir())
}

// powerStore crashes by cutting the power of a file system of its own: what was not synced
// is gone.
type powerStore struct{ disk *rig.Disk }

func (s *powerStore) dir() string { return filepath.Join(s.disk.Path, "data") }

func (s *powerStore) crash(p *rig.Process, cut func()) (string, error) {
	cut()
	return "power cut", s.disk.Cut(p)
}

func (s *powerStore) close(keep bool) error { return s.disk.Close(keep) }

// tornStore then adds what a write that was never answered may leave at the end of a log.
type tornStore struct {
	killStore
	rng *rand.Rand
}

// tornSizes are a byte, all but one of a sector, and a page: the sizes that torn writes
// come in, or nearly.
var tornSizes = [...]int{1, 511, 4096}

func (s *tornStore) crash(p *rig.Process, cut func()) (string, error) {
	how, err := s.killStore.crash(p, cut)
	if err != nil {
		return "", err
	}
	torn, err := s.tear()
	return how + ", " + torn, err
}

// tear appends garbage to one of the logs, mostly to the journal.
func (s *tornStore) tear() (what string, err error) {
	log := "journal"
	switch s.rng.IntN(8) {
	case 0:
		log = "offsets"
	case 1:
		log = "catalog"
	}
	path, err := rig.NewestLogFile(filepath.Join(s.dir(), log))
	if err != nil || path == "" {
		return "nothing to tear", err
	}
	garbage := make([]byte, tornSizes[s.rng.IntN(len(tornSizes))])
	kind := "zero"
	if s.rng.IntN(2) == 0 {
		kind = "random"
		for i := range garbage {
			garbage[i] = byte(s.rng.Uint32())
		}
	}
	what = fmt.Sprintf("%d %s bytes at the end of %s", len(garbage), kind, strings.TrimPrefix(path, s.dir()))
	return what, appendFile(path, garbage)
}

func appendFile(path string, b []byte) (err error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return fmt.Errorf("append garbage: %w", err)
	}
	if _, err = f.Write(b); err != nil {
		err = fmt.Errorf("append garbage: %w", err)
	}
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	return err
}
