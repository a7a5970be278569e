package server

import (
	"bytes"
	"os"
	"strconv"
	"syscall"
	"time"
)

// usage is what the system says of this process; what it does not say is 0.
type usage struct {
	rss, virtual int64 // bytes
	user, system time.Duration
}

func readUsage() (u usage) {
	if b, err := os.ReadFile("/proc/self/statm"); err == nil {
		if fields := bytes.Fields(b); len(fields) >= 2 {
			u.virtual, u.rss = pages(fields[0]), pages(fields[1])
		}
	}
	var r syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &r) == nil {
		u.user, u.system = time.Duration(r.Utime.Nano()), time.Duration(r.Stime.Nano())
	}
	return u
}

func pages(field []byte) int64 {
	n, _ := strconv.ParseInt(string(field), 10, 64) // the kernel writes numbers
	return n * int64(os.Getpagesize())
}
