package main

import (
	"fmt"
	"testing"
	"time"
)

func TestLeases(t *testing.T) {
	runRows(t, []row{
		{"after its end, another", func(s *script) {
			s.stored(1)
			s.pop("g", 0, 0, attempt(1))
			s.sleep(time.Second)
			s.pop("g", 0, 0, attempt(2))
		}, ""},
		{"after its release, another", func(s *script) {
			s.stored(2)
			s.ack(s.pop("g", 0, 1, attempt(1)), "completed retry", nil)
			s.pop("g", 1, 1, attempt(1))
		}, ""},
		{"other groups do not care", func(s *script) { s.stored(1); s.pop("g", 0, 0, nil); s.pop("h", 0, 0, nil) }, ""},
		{"two at a time", func(s *script) { s.stored(1); s.pop("g", 0, 0, nil); s.pop("g", 0, 0, nil) }, "two leases"},
		{"two at a time across a restart", func(s *script) {
			s.stored(1)
			s.pop("g", 0, 0, nil)
			s.stored(1) // written behind the lease
			s.kill()
			s.pop("g", 0, 1, nil)
		}, "two leases"},
		{"a lease that need not be on disk", func(s *script) {
			s.stored(1)
			s.pop("g", 0, 0, nil)
			s.kill()
			s.pop("g", 0, 0, nil)
		}, ""},
		{"two at a time after an extension", func(s *script) {
			s.stored(1)
			s.extended(s.pop("g", 0, 0, nil), 5, 1)
			s.sleep(2 * time.Second)
			s.pop("g", 0, 0, nil)
		}, "two leases"},
		{"the same lease id again", func(s *script) {
			s.stored(1)
			s.pop("g", 0, 0, nil)
			s.sleep(time.Second)
			s.pop("g", 0, 0, func(ds []delivered) { ds[0].LeaseID = "lease-1" })
		}, "two leases"},
		{"live lease not extended", func(s *script) { s.stored(1); s.extended(s.pop("g", 0, 0, nil), 5, 0) }, "extend"},
		{"more extended than leased", func(s *script) { s.stored(1); s.extended(s.pop("g", 0, 0, nil), 5, 2) }, "extend"},
		{"live lease refused", func(s *script) { s.stored(1); s.ack(s.pop("g", 0, 0, nil), "completed", noLease) }, "lease lost"},
		{"live lease refused after a restart", func(s *script) {
			s.stored(1)
			p := s.pop("g", 0, 0, nil)
			s.stored(1)
			s.kill()
			s.ack(p, "completed", noLease)
		}, "lease lost"},
		{"lease lost with a kill", func(s *script) {
			s.stored(1)
			p := s.pop("g", 0, 0, nil)
			s.kill()
			s.ack(p, "completed", refusal("consumer not found"))
		}, ""},
		{"released lease refused", func(s *script) {
			s.stored(1)
			p := s.pop("g", 0, 0, nil)
			s.ack(p, "completed", nil)
			s.ack(p, "completed", noLease)
		}, ""},
		{"refused because a lost ack has released it", func(s *script) {
			s.stored(1)
			p := s.pop("g", 0, 0, nil)
			s.ackLost(p, "completed")
			s.kill()
			s.ack(p, "completed", noLease)
		}, ""},
		{"ended lease accepted", func(s *script) {
			s.stored(1)
			p := s.pop("g", 0, 0, nil)
			s.sleep(2 * time.Second)
			s.ack(p, "completed", nil)
		}, "stale ack"},
		{"lease of another accepted", func(s *script) {
			s.stored(1)
			p := s.pop("g", 0, 0, nil)
			s.extended(p, 1, 1)
			s.sleep(2 * time.Second)
			s.pop("g", 0, 0, nil)
			p.parts[0].lease.latest = never // so that only the other lease tells
			s.ack(p, "completed", nil)
		}, "stale ack"},
		{"attempt does not grow", func(s *script) {
			s.stored(1)
			s.pop("g", 0, 0, attempt(2))
			s.sleep(time.Second)
			s.pop("g", 0, 0, attempt(1))
		}, "attempt"},
		{"attempt forgotten by a restart", func(s *script) {
			s.stored(1)
			s.pop("g", 0, 0, attempt(2))
			s.stored(1)
			s.kill()
			s.sleep(time.Second)
			s.pop("g", 0, 1, attempt(1))
		}, "attempt"},
	})
}

// extended extends the lease of p by seconds and gets an answer.
func (s *script) extended(p *pop, seconds, renewed int) {
	e := &extend{request: s.request(), pop: p, seconds: seconds}
	s.startExtend(e)
	s.answer(&e.request)
	s.endExtend(e, renewed)
}

func TestAcks(t *testing.T) {
	runRows(t, []row{
		{"noop below the cursor", func(s *script) {
			s.stored(3)
			p := s.pop("g", 0, 2, nil)
			s.ack(p, "- completed", nil)
			s.ack(p, "completed", noop)
		}, ""},
		{"noop above the cursor", func(s *script) { s.stored(2); s.ack(s.pop("g", 0, 1, nil), "completed", noop) }, "cursor ahead"},
		{"already committed above the cursor", func(s *script) {
			s.stored(2)
			s.ack(s.pop("g", 0, 1, nil), "- retry", refusal("already committed: the cursor moved"))
		}, "cursor ahead"},
		{"unresolvable", func(s *script) {
			s.stored(1)
			s.ack(s.pop("g", 0, 0, nil), "completed", refusal("unresolvable: transaction not in the ack window (hash purged or never pushed); if leased, the message redelivers"))
		}, "ack answer"},
		{"answer of another message", func(s *script) {
			s.stored(1)
			s.ack(s.pop("g", 0, 0, nil), "completed", func(rs []ackResult) { rs[0].TransactionID = "other" })
		}, "ack answer"},
		{"success with an error", func(s *script) {
			s.stored(1)
			text := "x"
			s.ack(s.pop("g", 0, 0, nil), "completed", func(rs []ackResult) { rs[0].Error = &text })
		}, "ack answer"},
		{"lease not released", func(s *script) {
			s.stored(1)
			s.ack(s.pop("g", 0, 0, nil), "completed", func(rs []ackResult) { rs[0].LeaseReleased = false })
		}, "ack answer"},
		{"completed and dead-lettered", func(s *script) { s.stored(1); s.ack(s.pop("g", 0, 0, nil), "completed", filed) }, "ack answer"},
		{"too few results", func(s *script) {
			s.stored(1)
			a := s.begin(s.pop("g", 0, 0, nil), "completed")
			s.answer(&a.request)
			s.endAck(a, nil)
		}, "ack answer"},
		{"completed behind a failure does not count", func(s *script) {
			s.stored(3)
			s.ack(s.pop("g", 0, 2, nil), "completed failed completed", nil)
			s.pop("g", 2, 2, nil)
		}, "skipped"},
		{"completed before a failure counts", func(s *script) {
			s.stored(3)
			s.ack(s.pop("g", 0, 2, nil), "completed failed completed", nil)
			s.pop("g", 0, 2, nil)
		}, "redelivered after ack"},
	})
}

// The retry limit of the script's queue is 1: the second failure sets aside.
func TestDeadLetters(t *testing.T) {
	fail := func(s *script, edit func([]ackResult)) { s.ack(s.pop("g", 0, 1, nil), "failed", edit) }
	runRows(t, []row{
		{"clean", func(s *script) {
			s.stored(2)
			fail(s, nil)
			fail(s, filed)
			s.ack(s.pop("g", 1, 1, nil), "completed", nil)
			s.list(0)
		}, ""},
		{"too early", func(s *script) { s.stored(2); fail(s, filed) }, "dead letter too early"},
		{"too late", func(s *script) { s.stored(2); fail(s, nil); fail(s, nil) }, "not dead-lettered"},
		{"counter forgotten by a restart", func(s *script) {
			s.stored(2)
			fail(s, nil)
			s.kill()
			fail(s, nil)
		}, "not dead-lettered"},
		{"counter charged by an end of a lease", func(s *script) {
			s.stored(2)
			s.pop("g", 0, 1, nil)
			s.sleep(time.Second)
			fail(s, filed)
		}, "dead letter too early"},
		{"counter charged by a retry", func(s *script) {
			s.stored(2)
			s.ack(s.pop("g", 0, 1, nil), "retry", nil)
			fail(s, filed)
		}, "dead letter too early"},
		{"by a retry", func(s *script) { s.stored(2); s.ack(s.pop("g", 0, 1, nil), "retry", filed) }, "dead letter too early"},
		{"counter not reset by a finished batch", func(s *script) {
			s.stored(2)
			fail(s, nil)
			s.ack(s.pop("g", 0, 0, nil), "completed", nil)
			s.ack(s.pop("g", 1, 1, nil), "failed", filed)
		}, "dead letter too early"},
		{"lost failure may have counted", func(s *script) {
			s.stored(2)
			s.ackLost(s.pop("g", 0, 1, nil), "failed")
			s.kill()
			s.sleep(time.Second)
			fail(s, filed)
		}, ""},
		{"lost failure may not have counted", func(s *script) {
			s.stored(2)
			s.ackLost(s.pop("g", 0, 1, nil), "failed")
			s.kill()
			s.sleep(time.Second)
			fail(s, nil)
			fail(s, filed)
		}, ""},
		{"lost failure shows by its prefix", func(s *script) {
			s.stored(2)
			s.ackLost(s.pop("g", 0, 1, nil), "completed failed")
			s.kill()
			s.ack(s.pop("g", 1, 1, nil), "failed", nil)
		}, "not dead-lettered"},
		{"lost failure cannot count twice", func(s *script) {
			s.q.retryLimit = 2
			s.stored(2)
			s.ackLost(s.pop("g", 0, 1, nil), "failed")
			s.kill()
			s.sleep(time.Second)
			fail(s, filed)
		}, "dead letter too early"},
		{"lost failure sets aside", func(s *script) {
			s.stored(2)
			fail(s, nil)
			s.ackLost(s.pop("g", 0, 1, nil), "failed")
			s.kill()
			s.pop("g", 1, 1, nil)
			s.list(0)
		}, ""},
		{"lost failure sets aside, and is not listed", func(s *script) {
			s.stored(2)
			fail(s, nil)
			s.ackLost(s.pop("g", 0, 1, nil), "failed")
			s.kill()
			s.pop("g", 1, 1, nil)
			s.list()
		}, "dead letter"},
		{"lost failure with budget left sets nothing aside", func(s *script) {
			s.stored(2)
			s.ackLost(s.pop("g", 0, 1, nil), "failed")
			s.kill()
			s.pop("g", 1, 1, nil)
		}, "skipped"},
		{"answers in another order", func(s *script) {
			s.stored(2)
			fail(s, nil)
			late := s.begin(s.pop("g", 0, 1, nil), "failed") // sets aside, and is answered late
			s.ack(s.pop("g", 1, 1, nil), "completed", nil)
			s.finish(late, filed)
			s.list(0)
		}, ""},
		{"dlq at once", func(s *script) {
			s.stored(2)
			s.ack(s.pop("g", 0, 1, nil), "dlq", filed)
			s.pop("g", 1, 1, nil)
			s.list(0)
		}, ""},
		{"lost dlq happened, and asked again it is refused", func(s *script) {
			s.stored(2)
			p := s.pop("g", 0, 0, nil)
			s.ackLost(p, "dlq")
			s.kill()
			again := s.begin(p, "dlq")
			s.pop("g", 1, 1, nil) // tells that the first has happened, before the second is answered
			s.finish(again, noLease)
			s.list(0)
		}, ""},
		{"dlq not filed", func(s *script) { s.stored(2); s.ack(s.pop("g", 0, 1, nil), "dlq", nil) }, "not dead-lettered"},
		{"dead letter lost", func(s *script) {
			s.stored(2)
			s.ack(s.pop("g", 0, 1, nil), "dlq", filed)
			s.list()
		}, "dead letter"},
		{"dead letter twice", func(s *script) {
			s.stored(2)
			s.ack(s.pop("g", 0, 1, nil), "dlq", filed)
			s.list(0, 0)
		}, "dead letter"},
		{"dead letter of a completed message", func(s *script) {
			s.stored(1)
			s.ack(s.pop("g", 0, 0, nil), "completed", nil)
			s.list(0)
		}, "dead letter"},
		{"poison was let through", func(s *script) {
			s.stored(1)
			s.messages[0].poison = true
			s.ack(s.pop("g", 0, 0, nil), "completed", nil)
			s.list()
		}, "dead letter"},
		{"dead letter with another payload", func(s *script) {
			s.stored(1)
			s.ack(s.pop("g", 0, 0, nil), "dlq", filed)
			letters := s.letters(0)
			letters[0].Data[70] ^= 1
			s.checkDeadLetters(s.q, "g", letters)
		}, "dead letter"},
		{"dead letter with another count", func(s *script) {
			s.stored(2)
			fail(s, nil)
			fail(s, filed)
			letters := s.letters(0)
			letters[0].RetryCount = 2
			s.checkDeadLetters(s.q, "g", letters)
		}, "dead letter"},
	})
}

// letters are dead letters of group g, of messages by index.
func (s *script) letters(indexes ...int) (letters []deadLetter) {
	for _, i := range indexes {
		m := s.messages[i]
		letters = append(letters, deadLetter{
			ID: "d", TransactionID: m.txn, PartitionID: m.stream.id, Group: "g", Error: failed + " by w", RetryCount: s.q.retryLimit,
			Data: s.payloads.append(nil, m.number),
		})
	}
	return letters
}

// list checks that exactly these are the dead letters of group g.
func (s *script) list(indexes ...int) { s.checkDeadLetters(s.q, "g", s.letters(indexes...)) }

func TestTakers(t *testing.T) {
	lost := func(s *script) {
		p := &pop{request: s.request(), queue: s.q, group: takers, batch: 1, partitions: 1, autoAck: true}
		s.startPop(p)
		s.losePop(p)
	}
	runRows(t, []row{
		{"clean", func(s *script) { s.stored(3); s.drainGroups(3); s.take(0, 1); s.take(2, 2); s.checkTaken(s.q) }, ""},
		{"a lost answer", func(s *script) {
			s.stored(3)
			s.drainGroups(3)
			s.take(0, 0)
			lost(s)
			s.take(2, 2)
			s.checkTaken(s.q)
		}, ""},
		{"more missing than were lost", func(s *script) { s.stored(3); s.drainGroups(3); lost(s); s.take(2, 2); s.checkTaken(s.q) }, "lost"},
		{"a partition in two pieces", func(s *script) {
			for i, name := range []string{"a", "b", "a"} {
				m := s.addMessage(s.q, name, fmt.Sprintf("x%d", i), false)
				s.pushLost([]*message{m})
				s.messages = append(s.messages, m)
			}
			s.take(0, 2)
		}, "pop answer"},
		{"twice", func(s *script) { s.stored(2); s.take(0, 1); s.take(1, 1) }, "delivered twice"},
		{"twice across a restart", func(s *script) { s.stored(2); s.take(0, 1); s.kill(); s.take(0, 0) }, "delivered twice"},
		{"backwards", func(s *script) { s.stored(2); s.drainGroups(2); s.take(1, 1); s.take(0, 0); s.checkTaken(s.q) }, "order"},
		{"gap in a batch", func(s *script) {
			s.stored(3)
			s.drainGroups(3)
			p := &pop{request: s.request(), queue: s.q, group: takers, batch: 2, partitions: 1, autoAck: true}
			s.startPop(p)
			s.answer(&p.request)
			ds := s.deliveries(takers, "", 0, 2)
			s.endPop(p, append(ds[:1], ds[2]))
			s.take(1, 1)
			s.checkTaken(s.q)
		}, "order"},
	})
}

func TestLateGroups(t *testing.T) {
	// Two messages, a group subscribes, two more.
	setUp := func(s *script) *lateGroup {
		s.stored(2)
		r := s.request()
		s.answer(&r)
		g := &lateGroup{queue: s.q, name: "late", sent: r.sent, done: r.end, got: map[*stream][]*message{}}
		s.stored(2)
		s.drainGroups(4)
		return g
	}
	got := func(indexes ...int) func(s *script) {
		return func(s *script) {
			g := setUp(s)
			for _, i := range indexes {
				m := s.messages[i]
				g.got[m.stream] = append(g.got[m.stream], m)
			}
			s.checkLate(g)
		}
	}
	runRows(t, []row{
		{"what was pushed after", got(2, 3), ""},
		{"one too many", got(1, 2, 3), "late group"},
		{"one missing at the start", got(3), "late group"},
		{"one missing at the end", got(2), "late group"},
		{"twice", got(2, 3, 3), "late group"},
		{"nothing", got(), "late group"},
	})
}

func TestBacklog(t *testing.T) {
	s := newScript(t)
	s.stored(5)
	s.ack(s.pop("g", 0, 4, nil), "- - - completed", nil)
	s.ack(s.pop("h", 0, 4, nil), "completed", nil)
	if got := s.backlog(s.q); got != 4 {
		t.Errorf("got backlog %d want 4", got)
	}
}

func TestCursorSteps(t *testing.T) {
	p := newPlace(&stream{}, "g")
	for i := range 3 * keptSteps {
		p.advance(i, moment(i))
	}
	if len(p.steps) > keptSteps {
		t.Errorf("got %d steps want %d at most", len(p.steps), keptSteps)
	}
	last := 3*keptSteps - 1
	if got := p.loAt(moment(last)); got != last-1 {
		t.Errorf("got cursor %d want %d", got, last-1)
	}
	if got := p.loAt(1); got != -1 {
		t.Errorf("got cursor %d before all that is kept, want none", got)
	}
}
