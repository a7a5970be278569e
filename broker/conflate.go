package broker

import (
	"errors"

	"github.com/skepmq/skep/segment"
)

// Conflation is last-value delivery: a group that was registered with it gets of each
// partition it claims one message, the newest visible one. The lease covers everything
// from the cursor up to that message, so completing it completes what was passed over,
// and setting it aside as a dead letter does too.

// maxConflated is how many messages one pop of a conflating group delivers at most.
const maxConflated = 64

// claimedAll reports whether the call has claimed as many partitions as it may. A
// conflating group, which takes one message of each, is bounded by the batch alone
// where the request does not say.
func (p *popper) claimedAll(res *PopResult, conflating bool) bool {
	if conflating && p.req.DefaultPartitions {
		return false
	}
	return p.req.Partitions > 0 && len(res.Parts) >= p.req.Partitions
}

// sayConflation puts into res what a client has to know about the policy of the groups
// it popped for. An answer with messages has said already whether it was applied.
func (p *popper) sayConflation(res *PopResult) {
	yes, no := p.policies()
	if len(res.Parts) == 0 {
		res.Conflation = yes
	}
	res.ConflationConflict = p.req.Conflation && no
}

// policies reports whether some of the groups that the pop is for conflate, and whether
// some do not. Where it has not come so far as to look for them, what is stored counts,
// and else what it will store: a pinned pop nothing.
func (p *popper) policies() (yes, no bool) {
	for _, g := range p.groups {
		conflates := g.sub.Load().conflation
		yes, no = yes || conflates, no || !conflates
	}
	if len(p.groups) > 0 {
		return yes, no
	}
	if !p.req.Discovery {
		if g := p.b.groupOf(p.req.Tenant, p.req.Queue, p.name); g != nil && g.sub.Load().registered {
			yes = g.sub.Load().conflation
			return yes, !yes
		}
	}
	yes = p.req.Conflation && !p.req.Pinned
	return yes, !yes
}

// groupOf finds a group by name, nil if it or its queue does not exist.
func (b *Broker) groupOf(t Tenant, queue, name string) *group {
	if q := b.queue(t, queue); q != nil {
		return q.group(name)
	}
	return nil
}

// readNewest reads the newest visible message at or above cl.from. No lock is held. It
// reads one batch, and where delays hide messages a second one, however many wait.
func (cl *claim) readNewest(b *Broker) error {
	cl.reset()
	newest, err := cl.newestVisible(b)
	if err != nil || newest < cl.from {
		return err
	}
	from := cl.from
	lost, err := cl.readAt(b, newest)
	if !lost || err != nil {
		return err
	}
	if newest, err = cl.newestKept(b, from, newest); err != nil || newest < from {
		return err
	}
	cl.from = from
	_, err = cl.readAt(b, newest)
	return err
}

// readAt reads the message at an offset, the last that the lease will cover. lost says that
// a repair has marked it as lost.
func (cl *claim) readAt(b *Broker, newest int64) (lost bool, err error) {
	cl.skipped = newest - cl.from
	cl.from, cl.next = newest, newest
	var addErr error
	err = b.batches(cl.view, newest, func(h *segment.Header, batch []byte) bool {
		switch {
		case h.BaseOffset <= newest && h.Lost():
			lost = true
		case h.BaseOffset <= newest:
			_, addErr = cl.add(h, batch)
		case h.BaseOffset < cl.view.hwm:
			// Retention was faster. What it left is hidden, or there would be a newer one.
			cl.hidden = cl.opens(h)
		}
		return false
	})
	return lost, errors.Join(err, addErr)
}

// newestVisible returns the offset of the newest message that no delay hides, or one
// below cl.from if all are hidden: then cl.hidden says until when.
func (cl *claim) newestVisible(b *Broker) (int64, error) {
	last := cl.view.hwm - 1
	delay, quiet := cl.options.delaysMs()
	if delay == 0 && quiet == 0 {
		return last, nil
	}
	now, opens := b.clock.stamp(), int64(0)
	err := b.batches(cl.view, cl.from, func(h *segment.Header, _ []byte) bool {
		if h.BaseOffset < cl.view.hwm {
			opens = cl.opens(h)
		}
		return false
	})
	if err != nil {
		return 0, err
	}
	if opens > now {
		cl.hidden = opens
		return cl.from - 1, nil
	}
	if delay == 0 {
		return last, nil
	}
	newest, err := b.offsetAt(cl.view, cl.view.hwm, now-delay+1)
	return min(newest, last), err
}

// newestKept returns the offset of the newest message from from to newest that was not
// marked as lost. If all are, that is one below from, and the claim is behind them.
func (cl *claim) newestKept(b *Broker, from, newest int64) (kept int64, err error) {
	kept = from - 1
	err = b.batchesBackward(cl.view, newest+1, func(h *segment.Header, _ []byte) bool {
		if h.Lost() {
			return h.BaseOffset > from
		}
		kept = min(newest, h.EndOffset()-1)
		return false
	})
	if err == nil && kept < from {
		kept = from - 1
		cl.from, cl.next, cl.skipped = newest+1, newest+1, 0
	}
	return kept, err
}

// opens returns when the partition delivers the batch of h, if that is the oldest that
// the group has not seen.
func (cl *claim) opens(h *segment.Header) int64 {
	delay, quiet := cl.options.delaysMs()
	opens := h.TimestampMs + delay
	if quiet > 0 && cl.view.hwm-max(cl.from, h.BaseOffset) < windowBufferCount {
		opens = max(opens, h.TimestampMs+quiet)
	}
	return opens
}

// conflated reports whether the batch that is leased for c is the newest message of what
// its lease covers, and how many messages are covered beside it. Where an attempt began is
// where the span did, also after a restart.
func (s *subscription) conflated(c *cursor) (conflates bool, skipped int64) {
	l := c.lease
	if !s.conflation || l.from != l.end {
		return false, 0 // or leased by a pinned pop, before the group was registered
	}
	return true, l.end - max(c.attemptStart, c.committed+1)
}
