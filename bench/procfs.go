package main

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// tick is the unit of processor times in /proc. The kernel shows hundredths of a second
// to programs whatever its own clock is.
const tick = time.Second / 100

// cpuOf returns the processor time that process pid has used, all its threads together.
func cpuOf(pid int) (time.Duration, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	// The second field is the name in parentheses and may hold anything; utime and stime
	// are fields 14 and 15.
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	const utime, stime = 14 - 3, 15 - 3
	if len(fields) <= stime {
		return 0, fmt.Errorf("process %d: stat has %d fields", pid, len(fields))
	}
	return sumTicks(fields[utime : stime+1])
}

// busyCPU returns the processor time that the whole machine has used.
func busyCPU() (time.Duration, error) {
	stat, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0, err
	}
	line, _, _ := strings.Cut(string(stat), "\n")
	fields := strings.Fields(line) // cpu user nice system idle iowait irq softirq steal
	if len(fields) < 9 {
		return 0, fmt.Errorf("/proc/stat: first line has %d fields", len(fields))
	}
	return sumTicks([]string{fields[1], fields[2], fields[3], fields[6], fields[7], fields[8]})
}

func sumTicks(fields []string) (total time.Duration, err error) {
	for _, f := range fields {
		n, err := strconv.ParseInt(f, 10, 64)
		if err != nil {
			return 0, err
		}
		total += time.Duration(n) * tick
	}
	return total, nil
}

// rssOf returns the memory of process pid that is in RAM, and the most there ever was.
func rssOf(pid int) (rss, peak int64, err error) {
	path := fmt.Sprintf("/proc/%d/status", pid)
	if rss, err = procField(path, "VmRSS:"); err != nil {
		return 0, 0, err
	}
	peak, err = procField(path, "VmHWM:")
	return rss << 10, peak << 10, err
}

// writtenBy returns the bytes that process pid has sent to the disk, or will have when the
// kernel writes the pages back.
func writtenBy(pid int) (int64, error) {
	return procField(fmt.Sprintf("/proc/%d/io", pid), "write_bytes:")
}

// procField returns the number behind name in a file of lines "name number [unit]".
func procField(path, name string) (int64, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		if fields := strings.Fields(line); len(fields) > 1 && fields[0] == name {
			return strconv.ParseInt(fields[1], 10, 64)
		}
	}
	return 0, fmt.Errorf("%s: no %s", path, name)
}

// usage is processor time, of the whole machine and of the parties to the measurement.
type usage struct {
	broker, generator, machine time.Duration
}

func usageNow(broker int) (u usage, err error) {
	if u.broker, err = cpuOf(broker); err != nil {
		return u, err
	}
	if u.generator, err = cpuOf(os.Getpid()); err != nil {
		return u, err
	}
	u.machine, err = busyCPU()
	return u, err
}

func (u usage) since(earlier usage) usage {
	return usage{u.broker - earlier.broker, u.generator - earlier.generator, u.machine - earlier.machine}
}

func (u usage) plus(other usage) usage {
	return usage{u.broker + other.broker, u.generator + other.generator, u.machine + other.machine}
}
