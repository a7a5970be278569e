package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
)

// ledger is the part of the checker that knows about transactions: what each was to take
// and give, and what became of it. It shares the checker's lock.
type ledger struct {
	check     *checker
	spots     map[[2]string]*spot
	order     []*spot
	transfers []*transfer
	stored    map[string]*leg // legs of committed transfers, by name
	parcels   int
}

func newLedger(c *checker) *ledger {
	return &ledger{check: c, spots: map[[2]string]*spot{}, stored: map[string]*leg{}}
}

// addSpot makes a partition known before anything is sent to it.
func (l *ledger) addSpot(queue, partition string, receipts bool) *spot {
	s := &spot{queue: queue, partition: partition, receipts: receipts}
	l.spots[[2]string{queue, partition}] = s
	l.order = append(l.order, s)
	return s
}

// add gives t its serial, which its payloads carry.
func (l *ledger) add(t *transfer) {
	l.check.mu.Lock()
	defer l.check.mu.Unlock()
	t.serial = len(l.transfers)
	l.transfers = append(l.transfers, t)
	for i, g := range t.gives {
		g.by, g.index, g.position = t, i, -1
		g.taken, g.tried = map[string]*transfer{}, map[string][]*transfer{}
	}
	for _, k := range t.takes {
		k.leg.tried[k.group] = append(k.leg.tried[k.group], t)
	}
}

// size is how many messages were to be pushed so far.
func (l *ledger) size() int {
	l.check.mu.Lock()
	defer l.check.mu.Unlock()
	n := 0
	for _, s := range l.order {
		n += len(s.log)
	}
	return n
}

// newParcel returns the number of another parcel, or false if there are enough.
func (l *ledger) newParcel(most int) (int, bool) {
	l.check.mu.Lock()
	defer l.check.mu.Unlock()
	if l.parcels >= most {
		return 0, false
	}
	l.parcels++
	return l.parcels, true
}

// start is called before a trial is sent.
func (l *ledger) start(t *transfer, a *trial) {
	l.check.mu.Lock()
	defer l.check.mu.Unlock()
	t.trials = append(t.trials, a)
}

// happened reports whether t is known to be committed.
func (l *ledger) happened(t *transfer) bool {
	l.check.mu.Lock()
	defer l.check.mu.Unlock()
	return t.fate == committed
}

// lose says that a trial got no answer: its transfer has happened, whole, or has not.
func (l *ledger) lose(t *transfer, a *trial) {
	l.check.mu.Lock()
	defer l.check.mu.Unlock()
	l.loseLocked(t, a)
}

func (l *ledger) loseLocked(t *transfer, a *trial) {
	a.outcome = unknown
	t.lost++
	l.check.totals.lostTransfers++
}

// end takes the answer to a trial.
func (l *ledger) end(t *transfer, a *trial, answer *transferAnswer) {
	l.check.mu.Lock()
	defer l.check.mu.Unlock()
	if !l.check.counts(&a.request) {
		l.loseLocked(t, a)
		return
	}
	a.said = answer.Error
	if answer.Success {
		a.said = "success"
		l.endCommitted(t, a, answer)
		return
	}
	l.endRolledBack(t, a, answer)
}

func (l *ledger) endCommitted(t *transfer, a *trial, answer *transferAnswer) {
	switch {
	case t.spoilt != "":
		l.violate("should roll back", t, "transfer %d was committed in spite of %s", t.serial, t.spoilt)
	case t.fate == absent:
		l.violate("stale transaction", t, "transfer %d was committed, though what it took had come to another since", t.serial)
	case t.fate == committed && t.known < a.sent:
		l.violate("committed twice", t, "transfer %d was committed again", t.serial)
	}
	l.checkResults(t, answer.Results)
	l.commit(t, a.end)
	l.check.wrote(&a.request)
}

func (l *ledger) checkResults(t *transfer, got []transferResult) {
	if len(got) != len(t.want) {
		l.violate("transaction answer", t, "transfer %d: %d results for %d operations", t.serial, len(got), len(t.want))
		return
	}
	for i, r := range got {
		if r.Type == "push" && r.MessageID == "" {
			l.violate("transaction answer", t, "transfer %d: result %d has no message id", t.serial, i)
			return
		}
		r.MessageID = ""
		if r != t.want[i] {
			l.violate("transaction answer", t, "transfer %d: result %d: got %+v want %+v", t.serial, i, r, t.want[i])
			return
		}
	}
}

// endRolledBack: an honest transfer may be refused if a lease may have ended, or if a
// trial that got no answer has done it.
func (l *ledger) endRolledBack(t *transfer, a *trial, answer *transferAnswer) {
	duplicate := strings.HasPrefix(answer.Error, "QDUP")
	switch {
	case len(answer.Results) > 0 || answer.Error == "":
		l.violate("transaction answer", t, "transfer %d: rolled back with %d results, error %q", t.serial, len(answer.Results), answer.Error)
	case t.spoilt == "" && duplicate && t.lost > 0:
		l.commit(t, a.end)
		return
	case t.spoilt == "" && t.lost > 0:
		return // done before, and the leases released; or they were lost with the last life
	case t.fate == committed:
		l.violate("half a transaction", t, "transfer %d was rolled back, but could be seen: %s", t.serial, answer.Error)
	case t.spoilt == "" && (duplicate || strings.Contains(answer.Error, "unknown transactionId")):
		l.violate("rolled back", t, "transfer %d: nothing of it was stored, and it names what it was given: %s", t.serial, answer.Error)
	case t.spoilt == "" && t.leased(&a.request):
		l.violate("rolled back", t, "transfer %d: all its leases are good: %s", t.serial, answer.Error)
	}
	t.fate, t.known = absent, a.end
	l.check.totals.rollbacks++
}

// leased reports whether all leases of t were certainly live when r was handled.
func (t *transfer) leased(r *request) bool {
	if t.loose {
		return false
	}
	for _, c := range t.claims {
		if c.life != r.life || r.end+margin >= c.until() {
			return false
		}
	}
	return true
}

// commit notes that t has happened, known since a moment.
func (l *ledger) commit(t *transfer, at moment) {
	if t.fate == committed {
		return
	}
	t.fate, t.known = committed, at
	l.check.totals.transfers++
	for _, k := range t.takes {
		if other := k.leg.taken[k.group]; other != nil {
			l.violate("forked", t, "%s was taken for %q by transfer %d and by transfer %d", k.leg.name, k.group, other.serial, t.serial)
			return
		}
		k.leg.taken[k.group] = t
		l.check.totals.moves++
	}
	for _, g := range t.gives {
		if other := l.stored[g.name]; other != nil {
			l.violate("forked", t, "%s was stored by transfer %d and by transfer %d", g.name, other.by.serial, t.serial)
			return
		}
		l.stored[g.name] = g
	}
}

// recognize finds out which leg a message is, and notes that its transfer has happened.
func (l *ledger) recognize(queue string, d *delivered, at moment) *leg {
	var p struct {
		Transfer *int
		Index    int
	}
	if err := json.Unmarshal(d.Data, &p); err != nil || p.Transfer == nil || *p.Transfer >= len(l.transfers) || p.Index >= len(l.transfers[*p.Transfer].gives) {
		l.check.violate("phantom", nil, "queue %q delivers %s, which was never sent: transaction id %q, data %.200q", queue, d.ID, d.TransactionID, d.Data)
		return nil
	}
	t := l.transfers[*p.Transfer]
	g := t.gives[p.Index]
	s := g.at
	switch {
	case s.queue != queue || s.partition != d.Partition || s.id != "" && s.id != d.PartitionID:
		l.violate("misplaced", t, "%s of transfer %d belongs to queue %q, partition %q (%s), and was delivered by queue %q, partition %q (%s)",
			g.name, t.serial, s.queue, s.partition, s.id, queue, d.Partition, d.PartitionID)
		return nil
	case d.TransactionID != g.name || !bytes.Equal(d.Data, g.payload()):
		l.violate("payload changed", t, "%s of transfer %d was delivered as %q with data %.200q", g.name, t.serial, d.TransactionID, d.Data)
		return nil
	case len(t.trials) == 0:
		l.violate("phantom", t, "%s of transfer %d was never sent", g.name, t.serial)
		return nil
	case t.spoilt != "" || t.fate == absent:
		l.violate("half a transaction", t, "%s can be seen, but transfer %d was rolled back (%s)", g.name, t.serial, t.spoilt)
		return nil
	}
	s.id = d.PartitionID
	l.commit(t, at)
	return g
}

// claimed takes the messages of a pop with a lease. It returns nil if they do not count.
func (l *ledger) claimed(c *claim, messages []delivered) *claim {
	l.check.mu.Lock()
	defer l.check.mu.Unlock()
	if !l.check.counts(&c.request) || len(messages) == 0 {
		return nil
	}
	c.lease = messages[0].LeaseID
	for i := range messages {
		g := l.recognize(c.queue, &messages[i], c.end)
		if g == nil || !l.mayCome(g, c) {
			return nil
		}
		if n := len(c.parts); n == 0 || c.parts[n-1].spot != g.at {
			c.parts = append(c.parts, &claimPart{spot: g.at})
		}
		part := c.parts[len(c.parts)-1]
		part.legs = append(part.legs, g)
	}
	l.check.totals.deliveries += len(messages)
	return c
}

// mayCome checks that g was not acknowledged for the group when the pop was sent. If it
// comes, transfers that were to take it and that a crash has cut off never happened.
func (l *ledger) mayCome(g *leg, c *claim) bool {
	if t := g.taken[c.group]; t != nil && t.known < c.sent {
		l.violate("redelivered after commit", t, "%s came to %q at %v, though transfer %d has acknowledged it at %v", g.name, c.group, c.end, t.serial, t.known)
		return false
	}
	for _, t := range g.tried[c.group] {
		last := t.lastTrial()
		if t.fate == open && last != nil && last.outcome == unknown && last.life < c.life && last.end < c.sent {
			t.fate, t.known = absent, c.end
		}
	}
	return true
}

func (t *transfer) lastTrial() *trial {
	if len(t.trials) == 0 {
		return nil
	}
	return t.trials[len(t.trials)-1]
}

// violate complains about t, with its history. The caller holds the lock.
func (l *ledger) violate(rule string, t *transfer, format string, args ...any) {
	c := l.check
	c.violate(rule, nil, format, args...)
	if n := len(c.violations); n <= maxViolations {
		c.violations[n-1].lines = append(c.violations[n-1].lines, l.history(t)...)
	}
}

// history tells all about a transfer, and about those it competes with.
func (l *ledger) history(t *transfer) []line {
	lines := t.lines()
	told := map[*transfer]bool{t: true}
	for _, k := range t.takes {
		lines = append(lines, line{k.leg.by.firstSent(), fmt.Sprintf("it takes %s of transfer %d for %q", k.leg.name, k.leg.by.serial, k.group)})
		for _, other := range k.leg.tried[k.group] {
			if !told[other] {
				told[other] = true
				lines = append(lines, other.lines()...)
			}
		}
	}
	return lines
}

func (t *transfer) firstSent() moment {
	if len(t.trials) == 0 {
		return 0
	}
	return t.trials[0].sent
}

func (t *transfer) lines() (lines []line) {
	var gives []string
	for _, g := range t.gives {
		gives = append(gives, fmt.Sprintf("%s to %s/%s", g.name, g.at.queue, g.at.partition))
	}
	for _, c := range t.claims {
		lines = append(lines, line{c.sent, fmt.Sprintf("pop of %s for %q, lease %s for %ds: %s", c.queue, c.group, c.lease, c.seconds, c.describe())})
	}
	for _, a := range t.trials {
		lines = append(lines, line{a.sent, fmt.Sprintf("transfer %d (%s since %v, spoilt by %q), gives %s: %s: %s",
			t.serial, t.fate, t.known, t.spoilt, strings.Join(gives, ", "), a.describe(), a.said)})
	}
	return lines
}
