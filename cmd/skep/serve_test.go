package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"github.com/skepmq/skep/cmd/skep/config"
)

// stopper ends a broker once it has said that it is ready.
type stopper struct {
	io.Writer
	stop context.CancelFunc
}

func (s stopper) Write(p []byte) (int, error) {
	if bytes.Contains(p, []byte(`"message":"ready"`)) {
		s.stop()
	}
	return s.Writer.Write(p)
}

// serveUntilReady serves what c says, in JSON lines to diag, and stops when it is ready.
func serveUntilReady(t *testing.T, c *config.Config, diag io.Writer) error {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	return serve(ctx, c, stopper{diag, cancel})
}

// TestG903NoStart wants status 1 and one line beside the log for what keeps a broker from serving.
func TestG903NoStart(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, row := range map[string]struct{ listen, dir, want string }{
		"address taken":  {taken.Addr().String(), t.TempDir(), "skep: listen on " + taken.Addr().String()},
		"no directory":   {"127.0.0.1:0", file, file},
		"no such device": {"127.0.0.1:0", filepath.Join(file, "below"), file},
	} {
		var diag bytes.Buffer
		status := run(t.Context(), []string{"serve", "--listen", row.listen, "--data-dir", row.dir}, nil, io.Discard, &diag)
		last := diag.String()
		last = last[strings.LastIndex(strings.TrimSuffix(last, "\n"), "\n")+1:]
		if status != 1 || !strings.HasPrefix(last, "skep: ") || !strings.Contains(last, row.want) {
			t.Errorf("%s: got %d, %q", name, status, last)
		}
		diag.Reset()
		t.Setenv("QUEEN_LOG_JSON", "true")
		t.Setenv("LOG_LEVEL", "off") // that line comes all the same
		status = run(t.Context(), []string{"serve", "--listen", row.listen, "--data-dir", row.dir}, nil, io.Discard, &diag)
		t.Setenv("QUEEN_LOG_JSON", "")
		t.Setenv("LOG_LEVEL", "")
		var fields map[string]string
		if err := json.Unmarshal(diag.Bytes(), &fields); err != nil || status != 1 || fields["level"] != "fatal" ||
			!strings.Contains("skep: "+fields["error"], row.want) {
			t.Errorf("%s, as JSON: got %d, %s", name, status, &diag)
		}
	}
}

// TestVersionReachesHealth looks for the version that was built in what /health answers.
func TestVersionReachesHealth(t *testing.T) {
	var diag bytes.Buffer
	c, err := config.Load(nil, []string{"SKEP_DATA_DIR=" + t.TempDir(), "PORT=0", "QUEEN_LOG_JSON=true"})
	if err != nil {
		t.Fatal(err)
	}
	version, commit = "v9.9.9", "abc"
	t.Cleanup(func() { version, commit = "", "" })
	if err := serveUntilReady(t, c, &diag); err != nil {
		t.Fatal(err)
	}
	if c.Server.Version != "v9.9.9" || !strings.Contains(diag.String(), "skep v9.9.9, commit abc") {
		t.Errorf("version %q, log %s", c.Server.Version, diag.String())
	}
}

// G-960: the name is QUEEN_SERVER_ID, else HOSTNAME, else one that a restart does not change.
func TestG960ServerID(t *testing.T) {
	dir := t.TempDir()
	named := func(env ...string) string {
		t.Helper()
		c, err := config.Load(nil, append(env, "SKEP_DATA_DIR="+dir))
		if err != nil {
			t.Fatal(err)
		}
		nameServer(c)
		var line struct {
			ServerID string `json:"server_id"`
		}
		var log bytes.Buffer
		logger := zerolog.New(&log)
		logBoot(c, &logger, &net.TCPAddr{})
		if err := json.NewDecoder(&log).Decode(&line); err != nil || line.ServerID != c.Server.ServerID {
			t.Errorf("the log says %q, %v, want %q", line.ServerID, err, c.Server.ServerID)
		}
		return c.Server.ServerID
	}
	if got := named("QUEEN_SERVER_ID=a", "HOSTNAME=b"); got != "a" {
		t.Errorf("got %q", got)
	}
	if got := named("QUEEN_SERVER_ID= ", "HOSTNAME=b"); got != "b" {
		t.Errorf("without QUEEN_SERVER_ID: %q", got)
	}
	one := named()
	if !regexp.MustCompile("^queen-[0-9a-f]{8}$").MatchString(one) || named() != one {
		t.Errorf("without both: %q, then %q", one, named())
	}
	if dir = t.TempDir(); named() == one {
		t.Errorf("another directory is %q as well", one)
	}
}
