package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// started is one start of the broker, watched until it serves.
type started struct {
	answered time.Duration // first answer to /health, whatever it was
	ready    time.Duration
	refused  time.Duration // the slowest 503 to a push or pop before
	peak     int64         // of memory, until it was ready
	cpu      time.Duration // of the processor, until then
	phases   []fact
}

// watchStart launches the broker and asks it for everything until it serves. Until then
// every answer has to be 503.
func (p *process) watchStart(ctx context.Context) (s started, err error) {
	push := newPushRequest(pushPath, probeQueue, shape{batch: 1}, rand.New(rand.NewPCG(0, 0)))
	health, others := getRequest("/health"), [][]byte{push.bytes, getRequest("/api/v1/pop/queue/" + probeQueue)}
	served := false
	begun := time.Now()
	if err := p.launch(); err != nil {
		return s, err
	}
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for ; ctx.Err() == nil && time.Since(begun) < 5*time.Minute; <-tick.C {
		status, body, err := p.once(health)
		switch {
		case errors.Is(err, syscall.ECONNREFUSED):
			continue
		case err != nil:
			return s, err
		case s.answered == 0:
			s.answered = time.Since(begun)
		}
		if status == 200 {
			s.ready = time.Since(begun)
			s.phases = p.log.recovered()
			if s.cpu, err = cpuOf(p.pid()); err != nil {
				return s, err
			}
			_, s.peak, err = rssOf(p.pid())
			return s, err
		}
		if status != 503 || served {
			return s, fmt.Errorf("health, other requests served %t: %w", served, statusError{status, string(body)})
		}
		for _, request := range others {
			asked := time.Now()
			status, body, err := p.once(request)
			if err != nil {
				return s, err
			}
			switch status {
			case 503:
				s.refused = max(s.refused, time.Since(asked))
			case 200, 201, 204:
				served = true // it has become ready in between, and will say so
			default:
				return s, fmt.Errorf("during recovery: %w", statusError{status, string(body)})
			}
		}
	}
	p.kill()
	return s, fmt.Errorf("the broker is not ready; its last words:\n%s", p.log)
}

var fieldPattern = regexp.MustCompile(`(\w+)=([0-9.]+)(µs|ms|s|m\S*)?(?:\s|$)`)

// recovered reads what the latest recovery says of its parts, but for those that took less
// than a millisecond.
func (t *logTail) recovered() (phases []fact) {
	_, line, _ := lastCut(t.String(), "data directory recovered")
	for _, m := range fieldPattern.FindAllStringSubmatch(line, -1) {
		switch d, err := time.ParseDuration(m[2] + m[3]); {
		case err == nil && m[3] != "":
			if d >= time.Millisecond && m[1] != "total" {
				phases = append(phases, fact{"    " + m[1], millis(d), "ms"})
			}
		case m[1] == "replayed_bytes":
			if n, err := strconv.ParseInt(m[2], 10, 64); err == nil {
				phases = append(phases, fact{"    replayed", megabytes(n), "MB"})
			}
		}
	}
	return phases
}

// lastCut is strings.Cut around the last sep, up to the end of its line.
func lastCut(s, sep string) (before, after string, found bool) {
	i := strings.LastIndex(s, sep)
	if i < 0 {
		return s, "", false
	}
	after, _, _ = strings.Cut(s[i+len(sep):], "\n")
	return s[:i], after, true
}

// dropPageCache makes the next reads come from the disk. It needs root.
func dropPageCache() error {
	syscall.Sync()
	return os.WriteFile("/proc/sys/vm/drop_caches", []byte("3"), 0)
}
