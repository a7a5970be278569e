package model

import (
	"flag"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// TestMain sets what is tried where the command line does not say: the same histories every
// time, so that a change is to blame when they fail. make model tries others. A failing
// history is told by its seed, so nothing is left behind.
func TestMain(m *testing.M) {
	for name, value := range map[string]string{
		"rapid.checks": "150", "rapid.seed": "1", "rapid.steps": "120", "rapid.nofailfile": "true", "rapid.shrinktime": "20s",
	} {
		if err := flag.Set(name, value); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(2)
		}
	}
	flag.Parse()
	os.Exit(m.Run())
}

var modelFor = flag.Duration("model.duration", 0, "how long histories go on; 0: for rapid.checks of them")

// lived counts what histories are made of.
type lived struct{ histories, operations, restarts, crashes int }

// TestModel lets a broker and the model live through random histories until they
// disagree.
func TestModel(t *testing.T) {
	var failed []string
	var n lived
	defer func() {
		if t.Failed() {
			t.Logf("the history:\n%s", strings.Join(failed, "\n"))
		}
		t.Logf("%d histories, %d operations, %d restarts, %d crashes", n.histories, n.operations, n.restarts, n.crashes)
	}()
	until := time.Now().Add(*modelFor)
	for seed := firstSeed(); ; seed += 1_000_000 {
		if err := flag.Set("rapid.seed", fmt.Sprint(seed)); err != nil {
			t.Fatal(err)
		}
		rapid.Check(quiet{t}, func(t *rapid.T) { live(t, &n, &failed) })
		if t.Failed() || !time.Now().Before(until) {
			return
		}
	}
}

// firstSeed is the one that the command line asks for, or any.
func firstSeed() int64 {
	if f := flag.Lookup("rapid.seed"); f.Value.String() != "0" {
		n, _ := strconv.ParseInt(f.Value.String(), 10, 64)
		return n
	}
	return time.Now().Unix()
}

// live is one history.
func live(t *rapid.T, n *lived, failed *[]string) {
	x, err := newMachine(t)
	defer func() {
		if x.failed {
			*failed = x.history // the latest one is the shortest
		}
		n.histories++
		n.operations += len(x.history)
		n.restarts += x.restarts
		n.crashes += x.crashes
	}()
	defer x.w.end(t)
	if err != nil {
		t.Fatal(err)
	}
	t.Repeat(map[string]func(*rapid.T){"": func(*rapid.T) {}, "step": x.step})
	x.audit(t)
}

// quiet leaves out the values drawn: the history says what they meant.
type quiet struct{ *testing.T }

func (q quiet) Logf(format string, args ...any) {
	if !strings.HasPrefix(format, "[rapid] draw") {
		q.Helper()
		q.T.Logf(format, args...)
	}
}
