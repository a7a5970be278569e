package config

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/rs/zerolog"

	"github.com/skepmq/skep/broker"
	"github.com/skepmq/skep/server"
)

// Targets are the parts of the program that can have a level of their own: first those that
// write lines, then the operations whose requests are logged one by one.
func Targets() []string {
	return slices.Concat([]string{"serve"}, server.LogTargets, broker.LogTargets, server.Operations())
}

// setLogLevel reads the least level that is logged, and those of targets. A target that is none
// of ours is of another broker, and warned of: it is no reason not to start.
func (c *Config) setLogLevel(v string) (string, error) {
	level, targets, unknown := zerolog.InfoLevel, map[string]zerolog.Level{}, []string{}
	for part := range strings.SplitSeq(strings.ToLower(v), ",") {
		part = strings.TrimSpace(part)
		target, name, filter := strings.Cut(part, "=")
		if !filter {
			name = part
		}
		if name = strings.TrimSpace(name); name == "off" {
			name = zerolog.Disabled.String()
		}
		l, err := zerolog.ParseLevel(name)
		switch target = strings.TrimSpace(target); {
		case part == "":
		case err != nil || name == "":
			return "", errors.New("not a log level")
		case !filter:
			level = l
		case !slices.Contains(Targets(), target):
			unknown = append(unknown, target)
		default:
			targets[target] = l
		}
	}
	c.LogLevel, c.LogTargets, c.unknownTargets = level, targets, unknown
	effective := level.String()
	for _, t := range Targets() {
		if l, ok := targets[t]; ok {
			effective += fmt.Sprint(",", t, "=", l)
		}
	}
	return effective, nil
}

// remarkTargets warns of the targets that there are not, of the value in force.
func (c *Config) remarkTargets() {
	if len(c.unknownTargets) > 0 {
		c.Remarks.Warnings = append(c.Remarks.Warnings, fmt.Sprintf("LOG_LEVEL and RUST_LOG: no such targets: %s; there are %s",
			strings.Join(c.unknownTargets, ", "), strings.Join(Targets(), ", ")))
	}
}
