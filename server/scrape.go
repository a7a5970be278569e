package server

import (
	"bytes"
	"sync"

	"github.com/prometheus/common/expfmt"
	"github.com/valyala/fasthttp"
)

// scrapes reads the metrics once for all who ask at the same time: a broker of many queues
// has enough to do with one at a time.
type scrapes struct {
	turn chan struct{} // capacity 1: one is being made

	mu   sync.Mutex
	next *scraped // the one that has not begun; nil: nobody waits for one
}

// scraped is an answer for all who asked before it was begun, so it is older than none of
// their requests.
type scraped struct {
	doneC chan struct{}
	text  []byte // set before doneC closes
}

// read returns what write writes, alone or for others as well. It is not to be changed.
func (s *scrapes) read(write func() []byte) []byte {
	s.mu.Lock()
	mine := s.next
	first := mine == nil
	if first {
		mine = &scraped{doneC: make(chan struct{})}
		s.next = mine
	}
	s.mu.Unlock()
	if !first {
		<-mine.doneC
		return mine.text
	}
	s.turn <- struct{}{}
	defer func() { <-s.turn }()
	s.mu.Lock()
	s.next = nil
	s.mu.Unlock()
	mine.text = write()
	close(mine.doneC)
	return mine.text
}

// prometheus answers GET /metrics/prometheus. It takes no turn among the lists: those who
// make them late are what it tells of.
func (r *request) prometheus() {
	r.abandonBody()
	text := r.server.scrapes.read(r.server.scrape)
	if !r.makeRoom(len(text)) {
		return
	}
	r.send(fasthttp.StatusOK, append(r.answer(), text...))
	if r.ctx.Response.StatusCode() == fasthttp.StatusOK {
		r.ctx.Response.Header.SetContentTypeBytes(textType)
		r.ctx.Response.Header.Set(fasthttp.HeaderCacheControl, "no-cache")
	}
}

var textType = []byte("text/plain; version=0.0.4; charset=utf-8")

// scrape writes down the metrics. What cannot be told is left out; the rest is worth having,
// most of all then.
func (s *Server) scrape() []byte {
	found, err := s.registry.Gather()
	if err != nil {
		s.log.Warn().Err(err).Msg("metrics left out")
	}
	var out bytes.Buffer
	for _, f := range found {
		if _, err := expfmt.MetricFamilyToText(&out, f); err != nil {
			s.log.Warn().Err(err).Str("family", f.GetName()).Msg("metrics left out")
		}
	}
	return out.Bytes()
}
