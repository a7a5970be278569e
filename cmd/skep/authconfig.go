package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"github.com/skepmq/skep/server/auth"
)

// authConfig is what the environment says about tokens.
type authConfig struct {
	enabled bool
	options auth.Options
}

func newAuthConfig() authConfig {
	return authConfig{options: auth.Options{Skew: auth.DefaultSkew, SkipPaths: auth.DefaultSkipPaths}.WithDefaults()}
}

// text sets a string of the options of tokens.
func text(field func(*auth.Options) *string) func(*config, string) error {
	return func(c *config, v string) error { *field(&c.auth.options) = v; return nil }
}

// duration sets one of the options of tokens, in units.
func duration(low, high int64, unit time.Duration, field func(*auth.Options) *time.Duration) func(*config, string) error {
	return number(low, high, func(c *config, n int64) { *field(&c.auth.options) = time.Duration(n) * unit })
}

// setSkipPaths reads a list with commas; an empty one skips nothing.
func (c *config) setSkipPaths(v string) error {
	c.auth.options.SkipPaths = nil
	for path := range strings.SplitSeq(v, ",") {
		if path = strings.TrimSpace(path); path == "" {
			continue
		}
		if path[0] != '/' {
			return fmt.Errorf("%q is not a path", path)
		}
		c.auth.options.SkipPaths = append(c.auth.options.SkipPaths, path)
	}
	return nil
}

// verifier returns what verifies tokens, nil if none are asked for.
func (c *config) verifier(logger *zerolog.Logger) (*auth.Verifier, error) {
	if !c.auth.enabled {
		return nil, nil
	}
	o := c.auth.options
	o.Logger = *logger
	return auth.New(o)
}

// setAllowedHosts reads a list of host names with commas.
func (c *config) setAllowedHosts(v string) error {
	c.allowedHosts = []string{}
	for name := range strings.SplitSeq(v, ",") {
		if name = strings.TrimSpace(name); name != "" {
			c.allowedHosts = append(c.allowedHosts, name)
		}
	}
	return nil
}
