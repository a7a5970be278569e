package vfs

import (
	"testing"

	"golang.org/x/sys/unix"
)

// TestRoom: bytes are no room where no files can be made.
func TestRoom(t *testing.T) {
	for _, tt := range []struct {
		name         string
		files, ffree uint64
		free         int64
	}{
		{"files are not counted", 0, 0, 50 * 4096},
		{"many", 1_000_000, 500_000, 50 * 4096},
		{"few of many", 1_000_000, 1023, 0},
		{"enough of many", 1_000_000, 1024, 50 * 4096},
		{"few of few", 200, 31, 0},
		{"enough of few", 200, 32, 50 * 4096},
		{"a sixteenth", 1600, 99, 0},
		{"none", 200, 0, 0},
		{"without end", 200, 1<<64 - 1, 50 * 4096},
	} {
		st := unix.Statfs_t{Bsize: 4096, Blocks: 100, Bavail: 50, Files: tt.files, Ffree: tt.ffree}
		if free, total := room(&st); free != tt.free || total != 100*4096 {
			t.Errorf("%s: got %d of %d, want %d", tt.name, free, total, tt.free)
		}
	}
}
