package main

import "time"

// lease is what a pop was granted in one stream.
type lease struct {
	id          string
	serial      int // in its place, from 1
	pop         *pop
	place       *place
	first, last int // positions
	attempt     int
	length      moment
	extended    []extended
	latest      moment // when it has ended at the latest, but for extensions
	extending   int    // extensions on their way, or lost
	gone        bool   // an answered ack has released it
	releasing   int    // acks on their way, or lost, that would release it
}

// extended is an answered extension.
type extended struct {
	life      int
	answered  moment
	atLeastTo moment
}

// earliest is when l ends at the earliest, if nobody releases it, as the given life of
// the broker must know it: 0 if a crash may have lost it.
func (c *checker) earliest(l *lease, life int) moment {
	if !c.survived(l.pop.life, l.pop.end, life) {
		return 0
	}
	end := l.pop.sent + l.length
	for _, e := range l.extended {
		if c.survived(e.life, e.answered, life) {
			end = max(end, e.atLeastTo)
		}
	}
	return end
}

// survived reports whether what happened in a life, before a moment, was certainly on
// disk when another life began.
func (c *checker) survived(life int, at moment, later int) bool {
	return life == later || at < c.durable[life]
}

// grant notes the lease that p was given in pl, and checks that no other one lives.
func (c *checker) grant(p *pop, pl *place, part *part, d *delivered) *lease {
	l := &lease{
		id: d.LeaseID, pop: p, place: pl, attempt: d.Attempt,
		first: part.messages[0].position, last: part.messages[len(part.messages)-1].position,
		length: moment(p.leaseSeconds) * time.Second,
	}
	l.latest, l.serial = p.end+l.length, 1
	if old := pl.lease; old != nil {
		l.serial = old.serial + 1
		c.checkExclusive(old, l, part.messages[0])
		c.checkAttempt(old, l, part.messages[0])
	}
	pl.lease = l
	return l
}

// checkExclusive compares a lease with the one that was recorded before it. They were
// granted in one order or the other, and one order must make sense.
func (c *checker) checkExclusive(old, l *lease, m *message) {
	if old.id == l.id {
		c.violate("two leases", m, "lease id %s again", l.id)
		return
	}
	ends := c.earliest(old, l.pop.life)
	behind := old.gone || old.releasing > 0 || ends <= l.pop.end+margin
	before := old.pop.life == l.pop.life && l.pop.sent <= old.pop.end && l.pop.sent+l.length <= old.pop.end+margin
	if !behind && !before {
		c.violate("two leases", m, "group %q: leased to %s as %s at %v, while lease %s of %s (sent %v, life %d) is good until %v",
			l.place.group, l.pop.worker, l.id, l.pop.end, old.id, old.pop.worker, old.pop.sent, old.pop.life, ends)
	}
}

// checkAttempt checks that the attempt grows when the same batch is handed out again.
func (c *checker) checkAttempt(old, l *lease, m *message) {
	if l.attempt == 0 || l.first != old.first || l.pop.sent <= old.pop.end || !c.survived(old.pop.life, old.pop.end, l.pop.life) {
		return // not told, another batch, order unclear, or perhaps forgotten
	}
	if l.attempt <= old.attempt {
		c.violate("attempt", m, "group %q: delivery attempt %d after %d", l.place.group, l.attempt, old.attempt)
	}
}

// startExtend is called before e is sent.
func (c *checker) startExtend(e *extend) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.extends = append(c.extends, e)
	for _, part := range e.pop.parts {
		part.lease.extending++
	}
}

// endExtend takes the answer to e: how many leases were extended.
func (c *checker) endExtend(e *extend, renewed int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.counts(&e.request) {
		return
	}
	e.renewed = renewed
	live := 0
	for _, part := range e.pop.parts {
		l := part.lease
		if c.certainlyLive(l, &e.request, nil) {
			live++
		}
		l.extending--
		l.latest = max(l.latest, e.end+moment(e.seconds)*time.Second)
		if renewed == len(e.pop.parts) {
			l.extended = append(l.extended, extended{e.life, e.end, e.sent + moment(e.seconds)*time.Second})
		}
	}
	if renewed < live || renewed > len(e.pop.parts) {
		c.violate("extend", e.pop.parts[0].messages[0], "renewed %d of %d leases, %d of them certainly live", renewed, len(e.pop.parts), live)
	}
}

// loseExtend says that e got no answer: its leases may last longer than is known.
func (c *checker) loseExtend(e *extend) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e.outcome = unknown
}

// certainlyLive reports whether l was live when the answered request r was handled.
func (c *checker) certainlyLive(l *lease, r *request, op *ackOp) bool {
	releasing := l.releasing
	if op != nil && op.releases() {
		releasing--
	}
	return !l.gone && releasing == 0 && l.place.lease == l && r.end+margin < c.earliest(l, r.life)
}

// certainlyOver reports whether l had ended by itself when r was sent.
func (l *lease) certainlyOver(r *request) bool {
	return l.extending == 0 && r.sent > l.latest+margin
}
