package main

import (
	"strings"
	"testing"
	"time"
)

// journey drives a ledger by hand: queues "a" and "b" of one partition each, and
// receipts.
type journey struct {
	*script
	l       *ledger
	a, b, r *spot
	audit   *audit
}

func newJourney(s *script) *journey {
	j := &journey{script: s, l: newLedger(s.checker)}
	j.a, j.b, j.r = j.l.addSpot("a", "p", false), j.l.addSpot("b", "p", false), j.l.addSpot("r", "p", true)
	j.audit = newAudit("reader")
	return j
}

// mint makes parcels, one at each of the spots.
func (j *journey) mint(at ...*spot) *transfer {
	t := &transfer{}
	for _, s := range at {
		n, _ := j.l.newParcel(100)
		t.gives = append(t.gives, &leg{name: legName(n, 0, false), parcel: n, at: s})
	}
	j.l.add(t)
	return t
}

// carry makes the transfer of what c has leased to a spot.
func (j *journey) carry(c *claim, to ...*spot) *transfer {
	t := &transfer{claims: []*claim{c}}
	for _, part := range c.parts {
		for i, g := range part.legs {
			t.takes = append(t.takes, take{g, c.group})
			t.gives = append(t.gives, &leg{name: legName(g.parcel, g.hop+1, false), parcel: g.parcel, hop: g.hop + 1, at: to[i%len(to)]})
		}
	}
	j.l.add(t)
	return t
}

// send tries t and gets an answer: "" for a commit, or why it was rolled back.
func (j *journey) send(t *transfer, failure string) {
	a := &trial{request: j.request()}
	j.l.start(t, a)
	j.answer(&a.request)
	answer := &transferAnswer{Success: failure == "", Error: failure}
	if failure == "" {
		answer.Results = t.want
	}
	j.l.end(t, a, answer)
}

func (j *journey) sendLost(t *transfer) {
	a := &trial{request: j.request()}
	j.l.start(t, a)
	j.answer(&a.request)
	j.l.lose(t, a)
}

func (j *journey) messages(lease string, legs []*leg) (ds []delivered) {
	for _, g := range legs {
		ds = append(ds, delivered{ID: "id-" + g.name, TransactionID: g.name, Data: g.payload(), PartitionID: "p-" + g.at.queue, Partition: g.at.partition, LeaseID: lease})
	}
	return ds
}

// claim leases legs of one queue for a second.
func (j *journey) claim(group string, legs ...*leg) *claim {
	c := &claim{request: j.request(), queue: legs[0].at.queue, group: group, seconds: 1}
	j.answer(&c.request)
	j.leases++
	return j.l.claimed(c, j.messages("lease", legs))
}

// read lets the reader have legs of one queue.
func (j *journey) read(legs ...*leg) {
	r := j.request()
	j.answer(&r)
	j.l.read(j.audit, &r, legs[0].at.queue, j.messages("", legs))
}

// readAll reads all that the transfers have given, each queue in order, and closes.
func (j *journey) readAll(transfers ...*transfer) {
	for _, s := range j.l.order {
		for _, t := range transfers {
			for _, g := range t.gives {
				if g.at == s {
					j.read(g)
				}
			}
		}
	}
	j.l.close(j.audit)
}

func TestTransfers(t *testing.T) {
	for _, r := range []struct {
		name string
		run  func(j *journey)
		want string
	}{
		{"clean", func(j *journey) {
			m := j.mint(j.a, j.a)
			j.send(m, "")
			c := j.carry(j.claim(movers, m.gives...), j.b, j.a)
			j.send(c, "")
			j.readAll(m, c)
			j.l.missing(movers, map[*leg]bool{})
			if left := j.l.left(movers); len(left) != 2 || !left[c.gives[0]] || !left[c.gives[1]] {
				j.t.Errorf("left %v", left)
			}
			if left := j.l.left(tellers); len(left) != 4 {
				j.t.Errorf("left to tellers %v", left)
			}
		}, ""},
		{"lost answer, committed", func(j *journey) {
			m := j.mint(j.a, j.b)
			j.sendLost(m)
			j.kill()
			j.readAll(m)
		}, ""},
		{"lost answer, absent", func(j *journey) {
			m := j.mint(j.a, j.b)
			j.sendLost(m)
			j.kill()
			j.readAll()
			if m.fate != absent {
				j.t.Errorf("got %v", m.fate)
			}
		}, ""},
		{"lost answer, half", func(j *journey) {
			m := j.mint(j.a, j.b)
			j.sendLost(m)
			j.kill()
			j.read(m.gives[0])
			j.l.close(j.audit)
		}, "half a transaction"},
		{"a second try finds the first", func(j *journey) {
			m := j.mint(j.a)
			j.sendLost(m)
			j.kill()
			j.send(m, "QDUP duplicate messages")
			j.readAll(m)
		}, ""},
		{"a second try finds the first, which is not there", func(j *journey) {
			m := j.mint(j.a)
			j.sendLost(m)
			j.kill()
			j.send(m, "QDUP duplicate messages")
			j.l.close(j.audit)
		}, "lost"},
		{"a second try does it again", func(j *journey) {
			m := j.mint(j.a)
			j.sendLost(m)
			j.kill()
			j.read(m.gives[0])
			j.send(m, "")
		}, "committed twice"},
		{"answered, half", func(j *journey) {
			m := j.mint(j.a, j.b)
			j.send(m, "")
			j.read(m.gives[1])
			j.l.close(j.audit)
		}, "half a transaction"},
		{"answered, lost", func(j *journey) {
			m := j.mint(j.a, j.b)
			j.send(m, "")
			j.kill()
			j.l.close(j.audit)
		}, "lost"},
		{"read before the crash, not after it", func(j *journey) {
			m := j.mint(j.a)
			j.sendLost(m)
			j.read(m.gives[0])
			j.kill()
			j.audit = newAudit("again")
			j.l.close(j.audit)
		}, "lost"},
		{"one half visible at the end of two passes", func(j *journey) {
			m := j.mint(j.a, j.b)
			j.send(m, "")
			j.read(m.gives[0])
			j.l.endPass(j.audit)
			j.l.endPass(j.audit)
		}, "half a transaction"},
		{"one half visible at the end of a pass", func(j *journey) {
			m := j.mint(j.a, j.b)
			j.send(m, "")
			j.read(m.gives[0])
			j.l.endPass(j.audit)
			j.read(m.gives[1])
			j.l.endPass(j.audit)
		}, ""},
		{"spoilt and rolled back, then done", func(j *journey) {
			m := j.mint(j.a)
			j.send(m, "")
			c := j.claim(movers, m.gives...)
			bad := j.carry(c, j.b)
			bad.spoilt = "a ghost"
			j.send(bad, "QTXN ack references unknown transactionId")
			good := j.carry(c, j.b)
			j.send(good, "")
			j.readAll(m, good)
		}, ""},
		{"spoilt and committed", func(j *journey) {
			m := j.mint(j.a)
			m.spoilt = "a ghost"
			j.send(m, "")
		}, "should roll back"},
		{"spoilt and visible", func(j *journey) {
			m := j.mint(j.a)
			m.spoilt = "a ghost"
			j.send(m, "QTXN")
			j.read(m.gives[0])
		}, "half a transaction"},
		{"rolled back under a good lease", func(j *journey) {
			m := j.mint(j.a)
			j.send(m, "")
			j.send(j.carry(j.claim(movers, m.gives...), j.b), "invalid or expired lease")
		}, "rolled back"},
		{"rolled back under an old lease", func(j *journey) {
			m := j.mint(j.a)
			j.send(m, "")
			c := j.carry(j.claim(movers, m.gives...), j.b)
			j.sleep(time.Second)
			j.send(c, "invalid or expired lease")
			j.send(j.carry(j.claim(movers, m.gives...), j.b), "")
		}, ""},
		{"rolled back under a lease that others may have ended", func(j *journey) {
			m := j.mint(j.a)
			j.send(m, "")
			c := j.carry(j.claim(movers, m.gives...), j.b)
			c.loose = true
			j.send(c, "invalid or expired lease")
			j.readAll(m)
		}, ""},
		{"unknown id that was delivered", func(j *journey) {
			m := j.mint(j.a)
			j.send(m, "")
			c := j.carry(j.claim(movers, m.gives...), j.b)
			j.sleep(time.Second)
			j.send(c, "QTXN ack references unknown transactionId")
		}, "rolled back"},
		{"duplicate at the first try", func(j *journey) { j.send(j.mint(j.a), "QDUP") }, "rolled back"},
		{"comes again after the commit", func(j *journey) {
			m := j.mint(j.a)
			j.send(m, "")
			j.send(j.carry(j.claim(movers, m.gives...), j.b), "")
			j.kill()
			j.claim(movers, m.gives...)
		}, "redelivered after commit"},
		{"comes to the other group", func(j *journey) {
			m := j.mint(j.a)
			j.send(m, "")
			j.send(j.carry(j.claim(movers, m.gives...), j.b), "")
			j.claim(tellers, m.gives...)
		}, ""},
		{"comes again, and so it has not happened", func(j *journey) {
			m := j.mint(j.a)
			j.send(m, "")
			c := j.carry(j.claim(movers, m.gives...), j.b)
			j.sendLost(c)
			j.kill()
			again := j.carry(j.claim(movers, m.gives...), j.a)
			j.send(again, "")
			j.readAll(m, again)
		}, ""},
		{"comes again, though it has happened", func(j *journey) {
			m := j.mint(j.a)
			j.send(m, "")
			c := j.carry(j.claim(movers, m.gives...), j.b)
			j.sendLost(c)
			j.kill()
			j.claim(movers, m.gives...)
			j.read(c.gives[0])
		}, "half a transaction"},
		{"committed under a lease that another has followed", func(j *journey) {
			m := j.mint(j.a)
			j.send(m, "")
			c := j.carry(j.claim(movers, m.gives...), j.b)
			j.sendLost(c)
			j.kill()
			j.claim(movers, m.gives...)
			j.send(c, "")
		}, "stale transaction"},
		{"two successors", func(j *journey) {
			m := j.mint(j.a)
			j.send(m, "")
			one := j.carry(j.claim(movers, m.gives...), j.b)
			two := j.carry(j.claim(movers, m.gives...), j.a)
			j.send(one, "")
			j.send(two, "")
		}, "forked"},
		{"a message in the place of another", func(j *journey) {
			m := j.mint(j.a, j.a)
			j.send(m, "")
			j.read(m.gives...)
			j.audit = newAudit("other")
			j.read(m.gives[1])
		}, "order"},
		{"stored twice", func(j *journey) {
			m := j.mint(j.a)
			j.send(m, "")
			j.read(m.gives[0], m.gives[0])
		}, "stored twice"},
		{"never sent", func(j *journey) { j.read(j.mint(j.a).gives...) }, "phantom"},
		{"in another queue", func(j *journey) {
			m := j.mint(j.a)
			j.send(m, "")
			g := *m.gives[0]
			g.at = j.b
			j.read(&g)
		}, "misplaced"},
		{"another id", func(j *journey) {
			m := j.mint(j.a)
			j.send(m, "")
			g := *m.gives[0]
			g.name = "other"
			j.read(&g)
		}, "payload changed"},
		{"never comes to its group", func(j *journey) {
			m := j.mint(j.a)
			j.send(m, "")
			j.readAll(m)
			j.l.missing(movers, j.l.left(movers))
		}, "lost"},
		{"result of another message", func(j *journey) {
			m := j.mint(j.a)
			m.want = wanted([]operation{{Type: "push", Items: []transferItem{{Queue: "a", TransactionID: m.gives[0].name}}}})
			a := &trial{request: j.request()}
			j.l.start(m, a)
			j.answer(&a.request)
			j.l.end(m, a, &transferAnswer{Success: true, Results: []transferResult{{Type: "push", Success: true, TransactionID: "other", MessageID: "x", Queue: "a"}}})
		}, "transaction answer"},
		{"rolled back without a reason", func(j *journey) {
			m := j.mint(j.a)
			a := &trial{request: j.request()}
			j.l.start(m, a)
			j.answer(&a.request)
			j.l.end(m, a, &transferAnswer{})
		}, "transaction answer"},
		{"an answer that came after the power was cut", func(j *journey) {
			m := j.mint(j.a)
			a := &trial{request: j.request()}
			j.l.start(m, a)
			j.cut(j.life)
			j.answer(&a.request)
			j.l.end(m, a, &transferAnswer{Success: true})
			j.kill()
			j.l.close(j.audit)
		}, ""},
	} {
		t.Run(strings.ReplaceAll(r.name, " ", "_"), func(t *testing.T) {
			j := newJourney(newScript(t))
			r.run(j)
			checkRule(t, j.script, r.want)
		})
	}
}
