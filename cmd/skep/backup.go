package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/signal"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/skepmq/skep/log/backup"
	"github.com/skepmq/skep/segment/vfs"
)

// toStream stands for a standard stream in place of a path.
const toStream = "-"

// backupOptions is the command line of backup.
type backupOptions struct {
	url     string
	rate    float64 // megabytes a second; 0: as fast as it goes
	timeout time.Duration
}

func newBackupCommand() *cobra.Command {
	var o backupOptions
	cmd := &cobra.Command{
		Use:   "backup DIR|-",
		Short: "Back up a running broker",
		Long: `Copy the state of a running broker, as it is at one moment, into a directory that is
missing or empty, or to standard output as a tar. Everything that was answered before the
command began is in it, transactions as a whole. Pushes and pops go on meanwhile.

What is copied is checked on its way. The exit status is 0 only if all of it has come: a
backup without its MANIFEST.json, and with it its end, is refused by skep restore. Of what
could not be completed a directory is left empty.

It asks for the admin role, and there is one backup at a time.`,
		Args: onePlace,
		RunE: func(cmd *cobra.Command, args []string) error {
			if o.timeout <= 0 || o.rate < 0 {
				return usageError{errors.New("--timeout has to be more than 0, and --rate cannot be negative")}
			}
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			return o.run(ctx, args[0], cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	addURLFlag(cmd, &o.url)
	cmd.Flags().Float64Var(&o.rate, "rate", 0, "megabytes a second, at most, to spare disk and processor of a busy broker (default as fast as it goes)")
	cmd.Flags().DurationVar(&o.timeout, "timeout", time.Minute, "how long the broker may send nothing")
	return cmd
}

func onePlace(cmd *cobra.Command, args []string) error {
	if len(args) != 1 {
		return usageError{fmt.Errorf("%s: one directory or %s is wanted, not %d", cmd.CommandPath(), toStream, len(args))}
	}
	return nil
}

func (o *backupOptions) run(ctx context.Context, to string, out, diag io.Writer) error {
	if to == toStream && terminal(out) {
		return usageError{errors.New("standard output is a terminal: redirect it, or name a directory")}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	quiet := time.AfterFunc(o.timeout, func() { cancel(fmt.Errorf("the broker has sent nothing for %v", o.timeout)) })
	defer quiet.Stop()
	stream, err := o.open(ctx)
	if err != nil {
		return told(ctx, err)
	}
	defer stream.Close()
	var done atomic.Int64
	began := time.Now()
	watched := reader(func(p []byte) (int, error) {
		n, err := stream.Read(p)
		if err == nil {
			err = o.pace(ctx, done.Add(int64(n)), began)
		}
		quiet.Reset(o.timeout)
		return n, err
	})
	stop := showProgress(diag, func() string { return fmt.Sprintf("%d MB", done.Load()>>20) })
	m, err := keep(watched, to, out)
	stop()
	if err != nil {
		return told(ctx, err)
	}
	fmt.Fprintf(diag, "skep backup: %d files, %d bytes, as of %s, in %v\n", len(m.Files), m.Bytes(),
		m.CreatedAt.Format(time.RFC3339Nano), time.Since(began).Round(time.Millisecond))
	return nil
}

// pace waits until so many bytes may have come. The broker sends no faster than they are read.
func (o *backupOptions) pace(ctx context.Context, done int64, began time.Time) error {
	if o.rate == 0 {
		return nil
	}
	due := time.Duration(float64(done) / (o.rate * 1e6) * float64(time.Second))
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(due - time.Since(began)):
		return nil
	}
}

// keep puts an archive where it belongs, checked.
func keep(r io.Reader, to string, out io.Writer) (*backup.Manifest, error) {
	if to == toStream {
		return backup.Read(io.TeeReader(r, out), nil)
	}
	return backup.Save(vfs.OS, to, r)
}

// told prefers the reason why ctx has ended to what came of it.
func told(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return err
}

// reader is an io.Reader of a function.
type reader func([]byte) (int, error)

func (r reader) Read(p []byte) (int, error) { return r(p) }

// maxErrorAnswer bounds what is read of an answer that is none.
const maxErrorAnswer = 64 << 10

// open asks for a snapshot.
func (o *backupOptions) open(ctx context.Context) (io.ReadCloser, error) {
	address, err := url.Parse(o.url)
	if err != nil || address.Scheme != "http" && address.Scheme != "https" || address.Host == "" {
		return nil, usageError{fmt.Errorf("--url: got %q, want http://host:port", o.url)}
	}
	target := strings.TrimRight(o.url, "/") + "/api/v1/system/snapshot"
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, target, nil)
	if err != nil {
		return nil, usageError{err}
	}
	if t := token(); t != "" {
		req.Header.Set("Authorization", "Bearer "+t)
	}
	c := &http.Client{
		Transport: &http.Transport{
			Proxy:              http.ProxyFromEnvironment,
			DialContext:        (&net.Dialer{Timeout: 10 * time.Second, KeepAlive: 30 * time.Second}).DialContext,
			DisableCompression: true,
			DisableKeepAlives:  true,
			ReadBufferSize:     256 << 10,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	resp, err := c.Do(req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode == http.StatusOK {
		return resp.Body, nil
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxErrorAnswer))
	if err = errors.Join(err, resp.Body.Close()); err != nil {
		return nil, fmt.Errorf("read the answer of %s: %w", target, err)
	}
	if resp.StatusCode == http.StatusNotFound {
		return nil, fmt.Errorf("%s answers 404: an older broker? %s", target, strings.TrimSpace(string(body)))
	}
	return nil, fmt.Errorf("%s answers %d: %s", target, resp.StatusCode, strings.TrimSpace(string(body)))
}
