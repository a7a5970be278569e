package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/pflag"

	"github.com/skepmq/skep/client"
)

const (
	queueName = "github.events"
	// leaseSeconds is how long the messages of a killed consumer are held back.
	leaseSeconds = 3
	pushBatch    = 10
	// patience bounds the whole demonstration.
	patience = 2 * time.Minute
)

func main() {
	skep := pflag.String("skep", "skep", "path of the skep binary")
	rounds := pflag.Int("rounds", 4, "how often the 273 events are pushed")
	pflag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	ctx, cancel := context.WithTimeout(ctx, patience)
	err := demo(ctx, *skep, *rounds, os.Stdout)
	cancel()
	stop()
	if err != nil {
		fmt.Fprintf(os.Stderr, "demo: %v\n", err)
		os.Exit(1)
	}
}

// story prints what happens, with the time since the start.
type story struct {
	w     io.Writer
	begun time.Time
	mu    sync.Mutex
}

func (s *story) tell(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	fmt.Fprintf(s.w, "%6.2fs  %s\n", time.Since(s.begun).Seconds(), fmt.Sprintf(format, args...))
}

// demo runs the whole story with the binary at path skep.
func demo(ctx context.Context, skep string, rounds int, out io.Writer) (err error) {
	path, err := exec.LookPath(skep)
	if err != nil {
		return fmt.Errorf("find the skep binary: %w", err)
	}
	events, err := loadEvents(rounds)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "skep-demo-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	b, err := newBroker(path, dir)
	if err != nil {
		return err
	}
	defer b.client.Close()
	defer b.kill()
	c, err := client.New(b.url(), client.WithRetry(client.RetryPolicy{Attempts: 40, Base: 20 * time.Millisecond, Max: 500 * time.Millisecond}))
	if err != nil {
		return err
	}
	defer c.Close()
	s := &stage{
		story:   &story{w: out, begun: time.Now()},
		broker:  b,
		client:  c,
		queue:   c.Queue(queueName),
		events:  events,
		audit:   newLedger("audit", events),
		billing: newLedger("billing", events),
	}
	return s.run(ctx)
}
