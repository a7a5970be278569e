package testkit

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// A copy has the same files and directories, empty ones included.
func TestCopy(t *testing.T) {
	from, to := t.TempDir(), filepath.Join(t.TempDir(), "new")
	if err := errors.Join(
		os.MkdirAll(filepath.Join(from, "a", "empty"), 0o755),
		os.WriteFile(filepath.Join(from, "a", "b"), []byte("content"), 0o644),
		os.WriteFile(filepath.Join(from, "nothing"), nil, 0o644),
		Copy(from, to),
	); err != nil {
		t.Fatal(err)
	}
	want, err := readTree(from)
	got, gotErr := readTree(to)
	if err = errors.Join(err, gotErr); err != nil || !want.equal(got) || !got.equal(want) || len(got) != 5 {
		t.Errorf("got %q, want %q, %v", got, want, err)
	}
	if got["a/empty"] != nil || got["nothing"] == nil || string(got["a/b"]) != "content" {
		t.Errorf("got %q", got)
	}
	if _, err := readTree(filepath.Join(from, "none")); err == nil {
		t.Error("what is not there was read")
	}
}
