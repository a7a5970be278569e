package main

import (
	"errors"
	"runtime/debug"
	"testing"
)

func TestMemoryLimit(t *testing.T) {
	const v1, v2 = "/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/memory.max"
	const own = "/proc/self/cgroup"
	for name, tt := range map[string]struct {
		files map[string]string
		want  int64
	}{
		"unknown":       {nil, 0},
		"machine":       {map[string]string{"/proc/meminfo": "MemTotal:       24038132 kB\nMemFree: 1 kB\n"}, 24038132 << 10},
		"container":     {map[string]string{"/proc/meminfo": "MemTotal: 24038132 kB\n", v2: "536870912\n"}, 512 << 20},
		"no container":  {map[string]string{"/proc/meminfo": "MemTotal: 1024 kB\n", v2: "max\n"}, 1 << 20},
		"unit":          {map[string]string{"/proc/meminfo": "MemTotal: 24038132 kB\n", own: "0::/system.slice/skep.service\n", "/sys/fs/cgroup/system.slice/skep.service/memory.max": "1073741824\n"}, 1 << 30},
		"slice":         {map[string]string{own: "1:name=x:/\n0::/system.slice/skep.service\n", "/sys/fs/cgroup/system.slice/skep.service/memory.max": "max\n", "/sys/fs/cgroup/system.slice/memory.max": "2147483648\n"}, 2 << 30},
		"root group":    {map[string]string{own: "0::/\n", v2: "4194304\n"}, 4 << 20},
		"outside":       {map[string]string{own: "0::/../../other\n", v2: "4194304\n"}, 4 << 20},
		"old container": {map[string]string{"/proc/meminfo": "MemTotal: 1024 kB\n", v1: "9223372036854771712\n"}, 1 << 20},
	} {
		read := func(path string) ([]byte, error) {
			if text, ok := tt.files[path]; ok {
				return []byte(text), nil
			}
			return nil, errors.New("no such file")
		}
		if got := memoryLimit(read); got != tt.want {
			t.Errorf("%s: got %d want %d", name, got, tt.want)
		}
	}
}

// A broker that starts takes no more memory than one that serves, and the bound of that is
// gone when it has.
func TestCollectLate(t *testing.T) {
	t.Setenv("GOGC", "")
	before, percent := debug.SetMemoryLimit(-1), debug.SetGCPercent(gcPercent)
	defer func() { debug.SetMemoryLimit(before); debug.SetGCPercent(percent) }()
	look := func() (limit int64, percent int) {
		percent = debug.SetGCPercent(gcPercent)
		debug.SetGCPercent(percent)
		return debug.SetMemoryLimit(-1), percent
	}
	for name, tt := range map[string]struct{ set, machine, want int64 }{
		"unknown":    {before, 0, before},
		"machine":    {before, 1 << 40, 3 << 38},
		"GOMEMLIMIT": {1 << 36, 1 << 40, 1 << 36},
	} {
		debug.SetMemoryLimit(tt.set)
		end := collectLate(tt.machine)
		if limit, percent := look(); limit != tt.want || percent != recoveryGCPercent {
			t.Errorf("%s: limit %d at %d %% while recovering, want %d", name, limit, percent, tt.want)
		}
		end()
		if limit, percent := look(); limit != tt.set || percent != gcPercent {
			t.Errorf("%s: limit %d at %d %% afterwards", name, limit, percent)
		}
	}
}
