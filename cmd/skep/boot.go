package main

import (
	"fmt"
	"net"
	"os"
	"path/filepath"

	"github.com/cespare/xxhash/v2"
	"github.com/rs/zerolog"

	"github.com/skepmq/skep/cmd/skep/config"
)

// logBoot says what is in force, and warns of what weakens a promise or has no effect.
func logBoot(c *config.Config, logger *zerolog.Logger, addr net.Addr) {
	logger.Info().Str("data_dir", c.DataDir).Str("listen", addr.String()).Str("server_id", c.Server.ServerID).Str("fsync", c.Fsync).
		Str("version", versionLine()).Msg("starting")
	line := logger.Info()
	for _, v := range c.Values {
		line = line.Str(v.Name, v.Value)
	}
	line.Msg("configuration")
	if len(c.Remarks.Unknown) > 0 {
		names := make([]string, len(c.Remarks.Unknown))
		for i, u := range c.Remarks.Unknown {
			names[i] = u.String()
		}
		logger.Warn().Strs("variables", names).Msg("unknown variables have no effect")
	}
	if len(c.Remarks.Ignored) > 0 {
		logger.Info().Strs("variables", c.Remarks.Ignored).Msg("variables of other brokers have no effect")
	}
	for _, text := range c.Remarks.Warnings {
		logger.Warn().Msg(text)
	}
	if c.Broker.Keys != nil {
		logger.Info().Int("previous_keys", c.Broker.Keys.Previous()).Msg("encryption service initialized (AES-256-GCM)")
	}
	if c.Fsync != "group" {
		logger.Warn().Str("fsync", c.Fsync).Msg("answered writes may be lost on a power cut: SKEP_FSYNC is not group")
	}
	if !onLoopback(addr) && c.Server.TenancyHeader {
		logger.Warn().Str("listen", addr.String()).
			Msg("anyone who reaches this address may name any tenant, with a token or without: QUEEN_TENANCY_HEADER is true, " +
				"so let only a proxy reach it that sets x-queen-tenant itself")
	}
	if !onLoopback(addr) && !c.AuthEnabled {
		logger.Warn().Str("listen", addr.String()).
			Msg("anyone who reaches this address can read and delete everything: " +
				"QUEEN_BIND_ADDR is not the loopback, and JWT_ENABLED is not true")
	}
}

// nameServer gives a broker that was given no name one of its own, which stays the same over
// restarts: series are kept under it.
func nameServer(c *config.Config) {
	if c.Server.ServerID != "" {
		return
	}
	host, _ := os.Hostname() // without it the directory alone tells brokers apart
	dir, err := filepath.Abs(c.DataDir)
	if err != nil {
		dir = c.DataDir
	}
	c.Server.ServerID = fmt.Sprintf("queen-%08x", uint32(xxhash.Sum64String(host+"\x00"+dir)))
}
