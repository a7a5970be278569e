package main

import (
	"encoding/json"
	"fmt"
	"time"
)

// diary is what one worker knows of a queue that nobody else uses. It does one thing at a
// time and insists that its pushes, seeks and deletions are answered, so it knows what
// the queue holds, and between which messages each group's cursor is. It shares the
// checker's lock.
type diary struct {
	check *checker
	queue string
	// window is how old a message must be to be lost, 0 if none may be.
	window moment
	pages  []*page
	groups []string
	events []line
}

// page is a partition of the queue.
type page struct {
	partition string
	id        string // once seen
	entries   []entry
	marks     map[string]*mark
}

// entry is one message. Its place on the page is its offset.
type entry struct {
	txn     string
	sent    moment
	created string // createdAt, once seen. Such times compare as strings
}

// mark is what is known of a group's cursor in a page.
type mark struct {
	lo, hi int    // the last acknowledged entry is between these
	leased moment // no lease lives longer
	// The latest delivery that may still be acknowledged; lease is "" if there is none.
	lease string
	last  int
	pop   request
	until moment // when the lease ends at the earliest, if the broker lives
}

func (m *mark) at(n int) { m.lo, m.hi = n, n }

func newDiary(c *checker, queue string, window moment, partitions int, groups ...string) *diary {
	d := &diary{check: c, queue: queue, window: window, groups: groups}
	for i := range partitions {
		p := &page{partition: lane(i), marks: map[string]*mark{}}
		for _, g := range groups {
			p.marks[g] = &mark{lo: -1, hi: -1}
		}
		d.pages = append(d.pages, p)
	}
	return d
}

// note adds a line to the history. The caller holds the lock.
func (d *diary) note(at moment, format string, args ...any) {
	const most = 60
	if len(d.events) == 2*most {
		d.events = append(d.events[:0], d.events[most:]...)
	}
	d.events = append(d.events, line{at, fmt.Sprintf(format, args...)})
}

// violate complains, with the history. The caller holds the lock.
func (d *diary) violate(rule, format string, args ...any) {
	d.check.violate(rule, nil, "queue %q: "+format, append([]any{d.queue}, args...)...)
	if n := len(d.check.violations); n <= maxViolations {
		d.check.violations[n-1].lines = d.events
	}
}

// write adds entries to pages, before they are pushed for the first time.
func (d *diary) write(pages []*page, sent moment) []transferItem {
	d.check.mu.Lock()
	defer d.check.mu.Unlock()
	var items []transferItem
	for _, p := range pages {
		n := len(p.entries)
		txn := fmt.Sprintf("entry-%d", n)
		p.entries = append(p.entries, entry{txn: txn, sent: sent})
		items = append(items, transferItem{d.queue, p.partition, txn, fmt.Appendf(nil, `{"n":%d}`, n)})
	}
	if d.window > 0 {
		d.check.totals.retained += len(items)
	}
	d.note(sent, "push of %d", len(items))
	return items
}

// wrote checks the answer to a push. It may find what an earlier trial has stored.
func (d *diary) wrote(items []transferItem, results []pushResult, again bool) {
	d.check.mu.Lock()
	defer d.check.mu.Unlock()
	if len(results) != len(items) {
		d.violate("push answer", "%d results for %d items", len(results), len(items))
		return
	}
	for i, r := range results {
		n := fmt.Sprintf("entry-%d", offsetOf(r))
		switch {
		case r.Status != "queued" && (r.Status != "duplicate" || !again):
			d.violate("push answer", "%s of partition %q: status %q, error %q", items[i].TransactionID, items[i].Partition, r.Status, r.Error)
		case r.Offset != nil && n != items[i].TransactionID:
			d.violate("offset", "%s of partition %q: offset %d", items[i].TransactionID, items[i].Partition, *r.Offset)
		}
	}
}

func offsetOf(r pushResult) int64 {
	if r.Offset == nil {
		return -1
	}
	return *r.Offset
}

// expired reports whether all entries from and up to may be gone at a moment.
func (d *diary) expired(p *page, from, to int, at moment) bool {
	for i := from; i < to; i++ {
		if d.window == 0 || at-p.entries[i].sent < d.window {
			return false
		}
	}
	return true
}

// losePop says that a pop got no answer.
func (d *diary) losePop(p *pop) {
	d.check.mu.Lock()
	defer d.check.mu.Unlock()
	d.losePopLocked(p)
}

func (d *diary) losePopLocked(p *pop) {
	d.note(p.sent, "pop for %q, autoAck %v: no answer", p.group, p.autoAck)
	for _, pg := range d.pages {
		m := pg.marks[p.group]
		if p.autoAck {
			m.hi = len(pg.entries) - 1
		} else {
			m.leased = max(m.leased, p.end+moment(p.leaseSeconds)*time.Second)
		}
	}
}

// popped takes the answer to a pop. newest says that only the newest message of each
// partition may come.
func (d *diary) popped(p *pop, messages []delivered, newest bool) {
	d.check.mu.Lock()
	defer d.check.mu.Unlock()
	if !d.check.counts(&p.request) {
		d.losePopLocked(p)
		return
	}
	d.note(p.sent, "pop for %q, autoAck %v: %d messages", p.group, p.autoAck, len(messages))
	d.check.totals.deliveries += len(messages)
	if newest {
		d.check.totals.conflated += len(messages)
	}
	if len(messages) == 0 {
		d.checkEmpty(p)
	}
	for from := 0; from < len(messages); {
		to := from + 1
		for to < len(messages) && messages[to].PartitionID == messages[from].PartitionID {
			to++
		}
		if !d.take(p, messages[from:to], newest) {
			return
		}
		from = to
	}
}

// checkEmpty: where no lease can live, and something certainly lies behind the cursor, a
// pop must not come back with nothing. Where it does, all that was lost has happened.
func (d *diary) checkEmpty(p *pop) {
	for _, pg := range d.pages {
		m := pg.marks[p.group]
		if m.leased >= p.sent {
			continue
		}
		if !d.expired(pg, m.hi+1, len(pg.entries), p.end) {
			d.violate("lost", "group %q gets nothing, but its cursor in %q is at %d at most, of %d", p.group, pg.partition, m.hi, len(pg.entries)-1)
			return
		}
		m.at(len(pg.entries) - 1)
	}
}

// take takes the messages of one partition.
func (d *diary) take(p *pop, messages []delivered, newest bool) bool {
	pg := d.page(&messages[0])
	if pg == nil {
		d.violate("misplaced", "delivered in partition %q (%s)", messages[0].Partition, messages[0].PartitionID)
		return false
	}
	m := pg.marks[p.group]
	first, last := -1, m.hi
	for i := range messages {
		n := d.recognize(p, pg, &messages[i])
		if n < 0 {
			return false
		}
		switch {
		case first < 0 && n <= m.lo:
			d.violate("redelivered after ack", "group %q: %s of %q came, but the cursor was at %d", p.group, pg.entries[n].txn, pg.partition, m.lo)
			return false
		case first >= 0 && n <= last:
			d.violate("order", "group %q: %s of %q came behind entry %d", p.group, pg.entries[n].txn, pg.partition, last)
			return false
		case newest && n != len(pg.entries)-1:
			d.violate("not the newest", "group %q: %s of %q came, the newest is entry %d", p.group, pg.entries[n].txn, pg.partition, len(pg.entries)-1)
			return false
		case !newest && !d.expired(pg, last+1, n, p.end):
			d.violate("skipped", "group %q: %s of %q came, and entry %d was skipped; the cursor was at %d to %d", p.group, pg.entries[n].txn, pg.partition, last+1, m.lo, m.hi)
			return false
		}
		if first < 0 {
			first = n
		}
		last = n
	}
	if newest {
		first = -1 // an ack passes what lies between, and nothing tells how much that is
	}
	d.mark(p, m, first, last, messages[0].LeaseID)
	return true
}

// mark takes over what a delivery of entries first to last tells of the cursor: nothing, if
// first is -1.
func (d *diary) mark(p *pop, m *mark, first, last int, lease string) {
	if p.autoAck {
		m.at(last)
		return
	}
	if first >= 0 {
		m.at(max(m.lo, first-1))
	}
	m.lease, m.last, m.pop = lease, last, p.request
	m.until = p.sent + moment(p.leaseSeconds)*time.Second
	m.leased = max(m.leased, p.end+moment(p.leaseSeconds)*time.Second)
}

func (d *diary) page(m *delivered) *page {
	for _, p := range d.pages {
		if p.partition == m.Partition && (p.id == "" || p.id == m.PartitionID) {
			p.id = m.PartitionID
			return p
		}
	}
	return nil
}

// recognize returns the place of a message on its page, -1 if it has none.
func (d *diary) recognize(p *pop, pg *page, m *delivered) int {
	var data struct{ N *int }
	if err := json.Unmarshal(m.Data, &data); err != nil || data.N == nil || *data.N < 0 || *data.N >= len(pg.entries) || m.TransactionID != pg.entries[*data.N].txn {
		d.violate("phantom", "group %q: %s in %q was never sent: transaction id %q, data %.100q", p.group, m.ID, pg.partition, m.TransactionID, m.Data)
		return -1
	}
	n := *data.N
	e := &pg.entries[n]
	switch {
	case e.created != "" && e.created != m.Created:
		d.violate("time changed", "%s of %q was created at %s, now at %s", e.txn, pg.partition, e.created, m.Created)
		return -1
	case n > 0 && pg.entries[n-1].created > m.Created:
		d.violate("time goes back", "%s of %q was created at %s, the entry before it at %s", e.txn, pg.partition, m.Created, pg.entries[n-1].created)
		return -1
	}
	e.created = m.Created
	return n
}

// leases returns what a group can acknowledge, as acks and their marks.
func (d *diary) leases(group string) (acks []ackBody, marks []*mark) {
	d.check.mu.Lock()
	defer d.check.mu.Unlock()
	for _, p := range d.pages {
		if m := p.marks[group]; m.lease != "" {
			acks = append(acks, ackBody{TransactionID: p.entries[m.last].txn, PartitionID: p.id, LeaseID: m.lease, Status: completed})
			marks = append(marks, m)
		}
	}
	return acks, marks
}

// acked takes the answer to acks of marks, nil if there was none.
func (d *diary) acked(r *request, marks []*mark, results []ackResult) {
	d.check.mu.Lock()
	defer d.check.mu.Unlock()
	if !d.check.counts(r) {
		results = nil
	}
	d.note(r.sent, "ack of %d leases: %+v", len(marks), results)
	if results != nil && len(results) != len(marks) {
		d.violate("ack answer", "%d results for %d acks", len(results), len(marks))
		return
	}
	for i, m := range marks {
		m.lease = ""
		switch {
		case results == nil:
			m.hi = max(m.hi, m.last)
		case results[i].Success:
			m.at(max(m.lo, m.last))
			m.leased = 0
		case m.pop.life == r.life && r.end+margin < m.until:
			d.violate("lease lost", "ack refused with %q, but the lease is good until %v", results[i].text(), m.until)
			return
		}
	}
}

// moved says that the broker has moved cursors of a group: to the end, to a time, or, with
// the group deleted, to the beginning. A nil page means all of them.
func (d *diary) moved(group string, only *page, to func(p *page) (lo, hi int), what string, at moment) {
	d.check.mu.Lock()
	defer d.check.mu.Unlock()
	d.note(at, "%s for %q", what, group)
	for _, p := range d.pages {
		if only == nil || only == p {
			lo, hi := to(p)
			p.marks[group] = &mark{lo: lo, hi: hi}
		}
	}
}

func toBeginning(*page) (lo, hi int) { return -1, -1 }

func toEnd(p *page) (lo, hi int) { return len(p.entries) - 1, len(p.entries) - 1 }

// toTime is behind every entry that is known to be older, and before any that is not.
func toTime(created string) func(p *page) (lo, hi int) {
	return func(p *page) (lo, hi int) {
		lo, hi = -1, len(p.entries)-1
		for i := len(p.entries) - 1; i >= 0; i-- {
			switch c := p.entries[i].created; {
			case c == "":
			case c < created:
				return max(lo, i), max(hi, i)
			default:
				hi = i - 1
			}
		}
		return lo, hi
	}
}

// someTime returns the creation of an entry, "" if the one it hits is not known.
func (d *diary) someTime(pick func(n int) int) string {
	d.check.mu.Lock()
	defer d.check.mu.Unlock()
	p := d.pages[pick(len(d.pages))]
	if len(p.entries) == 0 {
		return ""
	}
	return p.entries[pick(len(p.entries))].created
}

// written returns the pages that hold something, or did.
func (d *diary) written() (pages []*page) {
	for _, p := range d.pages {
		if len(p.entries) > 0 {
			pages = append(pages, p)
		}
	}
	return pages
}

// behind reports whether a group may have something to come.
func (d *diary) behind(group string, at moment) bool {
	d.check.mu.Lock()
	defer d.check.mu.Unlock()
	for _, p := range d.pages {
		if m := p.marks[group]; m.lo < len(p.entries)-1 && !d.expired(p, m.lo+1, len(p.entries), at) {
			return true
		}
	}
	return false
}

// stuck complains that a group does not get what is left for it.
func (d *diary) stuck(group string) error {
	d.check.mu.Lock()
	defer d.check.mu.Unlock()
	for _, p := range d.pages {
		m := p.marks[group]
		d.violate("lost", "group %q does not get the rest: its cursor in %q is at %d to %d of %d", group, p.partition, m.lo, m.hi, len(p.entries)-1)
	}
	return errViolation
}

// forget leaves a group out from now on.
func (d *diary) forget(group string) {
	for _, p := range d.pages {
		p.marks[group].at(len(p.entries) - 1)
	}
}

// size is how many messages were pushed.
func (d *diary) size() int {
	n := 0
	for _, p := range d.pages {
		n += len(p.entries)
	}
	return n
}
