package main

import "strings"

// drained reports whether every group of every queue can have acknowledged everything
// that is known to be stored, and says what is missing if not. See emptied.
func (c *checker) drained() (missing *message, group string, done bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, q := range c.queues {
		if q.deleted {
			continue
		}
		for _, s := range q.order {
			for _, g := range q.groups {
				if hi := s.places[g].hi(); hi < len(s.log)-1 {
					return s.log[hi+1], g, false
				}
			}
			if s.waiting > 0 {
				return c.firstWaiting(s), q.groups[0], false
			}
		}
	}
	return nil, "", true
}

// uncertain reports whether it is open if a group has acknowledged everything: an ack
// got no answer. If it has not happened, its messages come when their lease has ended.
func (c *checker) uncertain(q *queue, group string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range q.order {
		if s.places[group].lo < len(s.log)-1 {
			return true
		}
	}
	return false
}

// emptied says that all leases of a group have ended and that it then got nothing: every
// ack that was lost has happened.
func (c *checker) emptied(q *queue, group string, at moment) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range q.order {
		pl, last := s.places[group], len(s.log)-1
		if hi := pl.hi(); hi < last {
			c.violate("lost", s.log[hi+1], "group %q gets nothing, but its cursor is at %d at most, of %d", group, hi, last)
			return
		}
		pl.advance(last, at)
	}
}

func (c *checker) firstWaiting(s *stream) *message {
	for _, m := range c.messages {
		if m.stream == s && m.isAnswered() && m.position < 0 {
			return m
		}
	}
	return nil
}

// checkDrained complains about what is missing after the drain has had its time.
func (c *checker) checkDrained() bool {
	m, group, done := c.drained()
	if !done {
		c.mu.Lock()
		defer c.mu.Unlock()
		pl := m.stream.places[group]
		c.violate("lost", m, "group %q never got it, or could not acknowledge it: its cursor is at %d of %d", group, pl.lo, len(m.stream.log)-1)
	}
	return done
}

// checkWhole checks that each push is stored whole or not at all, a partition's part of
// it in one piece and in its order. It is called when everything is delivered.
func (c *checker) checkWhole() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, p := range c.pushes {
		if p.again || p.mayBuffer {
			continue
		}
		type span struct{ next, missing *message }
		byStream := map[*stream]*span{}
		seen := map[*message]bool{}
		for _, m := range p.items {
			if seen[m] || m.stream.queue.deleted {
				continue
			}
			seen[m] = true
			sp := byStream[m.stream]
			if sp == nil {
				sp = &span{}
				byStream[m.stream] = sp
			}
			switch {
			case m.position < 0:
				sp.missing = m
			case sp.next != nil && m.position != sp.next.position+1:
				c.violate("torn push", m, "stored at position %d; the item before it, message %d of the same push, is at %d", m.position, sp.next.number, sp.next.position)
				return
			default:
				sp.next = m
			}
			if sp.missing != nil && sp.next != nil {
				c.violate("torn push", sp.missing, "not stored, but message %d of the same push and partition is", sp.next.number)
				return
			}
		}
	}
}

// checkTaken checks the autoAck group of q: what it has missed, lost pops must have taken,
// and a pop never went behind one that was answered before it was sent.
func (c *checker) checkTaken(q *queue) {
	c.mu.Lock()
	defer c.mu.Unlock()
	missing, allowed := 0, c.lostTakes[q]
	var first *message
	for _, s := range q.order {
		for _, m := range s.log {
			if !m.taken {
				missing++
				if first == nil {
					first = m
				}
			}
		}
	}
	if missing > allowed {
		c.violate("lost", first, "autoAck: %d messages never came, lost answers account for %d", missing, allowed)
	}
	for _, s := range q.order {
		c.checkTakenOrder(s)
	}
}

func (c *checker) checkTakenOrder(s *stream) {
	var done []*part
	var ends []moment
	for _, p := range c.pops {
		for _, part := range p.parts {
			if !p.autoAck || part.stream != s {
				continue
			}
			for i, m := range part.messages {
				if i > 0 && m.position != part.messages[i-1].position+1 {
					c.violate("order", m, "autoAck: delivered at position %d behind %d", m.position, part.messages[i-1].position)
					return
				}
			}
			first := part.messages[0]
			for i, earlier := range done {
				if last := earlier.messages[len(earlier.messages)-1]; ends[i] < p.sent && first.position < last.position {
					c.violate("order", first, "autoAck: delivered at position %d after position %d", first.position, last.position)
					return
				}
			}
			done, ends = append(done, part), append(ends, p.end)
		}
	}
}

// lateGroup is a group that subscribed with mode new.
type lateGroup struct {
	queue      *queue
	name       string
	sent, done moment // it subscribed between these
	got        map[*stream][]*message
}

// checkLate checks that g got what was pushed after it subscribed, and nothing else.
func (c *checker) checkLate(g *lateGroup) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range g.queue.order {
		got := g.got[s]
		start := len(s.log) - len(got)
		for i, m := range got {
			if m.position != start+i {
				c.violate("late group", m, "group %q: delivered position %d where %d is due, of %d", g.name, m.position, start+i, len(s.log))
				return
			}
		}
		for _, m := range s.log {
			switch {
			case m.position < start && m.sent > g.done:
				c.violate("late group", m, "group %q subscribed at %v, before it was sent, and did not get it", g.name, g.done)
				return
			case m.position >= start && m.answered < g.sent && !m.mayBuffer:
				c.violate("late group", m, "group %q subscribed at %v, after it was stored, and got it", g.name, g.sent)
				return
			}
		}
	}
}

// checkDeadLetters compares the list of a group's dead letters with what must be there.
func (c *checker) checkDeadLetters(q *queue, group string, letters []deadLetter) {
	c.mu.Lock()
	defer c.mu.Unlock()
	count := map[*message]int{}
	for i := range letters {
		l := &letters[i]
		n, ok := payloadNumber(l.Data)
		m := c.find(n)
		if !ok || m == nil || m.stream.queue != q || m.txn != l.TransactionID || m.stream.id != l.PartitionID || l.Group != group || !c.sameData(m, l.Data) {
			c.violate("dead letter", m, "group %q: dead letter %s is no message that was sent here: transaction id %q, data %.100q", group, l.ID, l.TransactionID, l.Data)
			return
		}
		count[m]++
		if strings.HasPrefix(l.Error, failed) && l.RetryCount != q.retryLimit {
			c.violate("dead letter", m, "group %q: set aside by a failure with retryCount %d, the limit is %d", group, l.RetryCount, q.retryLimit)
		}
	}
	for _, s := range q.order {
		for _, m := range s.log {
			least, most := 0, 0
			switch s.places[group].dead[m.position] {
			case certain:
				least, most = 1, 1
			case perhaps:
				most = 1
			}
			if m.poison {
				least, most = 1, 1
			}
			if n := count[m]; n < least || n > most {
				c.violate("dead letter", m, "group %q: %d dead letters, want %d to %d", group, n, least, most)
			}
		}
	}
}

// storedIn is how many messages q holds, dead letters and all.
func (c *checker) storedIn(q *queue) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := 0
	for _, s := range q.order {
		n += len(s.log)
	}
	return n
}

// deleteQueue says that q was deleted for certain.
func (c *checker) deleteQueue(q *queue) {
	c.mu.Lock()
	defer c.mu.Unlock()
	q.deleted = true
}
