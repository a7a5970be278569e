package broker

import (
	"cmp"
	"container/heap"
	"slices"

	"github.com/skepmq/skep/segment"
)

// lane is a partition that is walked backwards. Until it is opened only key is set.
type lane struct {
	p *partition
	// key is the time of its next message, or not below it: the lane whose key is the
	// largest has the next message of the page, or is to be walked on.
	key int64

	opened    bool
	view      view
	scope     scope
	deadAware bool // a dead letter changes the status of its message
	from      int64
	before    int64 // what is left to walk, from from up to here
	untilMs   int64 // exclusive
	next      []stretch
}

// stretch is messages of one batch, from up to end.
type stretch struct {
	from, end  int64
	appendedMs int64
}

// laneAhead is how many batches of a lane are looked at in one go. Small, since a page may
// take one message from each of very many lanes; more than one, since finding the place in
// an extent again costs a walk through it.
const laneAhead = 16

// laneHeap has the lane with the newest message first.
type laneHeap []*lane

func (h laneHeap) Len() int           { return len(h) }
func (h laneHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h laneHeap) Less(i, j int) bool { return compareLanes(h[i], h[j]) < 0 }
func (h *laneHeap) Push(x any)        { *h = append(*h, x.(*lane)) }

func (h *laneHeap) Pop() any {
	last := len(*h) - 1
	l := (*h)[last]
	*h = (*h)[:last]
	return l
}

func compareLanes(x, y *lane) int {
	return cmp.Or(cmp.Compare(y.key, x.key), cmp.Compare(x.p.number, y.p.number))
}

// collectLanes looks at every partition, in memory, and keeps those that may have
// something, up to browseLanes.
func (br *browse) collectLanes() {
	br.partitions(func(p *partition) {
		if key, ok := br.candidate(p); ok {
			br.lanes = append(br.lanes, &lane{p: p, key: key})
		}
		if len(br.lanes) >= 2*browseLanes {
			br.cutLanes()
		}
	})
	br.cutLanes()
	heap.Init(&br.lanes)
}

// cutLanes forgets the lanes with the oldest keys if there are too many.
func (br *browse) cutLanes() {
	if len(br.lanes) <= browseLanes {
		return
	}
	slices.SortFunc(br.lanes, compareLanes)
	clear(br.lanes[browseLanes:])
	br.lanes = br.lanes[:browseLanes]
	br.cut = true
}

// candidate returns a time that no matching message of p is newer than. ok is false if it
// has none.
func (br *browse) candidate(p *partition) (key int64, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.hwm <= p.start || p.lastMs < br.fromMs || p.startMs >= br.toMs || p.goneLocked() {
		return 0, false
	}
	until := br.toMs
	if br.f.Status != "" {
		s := br.b.standingLocked(p)
		sc := s.scope()
		var from, to int64
		from, to, until = sc.narrow(br.f.Status, p.start, p.hwm, until)
		if from >= to || until <= max(br.fromMs, p.startMs) {
			return 0, false
		}
	}
	return min(p.lastMs, until-1), true
}

// selectFromLanes takes messages until the page is full.
func (br *browse) selectFromLanes() error {
	for len(br.lanes) > 0 && len(br.found) < br.limit {
		l := br.lanes[0]
		var err error
		switch {
		case len(l.next) > 0:
			err = br.takeStretch(l)
		case br.spent():
			br.cut = true
			return nil
		default:
			err = br.advance(l)
		}
		if err != nil {
			return err
		}
		if l.ended() {
			heap.Pop(&br.lanes)
			continue
		}
		if len(l.next) > 0 {
			l.key = l.next[0].appendedMs
		}
		heap.Fix(&br.lanes, 0)
	}
	return nil
}

// spent reports that the call has done as much as it may.
func (br *browse) spent() bool { return br.steps <= 0 || br.bytes <= 0 }

// ended reports that nothing is left of a lane that was opened.
func (l *lane) ended() bool { return len(l.next) == 0 && l.from >= l.before }

// advance looks at the next batches of a lane. A lane that is damaged ends.
func (br *browse) advance(l *lane) error {
	err := br.walk(l)
	if err == nil {
		return nil
	}
	br.cut = true
	l.next, l.before = nil, l.from
	return br.b.passDamage(l.p, err)
}

func (br *browse) walk(l *lane) error {
	if !l.opened {
		if err := br.open(l); err != nil {
			return err
		}
	}
	if l.from >= l.before {
		return nil
	}
	l.next = l.next[:0]
	stopped := false // by us; otherwise there is nothing further back
	err := br.b.batchesBackward(l.view, l.before, func(h *segment.Header, batch []byte) bool {
		br.steps--
		br.bytes -= int64(len(batch))
		stopped = !l.add(br, h) || br.spent()
		return !stopped
	})
	if !stopped {
		l.before = l.from
	}
	return err
}

// add takes what counts of a batch and reports whether to go on with the one before it.
func (l *lane) add(br *browse, h *segment.Header) bool {
	s := stretch{max(h.BaseOffset, l.from), min(h.EndOffset(), l.before), h.TimestampMs}
	if s.end <= l.from || s.appendedMs < br.fromMs ||
		br.f.Status == StatusPending && l.scope.done(s.end-1, s.appendedMs) {
		l.before = l.from // the rest is out of range too
		return false
	}
	l.before = s.from
	if s.appendedMs < l.untilMs {
		l.next = append(l.next, s)
	}
	return len(l.next) < laneAhead
}

// open takes the lane's view, and finds where to begin.
func (br *browse) open(l *lane) error {
	l.opened = true
	br.steps -= browseOpening
	p := l.p
	p.mu.Lock()
	damaged := p.damaged
	l.view = p.viewLocked()
	s := br.b.standingLocked(p)
	lastMs := p.lastMs
	p.mu.Unlock()
	if damaged {
		br.cut = true
		return nil
	}
	l.scope = s.scope()
	l.deadAware = br.f.Status != "" && (s.queueMode || len(s.groups) == 0) && p.queue.dead.of(p.number)
	// What was appended since the lanes were ordered waits for the next call.
	l.from, l.before, l.untilMs = l.scope.narrow(br.f.Status, l.view.start, l.view.hwm, l.key+1)
	if l.untilMs <= lastMs && l.from < l.before {
		last, err := br.b.offsetAt(l.view, l.view.hwm, l.untilMs)
		if err != nil {
			return err
		}
		l.before = min(l.before, last+1)
	}
	return nil
}

// takeStretch moves the first stretch of a lane to the page, or passes over it.
func (br *browse) takeStretch(l *lane) error {
	s := l.next[0]
	l.next = l.next[1:]
	if br.f.Status == "" {
		passed := min(int64(br.skip), s.end-s.from)
		br.skip -= int(passed)
		s.end -= passed
	}
	f := finder{b: br.b, v: l.view, limit: l.view.hwm}
	defer func() { br.bytes -= f.loaded }()
	for offset := s.end - 1; offset >= s.from && len(br.found) < br.limit; offset-- {
		if !l.scope.has(br.f.Status, offset, s.appendedMs) {
			continue
		}
		if l.deadAware {
			dead, err := br.dead(l, &f, offset)
			if err != nil {
				return err
			}
			if dead {
				continue
			}
		}
		br.take(located{l.p, offset, s.appendedMs})
	}
	return nil
}

// take adds a message to the page, or counts it as passed over.
func (br *browse) take(at located) {
	if br.skip > 0 {
		br.skip--
		return
	}
	br.found = append(br.found, at)
}

// dead reports whether the message at offset has a dead letter.
func (br *browse) dead(l *lane, f *finder, offset int64) (bool, error) {
	m, ok, err := f.at(offset)
	if err != nil {
		return false, br.b.passDamage(l.p, err)
	}
	return ok && l.p.queue.dead.ofMessage(l.p.number, &m) != nil, nil
}
