package broker

import "cmp"

// bundle is what a committed transaction has changed. It becomes visible at once: under
// the locks of all its partitions every high watermark rises over what it stored, and
// every cursor that it moved may be handed out from again. So whoever sees a message of
// it in one partition finds the others where they belong, if only by looking a moment
// later.
//
// A later push to one of the partitions may be done before the transaction is. The
// watermark that it raises would show a part of the bundle, so it reveals the whole one
// first: a partition knows its bundles from the append on (partition.unpublished). What
// is appended later is on disk later, so whatever a caller of publish has on disk, the
// bundles below it are too.
type bundle struct {
	shares   []share // in the order of locks
	cursors  []cursorRef
	revealed bool // guarded by the locks of all shares
}

// share is what a bundle has in one partition.
type share struct {
	of   *bundle
	p    *partition
	end  int64  // one past the last offset that it stored, 0: only cursors
	next *share // of the partition's later bundles
}

// before orders partitions by when their locks are taken: hidden ones last.
func (p *partition) before(o *partition) int {
	switch {
	case p.hidden == o.hidden:
		return cmp.Compare(p.number, o.number)
	case p.hidden:
		return 1
	}
	return -1
}

// enlistLocked puts the shares into the lists of their partitions, which are locked.
func (x *bundle) enlistLocked() {
	for i := range x.shares {
		s := &x.shares[i]
		if s.end == 0 {
			continue
		}
		last := &s.p.unpublished
		for *last != nil {
			last = &(*last).next
		}
		*last = s
	}
}

// reveal makes x visible, and before it the bundles that it stands on. x is on disk, so
// they are. A bundle that is visible already stays as it is.
func (b *Broker) reveal(x *bundle) {
	stack := []*bundle{x}
	for len(stack) > 0 {
		if earlier := b.tryReveal(stack[len(stack)-1]); earlier != nil {
			stack = append(stack, earlier)
			continue
		}
		stack = stack[:len(stack)-1]
	}
	b.checkpointIfDue()
}

// tryReveal reveals x unless another bundle has to be revealed before, which it returns.
func (b *Broker) tryReveal(x *bundle) (earlier *bundle) {
	var first []*partition // that had nothing to see so far
	for i := range x.shares {
		x.shares[i].p.mu.Lock()
	}
	if !x.revealed {
		if earlier = x.earlierLocked(); earlier == nil {
			first = b.revealLocked(x)
		}
	}
	for i := range x.shares {
		x.shares[i].p.mu.Unlock()
	}
	for _, p := range first {
		p.queue.awaited.wake(p.name)
	}
	return earlier
}

// earlierLocked returns a bundle that lies below x in one of its partitions.
func (x *bundle) earlierLocked() *bundle {
	for i := range x.shares {
		if s := &x.shares[i]; s.end > 0 && s.p.unpublished != s {
			return s.p.unpublished.of
		}
	}
	return nil
}

// revealLocked is the moment. Partitions are offered under the locks: a pop that comes
// from another partition of x must not find this one missing among the candidates.
func (b *Broker) revealLocked(x *bundle) (first []*partition) {
	x.revealed = true
	for i := range x.shares {
		s := &x.shares[i]
		if s.end == 0 {
			continue
		}
		if s.p.hwm == 0 && !s.p.hidden {
			first = append(first, s.p)
		}
		s.p.hwm = max(s.p.hwm, s.end)
		s.p.unpublished = s.next
		if s.p.hidden {
			s.p.queue.dead.publish(s.end)
			continue
		}
		for _, g := range *s.p.queue.groupList.Load() {
			g.ready.offer(s.p.index)
		}
	}
	for _, r := range x.cursors {
		if b.settleLocked(r.p, r.c) {
			r.c.group.ready.offer(r.p.index)
		}
	}
	return first
}
