package config

import (
	"fmt"
	"strconv"
	"strings"
)

// Markdown is the table for docs/configuration.md.
func Markdown() string {
	var b strings.Builder
	b.WriteString("| variable | flag | default | unit | allowed | meaning |\n|---|---|---|---|---|---|\n")
	table := settings()
	for i := range table {
		s := &table[i]
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s |\n", s.variables(), code("--", s.flag), s.standard(), s.unit, s.values, s.meaning)
	}
	return b.String()
}

// Names are all names of variables that are read.
func Names() (names []string) {
	for _, s := range settings() {
		for _, name := range []string{s.name, s.alias} {
			if name != "" {
				names = append(names, name)
			}
		}
	}
	return names
}

func (s *setting) variables() string {
	if s.alias == "" {
		return code("", s.name)
	}
	return code("", s.name) + ", else " + code("", s.alias)
}

// standard is the default. Large numbers of bytes are said in MiB as well.
func (s *setting) standard() string {
	switch {
	case s.secret:
		return "unset"
	case s.value == "":
		return s.absent
	}
	text := code("", s.value)
	if n, err := strconv.ParseInt(s.value, 10, 64); err == nil && s.unit == "bytes" && n >= 1<<20 && n%(1<<20) == 0 {
		text += fmt.Sprintf(" (%d MiB)", n>>20)
	}
	return text
}

func code(prefix, text string) string {
	if text == "" {
		return ""
	}
	return "`" + prefix + text + "`"
}
