package broker

import (
	"bytes"
	"errors"
	"strings"

	"github.com/google/uuid"

	"github.com/skepmq/skep/broker/lease"
	"github.com/skepmq/skep/log/journal"
	"github.com/skepmq/skep/log/record"
)

// Acknowledge applies acks for a consumer group and fills results, which has the same
// length. Acks of one partition under one lease are decided together, see decide; others
// do not concern them. It returns when every new cursor is on disk, and everything that a
// refusal rests on.
//
// Errors, with nothing answered: ErrStorageFailed, ErrClosed.
func (b *Broker) Acknowledge(t Tenant, group string, acks []Ack, results []AckResult) error {
	if group == "" {
		group = QueueMode
	}
	var (
		last    journal.Ticket
		settled []*acknowledge
	)
	b.traffic.counters[AckRequests].Add(1)
	var queues touched
	for _, sub := range subGroups(acks) {
		a := &acknowledge{b: b, acks: acks, results: results, items: sub, goneAt: -1, leaseID: acks[sub[0]].LeaseID}
		if err := a.run(t, group); err != nil {
			// This one is undecided; others are none of its concern.
			b.log.Error().Err(err).Msg("ack failed")
			a.refuse(errFlush)
		}
		if a.p != nil {
			if queues.first(a.p.queue) {
				a.p.queue.traffic.counters[AckRequests].Add(1)
			}
			b.countAcks(a.p.queue, sub, acks, results)
		} else {
			b.traffic.counters[FailedAcks].Add(int64(len(sub)))
		}
		if !a.decided {
			a.ticket = b.journal.Join() // the refusal may rest on what others have decided
		}
		last = a.ticket
		if a.appended {
			settled = append(settled, a)
		}
	}
	err := last.Wait()
	for _, a := range settled {
		b.settle(a.p, a.c)
		if a.filed > 0 && err == nil {
			b.publish(a.p.queue.hiddenPartition(), a.filed)
			a.p.queue.dead.publish(a.filed)
		}
	}
	if err == nil {
		err = b.journal.Err()
	}
	if err != nil {
		return b.storageError(err)
	}
	return nil
}

// subGroups splits acks by partition and lease, keeping their order. A run of acks of
// one group, the common case, costs a comparison an ack.
func subGroups(acks []Ack) [][]int32 {
	type key struct{ partition, lease string }
	var (
		groups [][]int32
		byKey  map[key]int
		last   key
		at     int
	)
	for i := range acks {
		k := key{acks[i].PartitionID, acks[i].LeaseID}
		if i == 0 || k != last {
			if byKey == nil {
				byKey = map[key]int{}
			}
			n, ok := byKey[k]
			if !ok {
				n = len(groups)
				byKey[k] = n
				groups = append(groups, nil)
			}
			at, last = n, k
		}
		groups[at] = append(groups[at], int32(i))
	}
	return groups
}

// acknowledge is one sub-group on its way.
type acknowledge struct {
	b       *Broker
	acks    []Ack
	results []AckResult
	items   []int32

	p *partition
	g *group
	c *cursor

	state    cursorState
	resolved []resolved
	poison   *Message // what the decision will file; nil: not read yet
	poisonAt int64
	known    [][]int64    // by item: offsets that the ack index knows; nil: not asked yet
	knownAt  uint32       // version of the cursor that known was asked for
	goneAt   int64        // offset of a poison message found to be gone, -1 for none
	leaseID  string       // the lease that the acks are under, "" for none
	decision decision     // valid once decideLocked has said so
	need     func() error // what a transaction has to read for it first

	ticket   journal.Ticket // of the decision, or of what a refusal rests on
	decided  bool
	appended bool  // the decision changed the cursor
	filed    int64 // end of the hidden partition after a dead letter was filed
}

func (a *acknowledge) refuse(text string) {
	for _, i := range a.items {
		a.results[i] = AckResult{Error: text}
	}
}

// run decides the sub-group. It looks under the partition's lock, goes to the disk
// without it where memory does not know enough, and starts over if the cursor has
// changed in between.
func (a *acknowledge) run(t Tenant, group string) error {
	var refusal string
	if a.p, a.g, refusal = a.b.ackTarget(t, a.acks[a.items[0]].PartitionID, group); refusal != "" {
		a.refuse(refusal)
		return nil
	}
	for {
		need, err := a.attempt()
		if errors.Is(err, errGroupGone) {
			if !a.regroup() {
				a.refuse(errConsumerNotFound)
				return nil
			}
			continue
		}
		if need == nil || err != nil {
			return err
		}
		if err := need(); err != nil {
			return err
		}
	}
}

// regroup looks the group up again after a seek has put another in its place. ok is
// false if it was deleted.
func (a *acknowledge) regroup() (ok bool) {
	g := a.p.queue.group(a.g.name)
	if g == nil {
		return false
	}
	a.g = g
	a.known, a.poison, a.goneAt = nil, nil, -1
	return true
}

// ackTarget returns the partition and the group that an acknowledgement names, or why
// there are none.
func (b *Broker) ackTarget(t Tenant, partition, group string) (p *partition, g *group, refusal string) {
	id, err := uuid.Parse(partition)
	if err != nil {
		return nil, nil, errPartitionID
	}
	number, _ := partitionNumber(b.directory, id)
	p = b.partitions.get(number)
	if p == nil || p.hidden || !p.queue.belongs(t) || partitionID(b.directory, p.number) != id {
		return nil, nil, errConsumerNotFound
	}
	if g = p.queue.group(group); g == nil {
		return nil, nil, errConsumerNotFound
	}
	return p, g, ""
}

// attempt decides and applies, or returns what has to be read first.
func (a *acknowledge) attempt() (need func() error, err error) {
	p := a.p
	p.mu.Lock()
	defer p.mu.Unlock()
	ok, need, err := a.findLocked()
	if !ok || err != nil {
		return need, err
	}
	if !a.leaseHoldsLocked() {
		a.refuse(errLeaseInvalid)
		return nil, nil
	}
	if need := a.decideLocked(); need != nil {
		return need, nil
	}
	a.applyLocked(&a.decision)
	return nil, nil
}

// findLocked finds the cursor that the acks are for. Where it does not, they are refused,
// or need says what has to be read first, or err is errGroupGone, that regroup has an
// answer to.
func (a *acknowledge) findLocked() (ok bool, need func() error, err error) {
	if a.g.deleted.Load() {
		return false, nil, errGroupGone
	}
	if a.p.goneLocked() {
		a.refuse(errConsumerNotFound)
		return false, nil, nil
	}
	ok, need = a.findCursorLocked()
	if !ok && need == nil {
		a.refuse(errConsumerNotFound)
	}
	return ok, need, nil
}

// decideLocked makes the decision and fills the results, or returns what has to be read
// first.
func (a *acknowledge) decideLocked() (need func() error) {
	if need := a.resolveLocked(); need != nil {
		return need
	}
	signal, _ := lowestSignal(a.resolved)
	a.state.gone = a.goneAt >= 0 && signal == a.goneAt
	d := decide(a.state, a.resolved)
	if d.file && (a.poison == nil || a.poisonAt != d.poison) {
		return a.readPoison(d.poison, a.p.viewLocked(), a.p.hwm)
	}
	for n, i := range a.items {
		a.results[i] = d.outcome(a.state, a.resolved[n])
	}
	a.decision = d
	return nil
}

// findCursorLocked finds the group's cursor. A group has one in every partition that its
// subscription covers, stored or not.
func (a *acknowledge) findCursorLocked() (ok bool, need func() error) {
	if a.c = a.p.cursorLocked(a.g); a.c != nil {
		return true, nil
	}
	from, ok := a.g.sub.Load().start(a.p.number)
	if !ok {
		return false, nil
	}
	committed, known := a.p.knownSeedLocked(from)
	if !known {
		return false, a.readPlace
	}
	a.c = a.p.addCursorLocked(a.g, committed)
	return true, nil
}

// readPlace reads where the group starts.
func (a *acknowledge) readPlace() error {
	a.p.mu.Lock()
	defer a.p.mu.Unlock()
	if err := a.b.placeGroupsLocked(a.p, []*group{a.g}); err != nil {
		return err
	}
	if a.p.damaged {
		return ErrPartitionDamaged
	}
	return nil
}

// leaseHoldsLocked checks the lease that the acks name, if they name one.
func (a *acknowledge) leaseHoldsLocked() bool {
	if a.leaseID == "" {
		return true
	}
	id, err := uuid.Parse(a.leaseID)
	return err == nil && a.c.live(a.b.clock.mono()) && a.c.lease.id == id
}

// applyLocked makes the decision the cursor's state and hands it to the journal.
func (a *acknowledge) applyLocked(d *decision) {
	b, p, c := a.b, a.p, a.c
	a.decided = true
	if !d.changes(c) {
		// Nothing changed, so nothing is written. But the answer may rest on a change
		// of another ack that is still on its way to disk.
		a.ticket = b.journal.Join()
		return
	}
	if d.released {
		b.leases.Remove(c.lease.id, lease.Key{Partition: p.number, Group: c.group.number})
	}
	c.apply(p, d, b.clock.stamp())
	a.appended = true
	if d.file {
		a.ticket, a.filed = b.fileDeadLetterLocked(p, c, a.poison, a.errorText(d.poison), a.state.retries)
		return
	}
	a.ticket = b.recordCursorLocked(p, c, false)
}

// errorText is the reason a dead letter is filed with: that of an ack which names the
// message, else the first one given.
func (a *acknowledge) errorText(poison int64) string {
	text := ""
	for n, i := range a.items {
		reason := a.acks[i].Error
		if reason == "" {
			continue
		}
		if a.resolved[n].offset == poison && a.acks[i].Status != AckCompleted {
			return kept(reason)
		}
		if text == "" {
			text = reason
		}
	}
	if text == "" {
		return "Retries exhausted"
	}
	return kept(text)
}

// maxErrorText is how many bytes of a reason a dead letter keeps: they stay in memory.
const maxErrorText = 4096

// kept copies a reason out of the request, cut to maxErrorText at a character's edge.
func kept(reason string) string {
	if len(reason) > maxErrorText {
		reason = strings.ToValidUTF8(reason[:maxErrorText], "")
	}
	return strings.Clone(reason)
}

// readPoison reads the message that is to be set aside. One that is gone stays nil, and
// the state says so to the next attempt.
func (a *acknowledge) readPoison(offset int64, v view, limit int64) func() error {
	return func() error {
		m, ok, err := a.b.messageAt(v, offset, limit)
		if err != nil {
			return err
		}
		m.detach()
		a.poison, a.poisonAt = &m, offset
		if !ok {
			a.poison, a.goneAt = nil, offset
		}
		return nil
	}
}

// detach makes m independent of the batch that it was read from.
func (m *Message) detach() {
	m.TransactionID, m.Payload = bytes.Clone(m.TransactionID), bytes.Clone(m.Payload)
	m.ProducerSub = bytes.Clone(m.ProducerSub)
}

// fileDeadLetterLocked writes the dead letter and the cursor that passes its message as
// one entry. The payload goes to the queue's hidden partition, whose lock comes after
// every other partition's.
func (b *Broker) fileDeadLetterLocked(p *partition, c *cursor, m *Message, text string, retries int64) (t journal.Ticket, end int64) {
	h := b.ensureHidden(p.queue)
	h.mu.Lock()
	defer h.mu.Unlock()
	b.changed.partition(h) // before the letter: whoever takes that then has its payload
	var frames []byte
	if !h.announced {
		frames = h.appendRecord(frames)
	}
	now := max(b.clock.stamp(), h.lastMs) // letters are listed in the order of their filing
	d := b.newDeadLetter(p, c, m, text, retries, now)
	d.Offset = h.end
	frames, payload := b.appendDeadLetter(frames, h, d, m, now)
	frames = c.appendRecord(frames, p, b.clock)
	b.changed.cursor(p, c)
	stored, ticket := b.journal.Append(frames, false)
	if stored == nil {
		return ticket, 0
	}
	h.announced = true
	h.growPartsLocked(stored, []part{payload}, now)
	p.queue.dead.add(d, false)
	return ticket, h.end
}

// newDeadLetter describes a message that is set aside; where its payload lies is for the
// caller to say.
func (b *Broker) newDeadLetter(p *partition, c *cursor, m *Message, text string, retries, now int64) *record.DeadLetter {
	return &record.DeadLetter{
		ID: b.newID(now), Queue: p.queue.number, Partition: p.number, Group: c.group.number,
		Retries: uint32(retries), MessageID: m.ID, CreatedMs: m.CreatedAtMs, FailedMs: now,
		TransactionID: m.transactionID(), Error: text, GroupName: c.group.name,
	}
}
