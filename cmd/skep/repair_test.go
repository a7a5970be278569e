package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/skepmq/skep/log/fsck"
)

func TestRepair(t *testing.T) {
	dir, b := storedDirectory(t)
	if status, _, diag := command("repair", "--yes", dir); status != 2 || !strings.Contains(diag, "stop the broker") {
		t.Errorf("under a broker: %d %s", status, diag)
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	if status, out, _ := command("repair", "--yes", dir); status != 0 || out != "nothing to repair\n" {
		t.Errorf("whole: %d %s", status, out)
	}
	if err := os.WriteFile(filepath.Join(dir, "dedup", "seed"), []byte("not a seed"), 0o600); err != nil {
		t.Fatal(err)
	}
	status, out, _ := command("repair", dir)
	if status != 1 || !strings.HasPrefix(out, "dedup at 0: dropped") || !strings.Contains(out, "kept as repairs/0001/dedup\nnothing was changed. With --yes: 1 steps") {
		t.Errorf("without --yes: %d %s", status, out)
	}
	if status, _, _ := command("verify", dir); status != 1 {
		t.Errorf("verify after nothing was changed: %d", status)
	}
	status, out, _ = command("repair", "--yes", dir)
	if status != 0 || !strings.HasSuffix(out, "repaired in 1 steps, 0 messages lost; the directory is clean\n") {
		t.Errorf("with --yes: %d %s", status, out)
	}
	if kept, err := os.ReadFile(filepath.Join(dir, "repairs", "0001", "dedup", "seed")); err != nil || string(kept) != "not a seed" {
		t.Errorf("kept %q, %v", kept, err)
	}
	var r fsck.RepairReport
	if text, err := os.ReadFile(filepath.Join(dir, "repairs", "0001", "report.json")); err != nil || json.Unmarshal(text, &r) != nil || len(r.Steps) != 1 {
		t.Errorf("report %s, %v", text, err)
	}
	status, out, _ = command("repair", "--yes", "--json", dir)
	if err := json.Unmarshal([]byte(out), &r); err != nil || status != 0 || !r.Clean() {
		t.Errorf("again, as JSON: %d %s %v", status, out, err)
	}
	if err := os.RemoveAll(filepath.Join(dir, "catalog")); err != nil {
		t.Fatal(err)
	}
	if status, out, _ := command("repair", "--yes", dir); status != 1 || !strings.Contains(out, "NOT clean") {
		t.Errorf("without a catalogue: %d %s", status, out)
	}
}

// A repair that cannot write, as on a full disk, says so, and what it has done until there.
func TestRepairThatCannotGoOn(t *testing.T) {
	dir, b := storedDirectory(t)
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "dedup", "seed"), []byte("not a seed"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "repairs"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	status, out, diag := command("repair", "--yes", dir)
	if status != 2 || !strings.HasPrefix(out, "dedup at 0: dropped") || !strings.Contains(out, "could not go on") || !strings.Contains(diag, "repairs") {
		t.Errorf("got %d %q %q", status, out, diag)
	}
	if _, err := os.Stat(filepath.Join(dir, "dedup", "seed")); err != nil {
		t.Errorf("changed: %v", err)
	}
}
