package server

import (
	"github.com/valyala/fasthttp"

	"github.com/skepmq/skep/server/codec"
)

// health says whether to send requests here: 200 once the broker has recovered, as
// long as it takes writes and is not stopping. Tools compare both words.
func (r *request) health() {
	s := r.server
	healthy := !s.stopping.Load() && r.broker != nil && r.broker.Ready() == nil
	b, status := r.answer(), fasthttp.StatusOK
	if healthy {
		b = append(b, `{"status":"healthy","database":"connected","engine":`...)
	} else {
		status = fasthttp.StatusServiceUnavailable
		b = append(b, `{"status":"unhealthy","database":"disconnected","engine":`...)
	}
	b = codec.AppendString(b, s.opts.EngineName)
	b = append(b, `,"version":`...)
	b = codec.AppendString(b, s.opts.Version)
	if r.broker == nil {
		b = append(b, `,"recovering":true`...)
	} else {
		b = appendDamaged(b, r.broker.DamagedPartitions()) // the others are served
	}
	r.send(status, append(b, '}'))
}

// status says that the process lives; it asks nobody.
func (r *request) status() {
	b := append(r.answer(), `{"status":"ok","engine":`...)
	b = codec.AppendString(b, r.server.opts.EngineName)
	r.send(fasthttp.StatusOK, append(b, '}'))
}
