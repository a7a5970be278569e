package main

// audit is what one reader has read: everything, in the order of the log.
type audit struct {
	name string
	next map[*spot]int // how much was read of each spot
	seen map[*transfer]int
	// partial are the transfers of which only a part was seen when the last pass ended.
	partial map[*transfer]bool
}

func newAudit(name string) *audit {
	return &audit{name: name, next: map[*spot]int{}, seen: map[*transfer]int{}, partial: map[*transfer]bool{}}
}

// read takes what a reader got: each spot must give it the same messages in the same
// order as it gave everybody else. It returns false if the answer does not count.
func (l *ledger) read(a *audit, r *request, queue string, messages []delivered) bool {
	l.check.mu.Lock()
	defer l.check.mu.Unlock()
	if !l.check.counts(r) {
		return false
	}
	for i := range messages {
		g := l.recognize(queue, &messages[i], r.end)
		if g == nil {
			return false
		}
		s, n := g.at, a.next[g.at]
		switch {
		case n < len(s.log) && s.log[n] != g:
			l.violate("order", g.by, "reader %s: %s/%s delivers %s at position %d, and %s to others", a.name, s.queue, s.partition, g.name, n, s.log[n].name)
			return false
		case n == len(s.log) && g.position >= 0:
			l.violate("stored twice", g.by, "reader %s: %s/%s delivers %s at position %d and at position %d", a.name, s.queue, s.partition, g.name, g.position, n)
			return false
		case n == len(s.log):
			g.position = n
			s.log = append(s.log, g)
		}
		a.next[s]++
		a.seen[g.by]++
	}
	l.check.totals.deliveries += len(messages)
	return true
}

// endPass says that the reader has come to the end of every queue. Of a transaction that
// it had seen a part of when the pass began, it must have seen the rest.
func (l *ledger) endPass(a *audit) {
	l.check.mu.Lock()
	defer l.check.mu.Unlock()
	now := map[*transfer]bool{}
	for t, n := range a.seen {
		switch {
		case n < len(t.gives) && a.partial[t]:
			l.violate("half a transaction", t, "reader %s: %d of %d messages of transfer %d can be seen, and the others still cannot", a.name, n, len(t.gives), t.serial)
			return
		case n < len(t.gives):
			now[t] = true
		default:
			delete(a.seen, t) // done with
		}
	}
	a.partial = now
}

// close is called when nobody writes any more and a has read everything: now every
// transfer is known to have happened or not, and each as a whole.
func (l *ledger) close(a *audit) {
	l.check.mu.Lock()
	defer l.check.mu.Unlock()
	for _, s := range l.order {
		if n := a.next[s]; n < len(s.log) {
			l.violate("lost", s.log[n].by, "reader %s: %s/%s ends at position %d; %s was there", a.name, s.queue, s.partition, n, s.log[n].name)
			return
		}
	}
	for _, t := range l.transfers {
		n := 0
		for _, g := range t.gives {
			if g.position >= 0 {
				n++
			}
		}
		switch {
		case n > 0 && n < len(t.gives):
			l.violate("half a transaction", t, "%d of %d messages of transfer %d are stored", n, len(t.gives), t.serial)
			return
		case n == 0 && t.fate == committed && len(t.gives) > 0:
			l.violate("lost", t, "nothing of transfer %d is stored, but it was committed", t.serial)
			return
		case n == 0 && t.fate == open:
			t.fate = absent
		}
	}
	l.checkParcels()
}

// checkParcels checks that each parcel is in one place, at the end of a journey without
// a fork or a gap.
func (l *ledger) checkParcels() {
	hops := map[int]int{}
	last := map[int]*leg{}
	for _, s := range l.order {
		if s.receipts {
			continue
		}
		for _, g := range s.log {
			hops[g.parcel]++
			if g.taken[movers] != nil {
				continue
			}
			if other := last[g.parcel]; other != nil {
				l.violate("forked", g.by, "parcel %d is in two places: %s of transfer %d and %s of transfer %d", g.parcel, g.name, g.by.serial, other.name, other.by.serial)
				return
			}
			last[g.parcel] = g
		}
	}
	for parcel, n := range hops {
		if g := last[parcel]; g == nil || g.hop != n-1 {
			l.violate("parcel lost", l.stored[legName(parcel, 0, false)].by, "parcel %d has made %d hops and is nowhere, or not where the last of them ended", parcel, n)
			return
		}
	}
}

// left returns what a group has not acknowledged: each message must come to it once more.
func (l *ledger) left(group string) map[*leg]bool {
	l.check.mu.Lock()
	defer l.check.mu.Unlock()
	left := map[*leg]bool{}
	for _, s := range l.order {
		for _, g := range s.log {
			if !s.receipts && g.taken[group] == nil {
				left[g] = true
			}
		}
	}
	return left
}

// missing complains that what is left never came.
func (l *ledger) missing(group string, left map[*leg]bool) {
	l.check.mu.Lock()
	defer l.check.mu.Unlock()
	for g := range left {
		l.violate("lost", g.by, "group %q gets nothing, but has not acknowledged %s at position %d of %s/%s, nor %d others", group, g.name, g.position, g.at.queue, g.at.partition, len(left)-1)
		return
	}
}
