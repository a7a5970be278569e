package main

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os/exec"
	"sync"
	"time"

	"github.com/skepmq/skep/client"
)

// broker is a skep process that can be killed and started again at the same address.
type broker struct {
	skep    string
	dir     string
	address string
	client  *client.Client // asks for its health only

	mu  sync.Mutex
	cmd *exec.Cmd
	log *logTail
}

func newBroker(skep, dir string) (*broker, error) {
	// The port is free now; somebody else may take it before the broker does, which
	// then says so.
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	address := l.Addr().String()
	if err := l.Close(); err != nil {
		return nil, err
	}
	c, err := client.New("http://" + address)
	if err != nil {
		return nil, err
	}
	return &broker{skep: skep, dir: dir, address: address, client: c, log: &logTail{}}, nil
}

func (b *broker) url() string { return "http://" + b.address }

// start starts the process and waits until it is ready.
func (b *broker) start(ctx context.Context) error {
	cmd := exec.Command(b.skep, "serve", "--data-dir", b.dir, "--listen", b.address)
	cmd.Stdout, cmd.Stderr = b.log, b.log
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start the broker: %w", err)
	}
	b.mu.Lock()
	b.cmd = cmd
	b.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		err := b.client.Health(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("the broker is not ready: %w; its last words:\n%s", err, b.log)
		}
	}
}

// kill ends the process with SIGKILL and waits for it.
func (b *broker) kill() {
	b.mu.Lock()
	cmd := b.cmd
	b.cmd = nil
	b.mu.Unlock()
	if cmd != nil {
		killProcess(cmd)
	}
}

// killProcess ends cmd with SIGKILL. Its error is the signal.
func killProcess(cmd *exec.Cmd) {
	_ = cmd.Process.Kill() // an error means that it has ended already
	_ = cmd.Wait()
}

// consumeProcess is one `skep consume`, read line by line.
type consumeProcess struct {
	cmd  *exec.Cmd
	log  *logTail
	done chan error // of reading its output to the end
}

// startConsumer starts a process that consumes queue for l's group and enters in l what
// it writes.
func startConsumer(b *broker, queue string, l *ledger, wg *sync.WaitGroup) (*consumeProcess, error) {
	p := &consumeProcess{log: &logTail{}, done: make(chan error, 1)}
	p.cmd = exec.Command(b.skep, "consume", "--url", b.url(), "--queue", queue, "--group", l.group,
		"--format", "json", "--batch", "20", "--partitions", "4", "--concurrency", "2", "--wait", "1s")
	p.cmd.Stderr = p.log
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start a consumer: %w", err)
	}
	wg.Go(func() { p.done <- readDeliveries(out, l) })
	return p, nil
}

// kill ends the process and waits until everything it had written is entered.
func (p *consumeProcess) kill() error {
	_ = p.cmd.Process.Kill()
	err := <-p.done // before Wait, which closes the pipe
	_ = p.cmd.Wait()
	return err
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
	if over := t.b.Len() - most; over > 0 {
		t.b.Next(over)
	}
	return len(p), nil
}

func (t *logTail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.b.String()
}
