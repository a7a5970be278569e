package main

import (
	"fmt"
	"slices"
	"sync"
	"time"
)

const (
	// margin is what a lease may end early or late. The bounds it is added to are safe
	// already, so it only has to cover a clock that counts milliseconds.
	margin = 50 * time.Millisecond
	// maxViolations bounds the report: the first ones matter.
	maxViolations = 8
	// keptSteps is how many moves of a cursor are remembered with their times. A pop
	// that was sent before the oldest of them is checked against no cursor.
	keptSteps = 128
)

// checker knows what the broker may do, from what it was asked and what it answered.
// Its methods are safe for concurrent use. A request is started before its first byte is
// sent, and ended or lost after its answer was read.
type checker struct {
	payloads payloads

	mu       sync.Mutex
	base     uint32 // number of messages[0]; lower ones belong to earlier epochs
	messages []*message
	queues   []*queue
	txns     map[streamTxn]*message // own ids, to name the message of an unexpected answer
	cutLife  int                    // answers of lives up to this one no longer count
	// durable is, by life, when the last answered write was sent. The journal is one and
	// in order, so what was answered before that moment was on disk, too.
	durable map[int]moment

	pushes  []*push
	pops    []*pop
	acks    []*ack
	extends []*extend
	calls   []*call
	crashes []crash

	lostTakes map[*queue]int // messages that lost autoAck pops may have taken
	missing   []string       // routes that the broker does not have

	maintenance struct {
		windows int  // that have begun
		mayBeOn bool // since before the switch was asked for until the spool was empty again
		isOn    bool // since it was answered, until it is asked to end
	}
	violations []violation
	failedC    chan struct{} // closed with the first violation
	totals     totals
	scratch    []byte
}

type streamTxn struct {
	stream *stream
	txn    string
}

// totals are counted over the whole run.
type totals struct {
	messages, stored, lostPushes, duplicates int
	deliveries, redeliveries                 int
	acks, lostAcks, deadLetters              int

	transfers, moves, lostTransfers, rollbacks int
	seeks, groupDeletes, conflated             int
	maintenances, buffered                     int
	retained, expired                          int
}

// violation is a broken promise.
type violation struct {
	rule    string
	text    string
	message *message // the one it shows at, or nil
	worker  string   // whose requests led to it, if there is no message
	lines   []line   // its history, where there is another one
}

func newChecker(seed uint64) *checker {
	c := &checker{payloads: payloads{seed}, failedC: make(chan struct{})}
	c.forget()
	return c
}

// forget ends an epoch: its messages must not be seen again.
func (c *checker) forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.base += uint32(len(c.messages))
	c.messages, c.queues, c.txns = nil, nil, map[streamTxn]*message{}
	c.pushes, c.pops, c.acks, c.extends, c.calls, c.crashes = nil, nil, nil, nil, nil, nil
	c.lostTakes, c.durable = map[*queue]int{}, map[int]moment{}
}

// addQueue makes an incarnation of a queue known.
func (c *checker) addQueue(name string, generation, retryLimit int, groups ...string) *queue {
	c.mu.Lock()
	defer c.mu.Unlock()
	q := &queue{name: name, generation: generation, retryLimit: retryLimit, groups: groups, streams: map[string]*stream{}}
	c.queues = append(c.queues, q)
	return q
}

func (q *queue) stream(partition string) *stream {
	s := q.streams[partition]
	if s == nil {
		s = &stream{queue: q, partition: partition, places: map[string]*place{}}
		for _, g := range q.groups {
			s.places[g] = newPlace(s, g)
		}
		q.streams[partition] = s
		q.order = append(q.order, s)
	}
	return s
}

// addMessage makes a message that is not sent yet. An empty txn lets the broker mint one.
func (c *checker) addMessage(q *queue, partition, txn string, poison bool) *message {
	c.mu.Lock()
	defer c.mu.Unlock()
	m := &message{
		number: c.base + uint32(len(c.messages)), stream: q.stream(partition), txn: txn, own: txn != "", poison: poison,
		offset: -1, position: -1, sent: never, answered: never, seen: never,
	}
	c.messages = append(c.messages, m)
	return m
}

// find returns the message of a number, or nil if it belongs to no message of this epoch.
func (c *checker) find(n uint32) *message {
	if n < c.base || int(n-c.base) >= len(c.messages) {
		return nil
	}
	return c.messages[n-c.base]
}

// crashed says that a life of the broker has ended. Answers of it that are not taken yet
// do not count either, so that what a later life does is never judged before them.
func (c *checker) crashed(life int, at moment, how string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cutLife = life
	c.crashes = append(c.crashes, crash{life, at, how})
}

// cut says that answers of this life no longer count. It comes before the power is cut.
func (c *checker) cut(life int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cutLife = life
}

// counts reports whether an answer to r still counts.
func (c *checker) counts(r *request) bool {
	if r.life <= c.cutLife {
		r.outcome = unknown
		return false
	}
	r.outcome = answered
	return true
}

// countsAnswer is counts for callers outside of the checker.
func (c *checker) countsAnswer(r *request) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.counts(r)
}

// count changes the totals.
func (c *checker) count(add func(*totals)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	add(&c.totals)
}

// wrote notes that a write was answered.
func (c *checker) wrote(r *request) { c.durable[r.life] = max(c.durable[r.life], r.sent) }

func (c *checker) violate(rule string, m *message, format string, args ...any) {
	if len(c.violations) == 0 {
		close(c.failedC)
	}
	if len(c.violations) < maxViolations {
		c.violations = append(c.violations, violation{rule: rule, text: fmt.Sprintf(format, args...), message: m})
	}
}

// complain is violate for callers outside of the checker.
func (c *checker) complain(rule, format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.violate(rule, nil, format, args...)
}

// failed reports whether there is a violation.
func (c *checker) failed() bool {
	select {
	case <-c.failedC:
		return true
	default:
		return false
	}
}

// unavailable notes that the broker lacks a route, and what needs it is left out.
func (c *checker) unavailable(route string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !slices.Contains(c.missing, route) {
		c.missing = append(c.missing, route)
	}
}

// backlog is how many stored messages of q its slowest group has not acknowledged.
func (c *checker) backlog(q *queue) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	most := 0
	for _, g := range q.groups {
		left := q.stored
		for _, s := range q.order {
			left -= s.places[g].lo + 1
		}
		most = max(most, left)
	}
	return most
}

// startCall is called before a request that the checker does not follow.
func (c *checker) startCall(r *call) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.calls = append(c.calls, r)
}

// endCall reports whether the answer to r counts.
func (c *checker) endCall(r *call) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.counts(&r.request)
}

// unexpected complains about an answer that nothing in the load provokes. What a broker
// says whose disk has just gone does not count.
func (c *checker) unexpected(r *request, what string, status int, answer []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.counts(r) {
		return
	}
	c.violate("unexpected answer", nil, "%s by %s, life %d, at %v: %d %.400s", what, r.worker, r.life, r.end, status, answer)
	if n := len(c.violations); n < maxViolations {
		c.violations[n-1].worker = r.worker
	}
}
