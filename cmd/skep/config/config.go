package config

import (
	"fmt"
	"strings"

	"github.com/rs/zerolog"
	"github.com/spf13/pflag"

	"github.com/skepmq/skep/broker"
	"github.com/skepmq/skep/broker/envelope"
	"github.com/skepmq/skep/server"
	"github.com/skepmq/skep/server/auth"
)

// Config is what flags and environment say.
type Config struct {
	DataDir  string
	Listen   string // HOST:PORT
	Pprof    string // HOST:PORT; "" for none
	LogLevel zerolog.Level
	// LogTargets have levels of their own; see Targets.
	LogTargets map[string]zerolog.Level
	LogJSON    bool
	Fsync      string // as it was given
	Broker     broker.Options
	Server     server.Options

	AuthEnabled     bool
	Auth            auth.Options // but for Logger
	TLSCert, TLSKey string       // files; "" for none
	AllowedHosts    []string     // nil: not said

	EncryptionKey     *envelope.Key // nil: none
	EncryptionKeyFile string        // "": none

	// Values is every setting that has a name in the environment, in the order of the
	// table.
	Values  []Value
	Remarks Remarks

	unknownTargets []string
}

// Value is what is in force for a setting.
type Value struct {
	Name   string `json:"name"`
	Value  string `json:"value"` // a secret is masked
	Source string `json:"source"`
	// From is the variable or the flag that the value is from, "" for a default.
	From string `json:"from,omitempty"`
	// Absent says what no value means, for people.
	Absent string `json:"-"`
}

// Sources of values.
const (
	Default     = "default"
	Environment = "environment"
	Flag        = "flag"
)

// AddFlags adds the flags of the table.
func AddFlags(flags *pflag.FlagSet) { addFlags(settings(), flags) }

func addFlags(table []setting, flags *pflag.FlagSet) {
	for i := range table {
		if s := &table[i]; s.flag != "" {
			flags.String(s.flag, "", s.usage())
		}
	}
}

// Load reads the environment, as of os.Environ, and flags, which may be nil. An error names
// the variable or the flag, its value and what is allowed.
func Load(flags *pflag.FlagSet, environ []string) (*Config, error) {
	return load(settings(), flags, environ)
}

func load(table []setting, flags *pflag.FlagSet, environ []string) (*Config, error) {
	env := map[string]string{}
	for _, line := range environ {
		name, value, _ := strings.Cut(line, "=")
		if _, ok := env[name]; !ok { // as os.Getenv: the first counts
			env[name] = value
		}
	}
	c := &Config{Remarks: remarks(table, env)}
	for i := range table {
		if err := c.apply(&table[i], flags, env); err != nil {
			return nil, err
		}
	}
	c.remarkTargets()
	return c, nil
}

// apply sets one setting from all that name it, so that a wrong value is noticed even
// where another wins.
func (c *Config) apply(s *setting, flags *pflag.FlagSet, env map[string]string) error {
	v := Value{Name: s.name, Source: Default}
	set := func(source, from, text string) error {
		trimmed := strings.TrimSpace(text)
		if trimmed == "" && (!s.keepEmpty || source == Default) {
			return nil
		}
		if !s.verbatim {
			text = trimmed
		}
		effective, err := s.set(c, text)
		if err != nil {
			return fmt.Errorf("%s=%q: %w; allowed: %s", from, s.shown(text), err, s.allowed())
		}
		v.Value, v.Source, v.From = effective, source, from
		return nil
	}
	if err := set(Default, "", s.value); err != nil {
		return fmt.Errorf("default of %s: %w", s.name, err)
	}
	for _, name := range []string{s.alias, s.name} {
		if text, ok := env[name]; ok && name != "" {
			if err := set(Environment, name, text); err != nil {
				return err
			}
		}
	}
	if flags != nil && s.flag != "" && flags.Changed(s.flag) {
		if err := set(Flag, "--"+s.flag, flags.Lookup(s.flag).Value.String()); err != nil {
			return err
		}
	}
	if s.name != "" {
		v.Value, v.Absent = s.shown(v.Value), s.absent
		c.Values = append(c.Values, v)
	}
	return nil
}

// override notes that a flag has set what has a variable of another name.
func (c *Config) override(name, value, flag string) {
	for i := range c.Values {
		if v := &c.Values[i]; v.Name == name {
			v.Value, v.Source, v.From = value, Flag, flag
		}
	}
}
