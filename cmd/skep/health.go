package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/skepmq/skep/cmd/skep/config"
)

// maxHealthAnswer bounds what is read of an answer: the address may be anything.
const maxHealthAnswer = 64 << 10

func newHealthCommand() *cobra.Command {
	var address string
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "health",
		Short: "Ask a broker whether it is healthy",
		Long: `Ask /health of a broker, print the answer, and exit with 0 if it is healthy and with 1
if it is not, cannot be reached or does not answer in time. It is the health check of
containers that have no curl.

Without --address it asks the broker that skep serve would be in the same environment.`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if timeout <= 0 {
				return usageError{fmt.Errorf("--timeout: got %v, want more than 0", timeout)}
			}
			if address == "" {
				c, err := config.Load(nil, os.Environ())
				if err != nil {
					return err
				}
				address = reachable(c.Listen)
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), timeout)
			defer cancel()
			return health(ctx, healthURL(address), cmd.OutOrStdout())
		},
	}
	cmd.Flags().StringVar(&address, "address", "", "HOST:PORT or URL of the broker (default: of QUEEN_BIND_ADDR and PORT, 127.0.0.1:6632)")
	cmd.Flags().DurationVar(&timeout, "timeout", 5*time.Second, "how long to wait for the answer")
	return cmd
}

// reachable is an address that a listener can be reached at from the same machine.
func reachable(listen string) string {
	host, port, _ := net.SplitHostPort(listen)
	switch ip := net.ParseIP(host); {
	case host == "" || ip.Equal(net.IPv4zero):
		host = "127.0.0.1"
	case ip.Equal(net.IPv6zero):
		host = "::1"
	}
	return net.JoinHostPort(host, port)
}

func healthURL(address string) string {
	if !strings.Contains(address, "://") {
		address = "http://" + address
	}
	return strings.TrimSuffix(address, "/") + "/health"
}

func health(ctx context.Context, url string, out io.Writer) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return usageError{err}
	}
	// Proxies of the environment and redirects are left alone: somebody else would answer
	// for a broker that is down.
	probe := &http.Client{
		Transport:     &http.Transport{DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	resp, err := probe.Do(req)
	if err != nil {
		return err
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxHealthAnswer))
	if err = errors.Join(err, resp.Body.Close()); err != nil {
		return fmt.Errorf("read the answer of %s: %w", url, err)
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answers %d: %s", url, resp.StatusCode, strings.TrimSpace(string(body)))
	}
	_, err = fmt.Fprintln(out, strings.TrimSpace(string(body)))
	return err
}
