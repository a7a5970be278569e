package rig

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"
)

// ReadyWithin bounds the start of a broker whose data is a few megabytes. A busy machine
// has its share.
const ReadyWithin = 20 * time.Second

// ErrNotReady is the error of Ready if the broker has ended or does not come up.
var ErrNotReady = errors.New("the broker does not become ready")

// Process is one life of the broker.
type Process struct {
	Address string
	ExitedC chan struct{} // closed when it has ended
	Exit    error         // of Wait, set before ExitedC closes

	cmd     *exec.Cmd
	logFrom int64 // where its log begins in the log file
	wg      sync.WaitGroup
}

// Brokers starts lives of the broker. Path and Log are required.
type Brokers struct {
	Path      string // of the binary
	Log       *os.File
	Env       []string // beside what the process has
	Arguments []string // of serve, beside directory and address
	// Descriptors is the limit of open files, soft and hard; 0: that of this process.
	Descriptors int
	Lives       int
}

// Start starts a life over the data in dir. Each gets an address of its own, so that no
// request meant for one reaches the next.
func (b *Brokers) Start(dir string) (*Process, error) {
	address, err := FreeAddress()
	if err != nil {
		return nil, err
	}
	end, err := b.Log.Seek(0, io.SeekEnd)
	if err != nil {
		return nil, fmt.Errorf("find the end of the broker's log: %w", err)
	}
	b.Lives++
	fmt.Fprintf(b.Log, "--- life %d\n", b.Lives)
	p := &Process{Address: address, logFrom: end, ExitedC: make(chan struct{})}
	p.cmd = b.command(append([]string{b.Path, "serve", "--data-dir", dir, "--listen", address}, b.Arguments...))
	p.cmd.Stdout, p.cmd.Stderr = b.Log, b.Log
	p.cmd.Env = append(os.Environ(), b.Env...)
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start the broker: %w", err)
	}
	p.wg.Go(func() {
		p.Exit = p.cmd.Wait()
		close(p.ExitedC)
	})
	return p, nil
}

func (b *Brokers) command(args []string) *exec.Cmd {
	if b.Descriptors > 0 {
		script := fmt.Sprintf(`ulimit -n %d && exec "$@"`, b.Descriptors)
		args = append([]string{"sh", "-c", script, "sh"}, args...)
	}
	return exec.Command(args[0], args[1:]...)
}

// FreeAddress returns an address on this machine that nobody listens on, for now.
func FreeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("find a free port: %w", err)
	}
	address := l.Addr().String()
	if err := l.Close(); err != nil {
		return "", fmt.Errorf("find a free port: %w", err)
	}
	return address, nil
}

// Ready waits until /health answers 200. Its error is ErrNotReady, or of ctx.
func (p *Process) Ready(ctx context.Context) error {
	limit, cancel := context.WithTimeout(ctx, ReadyWithin)
	defer cancel()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for {
		if status, err := p.Health(limit); err == nil && status == http.StatusOK {
			return nil
		}
		select {
		case <-tick.C:
		case <-p.ExitedC:
			return fmt.Errorf("%w: it ended: %w", ErrNotReady, p.Exit)
		case <-limit.Done():
			if ctx.Err() != nil {
				return ctx.Err()
			}
			return fmt.Errorf("%w within %v", ErrNotReady, ReadyWithin)
		}
	}
}

var probe = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: ReadyWithin}

// Health returns the status of /health, on a connection of its own.
func (p *Process) Health(ctx context.Context) (status int, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+p.Address+"/health", nil)
	if err != nil {
		return 0, err
	}
	resp, err := probe.Do(req)
	if err != nil {
		return 0, err
	}
	return resp.StatusCode, resp.Body.Close()
}

// PID is the number of the process.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Signal sends a signal to it.
func (p *Process) Signal(s syscall.Signal) error { return p.cmd.Process.Signal(s) }

// Ended reports whether it has ended.
func (p *Process) Ended() bool {
	select {
	case <-p.ExitedC:
		return true
	default:
		return false
	}
}

// Kill ends the life with SIGKILL and waits for its end. A nil Process has ended.
func (p *Process) Kill() {
	if p == nil {
		return
	}
	_ = p.cmd.Process.Kill() // it may have ended by itself; whoever cares has looked
	p.wg.Wait()
}

// Stop ends the life as an operator would and returns how it ended.
func (p *Process) Stop() error {
	if err := p.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	late := time.AfterFunc(2*ReadyWithin, func() { _ = p.cmd.Process.Kill() }) // fails if it has just ended
	defer late.Stop()
	p.wg.Wait()
	return p.Exit
}

// PortTaken reports whether the life ended because somebody else took its port.
func (b *Brokers) PortTaken(p *Process) bool {
	return strings.Contains(b.LastWords(p), "address already in use")
}

// LastWords returns the end of what a life has logged.
func (b *Brokers) LastWords(p *Process) string {
	const most = 4 << 10
	text := b.Words(p)
	return text[max(len(text)-most, 0):]
}

// Words returns what has been logged since a life began.
func (b *Brokers) Words(p *Process) string {
	end, err := b.Log.Seek(0, io.SeekEnd)
	if err != nil {
		return err.Error()
	}
	buf := make([]byte, end-p.logFrom)
	n, err := b.Log.ReadAt(buf, p.logFrom)
	if err != nil && !errors.Is(err, io.EOF) {
		return err.Error()
	}
	return string(buf[:n])
}
