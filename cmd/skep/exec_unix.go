//go:build unix

package main

import (
	"os/exec"
	"syscall"
)

// ownGroup keeps the Ctrl-C of a terminal from the command, which would fail a message
// that it could have finished, and lets a kill reach what the shell started.
func ownGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
}
