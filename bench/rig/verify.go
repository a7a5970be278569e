package rig

import (
	"errors"
	"fmt"
	"os/exec"
	"strings"
)

// ErrFindings says that a data directory is not as it should be.
var ErrFindings = errors.New("the data directory does not verify")

// CanVerify reports whether the broker has a command that checks a directory.
func (b *Brokers) CanVerify() bool {
	out, err := exec.Command(b.Path, "help").CombinedOutput()
	return err == nil && strings.Contains(string(out), "\n  verify ")
}

// Verify checks a data directory that nobody serves, and returns what was said about it.
// Its error is ErrFindings if something was found.
func (b *Brokers) Verify(dir string) (said string, err error) {
	out, err := exec.Command(b.Path, "verify", dir).CombinedOutput()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) && exit.ExitCode() == 1 {
		err = fmt.Errorf("%w:\n%s", ErrFindings, out)
	}
	return string(out), err
}
