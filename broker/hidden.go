package broker

import "slices"

// Payloads of dead letters are kept by no age rule: they go when their letters do. The
// hidden partition starts at the oldest letter there is. Its segments are its own and keep
// nothing else; what lies between letters that are left goes when they are rewritten.

// trimHidden moves the start of the queue's hidden partition after letters were removed,
// which is on disk.
func (b *Broker) trimHidden(q *queue) {
	h := q.hiddenPartition()
	if h == nil {
		return
	}
	q.aging.loose.Store(true) // what lies behind the oldest may be worth rewriting
	h.mu.Lock()
	defer h.mu.Unlock()
	// Letters are added under this lock: one that is on its way counts already.
	offset, ok := q.dead.oldest()
	if !ok {
		offset = h.end
	}
	offset = min(offset, h.hwm)
	if offset <= h.start || h.goneLocked() {
		return
	}
	c := cut{offset: offset, startMs: h.startMs, bytes: h.filedBytes}
	if offset >= h.filedEnd {
		c.bytes = 0
	}
	b.cutLocked(h, c)
}

// forgetBelow forgets those whose payloads are gone: their removal was on its way when the
// power was cut, and the start had moved for another one.
func (ds *deadLetters) forgetBelow(start int64) {
	ds.mu.Lock()
	defer ds.mu.Unlock()
	for _, l := range slices.Clone(ds.list) {
		if l.Offset < start && !l.removed {
			ds.removeLocked(l)
		}
	}
}

// oldest returns the offset of the oldest one's payload.
func (ds *deadLetters) oldest() (offset int64, ok bool) {
	ds.mu.Lock()
	defer ds.mu.Unlock()
	for ; ds.first < len(ds.list); ds.first++ {
		if l := ds.list[ds.first]; !l.removed {
			return l.Offset, true
		}
	}
	return 0, false
}

// retain drops what the rules would have dropped by now: a start that no checkpoint had
// brought into the catalogue went back with the crash, and nobody is to see what it had
// passed. Segments are looked at later.
func (r *recovery) retain() error {
	b := r.b
	for _, q := range b.queues {
		if q.hidden != nil {
			q.dead.forgetBelow(q.hidden.start)
			b.trimHidden(q)
		}
		for _, p := range q.partitions {
			if p.start > 0 {
				q.aging.loose.Store(true)
				break
			}
		}
	}
	b.applyRules()
	return nil
}
