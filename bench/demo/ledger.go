package main

import (
	"bytes"
	"fmt"
	"sync"
)

// ledger is what one group was delivered, checked as it comes. Safe for concurrent use.
type ledger struct {
	group  string
	events map[string]*event
	total  int

	mu         sync.Mutex
	seen       map[string]bool
	acked      map[string]bool
	next       map[string]int // position of the next first delivery of each partition
	again      int            // deliveries beyond the first
	violations []string
	watch      map[int][]chan struct{} // closed when so many events were seen
}

func newLedger(group string, events []event) *ledger {
	l := &ledger{
		group: group, events: map[string]*event{}, total: len(events),
		seen: map[string]bool{}, acked: map[string]bool{}, next: map[string]int{},
		watch: map[int][]chan struct{}{},
	}
	for i := range events {
		l.events[events[i].id] = &events[i]
	}
	return l
}

// deliver checks one delivery.
func (l *ledger) deliver(id, partition string, payload []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := l.events[id]
	switch {
	case e == nil:
		l.violate("%s was delivered and never pushed", id)
		return
	case partition != e.partition:
		l.violate("%s came from partition %q instead of %q", id, partition, e.partition)
	case !bytes.Equal(payload, e.payload):
		l.violate("%s came with other bytes than it was pushed with", id)
	case l.acked[id]:
		l.violate("%s came again after its acknowledgement", id)
	}
	if l.seen[id] {
		l.again++
		return
	}
	l.seen[id] = true
	if e.position != l.next[e.partition] {
		l.violate("%s is number %d of partition %q and came first when number %d was due", id, e.position, e.partition, l.next[e.partition])
	}
	l.next[e.partition] = max(l.next[e.partition], e.position+1)
	for _, c := range l.watch[len(l.seen)] {
		close(c)
	}
	delete(l.watch, len(l.seen))
}

// ack records that the broker has answered the acknowledgement of id.
func (l *ledger) ack(id string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.acked[id] = true
}

// violate is called with mu held. The first few are enough to know what is wrong.
func (l *ledger) violate(format string, args ...any) {
	const most = 20
	if len(l.violations) < most {
		l.violations = append(l.violations, l.group+": "+fmt.Sprintf(format, args...))
	}
}

// after returns a channel that is closed when n events have been seen.
func (l *ledger) after(n int) <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := make(chan struct{})
	if len(l.seen) >= n {
		close(c)
		return c
	}
	l.watch[n] = append(l.watch[n], c)
	return c
}

// counts returns how many events were seen, and how many deliveries repeated one.
func (l *ledger) counts() (seen, again int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.seen), l.again
}

// verdict returns everything that went wrong, what is missing included.
func (l *ledger) verdict() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if missing := l.total - len(l.seen); missing > 0 {
		l.violate("%d of %d events never came", missing, l.total)
	}
	return l.violations
}
