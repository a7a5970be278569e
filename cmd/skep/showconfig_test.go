package main

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/skepmq/skep/client"
	"github.com/skepmq/skep/cmd/skep/config"
)

func TestConfigCommand(t *testing.T) {
	t.Setenv("SKEP_FSYNC", "interval:5")
	t.Setenv("SKEP_FSYCN", "never")
	t.Setenv("LOG_LEVEL", "warn")
	t.Setenv("QUEEN_MESH_PEERS", "a")
	var out, diag bytes.Buffer
	if status := run(t.Context(), []string{"config", "--listen", ":70"}, nil, &out, &diag); status != 0 {
		t.Fatalf("status %d, %s", status, diag.String())
	}
	lines := strings.Split(out.String(), "\n")
	for i := range lines {
		lines[i] = strings.Join(strings.Fields(lines[i]), " ")
	}
	got := "\n" + strings.Join(lines, "\n")
	for _, want := range []string{
		"SKEP_FSYNC interval:5 environment", "PORT 70 flag --listen", "RUST_LOG warn environment LOG_LEVEL",
		"SKEP_SEGMENT_BYTES 67108864 default", "SKEP_MAX_HEAP_BYTES half of the memory default",
	} {
		if !strings.Contains(got, "\n"+want+"\n") {
			t.Errorf("no line %q in%s", want, got)
		}
	}
	for _, want := range []string{"SKEP_FSYCN (SKEP_FSYNC?)\n", "without effect: QUEEN_MESH_PEERS\n", "warning: QUEEN_MESH_PEERS has no effect"} {
		if !strings.Contains(diag.String(), want) {
			t.Errorf("no %q in %s", want, diag.String())
		}
	}

	out.Reset()
	if status := run(t.Context(), []string{"config", "--json"}, nil, &out, &diag); status != 0 {
		t.Fatalf("status %d, %s", status, diag.String())
	}
	var report struct {
		Settings []config.Value
		config.Remarks
	}
	if err := json.Unmarshal(out.Bytes(), &report); err != nil {
		t.Fatal(err)
	}
	if len(report.Settings) < 20 || len(report.Unknown) != 1 || len(report.Ignored) != 1 || len(report.Warnings) != 1 {
		t.Errorf("got %s", out.String())
	}
}

// TestG903RefusedConfiguration wants one line that names the variable, from all that read it.
func TestG903RefusedConfiguration(t *testing.T) {
	t.Setenv("SKEP_SEGMENT_BYTES", "64MB")
	const want = `skep: SKEP_SEGMENT_BYTES="64MB": not a whole number; allowed: 1048576 to 2147483648 (bytes)` + "\n"
	for _, args := range [][]string{{"serve", "--data-dir", t.TempDir()}, {"config"}, {"health"}} {
		var out, diag bytes.Buffer
		if status := run(t.Context(), args, nil, &out, &diag); status != 1 || out.Len() > 0 || diag.String() != want {
			t.Errorf("%v: got %d, %q, %q", args, status, out.String(), diag.String())
		}
	}
}

// TestG903Boot reads what a start says of its configuration.
func TestG903Boot(t *testing.T) {
	var diag bytes.Buffer
	c, err := config.Load(nil, []string{"SKEP_DATA_DIR=" + t.TempDir(), "PORT=0", "QUEEN_LOG_JSON=true", "SKEP_FSYCN=never", "PG_HOST=a", "QUEEN_MESH_PEERS=a", "SKEP_MAX_PARKED=77"})
	if err != nil {
		t.Fatal(err)
	}
	if err := serveUntilReady(t, c, &diag); err != nil {
		t.Fatal(err)
	}
	lines := map[string]map[string]any{}
	levels := map[string]int{}
	for line := range strings.Lines(diag.String()) {
		var fields map[string]any
		if err := json.Unmarshal([]byte(line), &fields); err != nil {
			t.Fatalf("%v in %s", err, line)
		}
		message, _ := fields["message"].(string)
		lines[message] = fields
		levels[message]++
	}
	if n := levels["configuration"]; n != 1 {
		t.Errorf("the configuration is printed %d times", n)
	}
	for _, v := range c.Values {
		if got := lines["configuration"][v.Name]; got != v.Value {
			t.Errorf("%s: got %v want %s", v.Name, got, v.Value)
		}
	}
	for message, want := range map[string]string{
		"configuration": "info", "variables of other brokers have no effect": "info", "unknown variables have no effect": "warn",
		c.Remarks.Warnings[0]: "warn",
	} {
		if got := lines[message]["level"]; got != want {
			t.Errorf("%s: got level %v want %s", message, got, want)
		}
	}
}

// TestCommandVariablesAreKnown runs a broker below skep consume --exec, so to speak.
func TestCommandVariablesAreKnown(t *testing.T) {
	c, err := config.Load(nil, append(environment(&client.Message{Queue: "q", Group: "g", Partition: "p", PartitionID: "i", ID: "m", TransactionID: "t"}), "SKEP_URL=u", "SKEP_TOKEN=t", "SKEP_TENANT=t"))
	if err != nil || len(c.Remarks.Unknown) > 0 {
		t.Errorf("unknown %v, %v", c.Remarks.Unknown, err)
	}
}

// TestG421ServedConfig compares what a broker is given to show with what skep config prints.
func TestG421ServedConfig(t *testing.T) {
	const secret = "a secret of more than thirty-two bytes"
	t.Setenv("JWT_SECRET", secret)
	t.Setenv("TRACE_RETENTION_DAYS", "7")
	c, err := config.Load(nil, append(os.Environ(), "QUEEN_LOG_JSON=true", "PORT=0", "SKEP_DATA_DIR="+t.TempDir()))
	if err != nil {
		t.Fatal(err)
	}
	if err := serveUntilReady(t, c, io.Discard); err != nil {
		t.Fatal(err)
	}
	var printed bytes.Buffer
	args := []string{"config", "--json", "--data-dir", c.DataDir}
	if status := run(t.Context(), args, nil, &printed, io.Discard); status != 0 {
		t.Fatalf("skep config: status %d", status)
	}
	served := map[string]config.Value{}
	for i, text := range [][]byte{c.Server.Config, printed.Bytes()} {
		var all struct{ Settings []config.Value }
		if err := json.Unmarshal(text, &all); err != nil || bytes.Contains(text, []byte(secret)) || len(all.Settings) == 0 {
			t.Fatalf("%v in %s", err, text)
		}
		for _, v := range all.Settings {
			if i == 0 {
				served[v.Name] = v
			} else if of := served[v.Name]; of != v && of.From == v.From && of.Source == v.Source {
				t.Errorf("served %+v, printed %+v", of, v)
			}
		}
	}
	if v := served["JWT_SECRET"]; v.Value != "<set:38 chars>" {
		t.Errorf("secret: %+v", v)
	}
	if v := served["TRACE_RETENTION_DAYS"]; v.Value != "7" || v.Source != config.Environment {
		t.Errorf("retention: %+v", v)
	}
}
