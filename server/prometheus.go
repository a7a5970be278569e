package server

import (
	"slices"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/skepmq/skep/broker"
)

func newRegistry(s *Server) *prometheus.Registry {
	r := prometheus.NewRegistry()
	r.MustRegister(collector{s}, collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return r
}

// collector reads the counters of the server and its broker at each scrape.
type collector struct{ s *Server }

// Describe names nothing: which families there are depends on what there is to tell.
func (c collector) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (c collector) Collect(metricsC chan<- prometheus.Metric) {
	out := scrape{metricsC}
	c.process(out)
	c.requests(out)
	stored := c.s.broker.Load()
	if stored == nil {
		out.flag(ready, false)
		return
	}
	b := *stored
	out.flag(ready, !c.s.stopping.Load() && b.Ready() == nil)
	st, now := b.Stats(), c.s.opts.Now()
	queues := c.s.queueMetrics(b, now)
	traffic(out, &st.Traffic)
	pops(out, &st)
	totals := c.s.minutes.lifetime(&st)
	totals[broker.StorageErrors] += c.s.history.Failures()
	lifetime(out, totals)
	standing(out, &st, b.Maintenance())
	store(out, &st)
	memoryBounds(out, c.s, &st)
	queues.collect(out, st.Parked, now)
	system := c.s.minutes.system(&st)
	out.add(schedLag, system.schedLagMs)
	for _, q := range shownQuantiles {
		out.add(fsyncTook, milliseconds(system.syncs.Quantile(quantile(q))), q)
	}
	batches(out, &st, &system)
	c.lags(out, b)
}

var shownQuantiles = [...]string{"0.5", "0.99"}

// quantile is the number that a label shows.
func quantile(label string) float64 {
	q, _ := strconv.ParseFloat(label, 64)
	return q
}

func milliseconds(d time.Duration) float64 { return d.Seconds() * 1000 }

func (c collector) process(out scrape) {
	u := readUsage()
	_, used := heap()
	out.add(uptimeSeconds, c.s.opts.Now().Sub(c.s.started).Seconds())
	out.add(residentBytes, float64(u.rss))
	out.add(heapLiveBytes, float64(used))
	out.add(connections, float64(c.s.conns.count()))
	out.add(maxConns, float64(c.s.opts.MaxConns))
}

func (c collector) requests(out scrape) {
	for op, name := range operationNames {
		counts := &c.s.requests
		for i := range counts.byStatus[op] {
			if n := counts.byStatus[op][i].Load(); n > 0 {
				out.add(httpRequests, float64(n), name, strconv.Itoa(lowStatus+i))
			}
		}
		took := counts.took[op].load()
		for _, q := range shownQuantiles {
			if d := took.Quantile(quantile(q)); d > 0 {
				out.add(requestTook, milliseconds(d), name, q)
			}
		}
	}
}

func traffic(out scrape, t *broker.Traffic) {
	for _, x := range [...]struct {
		f family
		c broker.Counter
	}{
		{pushRequests, broker.PushRequests}, {popRequests, broker.PopRequests}, {ackRequests, broker.AckRequests},
		{pushMessages, broker.PushedMessages}, {popMessages, broker.PoppedMessages}, {ackMessages, broker.AckedMessages},
		{emptyPops, broker.EmptyPops}, {failedAcks, broker.FailedAcks},
		{transactionCount, broker.Transactions}, {deadLettered, broker.DeadLettered}, {evictedUnread, broker.EvictedUnread},
	} {
		out.add(x.f, float64(t[x.c]))
	}
	out.add(deletedMessages, float64(t[broker.DroppedByAge]), "age")
	out.add(deletedMessages, float64(t[broker.DroppedCompleted]), "completed")
	out.add(deletedMessages, float64(t[broker.DroppedByEviction]), "eviction")
}

func lifetime(out scrape, t broker.Traffic) {
	for _, x := range [...]struct {
		f family
		c broker.Counter
	}{
		{totalPushRequests, broker.PushRequests}, {totalPopRequests, broker.PopRequests}, {totalAckRequests, broker.AckRequests},
		{totalPushMessages, broker.PushedMessages}, {totalPopMessages, broker.PoppedMessages}, {totalAckMessages, broker.AckedMessages},
		{totalTransactions, broker.Transactions}, {totalDLQ, broker.DeadLettered},
	} {
		out.add(x.f, float64(t[x.c]), "cluster")
	}
	out.add(totalAcks, float64(t[broker.AckedMessages]), "cluster", "success")
	out.add(totalAcks, float64(t[broker.FailedAcks]), "cluster", "failed")
	out.add(totalErrors, float64(t[broker.StorageErrors]), "cluster")
}

func standing(out scrape, st *broker.Stats, m broker.Maintenance) {
	out.add(queueCount, float64(st.Queues))
	out.add(partitionCount, float64(st.Partitions))
	out.add(damagedCount, float64(st.DamagedPartitions))
	out.add(leasesLive, float64(st.Leases))
	out.add(parkedMax, float64(st.Limits.Parked))
	out.add(dlqDepth, float64(st.DeadLetters), "cluster")
	out.flag(pushMaintenance, m.Push)
	out.flag(popMaintenance, m.Pop)
	out.add(bufferPending, float64(m.Buffered))
	out.add(bufferFailed, 0)
	out.flag(bufferHealthy, m.Healthy)
}

func store(out scrape, st *broker.Stats) {
	j := &st.Journal
	out.add(storeBytes, float64(st.SegmentBytes), "segments")
	out.add(storeBytes, float64(j.Unfiled), "journal")
	out.add(storeBytes, float64(st.IDDiskBytes), "transaction_ids")
	out.add(storeSegments, float64(st.Segments))
	out.add(openSegments, float64(st.OpenSegments))
	out.add(fsyncs, float64(j.Syncs))
	out.add(slowFsyncs, float64(j.Slow))
	out.add(fsyncSeconds, j.SyncTime.Seconds())
	out.add(appendBytes, float64(j.Bytes))
	out.add(filedBytes, float64(st.SegmentWrites))
	out.add(commits, float64(j.Groups))
	out.add(commitRecords, float64(j.Frames))
	out.add(deletedBytes, float64(st.DroppedSegmentBytes))
	out.add(reclaimedBytes, float64(st.ReclaimedBytes))
	for _, phase := range st.Recovery {
		out.add(recoverySeconds, phase.Took.Seconds(), phase.Name)
	}
	out.flag(diskFull, st.DiskFull)
	out.flag(memoryHigh, st.MemoryHigh)
	out.add(undecrypted, float64(st.UndecryptedPayloads))
	if st.DiskTotal > 0 {
		out.add(diskFree, float64(st.DiskFree))
		out.add(diskUsed, 1-float64(st.DiskFree)/float64(st.DiskTotal))
	}
}

func memoryBounds(out scrape, s *Server, st *broker.Stats) {
	_, used := heap()
	for _, x := range [...]struct {
		kind        string
		used, limit int64
	}{
		{"bodies", s.bodies.used() + s.smallBodies.used(), s.opts.InFlightBytes},
		{"answers", s.answers.used(), s.opts.AnswerBytes},
		{"unfiled", st.Journal.Unfiled, st.Limits.UnfiledBytes},
		{"transaction_ids", st.IDBytes, st.Limits.IDBytes},
		{"heap", used, st.Limits.HeapBytes},
	} {
		out.add(budgetUsed, float64(x.used), x.kind)
		if x.limit > 0 {
			out.add(budgetLimit, float64(x.limit), x.kind)
		}
	}
}

func (m *queueMetrics) collect(out scrape, parked int, now time.Time) {
	others := int64(parked)
	for _, q := range m.parked.all() {
		out.add(parkedPolls, float64(q.has), q.item)
		others -= q.has
	}
	out.add(parkedPolls, float64(max(others, 0)), "")
	for _, q := range m.deadLetters.all() {
		out.add(dlqByQueue, float64(q.has), q.item)
	}
	for _, q := range m.damaged.all() {
		out.add(damagedByQueue, float64(q.has), q.item)
	}
	for _, q := range m.minutes.all() {
		q.item.collect(out, now)
	}
}

func (q *queueMinute) collect(out scrape, now time.Time) {
	t := &q.Traffic
	out.add(minutePushRequests, float64(t[broker.PushRequests]), q.Name)
	out.add(minutePushed, float64(t[broker.PushedMessages]), q.Name)
	out.add(minutePopped, float64(t[broker.PoppedMessages]), q.Name)
	out.add(minuteEmpty, float64(t[broker.EmptyPops]), q.Name)
	out.add(minuteTransactions, float64(t[broker.Transactions]), q.Name)
	out.add(minuteAcks, float64(t[broker.AckedMessages]), q.Name, "success")
	out.add(minuteAcks, float64(t[broker.FailedAcks]), q.Name, "failed")
	out.add(minuteConflated, float64(t[broker.Conflated]), q.Name)
	out.add(minuteParked, float64(q.Parked), q.Name)
	out.add(minuteAge, max(now.Sub(q.end), 0).Seconds(), q.Name)
	if n := t[broker.PoppedMessages]; n > 0 {
		out.add(minuteLag, float64(t[broker.LagMs])/float64(n), q.Name, "avg")
		out.add(minuteLag, float64(q.MaxLagMs), q.Name, "max")
	}
}

func (c collector) lags(out scrape, b Broker) {
	groups, count, age, err := c.s.lags.top(c.s, b)
	if err != nil {
		return
	}
	out.add(groupCount, float64(count))
	out.add(groupLagAge, age.Seconds())
	for _, g := range slices.Clone(groups) {
		out.add(groupLag, float64(g.Lag), g.Queue, g.Name)
		out.add(groupLagSeconds, float64(g.LagSeconds), g.Queue, g.Name)
	}
}
