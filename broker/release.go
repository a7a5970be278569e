package broker

import (
	"github.com/google/uuid"

	"github.com/skepmq/skep/log/journal"
)

// Release gives an undelivered lease back at once, uncharged and as if it had not been.
func (b *Broker) Release(leaseID uuid.UUID) {
	for _, k := range b.leases.Keys(leaseID, nil) {
		p := b.partitions.get(k.Partition)
		if p == nil {
			continue
		}
		if g := b.release(p, k.Group, leaseID); g != nil {
			g.ready.offer(p.index)
		}
	}
}

func (b *Broker) release(p *partition, group uint32, leaseID uuid.UUID) *group {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := p.cursors; c != nil; c = c.next {
		if c.group.number != group || c.lease == nil || c.lease.id != leaseID {
			continue
		}
		b.dropLeaseLocked(p, c)
		if c.attempt--; c.attempt == 0 {
			c.attemptStart = -1
		}
		c.version++
		b.recordCursorLocked(p, c, journal.OpOther, true)
		return c.group
	}
	return nil
}
