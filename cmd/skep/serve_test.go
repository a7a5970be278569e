package main

import (
	"bytes"
	"context"
	"io"
	"strings"
	"testing"

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
