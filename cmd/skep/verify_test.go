package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/skepmq/skep/broker"
	"github.com/skepmq/skep/log/fsck"
)

// command runs a command line.
func command(args ...string) (status int, out, diag string) {
	var stdout, stderr bytes.Buffer
	status = run(context.Background(), args, strings.NewReader(""), &stdout, &stderr)
	return status, stdout.String(), stderr.String()
}

// storedDirectory is the directory of a broker that has stored a message, and is filing it
// or has, and the broker.
func storedDirectory(t *testing.T) (string, *broker.Broker) {
	t.Helper()
	dir := t.TempDir()
	b, err := broker.Open(broker.Options{Dir: dir, Logger: zerolog.Nop(), CheckpointBytes: 1})
	if err != nil {
		t.Fatal(err)
	}
	items := []broker.PushItem{{Queue: []byte("q"), Partition: []byte("p"), Payload: []byte("1")}}
	if err := b.Push(broker.DefaultTenant, items, nil, make([]broker.PushResult, 1)); err != nil {
		t.Fatal(err)
	}
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for {
		found, err := filepath.Glob(filepath.Join(dir, "segments", "*.seg"))
		if err != nil {
			t.Fatal(err)
		}
		if len(found) > 0 {
			return dir, b
		}
		<-tick.C
	}
}

func TestVerify(t *testing.T) {
	dir, b := storedDirectory(t)
	if status, _, diag := command("verify", dir); status != 2 || !strings.Contains(diag, "stop the broker") {
		t.Errorf("under a broker: %d %s", status, diag)
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	status, out, diag := command("verify", dir)
	if status != 0 || diag != "" || !strings.HasSuffix(out, "\nclean: 0 errors, 0 warnings, 0 notes\n") ||
		!strings.HasPrefix(out, "1 queues, 1 partitions, 0 groups, 1 messages,") {
		t.Errorf("whole: %d %q %q", status, out, diag)
	}
	if err := os.RemoveAll(filepath.Join(dir, "catalog")); err != nil {
		t.Fatal(err)
	}
	status, out, _ = command("verify", dir)
	if status != 1 || !strings.Contains(out, "error   catalog at 0: missing\n") || !strings.HasSuffix(out, "NOT clean: 1 errors, 0 warnings, 0 notes\n") {
		t.Errorf("without a catalogue: %d %s", status, out)
	}
	status, out, diag = command("verify", "--json", dir)
	var r fsck.Report
	if err := json.Unmarshal([]byte(out), &r); err != nil || status != 1 || diag != "" ||
		r.Clean || len(r.Findings) != 1 || r.Findings[0].Code != fsck.CatalogueMissing {
		t.Errorf("as JSON: %d %s %s %v", status, out, diag, err)
	}
	for _, args := range [][]string{{"verify"}, {"verify", dir, dir}, {"verify", filepath.Join(dir, "none")}, {"verify", "--loud", dir}} {
		if status, out, diag := command(args...); status != 2 || out != "" || diag == "" {
			t.Errorf("%v: %d %q %q", args, status, out, diag)
		}
	}
}
