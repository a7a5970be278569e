package server

import (
	"strconv"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/skepmq/skep/server/codec"
	"github.com/skepmq/skep/server/history"
)

// timeRange is the time that a series is about. Its buckets are floored on the epoch, and whole:
// the first and the last as well, where the time begins or ends inside of them.
type timeRange struct {
	fromMs, toMs int64 // as they were asked for; from is before to
	widthMs      int64
	fixed        bool // in width
}

const minuteMs = 60 * 1000

// widths are those of buckets, in minutes, and the longest time that has them.
var widths = [...]struct{ width, longest int64 }{{1, 60}, {5, 6 * 60}, {15, 24 * 60}, {60, 7 * 24 * 60}, {360, 1 << 62}}

// maxPoints is how many buckets a range may have.
const maxPoints = 20_000

// timeRange reads from and to of a query, or answers 400. to is now if nobody says, and from
// so long before it. With a width of 0 buckets are as wide as is fitting.
func (r *request) timeRange(q filters, length time.Duration, widthMs int64) (timeRange, bool) {
	s, refused := readTimeRange(q, r.server.opts.Now().UnixMilli(), length, widthMs)
	if refused != "" {
		r.sendError(fasthttp.StatusBadRequest, "", refused)
	}
	return s, refused == ""
}

func readTimeRange(q filters, nowMs int64, length time.Duration, widthMs int64) (s timeRange, refused string) {
	s = timeRange{toMs: nowMs, widthMs: widthMs, fixed: widthMs > 0}
	if text := q.text("to"); text != "" {
		ms, ok := codec.ParseTime(text)
		if !ok {
			return s, invalidTimestamp + text
		}
		s.toMs = ms
	}
	s.fromMs = s.toMs - length.Milliseconds()
	if text := q.text("from"); text != "" {
		ms, ok := codec.ParseTime(text)
		if !ok {
			return s, invalidTimestamp + text
		}
		s.fromMs = ms
	}
	// Seconds do not count towards the width: who asks for the last hour without saying when
	// it ends is answered a moment later.
	for i := 0; s.widthMs == 0; i++ {
		if (s.toMs-s.fromMs)/minuteMs <= widths[i].longest {
			s.widthMs = widths[i].width * minuteMs
		}
	}
	switch {
	case s.fromMs > nowMs:
		return s, "from is in the future"
	case s.fromMs >= s.toMs:
		return s, "from is not before to"
	case s.points() > maxPoints:
		return s, "from and to are more than " + strconv.Itoa(maxPoints) + " points apart"
	}
	return s, ""
}

// bucket returns the start of the bucket that an instant lies in.
func (s *timeRange) bucket(ms int64) int64 { return history.Floor(ms, s.widthMs) }

func (s *timeRange) firstMs() int64 { return s.bucket(s.fromMs) }

// endMs is one past the last bucket.
func (s *timeRange) endMs() int64 { return s.bucket(s.toMs-1) + s.widthMs }

func (s *timeRange) points() int64 { return (s.endMs() - s.firstMs()) / s.widthMs }

// perSecond is a rate over the whole of a bucket, which may have begun a moment ago.
func (s *timeRange) perSecond(n int64) float64 { return float64(n) * 1000 / float64(s.widthMs) }

// widen makes the buckets at least as wide as a record of so many milliseconds, in widths
// that all smaller ones divide.
func (s *timeRange) widen(ms int64) {
	for _, w := range widths {
		if s.widthMs < ms && !s.fixed {
			s.widthMs = max(s.widthMs, w.width*minuteMs)
		}
	}
}

// appendTimeRange appends the members that series begin with.
func appendTimeRange(b []byte, s *timeRange) []byte {
	b = codec.AppendTimeMs(appendKey(append(appendKey(b, "timeRange"), '{'), "from"), s.fromMs)
	b = append(codec.AppendTimeMs(appendKey(b, "to"), s.toMs), '}')
	return appendNumber(b, "bucketMinutes", s.widthMs/minuteMs)
}

// appendBucket appends the label of a bucket.
func appendBucket(b []byte, name string, ms int64) []byte {
	return codec.AppendTimeSeconds(appendKey(b, name), ms)
}
