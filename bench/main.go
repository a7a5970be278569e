package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"syscall"
	"time"

	"github.com/spf13/pflag"
)

// options are the flags.
type options struct {
	run           *regexp.Regexp
	duration      time.Duration // of load on the broker, a row
	quick         bool
	noCardinality bool
	dataDir       string
	jsonPath      string
	skep          string
	profileDir    string

	startupDir      string
	startupMessages int64
}

func main() {
	o, serveCeiling, err := parseFlags()
	if err == nil {
		if serveCeiling {
			err = ceilingMain()
		} else {
			err = run(o)
		}
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "bench: %v\n", err)
		os.Exit(1)
	}
}

func parseFlags() (o options, serveCeiling bool, err error) {
	pattern := pflag.String("run", "", "run only the rows that match this regular expression")
	pflag.DurationVar(&o.duration, "duration", 3*time.Second, "load on the broker, a row")
	pflag.BoolVar(&o.quick, "quick", false, "few and short rows")
	pflag.BoolVar(&o.noCardinality, "no-cardinality", false, "leave out the million partitions, which take a minute")
	pflag.StringVar(&o.dataDir, "data-dir", "", "where the brokers' data goes while they run (default: the system's temporary directory)")
	pflag.StringVar(&o.jsonPath, "json", "", "also write the report to this file, as JSON")
	pflag.StringVar(&o.skep, "skep", "", "path of the binary (default: build it)")
	pflag.StringVar(&o.profileDir, "profile", "", "write a CPU profile of the broker for each row of load to this directory")
	pflag.StringVar(&o.startupDir, "startup-dir", "", "keep the directory that startup/1M starts over here, and use it if it is there")
	pflag.Int64Var(&o.startupMessages, "startup-messages", 200_000, "messages of 2.5 kB of startup/backlog")
	pflag.BoolVar(&serveCeiling, ceilingFlag, false, "")
	_ = pflag.CommandLine.MarkHidden(ceilingFlag) // fails for a flag that does not exist
	pflag.Parse()
	if o.quick && !pflag.CommandLine.Changed("duration") {
		o.duration = 500 * time.Millisecond
	}
	o.run, err = regexp.Compile(*pattern)
	return o, serveCeiling, err
}

// run runs the rows that were asked for and prints what they measured.
func run(o options) (err error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	dir, err := os.MkdirTemp(o.dataDir, "skep-bench-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if o.skep == "" {
		o.skep = filepath.Join(dir, "skep")
		if err := buildSkep(ctx, o.skep); err != nil {
			return err
		}
	}
	ceiling, err := startCeiling()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, ceiling.stop()) }()
	b := &bench{ctx: ctx, o: o, dir: dir, ceiling: ceiling}
	r := &report{Host: describeHost(dir)}
	if err := r.measure(b, os.Stdout); err != nil {
		return err
	}
	if o.jsonPath != "" {
		return r.writeJSON(o.jsonPath)
	}
	return nil
}

// measure runs the rows and prints each as it comes.
func (r *report) measure(b *bench, w io.Writer) error {
	r.begin(w)
	for _, s := range scenarios() {
		if !b.o.wants(&s) {
			continue
		}
		row, err := s.run(b, s.name)
		if b.ctx.Err() != nil {
			return errors.New("interrupted")
		}
		if err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
		r.add(w, row)
	}
	r.finish(w)
	return nil
}

func (o *options) wants(s *scenario) bool {
	return o.run.MatchString(s.name) && (s.quick || !o.quick) && (!s.slow || !o.noCardinality) && (!s.named || o.run.String() != "")
}

func buildSkep(ctx context.Context, path string) error {
	cmd := exec.CommandContext(ctx, "go", "build", "-o", path, "github.com/skepmq/skep/cmd/skep")
	cmd.Stderr = os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("build skep: %w", err)
	}
	return nil
}

// bench is what every scenario is given.
type bench struct {
	ctx     context.Context
	o       options
	dir     string // for data directories
	ceiling *ceiling
}

// scenario is one row of the report, not run yet.
type scenario struct {
	name  string
	quick bool // part of --quick
	slow  bool // left out by --no-cardinality
	named bool // run only if --run is given
	run   func(b *bench, name string) (*row, error)
}

// scenarios returns every row, in the order of the report.
func scenarios() []scenario {
	var all []scenario
	all = append(all, pushScenarios()...)
	all = append(all, popScenarios()...)
	all = append(all, endToEndScenarios()...)
	all = append(all, transactionScenarios()...)
	all = append(all, idleScenario(), parkedScenario(), newPartitionsScenario(), amplificationScenario(), adminScenario(), cardinalityScenario())
	all = append(all, hostileScenarios()...)
	all = append(all, reclaimScenarios()...)
	all = append(all, startupScenarios()...)
	return all
}
