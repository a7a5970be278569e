package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/skepmq/skep/bench/wire"
)

// process is a skep broker under measurement.
type process struct {
	skep    string
	dir     string // of its data
	address string
	pprof   string // address of its profiles; "": none
	env     []string

	cmd *exec.Cmd
	log *logTail
}

// startBroker starts a broker over an empty directory and waits until it serves.
func (b *bench) startBroker() (*process, error) {
	dir, err := os.MkdirTemp(b.dir, "data-")
	if err != nil {
		return nil, err
	}
	p, err := b.newProcess(dir)
	if err != nil {
		return nil, err
	}
	return p, p.start(b.ctx, 30*time.Second)
}

// newProcess returns a broker over dir that is not running yet.
func (b *bench) newProcess(dir string) (p *process, err error) {
	p = &process{skep: b.o.skep, dir: dir, log: &logTail{}}
	if p.address, err = freeAddress(); err != nil {
		return nil, err
	}
	if b.o.profileDir != "" {
		p.pprof, err = freeAddress()
	}
	return p, err
}

// freeAddress returns an address on this machine that nobody listens on, for now.
func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}

// start starts the process and waits until /health is 200.
func (p *process) start(ctx context.Context, patience time.Duration) error {
	if err := p.launch(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for {
		err := p.health()
		if err == nil {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			p.kill()
			return fmt.Errorf("the broker is not ready: %w; its last words:\n%s", err, p.log)
		}
	}
}

// launch starts the process and does not wait.
func (p *process) launch() error {
	args := []string{"serve", "--data-dir", p.dir, "--listen", p.address}
	if p.pprof != "" {
		args = append(args, "--pprof", p.pprof)
	}
	p.cmd = exec.Command(p.skep, args...)
	p.cmd.Env = append(plainEnvironment(), p.env...)
	p.cmd.Stdout, p.cmd.Stderr = p.log, p.log
	if err := p.cmd.Start(); err != nil {
		return fmt.Errorf("start the broker: %w", err)
	}
	return nil
}

// plainEnvironment is ours without what would configure the broker.
func plainEnvironment() []string {
	var env []string
	for _, v := range os.Environ() {
		name, _, _ := strings.Cut(v, "=")
		switch {
		case strings.HasPrefix(name, "SKEP_"), strings.HasPrefix(name, "QUEEN_"), strings.HasPrefix(name, "DEFAULT_"),
			name == "PORT", name == "LOG_LEVEL", name == "RUST_LOG", name == "POP_DEFAULT_TIMEOUT_MS":
		default:
			env = append(env, v)
		}
	}
	return env
}

func (p *process) health() error {
	_, err := p.get("/health")
	return err
}

// get returns the body of a GET on a connection of its own; anything but 200 is an error.
func (p *process) get(path string) ([]byte, error) {
	status, body, err := p.once(getRequest(path))
	if err == nil && status != 200 {
		err = fmt.Errorf("GET %s: %w", path, statusError{status, string(body)})
	}
	return body, err
}

// once sends one request on a connection of its own.
func (p *process) once(request []byte) (status int, body []byte, err error) {
	c, err := wire.Dial(p.address)
	if err != nil {
		return 0, nil, err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	if err := c.SetDeadline(time.Now().Add(30 * time.Second)); err != nil {
		return 0, nil, err
	}
	return c.Do(request)
}

func (p *process) pid() int { return p.cmd.Process.Pid }

// stop ends the process as an operator would, and removes its data. Its exit status must
// be 0.
func (p *process) stop() error {
	if p.cmd == nil {
		return nil
	}
	err := p.terminate()
	return errors.Join(err, os.RemoveAll(p.dir))
}

// terminate ends the process with SIGTERM and waits for it.
func (p *process) terminate() error {
	cmd := p.cmd
	p.cmd = nil
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	late := time.AfterFunc(40*time.Second, func() { _ = cmd.Process.Kill() }) // fails if it has just ended
	defer late.Stop()
	if err := cmd.Wait(); err != nil {
		return fmt.Errorf("the broker ended with %w; its last words:\n%s", err, p.log)
	}
	return nil
}

// kill ends the process with SIGKILL and keeps its data. Its error is the signal.
func (p *process) kill() {
	if p.cmd != nil {
		_ = p.cmd.Process.Kill()
		_ = p.cmd.Wait()
		p.cmd = nil
	}
}

// discard is what a scenario defers: it cleans up whatever the outcome.
func (p *process) discard(err *error) {
	if *err != nil && p.cmd != nil {
		p.kill()
	}
	*err = errors.Join(*err, p.stop(), os.RemoveAll(p.dir))
}

// files returns the number of files in the data directory and their bytes.
func (p *process) files() (count int, size int64, err error) {
	err = filepath.WalkDir(p.dir, func(_ string, d os.DirEntry, err error) error {
		if errors.Is(err, os.ErrNotExist) || err == nil && d.IsDir() {
			return nil // a checkpoint removes files while we look
		}
		if err != nil {
			return err
		}
		info, err := d.Info()
		if errors.Is(err, os.ErrNotExist) {
			return nil
		}
		count++
		size += info.Size()
		return err
	})
	return count, size, err
}

// logTail keeps the end of a process's log.
type logTail struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (t *logTail) Write(p []byte) (int, error) {
	const most = 8 << 10
	t.mu.Lock()
	defer t.mu.Unlock()
	t.b.Write(p)
	t.b.Next(max(t.b.Len()-most, 0))
	return len(p), nil
}

func (t *logTail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.b.String()
}
