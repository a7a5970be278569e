package model

import "fmt"

// conflates reports whether the group gets of p the newest visible message alone.
func (p *partition) conflates(group string) bool { return p.queue.registered[group].conflation }

// policies returns, for each queue that a pop has reached, whether its group conflates.
// A pinned pop registers nothing, so what is not stored is not applied.
func (m *Model) policies(r *Pop, group string) (conflating []bool) {
	if !r.Discovery {
		q := m.queue(r.Queue)
		return []bool{q != nil && q.registered[group].conflation}
	}
	for _, q := range sorted(m.queues) {
		if r.matches(q) {
			conflating = append(conflating, q.registered[group].conflation)
		}
	}
	return conflating
}

// compareEcho compares what the answer says about conflation: whether it was applied, and
// whether it was asked for in vain.
func (m *Model) compareEcho(r *Pop, group string, got *PopAnswer) error {
	yes, no := false, false
	for _, conflating := range m.policies(r, group) {
		yes, no = yes || conflating, no || !conflating
	}
	if r.Discovery && !yes && !no {
		yes = r.Conflation // there is no queue yet; every one to come will have it
	}
	if len(got.Messages) > 0 {
		yes = false
		for i := range got.Messages {
			if p, _ := m.messageByID(got.Messages[i].ID); p != nil {
				yes = yes || p.conflates(group)
			}
		}
	}
	if conflict := r.Conflation && no; got.Conflation != yes || got.Conflict != conflict {
		return fmt.Errorf("conflation %t, conflict %t, want %t, %t", got.Conflation, got.Conflict, yes, conflict)
	}
	return nil
}

// passedOver is how many messages a clean ack of a conflating lease completes beside the
// one that was delivered.
func (l *lease) passedOver(committed int64) int64 { return l.end - max(l.from, committed+1) }

// first is the first offset that was delivered under the lease.
func (l *lease) first() int64 {
	if l.conflating {
		return l.end
	}
	return l.from
}
