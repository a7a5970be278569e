package main

import (
	"bytes"
	"io"
	"runtime/debug"
	"strings"
	"testing"
)

func TestUsage(t *testing.T) {
	for _, tt := range []struct {
		args   []string
		status int
		stderr string
	}{
		{[]string{"push"}, 2, "skep: --queue is required\n"},
		{[]string{"push", "--queue", "q", "--url", "nonsense"}, 2, "want http://host:port"},
		{[]string{"push", "--nope"}, 2, "unknown flag: --nope"},
		{[]string{"nope"}, 2, `unexpected argument "nope"`},
		{[]string{"version", "x"}, 2, `skep version: unexpected argument "x"`},
		{nil, 0, ""},
	} {
		var diag bytes.Buffer
		status := run(t.Context(), tt.args, strings.NewReader(""), io.Discard, &diag)
		if status != tt.status || !strings.Contains(diag.String(), tt.stderr) {
			t.Errorf("%v: got %d, %q want %d, %q", tt.args, status, diag.String(), tt.status, tt.stderr)
		}
	}
}

func TestVersion(t *testing.T) {
	var out bytes.Buffer
	if status := run(t.Context(), []string{"version"}, nil, &out, io.Discard); status != 0 || !strings.HasPrefix(out.String(), "skep ") {
		t.Errorf("status %d, stdout %q", status, out.String())
	}
	built := &debug.BuildInfo{Main: debug.Module{Version: "v1.2.3"}, Settings: []debug.BuildSetting{{Key: "vcs.revision", Value: "abc"}, {Key: "vcs.modified", Value: "true"}}}
	for _, tt := range []struct {
		version, commit string
		info            *debug.BuildInfo
		want            string
	}{
		{"v9", "def", built, "skep v9, commit def, "},
		{"", "", built, "skep v1.2.3, commit abc with changes, "},
		{"", "", &debug.BuildInfo{Main: debug.Module{Version: "(devel)"}}, "skep dev, commit unknown, "},
		{"", "", nil, "skep dev, commit unknown, "},
	} {
		if got := versionText(tt.version, tt.commit, tt.info); !strings.HasPrefix(got, tt.want) {
			t.Errorf("got %q want %q…", got, tt.want)
		}
	}
}
