package broker

import (
	"cmp"
	"slices"
	"time"

	"github.com/skepmq/skep/log/journal"
)

// placeOf reads the parameters of a first contact. Only the literal texts count: a mode
// nobody knows means everything, as if none had been sent.
func (b *Broker) placeOf(mode, from string) place {
	if from != "" && from != "now" {
		if t, err := parseInstant(from); err == nil {
			return place{mode: modeTimestamp, instantMs: t.UnixMilli()}
		}
		return place{mode: modeNew}
	}
	if mode == "new" || from == "now" {
		return place{mode: modeNew}
	}
	return place{mode: modeAll}
}

// instantLayouts are the spellings of an instant that are taken, most usual first.
var instantLayouts = []string{time.RFC3339Nano, "2006-01-02T15:04:05.999999999", "2006-01-02 15:04:05", "2006-01-02"}

func parseInstant(s string) (t time.Time, err error) {
	for _, layout := range instantLayouts {
		if t, err = time.ParseInLocation(layout, s, time.UTC); err == nil {
			return t, nil
		}
	}
	return t, err
}

// register writes the group's subscription, once. From then on the group has a place in
// every partition of the queue, those to come included: not stored, but told by the
// subscription and the times of the partition's batches.
func (b *Broker) register(g *group, mode, from string, conflation bool) journal.Ticket {
	q := g.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	sub := *g.sub.Load()
	if sub.settled() || q.deleted.Load() || g.deleted.Load() {
		return b.journal.Join()
	}
	if sub.dormant() {
		sub.placedBelow, sub.placed = 0, place{} // the stored subscription decides again
	} else {
		sub.registered, sub.conflation, sub.place = true, conflation, b.placeOf(mode, from)
		if sub.mode == modeNew {
			sub.instantMs = b.afterAllLocked(q)
		}
	}
	g.sub.Store(&sub)
	return b.announceGroupLocked(g)
}

// afterAllLocked returns an instant above every message so far; floorMs keeps every later
// one at or above it.
func (b *Broker) afterAllLocked(q *queue) int64 {
	instantMs := max(b.clock.stamp(), q.newestMs.Load()+1)
	raise(&q.floorMs, instantMs)
	return instantMs
}

// announceGroup writes the record of a group that a pinned pop has met.
func (b *Broker) announceGroup(g *group) {
	g.queue.mu.Lock()
	defer g.queue.mu.Unlock()
	if !g.announced.Load() && !g.queue.deleted.Load() && !g.deleted.Load() {
		b.announceGroupLocked(g)
	}
}

// announceGroupLocked writes the record of g as it is, behind that of its queue. Under
// the queue's lock, so that the last record is the newest state.
func (b *Broker) announceGroupLocked(g *group) journal.Ticket {
	if !g.queue.announced.Load() {
		b.announceLocked(g.queue)
	}
	b.changed.group(g)
	_, ticket := b.journal.Append(g.appendRecord(nil), false)
	g.announced.Store(true)
	return ticket
}

// announceQueue writes the record of a queue that a pop has made.
func (b *Broker) announceQueue(q *queue) journal.Ticket {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.announced.Load() || q.deleted.Load() {
		return b.journal.Join()
	}
	return b.announceLocked(q)
}

// labelled returns the tenant's queues with both labels; an empty label matches all.
func (b *Broker) labelled(t Tenant, namespace, task string) (queues []*queue) {
	b.mu.RLock()
	defer b.mu.RUnlock()
	for _, q := range b.queues {
		o := q.options.Load()
		if q.belongs(t) && (namespace == "" || o.Namespace == namespace) && (task == "" || o.Task == task) {
			queues = append(queues, q)
		}
	}
	slices.SortFunc(queues, func(x, y *queue) int { return cmp.Compare(x.number, y.number) })
	return queues
}
