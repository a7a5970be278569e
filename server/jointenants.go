package server

import (
	"slices"

	"github.com/skepmq/skep/broker"
)

// Metrics have no label for the tenant: who reads them sees the whole broker, and what
// reads them has had one series for a name all along. Queues of one name are one series, the
// sum of all tenants'; a name that came twice would be left out of the scrape.

func joinQueues(all []broker.QueueTraffic) []broker.QueueTraffic {
	return joinNames(all, func(q *broker.QueueTraffic) *broker.QueueTraffic { return q }, joinTraffic)
}

func joinMinutes(all []queueMinute) []queueMinute {
	return joinNames(all, func(q *queueMinute) *broker.QueueTraffic { return &q.QueueTraffic }, func(to, q *queueMinute) {
		joinTraffic(&to.QueueTraffic, &q.QueueTraffic)
		if q.end.After(to.end) {
			to.end = q.end
		}
	})
}

func joinTraffic(to, q *broker.QueueTraffic) {
	to.Partitions += q.Partitions
	to.DeadLetters += q.DeadLetters
	to.Parked += q.Parked
	to.Damaged += q.Damaged
	to.Traffic.Add(&q.Traffic)
	to.MaxLagMs = max(to.MaxLagMs, q.MaxLagMs)
}

// joinNames makes one of the elements that have a name in common, in the place of the first.
// It leaves all as it is.
func joinNames[T any](all []T, queue func(*T) *broker.QueueTraffic, join func(to, from *T)) []T {
	other := func(e T) bool { return queue(&e).Tenant != queue(&all[0]).Tenant }
	if !slices.ContainsFunc(all, other) {
		return all // a tenant has each name once
	}
	at := make(map[string]int, len(all))
	var joined []T
	for i := range all {
		name := queue(&all[i]).Name
		if first, ok := at[name]; ok {
			join(&joined[first], &all[i])
			continue
		}
		at[name] = len(joined)
		joined = append(joined, all[i])
	}
	return joined
}

// joinGroups makes one of the groups that have name and queue in common. all is sorted by
// these, and not used any more.
func joinGroups(all []broker.GroupInfo) []broker.GroupInfo {
	joined := all[:0]
	for _, g := range all {
		if n := len(joined); n > 0 && joined[n-1].Name == g.Name && joined[n-1].Queue == g.Queue {
			joined[n-1].Lag += g.Lag
			joined[n-1].LagSeconds = max(joined[n-1].LagSeconds, g.LagSeconds)
			continue
		}
		joined = append(joined, g)
	}
	return joined
}
