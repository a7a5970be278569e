package broker

import (
	"strings"

	"github.com/skepmq/skep/log/journal"
	"github.com/skepmq/skep/log/record"
)

// DefaultOptions are the options of a queue that a push or pop makes.
func DefaultOptions(name string) QueueOptions {
	o := ConfigureDefaults()
	o.LeaseTime = defaultLeaseSeconds
	namespace, rest, dotted := strings.Cut(name, ".")
	o.Namespace = namespace
	if dotted {
		o.Task, _, _ = strings.Cut(rest, ".")
	}
	return o
}

// ConfigureDefaults are the options of a configure call that names none.
func ConfigureDefaults() QueueOptions {
	return QueueOptions{
		LeaseTime:                   300,
		RetryLimit:                  3,
		RetryDelay:                  1000,
		TTL:                         3600,
		DeadLetterQueue:             true,
		DLQAfterMaxRetries:          true,
		DedupWindowSeconds:          3600,
		RetentionSinkHoldMaxSeconds: 604800,
	}
}

// Configure changes the options of a queue, which is made if it does not exist, and
// returns when they are on disk. change gets the options in force, or the defaults with
// exists false; an error of it is returned and nothing is written.
func (b *Broker) Configure(t Tenant, name string, change func(current QueueOptions, exists bool) (QueueOptions, error)) (QueueInfo, error) {
	b.configureMu.Lock()
	defer b.configureMu.Unlock()
	for {
		current, exists := ConfigureDefaults(), false
		if q := b.queue(t, name); q != nil {
			current, exists = *q.options.Load(), true
		}
		if err := b.mayMake(func() bool { return exists }); err != nil {
			return QueueInfo{}, err
		}
		o, err := change(current, exists)
		if err != nil {
			return QueueInfo{}, err
		}
		q, created := b.ensureQueue(t, name, func(string) QueueOptions { return o })
		if created == exists {
			continue // a push or a delete came between
		}
		if ok, err := b.configure(q, &o); ok || err != nil {
			b.wakeMade(t, name)
			info := q.identity()
			if err == nil {
				b.reportKeyMissing(&info)
			}
			return info, err
		}
	}
}

// configure stores the options of q. ok is false if q is deleted.
func (b *Broker) configure(q *queue, o *QueueOptions) (ok bool, err error) {
	q.mu.Lock()
	if q.deleted.Load() {
		q.mu.Unlock()
		return false, nil
	}
	q.options.Store(o)
	ticket := b.announceLocked(q)
	q.mu.Unlock()
	if err := ticket.Wait(); err != nil {
		return false, b.storageError(err)
	}
	// A shorter delay shows stored messages at once: everything may be ready now.
	for _, g := range *q.groupList.Load() {
		g.ready.lookAgain()
	}
	return true, nil
}

// announceLocked writes the record of q. Under the queue's lock, so that none follows
// the record of its deletion.
func (b *Broker) announceLocked(q *queue) journal.Ticket {
	b.changed.queue(q)
	_, ticket := b.journal.Append(q.appendRecord(nil), false)
	q.announced.Store(true)
	return ticket
}

func (q *queue) identity() QueueInfo {
	return QueueInfo{ID: q.id, Name: q.name, CreatedAtMs: q.createdMs, Options: *q.options.Load()}
}

// DeleteQueue deletes a queue with everything in it and returns when that is on disk.
// Requests that wait for the queue are answered empty.
func (b *Broker) DeleteQueue(t Tenant, name string) (existed bool, err error) {
	q, ticket := b.deleteQueue(t, name)
	if q == nil {
		return false, b.rested(nil)
	}
	err = ticket.Wait()
	b.forgetPartitions(q)
	b.poke() // its segments go with the next checkpoint
	for _, g := range *q.groupList.Load() {
		g.ready.wakeAll()
	}
	q.awaited.wakeAll()
	if err != nil {
		return true, b.storageError(err)
	}
	return true, nil
}

func (b *Broker) deleteQueue(t Tenant, name string) (*queue, journal.Ticket) {
	b.mu.Lock()
	defer b.mu.Unlock()
	q := b.queues[queueKey{t, name}]
	if q == nil {
		return nil, journal.Ticket{}
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	b.unlistQueueLocked(q)
	b.changed.deleteQueue(q)
	_, ticket := b.journal.Append(record.AppendQueueDeleted(nil, q.number), false)
	// Marked when the record is on its way, not before: a checkpoint leaves out what is
	// deleted, and must not drop the journal of it unless the deletion is on disk too.
	q.deleted.Store(true)
	return q, ticket
}

// unlistQueueLocked takes q and its groups out of the maps that mu guards. While records
// are replayed its name may already be that of its successor.
func (b *Broker) unlistQueueLocked(q *queue) {
	if key := (queueKey{q.tenant, q.name}); b.queues[key] == q {
		delete(b.queues, key)
	}
	delete(b.byNumber, q.number)
	for _, g := range *q.groupList.Load() {
		delete(b.groups, g.number)
	}
}

// forgetPartitions takes the partitions of a deleted queue out of the tables. A request
// that holds one of them finds the queue deleted.
func (b *Broker) forgetPartitions(q *queue) {
	q.mu.Lock()
	gone := append([]*partition{}, q.partitions...)
	if q.hidden != nil {
		gone = append(gone, q.hidden)
	}
	q.mu.Unlock()
	for _, p := range gone {
		b.partitions.set(p.number, nil)
		p.mu.Lock()
		for c := p.cursors; c != nil; c = c.next {
			b.dropLeaseLocked(p, c)
		}
		p.cursors, p.tail = nil, nil
		p.mu.Unlock()
	}
	q.forgotten.Store(true)
	b.damages.forget(q) // it is deleted, so none of it is noted any more
}
