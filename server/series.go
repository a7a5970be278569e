package server

import (
	"cmp"
	"iter"
	"maps"
	"slices"

	"github.com/google/uuid"
	"github.com/valyala/fasthttp"

	"github.com/skepmq/skep/broker"
	"github.com/skepmq/skep/server/history"
)

// walk is a pass over the minutes of a time range: those that are kept, and the one that runs.
type walk struct {
	timeRange
	stats   broker.Stats
	traffic []broker.QueueTraffic // of the queues that the query names, by number
	queues  map[uuid.UUID]*broker.QueueTraffic
	running history.Minute
	log     *history.Log
}

// walk begins one for the queues of owner that q names; nil: everybody's. What has been
// deleted is in no series of a queue: its id is nobody's any more.
func (r *request) walk(s timeRange, q filters, owner *broker.Tenant) *walk {
	w := &walk{timeRange: s, log: r.server.history, queues: map[uuid.UUID]*broker.QueueTraffic{}}
	var all []broker.QueueTraffic
	w.running, all, w.stats = r.server.runningMinute(r.broker)
	named := q.named()
	w.traffic = slices.DeleteFunc(all, func(t broker.QueueTraffic) bool {
		return owner != nil && t.Tenant != *owner || !named(&t)
	})
	for i := range w.traffic {
		w.queues[w.traffic[i].ID] = &w.traffic[i]
	}
	w.widen(max(r.server.opts.MetricsEvery.Milliseconds(), w.log.Grain(w.firstMs(), w.endMs())))
	return w
}

// survey reads what a query asks for, and begins what answers it: the tenant's queues as they
// are, and a walk over what they had. If not ok, the request has been answered.
func (r *request) survey() (q filters, queues []broker.QueueInfo, w *walk, ok bool) {
	if q, ok = r.filters(); !ok {
		return q, nil, nil, false
	}
	t, ok := r.timeRange(q, seriesTime, 0)
	if !ok {
		return q, nil, nil, false
	}
	queues, err := r.broker.Queues(r.tenant)
	if err != nil {
		r.fail(err)
		return q, nil, nil, false
	}
	return q, queues, r.walk(t, q, &r.tenant), true
}

// named tells which queues f asks for; a filter that is empty is none.
func (f filters) named() func(*broker.QueueTraffic) bool {
	queue, namespace, task := f.text("queue"), f.text("namespace"), f.text("task")
	return func(t *broker.QueueTraffic) bool {
		return (queue == "" || t.Name == queue) && (namespace == "" || t.Namespace == namespace) && (task == "" || t.Task == task)
	}
}

// narrowed reports whether f asks for less than everything.
func (f filters) narrowed() bool {
	return f.text("queue") != "" || f.text("namespace") != "" || f.text("task") != ""
}

// minutes yields every minute of the time range, the running one last. They are overwritten by the
// next.
func (w *walk) minutes() iter.Seq[*history.Minute] {
	from, to := w.firstMs(), w.endMs()
	return func(yield func(*history.Minute) bool) {
		// The one that runs may be kept before this has come to the end.
		for m := range w.log.Minutes(from, min(to, w.running.StartMs)) {
			if !yield(m) {
				return
			}
		}
		if w.running.StartMs >= from && w.running.StartMs < to {
			yield(&w.running)
		}
	}
}

// had yields what the queues of the walk had in a minute, with what they are now.
func (w *walk) had(m *history.Minute) iter.Seq2[*history.Queue, *broker.QueueTraffic] {
	return func(yield func(*history.Queue, *broker.QueueTraffic) bool) {
		for i := range m.Queues {
			if is := w.queues[m.Queues[i].ID]; is != nil && !yield(&m.Queues[i], is) {
				return
			}
		}
	}
}

// bucket is what minutes add up to.
type bucket struct {
	broker.Traffic
	maxLagMs   int64
	parkedMs   int64 // parked pops, each as long as its minute
	partitions int64 // at the end
	endMs      int64
}

func (b *bucket) add(m *history.Minute, q *history.Queue) {
	b.merge(&bucket{q.Traffic, q.MaxLagMs, q.Parked * m.LengthMs, q.Partitions, m.StartMs + m.LengthMs})
}

func (b *bucket) merge(other *bucket) {
	b.Add(&other.Traffic)
	b.maxLagMs = max(b.maxLagMs, other.maxLagMs)
	b.parkedMs += other.parkedMs
	if other.endMs >= b.endMs {
		b.partitions, b.endMs = other.partitions, other.endMs
	}
}

// row names a bucket: its start, and what it is of.
type row struct {
	ms  int64
	key string
}

// series are buckets by start and key.
type series struct {
	timeRange
	rows    map[row]*bucket
	covered map[int64]int64 // for how long of each bucket there are minutes
}

const tooManyQueues = "too many queues for one answer: name one, or a shorter time"

// defaultMaxRows bounds the memory of one series, and its answer.
const defaultMaxRows = 100_000

// series sums up a walk by key. Where that would be too many rows, buckets get wider, up to
// a day; what does not fit then is answered 400.
func (r *request) series(w *walk, key func(*broker.QueueTraffic) string) (*series, bool) {
	s := &series{timeRange: w.timeRange, rows: map[row]*bucket{}, covered: map[int64]int64{}}
	for m := range w.minutes() {
		s.covered[s.bucket(m.StartMs)] += m.LengthMs
		for had, is := range w.had(m) {
			entry(s.rows, row{s.bucket(m.StartMs), key(is)}).add(m, had)
			for len(s.rows) > r.server.maxRows {
				if !s.widened() {
					r.sendError(fasthttp.StatusBadRequest, "", tooManyQueues)
					return nil, false
				}
			}
		}
	}
	return s, true
}

// widened makes buckets wider, unless they are as wide as they get.
func (s *series) widened() bool {
	width := int64(24 * 60 * minuteMs)
	for _, w := range slices.Backward(widths[:]) {
		if w.width*minuteMs > s.widthMs {
			width = w.width * minuteMs
		}
	}
	if width == s.widthMs {
		return false
	}
	s.widthMs = width
	narrow, covered := s.rows, s.covered
	s.rows, s.covered = map[row]*bucket{}, map[int64]int64{}
	for was, b := range narrow {
		entry(s.rows, row{s.bucket(was.ms), was.key}).merge(b)
	}
	for ms, length := range covered {
		s.covered[s.bucket(ms)] += length
	}
	return true
}

// entry returns what m has at k; a zero value if there was nothing.
func entry[K comparable, V any](m map[K]*V, k K) *V {
	v := m[k]
	if v == nil {
		v = new(V)
		m[k] = v
	}
	return v
}

// sorted returns the rows, oldest first, those of a bucket by key.
func (s *series) sorted() []row {
	return slices.SortedFunc(maps.Keys(s.rows), func(x, y row) int {
		return cmp.Or(cmp.Compare(x.ms, y.ms), cmp.Compare(x.key, y.key))
	})
}

// parked is how many pops waited in a bucket, on the average.
func (s *series) parked(at row) float64 {
	if s.covered[at.ms] == 0 {
		return 0
	}
	return float64(s.rows[at].parkedMs) / float64(s.covered[at.ms])
}
