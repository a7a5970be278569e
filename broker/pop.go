package broker

import (
	"errors"
	"math"
	"slices"
	"time"

	"github.com/rs/zerolog"

	"github.com/skepmq/skep/log/journal"
)

// Pop leases messages for a consumer group, or takes them with AutoAck. With nothing to
// deliver it waits up to req.Wait; an empty result is no error. What it returns under
// AutoAck, and the place where a new group starts, are on disk.
//
// Errors: ErrNoLabel, ErrTooManyParked, ErrNoRoom, ErrMemoryHigh, ErrStorageFailed, ErrPartitionDamaged of a
// pinned pop, and errors of the disk.
func (b *Broker) Pop(req *PopRequest) (*PopResult, error) {
	if req.Discovery && req.Namespace == "" && req.Task == "" {
		return nil, ErrNoLabel
	}
	p := &popper{b: b, req: req, name: req.Group, gate: b.maintenance.pops.Load(), waits: req.Wait}
	if p.name == "" {
		p.name = QueueMode
	}
	if !p.alive() {
		return p.empty(), nil // it has hung up while its request was on the way
	}
	res, err := p.run()
	if err == nil {
		p.count(res)
	}
	return res, err
}

// run answers the pop, after a wait if there is nothing yet.
func (p *popper) run() (*PopResult, error) {
	b := p.b
	if p.gate.closed {
		if open, err := p.awaitOpening(); !open {
			return p.paused(), err
		}
	}
	res, err := p.try()
	if err != nil || len(res.Parts) > 0 || p.waits <= 0 {
		return res, err
	}
	w := newWaiter()
	if !b.parking.enter(w, p.req, b.o.MaxParked) {
		if p.hold > 0 {
			p.impatient = true
			return p.try() // no room to wait for more
		}
		return nil, ErrTooManyParked
	}
	defer b.parking.leave(w)
	defer p.park()()
	return p.wait(w)
}

// Parked returns the number of pops that wait.
func (b *Broker) Parked() int { return b.parking.count() }

// popper is one Pop in progress.
type popper struct {
	b    *Broker
	req  *PopRequest
	name string // of the group
	// gate was open when the pop began, and waits is how long it then waits.
	gate  *popGate
	waits time.Duration

	// Where the latest try looked, and so where to wait.
	groups []*group   // of the queue, or of every queue with the labels
	queue  *queue     // of a pinned or queue pop; nil: it does not exist
	pin    *partition // of a pinned pop; nil: it does not exist
	ticket journal.Ticket
	moved  bool
	autos  []*claim // whose commits are on their way to disk
	place  *claim   // of a pinned pop, whose cursor is
	known  bool     // what registrations its groups have is older than ticket
	full   bool     // the answer has no room for the next message
	room   int64    // bytes the answer may still take without asking
	asked  bool     // for more
	// conflated counts the messages of conflating groups, which are bounded by themselves:
	// a discovery pop may have others before them.
	conflated int

	// Of a pop that may be held, see holdFor.
	patient   bool
	hold      time.Duration // what the latest try said; 0: it took what there was
	heldUntil int64         // end of the first hold, by clock.stamp; 0: never held
	impatient bool          // from now on it takes what there is
	over      bool          // its time is: the next try is the last
	counted   bool          // among those that were held
}

// empty is the answer of a pop that delivers nothing.
func (p *popper) empty() *PopResult {
	res := &PopResult{Group: p.name}
	p.sayConflation(res)
	return res
}

// try makes one attempt.
func (p *popper) try() (*PopResult, error) {
	res := &PopResult{Group: p.name}
	if !p.req.AutoAck {
		res.LeaseID = p.b.newID(p.b.clock.wallMs()) // its length is told by it, see cursor.restore
	}
	p.moved, p.autos, p.place, p.full, p.conflated = false, nil, nil, false, 0
	p.clearRoom()
	err := p.look(res)
	for errors.Is(err, errGroupGone) && len(res.Parts) == 0 {
		err = p.look(res)
	}
	if errors.Is(err, errGroupGone) {
		err = nil // what was taken before was the old group's, and so is its lease
	}
	if waitErr := p.settle(); waitErr != nil {
		return nil, p.b.storageError(waitErr)
	}
	p.sayConflation(res)
	if len(res.Parts) == 0 {
		p.clearRoom() // what it has read is handed out to nobody, and it may wait for long
	}
	if err != nil && len(res.Parts) > 0 {
		p.b.outlived(zerolog.WarnLevel, err).Msg("pop delivered less than it could")
		err = nil
	}
	return res, err
}

// look claims what the request asks for.
func (p *popper) look(res *PopResult) error {
	p.groups, p.queue, p.pin = nil, nil, nil
	p.patient, p.hold, p.known = false, 0, !p.req.Pinned
	if err := p.b.mayMake(p.knowsGroup); err != nil {
		return err
	}
	switch {
	case p.req.Discovery:
		return p.discover(res)
	case p.req.Pinned:
		return p.popPinned(res)
	}
	g, err := p.subscribe(p.ensureQueue())
	if err != nil {
		return err
	}
	p.groups = append(p.groups, g)
	if p.hold = p.holdFor(g); p.hold > 0 {
		return nil
	}
	return p.popGroup(res, g)
}

// settle waits until what the attempt decided is on disk, where that was promised.
func (p *popper) settle() error {
	if !p.moved {
		return p.b.journal.Err()
	}
	err := p.ticket.Wait()
	for _, cl := range p.autos {
		p.b.settle(cl.p, cl.c)
	}
	if err != nil {
		return err
	}
	if p.known {
		for _, g := range p.groups {
			g.durable.Store(true)
		}
	}
	if cl := p.place; cl != nil {
		cl.p.mu.Lock()
		cl.c.stored = true
		cl.p.mu.Unlock()
	}
	return nil
}

func (p *popper) ensureQueue() *queue {
	q, created := p.b.ensureQueue(p.req.Tenant, p.req.Queue, DefaultOptions)
	if created {
		p.b.wakeMade(p.req.Tenant, q.name)
	}
	p.queue = q
	return q
}

// subscribe returns the group, registered if it is a named one.
func (p *popper) subscribe(q *queue) (*group, error) {
	g := p.group(q)
	if p.name == QueueMode {
		if !q.announced.Load() {
			p.note(p.b.announceQueue(q))
		}
		return g, nil
	}
	if !g.sub.Load().settled() || !g.durable.Load() {
		p.note(p.b.register(g, p.req.SubscriptionMode, p.req.SubscriptionFrom, p.req.Conflation))
		if g.deleted.Load() {
			return nil, errGroupGone // perhaps it is not registered
		}
	}
	return g, nil
}

// group returns the group of the request in q. What it delivers must not rest on a seek
// that a power cut could undo.
func (p *popper) group(q *queue) *group {
	g := p.b.ensureGroup(q, p.name)
	if g.placing.Load() {
		p.note(p.b.journal.Join())
	}
	return g
}

func (p *popper) note(t journal.Ticket) { p.ticket, p.moved = t, true }

// discover pops from every queue with the labels, beginning with another one each time.
func (p *popper) discover(res *PopResult) error {
	queues := p.b.labelled(p.req.Tenant, p.req.Namespace, p.req.Task)
	if len(queues) == 0 {
		return nil
	}
	for _, q := range queues {
		g, err := p.subscribe(q)
		if err != nil {
			return err
		}
		p.groups = append(p.groups, g)
	}
	first := int(p.b.discovery.Add(1)) % len(p.groups)
	for i := range p.groups {
		if err := p.popGroup(res, p.groups[(first+i)%len(p.groups)]); err != nil {
			return err
		}
	}
	return nil
}

// popGroup claims partitions of one queue until a limit is reached or none is left.
func (p *popper) popGroup(res *PopResult, g *group) error {
	q := g.queue
	for {
		sub := *g.sub.Load()
		batch, bytes := p.left(res, sub.conflation)
		if batch <= 0 || bytes <= 0 || p.full || p.claimedAll(res, sub.conflation) {
			return nil
		}
		index, ok := g.ready.take(q.count.Load())
		if !ok {
			return nil
		}
		if err := p.claim(res, q.partitionAt(index), g, sub, batch, bytes); err != nil {
			return err
		}
	}
}

// left returns the messages and payload bytes that the call may still take.
func (p *popper) left(res *PopResult, conflating bool) (batch int, bytes int64) {
	batch, bytes = max(p.req.Batch, 1), p.b.o.MaxAnswerBytes
	for i := range res.Parts {
		for j := range res.Parts[i].Spans {
			batch -= res.Parts[i].Spans[j].count
			bytes -= res.Parts[i].Spans[j].bytes
		}
	}
	if conflating {
		batch = min(batch, maxConflated-p.conflated)
	}
	return batch, bytes
}

func (p *popper) claim(res *PopResult, at *partition, g *group, sub subscription, batch int, bytes int64) error {
	seconds := int64(p.req.LeaseSeconds)
	if seconds <= 0 {
		if seconds = at.queue.options.Load().LeaseTime; seconds <= 0 {
			seconds = defaultLeaseSeconds
		}
	}
	cl := &claim{
		p: at, g: g, sub: sub, leases: res.LeaseID, auto: p.req.AutoAck, pinned: p.req.Pinned,
		lease: min(seconds, maxLeaseSeconds), batch: batch, budget: bytes, first: len(res.Parts) == 0,
		pop: p,
	}
	if sub.conflation {
		cl.batch = 1
	}
	cl.overhead = messageOverhead + int64(len(at.name)+len(p.name))
	part, err := cl.run(p.b)
	if cl.moved {
		p.note(cl.ticket)
		if cl.pinned {
			p.place = cl
		}
	}
	p.full = cl.full
	if err != nil || len(part.Spans) == 0 {
		return err
	}
	if cl.auto {
		p.autos = append(p.autos, cl)
	}
	res.Parts = append(res.Parts, part)
	if sub.conflation {
		res.Conflation = true
		p.conflated++
	}
	return nil
}

const (
	defaultLeaseSeconds = 60
	// messageOverhead is about what the ids, times and key names of one message take in
	// an answer.
	messageOverhead = 400
	// maxLeaseSeconds keeps deadlines within what a timestamp can say: a hundred years.
	maxLeaseSeconds = 100 * 365 * 24 * 3600
)

// popPinned claims one partition. It creates nothing but the cursor.
func (p *popper) popPinned(res *PopResult) error {
	q := p.b.queue(p.req.Tenant, p.req.Queue)
	if q == nil {
		return nil
	}
	p.queue = q
	at := q.partition(p.req.Partition)
	if at == nil {
		return nil
	}
	p.pin = at
	g := p.group(q)
	p.groups = append(p.groups, g)
	sub := *g.sub.Load()
	if sub.dormant() {
		sub.placedBelow = 0 // by the stored subscription
	}
	if p.known = sub.settled(); p.known && !g.durable.Load() {
		p.note(p.b.journal.Join())
	}
	if !sub.registered && p.name != QueueMode {
		sub.place = p.b.placeOf(p.req.SubscriptionMode, p.req.SubscriptionFrom)
		if sub.mode == modeNew {
			sub.instantMs = math.MaxInt64 // after every message there is
		}
	}
	batch, bytes := p.left(res, sub.conflation)
	return p.claim(res, at, g, sub, batch, bytes)
}

// wait parks the request until there is something for it.
func (p *popper) wait(w *waiter) (*PopResult, error) {
	timer := time.NewTimer(p.waits)
	defer timer.Stop()
	defer p.leave(w)
	for !p.gate.shut() {
		// It stands in the lists before it looks again, so nothing slips between.
		forget := p.enlist(w)
		queue, pin, groups, held := p.queue, p.pin, p.groups, p.hold > 0
		res, err := p.try()
		if err != nil || len(res.Parts) > 0 {
			forget()
			return res, err
		}
		if p.queue != queue && queue != nil {
			forget()
			return res, nil // deleted, and perhaps made anew
		}
		if p.queue != queue || p.pin != pin || !slices.Equal(p.groups, groups) || (p.hold > 0) != held {
			forget()
			if !slices.Equal(p.groups, groups) {
				passOn(groups) // it may have been woken for one that it waits for no more
			}
			continue // something has come into being: wait in the right place
		}
		woken := p.sleep(w, timer.C)
		forget()
		if !woken || (queue != nil && queue.deleted.Load()) {
			if p.gate.shut() {
				break
			}
			return res, nil
		}
	}
	return p.paused(), nil
}

func (p *popper) alive() bool { return p.req.Alive == nil || p.req.Alive() }

// sleep returns true when the request is to look again and its client is still there.
func (p *popper) sleep(w *waiter, timeout <-chan time.Time) bool {
	if p.over {
		return false
	}
	var enough <-chan time.Time
	if p.hold > 0 {
		timer := time.NewTimer(p.hold)
		defer timer.Stop()
		enough = timer.C
		defer p.countHold()()
	}
	select {
	case <-w.C:
		return p.alive()
	case <-enough:
		return p.alive()
	case <-timeout:
		// What it was held over it takes now.
		p.impatient, p.over = true, true
		return p.hold > 0 && p.alive()
	case <-p.gate.changedC:
		return false
	case <-p.b.stopC:
		return false
	}
}

// enlist puts w into the lists of what the latest try lacked.
func (p *popper) enlist(w *waiter) (forget func()) {
	w.leave()
	switch {
	case p.req.Discovery:
		name := made(p.req.Tenant, "")
		p.b.created.add(name, w)
		for _, g := range p.groups {
			g.ready.wait(w)
		}
		return func() { w.leave(); p.b.created.left(name) }
	case p.req.Pinned && p.queue == nil:
		name := made(p.req.Tenant, p.req.Queue)
		p.b.created.add(name, w)
		return func() { w.leave(); p.b.created.left(name) }
	case p.req.Pinned && p.pin == nil:
		q, name := p.queue, p.req.Partition
		q.awaited.add(name, w)
		return func() { w.leave(); q.awaited.left(name) }
	case p.req.Pinned:
		r, index := &p.groups[0].ready, p.pin.index
		r.waitPinned(w, index)
		return func() { w.leave(); r.leftPinned(index) }
	case p.patient:
		r := &p.groups[0].ready
		r.waitPatiently(w, p.hold > 0)
		return func() { w.leave(); r.letGo(w) }
	default:
		p.groups[0].ready.wait(w)
		return w.leave
	}
}

// leave takes w out of all lists and hands on a wake-up that it did not use.
func (p *popper) leave(w *waiter) {
	w.leave()
	if p.pin != nil {
		p.groups[0].ready.offer(p.pin.index)
		return
	}
	passOn(p.groups)
}

// passOn hands on a wake-up that one of the groups has given, if it has work left.
func passOn(groups []*group) {
	for _, g := range groups {
		g.ready.passOn(g.queue.count.Load())
	}
}

// storageError translates what the journal says.
func (b *Broker) storageError(err error) error {
	if errors.Is(err, journal.ErrClosed) {
		return ErrClosed
	}
	if errors.Is(err, ErrStorageFull) {
		return err
	}
	return errors.Join(ErrStorageFailed, err)
}
