package main

import (
	"math"
	"os"
	"path"
	"runtime/debug"
	"strconv"
	"strings"

	"github.com/rs/zerolog"

	"github.com/skepmq/skep/cmd/skep/config"
)

// limitHeap sets the bound of live memory where the environment has not: half of what
// there is, since garbage takes half as much again, and buffers of the kernel the rest.
func limitHeap(c *config.Config, logger *zerolog.Logger) {
	if c.Broker.MaxHeapBytes == 0 {
		c.Broker.MaxHeapBytes = memoryLimit(os.ReadFile) / 2
	}
	logger.Info().Int64("max_heap_bytes", c.Broker.MaxHeapBytes).Msg("memory bound")
}

// cgroups is where groups of processes have their limits.
const cgroups = "/sys/fs/cgroup"

// memoryLimit returns the memory that the process may use: of the machine, of its
// container, of its unit or slice, or of GOMEMLIMIT, whichever is least. It is 0 where none
// is known.
func memoryLimit(read func(string) ([]byte, error)) int64 {
	least := debug.SetMemoryLimit(-1) // a look; MaxInt64: none
	note := func(path, prefix string, unit int64) {
		text, err := read(path)
		if err != nil {
			return // not this kind of system
		}
		line, _, _ := strings.Cut(strings.TrimPrefix(string(text), prefix), "\n")
		n, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(line, "kB")), 10, 64)
		if err == nil { // else it is "max"
			least = min(least, n*unit)
		}
	}
	note("/proc/meminfo", "MemTotal:", 1<<10)
	note(cgroups+"/memory/memory.limit_in_bytes", "", 1)
	for dir := controlGroup(read); ; dir = path.Dir(dir) {
		note(path.Join(cgroups, dir, "memory.max"), "", 1)
		if dir == "/" {
			break
		}
	}
	if least == math.MaxInt64 {
		return 0
	}
	return least
}

// controlGroup returns the control group of the process, below its root. In a container that
// is the root itself; a unit of systemd has one of its own, and so has each slice above it.
func controlGroup(read func(string) ([]byte, error)) string {
	text, err := read("/proc/self/cgroup")
	if err != nil {
		return "/"
	}
	for line := range strings.Lines(string(text)) {
		if name, ok := strings.CutPrefix(line, "0::"); ok {
			return path.Join("/", strings.TrimSpace(name))
		}
	}
	return "/"
}
