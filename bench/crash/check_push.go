package main

// startPush is called before p is sent.
func (c *checker) startPush(p *push) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pushes = append(c.pushes, p)
	p.windows, p.mayBuffer, p.mustBuffer = c.maintenance.windows, c.maintenance.mayBeOn, c.maintenance.isOn
	for _, m := range p.items {
		if m.isSent() {
			p.again = p.again || m.sent != p.sent
			continue
		}
		m.sent = p.sent
		c.totals.messages++
		if m.own {
			c.txns[streamTxn{m.stream, m.txn}] = m
		}
	}
}

// meetMaintenance finds out at the end of p if it met maintenance.
func (c *checker) meetMaintenance(p *push) {
	p.mustBuffer = p.mustBuffer && c.maintenance.isOn && p.windows == c.maintenance.windows
	p.mayBuffer = p.mayBuffer || p.windows != c.maintenance.windows
	for _, m := range p.items {
		m.mayBuffer = m.mayBuffer || p.mayBuffer
	}
}

// losePush says that p got no answer.
func (c *checker) losePush(p *push) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.losePushLocked(p)
}

func (c *checker) losePushLocked(p *push) {
	p.outcome = unknown
	c.meetMaintenance(p)
	c.totals.lostPushes += len(p.items)
}

// endPush takes the answer to p.
func (c *checker) endPush(p *push, results []pushResult) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.counts(&p.request) {
		c.losePushLocked(p)
		return
	}
	c.meetMaintenance(p)
	p.results = results
	if len(results) != len(p.items) {
		c.violate("push answer", nil, "%d results for %d items", len(results), len(p.items))
		return
	}
	next := map[*stream]int64{}
	for i, m := range p.items {
		if !c.checkResult(p, i, m, &results[i]) {
			return
		}
		c.checkOffset(m, &results[i], next)
		c.storedMessage(p, m)
	}
}

// checkResult checks what one item was answered with, and takes over its ids.
func (c *checker) checkResult(p *push, i int, m *message, r *pushResult) bool {
	switch {
	case r.Index != i || r.Queue != m.stream.queue.name:
		c.violate("push answer", m, "result %d is of index %d, queue %q; want queue %q", i, r.Index, r.Queue, m.stream.queue.name)
	case r.Status != "queued" && r.Status != "duplicate" && (r.Status != "buffered" || !p.mayBuffer):
		c.violate("push answer", m, "status %q, error %q", r.Status, r.Error)
	case r.Status == "queued" && p.mustBuffer:
		c.violate("maintenance", m, "queued, though maintenance was on")
	case m.txn != "" && r.TransactionID != m.txn:
		c.violate("push answer", m, "transaction id %q, was %q", r.TransactionID, m.txn)
	case m.id != "" && r.MessageID != m.id && r.Status != "buffered":
		c.violate("duplicate id", m, "stored as %s, now answered as %s (%s)", m.id, r.MessageID, r.Status)
	case r.Status == "queued" && m.isAnswered():
		c.violate("stored twice", m, "queued, though it had been answered as stored before")
	case r.Status == "queued" && m.seen < p.sent:
		c.violate("stored twice", m, "queued, though it had been delivered before")
	case r.Status == "duplicate" && !m.own:
		c.violate("push answer", m, "duplicate, but its transaction id was minted")
	case !m.own && r.TransactionID != r.MessageID:
		c.violate("push answer", m, "minted transaction id %q is not the message id %q", r.TransactionID, r.MessageID)
	default:
		c.takeResult(p, m, r)
		return true
	}
	return false
}

func (c *checker) takeResult(p *push, m *message, r *pushResult) {
	if m.txn == "" {
		m.txn = r.TransactionID // one chosen by its producer is read without the lock
	}
	switch r.Status {
	case "buffered": // in the spool: not a write that says anything of the journal
		c.totals.buffered++
		if p.again || m.id != "" {
			return // there may be an earlier copy, and the first one is stored
		}
	case "duplicate":
		c.totals.duplicates++
	default:
		c.wrote(&p.request)
	}
	m.id = r.MessageID
}

// checkOffset checks the offset, where the broker tells it: the messages of one answer
// that are new to a partition get consecutive ones.
func (c *checker) checkOffset(m *message, r *pushResult, next map[*stream]int64) {
	if r.Offset == nil {
		return
	}
	want, follows := next[m.stream]
	switch {
	case m.offset >= 0 && *r.Offset != m.offset:
		c.violate("offset", m, "offset %d, was %d", *r.Offset, m.offset)
	case m.position >= 0 && int64(m.position) != *r.Offset:
		c.violate("offset", m, "offset %d, but it was delivered at position %d", *r.Offset, m.position)
	case r.Status == "queued" && follows && *r.Offset != want:
		c.violate("offset", m, "offset %d in an answer that should go on at %d", *r.Offset, want)
	case *r.Offset < int64(len(m.stream.log)) && m.position < 0:
		c.violate("offset", m, "offset %d again: message %d was delivered there", *r.Offset, m.stream.log[*r.Offset].number)
	}
	m.offset = *r.Offset
	if r.Status == "queued" {
		next[m.stream] = *r.Offset + 1
	}
}

// storedMessage notes that m is in the broker.
func (c *checker) storedMessage(p *push, m *message) {
	if m.isAnswered() {
		return
	}
	m.answered = p.end
	m.stream.queue.stored++
	c.totals.stored++
	if m.position < 0 {
		m.stream.waiting++
	}
}

// appendToLog puts m at the end of its stream's log: it was delivered for the first time.
func (c *checker) appendToLog(m *message, seen moment) {
	s := m.stream
	m.seen = seen
	m.position = len(s.log)
	if m.isAnswered() {
		s.waiting--
	}
	switch {
	case m.offset >= 0 && m.offset != int64(m.position):
		c.violate("offset", m, "answered with offset %d, delivered at position %d", m.offset, m.position)
	case m.answered < s.latestSent:
		c.violate("push order", m, "stored at %v, but delivered behind a message that was sent at %v", m.answered, s.latestSent)
	}
	s.latestSent = max(s.latestSent, m.sent)
	s.log = append(s.log, m)
}
