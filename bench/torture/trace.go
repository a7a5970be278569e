package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"

	"github.com/skepmq/skep/bench/rig"
)

// fault is a system call that fails when a thread makes it for the n-th time.
type fault struct {
	call, errno string
	n           int
	paths       []string // only on these; empty: on any
}

func (f fault) String() string {
	return fmt.Sprintf("%s fails with %s, call %d, on %v", f.call, f.errno, f.n, f.paths)
}

// tracer is strace at work on a broker.
type tracer struct {
	path string // of what it writes down
	cmd  *exec.Cmd
	wg   sync.WaitGroup
}

// attach has the kernel inject a fault into p from now on.
func attach(p *rig.Process, path string, f fault) (*tracer, error) {
	if _, err := exec.LookPath("strace"); err != nil {
		return nil, rig.Lacking("strace is missing")
	}
	calls := "fsync,fdatasync,pwrite64"
	if !strings.Contains(calls, f.call) {
		calls += "," + f.call
	}
	args := []string{"-f", "-y", "-o", path, "-p", strconv.Itoa(p.PID()), "-e", "trace=" + calls,
		"-e", fmt.Sprintf("inject=%s:error=%s:when=%d", f.call, f.errno, f.n)}
	for _, p := range f.paths {
		args = append(args, "-P", p)
	}
	t := &tracer{path: path, cmd: exec.Command("strace", args...)}
	says, err := t.cmd.StderrPipe()
	if err != nil {
		return nil, err
	}
	if err := t.cmd.Start(); err != nil {
		return nil, err
	}
	r := bufio.NewReader(says)
	for {
		line, err := r.ReadString('\n')
		if err != nil {
			return nil, rig.Lacking("strace cannot attach: " + line) // a container may forbid it
		}
		if strings.Contains(line, "attached") {
			break
		}
	}
	t.wg.Go(func() { _, _ = io.Copy(io.Discard, r) })
	return t, nil
}

// done waits for the end of the tracer, which comes with that of the broker.
func (t *tracer) done() {
	t.wg.Wait()
	_ = t.cmd.Wait() // it ends as the broker did
}

// traced is a call that was traced.
type traced struct {
	call, path string
	result     string
	injected   bool
}

var (
	traceLine   = regexp.MustCompile(`^(\d+) +(?:<\.\.\. )?(\w+)(?:\(| resumed>)(.*)$`)
	tracePath   = regexp.MustCompile(`^\d+<([^>]*)>`)
	traceQuoted = regexp.MustCompile(`"([^"]*)"`)
)

// calls returns what was traced, in the order in which the calls ended.
func (t *tracer) calls() ([]traced, error) {
	text, err := os.ReadFile(t.path)
	if err != nil {
		return nil, err
	}
	return parseTrace(string(text)), nil
}

func parseTrace(text string) (all []traced) {
	begun := map[string]string{} // by thread, the arguments of an unfinished call
	for line := range strings.Lines(text) {
		m := traceLine.FindStringSubmatch(strings.TrimSpace(line))
		if m == nil {
			continue
		}
		thread, args := m[1], m[3]
		if start, unfinished := strings.CutSuffix(args, " <unfinished ...>"); unfinished {
			begun[thread] = start
			continue
		}
		if strings.Contains(line, " resumed>") {
			args = begun[thread] + args
		}
		c := traced{call: m[2], injected: strings.HasSuffix(args, "(INJECTED)")}
		if p := tracePath.FindStringSubmatch(args); p != nil {
			c.path = p[1]
		} else if p := traceQuoted.FindStringSubmatch(args); p != nil {
			c.path = p[1]
		}
		if i := strings.LastIndex(args, " = "); i >= 0 {
			c.result = args[i+3:]
		}
		all = append(all, c)
	}
	return all
}

// writes reports whether a call makes something durable, or is meant to.
func (c *traced) writes() bool {
	switch c.call {
	case "fsync", "fdatasync", "pwrite64", "write":
		return true
	}
	return false
}

// home returns the part of the data directory that a file belongs to, "" for a directory.
func home(dir, path string) string {
	rest, ok := strings.CutPrefix(path, dir+"/")
	if !ok || filepath.Base(path) == "journal" || !strings.Contains(rest, "/") {
		return ""
	}
	part, _, _ := strings.Cut(rest, "/")
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return ""
	}
	return part
}
