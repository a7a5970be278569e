package broker

import (
	"math"
	"runtime/metrics"
	"sync/atomic"
)

// memory knows whether what is live has come up to its bound. What clients make and
// nothing bounds by itself, queues, partitions and groups, is then refused; whatever
// exists is served on. It is the heap that is asked and not a count of names, so that
// everything counts that does grow: cursors, dead letters, ids of what is leased.
type memory struct{ high atomic.Bool }

// checkMemory looks at the heap, as the garbage collector has found it the last time.
func (b *Broker) checkMemory() {
	if b.o.MaxHeapBytes <= 0 {
		return
	}
	live := liveHeap()
	high := live >= uint64(b.o.MaxHeapBytes)
	if b.memory.high.Swap(high) == high {
		return
	}
	event := b.log.Warn()
	if !high {
		event = b.log.Info()
	}
	event.Bool("high", high).Uint64("live_bytes", live).Int64("max_bytes", b.o.MaxHeapBytes).Msg("memory")
}

func liveHeap() uint64 {
	sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(sample)
	if sample[0].Value.Kind() != metrics.KindUint64 {
		return math.MaxUint64
	}
	return sample[0].Value.Uint64()
}

// mayMake returns ErrMemoryHigh if memory is short and what is asked for does not exist.
// It is asked before anything is done, so that a request is refused as a whole.
func (b *Broker) mayMake(exists func() bool) error {
	if b.memory.high.Load() && !exists() {
		return ErrMemoryHigh
	}
	return nil
}

// knowsPartitions reports whether all items go to partitions that exist.
func (b *Broker) knowsPartitions(t Tenant, items []PushItem) bool {
	for i := range items {
		if i > 0 && samePartition(&items[i], &items[i-1]) {
			continue
		}
		q := b.queueBytes(t, items[i].Queue)
		if q == nil || q.partitionBytes(items[i].Partition) == nil {
			return false
		}
	}
	return true
}

// knowsGroup reports whether a pop makes no queue and no group.
func (p *popper) knowsGroup() bool {
	queues := []*queue{p.b.queue(p.req.Tenant, p.req.Queue)}
	if p.req.Discovery {
		queues = p.b.labelled(p.req.Tenant, p.req.Namespace, p.req.Task)
	}
	for _, q := range queues {
		switch {
		case q == nil && p.req.Pinned:
			continue // nothing to make a group of
		case q == nil:
			return false
		case p.name != QueueMode && q.group(p.name) == nil:
			return false
		}
	}
	return true
}
