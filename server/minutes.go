package server

import (
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/skepmq/skep/broker"
	"github.com/skepmq/skep/log/journal"
	"github.com/skepmq/skep/server/history"
)

// minutes sums up what went through in a minute, by queue, from counters that only grow.
// A goroutine of Serve takes the sums.
type minutes struct {
	mu      sync.Mutex
	began   time.Time // of the minute that is running
	queues  map[uuid.UUID]broker.Traffic
	base    broker.Traffic // what had gone through before the process started
	total   broker.Traffic
	usage   usage
	syncs   journal.SyncCounts
	waits   uint64  // for a processor
	waited  float64 // seconds, in all
	newest  map[uuid.UUID]queueMinute
	settled systemMinute // the minute before
	ends    []minuteEnd  // of the latest minutes, oldest first, back to latelySpan
}

// queueMinute is the newest minute of a queue in which something happened.
type queueMinute struct {
	broker.QueueTraffic // Traffic is of the minute
	end                 time.Time
}

// systemMinute is what has no queue.
type systemMinute struct {
	syncs      journal.SyncCounts
	schedLagMs float64
}

// minuteEnd is what had gone through at the end of a minute.
type minuteEnd struct {
	at    time.Time
	total broker.Traffic
}

// latelySpan is what throughput is told of.
const latelySpan = 5 * time.Minute

// shownFor is how long the newest minute of a queue is shown that has no traffic any more.
const shownFor = 5 * time.Minute

// start takes the sums at the end of every minute until stop is called.
func (m *minutes) start(s *Server) (stop func()) {
	var wg sync.WaitGroup
	stopC := make(chan struct{})
	wg.Go(func() {
		for {
			now := s.opts.Now()
			timer := time.NewTimer(now.Truncate(s.opts.MetricsEvery).Add(s.opts.MetricsEvery).Sub(now))
			select {
			case <-stopC:
				timer.Stop()
				return
			case <-timer.C:
				s.RollMetrics()
			}
		}
	})
	return func() {
		close(stopC)
		wg.Wait()
	}
}

// RollMetrics ends the minute that is running, and does a part of what there is to do with
// old ones. The server waits in real time, so a test that moves the clock by hand has to say so.
func (s *Server) RollMetrics() {
	s.rollMetrics(false)
	s.history.Fold(s.opts.Now().UnixMilli(), s.stopping.Load)
}

// rollMetrics ends the minute that is running, one call after the other: with counters read
// before those of another's minute this one would count backwards. After the last it does
// nothing.
func (s *Server) rollMetrics(last bool) {
	s.rollMu.Lock()
	defer s.rollMu.Unlock()
	if s.rolled {
		return
	}
	s.rolled = last
	b := s.broker.Load()
	if b == nil {
		return
	}
	st := (*b).Stats()
	minute := s.minutes.roll(s.opts.Now(), (*b).Traffic(true), st)
	minute.Process.UptimeMs = s.opts.Now().Sub(s.started).Milliseconds()
	if st.DiskFull { // the rest of the disk is for what matters; the totals do, and are short
		minute.Queues = nil
	}
	s.history.Append(&minute)
}

// runningMinute sums up the minute that is running, with what there is of queues and broker.
func (s *Server) runningMinute(b Broker) (history.Minute, []broker.QueueTraffic, broker.Stats) {
	s.rollMu.Lock()
	defer s.rollMu.Unlock()
	queues, st, now := b.Traffic(false), b.Stats(), s.opts.Now()
	s.minutes.mu.Lock()
	defer s.minutes.mu.Unlock()
	minute := s.minutes.sumLocked(now, queues, &st)
	minute.Process.UptimeMs = now.Sub(s.started).Milliseconds()
	return minute, queues, st
}

func (m *minutes) roll(now time.Time, queues []broker.QueueTraffic, st broker.Stats) history.Minute {
	m.mu.Lock()
	defer m.mu.Unlock()
	sum := m.sumLocked(now, queues, &st)
	next := make(map[uuid.UUID]broker.Traffic, len(queues))
	newest := map[uuid.UUID]queueMinute{}
	for i := range queues {
		q := &queues[i]
		next[q.ID] = q.Traffic
		if minute := m.since(q); minute.active() {
			minute.end = now
			newest[q.ID] = minute
		} else if old, ok := m.newest[q.ID]; ok && now.Sub(old.end) < shownFor {
			newest[q.ID] = old
		}
	}
	m.ends = append(m.ends, minuteEnd{now, st.Traffic})
	for len(m.ends) > 1 && now.Sub(m.ends[1].at) >= latelySpan {
		m.ends = m.ends[1:]
	}
	m.settled = m.systemSince(&st)
	m.waits, m.waited = schedLatency()
	m.began, m.queues, m.total, m.syncs, m.newest = now, next, st.Traffic, st.Journal.Took, newest
	m.usage = readUsage()
	return sum
}

// sumLocked sums up the minute that is running.
func (m *minutes) sumLocked(now time.Time, queues []broker.QueueTraffic, st *broker.Stats) history.Minute {
	began, u, system := m.began, readUsage(), m.systemSince(st)
	if began.After(now) {
		began = now
	}
	sum := history.Minute{
		StartMs: began.UnixMilli(), LengthMs: now.Sub(began).Milliseconds(),
		Totals: m.base, Traffic: st.Traffic.Minus(&m.total),
		Process: history.Process{
			RSS: u.rss, Virtual: u.virtual, UserNs: int64(u.user - m.usage.user), SystemNs: int64(u.system - m.usage.system),
			SchedLagUs: int64(system.schedLagMs * 1000), SyncUs: system.syncs.Quantile(0.99).Microseconds(),
			StoreBytes: st.SegmentBytes + st.Journal.Unfiled, Segments: int64(st.Segments),
		},
	}
	sum.Totals.Add(&st.Traffic)
	for i := range queues {
		if q := m.since(&queues[i]); q.active() {
			sum.Queues = append(sum.Queues, history.Queue{
				ID: q.ID, Name: q.Name, Namespace: q.Namespace, Task: q.Task,
				Partitions: int64(q.Partitions), Parked: q.Parked, MaxLagMs: q.MaxLagMs, Traffic: q.Traffic,
			})
		}
	}
	return sum
}

// lifetime returns what went through since the directory was made.
func (m *minutes) lifetime(st *broker.Stats) broker.Traffic {
	m.mu.Lock()
	defer m.mu.Unlock()
	total := m.base
	total.Add(&st.Traffic)
	return total
}

// since returns what a queue has had in the minute that is running.
func (m *minutes) since(q *broker.QueueTraffic) queueMinute {
	was := m.queues[q.ID]
	minute := queueMinute{QueueTraffic: *q}
	minute.Traffic = q.Traffic.Minus(&was)
	return minute
}

func (q *queueMinute) active() bool { return q.Traffic != broker.Traffic{} || q.Parked > 0 }

func (m *minutes) systemSince(st *broker.Stats) (s systemMinute) {
	for i, n := range st.Journal.Took {
		s.syncs[i] = n - m.syncs[i]
	}
	if waits, waited := schedLatency(); waits > m.waits {
		s.schedLagMs = (waited - m.waited) / float64(waits-m.waits) * 1000
	}
	return s
}

// show returns the newest minute of each queue that has one: the last that is complete, or
// the one that is running. And of the process: the last complete minute, with what has come
// since.
func (m *minutes) show(now time.Time, queues []broker.QueueTraffic, st *broker.Stats) ([]queueMinute, systemMinute) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var shown []queueMinute
	for i := range queues {
		if minute, ok := m.newest[queues[i].ID]; ok {
			if now.Sub(minute.end) < shownFor {
				shown = append(shown, minute)
			}
		} else if minute := m.since(&queues[i]); minute.active() {
			minute.end = now
			shown = append(shown, minute)
		}
	}
	s := m.systemSince(st)
	for i, n := range m.settled.syncs {
		s.syncs[i] += n
	}
	if m.settled.schedLagMs > 0 {
		s.schedLagMs = m.settled.schedLagMs
	}
	return shown, s
}

// lately returns what went through in the last latelySpan, or a minute more.
func (m *minutes) lately(now time.Time, st *broker.Stats) broker.Traffic {
	m.mu.Lock()
	defer m.mu.Unlock()
	var since broker.Traffic
	for _, end := range m.ends {
		if now.Sub(end.at) >= latelySpan {
			since = end.total
		}
	}
	return st.Traffic.Minus(&since)
}
