package main

import (
	"bytes"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
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

// G-831: the tenant is that of the flag, or else of the environment, or none.
func TestG831Flag(t *testing.T) {
	for name, tt := range map[string]struct {
		env, flag string
		want      []string
	}{
		"neither":             {"", "", nil},
		"flag":                {"", "a", []string{"a"}},
		"environment":         {"b", "", []string{"b"}},
		"flag over the other": {"b", "a", []string{"a"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("SKEP_TENANT", tt.env)
			broker := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if got := r.Header.Values("x-queen-tenant"); !slices.Equal(got, tt.want) {
					t.Errorf("%s: tenants %q, want %q", r.URL.Path, got, tt.want)
				}
				if r.Method == "GET" {
					w.WriteHeader(http.StatusNoContent)
					return
				}
				w.WriteHeader(http.StatusCreated)
				_, _ = io.WriteString(w, `[{"index":0,"message_id":"m","transaction_id":"t","queueName":"q","status":"queued"}]`)
			}))
			defer broker.Close()
			for _, args := range [][]string{{"push"}, {"consume", "--until-empty"}} {
				args = append(args, "--url", broker.URL, "--queue", "q", "--retries", "0")
				if tt.flag != "" {
					args = append(args, "--tenant", tt.flag)
				}
				var stderr bytes.Buffer
				if status := run(t.Context(), args, strings.NewReader("1\n"), io.Discard, &stderr); status != 0 {
					t.Errorf("%v: status %d: %s", args, status, &stderr)
				}
			}
		})
	}
}
