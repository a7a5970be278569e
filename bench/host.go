package main

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"runtime"
	"strings"
	"time"
)

// host is where the numbers come from.
type host struct {
	When       time.Time `json:"when"`
	CPUs       int       `json:"cpus"`
	Go         string    `json:"go"`
	System     string    `json:"system"`
	FileSystem string    `json:"fileSystem"`
	Load       string    `json:"load"` // of the last minute, before we began
}

func describeHost(dir string) host {
	kernel, _ := os.ReadFile("/proc/sys/kernel/osrelease")
	load, _ := os.ReadFile("/proc/loadavg")
	oneMinute, _, _ := strings.Cut(string(load), " ")
	return host{
		When:       time.Now().UTC().Truncate(time.Second),
		CPUs:       runtime.NumCPU(),
		Go:         runtime.Version(),
		System:     runtime.GOOS + "/" + runtime.GOARCH + " " + strings.TrimSpace(string(kernel)),
		FileSystem: fileSystemOf(dir),
		Load:       oneMinute,
	}
}

// fetchProfile writes a CPU profile of the process whose profiles are at address.
func fetchProfile(address, path string, seconds int) (err error) {
	res, err := http.Get(fmt.Sprintf("http://%s/debug/pprof/profile?seconds=%d", address, seconds))
	if err != nil {
		return fmt.Errorf("profile: %w", err)
	}
	defer func() { err = errors.Join(err, res.Body.Close()) }()
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, res.Body)
	return errors.Join(err, f.Close())
}
