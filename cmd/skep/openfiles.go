package main

import (
	"github.com/rs/zerolog"

	"github.com/skepmq/skep/cmd/skep/config"
)

// storageFiles is how many open files are left to storage: 256 segments for readers, as many
// again for more readers at once and for checkpoints, and some for the logs.
const storageFiles = 600

// connsWithin returns how many connections a process that may have limit open files can
// serve, at most want. Connections alone must not use them up: a log that cannot open its
// next file has failed, and the process ends. 0 means no limit is known.
func connsWithin(limit uint64, want int) int {
	if limit == 0 {
		return want
	}
	room := limit / 2
	if limit > 2*storageFiles {
		room = limit - storageFiles
	}
	if uint64(want) <= room {
		return want
	}
	return int(room)
}

// limitConns fits the number of connections into the limit of open files.
func limitConns(c *config.Config, logger *zerolog.Logger) {
	want, limit := c.Server.MaxConns, openFileLimit()
	if c.Server.MaxConns = connsWithin(limit, want); c.Server.MaxConns < want {
		logger.Info().Int("max_conns", c.Server.MaxConns).Uint64("open_files", limit).
			Msg("the limit of open files bounds the connections")
	}
}
