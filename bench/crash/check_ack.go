package main

import (
	"slices"
	"strings"
)

// ackOp is what one ack request asks of one lease: the broker decides it as a whole.
type ackOp struct {
	ack    *ack
	lease  *lease
	items  []int // in ack.items
	signal int   // lowest position not completed, -1 for none
	kind   string
	prefix int  // highest completed position below signal, -1 for none
	ends   bool // completes the leased batch
	files  bool // may set the message at signal aside
}

// newOps splits the items of a by lease.
func newOps(a *ack) []*ackOp {
	var ops []*ackOp
	byLease := map[*lease]*ackOp{}
	for i, item := range a.items {
		op := byLease[item.lease]
		if op == nil {
			op = &ackOp{ack: a, lease: item.lease, signal: -1, prefix: -1}
			byLease[item.lease] = op
			ops = append(ops, op)
		}
		op.items = append(op.items, i)
		if position := item.message.position; item.status != completed && (op.signal < 0 || position < op.signal) {
			op.signal, op.kind = position, item.status
		}
	}
	for _, op := range ops {
		for _, i := range op.items {
			if item := a.items[i]; item.status == completed && (op.signal < 0 || item.message.position < op.signal) {
				op.prefix = max(op.prefix, item.message.position)
			}
		}
		op.ends = op.signal < 0 && op.prefix >= op.lease.last
	}
	return ops
}

// What an ack can say of a message.
const (
	completed = "completed"
	failed    = "failed"
	retry     = "retry"
	dlq       = "dlq"
)

// releases reports whether op, if it is accepted, ends the lease.
func (op *ackOp) releases() bool { return op.ends || op.signal >= 0 }

// charges reports whether op, if it is accepted, counts against the retry limit.
func (op *ackOp) charges() bool { return op.signal >= 0 && op.kind == failed }

// mostCommitted is the furthest that op can move the cursor.
func (op *ackOp) mostCommitted() int {
	if op.files {
		return max(op.prefix, op.signal)
	}
	return op.prefix
}

// retries returns the bounds of the retry counter, as op will find it.
func (p *place) retries(op *ackOp) (lo, hi int) {
	lo, hi = p.retriesLo, p.retriesHi
	for _, o := range p.ops {
		if o == op {
			continue
		}
		if o.charges() {
			hi++
		}
		if o.ends || o.files {
			lo = 0
		}
	}
	return lo, min(hi, p.stream.queue.retryLimit)
}

// startAck is called before a is sent.
func (c *checker) startAck(a *ack) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.acks = append(c.acks, a)
	a.ops = newOps(a)
	for _, op := range a.ops {
		pl := op.lease.place
		_, hi := pl.retries(op)
		op.files = op.kind == dlq || op.charges() && hi >= pl.stream.queue.retryLimit
		if op.files {
			pl.dead[op.signal] = max(pl.dead[op.signal], perhaps)
		}
		pl.ops = append(pl.ops, op)
		if op.releases() {
			op.lease.releasing++
		}
	}
}

// loseAck says that a got no answer: it stays among its places' ops until what they
// deliver tells what became of it.
func (c *checker) loseAck(a *ack) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.loseAckLocked(a)
}

func (c *checker) loseAckLocked(a *ack) {
	a.outcome = unknown
	c.totals.lostAcks += len(a.items)
}

// drop forgets op: it has not happened, or what it did is accounted for. past says that
// the cursor has passed the message that op may have set aside.
func (op *ackOp) drop(past bool) {
	pl := op.lease.place
	pl.ops = slices.DeleteFunc(pl.ops, func(o *ackOp) bool { return o == op })
	if op.releases() {
		op.lease.releasing--
	}
	other := slices.ContainsFunc(pl.ops, func(o *ackOp) bool { return o.files && o.signal == op.signal })
	if op.files && !past && !other && pl.dead[op.signal] == perhaps {
		delete(pl.dead, op.signal)
	}
}

// endAck takes the answer to a.
func (c *checker) endAck(a *ack, results []ackResult) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.counts(&a.request) {
		c.loseAckLocked(a)
		return
	}
	a.results = results
	if len(results) != len(a.items) {
		c.violate("ack answer", nil, "%d results for %d acks", len(results), len(a.items))
		return
	}
	c.totals.acks += len(results)
	for _, op := range a.ops {
		if wasRefused(op) {
			c.endRefused(op)
		} else {
			c.endAccepted(op)
		}
	}
}

// wasRefused reports whether the broker refused all of op for want of a lease.
func wasRefused(op *ackOp) bool {
	for _, i := range op.items {
		r := &op.ack.results[i]
		if r.Success || r.text() != "consumer not found" && r.text() != "invalid or expired lease" {
			return false
		}
	}
	return true
}

func (c *checker) endRefused(op *ackOp) {
	a, l := op.ack, op.lease
	first := a.items[op.items[0]].message
	if c.certainlyLive(l, &a.request, op) {
		c.violate("lease lost", first, "group %q: ack refused with %q, but the lease is good until %v", a.group, a.results[op.items[0]].text(), c.earliest(l, a.life))
	}
	// An earlier one may have set it aside, and a delivery may have told by now.
	op.drop(op.lease.place.lo >= op.signal)
}

func (c *checker) endAccepted(op *ackOp) {
	a, l, pl := op.ack, op.lease, op.lease.place
	first := a.items[op.items[0]].message
	newer := pl.lease
	switch {
	case newer != l && newer.pop.sent > l.pop.end && newer.pop.end < a.sent:
		c.violate("stale ack", first, "group %q: accepted under lease %s, though lease %s has followed it", a.group, l.id, newer.id)
	case l.certainlyOver(&a.request):
		c.violate("stale ack", first, "group %q: accepted at %v, though the lease ended at %v", a.group, a.sent, l.latest)
	}
	c.checkItems(op)
	// A lost ack under this lease has not released it, or this one would be refused.
	for _, o := range slices.Clone(pl.ops) {
		if o != op && o.lease == l && o.ack.outcome == unknown && o.releases() {
			o.drop(false)
		}
	}
	filed := op.signal >= 0 && a.results[op.item(op.signal)].DLQ
	c.checkCounter(op, filed)
	pl.advance(op.prefix, a.end)
	if filed {
		pl.advance(op.signal, a.end)
		pl.dead[op.signal] = certain
		c.totals.deadLetters++
	}
	op.drop(filed)
	l.gone = l.gone || op.releases()
	c.wrote(&a.request)
}

// item returns the index in the ack of op's item at a position.
func (op *ackOp) item(position int) int {
	for _, i := range op.items {
		if op.ack.items[i].message.position == position {
			return i
		}
	}
	return -1
}

// checkItems checks the results of an accepted op one by one.
func (c *checker) checkItems(op *ackOp) {
	a, pl := op.ack, op.lease.place
	for _, i := range op.items {
		item, r := &a.items[i], &a.results[i]
		m := item.message
		switch {
		case r.Index != i || r.TransactionID != m.txn:
			c.violate("ack answer", m, "result %d is of index %d, transaction id %q", i, r.Index, r.TransactionID)
		case r.Success != (r.text() == ""):
			c.violate("ack answer", m, "success %v with error %q", r.Success, r.text())
		case !r.Success && !strings.HasPrefix(r.text(), "already committed"):
			c.violate("ack answer", m, "group %q: %s refused: %s", a.group, item.status, r.text())
		case (r.Noop || !r.Success) && pl.hiWithout(op) < m.position:
			c.violate("cursor ahead", m, "group %q: the broker says that position %d is committed, but nothing has moved the cursor beyond %d", a.group, m.position, pl.hiWithout(op))
		case r.DLQ && m.position != op.signal:
			c.violate("ack answer", m, "group %q: %s, and dead-lettered", a.group, item.status)
		case r.Success && r.LeaseReleased != op.releases():
			c.violate("ack answer", m, "group %q: leaseReleased %v", a.group, r.LeaseReleased)
		}
		if !r.Success {
			pl.advance(m.position, a.end)
		}
	}
}

// checkCounter checks that a message is set aside exactly when the budget is spent, and
// follows the retry counter.
func (c *checker) checkCounter(op *ackOp, filed bool) {
	pl := op.lease.place
	limit := pl.stream.queue.retryLimit
	lo, hi := pl.retries(op)
	outOfOrder := pl.counted > op.lease.serial // a later holder's ack is counted already
	pl.counted = max(pl.counted, op.lease.serial)
	switch {
	case op.ends || filed:
		if filed && (op.kind == retry || op.kind == failed && hi < limit && !outOfOrder) {
			c.violate("dead letter too early", pl.stream.log[op.signal], "group %q: dead-lettered by %s after %d failures at most, the limit is %d", pl.group, op.kind, hi, limit)
		}
		pl.retriesLo = 0
		if !outOfOrder {
			pl.retriesHi = 0
		}
		return
	case op.signal < 0 || op.kind == retry || !op.ack.results[op.item(op.signal)].Success:
		return
	case op.kind == dlq || lo >= limit && !outOfOrder:
		c.violate("not dead-lettered", pl.stream.log[op.signal], "group %q: %s after at least %d failures, the limit is %d", pl.group, op.kind, lo, limit)
	}
	if !outOfOrder {
		pl.retriesLo = lo + 1
	}
	pl.retriesHi = min(hi+1, limit)
}

// observe takes what a delivery from position start tells: the cursor was at start-1
// when the lease was granted, so acks that were lost with an earlier life have happened,
// or never will.
func observe(p *pop, pl *place, start int) {
	var lost []*ackOp
	for _, op := range pl.ops {
		if op.ack.life < p.life {
			lost = append(lost, op)
		}
	}
	if len(lost) == 1 && len(pl.ops) == 1 {
		pl.resolve(lost[0], start-1)
	} else {
		for _, op := range lost {
			pl.widen(op)
		}
	}
	for _, op := range lost {
		op.drop(start > op.signal)
	}
	pl.advance(start-1, p.end)
}

// resolve applies the only op there is, if the cursor says that it has happened.
func (p *place) resolve(op *ackOp, cursor int) {
	limit := p.stream.queue.retryLimit
	switch {
	case op.files && cursor == op.signal:
		p.dead[op.signal] = certain
		p.retriesLo, p.retriesHi = 0, 0
	case op.prefix > p.lo && cursor < op.prefix:
		// It has not happened.
	case op.ends:
		p.retriesLo = 0
		if op.prefix > p.lo {
			p.retriesHi = 0
		}
	case op.charges():
		if op.prefix > p.lo {
			p.retriesLo = min(p.retriesLo+1, limit)
		}
		p.retriesHi = min(p.retriesHi+1, limit)
	}
}

// widen makes room for an op that may or may not have happened.
func (p *place) widen(op *ackOp) {
	if op.ends || op.files {
		p.retriesLo = 0
	}
	if op.charges() {
		p.retriesHi = min(p.retriesHi+1, p.stream.queue.retryLimit)
	}
}
