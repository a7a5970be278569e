package main

import (
	"bytes"
	"net"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"github.com/skepmq/skep/cmd/skep/config"
	"github.com/skepmq/skep/server"
)

// G-833: the header is believed, tokens or not. Who lets others than a proxy send it is told.
func TestG833Warning(t *testing.T) {
	loopback, everywhere := &net.TCPAddr{IP: net.IPv6loopback}, &net.TCPAddr{IP: net.IPv4zero}
	for _, tt := range []struct {
		addr         net.Addr
		tokens, on   bool
		warnings     int
		warnsOfNames bool
	}{
		{loopback, false, true, 0, false}, {everywhere, true, false, 0, false},
		{everywhere, true, true, 1, true}, {everywhere, false, true, 2, true},
	} {
		var out bytes.Buffer
		logger := zerolog.New(&out)
		c := &config.Config{Fsync: "group", AuthEnabled: tt.tokens, Server: server.Options{TenancyHeader: tt.on}}
		logBoot(c, &logger, tt.addr)
		if got := strings.Count(out.String(), `"warn"`); got != tt.warnings {
			t.Errorf("%+v: %d warnings: %s", tt, got, &out)
		}
		if got := strings.Contains(out.String(), "QUEEN_TENANCY_HEADER"); got != tt.warnsOfNames {
			t.Errorf("%+v: %s", tt, &out)
		}
	}
}
