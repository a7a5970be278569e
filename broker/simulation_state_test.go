package broker

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/cespare/xxhash/v2"
	"github.com/google/uuid"

	"github.com/skepmq/skep/segment"
)

// simState is all that a broker would tell of itself, at one moment.
type simState struct {
	lines         map[simKey]string // what is neither a message nor a cursor
	parts         map[string]*simPart
	nowMs, wallMs int64 // by the stamps, and by the wall clock
	latestMs      int64 // what nowMs has ever been, before the clock was set back
	setBack       bool  // the clock was: restarts may have moved the ends of leases
}

// simKey names a line of a state. Lines of one unit belong to one decision.
type simKey struct{ unit, what string }

// simPart is a partition, under "queue/partition".
type simPart struct {
	queue, name string
	id          uuid.UUID
	createdMs   int64
	start, end  int64
	messages    []simMessage // from start to end
	cursors     map[string]*simCursor
	options     *QueueOptions // of its queue
}

type simMessage struct {
	id, trace uuid.UUID
	key       string // the transaction id
	explicit  bool   // the key was not minted
	payload   string // as simPayload has it
	createdMs int64
}

// simCursor is a cursor with the place it has, stored or implied.
type simCursor struct {
	committed, consumed, consumedMs, attemptStart int64
	attempt, retries                              uint32
	lease                                         string
	leaseMs                                       int64 // when the lease ends, wall clock
	unplaced                                      bool  // nothing but its offset tells it from none
}

// simPayload stands for a payload in what is printed.
func simPayload(b []byte) string { return fmt.Sprintf("%d:%016x", len(b), xxhash.Sum64(b)) }

// simStateOf reads the state of a broker at rest. It moves nothing, and trusts none of
// what the broker keeps to answer faster.
func simStateOf(b *Broker) (*simState, error) {
	s := &simState{lines: map[simKey]string{}, parts: map[string]*simPart{}, nowMs: b.clock.stamp(), wallMs: b.o.Now().UnixMilli()}
	m := b.Maintenance()
	s.lines[simKey{"switches", ""}] = fmt.Sprint("push ", m.Push, " pop ", m.Pop)
	for _, q := range b.allQueues() {
		if q.isSpool() {
			if err := s.addSpool(b, q); err != nil {
				return nil, err
			}
			continue
		}
		if err := s.addQueue(b, q); err != nil {
			return nil, err
		}
	}
	letters, err := b.DeadLetters(DefaultTenant, DeadLetterFilter{Limit: maxDeadLetterPage})
	for _, l := range letters {
		s.lines[simKey{"partition " + l.Queue + "/" + l.Partition, "letter " + l.ID.String()}] = fmt.Sprint(
			l.TransactionID, " ", l.MessageID, l.Group, l.Error, l.RetryCount, simPayload(l.Payload), l.TraceID, l.CreatedAtMs, l.FailedAtMs)
	}
	return s, err
}

func (s *simState) addQueue(b *Broker, q *queue) error {
	if !q.announced.Load() {
		return nil // nobody was told of it
	}
	options, err := json.Marshal(q.options.Load())
	if err != nil {
		return err
	}
	s.lines[simKey{"queue " + q.name, ""}] = fmt.Sprintf("%s @%s %d", options, q.id, q.createdMs)
	for _, g := range *q.groupList.Load() {
		if sub := g.sub.Load(); g.announced.Load() {
			s.lines[simKey{"group " + q.name + "/" + g.name, ""}] = fmt.Sprintf("%+v created %d", *sub, g.createdMs)
		}
	}
	for _, p := range q.snapshot() {
		if err := s.addPartition(b, p); err != nil {
			return fmt.Errorf("partition %s/%s: %w", q.name, p.name, err)
		}
	}
	return nil
}

func (s *simState) addPartition(b *Broker, p *partition) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.announced || p.goneLocked() {
		return nil
	}
	out := &simPart{
		queue: p.queue.name, name: p.name, id: partitionID(b.directory, p.number), createdMs: p.createdMs,
		start: p.start, end: p.hwm, cursors: map[string]*simCursor{}, options: p.queue.options.Load(),
	}
	name := out.queue + "/" + out.name
	switch {
	case s.parts[name] != nil:
		return fmt.Errorf("is there twice")
	case p.damaged:
		return fmt.Errorf("is damaged")
	case p.hwm != p.end:
		return fmt.Errorf("has messages up to %d, shows %d", p.end, p.hwm)
	}
	s.parts[name] = out
	var err error
	if out.messages, err = simMessages(b, p); err != nil {
		return err
	}
	for _, g := range *p.queue.groupList.Load() {
		if c := out.cursor(b, p, g); c != nil {
			out.cursors[g.name] = c
		}
	}
	bytes := p.filedBytes + p.tailBytesLocked()
	err = b.batches(p.viewLocked(), p.start, func(_ *segment.Header, batch []byte) bool {
		bytes -= int64(len(batch))
		return true
	})
	if err == nil && bytes != 0 {
		err = fmt.Errorf("counts %d bytes too many", bytes)
	}
	return err
}

// simMessages reads all messages of a partition, whose lock is held.
func simMessages(b *Broker, p *partition) (list []simMessage, err error) {
	next := p.start
	walkErr := b.batches(p.viewLocked(), next, func(h *segment.Header, batch []byte) bool {
		var span Span
		if span, err = newSpan(h, batch, next, math.MaxInt32); err != nil {
			return false
		}
		if span.first != next {
			err = fmt.Errorf("offset %d follows %d", span.first, next-1)
			return false
		}
		for m := range span.messages() {
			if n := len(list); n > 0 && m.CreatedAtMs < list[n-1].createdMs {
				err = fmt.Errorf("time goes back at offset %d", m.Offset)
			}
			list = append(list, simMessage{
				id: m.ID, trace: m.TraceID, key: m.transactionID(), explicit: m.TransactionID != nil,
				payload: simPayload(m.Payload), createdMs: m.CreatedAtMs,
			})
		}
		next += int64(span.count)
		return err == nil
	})
	if err = cmp.Or(err, walkErr); err == nil && next != p.end {
		err = fmt.Errorf("ends at offset %d, not %d", next, p.end)
	}
	return list, err
}

// cursor returns what a group's place in a partition is, nil for none.
func (p *simPart) cursor(b *Broker, of *partition, g *group) *simCursor {
	c := of.cursorLocked(g)
	at, implied := g.implied(of.number)
	switch {
	case !g.announced.Load() || c == nil && !implied:
		return nil
	case c == nil:
		return &simCursor{committed: p.seed(at), attemptStart: -1}
	}
	out := &simCursor{
		committed: c.committed, consumed: c.consumed, consumedMs: c.consumedMs,
		attemptStart: c.attemptStart, attempt: c.attempt, retries: c.retries,
		unplaced: !implied && c.attempt == 0 && c.lease == nil && c.consumed == 0,
	}
	if l := c.lease; l != nil {
		out.lease = fmt.Sprintf("%s %d-%d", l.id, l.from, l.end)
		out.leaseMs = b.clock.wallOf(l.deadline)
	}
	return out
}

// seed is the committed offset of a group that begins at a place.
func (p *simPart) seed(at place) int64 {
	if at.mode == modeAll {
		return p.start - 1
	}
	i := slices.IndexFunc(p.messages, func(m simMessage) bool { return m.createdMs >= at.instantMs })
	if i < 0 {
		return p.end - 1
	}
	return p.start + int64(i) - 1
}

func (s *simState) addSpool(b *Broker, q *queue) error {
	p := q.partition(spoolPartition)
	if p == nil {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	first := p.start
	for c := p.cursors; c != nil; c = c.next {
		first = max(first, c.committed+1)
	}
	for o := first; o < p.hwm; o++ {
		m, ok, err := b.messageAt(p.viewLocked(), o, p.hwm)
		if err != nil || !ok {
			return fmt.Errorf("spool at %d: %v, %w", o, ok, err)
		}
		it, err := decodeSpoolItem(m.Payload)
		if err != nil {
			return err
		}
		s.lines[simKey{"spool " + it.id.String(), ""}] = fmt.Sprintf("%d %s/%s %s %s", o, it.queue, it.partition, it.key, simPayload(it.payload))
	}
	return nil
}

// render returns the state as lines. starts are those of a broker that has gone on with
// retention: what it has dropped is left out, if the rules allow it.
func (s *simState) render(later *simState) (map[simKey]string, error) {
	out := maps.Clone(s.lines)
	for name, p := range s.parts {
		start := p.start
		if l := later.parts[name]; l != nil && l.id == p.id && l.start > start {
			if start = l.start; start > p.end {
				return nil, fmt.Errorf("%s starts at %d, and ends at %d", name, l.start, p.end)
			}
			if err := p.mayDrop(start, later.nowMs); err != nil {
				return nil, err
			}
		}
		wallMs := max(s.wallMs, later.wallMs)
		if s.setBack || later.setBack {
			wallMs = math.MaxInt64 // what has ended may seem to go on
		}
		p.renderFrom(start, wallMs, out)
	}
	return out, nil
}

func (p *simPart) renderFrom(start, wallMs int64, out map[simKey]string) {
	unit := "partition " + p.queue + "/" + p.name
	out[simKey{unit, "id"}] = fmt.Sprintf("%s @%d", p.id, p.createdMs)
	out[simKey{unit, "offsets"}] = fmt.Sprint(start, " to ", p.end)
	for i, m := range p.messages[start-p.start:] {
		out[simKey{unit, fmt.Sprintf("message %04d", start+int64(i))}] = m.String()
	}
	for g, c := range p.cursors {
		if c.unplaced && c.committed < start {
			continue // a look at nothing, which nobody writes down
		}
		lease := simNoLease
		if c.attempt > 0 || c.lease != "" {
			held, untilMs := c.lease, c.leaseMs
			if start == p.end && untilMs <= wallMs {
				held, untilMs = "", 0 // the next pop ends it, and does not wait for the record
			}
			lease = fmt.Sprintf("attempt %d from %d, lease %s", c.attempt, c.attemptStart, held)
			if wallMs < math.MaxInt64 {
				lease += fmt.Sprintf(" until %d", untilMs)
			}
		}
		out[simKey{unit, "cursor " + g}] = fmt.Sprintf("committed %d, consumed %d at %d, retries %d, %s",
			max(c.committed, start-1), c.consumed, c.consumedMs, c.retries, lease)
	}
}

// simNoLease ends the line of a cursor that has nothing handed out.
const simNoLease = "no attempt"

func (m *simMessage) String() string {
	return fmt.Sprintf("%s %s %s %s @%d", m.id, m.key, m.payload, m.trace, m.createdMs)
}

// mayDrop says why a rule cannot have moved the start of a partition to an offset by now.
func (p *simPart) mayDrop(start, nowMs int64) error {
	w := p.options.windows()
	age, _ := w.age()
	slowest := int64(-1)
	for _, c := range p.cursors {
		if slowest < 0 || c.committed < slowest {
			slowest = c.committed
		}
	}
	for o := p.start; o < start; o++ {
		old := nowMs - p.messages[o-p.start].createdMs
		if (age == 0 || old <= age) && (w.completed == 0 || old <= w.completed || o > slowest) {
			return fmt.Errorf("%s/%s offset %d is gone, %d ms old, the slowest group at %d", p.queue, p.name, o, old, slowest)
		}
	}
	return nil
}

// simDiff returns the lines in which two rendered states differ, sorted.
func simDiff(got, want map[simKey]string) (diff []simKey) {
	for k, v := range got {
		if w, ok := want[k]; !ok || w != v {
			diff = append(diff, k)
		}
	}
	for k := range want {
		if _, ok := got[k]; !ok {
			diff = append(diff, k)
		}
	}
	slices.SortFunc(diff, func(a, b simKey) int {
		return cmp.Or(strings.Compare(a.unit, b.unit), strings.Compare(a.what, b.what))
	})
	return diff
}

// explain says in words how two rendered states differ.
func simExplain(got, want map[simKey]string) string {
	var text strings.Builder
	for i, k := range simDiff(got, want) {
		if i == 6 {
			text.WriteString("\n      …")
			break
		}
		fmt.Fprintf(&text, "\n      %s %s\n        got  %s\n        want %s", k.unit, k.what, cmp.Or(got[k], "nothing"), cmp.Or(want[k], "nothing"))
	}
	return text.String()
}
