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
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/pflag"

	"github.com/skepmq/skep/bench/rig"
)

// settings are what the flags say.
type settings struct {
	duration time.Duration
	seed     uint64
	only     []string
	skep     string
	dir      string
}

func main() {
	var s settings
	var list bool
	pflag.DurationVar(&s.duration, "duration", 5*time.Minute, "how long all parts take together, about; each does one round at least")
	pflag.Uint64Var(&s.seed, "seed", 0, "of the random choices; 0 takes one and prints it")
	pflag.StringSliceVar(&s.only, "only", nil, "the parts to run; empty: all")
	pflag.StringVar(&s.skep, "skep", "", "path of the skep binary; empty builds ./cmd/skep")
	pflag.StringVar(&s.dir, "dir", "", "where data and logs go; empty makes a temporary directory")
	pflag.BoolVar(&list, "list", false, "print the parts and what they do")
	pflag.Parse()
	if list {
		for _, p := range parts {
			fmt.Printf("%-18s %s\n", p.name, p.what)
		}
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := s.run(ctx, os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintf(os.Stderr, "torture: %v\n", err)
		os.Exit(1)
	}
}

// part is one kind of fault.
type part struct {
	name, what string
	weight     int // its share of the duration
	run        func(*env) error
}

// env is what a part has to itself.
type env struct {
	ctx      context.Context
	dir      string // empty, of its own
	skep     string
	tool     func(pkg string) (path string, err error) // builds a command of ours
	seed     uint64
	rng      *rand.Rand
	duration time.Duration
	deadline time.Time
	log      *os.File // of all brokers
	counts   counts
}

// more reports whether there is time for round n, counted from 0. The first always has.
func (e *env) more(n int) bool {
	return e.ctx.Err() == nil && (n == 0 || time.Now().Before(e.deadline))
}

// brokers makes brokers with variables of the environment.
func (e *env) brokers(variables ...string) *rig.Brokers {
	return &rig.Brokers{Path: e.skep, Log: e.log, Env: variables}
}

// start starts a broker, waits until it serves, and turns a to it.
func (e *env) start(b *rig.Brokers, dir string, a *api) (*rig.Process, error) {
	begun := time.Now()
	for attempt := 0; ; attempt++ {
		p, err := b.Start(dir)
		if err != nil {
			return nil, err
		}
		if err = p.Ready(e.ctx); err == nil {
			e.counts.add("starts", 1)
			e.counts.max("slowest start ms", time.Since(begun).Milliseconds())
			a.moveTo(p.Address)
			return p, nil
		}
		p.Kill()
		if attempt == 3 || !b.PortTaken(p) {
			return nil, violated("start", "%v\n%s", err, b.LastWords(p))
		}
	}
}

// verify has the broker check a directory that nobody serves, and expects it clean.
func (e *env) verify(b *rig.Brokers, dir string) error {
	if !b.CanVerify() {
		return nil
	}
	e.counts.add("verified", 1)
	_, err := b.Verify(dir)
	if errors.Is(err, rig.ErrFindings) {
		return violated("verify", "%v", err)
	}
	return err
}

// counts are what a part has to tell, in the order in which they came up.
type counts struct {
	names []string
	n     map[string]*int64
}

func (c *counts) add(name string, n int64) { *c.at(name) += n }

func (c *counts) max(name string, n int64) { p := c.at(name); *p = max(*p, n) }

func (c *counts) at(name string) *int64 {
	if c.n == nil {
		c.n = map[string]*int64{}
	}
	if c.n[name] == nil {
		c.names, c.n[name] = append(c.names, name), new(int64)
	}
	return c.n[name]
}

// tally adds what was pushed and delivered.
func (c *counts) tally(t *tally) {
	t.mu.Lock()
	defer t.mu.Unlock()
	c.add("stored", int64(t.stored))
	c.add("refused", int64(t.refused))
	c.add("without answer", int64(t.unknown))
	c.add("requests answered 503", int64(t.failed))
	c.add("acked", int64(t.acked))
	c.add("delivered", int64(t.delivered))
}

func (c *counts) String() string {
	text := make([]string, len(c.names))
	for i, name := range c.names {
		text[i] = fmt.Sprintf("%d %s", *c.n[name], name)
	}
	return strings.Join(text, ", ")
}

// chosen returns the parts to run.
func (s *settings) chosen() ([]part, error) {
	if len(s.only) == 0 {
		return parts, nil
	}
	var some []part
	for _, name := range s.only {
		i := slices.IndexFunc(parts, func(p part) bool { return p.name == name })
		if i < 0 {
			return nil, fmt.Errorf("no part %q; --list shows them", name)
		}
		some = append(some, parts[i])
	}
	return some, nil
}

// run runs the parts, each in a directory of its own.
func (s *settings) run(ctx context.Context, out io.Writer) error {
	some, err := s.chosen()
	if err != nil {
		return err
	}
	if s.seed == 0 {
		s.seed = rand.Uint64()>>32 + 1
	}
	fmt.Fprintf(out, "seed %d\n", s.seed)
	root, err := os.MkdirTemp(s.dir, "skep-torture-")
	if err != nil {
		return err
	}
	tool := func(pkg string) (string, error) { return build(ctx, filepath.Join(root, filepath.Base(pkg)), pkg) }
	if s.skep == "" {
		if s.skep, err = tool("cmd/skep"); err != nil {
			return err
		}
	}
	weights := 0
	for _, p := range some {
		weights += p.weight
	}
	for _, p := range some {
		share := s.duration * time.Duration(p.weight) / time.Duration(weights)
		e := &env{
			ctx: ctx, dir: filepath.Join(root, p.name), skep: s.skep, tool: tool, seed: s.seed,
			rng: rand.New(rand.NewPCG(s.seed, hash(p.name))), duration: share,
		}
		if err := e.all(p, out); err != nil {
			return fmt.Errorf("%s, seed %d, kept %s: %w", p.name, s.seed, e.dir, err)
		}
	}
	return os.RemoveAll(root)
}

// all runs a part and tells how it went.
func (e *env) all(p part, out io.Writer) (err error) {
	if err := os.Mkdir(e.dir, 0o700); err != nil {
		return err
	}
	if e.log, err = os.OpenFile(filepath.Join(e.dir, "broker.log"), os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, e.log.Close()) }()
	begun := time.Now()
	e.deadline = begun.Add(e.duration)
	err = p.run(e)
	took := time.Since(begun).Round(100 * time.Millisecond)
	if lacking := rig.Lacking(""); errors.As(err, &lacking) {
		fmt.Fprintf(out, "%s: SKIPPED: %s\n", p.name, lacking)
		return nil
	}
	fmt.Fprintf(out, "%s: %v: %s\n", p.name, took, &e.counts)
	if err != nil {
		return err
	}
	return os.RemoveAll(e.dir)
}

func build(ctx context.Context, path, pkg string) (string, error) {
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	said, err := exec.CommandContext(ctx, "go", "build", "-o", path, "github.com/skepmq/skep/"+pkg).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("build %s: %w\n%s", pkg, err, said)
	}
	return path, nil
}
