package server

import (
	"cmp"
	"slices"
	"time"

	"github.com/skepmq/skep/broker"
)

// most keeps those n of many items that have most of something. One that has as much as the
// least of them takes nobody's place.
type most[T any] struct {
	n    int
	heap []ranked[T] // the one with least in front
}

type ranked[T any] struct {
	has  int64
	item T
}

// takes reports whether an item that has so much would be kept.
func (m *most[T]) takes(has int64) bool {
	return len(m.heap) < m.n || m.n > 0 && has > m.heap[0].has
}

// add keeps an item that takes has taken.
func (m *most[T]) add(has int64, item T) {
	i := len(m.heap)
	if i < m.n {
		m.heap = append(m.heap, ranked[T]{has, item})
		for i > 0 && m.heap[(i-1)/2].has > has {
			m.heap[i], i = m.heap[(i-1)/2], (i-1)/2
		}
	} else {
		i = m.sink(has)
	}
	m.heap[i] = ranked[T]{has, item}
}

// sink makes a place for what takes the place of the first.
func (m *most[T]) sink(has int64) (i int) {
	for {
		child := 2*i + 1
		if child+1 < len(m.heap) && m.heap[child+1].has < m.heap[child].has {
			child++
		}
		if child >= len(m.heap) || m.heap[child].has >= has {
			return i
		}
		m.heap[i] = m.heap[child]
		i = child
	}
}

// all returns what was kept, the most first.
func (m *most[T]) all() []ranked[T] {
	slices.SortStableFunc(m.heap, func(x, y ranked[T]) int { return cmp.Compare(y.has, x.has) })
	return m.heap
}

// busy is how much went through a queue.
func busy(t *broker.Traffic) int64 {
	return t[broker.PushRequests] + t[broker.PushedMessages] + t[broker.PopRequests] + t[broker.PoppedMessages] +
		t[broker.AckedMessages] + t[broker.FailedAcks] + t[broker.Transactions]
}

// queueMetrics is what the metrics tell of single queues: of those alone that have most, so
// that a scrape is no longer than its bound however many there are.
type queueMetrics struct {
	minutes                      most[queueMinute]
	parked, deadLetters, damaged most[string]
}

func newQueueMetrics(n int) *queueMetrics {
	m := &queueMetrics{}
	m.minutes.n, m.parked.n, m.deadLetters.n, m.damaged.n = n, n, n, n
	return m
}

// queueMetrics looks at all queues, one after the other. Only where they are of several tenants
// there may be a name twice, and all have to be known before it is known which have most.
func (s *Server) queueMetrics(b Broker, now time.Time) *queueMetrics {
	m := newQueueMetrics(s.opts.MetricsQueues)
	var (
		minute queueMinute
		tenant broker.Tenant
		looked int
		mixed  bool
	)
	b.EachTraffic(false, func(q *broker.QueueTraffic) {
		if looked++; looked == 1 {
			tenant = q.Tenant
		}
		mixed = mixed || q.Tenant != tenant
		m.note(q)
		if s.minutes.newestOf(q, now, &minute) {
			m.noteMinute(&minute)
		}
	})
	if !mixed {
		return m
	}
	m = newQueueMetrics(s.opts.MetricsQueues)
	all := b.Traffic(false)
	var minutes []queueMinute
	for i := range all {
		if s.minutes.newestOf(&all[i], now, &minute) {
			minutes = append(minutes, minute)
		}
	}
	for _, q := range joinQueues(all) {
		m.note(&q)
	}
	for _, q := range joinMinutes(minutes) {
		m.noteMinute(&q)
	}
	return m
}

// note looks at what there is of a queue.
func (m *queueMetrics) note(q *broker.QueueTraffic) {
	for _, x := range [...]struct {
		kept *most[string]
		has  int64
	}{{&m.parked, q.Parked}, {&m.deadLetters, q.DeadLetters}, {&m.damaged, int64(q.Damaged)}} {
		if x.has > 0 && x.kept.takes(x.has) {
			x.kept.add(x.has, q.Name)
		}
	}
}

// noteMinute looks at the newest minute of a queue.
func (m *queueMetrics) noteMinute(minute *queueMinute) {
	if has := busy(&minute.Traffic); m.minutes.takes(has) {
		m.minutes.add(has, *minute)
	}
}
