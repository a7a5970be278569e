package main

import (
	"io"
	"time"

	"github.com/rs/zerolog"

	"github.com/skepmq/skep/cmd/skep/config"
	"github.com/skepmq/skep/server"
)

// logs makes the logger of each target, which stands in its lines and has its level.
type logs struct {
	base    zerolog.Logger
	level   zerolog.Level
	targets map[string]zerolog.Level
}

func newLogs(c *config.Config, logTo io.Writer) *logs {
	w := logTo
	zerolog.TimeFieldFormat = time.RFC3339Nano
	if !c.LogJSON {
		w = zerolog.ConsoleWriter{Out: logTo, TimeFormat: "2006-01-02T15:04:05.000Z07:00", NoColor: !terminal(logTo)}
	}
	return &logs{zerolog.New(w).With().Timestamp().Logger(), c.LogLevel, c.LogTargets}
}

func (l *logs) of(target string) zerolog.Logger {
	level, ok := l.targets[target]
	if !ok {
		level = l.level
	}
	return l.base.Level(level).With().Str("target", target).Logger()
}

// lastLine says why the broker has ended as the log says all else: who reads objects cannot
// read the line that main would print.
func lastLine(c *config.Config, logTo io.Writer, err error) error {
	if err == nil || !c.LogJSON {
		return err
	}
	logger := newLogs(c, logTo).base
	logger.WithLevel(zerolog.FatalLevel).Str("target", "serve").Err(err).Msg("ended")
	return exitError{status: 1}
}

// ofRequests returns the loggers of the operations that were named with a level at which
// requests are logged.
func (l *logs) ofRequests() map[string]zerolog.Logger {
	named := map[string]zerolog.Logger{}
	for _, op := range server.Operations() {
		if level, ok := l.targets[op]; ok && level <= zerolog.DebugLevel {
			named[op] = l.of(op)
		}
	}
	return named
}
