package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/skepmq/skep/client"
)

// connection is the flags of every command that talks to a broker.
type connection struct {
	url     string
	tenant  string
	queue   string
	retries int
}

func (c *connection) addFlags(cmd *cobra.Command) {
	addURLFlag(cmd, &c.url)
	f := cmd.Flags()
	f.StringVar(&c.tenant, "tenant", os.Getenv("SKEP_TENANT"), "tenant whose queue it is, a UUID, of a broker with QUEEN_TENANCY_HEADER; SKEP_TENANT sets the default")
	f.StringVar(&c.queue, "queue", "", "name of the queue (required)")
	f.IntVar(&c.retries, "retries", 10, "how often a request is repeated while the broker cannot be reached")
}

func addURLFlag(cmd *cobra.Command, to *string) {
	address := os.Getenv("SKEP_URL")
	if address == "" {
		address = "http://127.0.0.1:6632"
	}
	cmd.Flags().StringVar(to, "url", address, "address of the broker; SKEP_URL sets the default, SKEP_TOKEN a bearer token")
}

// token is not a flag: command lines are public on most machines.
func token() string { return os.Getenv("SKEP_TOKEN") }

// open checks the flags and returns a client.
func (c *connection) open(conns int) (*client.Client, error) {
	if c.queue == "" {
		return nil, usageError{errors.New("--queue is required")}
	}
	policy := client.DefaultRetry
	policy.Attempts = max(c.retries, 0) + 1
	cl, err := client.New(c.url, client.WithToken(token()), client.WithTenant(c.tenant),
		client.WithRetry(policy), client.WithMaxConns(conns))
	if err != nil {
		return nil, usageError{err}
	}
	return cl, nil
}

// positive is the error for a number that must be at least 1.
func positive(flag string, n int) error {
	if n < 1 {
		return usageError{fmt.Errorf("--%s: got %d, want at least 1", flag, n)}
	}
	return nil
}

// terminal reports whether w is a terminal.
func terminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// showProgress rewrites a line on w twice a second until the returned function is
// called. It does nothing unless w is a terminal: a log has no use for it.
func showProgress(w io.Writer, line func() string) (stop func()) {
	if !terminal(w) {
		return func() {}
	}
	done := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		tick := time.NewTicker(500 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				fmt.Fprintf(w, "\r%s\x1b[K", line())
			case <-done:
				fmt.Fprint(w, "\r\x1b[K")
				return
			}
		}
	})
	return func() {
		close(done)
		wg.Wait()
	}
}

// rate is n a second.
func rate(n int64, since time.Time) int64 {
	s := time.Since(since).Seconds()
	if s <= 0 {
		return 0
	}
	return int64(float64(n) / s)
}

// lockedWriter makes concurrent writes whole.
type lockedWriter struct {
	mu sync.Mutex
	w  io.Writer
}

func (l *lockedWriter) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(p)
}
