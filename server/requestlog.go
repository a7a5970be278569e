package server

import (
	"time"

	"github.com/rs/zerolog"
)

// LogTargets are the parts of the server whose lines can be asked for apart from the others.
var LogTargets = []string{"server", "auth", "metrics", "rates"}

// Operations are what requests are logged by, one at a time: no level of the whole log brings
// a line for each message.
func Operations() []string { return operationNames[:] }

func (o *Options) logger(target string) zerolog.Logger {
	if o.LoggerOf == nil {
		return o.Logger
	}
	return o.LoggerOf(target)
}

// requestLogs are found by the number of the operation; nil: its requests are not logged.
type requestLogs [operations]*zerolog.Logger

func newRequestLogs(by map[string]zerolog.Logger) (logs requestLogs) {
	for op, name := range operationNames {
		if l, ok := by[name]; ok {
			logs[op] = &l
		}
	}
	return logs
}

// write logs an answered request: where it went and what became of it. Query and header may
// hold what is nobody's affair.
func (l *requestLogs) write(r *request, began time.Time) {
	l[r.op].Debug().Bytes("method", r.ctx.Method()).Bytes("path", r.ctx.URI().PathOriginal()).
		Int("status", r.ctx.Response.StatusCode()).Str("took", time.Since(began).String()).
		Stringer("client", r.ctx.RemoteAddr()).Msg("request")
}
