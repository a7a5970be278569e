package model

import "slices"

// Crash returns what the broker may know after it. Grants and extensions of leases are
// not waited for, and may be lost: then a batch is as it was before.
func (m *Model) Crash() []*Model {
	all := []*Model{m.Clone()}
	for _, p := range m.partitions() {
		for _, group := range p.queue.groups() {
			c := p.cursors[group]
			if c == nil || c.lease == nil {
				continue
			}
			for _, to := range slices.Clone(all) {
				for l := c.lease; l != nil; l = l.prior {
					lost := to.Clone()
					back := lost.queue(p.queue.name).partitions[p.name].cursors[group]
					back.lease = l.prior
					// It was a lease that brought queue mode here.
					back.unsure = back.unsure || group == QueueMode && l.prior == nil && c.committed < p.start
					all = append(all, lost)
				}
			}
		}
	}
	return all
}
