package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/spf13/pflag"
)

// settings are what the flags say.
type settings struct {
	mode       string
	rounds     int
	duration   time.Duration
	seed       uint64
	checkpoint string
	skep       string
	dir        string
}

func main() {
	var s settings
	pflag.StringVar(&s.mode, "mode", "all", "kill, torn, powercut, or all: the rounds of kill and half of them of each other")
	pflag.IntVar(&s.rounds, "rounds", 12, "how often the broker is crashed")
	pflag.DurationVar(&s.duration, "duration", 0, "how long each mode runs, instead of a number of rounds")
	pflag.Uint64Var(&s.seed, "seed", 0, "of the random choices; 0 takes one and prints it")
	pflag.StringVar(&s.checkpoint, "checkpoint", "small", "small: the broker files its journal all the time; normal: as configured")
	pflag.StringVar(&s.skep, "skep", "", "path of the skep binary; empty builds ./cmd/skep")
	pflag.StringVar(&s.dir, "dir", "", "where the data and the log go; empty makes a temporary directory")
	pflag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := s.run(ctx, os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintf(os.Stderr, "crash: %v\n", err)
		os.Exit(1)
	}
}

// plan is one mode and how long it runs.
type plan struct {
	mode     string
	rounds   int
	required bool // to be skipped is an error
}

func (s *settings) plans() ([]plan, error) {
	switch s.mode {
	case "kill", "torn", "powercut":
		return []plan{{s.mode, s.rounds, true}}, nil
	case "all":
		half := (s.rounds + 1) / 2
		return []plan{{"kill", s.rounds, true}, {"torn", half, true}, {"powercut", half, false}}, nil
	}
	return nil, fmt.Errorf("unknown mode %q", s.mode)
}

// run runs every mode that is asked for.
func (s *settings) run(ctx context.Context, out io.Writer) (err error) {
	plans, err := s.plans()
	if err != nil {
		return err
	}
	if s.checkpoint != "small" && s.checkpoint != "normal" {
		return fmt.Errorf("unknown checkpoint %q", s.checkpoint)
	}
	if s.seed == 0 {
		s.seed = rand.Uint64()>>32 + 1
	}
	fmt.Fprintf(out, "seed %d\n", s.seed)
	root, err := s.workDir()
	if err != nil {
		return err
	}
	if s.skep == "" {
		s.skep = filepath.Join(root, "skep")
		build := exec.CommandContext(ctx, "go", "build", "-o", s.skep, "github.com/skepmq/skep/cmd/skep")
		if said, err := build.CombinedOutput(); err != nil {
			return fmt.Errorf("build the broker: %w\n%s", err, said)
		}
	}
	for _, p := range plans {
		if err := s.runMode(ctx, filepath.Join(root, p.mode), p, out); err != nil {
			return fmt.Errorf("%s, seed %d, kept %s: %w", p.mode, s.seed, root, err)
		}
	}
	return os.RemoveAll(root)
}

func (s *settings) workDir() (string, error) {
	if s.dir == "" {
		return os.MkdirTemp("", "skep-crash-")
	}
	return os.MkdirTemp(s.dir, "skep-crash-")
}

// runMode runs one mode in a directory of its own.
func (s *settings) runMode(ctx context.Context, dir string, p plan, out io.Writer) (err error) {
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	st, why, err := s.openStore(dir, p.mode)
	if err != nil {
		return err
	}
	if why != "" {
		fmt.Fprintf(out, "%s: skipped: %s\n", p.mode, why)
		return nil
	}
	defer func() { err = errors.Join(err, st.close(err != nil)) }()
	log, err := os.OpenFile(filepath.Join(dir, "broker.log"), os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, log.Close()) }()
	r := &run{
		seed: s.seed, begun: time.Now(), rng: rand.New(rand.NewPCG(s.seed, 1)), check: newChecker(s.seed), gate: newGate(),
		store: st, brokers: &brokers{path: s.skep, log: log},
	}
	if s.checkpoint == "small" {
		r.brokers.checkpoint = "65536"
	}
	err = r.all(ctx, p.rounds, s.duration)
	if r.check.failed() {
		err = errViolation
	}
	r.check.report(out)
	fmt.Fprintln(out, r.summary(p.mode))
	return err
}

// openStore opens the store of a mode; why says what the machine lacks for it.
func (s *settings) openStore(dir, mode string) (st store, why string, err error) {
	switch mode {
	case "torn":
		return &tornStore{killStore{dir}, rand.New(rand.NewPCG(s.seed, 2))}, "", nil
	case "powercut":
		return openPowerStore(dir)
	}
	return &killStore{dir}, "", nil
}
