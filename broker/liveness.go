package broker

import (
	"cmp"
	"slices"
	"time"
)

// Liveness says how many partitions of a queue are written to.
type Liveness struct {
	Queue, Namespace, Task string

	Partitions                  int
	LastHour, LastDay, LastWeek int   // those with a write in that time
	CreatedLastDay              int   // those made in that time
	OldestWriteMs               int64 // of the latest writes of all partitions the oldest; 0: none
	NewestWriteMs               int64
	Pending                     int64 // as in QueueInfo
}

// Liveness describes those of the tenant's queues that are wanted, by the number of their
// partitions: limit of them, those with most. It walks over the partitions of these in
// memory, and locks each for a moment.
func (b *Broker) Liveness(t Tenant, wanted func(name string, o *QueueOptions) bool, limit int) []Liveness {
	type sized struct {
		q          *queue
		partitions int
	}
	var queues []sized
	for _, q := range b.tenantQueues(t) {
		if wanted(q.name, q.options.Load()) {
			queues = append(queues, sized{q, q.named()})
		}
	}
	slices.SortFunc(queues, func(x, y sized) int {
		return cmp.Or(cmp.Compare(y.partitions, x.partitions), cmp.Compare(x.q.name, y.q.name))
	})
	var rows []Liveness
	for _, s := range queues[:min(max(limit, 0), len(queues))] {
		rows = append(rows, b.liveness(s.q))
	}
	// Meanwhile there may have come others.
	slices.SortStableFunc(rows, func(x, y Liveness) int { return cmp.Compare(y.Partitions, x.Partitions) })
	return rows
}

func (b *Broker) liveness(q *queue) Liveness {
	o, now, stamp := q.options.Load(), b.clock.mono(), b.clock.stamp()
	l := Liveness{Queue: q.name, Namespace: o.Namespace, Task: o.Task}
	ago := func(d time.Duration) int64 { return b.clock.since(stamp, d.Milliseconds()) }
	hourAgo, dayAgo, weekAgo := ago(time.Hour), ago(24*time.Hour), ago(7*24*time.Hour)
	groups := *q.groupList.Load()
	placed := make([]bool, len(groups))
	b.walk(q, groups, func(p *partition) {
		info, _ := p.inspectLocked(groups, placed, now)
		l.Partitions++
		l.Pending += info.Pending
		if p.createdMs >= dayAgo {
			l.CreatedLastDay++
		}
		if p.hwm == 0 {
			return
		}
		if p.lastMs >= hourAgo {
			l.LastHour++
		}
		if p.lastMs >= dayAgo {
			l.LastDay++
		}
		if p.lastMs >= weekAgo {
			l.LastWeek++
		}
		l.NewestWriteMs = max(l.NewestWriteMs, p.lastMs)
		if l.OldestWriteMs == 0 || p.lastMs < l.OldestWriteMs {
			l.OldestWriteMs = p.lastMs
		}
	})
	return l
}
