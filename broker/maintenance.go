package broker

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/skepmq/skep/log/journal"
	"github.com/skepmq/skep/log/record"
)

// maintenance is the two switches of an operator, and who has to know of them.
type maintenance struct {
	push atomic.Bool             // pushes are to be spooled
	pops atomic.Pointer[popGate] // never nil
	// diverting says that pushes go to the spool: push maintenance is on, or what was
	// spooled under it is not drained yet. A push looks here first, without the lock.
	diverting atomic.Bool
	buffered  atomic.Int64 // messages spooled and not drained; see Broker.buffered
	stalled   atomic.Bool  // the drain cannot go on, for a reason of the spool's own

	drainC chan struct{} // capacity 1: there may be something to drain

	// mu makes switching one step: a push holds it for reading while it appends to the
	// spool; a switch, and the end of a drain, hold it for writing.
	mu sync.RWMutex
}

// popGate is passed by every pop. It is replaced when the switch is turned.
type popGate struct {
	closed   bool
	changedC chan struct{} // closed when another gate has taken its place
}

func newPopGate(closed bool) *popGate {
	return &popGate{closed: closed, changedC: make(chan struct{})}
}

// shut reports whether the gate is closed, or was open and has been replaced.
func (g *popGate) shut() bool {
	select {
	case <-g.changedC:
		return true
	default:
		return g.closed
	}
}

func (m *maintenance) init() {
	m.pops.Store(newPopGate(false))
	m.drainC = make(chan struct{}, 1)
}

// set restores recorded switches.
func (m *maintenance) set(s record.Switches) {
	m.push.Store(s.PushMaintenance)
	m.pops.Store(newPopGate(s.PopMaintenance))
}

func (m *maintenance) switches() record.Switches {
	return record.Switches{PushMaintenance: m.push.Load(), PopMaintenance: m.pops.Load().closed}
}

// pokeDrain makes the drain look at the spool.
func (m *maintenance) pokeDrain() {
	select {
	case m.drainC <- struct{}{}:
	default:
	}
}

// Maintenance is the state of the switches and of the spool.
type Maintenance struct {
	Push     bool  // pushes are spooled
	Pop      bool  // pops are answered empty
	Buffered int64 // messages in the spool
	Healthy  bool  // the spool can be written, and drained when the time comes
}

// Maintenance returns the state, from memory.
func (b *Broker) Maintenance() Maintenance {
	m := &b.maintenance
	return Maintenance{
		Push: m.push.Load(), Pop: m.pops.Load().closed, Buffered: b.buffered(),
		Healthy: !m.stalled.Load() && b.journal.Err() == nil,
	}
}

// SetPushMaintenance turns push maintenance on or off and returns when that is on disk.
// While it is on, pushes are spooled: see Push. Turning it off has the spool drained, in
// the background; pushes are spooled until it is empty. Errors: ErrStorageFailed,
// ErrClosed.
func (b *Broker) SetPushMaintenance(on bool) error {
	if err := b.setPushMaintenance(on).Wait(); err != nil {
		return b.storageError(err)
	}
	b.maintenance.pokeDrain()
	return nil
}

func (b *Broker) setPushMaintenance(on bool) journal.Ticket {
	m := &b.maintenance
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.push.Load() == on {
		return b.journal.Join()
	}
	m.push.Store(on)
	m.diverting.Store(on || b.spoolExists())
	return b.recordSwitchesLocked()
}

// SetPopMaintenance turns pop maintenance on or off and returns when that is on disk.
// While it is on, pops are answered empty, and touch nothing; those that wait when it is
// turned on are answered at once. Errors: ErrStorageFailed, ErrClosed.
func (b *Broker) SetPopMaintenance(on bool) error {
	if err := b.setPopMaintenance(on).Wait(); err != nil {
		return b.storageError(err)
	}
	return nil
}

func (b *Broker) setPopMaintenance(on bool) journal.Ticket {
	m := &b.maintenance
	m.mu.Lock()
	defer m.mu.Unlock()
	gate := m.pops.Load()
	if gate.closed == on {
		return b.journal.Join()
	}
	m.pops.Store(newPopGate(on))
	close(gate.changedC)
	return b.recordSwitchesLocked()
}

// recordSwitchesLocked writes both switches down. They are in force before they are on
// disk: a crash in between leaves them as they were, and either way nothing is lost that
// was answered, since the spool does not depend on them.
func (b *Broker) recordSwitchesLocked() journal.Ticket {
	s := b.maintenance.switches()
	frame := record.AppendSwitches(nil, &s)
	b.changed.record(frame)
	_, ticket := b.journal.Append(frame, false)
	b.log.Info().Bool("push", s.PushMaintenance).Bool("pop", s.PopMaintenance).Msg("maintenance switched")
	return ticket
}

// maxClosedWait bounds how long a pop that is willing to wait is kept from asking again.
const maxClosedWait = time.Second

// paused is what a pop gets that finds the gate closed. What the policy of its group is
// nobody looks up, but who asks for conflation hears that it is known.
func (p *popper) paused() *PopResult {
	return &PopResult{Group: p.name, Paused: true, Conflation: p.req.Conflation}
}

// awaitOpening lets a pop that found the gate closed wait for its opening, a second at
// the most, so that clients do not ask in a tight loop.
func (p *popper) awaitOpening() (open bool, err error) {
	if p.waits <= 0 {
		return false, nil
	}
	w := newWaiter()
	if !p.b.parking.enter(w, p.req, p.b.o.MaxParked) {
		return false, ErrTooManyParked
	}
	defer p.b.parking.leave(w)
	began := time.Now()
	timer := time.NewTimer(min(p.waits, maxClosedWait))
	defer timer.Stop()
	for p.gate.closed {
		select {
		case <-p.gate.changedC:
			p.gate = p.b.maintenance.pops.Load()
		case <-timer.C:
			return false, nil
		case <-p.b.stopC:
			return false, nil
		}
	}
	p.waits -= time.Since(began)
	return p.alive(), nil
}
