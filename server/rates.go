package server

import (
	"math"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/rs/zerolog"

	"github.com/skepmq/skep/broker"
	"github.com/skepmq/skep/log/journal"
)

// rates logs now and then what went through, and what there is. A broker that has nothing to
// do says nothing: a log that is full of zeros is read by nobody.
type rates struct {
	log zerolog.Logger

	// At the latest look, and whether a line was written for it or not.
	at        time.Time
	traffic   broker.Traffic
	push, ack journal.SyncCounts
	syncs     journal.SyncCounts
	refused   int64

	// queues and spare hold what went through each queue, and take turns.
	queues, spare map[uuid.UUID]queueFlow
}

// queueFlow is the messages that were pushed, popped and acknowledged.
type queueFlow [3]int64

// busyQueue is what went through a queue since the latest look.
type busyQueue struct {
	tenant broker.Tenant
	name   string
	flow   queueFlow
}

func newRates(s *Server, log zerolog.Logger) *rates {
	return &rates{log: log, at: s.started, queues: map[uuid.UUID]queueFlow{}, spare: map[uuid.UUID]queueFlow{}}
}

// startRates logs every LogRatesEvery until stop is called.
func (s *Server) startRates() (stop func()) {
	every := s.opts.LogRatesEvery
	if every <= 0 {
		return func() {}
	}
	r := newRates(s, s.opts.logger("rates"))
	var wg sync.WaitGroup
	stopC := make(chan struct{})
	wg.Go(func() {
		tick := time.NewTicker(every)
		defer tick.Stop()
		for {
			select {
			case <-stopC:
				return
			case <-tick.C:
				if b := s.broker.Load(); b != nil {
					r.look(s, *b)
				}
			}
		}
	})
	return func() {
		close(stopC)
		wg.Wait()
	}
}

// look writes the lines, unless nothing has happened since the latest look.
func (r *rates) look(s *Server, b Broker) {
	now, st := s.opts.Now(), b.Stats()
	seconds := max(now.Sub(r.at).Seconds(), 0.001)
	went := st.Traffic.Minus(&r.traffic)
	push, ack := s.requests.took[opPush].load(), s.requests.took[opAck].load()
	refused := s.requests.refused()
	if !idle(went, seconds) || refused > r.refused {
		per := func(c broker.Counter) float64 { return rounded(float64(went[c]) / seconds) }
		line := r.log.Info().Float64("seconds", rounded(seconds)).
			Float64("push_per_s", per(broker.PushedMessages)).Float64("push_requests_per_s", per(broker.PushRequests)).
			Float64("pop_per_s", per(broker.PoppedMessages)).Float64("pop_requests_per_s", per(broker.PopRequests)).
			Float64("ack_per_s", per(broker.AckedMessages)).Float64("ack_requests_per_s", per(broker.AckRequests)).
			Float64("transactions_per_s", per(broker.Transactions)).
			Int64("failed_acks", went[broker.FailedAcks]).Int64("dead_lettered", went[broker.DeadLettered]).
			Int64("refused", refused-r.refused).Int("parked", st.Parked)
		for _, x := range [...]struct {
			name     string
			now, was *journal.SyncCounts
		}{{"push", &push, &r.push}, {"ack", &ack, &r.ack}, {"sync", &st.Journal.Took, &r.syncs}} {
			took := x.now.Minus(x.was)
			line.Float64(x.name+"_p50_ms", milliseconds(took.Quantile(0.5))).Float64(x.name+"_p99_ms", milliseconds(took.Quantile(0.99)))
		}
		line.Msg("rates")
		r.logSizes(s, b, &st)
		r.logQueues(b, s.opts.LogTopQueues)
	}
	r.at, r.traffic, r.push, r.ack, r.syncs, r.refused = now, st.Traffic, push, ack, st.Journal.Took, refused
}

// idle reports whether nothing has happened that is worth a line. Polls that end empty now and
// then are not: that is how consumers wait.
func idle(went broker.Traffic, seconds float64) bool {
	empty := went[broker.EmptyPops]
	went[broker.PopRequests] -= empty
	went[broker.EmptyPops] = 0
	return went == broker.Traffic{} && float64(empty) < seconds
}

func rounded(x float64) float64 { return math.Round(10*x) / 10 }

func (r *rates) logSizes(s *Server, b Broker, st *broker.Stats) {
	_, live := heap()
	r.log.Info().Int64("rss_bytes", readUsage().rss).Int64("heap_bytes", live).
		Int64("dedup_bytes", st.IDBytes).Int64("dedup_disk_bytes", st.IDDiskBytes).
		Int64("unfiled_bytes", st.Journal.Unfiled).Int64("spooled_messages", b.Maintenance().Buffered).
		Int("segments", st.Segments).Int64("segment_bytes", st.SegmentBytes).
		Int64("disk_free_bytes", st.DiskFree).Int64("disk_total_bytes", st.DiskTotal).
		Int("queues", st.Queues).Int("partitions", st.Partitions).Int("leases", st.Leases).
		Int64("dead_letters", st.DeadLetters).Int("connections", s.conns.count()).Msg("sizes")
}

// logQueues names the n queues that most went through since the latest line.
func (r *rates) logQueues(b Broker, n int) {
	if n == 0 {
		return
	}
	top := most[busyQueue]{n: n}
	b.EachTraffic(false, func(q *broker.QueueTraffic) {
		t := &q.Traffic
		flow := queueFlow{t[broker.PushedMessages], t[broker.PoppedMessages], t[broker.AckedMessages]}
		if flow == (queueFlow{}) {
			return
		}
		r.spare[q.ID] = flow
		was := r.queues[q.ID]
		for i := range flow {
			flow[i] -= was[i]
		}
		if sum := flow[0] + flow[1] + flow[2]; sum > 0 && top.takes(sum) {
			top.add(sum, busyQueue{q.Tenant, q.Name, flow})
		}
	})
	r.queues, r.spare = r.spare, r.queues
	clear(r.spare)
	queues := zerolog.Arr()
	for _, q := range top.all() {
		f := &q.item.flow
		line := zerolog.Dict().Str("queue", q.item.name).Int64("pushed", f[0]).Int64("popped", f[1]).Int64("acked", f[2])
		if q.item.tenant != broker.DefaultTenant {
			line.Stringer("tenant", q.item.tenant)
		}
		queues.Dict(line)
	}
	if len(top.heap) > 0 {
		r.log.Info().Array("queues", queues).Msg("busiest queues")
	}
}
