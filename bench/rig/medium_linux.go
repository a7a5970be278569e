package rig

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

const zramControl = "/sys/class/zram-control"

// Medium is a block device in memory whose sectors can be made to fail. It is a zram,
// because its writes fail one by one and honestly: a loop device over a file that finds
// no room reports a write as done of which only the beginning was.
type Medium struct {
	Path string // of the device

	number string
}

// OpenMedium makes one. Its error is a Lacking if the machine cannot do that.
func OpenMedium(bytes int64) (*Medium, error) {
	number, err := os.ReadFile(filepath.Join(zramControl, "hot_add"))
	if err != nil {
		return nil, Lacking("no zram: " + err.Error())
	}
	m := &Medium{number: strings.TrimSpace(string(number))}
	m.Path = "/dev/zram" + m.number
	if err := m.set("disksize", bytes); err != nil {
		return nil, errors.Join(err, m.Close())
	}
	return m, nil
}

func (m *Medium) set(what string, n int64) error {
	return os.WriteFile(filepath.Join("/sys/block/zram"+m.number, what), fmt.Append(nil, n), 0)
}

// Fail makes writes fail, or succeed again.
func (m *Medium) Fail(yes bool) error {
	limit := int64(0)
	if yes {
		limit = 4096
	}
	return m.set("mem_limit", limit)
}

// Close removes the device, and all on it is gone. It must not be mounted.
func (m *Medium) Close() error {
	return os.WriteFile(filepath.Join(zramControl, "hot_remove"), []byte(m.number), 0)
}
