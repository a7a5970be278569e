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

	"github.com/skepmq/skep/bench/rig"
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
	pflag.StringVar(&s.mode, "mode", "all", "kill, torn, powercut, powercut-commit1, powercut-xfs, or all: the rounds of kill and half of them of torn and powercut")
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
	case "kill", "torn", "powercut", "powercut-commit1", "powercut-xfs":
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
	st, err := s.openStore(dir, p.mode)
	if lacking := rig.Lacking(""); errors.As(err, &lacking) {
		fmt.Fprintf(out, "%s: skipped: %s\n", p.mode, lacking)
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, st.close(err != nil)) }()
	log, err := os.OpenFile(filepath.Join(dir, "broker.log"), os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, log.Close()) }()
	r := &run{
		seed: s.seed, begun: time.Now(), rng: rand.New(rand.NewPCG(s.seed, 1)), check: newChecker(s.seed), gate: newGate(),
		store: st, brokers: &rig.Brokers{Path: s.skep, Log: log, Env: []string{"SKEP_DELIVERY_DETAILS=true", "RETENTION_INTERVAL=200"}},
	}
	if s.checkpoint == "small" {
		r.brokers.Env = append(r.brokers.Env, "SKEP_CHECKPOINT_BYTES=65536")
	}
	r.verifies = r.brokers.CanVerify()
	err = r.all(ctx, p.rounds, s.duration)
	if r.check.failed() {
		err = errViolation
	}
	r.check.report(out)
	fmt.Fprintln(out, r.summary(p.mode))
	return err
}

// disks are the file systems of the modes that cut the power. With commit=1 an ext4 writes
// its own journal back every second, so that a cut finds names and sizes without their data.
var disks = map[string]rig.DiskOptions{
	"powercut":         {Kind: "ext4"},
	"powercut-commit1": {Kind: "ext4", Mount: "commit=1"},
	"powercut-xfs":     {Kind: "xfs"},
}

// openStore opens the store of a mode. Its error is a rig.Lacking if the machine cannot
// have one.
func (s *settings) openStore(dir, mode string) (store, error) {
	if o, ok := disks[mode]; ok {
		d, err := rig.OpenDisk(dir, o)
		return &powerStore{d}, err
	}
	if mode == "torn" {
		return &tornStore{killStore{dir}, rand.New(rand.NewPCG(s.seed, 2))}, nil
	}
	return &killStore{dir}, nil
}
