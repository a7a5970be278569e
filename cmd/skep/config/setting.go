package config

import (
	"errors"
	"fmt"
	"math/bits"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// setting is a line of the table.
type setting struct {
	name  string // of the environment variable; "" if a flag alone sets it
	alias string // another name of the same, which this one wins over
	flag  string // without dashes; "" for none

	value  string // the default, as one would write it
	absent string // what having no value means, where there is no default

	secret   bool // shown by its length alone
	verbatim bool // white space around it belongs to it
	// keepEmpty makes a variable that is set to nothing a value. Else it counts as unset.
	keepEmpty bool

	kind
	meaning string // for the page, in Markdown
}

// kind is how a value is read, and what is said about that.
type kind struct {
	unit   string
	values string // what is allowed, in words
	// set puts the value where it belongs, and returns what is in force then.
	set func(c *Config, value string) (effective string, err error)
}

func (k *kind) allowed() string {
	if k.unit == "" {
		return k.values
	}
	return k.values + " (" + k.unit + ")"
}

// shown is a value as people may see it.
func (s *setting) shown(value string) string {
	switch {
	case !s.secret:
		return value
	case value == "":
		return "<unset>"
	}
	return fmt.Sprintf("<set:%d chars>", utf8.RuneCountInString(value))
}

// markup is what a terminal has no use for: links, of which the text stays, and code.
var markup = regexp.MustCompile("\\[([^]]*)\\]\\([^)]*\\)|`")

// usage is the help of a flag.
func (s *setting) usage() string {
	text := markup.ReplaceAllString(s.meaning, "$1")
	if d := s.value + s.absent; d != "" {
		text += " (default " + d + ")"
	}
	if s.name != "" {
		text += "; " + s.name
	}
	return text
}

// number is a whole number from low to high.
func number(unit string, low, high int64, set func(*Config, int64)) kind {
	return clamped(unit, low, low, high, set)
}

// clamped is a number that acts as floor where it is less.
func clamped(unit string, low, floor, high int64, set func(*Config, int64)) kind {
	values := limit(low) + " to " + limit(high)
	if low < floor {
		values = fmt.Sprintf("up to %s; less than %d acts as %d", limit(high), floor, floor)
	}
	return kind{unit, values, func(c *Config, value string) (string, error) {
		n, err := strconv.ParseInt(value, 10, 64)
		switch {
		case errors.Is(err, strconv.ErrRange):
		case err != nil:
			return "", errors.New("not a whole number")
		}
		if n < low || n > high {
			return "", errors.New("out of range")
		}
		n = max(n, floor)
		set(c, n)
		return strconv.FormatInt(n, 10), nil
	}}
}

// limit writes large powers of two as such: nobody counts sixteen digits.
func limit(n int64) string {
	if n >= 1<<32 && bits.OnesCount64(uint64(n)) == 1 {
		return fmt.Sprintf("2^%d", bits.TrailingZeros64(uint64(n)))
	}
	return strconv.FormatInt(n, 10)
}

// milliseconds is a number of them, as a duration.
func milliseconds(low, high int64, set func(*Config, time.Duration)) kind {
	return number("milliseconds", low, high, func(c *Config, n int64) { set(c, time.Duration(n)*time.Millisecond) })
}

// boolean is a truth value, in any case.
func boolean(set func(*Config, bool)) kind {
	return kind{"", "`true`, `1`, `yes`, `on`, `false`, `0`, `no`, `off`", func(c *Config, value string) (string, error) {
		on, err := truth(value)
		if err != nil {
			return "", err
		}
		set(c, on)
		return strconv.FormatBool(on), nil
	}}
}

func truth(value string) (bool, error) {
	switch strings.ToLower(value) {
	case "true", "1", "yes", "on":
		return true, nil
	case "false", "0", "no", "off":
		return false, nil
	}
	return false, errors.New("not a truth value")
}

// oneOf is one of some words.
func oneOf(words []string, set func(*Config, string)) kind {
	return kind{"", "`" + strings.Join(words, "`, `") + "`", func(c *Config, value string) (string, error) {
		for _, w := range words {
			if w == value {
				set(c, value)
				return value, nil
			}
		}
		return "", errors.New("not known")
	}}
}

// words is anything that set takes. values says what that is.
func words(values string, set func(*Config, string) error) kind {
	return kind{"", values, func(c *Config, value string) (string, error) { return value, set(c, value) }}
}
