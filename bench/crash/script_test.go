package main

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

const testSeed = 5

// script drives a checker by hand: one queue "q" with partition "a", groups "g" and "h",
// retry limit 1. Its clock moves a second with each request and never waits.
type script struct {
	*checker
	t        *testing.T
	q        *queue
	messages []*message
	life     int
	clock    moment
	leases   int
}

func newScript(t *testing.T) *script {
	s := &script{checker: newChecker(testSeed), t: t, life: 1}
	s.q = s.addQueue("q", 1, 1, "g", "h")
	return s
}

// request begins a request; answer ends it a millisecond later.
func (s *script) request() request {
	s.clock += 100 * time.Millisecond
	return request{worker: "w", life: s.life, sent: s.clock}
}

func (s *script) answer(r *request) {
	s.clock += time.Millisecond
	r.end = s.clock
}

// sleep lets time pass.
func (s *script) sleep(d time.Duration) { s.clock += d }

// add makes n messages with own ids.
func (s *script) add(n int) []*message {
	var items []*message
	for range n {
		m := s.addMessage(s.q, "a", fmt.Sprintf("t%d", len(s.messages)), false)
		s.messages = append(s.messages, m)
		items = append(items, m)
	}
	return items
}

// results are what a good broker answers to items, the first at an offset.
func results(items []*message, offset int64) []pushResult {
	var rs []pushResult
	for i, m := range items {
		at := offset + int64(i)
		txn := m.txn
		if !m.own {
			txn = messageID(m)
		}
		rs = append(rs, pushResult{Index: i, MessageID: messageID(m), TransactionID: txn, Queue: m.stream.queue.name, Status: "queued", Offset: &at})
	}
	return rs
}

func messageID(m *message) string { return fmt.Sprintf("id-%d", m.number) }

// push pushes items and gets an answer that edit, if not nil, has spoilt.
func (s *script) push(items []*message, offset int64, edit func([]pushResult)) {
	p := &push{request: s.request(), items: items}
	s.startPush(p)
	rs := results(items, offset)
	if edit != nil {
		edit(rs)
	}
	s.answer(&p.request)
	s.endPush(p, rs)
}

func (s *script) pushLost(items []*message) {
	p := &push{request: s.request(), items: items}
	s.startPush(p)
	s.answer(&p.request)
	s.losePush(p)
}

// stored adds n messages and pushes them.
func (s *script) stored(n int) {
	at := int64(len(s.messages))
	s.push(s.add(n), at, nil)
}

// pop delivers messages first to last to a group under a new lease of a second.
func (s *script) pop(group string, first, last int, edit func([]delivered)) *pop {
	s.leases++
	p := &pop{request: s.request(), queue: s.q, group: group, batch: 100, partitions: 1, leaseSeconds: 1}
	s.startPop(p)
	ds := s.deliveries(group, fmt.Sprintf("lease-%d", s.leases), first, last)
	if edit != nil {
		edit(ds)
	}
	s.answer(&p.request)
	s.endPop(p, ds)
	return p
}

func (s *script) deliveries(group, lease string, first, last int) []delivered {
	var ds []delivered
	for _, m := range s.messages[first : last+1] {
		txn := m.txn
		if !m.own {
			txn = messageID(m)
		}
		ds = append(ds, delivered{
			ID: messageID(m), TransactionID: txn, Data: s.payloads.append(nil, m.number),
			PartitionID: "p-" + m.stream.partition, Partition: m.stream.partition, LeaseID: lease, Group: group,
		})
	}
	return ds
}

// take delivers messages first to last under autoAck.
func (s *script) take(first, last int) {
	p := &pop{request: s.request(), queue: s.q, group: takers, batch: 100, autoAck: true}
	s.startPop(p)
	s.answer(&p.request)
	s.endPop(p, s.deliveries(takers, "", first, last))
}

// both delivers new messages of several partitions in one answer for partitions=1.
func (s *script) both(partitions ...string) {
	s.messages = nil
	for i, name := range partitions {
		m := s.addMessage(s.q, name, fmt.Sprintf("both-%d", i), false)
		s.pushLost([]*message{m})
		s.messages = append(s.messages, m)
	}
	s.pop("g", 0, len(partitions)-1, nil)
}

// acksOf makes acks for the messages of p from statuses, separated by spaces.
func acksOf(p *pop, statuses string) []ackItem {
	part := p.parts[0]
	var items []ackItem
	for i, status := range strings.Fields(statuses) {
		if status != "-" {
			items = append(items, ackItem{part.messages[i], part.lease, status})
		}
	}
	return items
}

// begin sends acks.
func (s *script) begin(p *pop, statuses string) *ack {
	a := &ack{request: s.request(), group: p.group, items: acksOf(p, statuses)}
	s.startAck(a)
	return a
}

// finish answers a; edit, if not nil, sees what a good broker says when the lease
// lives.
func (s *script) finish(a *ack, edit func([]ackResult)) {
	var rs []ackResult
	for i, item := range a.items {
		rs = append(rs, ackResult{Index: i, TransactionID: item.message.txn, Success: true, LeaseReleased: a.ops[0].releases()})
	}
	if edit != nil {
		edit(rs)
	}
	s.answer(&a.request)
	s.endAck(a, rs)
}

func (s *script) ack(p *pop, statuses string, edit func([]ackResult)) {
	s.finish(s.begin(p, statuses), edit)
}

func (s *script) ackLost(p *pop, statuses string) {
	a := s.begin(p, statuses)
	s.answer(&a.request)
	s.loseAck(a)
}

// kill ends a life.
func (s *script) kill() {
	s.crashed(s.life, s.clock, "test")
	s.life++
}

// Edits of answers.

func filed(rs []ackResult) {
	for i := range rs {
		rs[i].DLQ = true
	}
}

func noop(rs []ackResult) {
	for i := range rs {
		rs[i].Noop, rs[i].LeaseReleased = true, false
	}
}

func refusal(text string) func([]ackResult) {
	return func(rs []ackResult) {
		for i := range rs {
			rs[i].Success, rs[i].LeaseReleased, rs[i].Error = false, false, &text
		}
	}
}

var noLease = refusal("invalid or expired lease")

func attempt(n int) func([]delivered) {
	return func(ds []delivered) {
		for i := range ds {
			ds[i].Attempt = n
		}
	}
}

// drainGroups lets both groups read n messages to the end.
func (s *script) drainGroups(n int) {
	for _, g := range s.q.groups {
		s.ack(s.pop(g, 0, n-1, nil), strings.Repeat(completed+" ", n), nil)
	}
}

// row is a script and the rule that it breaks.
type row struct {
	name string
	run  func(s *script)
	want string // the rule that is broken, empty for none
}

func runRows(t *testing.T, rows []row) {
	t.Helper()
	for _, r := range rows {
		t.Run(strings.ReplaceAll(r.name, " ", "_"), func(t *testing.T) {
			s := newScript(t)
			r.run(s)
			checkRule(t, s, r.want)
		})
	}
}

// checkRule checks that the first broken rule is want, "" for none, and that it can be
// reported.
func checkRule(t *testing.T, s *script, want string) {
	t.Helper()
	got := ""
	if len(s.violations) > 0 {
		got = s.violations[0].rule
	}
	if got != want {
		t.Errorf("got violation %q want %q", got, want)
		for _, v := range s.violations {
			t.Logf("%s: %s", v.rule, v.text)
		}
	}
	if want != "" {
		checkReport(t, s)
	}
}

// checkReport checks that the report names the rule, and the message if there is one.
func checkReport(t *testing.T, s *script) {
	t.Helper()
	if !s.failed() {
		t.Error("failed() is false")
		return
	}
	var b strings.Builder
	s.report(&b)
	v := s.violations[0]
	if !strings.Contains(b.String(), "VIOLATION "+v.rule) {
		t.Errorf("report does not name the rule:\n%s", b.String())
	}
	if v.message != nil && !strings.Contains(b.String(), fmt.Sprintf("message %d:", v.message.number)) {
		t.Errorf("report does not name the message:\n%s", b.String())
	}
}
