package model

import (
	"cmp"
	"fmt"

	"github.com/google/uuid"
)

// Ack is one acknowledgement.
type Ack struct {
	Key         string
	PartitionID string
	LeaseID     string
	Status      string
	Error       string
}

// AckResult is the broker's answer on one Ack.
type AckResult struct {
	Key        string
	Success    bool
	Error      string
	Released   bool
	DeadLetter bool
	Noop       bool
	Conflated  int64 // messages passed over; -1: the answer does not say
}

// The texts of refusals.
const (
	consumerNotFound = "consumer not found"
	leaseInvalid     = "invalid or expired lease"
	alreadyCommitted = "already committed: the cursor moved past this message before this ack"
	unresolvable     = "unresolvable: transaction not in the ack window (hash purged or never pushed); if leased, the message redelivers"
	noBatch          = "no leased batch"
	payloadGone      = "dlq rejected"
)

type status uint8

const (
	completed status = iota
	retry
	failed
	dlq // at one message the higher one counts
)

func normalised(text string) status {
	switch text {
	case "completed", "success", "acked", "ok":
		return completed
	case "retry":
		return retry
	case "dlq":
		return dlq
	}
	return failed
}

// Acknowledge applies acks for a group and compares the answer.
func (m *Model) Acknowledge(group string, acks []Ack, got []AckResult) error {
	if len(got) != len(acks) {
		return fmt.Errorf("%d results for %d acks", len(got), len(acks))
	}
	group = cmp.Or(group, QueueMode)
	for _, items := range subGroups(acks) {
		d, err := m.decideAs(group, pick(acks, items), pick(got, items))
		if err != nil {
			return fmt.Errorf("acks %v: %w", items, err)
		}
		m.apply(d)
	}
	return nil
}

// decideAs decides as the answers say, where there is a choice: whether a group that has
// only looked at a partition has a place there, and which keys are forgotten.
func (m *Model) decideAs(group string, acks []Ack, got []AckResult) (*decision, error) {
	d := m.decide(group, acks)
	if d.c != nil && d.c.unsure && got[0].Error == consumerNotFound {
		d = refused(acks, consumerNotFound)
	}
	err := d.compare(got)
	if err == nil || d.p == nil {
		return d, err
	}
	c := d.c
	places := []place{{c.committed, c.lease}}
	if c.committed < d.p.start {
		if c.maybeSealed() {
			places = append(places, place{c.seal - 1, nil})
		}
		// Among messages that are removed one place is as good as another.
		places = append(places, place{d.p.start - 1, c.lease}, place{-1, c.lease})
		if c.lease != nil {
			places = append(places, place{c.lease.from - 1, c.lease}) // where they began when it was handed out
		}
	}
	before := place{c.committed, c.lease}
	for _, at := range places {
		c.committed, c.lease = at.committed, at.lease
		if other, err := m.decideForgetful(group, acks, got, d.p, c); err == nil {
			return other, nil
		}
		c.committed, c.lease = before.committed, before.lease
	}
	return d, err
}

// place is where a cursor may be.
type place struct {
	committed int64
	lease     *lease
}

// decideForgetful is decide with keys forgotten: those that the answer does not know, or
// ever more places from the front on, until it is as answered.
func (m *Model) decideForgetful(group string, acks []Ack, got []AckResult, p *partition, c *cursor) (*decision, error) {
	unknown := map[string]bool{}
	for _, r := range got {
		unknown[r.Key] = r.Error == unresolvable
	}
	d := m.decideAt(group, acks, p, c, func(msg *message) bool { return unknown[msg.key] })
	err := d.compare(got)
	for end := int64(0); err != nil && end <= p.end(); end++ {
		if end == 0 || p.messages[end-1].outlived {
			d = m.decideAt(group, acks, p, c, func(msg *message) bool { return msg.offset < end })
			err = d.compare(got)
		}
	}
	return d, err
}

func (d *decision) compare(got []AckResult) error {
	for n, want := range d.results {
		if got[n] != want && !(want.Error == anyText && got[n].refusal()) {
			return fmt.Errorf("%q: got %+v, want %+v", want.Key, got[n], want)
		}
	}
	return nil
}

// anyText stands for a refusal whose wording is free.
const anyText = "any text"

func (r *AckResult) refusal() bool {
	return r.Error != "" && !r.Success && !r.Released && !r.DeadLetter && !r.Noop
}

// subGroups splits acks by partition and lease.
func subGroups(acks []Ack) (groups [][]int) {
	at := map[[2]string]int{}
	for i, a := range acks {
		k := [2]string{a.PartitionID, a.LeaseID}
		if _, ok := at[k]; !ok {
			at[k] = len(groups)
			groups = append(groups, nil)
		}
		groups[at[k]] = append(groups[at[k]], i)
	}
	return groups
}

func pick[T any](all []T, items []int) (picked []T) {
	for _, i := range items {
		picked = append(picked, all[i])
	}
	return picked
}

// decision is what the acks of one partition and lease do.
type decision struct {
	results   []AckResult
	refused   bool // a precondition failed
	p         *partition
	c         *cursor // a copy when it is not stored yet
	group     string
	committed int64
	retries   int64
	released  bool
	filed     *letter
}

func refused(acks []Ack, text string) *decision {
	d := &decision{refused: true}
	for _, a := range acks {
		d.results = append(d.results, AckResult{Key: a.Key, Error: text, Conflated: -1})
	}
	return d
}

// resolved is where an ack's transaction id leads.
type resolved struct {
	status status
	offset int64 // the smallest match that counts, -1 for none
	below  bool  // some match lies at or below the cursor
}

// decide says what acks of one partition and lease do. It changes nothing.
func (m *Model) decide(group string, acks []Ack) *decision {
	if _, err := uuid.Parse(acks[0].PartitionID); err != nil {
		return refused(acks, anyText)
	}
	p := m.partitionByID(acks[0].PartitionID)
	if p == nil {
		return refused(acks, consumerNotFound)
	}
	c := p.at(group)
	if c == nil {
		return refused(acks, consumerNotFound)
	}
	return m.decideAt(group, acks, p, c, func(*message) bool { return false })
}

// decideAt is decide for a cursor. Of the messages that are forgotten those count as unknown
// whose key may be.
func (m *Model) decideAt(group string, acks []Ack, p *partition, c *cursor, forgotten func(*message) bool) *decision {
	leaseID := acks[0].LeaseID
	if leaseID != "" && !(c.live(m.nowMs) && c.lease.id == leaseID) {
		d := refused(acks, leaseInvalid)
		d.c = c
		return d
	}
	d := &decision{p: p, c: c, group: group, committed: c.committed, retries: c.retries}
	items := m.resolve(p, c, acks, forgotten)
	poison, how, gone := d.act(m, items, acks, leaseID != "")
	for n, it := range items {
		d.results = append(d.results, d.outcome(it, acks[n].Key, poison, how, gone))
	}
	return d
}

// resolve looks the transaction ids up. Within the leased batch they always count, and
// come first: an id that was handed out means the message it was handed out with. Outside
// it they count for as long as the ack window lasts.
func (m *Model) resolve(p *partition, c *cursor, acks []Ack, forgotten func(*message) bool) (items []resolved) {
	since := m.nowMs - p.queue.options.ackWindowMs()
	for _, a := range acks {
		it, handedOut := resolved{status: normalised(a.Status), offset: -1}, false
		for _, msg := range p.messages {
			delivered := c.lease != nil && msg.offset >= c.lease.first() && msg.offset <= c.lease.end
			if msg.offset < p.start && forgotten(msg) {
				delivered = false // its id cannot be read again after a restart
			}
			unknown := msg.createdMs < since-p.grainMs(msg) || msg.outlived && forgotten(msg)
			if msg.key != a.Key || unknown && !delivered {
				continue
			}
			switch {
			case msg.offset <= c.committed:
				it.below = true
			case delivered && !handedOut, it.offset < 0 && (c.lease == nil || msg.offset <= c.lease.end):
				it.offset, handedOut = msg.offset, delivered
			}
		}
		items = append(items, it)
	}
	return items
}

// act finds the signal and the new cursor, and what becomes of the lease. poison is the
// signal's offset, -1 without one; gone says that it had to be filed and cannot be.
func (d *decision) act(m *Model, items []resolved, acks []Ack, leased bool) (poison int64, how status, gone bool) {
	poison = -1
	for _, it := range items {
		if it.status != completed && it.offset >= 0 && (poison < 0 || it.offset < poison || it.offset == poison && it.status > how) {
			poison, how = it.offset, it.status
		}
	}
	for _, it := range items {
		if it.status == completed && it.offset > d.committed && (poison < 0 || it.offset < poison) {
			d.committed = it.offset
		}
	}
	l, o := d.c.lease, &d.p.queue.options
	switch {
	case l == nil:
	case poison < 0:
		if leased && d.covers(items, acks) {
			d.committed = l.end
		}
		if d.committed >= l.end {
			d.released, d.retries = true, 0
		}
	case how == retry:
		d.released = true
	case how == failed && d.c.retries < o.RetryLimit:
		d.released = true
		d.retries++
	default:
		file := how == dlq || o.DeadLetterQueue || o.DLQAfterMaxRetries
		if file && poison < d.p.start {
			return poison, how, true
		}
		if file {
			d.filed = m.letter(d, poison, items, acks)
		}
		d.committed, d.released, d.retries = poison, true, 0
	}
	return poison, how, false
}

// covers reports whether the acks are all completions, of exactly the ids that were
// delivered under the lease.
func (d *decision) covers(items []resolved, acks []Ack) bool {
	acked := map[string]bool{}
	for n, it := range items {
		if it.status != completed || it.offset < 0 && !it.below {
			return false // one of which nothing is known says nothing
		}
		acked[acks[n].Key] = true
	}
	delivered := map[string]bool{}
	for _, msg := range d.p.messages[d.c.lease.first() : d.c.lease.end+1] {
		delivered[msg.key] = true
		if !acked[msg.key] {
			return false
		}
	}
	return len(acked) == len(delivered)
}

// letter is the dead letter of the message at offset. Its reason is the one given with
// the failure of that message, else the first one given.
func (m *Model) letter(d *decision, offset int64, items []resolved, acks []Ack) *letter {
	first, own := "", ""
	for n, it := range items {
		first = cmp.Or(first, acks[n].Error)
		if it.offset == offset && it.status != completed {
			own = cmp.Or(own, acks[n].Error)
		}
	}
	msg := d.p.messages[offset]
	return &letter{
		partition: d.p, group: d.group, key: msg.key, messageID: msg.id, payload: msg.payload, traceID: msg.traceID,
		reason: cmp.Or(own, first, "Retries exhausted"), retries: d.c.retries,
		createdMs: msg.createdMs, failedMs: m.nowMs,
	}
}

// conflating reports whether the lease counts as one of a conflating group. One of a
// single message does, also if it is older than the group's subscription.
func (d *decision) conflating() bool {
	l := d.c.lease
	return l.conflating || d.p.conflates(d.group) && l.from == l.end
}

// outcome answers one ack of a decided group.
func (d *decision) outcome(it resolved, key string, poison int64, how status, gone bool) AckResult {
	r := AckResult{Key: key, Conflated: -1}
	switch {
	case gone && it.offset >= 0 && it.status != completed:
		r.Error = payloadGone
	case it.offset >= 0 && it.status == dlq && d.c.lease == nil:
		r.Error = noBatch
	case it.offset >= 0:
		r.DeadLetter = d.filed != nil && it.offset == poison
		if l := d.c.lease; l != nil && d.conflating() && d.released && poison < 0 && it.offset == l.end {
			r.Conflated = l.passedOver(d.c.committed)
		}
	case it.below && it.status == completed:
		r.Noop = true
	case it.below:
		r.Error = alreadyCommitted
	default:
		r.Error = unresolvable
	}
	if r.Error == "" {
		r.Success, r.Released = true, d.released
	}
	return r
}

// apply makes a decision the model's state.
func (m *Model) apply(d *decision) {
	if d.refused || d.p == nil {
		return
	}
	if d.committed != d.c.committed || d.released {
		d.p.keep(d.group, d.c)
	}
	d.c.commit(d.p, d.committed)
	d.c.retries = d.retries
	if d.released {
		if d.committed >= d.c.lease.end {
			d.c.attempt = 0 // the batch is done
		}
		d.c.lease = nil
	}
	if d.filed != nil {
		d.p.queue.letters = append(d.p.queue.letters, d.filed)
	}
}

// Extend moves the end of every live lease with this id to seconds from now, never back.
// It returns how many there are and the earliest end, in Unix milliseconds.
func (m *Model) Extend(leaseID string, seconds int64) (renewed int, earliestMs int64) {
	for _, c := range m.holders(leaseID) {
		before := c.lease
		c.lease = &lease{id: leaseID, expiryMs: before.expiryMs, from: before.from, end: before.end, conflating: before.conflating, prior: before}
		c.lease.expiryMs = max(c.lease.expiryMs, m.nowMs+max(seconds, 1)*1000)
		if renewed++; renewed == 1 || c.lease.expiryMs < earliestMs {
			earliestMs = c.lease.expiryMs
		}
	}
	return renewed, earliestMs
}
