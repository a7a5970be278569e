package main

import (
	"math"
	"os"
	"runtime/debug"
	"strconv"
	"strings"

	"github.com/rs/zerolog"
)

// limitHeap sets the bound of live memory where the environment has not: half of what
// there is, since garbage takes half as much again, and buffers of the kernel the rest.
func (c *config) limitHeap(logger *zerolog.Logger) {
	if c.broker.MaxHeapBytes == 0 {
		c.broker.MaxHeapBytes = memoryLimit(os.ReadFile) / 2
	}
	logger.Info().Int64("max_heap_bytes", c.broker.MaxHeapBytes).Msg("memory bound")
}

// memoryLimit returns the memory that the process may use: of the machine, of its
// container or of GOMEMLIMIT, whichever is least. It is 0 where none is known.
func memoryLimit(read func(string) ([]byte, error)) int64 {
	least := debug.SetMemoryLimit(-1) // a look; MaxInt64: none
	for _, source := range []struct{ path, prefix, unit string }{
		{"/proc/meminfo", "MemTotal:", "kB"},
		{"/sys/fs/cgroup/memory.max", "", ""},
		{"/sys/fs/cgroup/memory/memory.limit_in_bytes", "", ""},
	} {
		text, err := read(source.path)
		if err != nil {
			continue // not this kind of system
		}
		line, _, _ := strings.Cut(string(text), "\n")
		line = strings.TrimSuffix(strings.TrimPrefix(line, source.prefix), source.unit)
		n, err := strconv.ParseInt(strings.TrimSpace(line), 10, 64)
		if err != nil {
			continue // "max"
		}
		if source.unit != "" {
			n <<= 10
		}
		least = min(least, n)
	}
	if least == math.MaxInt64 {
		return 0
	}
	return least
}
