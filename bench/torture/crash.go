package main

import (
	"fmt"
	"os/exec"
	"strconv"
	"strings"

	"github.com/skepmq/skep/bench/rig"
)

// crash runs the crash test in one of its modes; bench/crash has the load and the checks.
func crash(mode string) func(*env) error {
	return func(e *env) error {
		tool, err := e.tool("bench/crash")
		if err != nil {
			return err
		}
		seconds := max(int(e.duration.Seconds()), 1)
		cmd := exec.CommandContext(e.ctx, tool, "--mode", mode, "--skep", e.skep, "--dir", e.dir,
			"--seed", strconv.FormatUint(e.seed, 10), "--duration", fmt.Sprintf("%ds", seconds))
		if seconds < 10 {
			cmd.Args = append(cmd.Args, "--duration", "0", "--rounds", "4")
		}
		said, err := cmd.CombinedOutput()
		if err != nil {
			return violated("crash", "%v\n%s", err, said)
		}
		return e.tell(mode, string(said))
	}
}

// tell takes over what the summary of the crash test counts.
func (e *env) tell(mode, said string) error {
	for line := range strings.Lines(said) {
		text, ok := strings.CutPrefix(strings.TrimSpace(line), mode+": ")
		if !ok {
			continue
		}
		if why, ok := strings.CutPrefix(text, "skipped: "); ok {
			return rig.Lacking(why)
		}
		for _, part := range strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == ';' }) {
			number, name, _ := strings.Cut(strings.TrimSpace(part), " ")
			if n, err := strconv.ParseInt(number, 10, 64); err == nil {
				e.counts.add(name, n)
			}
		}
	}
	return nil
}
