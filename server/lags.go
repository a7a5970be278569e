package server

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"github.com/skepmq/skep/broker"
)

// Lags of groups are found by walking over all partitions, so they are not found anew for
// every scrape: no more than a hundredth of the time goes into it.
const lagShare = 100

// minLagAge is how long lags are good at least.
const minLagAge = 2 * time.Second

type lags struct {
	mu     sync.Mutex
	groups []broker.GroupInfo // those behind most
	count  int                // of all groups
	taken  time.Time
	cost   time.Duration
}

// top returns the groups with the largest lag, and how old that is.
func (l *lags) top(s *Server, b Broker) (groups []broker.GroupInfo, count int, age time.Duration, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now, began := s.opts.Now(), time.Now()
	if age = now.Sub(l.taken); !l.taken.IsZero() && age < max(minLagAge, lagShare*l.cost) {
		return l.groups, l.count, age, nil
	}
	all, err := b.AllGroups()
	if err != nil {
		return nil, 0, 0, err
	}
	l.count = len(all)
	all = joinGroups(all)
	slices.SortStableFunc(all, func(x, y broker.GroupInfo) int { return cmp.Compare(y.Lag, x.Lag) })
	l.groups = slices.Clone(all[:min(len(all), s.opts.MetricsGroups)])
	l.taken, l.cost = now, time.Since(began)
	return l.groups, l.count, 0, nil
}
