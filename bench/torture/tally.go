package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// outcome is what is known of a pushed message.
type outcome uint8

const (
	unknown outcome = iota // it may be stored, once, or not at all
	stored                 // answered: it must be there
	refused                // it must not
)

// lane is a partition and everything that was pushed to it, by one pusher, in order. The
// place of a message in items is its index.
type lane struct {
	queue, partition string
	items            []outcome
	groups           map[string]*place
}

// place is how far a group has come in a lane.
type place struct {
	done  int // all up to this index were acknowledged, with an answer
	maybe int // perhaps up to here
	seen  int // the last that the current drain was given
}

// tally knows what was pushed and acknowledged, and what the broker must have of it.
type tally struct {
	seed    uint64
	sizeMin int
	sizeMax int
	// unreadable says that files may not open, so that a pop may answer an error of the disk.
	unreadable atomic.Bool

	mu    sync.Mutex
	lanes map[string]*lane
	first error
	// failedAt is when an answer first said that a write had failed.
	failedAt time.Time
	totals
}

// totals are for the summary.
type totals struct {
	stored, refused, unknown, failed, acked, delivered int
}

func newTally(seed uint64, sizeMin, sizeMax int) *tally {
	return &tally{seed: seed, sizeMin: sizeMin, sizeMax: sizeMax, lanes: map[string]*lane{}}
}

func laneKey(queue, partition string) string { return queue + "\x00" + partition }

// lane returns the lane of a partition, a new one if need be.
func (t *tally) lane(queue, partition string) *lane {
	t.mu.Lock()
	defer t.mu.Unlock()
	key := laneKey(queue, partition)
	l := t.lanes[key]
	if l == nil {
		l = &lane{queue: queue, partition: partition, groups: map[string]*place{}}
		t.lanes[key] = l
	}
	return l
}

// complain keeps the first violation.
func (t *tally) complain(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.first == nil {
		t.first = err
	}
}

// err returns the first violation.
func (t *tally) err() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.first
}

// payload makes the payload of a message from its place alone: index and lane, then
// letters that do not compress well, and a number that no float holds.
func (t *tally) payload(l *lane, index int) []byte {
	rng := rand.New(rand.NewPCG(t.seed^uint64(len(l.queue))<<32^hash(l.queue+"/"+l.partition), uint64(index)))
	size := t.sizeMin + rng.IntN(t.sizeMax-t.sizeMin+1)
	b := fmt.Appendf(nil, `{"i":%d,"q":%q,"p":%q, "big":9007199254740993,"pad":"`, index, l.queue, l.partition)
	for len(b) < size {
		b = strconv.AppendUint(b, rng.Uint64(), 36)
	}
	return append(b, `"}`...)
}

// hash is FNV-1a.
func hash(s string) uint64 {
	h := uint64(14695981039346656037)
	for i := range len(s) {
		h = (h ^ uint64(s[i])) * 1099511628211
	}
	return h
}

func (l *lane) place(group string) *place {
	p := l.groups[group]
	if p == nil {
		p = &place{done: -1, maybe: -1, seen: -1}
		l.groups[group] = p
	}
	return p
}

// begin starts a delivery of everything a group has not done.
func (t *tally) begin(group string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, l := range t.lanes {
		l.place(group).seen = -1
	}
}

// deliver takes one delivered message, and returns its lane and index.
func (t *tally) deliver(group, queue string, m *delivered) (*lane, int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.delivered++
	l := t.lanes[laneKey(queue, m.Partition)]
	var p struct {
		Index *int `json:"i"`
	}
	if l == nil || json.Unmarshal(m.RawData, &p) != nil || p.Index == nil || *p.Index < 0 || *p.Index >= len(l.items) {
		return nil, 0, violated("never sent", "queue %q, partition %q: %.200q", queue, m.Partition, m.RawData)
	}
	i := *p.Index
	pl := l.place(group)
	switch {
	case !bytes.Equal(m.RawData, t.payload(l, i)):
		return nil, 0, violated("wrong bytes", "queue %q, partition %q, message %d: %.200q", queue, m.Partition, i, m.RawData)
	case l.items[i] == refused:
		return nil, 0, violated("refused and delivered", "queue %q, partition %q, message %d", queue, m.Partition, i)
	case i <= pl.done:
		return nil, 0, violated("delivered after its ack", "queue %q, partition %q, group %q, message %d, acknowledged up to %d", queue, m.Partition, group, i, pl.done)
	}
	return l, i, nil
}

// deliverNext is deliver where a group is given everything once and in order.
func (t *tally) deliverNext(group, queue string, m *delivered) error {
	l, i, err := t.deliver(group, queue, m)
	if err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	pl := l.place(group)
	if i <= pl.seen {
		return violated("order", "queue %q, partition %q, group %q: message %d after %d", queue, l.partition, group, i, pl.seen)
	}
	for k := max(pl.seen, pl.maybe) + 1; k < i; k++ {
		if l.items[k] == stored {
			return violated("skipped", "queue %q, partition %q, group %q: message %d after %d, and %d was stored", queue, l.partition, group, i, pl.seen, k)
		}
	}
	pl.seen = i
	return nil
}

// missing returns how many stored messages a drain of group did not bring, of the lanes
// that want is true for, and names one.
func (t *tally) missing(group string, want func(*lane) bool) (n int, example string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, l := range t.lanes {
		if want != nil && !want(l) {
			continue
		}
		pl := l.place(group)
		for i := max(pl.seen, pl.maybe) + 1; i < len(l.items); i++ {
			if l.items[i] == stored {
				n++
				example = fmt.Sprintf("queue %q, partition %q, group %q: message %d, delivered up to %d, acknowledged up to %d to %d", l.queue, l.partition, group, i, pl.seen, pl.done, pl.maybe)
			}
		}
	}
	return n, example
}

// drained makes what a drain under autoAck brought count as acknowledged.
func (t *tally) drained(group string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, l := range t.lanes {
		pl := l.place(group)
		pl.done = max(pl.done, pl.seen)
		pl.maybe = max(pl.maybe, pl.done)
	}
}

// queues returns the names of all queues.
func (t *tally) queues() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	set := map[string]bool{}
	for _, l := range t.lanes {
		set[l.queue] = true
	}
	names := make([]string, 0, len(set))
	for q := range set {
		names = append(names, q)
	}
	return names
}
