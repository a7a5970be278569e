package config

import (
	"errors"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/skepmq/skep/broker"
	"github.com/skepmq/skep/log/journal"
	"github.com/skepmq/skep/server"
)

// settings is the table: all that can be set, in the order in which it is applied.
func settings() []setting {
	return slices.Concat(mainSettings(), encryptionSettings(), tokenSettings())
}

func mainSettings() []setting {
	return []setting{
		{name: "SKEP_DATA_DIR", flag: "data-dir", value: "./data", meaning: "directory of everything stored; made if it is missing",
			kind: words("a path", func(c *Config, v string) error { c.DataDir = v; return nil })},
		{name: "QUEEN_BIND_ADDR", value: "127.0.0.1", meaning: "address to serve on. Anyone who reaches it may do everything, unless `JWT_ENABLED` is true",
			kind: words("an address without a port", (*Config).setBindAddr)},
		{name: "PORT", value: "6632", meaning: "port to serve on; 0 takes a free one, and the log says which",
			kind: number("", 0, 65535, (*Config).setPort)},
		{flag: "listen", absent: "127.0.0.1:6632", meaning: "`QUEEN_BIND_ADDR` and `PORT` at once; wins over them",
			kind: words("HOST:PORT", (*Config).setListen)},
		{name: "QUEEN_SERVER_ID", alias: "HOSTNAME", absent: "queen- and eight digits, told from machine and directory", meaning: "what the broker calls itself in its log and as `hostname` in [series](http-api.md#status-and-series)",
			kind: words("a name", func(c *Config, v string) error { c.Server.ServerID = v; return nil })},
		{name: "SKEP_FSYNC", value: "group", meaning: "when an answered write is on disk; see [guarantees.md](guarantees.md#skep_fsync)",
			kind: words("`group`, `interval:<ms>` with at least 1, `never`", (*Config).setFsync)},
		{name: "SKEP_SEGMENT_BYTES", value: size(broker.DefaultSegmentBytes), meaning: "size at which a segment file is full",
			kind: number("bytes", 1<<20, 1<<31, func(c *Config, n int64) { c.Broker.SegmentBytes = n })},
		{name: "SKEP_CHECKPOINT_BYTES", value: size(broker.DefaultCheckpointBytes), meaning: "bytes of journal that start a checkpoint. One starts after 60 s in any case",
			kind: number("bytes", 1<<16, 1<<40, func(c *Config, n int64) { c.Broker.CheckpointBytes = n })},
		{name: "SKEP_MAX_UNFILED_BYTES", value: size(broker.DefaultMaxUnfiledBytes), meaning: "bytes of journal not yet filed, at which pushes wait for a checkpoint",
			kind: number("bytes", 1<<20, 1<<40, func(c *Config, n int64) { c.Broker.MaxUnfiledBytes = n })},
		{name: "SKEP_DISK_HIGH_PCT", value: size(broker.DefaultDiskHighPercent), meaning: "part of the disk in use from which pushes are refused, if less than 8 GiB is free",
			kind: number("percent", 1, 100, func(c *Config, n int64) { c.Broker.DiskHighPercent = int(n) })},
		{name: "SKEP_MAX_HEAP_BYTES", absent: "half of the memory", meaning: "live memory from which new queues, partitions and groups are refused; see [operations.md](operations.md#how-much-memory). The default is of the machine, its container, its unit or `GOMEMLIMIT`, whichever has least",
			kind: number("bytes", 1<<20, 1<<50, func(c *Config, n int64) { c.Broker.MaxHeapBytes = n })},
		{name: "SKEP_MAX_PARKED", value: size(broker.DefaultMaxParked), meaning: "long polls that may wait at a time",
			kind: number("", 1, 1<<31, func(c *Config, n int64) { c.Broker.MaxParked = int(n) })},
		{name: "SKEP_DELIVERY_DETAILS", value: "false", meaning: "adds `offset` to the answer of a push, `deliveryAttempt` and `offset` to messages",
			kind: boolean(func(c *Config, v bool) { c.Server.DeliveryDetails = v })},
		{name: "RETENTION_INTERVAL", value: size(broker.DefaultRetentionInterval / time.Millisecond), meaning: "pause between two looks at what [retention](operations.md#retention) may drop",
			kind: milliseconds(1, 1<<31, func(c *Config, d time.Duration) { c.Broker.RetentionInterval = d })},
		{name: "PARTITION_CLEANUP_DAYS", value: size(broker.DefaultCleanupAge / day), meaning: "time without use after which an empty partition is removed",
			kind: clamped("days", -1<<31, 1, maxCleanupDays, func(c *Config, n int64) { c.Broker.CleanupAge = time.Duration(n) * day })},
		// After the days: without cleanup they do not matter.
		{name: "QUEEN_PARTITION_CLEANUP_ENABLED", value: "true", meaning: "whether such partitions are removed",
			kind: boolean(func(c *Config, on bool) {
				if !on {
					c.Broker.CleanupAge = -1
				}
			})},
		{name: "QUEEN_DEDUP_CACHE_MB", value: size(broker.DefaultDedupCacheBytes >> 20), meaning: "memory for transaction ids; older ones are looked up on disk",
			kind: number("MiB", 1, 1<<20, func(c *Config, n int64) { c.Broker.DedupCacheBytes = n << 20 })},
		{name: "QUEEN_MAX_BODY_BYTES", value: size(server.DefaultMaxBodyBytes), meaning: "largest request body",
			kind: number("bytes", 1, 1<<30, func(c *Config, n int64) { c.Server.MaxBodyBytes = n })},
		{name: "SKEP_IN_FLIGHT_BYTES", value: size(server.DefaultInFlightBytes), meaning: "all request bodies at a time, beyond 8 KiB each, and what they are decoded to",
			kind: number("bytes", 1<<20, 1<<40, func(c *Config, n int64) { c.Server.InFlightBytes = n })},
		{name: "SKEP_ANSWER_BYTES", value: size(server.DefaultAnswerBytes), meaning: "all answers at a time that are being made or written, beyond 64 KiB each",
			kind: number("bytes", 1<<20, 1<<40, func(c *Config, n int64) { c.Server.AnswerBytes = n })},
		{name: "SKEP_METRICS_MAX_GROUPS", value: size(server.DefaultMetricsGroups), meaning: "consumer groups whose lag is in the [metrics](http-api.md#metrics), those furthest behind",
			kind: number("", 1, 1_000_000, func(c *Config, n int64) { c.Server.MetricsGroups = int(n) })},
		{name: "SKEP_METRICS_MAX_QUEUES", value: size(server.DefaultMetricsQueues), meaning: "queues that have numbers of their own in the metrics, those with most traffic in their newest minute",
			kind: number("", 1, 1_000_000, func(c *Config, n int64) { c.Server.MetricsQueues = int(n) })},
		{name: "METRICS_RETENTION_DAYS", value: size(server.DefaultMetricsRetention / day), meaning: "how long the records of what went through are kept, one a minute",
			kind: number("days", 1, 36_500, func(c *Config, n int64) { c.Server.MetricsRetention = time.Duration(n) * day })},
		{name: "SKEP_METRICS_MAX_BYTES", value: size(server.DefaultMetricsBytes), meaning: "most that these records may take on [disk](operations.md#the-data-directory)",
			kind: number("bytes", 1<<20, 1<<40, func(c *Config, n int64) { c.Server.MetricsBytes = n })},
		{name: "METRICS_FLUSH_MS", value: size(server.DefaultMetricsEvery / time.Millisecond), meaning: "pause between two of these records",
			kind: milliseconds(1000, 3_600_000, func(c *Config, d time.Duration) { c.Server.MetricsEvery = d })},
		{name: "TRACE_RETENTION_DAYS", value: "0", meaning: "how long [traces](http-api.md#traces) are kept; 0 is for ever",
			kind: number("days", 0, 36_500, func(c *Config, n int64) { c.Server.TraceRetention = time.Duration(n) * day })},
		{name: "SKEP_MAX_CONNS", value: size(server.DefaultMaxConns), meaning: "connections served at a time, fewer if the limit of [open files](operations.md#file-descriptors) is lower. Another is answered 503 and closed",
			kind: number("", 1, 1<<31, func(c *Config, n int64) { c.Server.MaxConns = int(n) })},
		{name: "QUEEN_TENANCY_HEADER", value: "false", meaning: "whether the header `x-queen-tenant` of a request says whose queues it is about; see [security.md](security.md#tenants)",
			kind: boolean(func(c *Config, v bool) { c.Server.TenancyHeader = v })},
		{name: "DEFAULT_TIMEOUT", alias: "POP_DEFAULT_TIMEOUT_MS", value: size(server.DefaultPopTimeout / time.Millisecond), meaning: "how long a pop waits that has `wait=true` and no `timeout`",
			kind: milliseconds(1, 600_000, func(c *Config, d time.Duration) { c.Server.PopTimeout = d })},
		{name: "DEFAULT_SUBSCRIPTION_MODE", value: "all", meaning: "where a group begins whose first pop does not say",
			kind: oneOf([]string{"all", "new"}, func(c *Config, v string) { c.Server.DefaultSubscriptionMode = v })},
		{name: "QUEEN_LOG_JSON", value: "false", meaning: "log lines as JSON instead of text",
			kind: boolean(func(c *Config, v bool) { c.LogJSON = v })},
		{name: "QUEEN_LOG_RATES_MS", value: size(10 * time.Second / time.Millisecond), meaning: "pause between two [lines](operations.md#what-goes-through) of log that tell what goes through and what there is; 0 for none",
			kind: milliseconds(0, 86_400_000, func(c *Config, d time.Duration) { c.Server.LogRatesEvery = d })},
		{name: "QUEEN_LOG_TOPN_QUEUES", value: "10", meaning: "queues that these lines name, the busiest; 0 for none",
			kind: number("", 0, 1000, func(c *Config, n int64) { c.Server.LogTopQueues = int(n) })},
		{name: "RUST_LOG", alias: "LOG_LEVEL", value: "info", meaning: "least level that is logged, also of one [target](operations.md#levels), as in `info,pop=debug`",
			kind: kind{"", "`trace`, `debug`, `info`, `warn`, `error`, `fatal`, `panic`, `off`; with commas `target=level`", (*Config).setLogLevel}},
		{name: "SKEP_PPROF", flag: "pprof", absent: "none", meaning: "HOST:PORT of a second listener for profiles, `/debug/pprof/`",
			kind: words("HOST:PORT", func(c *Config, v string) error {
				c.Pprof = v
				_, _, err := net.SplitHostPort(v)
				return err
			})},
	}
}

// size writes the default of a number.
func size[T int | int64 | time.Duration](n T) string { return strconv.FormatInt(int64(n), 10) }

const day = 24 * time.Hour

// maxCleanupDays is a hundred years, within what a duration can say.
const maxCleanupDays = 36_500

func (c *Config) setBindAddr(v string) error {
	if _, _, err := net.SplitHostPort(v); err == nil {
		return errors.New("PORT or --listen set the port")
	}
	c.Listen = net.JoinHostPort(strings.Trim(v, "[]"), "")
	return nil
}

func (c *Config) setPort(n int64) {
	host, _, _ := net.SplitHostPort(c.Listen)
	c.Listen = net.JoinHostPort(host, strconv.FormatInt(n, 10))
}

func (c *Config) setListen(v string) error {
	host, port, err := net.SplitHostPort(v)
	if err != nil {
		return errors.New("not an address with a port")
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return errors.New("not a port, 0 to 65535")
	}
	c.Listen = v
	c.override("QUEEN_BIND_ADDR", host, "--listen")
	c.override("PORT", port, "--listen")
	return nil
}

// setFsync reads group, interval:<ms> or never.
func (c *Config) setFsync(v string) error {
	ms, interval := strings.CutPrefix(v, "interval:")
	switch {
	case v == "group":
		c.Broker.Sync = journal.SyncGroup
	case v == "never":
		c.Broker.Sync = journal.SyncNever
	case interval:
		n, err := strconv.ParseInt(ms, 10, 32)
		if err != nil || n < 1 {
			return errors.New("not a whole number of milliseconds")
		}
		c.Broker.Sync, c.Broker.SyncInterval = journal.SyncInterval, time.Duration(n)*time.Millisecond
	default:
		return errors.New("not known")
	}
	c.Fsync = v
	return nil
}
