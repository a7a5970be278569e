package main

import (
	"slices"
	"strings"
	"testing"
)

// TestParseTrace: lines of strace, also of calls that others interrupt.
func TestParseTrace(t *testing.T) {
	got := parseTrace(`12 fdatasync(7</d/journal/1/1>) = 0
13 pwrite64(8</d/segments/1.seg>, "\342 = 7)"..., 99, 122 <unfinished ...>
12 fdatasync(7</d/journal/1/1> <unfinished ...>
13 <... pwrite64 resumed>)            = -1 ENOSPC (No space left on device) (INJECTED)
12 <... fdatasync resumed>)           = 0
12 openat(AT_FDCWD</home>, "/d/segments/2.seg", O_RDWR|O_CREAT, 0640) = -1 EIO (Input/output error) (INJECTED)
12 +++ killed by SIGKILL +++
`)
	want := []traced{
		{"fdatasync", "/d/journal/1/1", "0", false},
		{"pwrite64", "/d/segments/1.seg", "-1 ENOSPC (No space left on device) (INJECTED)", true},
		{"fdatasync", "/d/journal/1/1", "0", false},
		{"openat", "/d/segments/2.seg", "-1 EIO (Input/output error) (INJECTED)", true},
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %+v\nwant %+v", got, want)
	}
}

// TestMustEnd: a failed write of the journal or a home ends the broker, one of a segment
// need not.
func TestMustEnd(t *testing.T) {
	for _, tt := range []struct {
		call, path string
		want       bool
	}{
		{"fdatasync", "/d/journal/1/1", true},
		{"pwrite64", "/d/journal/1/1", true},
		{"write", "/d/offsets/1/1", true},
		{"fsync", "/d/catalog/1/1", true},
		{"fdatasync", "/d/segments/1.seg", false},
		{"openat", "/d/journal/2/1", false},
		{"fsync", "/d/journal", false},
		{"fdatasync", "/elsewhere/journal/1/1", false},
	} {
		if got := mustEnd("/d", []traced{{tt.call, tt.path, "-1 EIO", true}}); got != tt.want {
			t.Errorf("%s of %s: got %v", tt.call, tt.path, got)
		}
		if mustEnd("/d", []traced{{tt.call, tt.path, "0", false}}) {
			t.Errorf("%s of %s succeeds, and must end the broker", tt.call, tt.path)
		}
	}
}

// TestJudge: a file whose sync has failed must not be synced again.
func TestJudge(t *testing.T) {
	failed := traced{"fdatasync", "/d/segments/1.seg", "-1 EIO", true}
	for name, tt := range map[string]struct {
		next traced
		want bool
	}{
		"the same":   {traced{"fdatasync", "/d/segments/1.seg", "0", false}, true},
		"written":    {traced{"pwrite64", "/d/segments/1.seg", "5", false}, true},
		"another":    {traced{"fdatasync", "/d/segments/2.seg", "0", false}, false},
		"fails too":  {traced{"fdatasync", "/d/segments/1.seg", "-1 EIO", false}, false},
		"not synced": {traced{"openat", "/d/segments/1.seg", "9", false}, false},
	} {
		if err := (&env{}).judge("/d", fault{}, []traced{failed, tt.next}); (err != nil) != tt.want {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

// TestNamed: a message names a file, or the directory of one that is gone.
func TestNamed(t *testing.T) {
	for text, want := range map[string]bool{
		"/d/segments/00000001.seg, position 5: bad":    true,
		"open /d/journal/00000000000000000007: gone":   true,
		"journal /d/journal: generation 7 is missing":  true,
		"something is wrong with /d/journal":           false,
		"/d/segments/00000002.seg, position 5: bad":    false,
		"journal /e/journal: generation 10 is missing": false,
	} {
		file := "journal/00000000000000000007/00000000000000000001"
		if strings.Contains(text, ".seg") {
			file = "segments/00000001.seg"
		}
		if got := named(text, "/d", []string{file}); got != want {
			t.Errorf("%q: got %v", text, got)
		}
	}
}
