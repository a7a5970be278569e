package main

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
	"time"
)

// readyWithin bounds the start of a broker whose data is a few megabytes. A busy machine
// has its share.
const readyWithin = 20 * time.Second

var errNotReady = errors.New("the broker does not become ready")

// process is one life of the broker.
type process struct {
	cmd     *exec.Cmd
	address string
	logFrom int64         // where its log begins in the log file
	exitedC chan struct{} // closed when it has ended
	exit    error         // set before exitedC closes
	wg      sync.WaitGroup
}

// brokers starts lives of the broker, all with one log file.
type brokers struct {
	path       string // of the binary
	log        *os.File
	checkpoint string // bytes, or empty
	lives      int
}

// start starts a life over the data in dir. Each gets an address of its own, so that no
// request meant for one reaches the next.
func (b *brokers) start(dir string) (*process, error) {
	address, err := freeAddress()
	if err != nil {
		return nil, err
	}
	end, err := b.log.Seek(0, io.SeekEnd)
	if err != nil {
		return nil, fmt.Errorf("find the end of the broker's log: %w", err)
	}
	b.lives++
	fmt.Fprintf(b.log, "--- life %d\n", b.lives)
	p := &process{address: address, logFrom: end, exitedC: make(chan struct{})}
	p.cmd = exec.Command(b.path, "serve", "--data-dir", dir, "--listen", address)
	p.cmd.Stdout, p.cmd.Stderr = b.log, b.log
	p.cmd.Env = append(os.Environ(), "SKEP_DELIVERY_DETAILS=true", "RETENTION_INTERVAL=200")
	if b.checkpoint != "" {
		p.cmd.Env = append(p.cmd.Env, "SKEP_CHECKPOINT_BYTES="+b.checkpoint)
	}
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start the broker: %w", err)
	}
	p.wg.Go(func() {
		p.exit = p.cmd.Wait()
		close(p.exitedC)
	})
	return p, nil
}

func freeAddress() (string, error) {
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

// ready waits until /health answers 200. Its error is errNotReady, or of ctx.
func (p *process) ready(ctx context.Context) error {
	limit, cancel := context.WithTimeout(ctx, readyWithin)
	defer cancel()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: readyWithin}
	for {
		if healthy(limit, client, p.address) {
			return nil
		}
		select {
		case <-tick.C:
		case <-p.exitedC:
			return fmt.Errorf("%w: it ended: %w", errNotReady, p.exit)
		case <-limit.Done():
			if ctx.Err() != nil {
				return ctx.Err()
			}
			return fmt.Errorf("%w within %v", errNotReady, readyWithin)
		}
	}
}

func healthy(ctx context.Context, client *http.Client, address string) bool {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/health", nil)
	if err != nil {
		return false
	}
	resp, err := client.Do(req)
	if err != nil {
		return false
	}
	_ = resp.Body.Close() // the status is all there is to know
	return resp.StatusCode == http.StatusOK
}

// kill ends the life with SIGKILL and waits for its end.
func (p *process) kill() {
	_ = p.cmd.Process.Kill() // it may have ended by itself; whoever cares has looked
	p.wg.Wait()
}

// portTaken reports whether the life ended because somebody else took its port.
func (b *brokers) portTaken(p *process) bool {
	return strings.Contains(b.lastWords(p), "address already in use")
}

// lastWords returns the end of what a life has logged.
func (b *brokers) lastWords(p *process) string {
	const most = 4 << 10
	end, err := b.log.Seek(0, io.SeekEnd)
	if err != nil {
		return err.Error()
	}
	from := max(p.logFrom, end-most)
	buf := make([]byte, end-from)
	n, err := b.log.ReadAt(buf, from)
	if err != nil && !errors.Is(err, io.EOF) {
		return err.Error()
	}
	return string(buf[:n])
}
