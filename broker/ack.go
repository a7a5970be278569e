package broker

import (
	"strings"

	"github.com/google/uuid"

	"github.com/skepmq/skep/broker/lease"
	"github.com/skepmq/skep/log/journal"
	"github.com/skepmq/skep/log/record"
)

// Acknowledge applies acks for a consumer group and fills results, which has the same
// length. Acks of one partition under one lease are decided together, see decide; others
// do not concern them. It returns when every new cursor is on disk.
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
	for _, sub := range subGroups(acks) {
		a := &acknowledge{b: b, acks: acks, results: results, items: sub, goneAt: -1}
		if err := a.run(t, group); err != nil {
			// This one is undecided; others are none of its concern.
			b.log.Error().Err(err).Msg("ack failed")
			a.refuse(errFlush)
		}
		if a.decided {
			last = a.ticket
		}
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
	known    [][]int64 // by item: offsets that the ack index knows; nil: not asked yet
	knownAt  uint32    // version of the cursor that known was asked for
	goneAt   int64     // offset of a poison message found to be gone, -1 for none

	ticket   journal.Ticket // of the decision, if decided
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
	id, err := uuid.Parse(a.acks[a.items[0]].PartitionID)
	if err != nil {
		a.refuse(errPartitionID)
		return nil
	}
	number, _ := partitionNumber(a.b.directory, id)
	p := a.b.partitions.get(number)
	if p == nil || p.hidden || p.queue.tenant != t || partitionID(a.b.directory, p.number) != id {
		a.refuse(errConsumerNotFound)
		return nil
	}
	a.p, a.g = p, p.queue.group(group)
	if a.g == nil {
		a.refuse(errConsumerNotFound)
		return nil
	}
	for {
		need, err := a.attempt()
		if need == nil || err != nil {
			return err
		}
		if err := need(); err != nil {
			return err
		}
	}
}

// attempt decides and applies, or returns what has to be read first.
func (a *acknowledge) attempt() (need func() error, err error) {
	p := a.p
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.goneLocked() || !a.findCursorLocked(&err) || err != nil {
		a.refuse(errConsumerNotFound)
		return nil, err
	}
	if !a.leaseHoldsLocked() {
		a.refuse(errLeaseInvalid)
		return nil, nil
	}
	if need := a.resolveLocked(); need != nil {
		return need, nil
	}
	signal, _ := lowestSignal(a.resolved)
	a.state.gone = a.goneAt >= 0 && signal == a.goneAt
	d := decide(a.state, a.resolved)
	if d.file && (a.poison == nil || a.poisonAt != d.poison) {
		return a.readPoison(d.poison, p.viewLocked(), p.hwm), nil
	}
	for n, i := range a.items {
		a.results[i] = d.outcome(a.state, a.resolved[n])
	}
	a.applyLocked(&d)
	return nil, nil
}

// findCursorLocked finds the group's cursor. A group has one in every partition that its
// subscription covers, stored or not.
func (a *acknowledge) findCursorLocked(err *error) bool {
	if a.c = a.p.cursorLocked(a.g); a.c != nil {
		return true
	}
	from, ok := a.g.sub.Load().start(a.p.number)
	if !ok {
		return false
	}
	committed, seedErr := a.b.seedLocked(a.p, from)
	if seedErr != nil {
		*err = seedErr
		return false
	}
	a.c = a.p.addCursorLocked(a.g, committed)
	return true
}

// leaseHoldsLocked checks the lease that the acks name, if they name one.
func (a *acknowledge) leaseHoldsLocked() bool {
	text := a.acks[a.items[0]].LeaseID
	if text == "" {
		return true
	}
	id, err := uuid.Parse(text)
	return err == nil && a.c.live(a.b.clock.mono()) && a.c.lease.id == id
}

// applyLocked makes the decision the cursor's state and hands it to the journal.
func (a *acknowledge) applyLocked(d *decision) {
	b, p, c := a.b, a.p, a.c
	a.decided = true
	if d.committed == c.committed && !d.released {
		// Nothing changed, so nothing is written. But the answer may rest on a change
		// of another ack that is still on its way to disk.
		a.ticket = b.journal.Join()
		return
	}
	c.version++
	c.inflight++
	c.commit(p, d.committed, b.clock.stamp())
	c.retries = uint32(d.retries)
	if d.released {
		b.leases.Remove(c.lease.id, lease.Key{Partition: p.number, Group: c.group.number})
		c.lease = nil
	}
	if d.completed {
		c.attemptStart, c.attempt = -1, 0
	}
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
		a.poison, a.poisonAt = &m, offset
		if !ok {
			a.poison, a.goneAt = nil, offset
		}
		return nil
	}
}

// fileDeadLetterLocked writes the dead letter and the cursor that passes its message as
// one entry. The payload goes to the queue's hidden partition, whose lock comes after
// every other partition's.
func (b *Broker) fileDeadLetterLocked(p *partition, c *cursor, m *Message, text string, retries int64) (t journal.Ticket, end int64) {
	now := b.clock.stamp()
	d := &record.DeadLetter{
		ID: newID(now), Queue: p.queue.number, Partition: p.number, Group: c.group.number,
		Retries: uint32(retries), MessageID: m.ID, CreatedMs: m.CreatedAtMs, FailedMs: now,
		TransactionID: m.transactionID(), Error: text, GroupName: c.group.name,
	}
	h := b.ensureHidden(p.queue)
	h.mu.Lock()
	defer h.mu.Unlock()
	b.changed.partition(h) // before the letter: whoever takes that then has its payload
	d.Offset = h.end
	batch, at := b.deadLetterFrames(h, d, m, now)
	frames := append(batch, c.appendRecord(nil, p, b.clock)...)
	b.changed.cursor(p, c)
	stored, ticket := b.journal.Append(frames, false)
	if stored == nil {
		return ticket, 0
	}
	h.announced = true
	body := stored[at:]
	h.growLocked(body[:batchLen(body)], 1, max(now, h.lastMs))
	p.queue.dead.add(d, false)
	return ticket, h.end
}
