package main

import (
	"errors"
	"os/exec"
)

// exitStatus is that of an ended process, −1 if a signal ended it.
func exitStatus(err error) int {
	var exit *exec.ExitError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &exit):
		return exit.ExitCode()
	}
	return -1
}
