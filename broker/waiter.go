package broker

import (
	"sync"
	"sync/atomic"
)

// waiter is a parked request. It may stand in several lists; the first wake-up counts
// and the rest are absorbed by C.
type waiter struct {
	C     chan struct{} // capacity 1
	nodes []*waiterNode
}

func newWaiter() *waiter { return &waiter{C: make(chan struct{}, 1)} }

// wake wakes w, and reports whether nobody had done so before.
func (w *waiter) wake() bool {
	select {
	case w.C <- struct{}{}:
		return true
	default:
		return false
	}
}

// leave takes w out of every list it is still in.
func (w *waiter) leave() {
	for _, n := range w.nodes {
		n.mu.Lock()
		n.remove()
		n.mu.Unlock()
	}
	w.nodes = w.nodes[:0]
}

// waiterNode is a waiter's place in one list.
type waiterNode struct {
	w  *waiter
	mu *sync.Mutex // guards the list

	list       *waiterList
	prev, next *waiterNode
}

// waiterList is a FIFO of waiters with removal from the middle. Its owner locks.
type waiterList struct{ first, last *waiterNode }

// add appends w to l, which mu guards and the caller has locked.
func (l *waiterList) add(w *waiter, mu *sync.Mutex) {
	n := &waiterNode{w: w, mu: mu, list: l, prev: l.last}
	if l.last != nil {
		l.last.next = n
	} else {
		l.first = n
	}
	l.last = n
	w.nodes = append(w.nodes, n)
}

// remove takes n out of its list; a second call does nothing.
func (n *waiterNode) remove() {
	l := n.list
	if l == nil {
		return
	}
	if n.prev != nil {
		n.prev.next = n.next
	} else {
		l.first = n.next
	}
	if n.next != nil {
		n.next.prev = n.prev
	} else {
		l.last = n.prev
	}
	n.list, n.prev, n.next = nil, nil, nil
}

// wakeFirst wakes the oldest waiter and takes it out of this list. A waiter that another
// list has woken already does not count: the next one is tried.
func (l *waiterList) wakeFirst() bool {
	for l.first != nil {
		w := l.first.w
		l.first.remove()
		if w.wake() {
			return true
		}
	}
	return false
}

// watch holds requests that wait for something to come into being, by its name. Waking is rare, and the count lets the push path ask one number.
type watch struct {
	count atomic.Int32

	mu    sync.Mutex
	lists map[string]*waiterList
}

func (w *watch) add(name string, x *waiter) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.lists == nil {
		w.lists = map[string]*waiterList{}
	}
	l := w.lists[name]
	if l == nil {
		l = &waiterList{}
		w.lists[name] = l
	}
	l.add(x, &w.mu)
	w.count.Add(1)
}

// wake wakes everyone who waits for name.
func (w *watch) wake(name string) {
	if w.count.Load() == 0 {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if l := w.lists[name]; l != nil {
		for l.wakeFirst() {
		}
		delete(w.lists, name)
	}
}

// wakeAll wakes everyone.
func (w *watch) wakeAll() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for name, l := range w.lists {
		for l.wakeFirst() {
		}
		delete(w.lists, name)
	}
}

// left counts a waiter out that add counted in, and forgets lists that it left empty.
func (w *watch) left(name string) {
	w.count.Add(-1)
	w.mu.Lock()
	defer w.mu.Unlock()
	if l := w.lists[name]; l != nil && l.first == nil {
		delete(w.lists, name)
	}
}

// wakeMade wakes those who wait for a queue that a tenant has made, or has given other labels.
func (b *Broker) wakeMade(t Tenant, queue string) {
	if b.created.count.Load() == 0 {
		return
	}
	b.created.wake(made(t, ""))
	b.created.wake(made(t, queue))
}

// made is the name under which a tenant's requests wait for a queue; that of "" is for any.
func made(t Tenant, queue string) string { return string(t[:]) + queue }
