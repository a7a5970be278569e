package model

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
)

// Pop is the request of a pop on any of the three routes.
type Pop struct {
	Queue      string
	Partition  string
	Pinned     bool
	Discovery  bool
	Namespace  string
	Task       string
	Group      string // "" means QueueMode
	Batch      int
	Partitions int
	// PartitionsAbsent says that the request does not name partitions.
	PartitionsAbsent bool
	AutoAck          bool
	LeaseSeconds     int
	Mode             string // subscriptionMode
	From             string // subscriptionFrom
	FromMs           int64  // the instant that From spells, if it does
	FromOK           bool
	Conflation       bool
	// Contended says that other requests were under way. A pop waits for none of them, so
	// what they are at it may pass over, and what comes in meanwhile as well.
	Contended bool
}

// Delivery is a message in the answer of a pop.
type Delivery struct {
	ID          string
	Key         string
	Payload     string
	TraceID     string
	PartitionID string
	Partition   string
	CreatedMs   int64
	// Of a broker that tells them; the attempt is 0 with one that does not.
	Offset  int64
	Attempt int64
}

// PopAnswer is the answer of a pop; the zero value is the one with nothing in it.
type PopAnswer struct {
	LeaseID    string
	Messages   []Delivery
	Conflation bool // it was applied
	Conflict   bool // it was asked for, and the group's subscription says no
}

// lateMs is how much later than its time a queue or discovery pop may notice that a lease
// has ended or a message has become visible.
const lateMs = 10

// offer is a partition that has something for a group.
type offer struct {
	p     *partition
	c     *cursor
	batch []*message // all that is visible, in order
	late  bool       // since so short a time that the broker may not have noticed
}

// Pop compares the answer of a pop and takes over what it chose: the partitions, and the
// lease id.
func (m *Model) Pop(r *Pop, got *PopAnswer) error {
	if m.PopMaintenance {
		return compareClosed(r, got)
	}
	group := cmp.Or(r.Group, QueueMode)
	offers := map[*partition]*offer{}
	for _, p := range m.reach(r, group) {
		if o := m.offer(p, group, r.Pinned); o != nil {
			offers[p] = o
		}
	}
	if err := m.compareEcho(r, group, got); err != nil {
		return err
	}
	budget, claimed := max(r.Batch, 1), 0
	for rest := got.Messages; len(rest) > 0; claimed++ {
		if p, _ := m.messageByID(rest[0].ID); p != nil && !r.mayClaim(p, group, claimed) {
			return fmt.Errorf("%q is of one partition too many", rest[0].Key)
		}
		n, err := m.claim(r, group, offers, rest, budget, got.LeaseID)
		if err != nil {
			return err
		}
		rest, budget = rest[n:], budget-n
	}
	if budget == 0 || r.Contended {
		return nil
	}
	maps.DeleteFunc(offers, func(p *partition, _ *offer) bool { return !r.mayClaim(p, group, claimed) })
	return missed(offers)
}

// compareClosed compares the answer of a pop that finds the door closed. It touches nothing,
// and says of conflation that it is known.
func compareClosed(r *Pop, got *PopAnswer) error {
	if len(got.Messages) > 0 || got.Conflation != r.Conflation || got.Conflict {
		return fmt.Errorf("under pop maintenance: got %+v", *got)
	}
	return nil
}

// mayClaim reports whether a call that has claimed so many partitions may claim p as well. A
// group that conflates is bounded by the batch alone where the request does not say.
func (r *Pop) mayClaim(p *partition, group string, claimed int) bool {
	switch {
	case r.Pinned:
		return claimed == 0
	case r.PartitionsAbsent:
		return claimed == 0 || p.conflates(group)
	}
	return r.Partitions <= 0 || claimed < r.Partitions
}

// missed complains of a partition that had something, when there was room for more.
func missed(offers map[*partition]*offer) error {
	var names []string
	for p, o := range offers {
		if !o.late {
			names = append(names, fmt.Sprintf("%s from %q", p, o.batch[0].key))
		}
	}
	if len(names) == 0 {
		return nil
	}
	slices.Sort(names)
	return fmt.Errorf("nothing of %v", names)
}

// reach does what a pop does to the queues it meets, and returns the partitions it may
// claim.
func (m *Model) reach(r *Pop, group string) []*partition {
	switch {
	case r.Pinned:
		return m.reachPartition(r, group)
	case !r.Discovery:
		q := m.ensureQueue(r.Queue, implied)
		m.register(q, group, r)
		return sorted(q.partitions)
	}
	var found []*partition
	for _, q := range sorted(m.queues) {
		if r.matches(q) {
			m.register(q, group, r)
			found = append(found, sorted(q.partitions)...)
		}
	}
	return found
}

// matches reports whether a discovery pop looks into q.
func (r *Pop) matches(q *queue) bool {
	return (r.Namespace == "" || q.options.Namespace == r.Namespace) && (r.Task == "" || q.options.Task == r.Task)
}

// reachPartition creates the group's cursor in one partition, and nothing else.
func (m *Model) reachPartition(r *Pop, group string) []*partition {
	q := m.queue(r.Queue)
	if q == nil || q.partitions[r.Partition] == nil {
		return nil
	}
	p := q.partitions[r.Partition]
	if p.at(group) == nil {
		mode, instantMs := r.place()
		if s, ok := q.registered[group]; ok {
			mode, instantMs = s.mode, s.instantMs
		} else if group == QueueMode {
			mode = modeAll
		} else if mode == modeNew {
			instantMs = m.nowMs // above every message, since the clock moves on
		}
		p.keep(group, &cursor{committed: p.seed(mode, instantMs)})
	}
	q.polled = q.polled || group == QueueMode
	return []*partition{p}
}

// register writes the subscription of a group that pops for the first time.
func (m *Model) register(q *queue, group string, r *Pop) {
	if group == QueueMode {
		q.polled = true
		return
	}
	if s, ok := q.registered[group]; ok {
		s.dormant = false
		q.registered[group] = s
		return
	}
	mode, instantMs := r.place()
	if mode == modeNew {
		instantMs = m.afterAll(q)
	}
	q.registered[group] = subscription{mode: mode, instantMs: instantMs, createdMs: m.nowMs, conflation: r.Conflation}
}

// place reads the parameters of a first contact.
func (r *Pop) place() (mode, int64) {
	switch {
	case r.From != "" && r.From != "now" && r.FromOK:
		return modeTimestamp, r.FromMs
	case r.From != "" || r.Mode == "new":
		return modeNew, 0
	}
	return modeAll, 0
}

// offer returns what p has for the group, or nil.
func (m *Model) offer(p *partition, group string, pinned bool) *offer {
	c := p.at(group)
	if c == nil || c.live(m.nowMs) {
		return nil
	}
	m.seal(p, c, pinned)
	batch, sinceMs := m.visible(p, c)
	if len(batch) == 0 {
		return nil
	}
	if c.lease != nil {
		sinceMs = max(sinceMs, c.lease.expiryMs)
	}
	return &offer{p: p, c: c, batch: batch, late: !pinned && m.nowMs-sinceMs <= lateMs}
}

// visible returns the messages above the cursor that may be delivered, and since when
// there have been any: 0 if nothing ever held them back.
func (m *Model) visible(p *partition, c *cursor) (batch []*message, sinceMs int64) {
	o := &p.queue.options
	unseen := p.messages[max(c.committed+1, p.start):]
	if len(unseen) == 0 {
		return nil, 0
	}
	if o.WindowBuffer > 0 && len(unseen) < windowBufferCount {
		if sinceMs = unseen[0].createdMs + o.WindowBuffer*1000; sinceMs > m.nowMs {
			return nil, 0
		}
	}
	if o.DelayedProcessing > 0 {
		sinceMs = max(sinceMs, unseen[0].createdMs+o.DelayedProcessing*1000)
	}
	for _, msg := range unseen {
		if o.DelayedProcessing > 0 && msg.createdMs+o.DelayedProcessing*1000 > m.nowMs {
			break
		}
		batch = append(batch, msg)
	}
	return batch, sinceMs
}

// windowBufferCount is how many unseen messages open a partition that windowBuffer holds.
const windowBufferCount = 100

// claim compares the first partition's part of an answer, and returns its length.
func (m *Model) claim(r *Pop, group string, offers map[*partition]*offer, got []Delivery, budget int, leaseID string) (int, error) {
	p, _ := m.messageByID(got[0].ID)
	if p == nil {
		return 0, fmt.Errorf("message %s %q was never pushed, or is deleted", got[0].ID, got[0].Key)
	}
	o := offers[p]
	if o == nil {
		return 0, fmt.Errorf("%s delivers %q, but has nothing for %s, or twice", p, got[0].Key, group)
	}
	delete(offers, p)
	want := o.batch
	if p.conflates(group) {
		want = want[len(want)-1:]
	}
	want = want[:min(len(want), budget)]
	if r.Contended {
		want = want[:min(len(want), ofOnePartition(got))]
	}
	for i, msg := range want {
		if i >= len(got) {
			return 0, fmt.Errorf("%s delivers %d messages, want %d", p, i, len(want))
		}
		if err := p.compare(msg, o.attempt(r), &got[i]); err != nil {
			return 0, err
		}
	}
	m.hand(r, group, o, want[len(want)-1].offset, leaseID)
	return len(want), nil
}

// ofOnePartition is how many messages at the front are of one partition.
func ofOnePartition(got []Delivery) int {
	n := slices.IndexFunc(got, func(d Delivery) bool { return d.PartitionID != got[0].PartitionID })
	if n < 0 {
		return len(got)
	}
	return n
}

// compare checks a delivered message and learns the partition's id from it.
func (p *partition) compare(msg *message, attempt int64, got *Delivery) error {
	if err := learn(&p.id, got.PartitionID); err != nil {
		return fmt.Errorf("id of partition %s: %w", p, err)
	}
	want := Delivery{
		ID: msg.id, Key: msg.key, Payload: msg.payload, TraceID: msg.traceID,
		PartitionID: p.id, Partition: p.name, CreatedMs: msg.createdMs,
	}
	if got.Attempt != 0 {
		want.Offset, want.Attempt = msg.offset, attempt
	}
	if *got != want {
		return fmt.Errorf("%s delivers %+v, want %+v", p, *got, want)
	}
	return nil
}

// learn sets a name that the broker chooses, or compares it.
func learn(known *string, got string) error {
	if *known == "" {
		*known = got
	}
	if got == "" || *known != got {
		return fmt.Errorf("got %q, want %q", got, *known)
	}
	return nil
}

// attempt is how often the batch will have been handed out. What is acknowledged with that
// is so once.
func (o *offer) attempt(r *Pop) int64 {
	if r.AutoAck || o.c.attempt == 0 || o.c.attemptStart != o.batch[0].offset {
		return 1
	}
	return o.c.attempt + 1
}

// hand gives the messages up to end out.
func (m *Model) hand(r *Pop, group string, o *offer, end int64, leaseID string) {
	c := o.c
	o.p.keep(group, c)
	if r.AutoAck {
		c.lease = nil
		c.commit(o.p, end)
		return
	}
	c.attempt, c.attemptStart = o.attempt(r), o.batch[0].offset
	seconds := int64(r.LeaseSeconds)
	if seconds <= 0 {
		seconds = o.p.queue.options.LeaseTime
	}
	if seconds <= 0 {
		seconds = 60
	}
	c.lease = &lease{
		id: leaseID, expiryMs: m.nowMs + seconds*1000, from: o.batch[0].offset, end: end,
		conflating: o.p.conflates(group), prior: c.lease,
	}
}
