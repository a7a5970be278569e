package broker

import (
	"bytes"
	"encoding/binary"

	"github.com/google/uuid"

	"github.com/skepmq/skep/broker/envelope"
)

// The spool is a queue of one partition, which belongs to nobody. What is spooled is thus
// journaled, filed, checksummed and recovered like any message, and an internal group's
// cursor says how far it is drained. It comes into being with the first spooled push and is
// deleted when it has been drained.
//
// Any id is a tenant, that of zeros too. No request can name the spool because its name is
// not UTF-8, and belongs keeps it out of lists and from who knows the id of its partition.
var spoolKey = queueKey{tenant: Tenant{}, name: "\xffspool"}

const (
	spoolPartition = ""
	spoolGroup     = "drain"

	// formerSpoolName is what the spool was called while no request could name a tenant.
	formerSpoolName = "spool"
)

// belongs reports whether q is one of the tenant's queues.
func (q *queue) belongs(t Tenant) bool { return q.tenant == t && !q.isSpool() }

func (q *queue) isSpool() bool { return q.name == spoolKey.name }

func (b *Broker) spoolQueue() *queue { return b.queue(spoolKey.tenant, spoolKey.name) }

func (b *Broker) spoolExists() bool { return b.spoolQueue() != nil }

// spooled returns the partition of the spool, or nil if nothing is spooled.
func (b *Broker) spooled() *partition {
	q := b.spoolQueue()
	if q == nil {
		return nil
	}
	return q.partition(spoolPartition)
}

// buffered returns the number of messages that are on disk in the spool and not yet to
// be seen where they were pushed to.
func (b *Broker) buffered() int64 {
	// The last of the spool is moved before its pushes are counted in.
	return max(b.maintenance.buffered.Load(), 0)
}

// findSpool goes on with what was spooled before the restart.
func (r *recovery) findSpool() error {
	m := &r.b.maintenance
	m.diverting.Store(m.push.Load() || r.b.spoolExists())
	if p := r.b.spooled(); p != nil {
		drained := p.start
		if p.cursors != nil {
			drained = p.cursors.committed + 1
		}
		m.buffered.Store(p.hwm - drained)
	}
	return nil
}

// divert spools the items of a push instead of storing them. diverted is false if the
// spool has been drained meanwhile: then the push goes its usual way.
//
// All items get one fate. None is refused for a reason of its own: an item that fits into
// a request fits into the spool. One that would not when it is encrypted is an error for all.
func (b *Broker) divert(t Tenant, items []PushItem, sub []byte, results []PushResult) (diverted bool, err error) {
	s := pushPool.Get().(*pushState)
	defer s.release()
	if s.items, err = b.spoolItems(t, items, sub, results); err != nil {
		return true, err
	}
	s.results = make([]PushResult, len(s.items))
	s.group()
	batch := &s.batches[0]
	if diverted, err = b.appendSpool(s, batch); !diverted {
		return false, nil
	}
	if err != nil {
		return true, err
	}
	if err := s.last.Wait(); err != nil {
		return true, b.storageError(err)
	}
	b.maintenance.buffered.Add(int64(len(s.items)))
	b.publish(batch.p, batch.end)
	return true, nil
}

// appendSpool appends the batch to the spool. Under the switches' lock, so that the drain
// ends before it or behind it.
func (b *Broker) appendSpool(s *pushState, batch *pushBatch) (diverted bool, err error) {
	m := &b.maintenance
	m.mu.RLock()
	defer m.mu.RUnlock()
	if !m.diverting.Load() {
		return false, nil
	}
	b.ensureQueue(spoolKey.tenant, spoolKey.name, func(string) QueueOptions { return QueueOptions{} })
	return true, b.pushBatch(spoolKey.tenant, s, batch)
}

// spoolItems encodes the items, those of one partition together, and fills in results. An
// item that repeats the transaction id of an earlier one shares its fate and its id.
func (b *Broker) spoolItems(t Tenant, items []PushItem, sub []byte, results []PushResult) ([]PushItem, error) {
	s := pushPool.Get().(*pushState)
	defer s.release()
	s.items, s.results = items, results
	s.group()
	spooled := make([]PushItem, 0, len(items))
	arena := make([]byte, 0, spoolBytes(items, sub, b.o.Keys != nil))
	name, now := []byte(spoolKey.name), b.clock.stamp()
	for n := range s.batches {
		batch := &s.batches[n]
		s.findLeaders(b, batch, 0, true)
		batch.keys = b.keysOf(b.queueBytes(t, items[batch.first].Queue))
		if !s.encryptable(batch, b.maxEncrypted) {
			return nil, errTooLargeToEncrypt
		}
		for i := batch.first; i >= 0; i = s.next[i] {
			r, it := &results[i], &items[i]
			if r.Status == itemRepeat {
				*r = results[r.Offset]
				continue
			}
			*r = PushResult{MessageID: b.newID(now), Minted: r.Minted, Status: Buffered, Offset: -1}
			payload, encrypted := s.encrypt(batch.keys, it)
			start := len(arena)
			arena = appendSpoolItem(arena, &spoolItem{
				tenant: t, id: r.MessageID, queue: it.Queue, partition: it.Partition,
				key: it.TransactionID, sub: sub, payload: payload, encrypted: encrypted,
			})
			spooled = append(spooled, PushItem{
				Queue: name, Partition: []byte(spoolPartition), Payload: arena[start:len(arena):len(arena)],
			})
		}
	}
	return spooled, nil
}

// spoolBytes returns how many bytes the items take when they are encoded, at most.
func spoolBytes(items []PushItem, sub []byte, encrypted bool) (n int) {
	for i := range items {
		it := &items[i]
		payload := len(it.Payload)
		if encrypted {
			payload = envelope.SealedLen(payload)
		}
		n += spoolHeaderLen + 4*binary.MaxVarintLen32 +
			len(it.Queue) + len(it.Partition) + len(it.TransactionID) + len(sub) + payload
	}
	return n
}

// announcedOffset finds the message whose minted transaction id was announced before it
// was stored.
func (f *finder) announcedOffset(text string, since int64) (offset int64, ok bool, err error) {
	id, err := uuid.Parse(text)
	if err != nil || len(text) != 36 {
		return 0, false, nil
	}
	candidates, err := f.b.ids.LookupSince(f.b.ids.Hash(f.v.number, appendUUID(nil, id)), since, nil)
	if err != nil {
		return 0, false, err
	}
	for _, o := range candidates {
		if o < f.v.start {
			return o, true, nil // removed by retention, still in the index
		}
		m, found, err := f.at(o)
		if err != nil {
			return 0, false, err
		}
		if found && m.TransactionID == nil && m.ID == id && m.CreatedAtMs >= since {
			return o, true, nil
		}
	}
	return 0, false, nil
}

// sameRun reports whether a drained item may go into one batch with the run before it.
func (d *drainer) sameRun(it *spoolItem) bool {
	return it.tenant == d.tenant && bytes.Equal(it.sub, d.sub) && (it.sub == nil) == (d.sub == nil) &&
		bytes.Equal(it.partition, d.items[0].Partition) && bytes.Equal(it.queue, d.items[0].Queue)
}
