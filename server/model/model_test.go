package model

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// TestMain sets how much is tried where the command line does not say. A failing history
// is told by its seed, so nothing is left behind.
func TestMain(m *testing.M) {
	for name, value := range map[string]string{
		"rapid.checks": "150", "rapid.steps": "120", "rapid.nofailfile": "true", "rapid.shrinktime": "20s",
	} {
		if err := flag.Set(name, value); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(2)
		}
	}
	flag.Parse()
	os.Exit(m.Run())
}

// TestModel lets a broker and the model live through random histories until they
// disagree.
func TestModel(t *testing.T) {
	var failed []string
	defer func() {
		if t.Failed() {
			t.Logf("the history:\n%s", strings.Join(failed, "\n"))
		}
	}()
	rapid.Check(quiet{t}, func(t *rapid.T) {
		x, err := newMachine(t)
		defer func() {
			if x.failed {
				failed = x.history // the latest one is the shortest
			}
		}()
		defer x.w.end(t)
		if err != nil {
			t.Fatal(err)
		}
		t.Repeat(map[string]func(*rapid.T){"": func(*rapid.T) {}, "step": x.step})
		x.audit(t)
	})
}

// quiet leaves out the values drawn: the history says what they meant.
type quiet struct{ *testing.T }

func (q quiet) Logf(format string, args ...any) {
	if !strings.HasPrefix(format, "[rapid] draw") {
		q.Helper()
		q.T.Logf(format, args...)
	}
}
