package main

import (
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"github.com/skepmq/skep/broker"
	"github.com/skepmq/skep/log/journal"
	"github.com/skepmq/skep/server"
)

// config is what flags and environment say.
type config struct {
	dataDir  string
	listen   string
	pprof    string
	logLevel zerolog.Level
	logJSON  bool
	fsync    string
	broker   broker.Options
	server   server.Options
}

// variable is one environment variable and where its value goes.
type variable struct {
	name string
	set  func(c *config, value string) error
}

// variables is every environment variable that is read, in order: a later one wins over
// an earlier one of the same meaning.
func variables() []variable {
	return []variable{
		{"SKEP_DATA_DIR", func(c *config, v string) error { c.dataDir = v; return nil }},
		{"QUEEN_BIND_ADDR", (*config).setBindAddr},
		{"PORT", (*config).setPort},
		{"SKEP_FSYNC", (*config).setFsync},
		{"SKEP_SEGMENT_BYTES", number(1<<20, 1<<31, func(c *config, n int64) { c.broker.SegmentBytes = n })},
		{"SKEP_CHECKPOINT_BYTES", number(1<<16, 1<<40, func(c *config, n int64) { c.broker.CheckpointBytes = n })},
		{"SKEP_MAX_UNFILED_BYTES", number(1<<20, 1<<40, func(c *config, n int64) { c.broker.MaxUnfiledBytes = n })},
		{"SKEP_DISK_HIGH_PCT", number(1, 100, func(c *config, n int64) { c.broker.DiskHighPercent = int(n) })},
		{"SKEP_MAX_HEAP_BYTES", number(1<<20, 1<<50, func(c *config, n int64) { c.broker.MaxHeapBytes = n })},
		{"SKEP_MAX_PARKED", number(1, 1<<31, func(c *config, n int64) { c.broker.MaxParked = int(n) })},
		{"SKEP_DELIVERY_DETAILS", boolean(func(c *config, v bool) { c.server.DeliveryDetails = v })},
		{"RETENTION_INTERVAL", number(1, 1<<31, func(c *config, n int64) { c.broker.RetentionInterval = time.Duration(n) * time.Millisecond })},
		{"PARTITION_CLEANUP_DAYS", number(-1<<31, maxCleanupDays, setCleanupDays)},
		{"QUEEN_PARTITION_CLEANUP_ENABLED", boolean(setCleanup)},
		{"QUEEN_DEDUP_CACHE_MB", number(1, 1<<20, func(c *config, n int64) { c.broker.DedupCacheBytes = n << 20 })},
		{"QUEEN_MAX_BODY_BYTES", number(1, 1<<30, func(c *config, n int64) { c.server.MaxBodyBytes = n })},
		{"SKEP_IN_FLIGHT_BYTES", number(1<<20, 1<<40, func(c *config, n int64) { c.server.InFlightBytes = n })},
		{"SKEP_ANSWER_BYTES", number(1<<20, 1<<40, func(c *config, n int64) { c.server.AnswerBytes = n })},
		{"SKEP_MAX_CONNS", number(1, 1<<31, func(c *config, n int64) { c.server.MaxConns = int(n) })},
		{"SKEP_METRICS_MAX_GROUPS", number(1, 1_000_000, func(c *config, n int64) { c.server.MetricsGroups = int(n) })},
		{"METRICS_RETENTION_DAYS", number(1, 36_500, func(c *config, n int64) { c.server.MetricsRetention = time.Duration(n) * 24 * time.Hour })},
		{"METRICS_FLUSH_MS", number(1000, 3_600_000, func(c *config, n int64) { c.server.MetricsEvery = time.Duration(n) * time.Millisecond })},
		{"POP_DEFAULT_TIMEOUT_MS", number(1, 600_000, setPopTimeout)},
		{"DEFAULT_TIMEOUT", number(1, 600_000, setPopTimeout)},
		{"DEFAULT_SUBSCRIPTION_MODE", (*config).setSubscriptionMode},
		{"QUEEN_LOG_JSON", boolean(func(c *config, v bool) { c.logJSON = v })},
		{"LOG_LEVEL", (*config).setLogLevel},
		{"RUST_LOG", (*config).setLogLevel},
	}
}

// configFromEnv reads the environment. A blank value counts as unset; a wrong one is an
// error that names the variable.
func configFromEnv(lookup func(string) (string, bool)) (config, error) {
	c := config{dataDir: "./data", listen: "127.0.0.1:6632", logLevel: zerolog.InfoLevel, fsync: "group"}
	for _, v := range variables() {
		value, ok := lookup(v.name)
		if value = strings.TrimSpace(value); !ok || value == "" {
			continue
		}
		if err := v.set(&c, value); err != nil {
			return c, fmt.Errorf("%s=%q: %w", v.name, value, err)
		}
	}
	return c, nil
}

func number(low, high int64, set func(*config, int64)) func(*config, string) error {
	return func(c *config, value string) error {
		n, err := strconv.ParseInt(value, 10, 64)
		if err != nil {
			return fmt.Errorf("not a whole number")
		}
		if n < low || n > high {
			return fmt.Errorf("not between %d and %d", low, high)
		}
		set(c, n)
		return nil
	}
}

func boolean(set func(*config, bool)) func(*config, string) error {
	return func(c *config, value string) error {
		switch strings.ToLower(value) {
		case "true", "1", "yes", "on":
			set(c, true)
		case "false", "0", "no", "off":
			set(c, false)
		default:
			return fmt.Errorf("not true or false")
		}
		return nil
	}
}

func setPopTimeout(c *config, ms int64) { c.server.PopTimeout = time.Duration(ms) * time.Millisecond }

// maxCleanupDays is a hundred years, within what a duration can say.
const maxCleanupDays = 36_500

// setCleanupDays takes less than a day as a day.
func setCleanupDays(c *config, days int64) {
	c.broker.CleanupAge = time.Duration(max(days, 1)) * 24 * time.Hour
}

// setCleanup comes after the days: without cleanup they do not matter.
func setCleanup(c *config, on bool) {
	if !on {
		c.broker.CleanupAge = -1
	}
}

func (c *config) setBindAddr(v string) error {
	if _, _, err := net.SplitHostPort(v); err == nil {
		return fmt.Errorf("an address without a port; PORT or --listen set the port")
	}
	_, port, _ := net.SplitHostPort(c.listen)
	c.listen = net.JoinHostPort(strings.Trim(v, "[]"), port)
	return nil
}

func (c *config) setPort(v string) error {
	n, err := strconv.ParseUint(v, 10, 16)
	if err != nil {
		return fmt.Errorf("not a port")
	}
	host, _, _ := net.SplitHostPort(c.listen)
	c.listen = net.JoinHostPort(host, strconv.FormatUint(n, 10))
	return nil
}

// setFsync reads group, interval:<ms> or never.
func (c *config) setFsync(v string) error {
	ms, interval := strings.CutPrefix(v, "interval:")
	switch {
	case v == "group":
		c.broker.Sync = journal.SyncGroup
	case v == "never":
		c.broker.Sync = journal.SyncNever
	case interval:
		n, err := strconv.Atoi(ms)
		if err != nil || n < 1 {
			return fmt.Errorf("interval:<ms> takes a whole number of milliseconds, at least 1")
		}
		c.broker.Sync, c.broker.SyncInterval = journal.SyncInterval, time.Duration(n)*time.Millisecond
	default:
		return fmt.Errorf("not group, interval:<ms> or never")
	}
	c.fsync = v
	return nil
}

func (c *config) setSubscriptionMode(v string) error {
	if v != "all" && v != "new" {
		return fmt.Errorf("not all or new")
	}
	c.server.DefaultSubscriptionMode = v
	return nil
}

// setLogLevel reads the level; filters for parts of the program are passed over.
func (c *config) setLogLevel(v string) error {
	for _, part := range strings.Split(v, ",") {
		part = strings.ToLower(strings.TrimSpace(part))
		if part == "" || strings.Contains(part, "=") {
			continue
		}
		if part == "off" {
			part = zerolog.Disabled.String()
		}
		level, err := zerolog.ParseLevel(part)
		if err != nil {
			return fmt.Errorf("not a log level")
		}
		c.logLevel = level
	}
	return nil
}

// limitConns fits the number of connections into the limit of open files.
func (c *config) limitConns(logger *zerolog.Logger) {
	want := c.server.MaxConns
	if want == 0 {
		want = server.DefaultMaxConns
	}
	limit := openFileLimit()
	if c.server.MaxConns = connsWithin(limit, want); c.server.MaxConns < want {
		logger.Info().Int("max_conns", c.server.MaxConns).Uint64("open_files", limit).
			Msg("the limit of open files bounds the connections")
	}
}

// log says what is in force, and warns of what weakens a promise.
func (c *config) log(logger *zerolog.Logger, addr net.Addr) {
	logger.Info().Str("data_dir", c.dataDir).Str("listen", addr.String()).Str("fsync", c.fsync).
		Str("version", versionLine()).Msg("starting")
	if c.fsync != "group" {
		logger.Warn().Str("fsync", c.fsync).Msg("answered writes may be lost on a power cut: SKEP_FSYNC is not group")
	}
	if tcp, ok := addr.(*net.TCPAddr); ok && !tcp.IP.IsLoopback() {
		logger.Warn().Str("listen", addr.String()).
			Msg("anyone who reaches this address can read and delete everything: authentication is off")
	}
}
