package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/skepmq/skep/cmd/skep/config"
)

// G-902: a target has its own level, and the others that of the whole log. Requests are logged
// of operations that are named.
func TestG902Levels(t *testing.T) {
	for _, tt := range []struct{ level, lines, requests string }{
		{"info", "serve journal", ""},
		{"debug", "serve journal pop", ""},
		{"warn,journal=info", "journal", ""},
		{"info,serve=off,rates=debug", "journal", ""},
		{"error,pop=debug,push=info,ack=off", "pop", "pop"},
		{"off,pop=trace,ack=debug", "pop", "ack pop"},
	} {
		c, err := config.Load(nil, []string{"LOG_LEVEL=" + tt.level, "QUEEN_LOG_JSON=true"})
		if err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		logs := newLogs(c, &out)
		serve, journal, pop := logs.of("serve"), logs.of("journal"), logs.of("pop")
		serve.Info().Send()
		journal.Info().Send()
		pop.Debug().Send()
		var lines []string
		for line := range strings.Lines(out.String()) {
			_, target, _ := strings.Cut(line, `"target":"`)
			target, _, _ = strings.Cut(target, `"`)
			lines = append(lines, target)
		}
		if got := strings.Join(lines, " "); got != tt.lines {
			t.Errorf("%s: lines of %q, want %q", tt.level, got, tt.lines)
		}
		named := logs.ofRequests()
		for op := range strings.FieldsSeq(tt.requests) {
			if _, ok := named[op]; !ok {
				t.Errorf("%s: no requests of %s", tt.level, op)
			}
		}
		if len(named) != len(strings.Fields(tt.requests)) {
			t.Errorf("%s: requests of %v, want %q", tt.level, named, tt.requests)
		}
	}
}
