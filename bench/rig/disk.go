package rig

import (
	"fmt"
	"os/exec"
)

// Lacking is the error of what this machine cannot do: no root, no loop devices, no tool.
type Lacking string

func (l Lacking) Error() string { return string(l) }

// DiskOptions describe a file system to be made.
type DiskOptions struct {
	Kind   string   // ext4 or xfs
	Device string   // to be made on; empty: an image, which is sparse, on a loop device
	Bytes  int64    // of the image; 0: 4 GiB
	Make   []string // more arguments of mkfs
	Mount  string   // mount options
}

// needed fails with a Lacking if one of the tools is missing.
func needed(tools ...string) error {
	for _, tool := range tools {
		if _, err := exec.LookPath(tool); err != nil {
			return Lacking(tool + " is missing")
		}
	}
	return nil
}

func command(name string, args ...string) error {
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", name, err, out)
	}
	return nil
}
