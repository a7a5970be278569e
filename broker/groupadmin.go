package broker

import (
	"math"

	"github.com/skepmq/skep/log/journal"
	"github.com/skepmq/skep/log/record"
)

// DeleteGroup deletes a consumer group of one queue: its cursors, leases and retry
// counters, and its registration unless keep is set; then the stored subscription decides
// where the group begins at its next contact. Dead letters stay. It returns, when that is
// on disk, how many cursors there were, those implied by the subscription included. A
// queue or group that does not exist has none. Pops that wait start over.
//
// Errors: ErrStorageFailed, ErrClosed.
func (b *Broker) DeleteGroup(t Tenant, name, queueName string, keep bool) (cursors int, err error) {
	q := b.queue(t, queueName)
	if q == nil {
		return 0, b.rested(nil)
	}
	r := b.deleteGroup(q, name, keep)
	cursors = r.sweep(b)
	if err := r.wait(b); err != nil {
		return 0, b.storageError(err)
	}
	return cursors, nil
}

// DeleteGroups is DeleteGroup for every queue of the tenant. Each queue is a decision of
// its own: a crash may leave some of them done.
func (b *Broker) DeleteGroups(t Tenant, name string, keep bool) (cursors int, err error) {
	var all []replacement
	for _, q := range b.tenantQueues(t) {
		if q.group(name) != nil {
			all = append(all, b.deleteGroup(q, name, keep))
		}
	}
	for i := range all {
		cursors += all[i].sweep(b)
	}
	for i := range all {
		if err := all[i].wait(b); err != nil {
			return 0, b.storageError(err)
		}
	}
	return cursors, b.rested(nil) // others may have deleted the rest
}

// tenantQueues returns the queues of a tenant.
func (b *Broker) tenantQueues(t Tenant) (queues []*queue) {
	for _, q := range b.allQueues() {
		if q.belongs(t) {
			queues = append(queues, q)
		}
	}
	return queues
}

func (b *Broker) deleteGroup(q *queue, name string, keep bool) replacement {
	return b.replaceGroup(q, name, func(old *group) *subscription {
		if old == nil || !keep || !old.sub.Load().registered {
			return nil
		}
		sub := *old.sub.Load()
		sub.placedBelow, sub.placed, sub.consumed = math.MaxUint64, place{mode: modeNowhere}, false
		return &sub
	})
}

// replacement is a group that was deleted, and what has come in its place.
type replacement struct {
	queue     *queue
	old, next *group // nil: none
	ticket    journal.Ticket
}

// replaceGroup takes the group of that name out of service. Its successor has the
// subscription that successor returns; with nil there is none. Old and new are one entry
// of the journal. Without a queue any more, or with neither old nor new, nothing is done.
//
// Numbers are never used again, so whatever is on disk of the old group's cursors means
// nothing from that entry on: moving a group in a million partitions is one record.
func (b *Broker) replaceGroup(q *queue, name string, successor func(old *group) *subscription) replacement {
	now := b.clock.stamp()
	b.mu.Lock()
	defer b.mu.Unlock()
	q.mu.Lock()
	defer q.mu.Unlock()
	r := replacement{queue: q, old: q.groups[name]}
	if q.deleted.Load() {
		return replacement{queue: q}
	}
	if sub := successor(r.old); sub != nil {
		r.next = newGroup(q, b.nextGroup, name, now)
		r.next.sub.Store(sub)
		b.nextGroup++
		if r.old != nil {
			r.next.createdMs = r.old.createdMs
			r.next.evicted.Store(r.old.evicted.Load())
		}
	}
	if r.old != nil || r.next != nil {
		b.recordReplacementLocked(&r)
	}
	return r
}

// recordReplacementLocked writes the record and makes it so in memory. The old group is
// marked when the record is on its way, not before: a checkpoint leaves out what is
// deleted, and must not drop the journal of it unless the deletion is on disk too.
func (b *Broker) recordReplacementLocked(r *replacement) {
	if !r.queue.announced.Load() {
		b.announceLocked(r.queue)
	}
	var frames []byte
	if r.old != nil {
		b.changed.deleteGroup(r.old)
		frames = record.AppendGroupDeleted(frames, r.old.number)
	}
	if r.next != nil {
		b.changed.group(r.next)
		frames = r.next.appendRecord(frames)
	}
	_, r.ticket = b.journal.Append(frames, false)
	if r.old != nil {
		b.unlistGroupLocked(r.old)
		r.old.deleted.Store(true)
	}
	if r.next != nil {
		r.next.announced.Store(true)
		r.next.placing.Store(true)
		b.groups[r.next.number] = r.next
		r.queue.addGroupLocked(r.next)
	}
}

// unlistGroupLocked takes g out of the maps that the locks of broker and queue guard. Its
// name may already be that of its successor.
func (b *Broker) unlistGroupLocked(g *group) {
	q := g.queue
	delete(b.groups, g.number)
	if q.groups[g.name] == g {
		delete(q.groups, g.name)
	}
	var list []*group
	for _, other := range *q.groupList.Load() {
		if other != g {
			list = append(list, other)
		}
	}
	q.groupList.Store(&list)
}

// sweep ends every lease of the old group and lets those who wait for it start over. It
// returns how many cursors the group had.
func (r *replacement) sweep(b *Broker) (cursors int) {
	if r.old == nil {
		return 0
	}
	for _, p := range r.queue.snapshot() {
		if b.dropCursor(p, r.old) {
			cursors++
		}
	}
	r.old.ready.wakeAll()
	return cursors
}

// wait returns when the replacement is on disk, or what has made it unnecessary.
func (r *replacement) wait(b *Broker) error {
	if r.old == nil && r.next == nil {
		r.ticket = b.journal.Join()
	}
	err := r.ticket.Wait()
	if r.next != nil {
		r.next.placing.Store(false)
	}
	return err
}

// dropCursor takes the cursor of a deleted group out of p, and reports whether the group
// had one there, stored or implied.
func (b *Broker) dropCursor(p *partition, g *group) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for at := &p.cursors; *at != nil; at = &(*at).next {
		if c := *at; c.group == g {
			*at = c.next
			b.dropLeaseLocked(p, c)
			c.version++ // a claim in progress must not hand anything out
			return true
		}
	}
	_, implied := g.implied(p.number)
	return implied && p.announced
}

// appendDeletion appends the record of g's deletion. The queue's lock makes sure that
// whoever is deleting g has it in the journal by now.
func (g *group) appendDeletion(dst []byte) []byte {
	g.queue.mu.RLock()
	defer g.queue.mu.RUnlock()
	return record.AppendGroupDeleted(dst, g.number)
}

// currentGroups returns the groups of q, and waits for a replacement in progress: the
// group that goes is not missing yet, or its deletion is in the journal.
func (q *queue) currentGroups() []*group {
	q.mu.RLock()
	defer q.mu.RUnlock()
	return *q.groupList.Load()
}

// deleteGroup folds the record of a deletion. The cursors go at the end of the recovery,
// see dropGone: walking over all partitions for each seek of the past would take long.
func (r *recovery) deleteGroup(number uint32) {
	b := r.b
	b.nextGroup = max(b.nextGroup, number+1)
	if g := b.groups[number]; g != nil {
		g.deleted.Store(true)
		b.unlistGroupLocked(g)
	}
}

// dropGone takes the cursors of deleted groups out of p. Recovery is alone with it.
func (p *partition) dropGone() {
	for at := &p.cursors; *at != nil; {
		if (*at).group.deleted.Load() {
			*at = (*at).next
		} else {
			at = &(*at).next
		}
	}
}
