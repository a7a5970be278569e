package main

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/skepmq/skep/cmd/skep/config"
)

// G-821: a key that is none ends the start, and the message names the variable but no part of
// the key. skep config says so without a start, but for what stands in the file.
func TestG821Boot(t *testing.T) {
	key := strings.Repeat("be", 32)
	file := func(text string) string {
		path := filepath.Join(t.TempDir(), "keys")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for name, row := range map[string]struct {
		key, file string
		want      string
		inFile    bool
	}{
		"short":             {key: key[1:], want: `QUEEN_ENCRYPTION_KEY="<set:63 chars>": not 64 hexadecimal digits`},
		"not hexadecimal":   {key: "x" + key[1:], want: "QUEEN_ENCRYPTION_KEY="},
		"both":              {key: key, file: file(key), want: "SKEP_ENCRYPTION_KEY_FILE"},
		"no file":           {file: "/nope", want: "SKEP_ENCRYPTION_KEY_FILE (--encryption-key-file): open /nope", inFile: true},
		"an empty file":     {file: file("\n"), want: "it is empty", inFile: true},
		"a wrong line":      {file: file(key + "\n" + key[2:]), want: "line 2: not 64 hexadecimal digits", inFile: true},
		"a file of letters": {file: file(strings.ReplaceAll(key, "b", "z")), want: "line 1: ", inFile: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("QUEEN_ENCRYPTION_KEY", row.key)
			t.Setenv("SKEP_ENCRYPTION_KEY_FILE", row.file)
			for _, command := range []string{"serve", "config"} {
				if command == "config" && row.inFile {
					continue
				}
				var stderr bytes.Buffer
				status := run(t.Context(), []string{command, "--listen", "127.0.0.1:0", "--data-dir", t.TempDir()}, nil, io.Discard, &stderr)
				if status != 1 || !strings.Contains(stderr.String(), row.want) || strings.Contains(stderr.String(), "ebe") || strings.Contains(stderr.String(), "eze") {
					t.Errorf("skep %s: status %d: %s", command, status, &stderr)
				}
			}
		})
	}
}

// G-821: a start says that it has a key, and nothing when it has none. No line shows the key.
func TestG821Log(t *testing.T) {
	key := strings.Repeat("be", 32)
	path := filepath.Join(t.TempDir(), "keys")
	if err := os.WriteFile(path, []byte(key+"\n"+strings.Repeat("07", 32)+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, row := range map[string]struct{ env, want string }{
		"none": {"SKEP_ENCRYPTION_REQUIRED=true", ""},
		"one":  {"QUEEN_ENCRYPTION_KEY=" + key, `"previous_keys":0`},
		"two":  {"SKEP_ENCRYPTION_KEY_FILE=" + path, `"previous_keys":1`},
	} {
		c, err := config.Load(nil, []string{"SKEP_DATA_DIR=" + t.TempDir(), "PORT=0", "QUEEN_LOG_JSON=true", row.env})
		if err != nil {
			t.Fatal(err)
		}
		var log bytes.Buffer
		if err := serveUntilReady(t, c, &log); err != nil {
			t.Fatal(err)
		}
		said := ""
		for line := range strings.Lines(log.String()) {
			if strings.Contains(line, `"message":"encryption service initialized (AES-256-GCM)"`) {
				said += line
			}
		}
		if (said == "") != (row.want == "") || !strings.Contains(said, row.want) || strings.Contains(log.String(), "ebebe") || (c.Broker.Keys == nil) != (row.want == "") {
			t.Errorf("%s: %q of %s", name, said, &log)
		}
	}
}
