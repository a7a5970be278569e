package broker

import "math"

// MessageStatus says how far the groups have come with a message.
type MessageStatus string

// The statuses of a message.
const (
	StatusPending    MessageStatus = "pending"
	StatusProcessing MessageStatus = "processing"
	StatusCompleted  MessageStatus = "completed"
	StatusDeadLetter MessageStatus = "dead_letter"
)

// standing is where the groups of a queue stand in one partition, at one moment.
type standing struct {
	queueMode bool            // groups[0] is that of the queue mode
	groups    []groupStanding // those that have a place in the partition
}

// groupStanding is one group's place. What it has done is a prefix of the partition: up to
// the cursor, or where no cursor is stored, what was appended before the instant from
// which the group starts.
type groupStanding struct {
	name      string
	committed int64
	beforeMs  int64
	leaseFrom int64 // of the live lease, inclusive
	leaseEnd  int64 // inclusive; below leaseFrom: there is none
	expiryMs  int64 // of the lease, wall clock
}

// noBound is the beforeMs of a stored cursor.
const noBound = math.MinInt64

// standingLocked looks at every group that has a place in p.
func (b *Broker) standingLocked(p *partition) standing {
	var s standing
	for _, g := range *p.queue.groupList.Load() {
		gs, ok := b.groupStandingLocked(p, g)
		switch {
		case !ok:
		case g.name == QueueMode:
			s.queueMode = true
			s.groups = append([]groupStanding{gs}, s.groups...)
		default:
			s.groups = append(s.groups, gs)
		}
	}
	return s
}

func (b *Broker) groupStandingLocked(p *partition, g *group) (groupStanding, bool) {
	gs := groupStanding{name: g.name, committed: -1, beforeMs: noBound, leaseEnd: -1}
	c := p.cursorLocked(g)
	if c == nil {
		at, ok := g.sub.Load().start(p.number)
		if at.mode != modeAll {
			gs.beforeMs = at.instantMs
		}
		return gs, ok
	}
	gs.committed = c.committed
	if c.live(b.clock.mono()) {
		gs.leaseFrom, gs.leaseEnd = max(c.lease.from, c.committed+1), c.lease.end
		gs.expiryMs = b.clock.wallOf(c.lease.deadline)
	}
	return gs, true
}

func (g *groupStanding) done(offset, appendedMs int64) bool {
	return offset <= g.committed || appendedMs < g.beforeMs
}

func (g *groupStanding) leased(offset int64) bool {
	return g.leaseFrom <= offset && offset <= g.leaseEnd
}

// named returns the groups but for that of the queue mode.
func (s *standing) named() []groupStanding {
	if s.queueMode {
		return s.groups[1:]
	}
	return s.groups
}

// deciding returns the groups that decide the status of a message: that of the queue mode,
// and where it has no place, all of them together.
func (s *standing) deciding() []groupStanding {
	if s.queueMode {
		return s.groups[:1]
	}
	return s.groups
}

// queueStatus is what became of a message in the queue mode.
func (s *standing) queueStatus(offset, appendedMs int64, dead bool) MessageStatus {
	switch {
	case dead:
		return StatusDeadLetter
	case !s.queueMode:
		return StatusPending
	case s.groups[0].done(offset, appendedMs):
		return StatusCompleted
	case s.groups[0].leased(offset):
		return StatusProcessing
	}
	return StatusPending
}

// status is queueStatus, but where only named groups have a place it says whether all of
// them are done.
func (s *standing) status(offset, appendedMs int64, dead bool) MessageStatus {
	if s.queueMode || len(s.groups) == 0 {
		return s.queueStatus(offset, appendedMs, dead)
	}
	if s.doneBy(offset, appendedMs) == len(s.groups) {
		return StatusCompleted
	}
	return StatusPending
}

// doneBy returns how many of the named groups are done with a message.
func (s *standing) doneBy(offset, appendedMs int64) (n int) {
	for i := range s.named() {
		if s.named()[i].done(offset, appendedMs) {
			n++
		}
	}
	return n
}

// leaseMs returns when the lease that covers a message ends, that of the queue mode
// first; 0: none does.
func (s *standing) leaseMs(offset int64) int64 {
	for i := range s.groups {
		if s.groups[i].leased(offset) {
			return s.groups[i].expiryMs
		}
	}
	return 0
}

// Consumption says who consumes: the queue mode, named groups, both, or nobody.
type Consumption struct {
	QueueMode bool
	Groups    int // named ones
}

func (s *standing) consumption() Consumption {
	return Consumption{s.queueMode, len(s.named())}
}

// scope is the part of a partition in which messages can have a status, told from its
// groups alone. What is done is the prefix below both doneTo and doneMs.
type scope struct {
	doneTo    int64
	doneMs    int64
	leaseFrom int64
	leaseEnd  int64
}

func (s *standing) scope() scope {
	sc := scope{doneTo: math.MaxInt64, doneMs: math.MaxInt64, leaseEnd: -1}
	deciding := s.deciding()
	if len(deciding) == 0 {
		sc.doneTo = 0
	}
	for i := range deciding {
		if g := &deciding[i]; g.beforeMs == noBound {
			sc.doneTo = min(sc.doneTo, g.committed+1)
		} else {
			sc.doneMs = min(sc.doneMs, g.beforeMs)
		}
	}
	if s.queueMode {
		sc.leaseFrom, sc.leaseEnd = s.groups[0].leaseFrom, s.groups[0].leaseEnd
	}
	return sc
}

func (sc *scope) done(offset, appendedMs int64) bool {
	return offset < sc.doneTo && appendedMs < sc.doneMs
}

func (sc *scope) leased(offset int64) bool {
	return sc.leaseFrom <= offset && offset <= sc.leaseEnd
}

// has reports whether a message has the status, dead letters apart.
func (sc *scope) has(want MessageStatus, offset, appendedMs int64) bool {
	switch want {
	case StatusCompleted:
		return sc.done(offset, appendedMs)
	case StatusProcessing:
		return !sc.done(offset, appendedMs) && sc.leased(offset)
	case StatusPending:
		return !sc.done(offset, appendedMs) && !sc.leased(offset)
	}
	return true
}

// narrow cuts a range of offsets, and the time up to which messages count, to where the
// status is possible.
func (sc *scope) narrow(want MessageStatus, from, to, untilMs int64) (int64, int64, int64) {
	switch want {
	case StatusCompleted:
		return from, min(to, sc.doneTo), min(untilMs, sc.doneMs)
	case StatusProcessing:
		return max(from, sc.leaseFrom), min(to, sc.leaseEnd+1), untilMs
	case StatusPending:
		if sc.doneMs == math.MaxInt64 {
			from = max(from, sc.doneTo)
		}
	}
	return from, to, untilMs
}
