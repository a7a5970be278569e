package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"time"
)

// report prints the violations, each with the history of its message.
func (c *checker) report(w io.Writer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, v := range c.violations {
		fmt.Fprintf(w, "VIOLATION %s: %s\n", v.rule, v.text)
		switch {
		case v.message != nil:
			c.history(w, v.message)
		case v.lines != nil:
			c.print(w, v.lines)
		case v.worker != "":
			c.lately(w, v.worker)
		}
	}
}

// line is one line of a history.
type line struct {
	at   moment
	text string
}

// history prints everything that concerns m: its pushes, deliveries, acks, and the
// crashes in between.
func (c *checker) history(w io.Writer, m *message) {
	s := m.stream
	fmt.Fprintf(w, "  message %d: queue %q (generation %d, retry limit %d), partition %q (%s), transaction id %q, id %s, offset %d, position %d of %d, poison %v\n",
		m.number, s.queue.name, s.queue.generation, s.queue.retryLimit, s.partition, s.id, m.txn, m.id, m.offset, m.position, len(s.log), m.poison)
	for _, g := range s.queue.groups {
		pl := s.places[g]
		fmt.Fprintf(w, "  group %q: cursor %d to %d, retries %d to %d, %d acks open\n", g, pl.lo, pl.hi(), pl.retriesLo, pl.retriesHi, len(pl.ops))
	}
	var lines []line
	lines = append(lines, c.pushLines(m)...)
	lines = append(lines, c.popLines(m)...)
	lines = append(lines, c.ackLines(m)...)
	c.print(w, lines)
}

// print prints lines in order, with the crashes between them.
func (c *checker) print(w io.Writer, lines []line) {
	for _, x := range c.crashes {
		lines = append(lines, line{x.at, fmt.Sprintf("life %d ends: %s", x.life, x.how)})
	}
	slices.SortStableFunc(lines, func(a, b line) int { return cmp.Compare(a.at, b.at) })
	for _, l := range lines {
		fmt.Fprintf(w, "  %12s  %s\n", l.at.Round(time.Microsecond), l.text)
	}
}

// lately prints the last requests of a worker.
func (c *checker) lately(w io.Writer, worker string) {
	const most = 30
	var lines []line
	add := func(r *request, text string) {
		if r.worker == worker {
			lines = append(lines, line{r.sent, text + ": " + r.describe()})
		}
	}
	for _, x := range c.calls {
		add(&x.request, x.what)
	}
	for _, p := range c.pushes {
		add(&p.request, fmt.Sprintf("push of %d, the first message %d", len(p.items), p.items[0].number))
	}
	for _, p := range c.pops {
		add(&p.request, "pop of "+p.queue.name)
	}
	for _, a := range c.acks {
		add(&a.request, fmt.Sprintf("ack of %d", len(a.items)))
	}
	slices.SortStableFunc(lines, func(a, b line) int { return cmp.Compare(a.at, b.at) })
	c.print(w, lines[max(0, len(lines)-most):])
}

// describe is the end of a line about r.
func (r *request) describe() string {
	if r.outcome == pending {
		return fmt.Sprintf("life %d, %s, no answer yet", r.life, r.worker)
	}
	return fmt.Sprintf("life %d, %s, %s at %s", r.life, r.worker, r.outcome, r.end.Round(time.Microsecond))
}

func (c *checker) pushLines(m *message) (lines []line) {
	for _, p := range c.pushes {
		for i, item := range p.items {
			if item != m {
				continue
			}
			text := fmt.Sprintf("push, item %d of %d: %s", i, len(p.items), p.describe())
			if i < len(p.results) {
				r := &p.results[i]
				text += fmt.Sprintf(": %s, id %s", r.Status, r.MessageID)
				if r.Offset != nil {
					text += fmt.Sprintf(", offset %d", *r.Offset)
				}
			}
			lines = append(lines, line{p.sent, text})
		}
	}
	return lines
}

// popLines also tells of other deliveries to the same places that lie around m.
func (c *checker) popLines(m *message) (lines []line) {
	for _, p := range c.pops {
		for _, part := range p.parts {
			if part.stream != m.stream {
				continue
			}
			first, last := part.messages[0].position, part.messages[len(part.messages)-1].position
			if !slices.Contains(part.messages, m) && (m.position < 0 || first > m.position+1 || last < m.position-1) {
				continue
			}
			text := fmt.Sprintf("pop, group %q, positions %d to %d: %s", p.group, first, last, p.describe())
			if part.lease != nil {
				text += fmt.Sprintf(", lease %s for %ds, attempt %d", part.lease.id, p.leaseSeconds, part.lease.attempt)
			}
			lines = append(lines, line{p.sent, text})
		}
	}
	for _, e := range c.extends {
		for _, part := range e.pop.parts {
			if slices.Contains(part.messages, m) {
				lines = append(lines, line{e.sent, fmt.Sprintf("extend lease %s by %ds: %s: renewed %d", part.lease.id, e.seconds, e.describe(), e.renewed)})
			}
		}
	}
	return lines
}

// ackLines tells of acks of m and of those that pass it.
func (c *checker) ackLines(m *message) (lines []line) {
	for _, a := range c.acks {
		for _, op := range a.ops {
			if op.lease.place.stream != m.stream || op.lease.first > m.position || op.lease.last < m.position {
				continue
			}
			text := fmt.Sprintf("ack, group %q, lease %s, completed to %d", a.group, op.lease.id, op.prefix)
			if op.signal >= 0 {
				text += fmt.Sprintf(", %s at %d", op.kind, op.signal)
			}
			text += ": " + a.describe()
			for n, i := range op.items {
				if n > 0 && a.items[i].message != m && a.items[i].message.position != op.signal || i >= len(a.results) {
					continue
				}
				r := &a.results[i]
				text += fmt.Sprintf("; position %d success %v %s released %v dlq %v noop %v", a.items[i].message.position, r.Success, r.text(), r.LeaseReleased, r.DLQ, r.Noop)
			}
			lines = append(lines, line{a.sent, text})
		}
	}
	return lines
}
