package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/pprof"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"syscall"
	"time"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"

	"github.com/skepmq/skep/broker"
	"github.com/skepmq/skep/cmd/skep/config"
	"github.com/skepmq/skep/log/fsck"
	"github.com/skepmq/skep/segment/vfs"
	"github.com/skepmq/skep/server"
)

// stopTimeout bounds how long a stop waits for requests in progress.
const stopTimeout = 20 * time.Second

func newServeCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run the broker",
		Long: `Run the broker until SIGTERM or SIGINT.

Flags win over the environment. skep config prints what is in force, and from where;
docs/configuration.md lists every variable.`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := config.Load(cmd.Flags(), os.Environ())
			if err != nil {
				return err
			}
			ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGTERM, syscall.SIGINT)
			defer stop()
			context.AfterFunc(ctx, stop) // a second signal kills, also during recovery
			tuneRuntime()
			return serve(ctx, c, cmd.ErrOrStderr())
		},
	}
	config.AddFlags(cmd.Flags())
	return cmd
}

// gcPercent is how far garbage may outgrow what is live before it is collected, unless
// GOGC says otherwise. Half of Go's default: most of what is live are partitions, by the
// million, and a broker's memory should stay near what it holds.
const gcPercent = 50

// recoveryGCPercent is gcPercent while the broker recovers. What it allocates then it
// keeps, nearly all of it, so that looking for garbage as the heap doubles and doubles
// again is a third of the work, and finds a tenth of the memory.
const recoveryGCPercent = 400

// tuneRuntime sets what GOGC and GOMAXPROCS do not. One processor more than there are is
// for the committer, which spends its time in syncs: the scheduler takes tens of
// microseconds to see that, and on two cores lending it one of two costs 8 % of the
// pushes a second.
func tuneRuntime() {
	collectAt(gcPercent)
	if os.Getenv("GOMAXPROCS") == "" {
		runtime.GOMAXPROCS(runtime.GOMAXPROCS(0) + 1)
	}
}

// collectAt sets how far garbage may grow, unless GOGC does.
func collectAt(percent int) {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(percent)
	}
}

// collectLate lets garbage grow while the broker recovers, until end. Where memory is short
// it is collected as when the broker serves with all that it may hold live, see limitHeap: a
// broker that has served must be able to start. limit is the memory there is, 0 for unknown.
func collectLate(limit int64) (end func()) {
	before := debug.SetMemoryLimit(-1)
	if limit > 0 {
		debug.SetMemoryLimit(min(before, limit/2*(100+gcPercent)/100))
	}
	collectAt(recoveryGCPercent)
	return func() {
		collectAt(gcPercent)
		debug.SetMemoryLimit(before)
	}
}

// serve runs a broker until ctx ends. The listener is up before recovery, so that a probe
// is answered 503 instead of refused. It stops in the order of what depends on what:
// long polls, requests, broker, files.
func serve(ctx context.Context, c *config.Config, logTo io.Writer) error {
	logger := newLogger(c, logTo)
	stopAuth, err := secure(c, &logger)
	if err != nil {
		return err
	}
	defer stopAuth()
	ln, err := net.Listen("tcp", c.Listen)
	if err != nil {
		return fmt.Errorf("listen on %s: %w", c.Listen, err)
	}
	nameServer(c)
	logBoot(c, &logger, ln.Addr())
	limitConns(c, &logger)
	limitHosts(c, ln.Addr())
	limitHeap(c, &logger)
	c.Server.Logger = logger
	c.Server.Version, c.Server.Commit = buildVersion(), buildCommit()
	c.Server.MetricsDir, c.Server.TraceDir = filepath.Join(c.DataDir, fsck.MetricsName), filepath.Join(c.DataDir, fsck.TracesName)
	if c.Server.Config, err = json.Marshal(effective(c)); err != nil {
		return err
	}
	srv := server.New(c.Server)
	served := make(chan error, 1)
	go func() { served <- srv.Serve(ln) }()
	stopPprof, err := servePprof(c.Pprof, &logger)
	if err != nil {
		return err
	}
	defer stopPprof()

	c.Broker.Dir, c.Broker.Logger = c.DataDir, logger
	collectNormally := collectLate(memoryLimit(os.ReadFile))
	b, err := broker.Open(c.Broker)
	collectNormally()
	if err != nil {
		if errors.Is(err, vfs.ErrLocked) {
			err = fmt.Errorf("%w: another skep serves this directory", err)
		}
		return errors.Join(err, ln.Close())
	}
	srv.SetBroker(b)
	logger.Info().Str("listen", ln.Addr().String()).Msg("ready")

	select {
	case <-ctx.Done():
		logger.Info().Msg("stopping")
		err = nil
	case err = <-served:
		err = fmt.Errorf("serve: %w", err)
	case <-b.Failed():
		err = broker.ErrStorageFailed
	}
	stopCtx, cancel := context.WithTimeout(context.Background(), stopTimeout)
	defer cancel()
	if stopErr := srv.Shutdown(stopCtx); stopErr != nil {
		logger.Warn().Err(stopErr).Msg("requests were still running at the stop")
	}
	err = errors.Join(err, b.Close())
	logger.Info().Err(err).Msg("stopped")
	return err
}

func newLogger(c *config.Config, logTo io.Writer) zerolog.Logger {
	w := logTo
	zerolog.TimeFieldFormat = time.RFC3339Nano
	if !c.LogJSON {
		w = zerolog.ConsoleWriter{Out: logTo, TimeFormat: "2006-01-02T15:04:05.000Z07:00", NoColor: !terminal(logTo)}
	}
	return zerolog.New(w).Level(c.LogLevel).With().Timestamp().Logger()
}

// servePprof serves profiles on a listener of their own, away from clients.
func servePprof(addr string, logger *zerolog.Logger) (stop func(), err error) {
	if addr == "" {
		return func() {}, nil
	}
	ln, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("listen for profiles on %s: %w", addr, err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	s := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := s.Serve(ln); !errors.Is(err, http.ErrServerClosed) {
			logger.Error().Err(err).Msg("profile listener ended")
		}
	}()
	logger.Info().Str("listen", ln.Addr().String()).Msg("profiles")
	return func() {
		if err := s.Close(); err != nil {
			logger.Warn().Err(err).Msg("close profile listener")
		}
		<-done
	}, nil
}
