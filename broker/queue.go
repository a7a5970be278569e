package broker

import (
	"encoding/json"
	"sync"
	"sync/atomic"

	"github.com/google/uuid"

	"github.com/skepmq/skep/log/record"
)

type queueKey struct {
	tenant Tenant
	name   string
}

// queue is a named set of partitions with one configuration.
type queue struct {
	number    uint32
	tenant    Tenant
	id        uuid.UUID
	name      string
	createdMs int64

	options   atomic.Pointer[QueueOptions]
	deleted   atomic.Bool
	announced atomic.Bool // its record is in the journal
	// forgotten says that q is deleted and nobody writes a record of it any more; until
	// then one may follow that of the deletion. final says that it was so before the
	// journal was rotated, the checkpoint's.
	forgotten atomic.Bool
	final     bool

	// newestMs is the latest append time given out; floorMs is a lower bound of the
	// next one. A group that subscribes now starts at an instant above newestMs and
	// raises floorMs to it, so every message is clearly before or after.
	newestMs atomic.Int64
	floorMs  atomic.Int64

	mu         sync.RWMutex
	partitions []*partition // by index
	byName     map[string]*partition
	groups     map[string]*group
	hidden     *partition // holds the payloads of dead letters; nil until the first
	tombstone  *partition // stands in partitions for all that were removed; nil until the first

	count atomic.Uint32 // of partitions

	// groupList is groups as a slice, replaced whole, for the push path.
	groupList atomic.Pointer[[]*group]

	dead    deadLetters
	aging   aging
	traffic traffic

	// awaited are pinned pops that wait for a partition to come into being.
	awaited watch
}

func newQueue(number uint32, tenant Tenant, id uuid.UUID, name string, createdMs int64, o QueueOptions) *queue {
	q := &queue{
		number: number, tenant: tenant, id: id, name: name, createdMs: createdMs,
		byName: map[string]*partition{}, groups: map[string]*group{},
	}
	q.options.Store(&o)
	q.groupList.Store(&[]*group{})
	return q
}

// appendRecord appends the queue's record.
func (q *queue) appendRecord(dst []byte) []byte {
	options, err := json.Marshal(q.options.Load())
	if err != nil {
		panic("BUG: queue options do not marshal: " + err.Error())
	}
	return record.AppendQueue(dst, &record.Queue{
		Number: q.number, Tenant: q.tenant, ID: q.id, CreatedMs: q.createdMs, Name: q.name, Options: options,
	})
}

// noteStamp raises newestMs. Most calls only load: many appends share a millisecond.
func (q *queue) noteStamp(ms int64) {
	raise(&q.newestMs, ms)
}

func raise(v *atomic.Int64, to int64) {
	for old := v.Load(); to > old; old = v.Load() {
		if v.CompareAndSwap(old, to) {
			return
		}
	}
}

func (q *queue) partition(name string) *partition {
	q.mu.RLock()
	defer q.mu.RUnlock()
	return q.byName[name]
}

// partitionBytes is partition for a borrowed name; the conversion does not allocate.
func (q *queue) partitionBytes(name []byte) *partition {
	q.mu.RLock()
	defer q.mu.RUnlock()
	return q.byName[string(name)]
}

func (q *queue) partitionAt(index uint32) *partition {
	q.mu.RLock()
	defer q.mu.RUnlock()
	return q.partitions[index]
}

// snapshot returns the partitions as they are now. The slice is append-only, so the
// prefix stays valid without the lock.
func (q *queue) snapshot() []*partition {
	q.mu.RLock()
	defer q.mu.RUnlock()
	return q.partitions[:len(q.partitions):len(q.partitions)]
}

// named returns how many partitions there are, those that are being made included.
func (q *queue) named() int {
	q.mu.RLock()
	defer q.mu.RUnlock()
	return len(q.byName)
}

func (q *queue) group(name string) *group {
	q.mu.RLock()
	defer q.mu.RUnlock()
	return q.groups[name]
}

// addPartitionLocked makes p a partition of q.
func (q *queue) addPartitionLocked(p *partition) {
	if p.hidden {
		q.hidden = p
		return
	}
	p.index = uint32(len(q.partitions))
	q.partitions = append(q.partitions, p)
	q.count.Store(uint32(len(q.partitions)))
	// While records are replayed a removed partition may come back for a moment, and its
	// name may be that of its successor by then.
	if other := q.byName[p.name]; other == nil || other.number < p.number {
		q.byName[p.name] = p
	}
}

// addGroupLocked makes g a group of q. While records are replayed a group may come after
// its successor, which keeps the name: numbers only grow.
func (q *queue) addGroupLocked(g *group) {
	if named := q.groups[g.name]; named == nil || named.number < g.number {
		q.groups[g.name] = g
	}
	list := append([]*group{}, *q.groupList.Load()...)
	list = append(list, g)
	q.groupList.Store(&list)
}
