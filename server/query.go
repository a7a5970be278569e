package server

import (
	"github.com/skepmq/skep/server/codec"
)

// filters are the query parameters of a management route. Those are lenient: a number
// or a truth value that does not parse counts as absent.
type filters struct{ values *codec.Values }

// filters reads the query of r, or answers 400 and returns false.
func (r *request) filters() (filters, bool) {
	if err := r.values.Parse(r.ctx.URI().QueryString()); err != nil {
		r.badQuery(err)
		return filters{}, false
	}
	return filters{&r.values}, true
}

func (f filters) text(name string) string { return f.values.String(name, "") }

// label returns a parameter that may be there and empty, which names the queues that have no
// such label; nil: it is not there.
func (f filters) label(name string) *string {
	value, ok := f.values.Get(name)
	if !ok {
		return nil
	}
	text := string(value)
	return &text
}

// truth reads a truth value; other than those of pops it may be a word or a digit.
func (f filters) truth(name string, def bool) bool {
	switch f.text(name) {
	case "true", "1", "yes":
		return true
	case "false", "0", "no":
		return false
	}
	return def
}

func (f filters) number(name string, def int64) int64 {
	n, err := f.values.Int(name, def)
	if err != nil {
		return def
	}
	return n
}
